use std::time::SystemTime;

use greenroom_protocol::Timestamp;
use serde_json::json;

use super::*;

fn record(id: u64) -> SessionRecord {
    SessionRecord { created: SystemTime::UNIX_EPOCH, ..SessionRecord::new(SessionId(id)) }
}

fn event(kind: &'static str) -> NewEvent {
    NewEvent { time: Timestamp(1), kind, session: Some(3), data: json!(null) }
}

#[tokio::test]
async fn records_and_ids_outlive_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("g.db");
    let (store, known) = Storage::open(&path, 100).unwrap();
    assert!(known.is_empty());
    assert_eq!(store.next_id().await.unwrap(), SessionId(1));
    store.save(record(1)).await.unwrap();
    assert_eq!(store.next_id().await.unwrap(), SessionId(2));
    store.save(record(2)).await.unwrap();
    store.remove(SessionId(2)).await.unwrap();
    drop(store);
    let (store, known) = Storage::open(&path, 100).unwrap();
    assert_eq!(known, [record(1)]);
    assert_eq!(store.next_id().await.unwrap(), SessionId(3));
}

#[tokio::test]
async fn live_events_are_in_the_file_already() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Storage::open(&dir.path().join("g.db"), 100).unwrap();
    let mut live = store.live();
    store.log(event("a.b"));
    let told = live.recv().await.unwrap();
    assert_eq!((told.id, told.kind.as_str()), (1, "a.b"));
    assert_eq!(store.newest_event(), 1);
    let page = store.page(Query { limit: 10, ..Query::default() }).await.unwrap();
    assert_eq!(page.events, [(*told).clone()]);
}

#[tokio::test]
async fn a_gap_in_the_log_is_marked() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Storage::open(&dir.path().join("g.db"), 100).unwrap();
    store.shared.lose(7);
    store.log(event("a.b"));
    store.flush().await;
    let page = store.page(Query { limit: 10, ..Query::default() }).await.unwrap();
    let kinds: Vec<&str> = page.events.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(kinds, ["a.b", "events.dropped"]);
    assert_eq!(page.events[1].data, json!({"count": 7}));
    assert_eq!(store.lost_events(), 7);
}

#[tokio::test]
async fn old_events_go_first() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Storage::open(&dir.path().join("g.db"), 50).unwrap();
    for _ in 0..PRUNE_EVERY + 100 {
        store.log(event("a.b"));
    }
    store.flush().await;
    let page = store.page(Query { limit: 9999, ..Query::default() }).await.unwrap();
    assert!(page.events.len() <= (50 + PRUNE_EVERY) as usize, "{}", page.events.len());
    assert_eq!(page.next_since, PRUNE_EVERY + 100);
    assert!(page.dropped > 0);
}

#[tokio::test]
async fn records_are_saved_in_the_order_of_the_calls() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("g.db");
    let (store, _) = Storage::open(&path, 100).unwrap();
    let older = store.save(record(1));
    let newer = store.save(SessionRecord { name: "renamed".into(), ..record(1) });
    newer.await.unwrap();
    older.await.unwrap();
    drop(store);
    let (_, known) = Storage::open(&path, 100).unwrap();
    assert_eq!(known[0].name, "renamed");
}

//! The event log: pages, following, restarts, lag.

use greenroom_client::{Client, EventFilter, EventStream};
use serde_json::{Value, json};

use crate::fake_host::{FakeHost, within};

fn event(id: u64) -> Value {
    json!({"id": id, "time": "2026-01-01T00:00:00.000Z", "kind": "session.started", "session": "s1", "data": {"pid": id}})
}

fn push(id: u64) -> Value {
    json!({"subscription": "e1", "event": event(id)})
}

async fn ids(stream: &mut EventStream, count: usize) -> Vec<u64> {
    let mut ids = vec![];
    for _ in 0..count {
        ids.push(within(stream.next()).await.unwrap().unwrap().id);
    }
    ids
}

#[tokio::test]
async fn pages_are_read_to_the_end() {
    let host = FakeHost::new();
    let client = Client::connect(host.path()).await.unwrap();
    let mut peer = host.accept().await;
    let filter = EventFilter { sessions: vec!["s1".into()], kinds: vec![] };
    let mut stream = client.events(Some(3), filter, false);
    let reading = tokio::spawn(async move {
        let found = ids(&mut stream, 3).await;
        assert_eq!(stream.next().await.unwrap(), None);
        found
    });
    let (id, params) = peer.expect("server.subscribe").await;
    assert_eq!(params, json!({"since": 3, "sessions": ["s1"], "follow": false}));
    peer.answer(id, json!({"events": [event(4), event(6)], "next_since": 6, "has_more": true}))
        .await;
    let (id, params) = peer.expect("server.subscribe").await;
    assert_eq!(params["since"], 6);
    peer.answer(id, json!({"events": [event(7)], "next_since": 7, "has_more": false})).await;
    assert_eq!(within(reading).await.unwrap(), [4, 6, 7]);
}

#[tokio::test]
async fn a_page_that_leads_nowhere_ends_the_stream() {
    let host = FakeHost::new();
    let client = Client::connect(host.path()).await.unwrap();
    let mut peer = host.accept().await;
    let reading =
        tokio::spawn(
            async move { client.events(None, EventFilter::default(), false).next().await },
        );
    let (id, _) = peer.expect("server.subscribe").await;
    peer.answer(id, json!({"events": [], "next_since": 0, "has_more": true})).await;
    assert_eq!(within(reading).await.unwrap().unwrap(), None);
}

#[tokio::test]
async fn following_goes_on_after_restarts_and_lag_without_loss_or_double() {
    let host = FakeHost::new();
    let client = Client::connect(host.path()).await.unwrap();
    let _first = host.accept().await;
    let mut stream = client.events(None, EventFilter::default(), true);
    let reading = tokio::spawn(async move { ids(&mut stream, 6).await });

    let mut peer = host.accept().await;
    let (id, params) = peer.expect("server.subscribe").await;
    assert_eq!(params, json!({"follow": true}));
    peer.answer(id, json!({"subscription": "e1", "next_since": 10})).await;
    drop(peer);

    // Nothing came before the restart, and still nothing since then is missed.
    let mut peer = host.accept().await;
    let (id, params) = peer.expect("server.subscribe").await;
    assert_eq!(params["since"], 10);
    // Pushed before the answer, and one of them known already.
    peer.push("server.event", push(10)).await;
    peer.answer(id, json!({"subscription": "e1", "next_since": 12})).await;
    peer.push("server.event", push(11)).await;
    peer.push("server.event", push(11)).await;
    peer.push("session.changed", json!({"session": "s1", "sequence": 1})).await;
    peer.push("server.event", push(12)).await;
    drop(peer);

    let mut peer = host.accept().await;
    let (id, params) = peer.expect("server.subscribe").await;
    assert_eq!(params["since"], 12);
    peer.answer(id, json!({"subscription": "e1", "next_since": 20})).await;
    peer.push("server.event", push(13)).await;
    drop(peer);

    let mut peer = host.accept().await;
    let (id, params) = peer.expect("server.subscribe").await;
    assert_eq!(params["since"], 13, "what was missed is read again");
    peer.answer(id, json!({"subscription": "e1", "next_since": 20})).await;
    for id in 14..=16 {
        peer.push("server.event", push(id)).await;
    }
    assert_eq!(within(reading).await.unwrap(), [11, 12, 13, 14, 15, 16]);
}

#[tokio::test]
async fn starting_subscribes_before_the_first_event_is_asked_for() {
    let host = FakeHost::new();
    let client = Client::connect(host.path()).await.unwrap();
    let _first = host.accept().await;
    let mut stream = client.events(Some(0), EventFilter::default(), true);
    let starting = tokio::spawn(async move { stream.start().await.map(|()| stream) });
    let mut peer = host.accept().await;
    let (id, _) = peer.expect("server.subscribe").await;
    peer.answer(id, json!({"subscription": "e1", "next_since": 5})).await;
    let mut stream = within(starting).await.unwrap().unwrap();
    assert_eq!(stream.seen(), Some(0));
    peer.push("server.event", push(1)).await;
    assert_eq!(ids(&mut stream, 1).await, [1]);
}

#[tokio::test]
async fn a_refused_subscription_is_told() {
    let host = FakeHost::new();
    let client = Client::connect(host.path()).await.unwrap();
    let _first = host.accept().await;
    let reading =
        tokio::spawn(async move { client.events(None, EventFilter::default(), true).next().await });
    let mut peer = host.accept().await;
    let (id, _) = peer.expect("server.subscribe").await;
    peer.refuse(id, -32004, "permission_denied").await;
    assert_eq!(within(reading).await.unwrap().unwrap_err().exit(), 5);
}

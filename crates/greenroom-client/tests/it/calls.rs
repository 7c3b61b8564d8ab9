//! Calls: side by side, cancelled, lost, sent again or not.

use std::time::Duration;

use greenroom_client::api::Empty;
use greenroom_client::api::matcher::Test;
use greenroom_client::api::screen::SnapshotFormat;
use greenroom_client::api::server::HelloParams;
use greenroom_client::api::session::*;
use greenroom_client::{Client, ClientError, FaultKind, Options, method};
use serde_json::{Value, json};

use crate::fake_host::{FakeHost, Peer, within};

async fn pair() -> (FakeHost, Client, Peer) {
    let host = FakeHost::new();
    let client = Client::connect(host.path()).await.unwrap();
    let peer = host.accept().await;
    (host, client, peer)
}

fn info(session: &str) -> InfoParams {
    InfoParams::of(session)
}

fn info_of(id: &str) -> Value {
    serde_json::to_value(SessionInfo { id: id.into(), ..SessionInfo::default() }).unwrap()
}

#[tokio::test]
async fn answers_out_of_order_reach_their_callers() {
    let (_host, client, mut peer) = pair().await;
    let calls: Vec<_> = (0..50)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move {
                client
                    .call::<method::SessionInfo>(&info(&format!("s{n}")))
                    .await
                    .map(|info| info.id)
            })
        })
        .collect();
    let mut requests = vec![];
    for _ in 0..50 {
        requests.push(peer.expect("session.info").await);
    }
    for (id, params) in requests.into_iter().rev() {
        peer.answer(id, info_of(params["session"].as_str().unwrap())).await;
    }
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(within(call).await.unwrap().unwrap(), format!("s{n}"));
    }
}

#[tokio::test]
async fn a_fault_keeps_its_kind_hint_and_exit_code() {
    let (_host, client, mut peer) = pair().await;
    let call = tokio::spawn(async move { client.call::<method::SessionInfo>(&info("nope")).await });
    let (id, _) = peer.expect("session.info").await;
    peer.refuse(id, -32602, "unknown_session").await;
    let error = within(call).await.unwrap().unwrap_err();
    assert_eq!((error.kind(), error.exit()), (FaultKind::UnknownSession, 6));
    assert_eq!(
        (error.to_string().as_str(), error.hint().as_deref()),
        ("it is unknown_session", Some("h"))
    );
}

#[tokio::test]
async fn an_answer_of_another_shape_is_our_bug() {
    let (_host, client, mut peer) = pair().await;
    let call = tokio::spawn(async move { client.call::<method::ServerStats>(&Empty {}).await });
    let (id, _) = peer.expect("server.stats").await;
    peer.answer(id, json!([])).await;
    let error = within(call).await.unwrap().unwrap_err();
    assert_eq!(error.exit(), 70);
    assert!(error.to_string().starts_with("cannot read the answer to server.stats"), "{error}");
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_on_the_wire() {
    let (_host, client, mut peer) = pair().await;
    let waiting = client.clone();
    let wait = tokio::spawn(async move {
        waiting.wait(&WaitParams::new("s1", Test::ProcessExited)).await.is_ok()
    });
    let (id, _) = peer.expect("session.wait").await;
    wait.abort();
    let (_, params) = peer.expect("$/cancelRequest").await;
    assert_eq!(params["id"], id);
    // The late answer disturbs nobody.
    peer.refuse(id, -32005, "cancelled").await;
    let hello =
        tokio::spawn(
            async move { client.call::<method::ServerHello>(&HelloParams::default()).await },
        );
    let (id, _) = peer.expect("server.hello").await;
    peer.answer(id, json!({"protocol": 1, "name": "greenroom", "version": "1"})).await;
    assert_eq!(within(hello).await.unwrap().unwrap().protocol, 1);
}

#[tokio::test]
async fn an_answered_call_is_not_cancelled() {
    let (_host, client, mut peer) = pair().await;
    for n in 0..3 {
        let client = client.clone();
        let call =
            tokio::spawn(async move { client.call::<method::SessionInfo>(&info("s1")).await });
        // Were there a cancellation of the call before, it would come first.
        let (id, _) = peer.expect("session.info").await;
        peer.answer(id, info_of(&format!("s{n}"))).await;
        within(call).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_read_is_sent_again_after_a_restart() {
    let (host, client, mut peer) = pair().await;
    let call = tokio::spawn(async move { client.call::<method::SessionInfo>(&info("s1")).await });
    peer.expect("session.info").await;
    drop(peer);
    let mut peer = host.accept().await;
    let (id, _) = peer.expect("session.info").await;
    peer.answer(id, info_of("s1")).await;
    assert_eq!(within(call).await.unwrap().unwrap().id, "s1");
}

#[tokio::test]
async fn a_create_is_not_sent_again() {
    let (host, client, mut peer) = pair().await;
    let creating = client.clone();
    let call = tokio::spawn(async move {
        creating.call::<method::SessionCreate>(&CreateParams::default()).await
    });
    peer.expect("session.create").await;
    drop(peer);
    let error = within(call).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, ClientError::EffectUnknown { method } if method == "session.create"),
        "{error}"
    );
    assert_eq!((error.kind(), error.exit()), (FaultKind::Unavailable, 7));
    assert!(error.to_string().contains("unknown"));

    // The client itself is fine: the next call goes to the new daemon, and it is the first there.
    let call = tokio::spawn(async move {
        client.call::<method::SessionCreate>(&CreateParams::default()).await
    });
    let mut peer = host.accept().await;
    let (id, _) = peer.expect("session.create").await;
    peer.answer(id, json!({"session": "s1"})).await;
    assert_eq!(within(call).await.unwrap().unwrap().session, "s1");
}

#[tokio::test]
async fn a_wait_goes_on_with_the_time_it_has_left() {
    let (host, client, mut peer) = pair().await;
    let mut params = WaitParams::new("s1", Test::ContainsText("x".into()));
    params.timeout_ms = 60_000;
    params.snapshot = Some(SnapshotChoice::Format(SnapshotFormat::Text));
    let call = tokio::spawn(async move { client.wait(&params).await });
    let (_, first) = peer.expect("session.wait").await;
    assert!((59_000..=60_000).contains(&first["timeout_ms"].as_u64().unwrap()), "{first}");
    // The deadline of the caller is on the clock, so time must really pass.
    tokio::time::sleep(Duration::from_millis(30)).await;
    drop(peer);
    let mut peer = host.accept().await;
    let (id, mut second) = peer.expect("session.wait").await;
    let left = second["timeout_ms"].as_u64().unwrap();
    assert!(left <= 59_970, "{left}");
    second["timeout_ms"] = first["timeout_ms"].clone();
    assert_eq!(second, first, "nothing else changes");
    peer.answer(id, json!({"matched": true, "sequence": 9, "elapsed_ms": 1})).await;
    assert_eq!(within(call).await.unwrap().unwrap().sequence, 9);
}

#[tokio::test]
async fn many_calls_survive_many_restarts() {
    let (host, client, mut peer) = pair().await;
    let calls: Vec<_> = (0..20)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move {
                client.call::<method::SessionInfo>(&info(&format!("s{n}"))).await.unwrap().id
            })
        })
        .collect();
    let mut left: usize = 20;
    for round in 0.. {
        // Each daemon answers one more than the one before, then dies.
        for _ in 0..left.min(round) {
            let mut request = peer.request().await;
            let session = request["params"]["session"].take();
            peer.answer(request["id"].take(), info_of(session.as_str().unwrap())).await;
            left -= 1;
        }
        drop(peer);
        if left == 0 {
            break;
        }
        peer = host.accept().await;
    }
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(within(call).await.unwrap(), format!("s{n}"));
    }
}

#[tokio::test]
async fn a_call_that_kills_every_daemon_ends() {
    let (host, client, mut peer) = pair().await;
    let call = tokio::spawn(async move { client.call::<method::SessionInfo>(&info("s1")).await });
    let killer = tokio::spawn(async move {
        loop {
            let _ = peer.request_or_end().await;
            drop(peer);
            peer = host.accept().await;
        }
    });
    let error = within(call).await.unwrap().unwrap_err();
    killer.abort();
    assert!(matches!(error, ClientError::KeepsFailing { .. }), "{error}");
    assert_eq!(error.exit(), 7);
}

#[tokio::test]
async fn without_reconnecting_a_loss_is_told() {
    let host = FakeHost::new();
    let options = Options { reconnect: false, ..Options::default() };
    let client = Client::connect_with(host.path(), options).await.unwrap();
    let mut peer = host.accept().await;
    let calling = client.clone();
    let call = tokio::spawn(async move { calling.call::<method::SessionInfo>(&info("s1")).await });
    peer.expect("session.info").await;
    drop(peer);
    assert_eq!(within(call).await.unwrap().unwrap_err().kind(), FaultKind::Unavailable);
    let error = within(client.call::<method::SessionInfo>(&info("s1"))).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn garbage_from_the_host_does_not_hang_a_caller() {
    let (host, client, mut peer) = pair().await;
    let call = tokio::spawn(async move { client.call::<method::SessionInfo>(&info("s1")).await });
    peer.expect("session.info").await;
    peer.write(b"\xff\xfe\n").await;
    let mut peer = host.accept().await;
    let (id, _) = peer.expect("session.info").await;
    peer.answer(id, info_of("s1")).await;
    within(call).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_oversize_request_is_refused_here() {
    let (_host, client, _peer) = pair().await;
    let name = "x".repeat(17 * 1024 * 1024);
    let error = within(client.call::<method::SessionInfo>(&info(&name))).await.unwrap_err();
    assert_eq!(error.kind(), FaultKind::TooLarge);
}

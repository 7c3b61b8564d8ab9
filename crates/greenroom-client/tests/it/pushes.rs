//! Pushed notifications: told to all, bounded, across restarts.

use greenroom_client::api::Empty;
use greenroom_client::api::event::{ChangedPush, OutputPush};
use greenroom_client::api::server::SetNotifications;
use greenroom_client::{Client, Push, method};
use serde_json::json;

use crate::fake_host::{FakeHost, within};

#[tokio::test]
async fn pushes_between_answers_reach_every_listener() {
    let host = FakeHost::new();
    let client = Client::connect(host.path()).await.unwrap();
    let mut peer = host.accept().await;
    let (mut one, mut two) = (client.notifications(), client.notifications());
    peer.push("session.changed", json!({"session": "s1", "sequence": 4})).await;
    peer.push(
        "session.output",
        json!({"session": "s1", "sequence": 5, "output": "x", "dropped": 2}),
    )
    .await;
    for listener in [&mut one, &mut two] {
        let changed: ChangedPush =
            within(listener.next()).await.unwrap().params("session.changed").unwrap();
        assert_eq!((changed.session.as_str(), changed.sequence), ("s1", 4));
        let output: OutputPush =
            within(listener.next()).await.unwrap().params("session.output").unwrap();
        assert_eq!((output.output.as_str(), output.dropped), ("x", Some(2)));
    }
}

#[tokio::test]
async fn a_flood_is_bounded_counted_and_does_not_delay_answers() {
    let host = FakeHost::new();
    let client = Client::connect(host.path()).await.unwrap();
    let mut peer = host.accept().await;
    let mut listener = client.notifications();
    let call =
        tokio::spawn(async move { client.call::<method::ServerStats>(&Empty {}).await.is_err() });
    let (id, _) = peer.expect("server.stats").await;
    for n in 0..5000 {
        peer.push("session.changed", json!({"session": "s1", "sequence": n})).await;
    }
    peer.refuse(id, -32026, "busy").await;
    // Nobody has read a push so far, and the answer is here.
    assert!(within(call).await.unwrap());
    let Some(Push::Lagged(lost)) = within(listener.next()).await else { panic!("nothing lost") };
    assert_eq!(listener.lost(), lost);
    let mut last = None;
    for _ in lost..5000 {
        let push: ChangedPush =
            within(listener.next()).await.unwrap().params("session.changed").unwrap();
        assert!(last.is_none_or(|last| push.sequence == last + 1));
        last = Some(push.sequence);
    }
    assert_eq!(last, Some(4999), "the newest are kept");
}

#[tokio::test]
async fn a_listener_alone_brings_the_pushes_back_after_a_restart() {
    let host = FakeHost::new();
    let client = Client::connect(host.path()).await.unwrap();
    let mut peer = host.accept().await;
    let asking = client.clone();
    let wanted =
        SetNotifications { enabled: true, adapters: None, sessions: Some(vec!["s1".into()]) };
    let call = tokio::spawn(async move { asking.set_notifications(&wanted).await });
    let (id, params) = peer.expect("server.set_notifications").await;
    peer.answer(id, params.clone()).await;
    within(call).await.unwrap().unwrap();

    let mut listener = client.notifications();
    drop(peer);
    let daemon = tokio::spawn(async move {
        let mut peer = host.accept().await;
        let (id, again) = peer.expect("server.set_notifications").await;
        peer.answer(id, again.clone()).await;
        peer.push("session.changed", json!({"session": "s1", "sequence": 1})).await;
        (host, peer, again)
    });
    assert!(matches!(within(listener.next()).await, Some(Push::Disconnected)));
    let mut kinds = vec![];
    for _ in 0..2 {
        kinds.push(match within(listener.next()).await.unwrap() {
            Push::Reconnected => "reconnected",
            Push::Notification { .. } => "push",
            other => panic!("{other:?}"),
        });
    }
    kinds.sort_unstable();
    assert_eq!(kinds, ["push", "reconnected"]);
    let (_host, _peer, again) = within(daemon).await.unwrap();
    assert_eq!(again, params);
}

//! Observers: told once, in order, from bounded queues.

use std::sync::Arc;

use greenroom_engine::SessionId;
use greenroom_formats::manifest::Hook;
use greenroom_plugin_api::file::Queue;
use serde_json::json;
use tokio::sync::Notify;

use super::fakes::{Stage, hook, payload};
use crate::host::Payload;

#[tokio::test]
async fn each_event_once_and_in_order() {
    let stage = Stage::new();
    stage.says("a", vec![hook("session.title"), hook("session.exited")], json!({ "ok": true }));
    stage.says("b", vec![hook("session.title")], json!({}));
    let host = stage.host();
    for number in 0..50u32 {
        let payload = Payload::new().fact("number", number);
        host.observe(Hook::SessionTitle, Some(SessionId(1)), payload);
    }
    host.observe(Hook::SessionExited, Some(SessionId(1)), payload(&[("status", "complete")]));
    host.stop().await;
    for (name, count) in [("a", 51), ("b", 50)] {
        let numbers: Vec<_> = stage
            .asked()
            .into_iter()
            .filter(|(asked, _)| asked == name)
            .map(|(_, request)| request)
            .collect();
        assert_eq!(numbers.len(), count, "{name}");
        let in_order = (0..50).all(|at| numbers[at]["payload"]["number"] == json!(at));
        assert!(in_order, "{name}");
        assert!(numbers.iter().all(|request| request.get("gap").is_none()));
    }
}

#[tokio::test]
async fn a_full_queue_loses_the_oldest_and_says_so() {
    let mut stage = Stage::new();
    let gate = Arc::new(Notify::new());
    stage.gate = Some(gate.clone());
    let mut entry = hook("session.title");
    entry.queue = Some(Queue { max_items: 4, ..Queue::default() });
    stage.says("a", vec![entry], json!({ "ok": true }));
    let host = stage.host();
    let tell = |number: u32| {
        host.observe(Hook::SessionTitle, None, Payload::new().fact("number", number));
    };
    tell(0);
    // The first is being told; the queue is empty again.
    while stage.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    for number in 1..=10 {
        tell(number);
    }
    for _ in 0..5 {
        gate.notify_one();
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
    }
    while stage.asked().len() < 5 {
        gate.notify_one();
        tokio::task::yield_now().await;
    }
    let told: Vec<_> = stage
        .asked()
        .into_iter()
        .map(|(_, request)| (request["payload"]["number"].clone(), request["gap"].clone()))
        .collect();
    let numbers: Vec<_> = told.iter().map(|(number, _)| number.clone()).collect();
    assert_eq!(numbers, [json!(0), json!(7), json!(8), json!(9), json!(10)]);
    assert_eq!(told[1].1, json!(6));
    assert_eq!(host.info("a").unwrap().stats.drops, 6);
}

#[tokio::test]
async fn nobody_is_told_of_itself() {
    let stage = Stage::new();
    stage.says("a", vec![hook("plugin.state")], json!({ "ok": true }));
    stage.says("b", vec![hook("plugin.state")], json!({ "ok": true }));
    let host = stage.host();
    host.observe(Hook::PluginState, None, payload(&[("plugin", "a"), ("state", "degraded")]));
    host.stop().await;
    assert_eq!(stage.asked_names(), ["b"]);
}

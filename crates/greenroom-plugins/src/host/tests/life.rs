//! Reloads, generations, on and off, by hand.

use std::sync::Arc;

use greenroom_engine::SessionId;
use greenroom_formats::manifest::{Hook, HookName};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::fakes::{Stage, Take, found, hook, payload};
use crate::host::Standing;
use crate::host::{GateOutcome, HostConfig, HostError};

#[tokio::test]
async fn a_reload_changes_only_what_changed() {
    let stage = Stage::new();
    stage.says("same", vec![hook("input.submit")], json!({ "action": "pass" }));
    stage.says("new", vec![hook("input.submit")], json!({ "action": "pass" }));
    stage.says("gone", vec![hook("input.submit")], json!({ "action": "pass" }));
    let host = stage.host();
    {
        let mut all = stage.found.lock().unwrap();
        all.retain(|found| found.name != "gone");
        all[1].digest = "sha256:2".to_owned();
        let mut broken = found("typo", vec![]);
        broken.standing = Standing::Invalid(vec!["plugin.toml:3: no".to_owned()]);
        broken.manifest = None;
        all.push(broken);
    }
    stage.says("added", vec![hook("input.submit")], json!({ "action": "pass" }));
    let told = host.reload(None).await.unwrap();
    assert_eq!(told.count, 4);
    assert_eq!((told.added.len(), &told.changed[..]), (2, &["new".to_owned()][..]));
    assert_eq!(told.removed, ["gone"]);
    assert_eq!(told.failed, [("typo".to_owned(), "plugin.toml:3: no".to_owned())]);
    let generation = |name: &str| host.info(name).unwrap().generation;
    assert_eq!((generation("same"), generation("new")), (1, 2));
    assert_eq!(host.info("typo").unwrap().state.word(), "invalid");
    assert_eq!(host.list().len(), 4);
    assert!(
        matches!(host.info("sane"), Err(HostError::Unknown { nearest: Some(near), .. }) if near == "same")
    );
    // By name it begins anew although nothing changed.
    host.reload(Some("same")).await.unwrap();
    assert_eq!(host.info("same").unwrap().generation, 2);
    assert!(matches!(host.reload(Some("nobody")).await, Err(HostError::Unknown { .. })));
}

#[tokio::test]
async fn a_broken_new_form_leaves_the_old_one_running() {
    let stage = Stage::new();
    stage.says("a", vec![hook("input.submit")], json!({ "action": "block", "reason": "old" }));
    let host = stage.host();
    {
        let mut all = stage.found.lock().unwrap();
        all[0].standing = Standing::Invalid(vec!["plugin.toml:1: broken".to_owned()]);
        all[0].manifest = None;
    }
    let told = host.reload(None).await.unwrap();
    assert_eq!(told.failed.len(), 1);
    let outcome = host.gate(Hook::InputSubmit, None, payload(&[])).await;
    assert!(matches!(outcome, GateOutcome::Block { .. }), "{outcome:?}");
}

#[tokio::test]
async fn a_call_under_way_ends_on_what_it_began_with() {
    let mut stage = Stage::new();
    let gate = Arc::new(Notify::new());
    stage.gate = Some(gate.clone());
    stage.says("a", vec![hook("input.submit")], json!({ "action": "block", "reason": "old" }));
    let host = stage.host();
    let asking = {
        let host = host.clone();
        tokio::spawn(async move { host.gate(Hook::InputSubmit, None, payload(&[])).await })
    };
    while stage.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    stage.found.lock().unwrap().clear();
    let told = host.reload(None).await.unwrap();
    assert_eq!((told.count, told.removed), (0, vec!["a".to_owned()]));
    gate.notify_one();
    let outcome = asking.await.unwrap();
    assert!(matches!(outcome, GateOutcome::Block { .. }), "{outcome:?}");
    let after = host.gate(Hook::InputSubmit, None, payload(&[])).await;
    assert!(matches!(after, GateOutcome::Pass { .. }), "{after:?}");
}

#[tokio::test]
async fn on_and_off_and_counts_last() {
    let stage = Stage::new();
    stage.says("a", vec![hook("input.submit")], json!({ "action": "block" }));
    stage.says("b", vec![hook("input.submit")], json!({ "action": "block" }));
    let config =
        HostConfig { enabled: true, disabled: vec!["a".to_owned()], ..HostConfig::default() };
    let host = stage.host_with(config.clone());
    assert_eq!(host.info("a").unwrap().state.word(), "disabled");
    assert!(matches!(
        host.gate(Hook::InputSubmit, None, payload(&[])).await,
        GateOutcome::Block { plugin, .. } if plugin == "b"
    ));
    host.enable("a").await.unwrap();
    host.disable("b").await.unwrap();
    host.reload(None).await.unwrap();
    assert!(matches!(
        host.gate(Hook::InputSubmit, None, payload(&[])).await,
        GateOutcome::Block { plugin, .. } if plugin == "a"
    ));
    host.stop().await;
    let again = stage.host_with(config);
    let state = |name: &str| again.info(name).unwrap().state.word();
    assert_eq!((state("a"), state("b")), ("idle", "disabled"));
    assert_eq!(again.info("b").unwrap().stats.calls, 1);
}

#[tokio::test]
async fn a_host_that_is_off_asks_nobody() {
    let stage = Stage::new();
    stage.says("a", vec![hook("input.submit")], json!({ "action": "block" }));
    let host = stage.host_with(HostConfig::default());
    assert!(matches!(
        host.gate(Hook::InputSubmit, None, payload(&[])).await,
        GateOutcome::Pass { .. }
    ));
    assert!(matches!(host.info("a"), Err(HostError::Disabled)));
    assert!(matches!(host.reload(None).await, Err(HostError::Disabled)));
    assert!(host.list().is_empty() && !host.listens(Hook::InputSubmit));
}

#[tokio::test]
async fn one_that_may_not_run_does_not() {
    for standing in [Standing::NeedsConsent, Standing::Modified] {
        let stage = Stage::new();
        stage.says("a", vec![hook("input.submit")], json!({ "action": "block" }));
        stage.found.lock().unwrap()[0].standing = standing;
        let host = stage.host();
        assert!(matches!(
            host.gate(Hook::InputSubmit, None, payload(&[])).await,
            GateOutcome::Pass { .. }
        ));
        let name = HookName::from(Hook::InputSubmit);
        let tested = host.test("a", name, Default::default()).await;
        assert!(matches!(tested, Err(HostError::CannotRun { .. })), "{tested:?}");
        assert_eq!(stage.asked().len(), 0);
    }
}

#[tokio::test]
async fn by_hand_answers_as_the_plugin_did() {
    let stage = Stage::new();
    stage.cast("my-filter", vec![hook("post_session_output")], |request| {
        let line = request["line"].as_str().unwrap_or_default();
        Take::Say(match line.starts_with("sk-") {
            true => json!({ "action": "replace", "line": "[redacted]" }),
            false => json!({ "action": "pass" }),
        })
    });
    let host = stage.host();
    let name = HookName::parse("post_session_output").unwrap();
    let payload = |line: &str| json!({ "line": line }).as_object().unwrap().clone();
    let tested = host.test("my-filter", name, payload("sk-abcd")).await.unwrap();
    assert_eq!(Value::Object(tested.answer), json!({ "action": "replace", "line": "[redacted]" }));
    let native = HookName::from(Hook::OutputFilter);
    let tested = host.test("my-filter", native, payload("x")).await.unwrap();
    assert_eq!((&*tested.action, tested.failure), ("pass", None));
    let other = HookName::from(Hook::SessionTitle);
    let tested = host.test("my-filter", other, payload("x")).await;
    assert!(matches!(tested, Err(HostError::NoSuchHook { .. })));
    assert_eq!(host.info("my-filter").unwrap().stats.calls, 2);
}

#[tokio::test]
async fn a_caller_that_goes_away_counts_neither_way() {
    let mut stage = Stage::new();
    stage.gate = Some(Arc::default());
    stage.says("a", vec![hook("input.submit")], json!({ "action": "pass" }));
    let host = stage.host();
    for _ in 0..10 {
        let asking = host.gate(Hook::InputSubmit, Some(SessionId(1)), payload(&[]));
        let gone = tokio::time::timeout(std::time::Duration::from_millis(1), asking).await;
        assert!(gone.is_err());
    }
    let info = host.info("a").unwrap();
    assert_eq!((info.stats.calls, info.state.word()), (0, "idle"));
}

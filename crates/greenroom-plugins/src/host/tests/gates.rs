//! Gates: order, changes, vetoes, failures.

use std::time::Duration;

use greenroom_engine::SessionId;
use greenroom_formats::manifest::{Hook, OnFailure, Stage as Place};
use serde_json::{Value, json};

use super::fakes::{Stage, Take, hook, payload};
use crate::host::Standing;
use crate::host::{Changed, GateOutcome, HostConfig, News, SessionFacts};

const ONE: Option<SessionId> = Some(SessionId(1));

fn passed(outcome: GateOutcome) -> (Value, Vec<Changed>) {
    match outcome {
        GateOutcome::Pass { fields, changed, .. } => (Value::Object(fields), changed),
        other => panic!("{other:?}"),
    }
}

fn blocked(outcome: GateOutcome) -> (String, String) {
    match outcome {
        GateOutcome::Block { plugin, reason } => (plugin, reason),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn names_decide_the_order_and_changes_chain() {
    let stage = Stage::new();
    let add = |word: &'static str| {
        move |request: &Value| {
            let before = request["payload"]["text"].as_str().unwrap_or_default();
            Take::Say(
                json!({ "action": "mutate", "fields": { "text": format!("{before}{word}") } }),
            )
        }
    };
    stage.cast("10-trim", vec![hook("input.submit")], add("b"));
    stage.cast("00-redact", vec![hook("input.submit")], add("a"));
    let host = stage.host();
    let outcome = host.gate(Hook::InputSubmit, ONE, payload(&[("text", "x")])).await;
    let (fields, changed) = passed(outcome);
    assert_eq!(fields, json!({ "text": "xab" }));
    let by: Vec<&str> = changed.iter().map(|change| &*change.plugin).collect();
    assert_eq!(by, ["00-redact", "10-trim"]);
    let names: Vec<String> =
        host.order(Hook::InputSubmit).0.into_iter().map(|one| one.plugin).collect();
    assert_eq!(names, ["00-redact", "10-trim"]);
}

#[tokio::test]
async fn the_first_block_ends_it() {
    let stage = Stage::new();
    stage.says("a", vec![hook("session.before")], json!({ "action": "pass" }));
    stage.says("b", vec![hook("session.before")], json!({ "action": "block", "reason": "no" }));
    stage.says("c", vec![hook("session.before")], json!({ "action": "pass" }));
    let host = stage.host();
    let outcome = host.gate(Hook::SessionBefore, ONE, payload(&[("task", "t")])).await;
    assert_eq!(blocked(outcome), ("b".to_owned(), "no".to_owned()));
    assert_eq!(stage.asked_names(), ["a", "b"]);
    assert_eq!(stage.asked()[0].1["session_id"], "s1");
}

#[tokio::test]
async fn a_stage_comes_before_a_name() {
    let stage = Stage::new();
    let mut late = hook("input.submit");
    late.stage = Place::Observe;
    stage.says("a", vec![late], json!({ "action": "pass" }));
    stage.says("b", vec![hook("input.submit")], json!({ "action": "pass" }));
    let host = stage.host();
    passed(host.gate(Hook::InputSubmit, ONE, payload(&[("text", "x")])).await);
    assert_eq!(stage.asked_names(), ["b", "a"]);
}

/// Every way to fail, and each policy.
#[tokio::test]
async fn a_failure_is_what_the_policy_says() {
    let answers = [
        json!({ "action": "redcat" }),
        json!({ "action": "replace", "line": "x" }),
        json!({ "action": "mutate", "fields": { "tsak": "x" } }),
        json!({ "error": "broken" }),
        json!({ "ok": true }),
        json!({ "action": 3 }),
    ];
    for answer in answers {
        let stage = Stage::new();
        stage.says("a", vec![hook("input.submit")], answer.clone());
        let host = stage.host();
        let outcome = host.gate(Hook::InputSubmit, ONE, payload(&[("text", "x")])).await;
        let (plugin, reason) = blocked(outcome);
        assert_eq!(plugin, "a", "{answer}");
        assert!(reason.starts_with("plugin a "), "{answer}: {reason}");
        assert_eq!(host.info("a").unwrap().stats.errors, 1, "{answer}");
        let told = stage.news.lock().unwrap().clone();
        let [News::Failed(failed)] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(failed.policy, OnFailure::Block);
    }
    // The same under a policy that asks, and one that passes.
    for (policy, name) in [(OnFailure::Ask, "ask"), (OnFailure::Pass, "pass")] {
        let stage = Stage::new();
        let mut entry = hook("input.submit");
        entry.on_failure = Some(policy);
        stage.cast("a", vec![entry], |_| Take::Fail);
        stage.says("b", vec![hook("input.submit")], json!({ "action": "pass" }));
        let outcome = stage.host().gate(Hook::InputSubmit, ONE, payload(&[("text", "x")])).await;
        match name {
            "ask" => assert!(matches!(outcome, GateOutcome::Ask { .. }), "{outcome:?}"),
            _ => assert_eq!(passed(outcome).0, json!({ "text": "x" })),
        }
    }
}

#[tokio::test]
async fn datawatch_fails_open_by_its_contract_and_the_operator_may_close_it() {
    let stage = Stage::new();
    stage.cast("old", vec![hook("pre_session_start")], |_| Take::Fail);
    let outcome = stage.host().gate(Hook::SessionBefore, ONE, payload(&[("task", "t")])).await;
    passed(outcome);
    for key in ["session.before", "pre_session_start", "old/session.before"] {
        let policy = [(key.to_owned(), OnFailure::Block)].into();
        let config = HostConfig { enabled: true, policy, ..HostConfig::default() };
        let host = stage.host_with(config);
        blocked(host.gate(Hook::SessionBefore, ONE, payload(&[("task", "t")])).await);
        assert_eq!(host.info("old").unwrap().hooks[0].on_failure, OnFailure::Block);
    }
}

#[tokio::test]
async fn one_that_hangs_is_given_up_on() {
    let stage = Stage::new();
    let mut entry = hook("input.submit");
    entry.timeout_ms = Some(20);
    stage.cast("a", vec![entry], |_| Take::Silence);
    let host = stage.host();
    for _ in 0..20 {
        blocked(host.gate(Hook::InputSubmit, ONE, payload(&[("text", "x")])).await);
    }
    assert_eq!(stage.asked_names().len(), 3);
    let info = host.info("a").unwrap();
    assert_eq!((info.stats.timeouts, info.state.word()), (3, "degraded"));
    let states: Vec<String> = stage
        .news
        .lock()
        .unwrap()
        .iter()
        .filter_map(|news| match news {
            News::State { after, .. } => Some(after.word().to_owned()),
            News::Failed(_) => None,
        })
        .collect();
    assert_eq!(states, ["degraded"]);
}

#[tokio::test]
async fn only_sessions_with_the_labels_are_concerned() {
    let stage = Stage::new();
    let mut entry = hook("session.before_kill");
    entry.when.labels = [("team".to_owned(), "red".to_owned())].into();
    stage.says("a", vec![entry], json!({ "action": "block" }));
    let host = stage.host();
    for (id, team) in [(1, "red"), (2, "blue")] {
        let labels = [("team".to_owned(), team.to_owned())].into();
        host.meet(&SessionFacts { id: SessionId(id), labels });
    }
    blocked(host.gate(Hook::SessionBeforeKill, ONE, payload(&[])).await);
    passed(host.gate(Hook::SessionBeforeKill, Some(SessionId(2)), payload(&[])).await);
    passed(host.gate(Hook::SessionBeforeKill, Some(SessionId(3)), payload(&[])).await);
}

#[tokio::test]
async fn a_required_guard_whose_bytes_changed_is_missed() {
    let stage = Stage::new();
    let mut guard = hook("input.submit");
    guard.required = true;
    stage.says("guard", vec![guard], json!({ "action": "pass" }));
    stage.says("other", vec![hook("input.submit")], json!({ "action": "pass" }));
    for found in stage.found.lock().unwrap().iter_mut() {
        found.standing = Standing::Modified;
    }
    let host = stage.host();
    let (plugin, _) = blocked(host.gate(Hook::InputSubmit, ONE, payload(&[("text", "x")])).await);
    assert_eq!(plugin, "guard");
    assert_eq!(stage.asked_names(), Vec::<String>::new());
    host.disable("guard").await.unwrap();
    passed(host.gate(Hook::InputSubmit, ONE, payload(&[("text", "x")])).await);
}

/// A required plugin whose files are gone still counts: its claim is left, and it is said.
#[tokio::test]
async fn a_required_guard_whose_files_are_gone_is_missed() {
    let stage = Stage::new();
    let mut guard = hook("input.submit");
    guard.required = true;
    stage.says("guard", vec![guard], json!({ "action": "pass" }));
    {
        let mut found = stage.found.lock().unwrap();
        found[0].manifest = None;
        found[0].standing = Standing::Invalid(vec!["no files".to_owned()]);
    }
    let host = stage.host();
    assert!(host.listens(Hook::InputSubmit));
    let (plugin, reason) =
        blocked(host.gate(Hook::InputSubmit, ONE, payload(&[("text", "x")])).await);
    assert!(plugin == "guard" && reason.contains("no files"), "{plugin}: {reason}");
    let told = host.troubles().join("\n");
    assert!(told.contains("guard is required") && told.contains("input.submit (block)"), "{told}");
    // Its claim has ended.
    stage.found.lock().unwrap()[0].claims.clear();
    host.reload(None).await.unwrap();
    passed(host.gate(Hook::InputSubmit, ONE, payload(&[("text", "x")])).await);
    assert_eq!(host.troubles(), Vec::<String>::new());
}

#[tokio::test]
async fn a_yes_is_more_than_no_opinion() {
    let stage = Stage::new();
    stage.says("a", vec![hook("approval.request")], json!({ "action": "pass" }));
    stage.says("b", vec![hook("approval.request")], json!({ "action": "allow" }));
    stage.says("c", vec![hook("approval.request")], json!({ "action": "deny" }));
    let outcome = stage.host().gate(Hook::ApprovalRequest, ONE, payload(&[])).await;
    let GateOutcome::Pass { allowed_by, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(allowed_by.as_deref(), Some("b"));
}

#[tokio::test]
async fn what_was_decided_is_written_down() {
    let stage = Stage::new();
    let change = json!({ "action": "mutate", "fields": { "text": "secret" } });
    stage.says("a", vec![hook("input.submit")], change);
    let host = stage.host();
    passed(host.gate(Hook::InputSubmit, ONE, payload(&[("text", "x")])).await);
    host.stop().await;
    let path = stage.state.as_ref().unwrap().path().join("audit.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let record: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(record["action"], "mutate");
    assert_eq!(record["fields"], json!(["text"]));
    assert!(!text.contains("secret"), "{text}");
}

#[tokio::test]
async fn the_budget_is_shared() {
    let stage = Stage::new();
    let mut entry = hook("session.before_kill");
    entry.timeout_ms = Some(1_000);
    for name in ["a", "b", "c", "d", "e"] {
        stage.cast(name, vec![entry.clone()], |_| Take::Silence);
    }
    let began = std::time::Instant::now();
    passed(stage.host().gate(Hook::SessionBeforeKill, ONE, payload(&[])).await);
    let took = began.elapsed();
    assert!(took < Duration::from_millis(3_500), "{took:?}");
}

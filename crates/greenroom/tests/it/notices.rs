//! Alerts, approvals and the bridge for agents' own hooks, from the command line.

use serde_json::{Value, json};

use crate::support::Home;

fn events(home: &Home, kind: &str) -> Vec<Value> {
    let text = home.ok(&["events", "--json"]);
    let all = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|event| event["kind"] == kind).collect()
}

#[test]
fn an_alert_is_an_event() {
    let home = Home::new();
    let raised = home.json(&["alert", "the build is red", "--severity", "error", "--json"]);
    assert_eq!(raised, json!({ "raised": true }));
    let logged = events(&home, "alert.raised");
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert_eq!(logged[0]["data"]["severity"], "error");
    assert_eq!(logged[0]["data"]["channel"], "user");
    let said = home.run(&["alert", "x", "--session", "nobody"]);
    assert_eq!(said.code, 6, "{said:?}");
    assert_eq!(home.json(&["approval", "list", "--json"]), json!({ "approvals": [] }));
    assert_eq!(home.run(&["approval", "allow", "a1"]).code, 6);
}

#[test]
fn an_agents_hook_is_told_and_never_fails() {
    let home = Home::new();
    // No host, no session: nothing happens, and nobody is started.
    let said = home.run_with_input(&["hook"], "{\"hook_event_name\":\"Stop\"}");
    assert_eq!((said.code, &*said.out, &*said.err), (0, "", ""), "{said:?}");
    assert!(!home.socket().exists());
    // Far more than a pipe holds: whoever writes it is not told of a broken one.
    let said = home.run_with_input(&["hook"], &"x".repeat(3 << 20));
    assert_eq!((said.code, &*said.out, &*said.err), (0, "", ""), "{said:?}");
    let id = home.shell("cat");
    let mut inside =
        home.command(&["hook", "{\"type\":\"agent-turn-complete\",\"turn-id\":\"1\"}"]);
    let output = inside.env("GREENROOM_SESSION", &id).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
    let mut wrong = home.command(&["hook", "not json"]);
    assert!(wrong.env("GREENROOM_SESSION", &id).status().unwrap().success());
    let logged = events(&home, "agent.event");
    assert_eq!(logged.len(), 1, "{logged:?}");
    let said = json!({ "type": "agent-turn-complete", "turn-id": "1" });
    let expected = json!({ "agent": "codex", "event": "agent-turn-complete", "data": said });
    assert_eq!(logged[0]["data"], expected);
}

#[test]
fn settings_of_agents_are_shown() {
    let home = Home::new();
    let text = home.ok(&["hooks", "install", "claude", "--print"]);
    let settings: Value = serde_json::from_str(&text).unwrap();
    let command = &settings["hooks"]["Stop"][0]["hooks"][0]["command"];
    assert_eq!(command, "greenroom hook --agent claude");
    let text = home.ok(&["hooks", "install", "codex", "--print"]);
    assert!(text.starts_with("notify = ["), "{text}");
    assert_eq!(home.run(&["hooks", "install", "claude"]).code, 2);
}

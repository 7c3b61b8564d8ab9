//! Alerts and what agents say of themselves.

use serde_json::json;

use super::stage::{
    CONFIG, datawatch, event, events, eventually, grant, home, native, noted, notes, noting,
    wait_exit,
};
use crate::host::Host;

#[test]
fn an_alert_is_changed_dropped_and_told() {
    let place = home(CONFIG);
    let filter = "#!/bin/sh\nread -r line\nprintf '%s\\n' \"$line\" >> \"$GREENROOM_PLUGIN_DATA/log\"\ncase \"$line\" in *noise*) echo '{\"action\":\"drop\"}';; *) echo '{\"action\":\"mutate\",\"fields\":{\"severity\":\"error\",\"text\":\"louder\"}}';; esac\n";
    native(place.path(), "filter", "oneshot", &["alert.filter"], "", filter);
    datawatch(place.path(), "notifier", &["on_alert"], &noting(r#"{"ok":true}"#));
    let host = Host::in_home(place, &[]);
    let mut client = host.client();
    grant(&mut client, "filter");
    let dropped = client.ok("alert.raise", json!({ "text": "only noise" }));
    assert_eq!(dropped, json!({ "raised": false, "dropped_by": "filter" }));
    let raised = client.ok("alert.raise", json!({ "text": "quiet", "severity": "info" }));
    assert_eq!(raised, json!({ "raised": true }));
    let told = noted(&host, "notifier", "on_alert", 1);
    let flat = json!({ "severity": "error", "channel": "user", "text": "louder" });
    let mut expected = flat.clone();
    expected["hook"] = json!("on_alert");
    expected["payload"] = flat;
    assert_eq!(told, [expected]);
    assert_eq!(notes(&host, "filter").len(), 2);
    let logged = events(&mut client, "alert.raised");
    assert_eq!(logged.len(), 1);
    assert_eq!(logged[0]["data"]["text"], "louder");
}

#[test]
fn a_session_that_fails_and_one_that_was_killed() {
    let place = home(CONFIG);
    datawatch(place.path(), "done", &["post_session_complete"], &noting(r#"{"ok":true}"#));
    let host = Host::in_home(place, &[]);
    let mut client = host.client();
    let (good, bad) = (host.session(&mut client, "exit 0"), host.session(&mut client, "exit 3"));
    wait_exit(&mut client, &good);
    wait_exit(&mut client, &bad);
    let killed = host.session(&mut client, "cat");
    client.ok("session.kill", json!({ "session": killed }));
    noted(&host, "done", "post_session_complete", 3);
    let status = |id: &str| {
        let all = notes(&host, "done");
        let one: Vec<_> = all.iter().filter(|note| note["session_id"] == id).collect();
        assert_eq!(one.len(), 1, "{id}: {all:?}");
        one[0]["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status(&good), "complete");
    assert_eq!(status(&bad), "failed");
    assert_eq!(status(&killed), "killed");
    let alerts = eventually("an alert", || {
        Some(events(&mut client, "alert.raised")).filter(|alerts| !alerts.is_empty())
    });
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    assert_eq!(alerts[0]["session"], json!(bad), "{alerts:?}");
}

#[test]
fn what_an_agent_says_is_told_without_its_secrets() {
    let place = home(CONFIG);
    native(place.path(), "watcher", "oneshot", &["agent.event"], "", &noting(r#"{"ok":true}"#));
    let host = Host::in_home(place, &[]);
    let mut client = host.client();
    grant(&mut client, "watcher");
    let id = host.session(&mut client, "cat");
    let secret = format!("sk-ant-{}", "a1B2".repeat(12));
    let data = json!({
        "hook_event_name": "PreToolUse", "tool_input": { "command": format!("export KEY={secret}") },
    });
    client.ok("hook.emit", json!({ "session": id, "agent": "claude", "data": data }));
    let told = noted(&host, "watcher", "agent.event", 1);
    assert_eq!(told[0]["payload"]["event"], "PreToolUse");
    assert_eq!(told[0]["payload"]["agent"], "claude");
    assert!(!told[0].to_string().contains(&secret), "{told:?}");
    assert!(told[0].to_string().contains("export KEY="), "{told:?}");
    let logged = event(&mut client, "agent.event");
    assert_eq!(logged["data"]["agent"], "claude");
    assert_eq!(logged["data"]["event"], "PreToolUse");
    let said = &logged["data"]["data"];
    assert_eq!(said["hook_event_name"], "PreToolUse", "{logged}");
    assert!(said["tool_input"]["command"].as_str().unwrap().contains("export KEY="), "{logged}");
    assert!(!logged.to_string().contains(&secret), "{logged}");
    client.fault("hook.emit", json!({ "session": "s99", "data": {} }));
}

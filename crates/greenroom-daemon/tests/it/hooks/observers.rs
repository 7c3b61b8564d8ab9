//! Every observer, once for each event.

use greenroom_formats::manifest::{Class, HOOKS};
use serde_json::{Value, json};

use super::stage::{CONFIG, eventually, grant, home, native, noted, notes, noting, wait_exit};
use crate::host::{Host, wait_for};

#[test]
fn every_observer_is_told_of_each_event_once() {
    let place = home(CONFIG);
    let observers: Vec<&str> =
        HOOKS.iter().filter(|row| row.class == Class::Observe).map(|row| row.name).collect();
    native(place.path(), "all", "oneshot", &observers, "", &noting(r#"{"ok":true}"#));
    native(
        place.path(),
        "other",
        "oneshot",
        &["alert.filter"],
        "",
        &noting(r#"{"action":"pass"}"#),
    );
    let host = Host::in_home(place, &[]);
    grant(&mut host.client(), "all");
    grant(&mut host.client(), "other");
    // A daemon that knows the plugin from its start.
    host.kill_daemon();
    let mut client = host.client();
    let repo = host.home.path().join("repo");
    test_kit::git::repository(&repo);
    let script = "printf '\\033]0;the title\\007'; echo last words; read -r line; exit 0";
    let created = client.ok(
        "session.create",
        json!({ "command": ["sh", "-c", script], "cwd": repo, "worktree": "x", "name": "mine" }),
    );
    let id = created["session"].as_str().unwrap().to_owned();
    wait_for(&mut client, &id, "last words");
    noted(&host, "all", "session.idle", 1);
    let data = json!({ "hook_event_name": "Stop" });
    client.ok("hook.emit", json!({ "session": id, "agent": "claude", "data": data }));
    client.ok("alert.raise", json!({ "text": "look", "session": id }));
    client.ok("plugin.disable", json!({ "name": "other" }));
    client
        .ok("session.input", json!({ "session": id, "action": { "type": "text", "value": "\n" } }));
    wait_exit(&mut client, &id);
    client.ok("session.info", json!({ "session": id, "settled": true }));
    for hook in &observers {
        let expected = if *hook == "session.state" { 2 } else { 1 };
        noted(&host, "all", hook, expected);
    }
    // A second event would have come by now: there is one queue, in order.
    client.ok("alert.raise", json!({ "text": "the end" }));
    eventually("the last alert", || {
        let told = notes(&host, "all");
        told.iter().any(|note| note["payload"]["text"] == "the end").then_some(())
    });
    let told = notes(&host, "all");
    let about =
        |hook: &str| -> Vec<&Value> { told.iter().filter(|note| note["hook"] == hook).collect() };
    for hook in &observers {
        let expected = match *hook {
            "session.state" | "alert.emit" => 2,
            _ => 1,
        };
        assert_eq!(about(hook).len(), expected, "{hook}: {:?}", about(hook));
    }
    let payload = |hook: &str| about(hook)[0]["payload"].clone();
    assert_eq!(payload("daemon.started")["restart"], true);
    assert_eq!(payload("session.started")["name"], "mine");
    assert_eq!(payload("session.title")["title"], "the title");
    let states: Vec<_> =
        about("session.state").iter().map(|note| note["payload"]["state"].clone()).collect();
    assert_eq!(states, ["running", "exited"]);
    let exited = payload("session.exited");
    assert_eq!((&exited["status"], &exited["code"]), (&json!("complete"), &json!(0)));
    assert!(exited["tail"].as_str().unwrap().contains("last words"), "{exited}");
    assert_eq!(payload("worktree.created")["branch"], "greenroom/x");
    assert!(payload("worktree.removed")["path"].as_str().is_some_and(|path| path.contains('x')));
    assert_eq!(payload("plugin.state")["plugin"], "other");
    assert_eq!(payload("plugin.state")["state"], "disabled");
    assert_eq!(payload("agent.event")["event"], "Stop");
    assert!(about("session.started").iter().all(|note| note["session_id"] == json!(id)));
}

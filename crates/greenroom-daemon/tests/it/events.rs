//! The event log: pages, pushes, and a cursor that holds across a crash.

use serde_json::{Value, json};

use crate::client::Client;
use crate::host::Host;

fn page(client: &mut Client, since: u64) -> Value {
    client
        .ok("server.subscribe", json!({ "since": since, "follow": false, "kinds": ["session.*"] }))
}

fn kinds(page: &Value) -> Vec<String> {
    page["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["kind"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_life_in_events() {
    let host = Host::start();
    let mut client = host.client();
    client.ok("server.subscribe", json!({ "since": 0, "kinds": ["session.exited"] }));
    let id = host.session(&mut client, "exit 5");
    let pushed = client.pushed("server.event");
    assert_eq!(pushed["event"]["session"], json!(id));
    assert_eq!(pushed["event"]["data"]["exit"]["code"], 5);
    client.ok("session.close", json!({ "session": id }));
    let log = page(&mut client, 0);
    let seen = kinds(&log);
    for kind in ["session.created", "session.started", "session.exited", "session.closed"] {
        assert!(seen.iter().any(|seen| seen == kind), "{kind} is not in {seen:?}");
    }
    let only = json!({ "since": 0, "follow": false, "sessions": ["s99"] });
    assert_eq!(client.ok("server.subscribe", only)["events"], json!([]));
}

#[test]
fn the_cursor_holds_across_a_crash() {
    let host = Host::start();
    let mut client = host.client();
    host.session(&mut client, "cat");
    let before = client.ok("server.subscribe", json!({ "since": 0, "follow": false }));
    let cursor = before["next_since"].as_u64().unwrap();
    let first = &before["events"][0];
    host.kill_daemon();
    let mut client = host.client();
    let again = client.ok("server.subscribe", json!({ "since": 0, "follow": false }));
    assert_eq!(&again["events"][0], first);
    client.ok(
        "server.subscribe",
        json!({ "since": cursor, "kinds": ["daemon.restarted", "session.reattached"] }),
    );
    let mut seen = vec![];
    while seen.len() < 2 {
        let event = client.pushed("server.event")["event"].clone();
        assert!(event["id"].as_u64().unwrap() > cursor);
        seen.push(event["kind"].as_str().unwrap().to_owned());
    }
    seen.sort();
    assert_eq!(seen, ["daemon.restarted", "session.reattached"]);
}

#[test]
fn a_page_waits_for_its_first_event() {
    let host = Host::start();
    let mut client = host.client();
    let params = json!({ "follow": false, "wait_ms": 30_000, "kinds": ["session.marked"] });
    let waiting = client.send("server.subscribe", params);
    let mut other = host.client();
    let id = host.session(&mut other, "cat");
    other.ok("session.mark", json!({ "session": id, "label": "now" }));
    let answer = client.answer(waiting);
    assert_eq!(answer["result"]["events"][0]["data"]["label"], "now");
}

#[test]
fn a_subscription_ends_when_asked() {
    let host = Host::start();
    let mut client = host.client();
    let name = client.ok("server.subscribe", json!({}))["subscription"].clone();
    assert_eq!(
        client.ok("server.unsubscribe", json!({ "subscription": name })),
        json!({ "unsubscribed": true })
    );
    assert_eq!(
        client.ok("server.unsubscribe", json!({ "subscription": name })),
        json!({ "unsubscribed": false })
    );
}

//! Gates on what clients do: typing, killing, attaching; and what a person is asked.

use serde_json::json;

use super::stage::{CONFIG, event, events, eventually, grant, home, native, noted, notes, noting};
use crate::host::{Host, screen, wait_for};

/// Passes, unless the request has the word.
fn blocking(word: &str) -> String {
    format!(
        "#!/bin/sh\nread -r line\nprintf '%s\\n' \"$line\" >> \"$GREENROOM_PLUGIN_DATA/log\"\ncase \"$line\" in *{word}*) echo '{{\"action\":\"block\",\"reason\":\"no {word}\"}}';; *) echo '{{\"action\":\"pass\"}}';; esac\n"
    )
}

fn host_with(hook: &str, script: &str) -> Host {
    let home = home(CONFIG);
    native(home.path(), "guard", "oneshot", &[hook], "", script);
    let host = Host::in_home(home, &[]);
    grant(&mut host.client(), "guard");
    host
}

fn input(session: &str, kind: &str, value: &str) -> serde_json::Value {
    json!({ "session": session, "action": { "type": kind, "value": value } })
}

#[test]
fn submitted_text_can_be_kept_away() {
    let host = host_with("input.submit", &blocking("danger"));
    let mut client = host.client();
    let id = host.session(&mut client, "stty -echo; echo ready; cat");
    wait_for(&mut client, &id, "ready");
    client.ok("session.input", input(&id, "text", "fine\n"));
    wait_for(&mut client, &id, "fine");
    let fault = client.fault("session.input", input(&id, "text", "danger\n"));
    assert_eq!(fault["data"]["kind"], "permission_denied", "{fault}");
    assert_eq!(fault["data"]["reason"], "no danger", "{fault}");
    // In pieces: the Enter is what is asked about.
    client.ok("session.input", input(&id, "text", "dan"));
    client.ok("session.input", input(&id, "text", "ger"));
    client.fault("session.input", input(&id, "key", "enter"));
    client.ok("session.input", json!({ "session": id, "action": { "type": "interrupt" } }));
    let texts: Vec<_> =
        notes(&host, "guard").iter().map(|note| note["payload"]["text"].clone()).collect();
    assert_eq!(texts, [json!("fine"), json!("danger"), json!("danger")]);
    assert!(!screen(&mut client, &id).contains("danger"));
}

#[test]
fn submitted_text_can_be_changed() {
    let answer = json!({ "action": "mutate", "fields": { "text": "changed" } }).to_string();
    let host = host_with("input.submit", &noting(&answer));
    let mut client = host.client();
    let id = host.session(&mut client, "stty -echo; echo ready; cat");
    wait_for(&mut client, &id, "ready");
    client.ok("session.input", input(&id, "text", "first\n"));
    wait_for(&mut client, &id, "changed");
    let mut whole = input(&id, "text", "second");
    whole["submit"] = json!(true);
    client.ok("session.input", whole);
    noted(&host, "guard", "input.submit", 2);
    wait_for(&mut client, &id, "changed\nchanged");
    let shown = screen(&mut client, &id);
    assert!(!shown.contains("first") && !shown.contains("second"), "{shown}");
    // What is typed already cannot be changed, and is not entered.
    client.ok("session.input", input(&id, "text", "typed"));
    let fault = client.fault("session.input", input(&id, "key", "enter"));
    assert_eq!(fault["data"]["kind"], "permission_denied", "{fault}");
}

#[test]
fn a_kill_can_be_kept_away() {
    let host = host_with("session.before_kill", &blocking("before_kill"));
    let mut client = host.client();
    let id = host.session(&mut client, "cat");
    for (method, params) in [
        ("session.kill", json!({ "session": id })),
        ("session.close", json!({ "session": id })),
        ("session.input", json!({ "session": id, "action": { "type": "kill" } })),
    ] {
        let fault = client.fault(method, params);
        assert_eq!(fault["data"]["hook"], "session.before_kill", "{fault}");
    }
    assert_eq!(notes(&host, "guard").len(), 3);
    let info = client.ok("session.info", json!({ "session": id }));
    assert_eq!(info["state"], "running", "{info}");
    client.ok("plugin.disable", json!({ "name": "guard" }));
    client.ok("session.kill", json!({ "session": id }));
}

#[test]
fn an_attach_can_be_kept_away_or_made_to_read_only() {
    let host = host_with("client.before_attach", &blocking("stranger"));
    let mut client = host.client();
    let id = host.session(&mut client, "cat");
    let attach = |client: &str| json!({ "session": id, "client": client, "size": { "rows": 24, "cols": 80 } });
    let fault = host.client().fault("session.attach", attach("stranger"));
    assert_eq!(fault["data"]["plugin"], "guard", "{fault}");
    let attached = host.client().ok("session.attach", attach("friend"));
    assert_eq!(attached["read_only"], false, "{attached}");
    assert_eq!(notes(&host, "guard").len(), 2);
    drop(client);

    let answer = json!({ "action": "mutate", "fields": { "read_only": true } }).to_string();
    let host = host_with("client.before_attach", &noting(&answer));
    let id = host.session(&mut host.client(), "cat");
    let params = json!({ "session": id, "size": { "rows": 24, "cols": 80 } });
    let attached = host.client().ok("session.attach", params);
    assert_eq!(attached["read_only"], true, "{attached}");
}

#[test]
fn a_person_is_asked_and_decides() {
    let answer = json!({ "action": "ask", "reason": "is this wise?" }).to_string();
    let host = host_with("input.submit", &noting(&answer));
    let mut client = host.client();
    let id = host.session(&mut client, "stty -echo; echo ready; cat");
    wait_for(&mut client, &id, "ready");
    for (allow, text) in [(true, "yes please"), (false, "rather not")] {
        let asked = client.send("session.input", input(&id, "text", &format!("{text}\n")));
        let mut person = host.client();
        let open = eventually("an approval", || {
            let list = person.ok("approval.list", json!({}));
            let first = list["approvals"][0].clone();
            (first["state"] == "open").then_some(first)
        });
        assert_eq!((&open["text"], &open["session"]), (&json!("is this wise?"), &json!(id)));
        let resolve = json!({ "approval": open["approval"], "allow": allow });
        person.ok("approval.resolve", resolve.clone());
        let answered = client.answer(asked);
        assert_eq!(answered.get("error").is_none(), allow, "{answered}");
        let again = person.fault("approval.resolve", resolve);
        assert_eq!(again["data"]["kind"], "not_found", "{again}");
    }
    wait_for(&mut client, &id, "yes please");
    assert!(!screen(&mut client, &id).contains("rather not"));
    assert_eq!(events(&mut client, "approval.requested").len(), 2);
    assert_eq!(events(&mut client, "approval.resolved").len(), 2);
    let alert = event(&mut client, "alert.raised");
    assert_eq!(alert["data"]["channel"], "approval", "{alert}");
}

#[test]
fn a_plugin_decides_for_a_person() {
    let place = home(CONFIG);
    let ask = json!({ "action": "ask", "reason": "hm" }).to_string();
    native(place.path(), "asker", "oneshot", &["input.submit"], "", &noting(&ask));
    let decide = "#!/bin/sh\nread -r line\nprintf '%s\\n' \"$line\" >> \"$GREENROOM_PLUGIN_DATA/log\"\necho '{\"action\":\"allow\"}'\n";
    native(place.path(), "clerk", "oneshot", &["approval.request"], "", decide);
    let host = Host::in_home(place, &[]);
    let mut client = host.client();
    grant(&mut client, "asker");
    grant(&mut client, "clerk");
    let id = host.session(&mut client, "stty -echo; echo ready; cat");
    wait_for(&mut client, &id, "ready");
    client.ok("session.input", input(&id, "text", "hello\n"));
    wait_for(&mut client, &id, "hello");
    let asked = noted(&host, "clerk", "approval.request", 1);
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["payload"]["source"], "input.submit");
    let resolved = event(&mut client, "approval.resolved");
    assert_eq!(resolved["data"]["by"], "clerk", "{resolved}");
}

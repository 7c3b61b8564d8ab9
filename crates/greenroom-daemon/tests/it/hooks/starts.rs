//! `session.before` and `pre_session_start`.

use serde_json::{Value, json};

use super::stage::{CONFIG, datawatch, event, grant, home, native, noted, notes, noting};
use crate::host::{Host, wait_for};

/// What a plugin asks for that changes starts.
const TRANSFORM: &str = "[capabilities]\n\"session.transform\" = true";

#[test]
fn a_datawatch_plugin_blocks_a_start() {
    let home = home(CONFIG);
    let script = "#!/bin/sh\nread -r line\nprintf '%s\\n' \"$line\" >> \"$GREENROOM_PLUGIN_DATA/log\"\ncase \"$line\" in *forbidden*) echo '{\"action\":\"block\",\"reason\":\"not this\"}';; *) echo '{\"action\":\"pass\"}';; esac\n";
    datawatch(home.path(), "policy", &["pre_session_start"], script);
    let host = Host::in_home(home, &[]);
    let mut client = host.client();
    let create = |task: &str| json!({ "command": ["cat"], "cwd": "/", "task": task });
    let fault = client.fault("session.create", create("something forbidden"));
    assert_eq!(fault["data"]["kind"], "permission_denied", "{fault}");
    assert_eq!(fault["data"]["plugin"], "policy", "{fault}");
    assert!(fault["message"].as_str().unwrap().ends_with("policy: not this"), "{fault}");
    assert_eq!(client.ok("session.list", json!({}))["sessions"], json!([]));
    event(&mut client, "session.refused");
    let created = client.ok("session.create", create("something else"));
    let asked = notes(&host, "policy");
    assert_eq!(asked.len(), 2, "{asked:?}");
    let session = created["session"].clone();
    let flat = json!({ "task": "something else", "project_dir": "/", "backend": "", "effort": "" });
    let mut expected = flat.clone();
    expected["hook"] = json!("pre_session_start");
    expected["session_id"] = session;
    expected["payload"] = flat;
    assert_eq!(asked[1], expected);
}

#[test]
fn changes_reach_the_session_in_the_order_of_names() {
    let home = home(CONFIG);
    let dir = home.path().join("elsewhere");
    std::fs::create_dir(&dir).unwrap();
    let first = json!({ "action": "mutate", "fields": {
        "project_dir": dir, "task": "from first", "effort": "thorough", "env": { "ADDED": "by first" },
    }});
    let second = json!({ "action": "mutate", "fields": {
        "task": "from second", "env": { "ALSO": "by second" }, "labels": { "team": "red" },
    }});
    native(
        home.path(),
        "10-second",
        "oneshot",
        &["session.before"],
        TRANSFORM,
        &noting(&second.to_string()),
    );
    native(
        home.path(),
        "00-first",
        "oneshot",
        &["session.before"],
        TRANSFORM,
        &noting(&first.to_string()),
    );
    let host = Host::in_home(home, &[]);
    let mut client = host.client();
    grant(&mut client, "10-second");
    grant(&mut client, "00-first");
    let script = "pwd; echo \"[$GREENROOM_TASK|$GREENROOM_EFFORT|$ADDED|$ALSO]\"; cat";
    let created =
        client.ok("session.create", json!({ "command": ["sh", "-c", script], "cwd": "/" }));
    let id = created["session"].as_str().unwrap();
    wait_for(&mut client, id, "[from second|thorough|by first|by second]");
    let info = client.ok("session.info", json!({ "session": id }));
    assert_eq!(info["cwd"].as_str().map(|cwd| cwd.ends_with("elsewhere")), Some(true), "{info}");
    assert_eq!(info["labels"]["team"], "red", "{info}");
    assert_eq!(info["task"], "from second", "{info}");
    let second = noted(&host, "10-second", "session.before", 1);
    assert_eq!(second[0]["payload"]["task"], "from first");
    assert_eq!(notes(&host, "00-first").len(), 1);
    let order = client.ok("plugin.order", json!({ "hook": "session.before" }));
    let text = order.to_string();
    assert!(text.find("00-first").unwrap() < text.find("10-second").unwrap(), "{order}");
}

/// A start is refused or goes on as it was, by the plugin's policy; never changed, and it is said.
#[test]
fn what_a_plugin_may_not_change_stays_as_it_is() {
    let planted = |value: Value| json!({ "action": "mutate", "fields": value }).to_string();
    let env = planted(json!({ "env": { "BASH_ENV": "/tmp/planted" } }));
    let gone = planted(json!({ "env": { "HOME": null } }));
    let dir = planted(json!({ "project_dir": "/tmp" }));
    let task = planted(json!({ "task": "another" }));
    let backend = planted(json!({ "backend": "claude" }));
    let make = planted(json!({ "env": { "MAKEFILES": "/tmp/planted" } }));
    let cases = [
        (&task, "", false, "session.transform"),
        (&env, TRANSFORM, false, "BASH_ENV"),
        (&gone, TRANSFORM, false, "HOME"),
        (&make, TRANSFORM, false, "MAKEFILES"),
        (&dir, TRANSFORM, true, "project_dir of a confined session"),
        (&backend, TRANSFORM, true, "backend of a confined session"),
    ];
    for (answer, more, confined, why) in cases {
        let home = home(CONFIG);
        native(home.path(), "blocks", "oneshot", &["session.before"], more, &noting(answer));
        let host = Host::in_home(home, &[]);
        let mut client = host.client();
        grant(&mut client, "blocks");
        let mut create = json!({ "command": ["cat"], "cwd": "/" });
        if confined {
            create["sandbox"] = json!({ "level": "reduced" });
        }
        let fault = client.fault("session.create", create);
        let said = fault["message"].as_str().unwrap();
        assert!(said.contains(why) && said.contains("is not allowed"), "{said}");
        assert_eq!(client.ok("session.list", json!({}))["sessions"], json!([]));
        let failed = event(&mut client, "plugin.failed");
        assert!(failed["data"]["why"].as_str().unwrap().contains(why), "{failed}");
    }
    // datawatch's hook fails open by its contract: the session starts as it was asked for.
    for (answer, why) in [(&env, "BASH_ENV"), (&gone, "HOME")] {
        let home = home(CONFIG);
        datawatch(home.path(), "passes", &["pre_session_start"], &noting(answer));
        let host = Host::in_home(home, &[]);
        let mut client = host.client();
        let script = "echo \"[${BASH_ENV-unset}|${HOME+there}]\"; cat";
        let created =
            client.ok("session.create", json!({ "command": ["sh", "-c", script], "cwd": "/" }));
        let id = created["session"].as_str().unwrap();
        wait_for(&mut client, id, "[unset|there]");
        let notes = client.ok("session.info", json!({ "session": id }))["notes"].to_string();
        assert!(notes.contains("not done: plugin passes is not allowed") && notes.contains(why));
    }
}

#[test]
fn a_guard_that_fails_blocks_and_one_of_datawatch_does_not() {
    let answers: [(&str, &str); 4] = [
        ("wrong", "#!/bin/sh\nread -r line\necho '{\"action\":\"redcat\"}'\n"),
        ("silent", "#!/bin/sh\nread -r line\n"),
        ("dead", "#!/bin/sh\nexit 7\n"),
        ("junk", "#!/bin/sh\nread -r line\necho 'no json'\n"),
    ];
    for (name, script) in answers {
        let place = home(CONFIG);
        native(place.path(), name, "oneshot", &["session.before"], "", script);
        let host = Host::in_home(place, &[]);
        let mut client = host.client();
        grant(&mut client, name);
        let fault = client.fault("session.create", json!({ "command": ["cat"], "cwd": "/" }));
        assert_eq!(fault["data"]["plugin"], name, "{fault}");
        let failed = event(&mut client, "plugin.failed");
        assert_eq!(failed["data"]["policy"], "block", "{failed}");
        let alert = event(&mut client, "alert.raised");
        assert_eq!(alert["data"]["source"], "guard", "{alert}");
        drop(client);
        drop(host);
        let place = home(CONFIG);
        datawatch(place.path(), name, &["pre_session_start"], script);
        let host = Host::in_home(place, &[]);
        let mut client = host.client();
        let created = client.ok("session.create", json!({ "command": ["cat"], "cwd": "/" }));
        assert!(created["session"].is_string(), "{name}: {created}");
        let stats = client.ok("plugin.get", json!({ "name": name }));
        if name != "silent" {
            assert_eq!(stats["error_count"], 1, "{name}: {stats}");
        }
    }
}

#[test]
fn exit_code_two_is_a_veto() {
    let home = home(CONFIG);
    let script = "#!/bin/sh\nread -r line\necho 'not today' >&2\nexit 2\n";
    native(home.path(), "veto", "oneshot", &["session.before"], "", script);
    let host = Host::in_home(home, &[]);
    let mut client = host.client();
    grant(&mut client, "veto");
    let fault = client.fault("session.create", json!({ "command": ["cat"], "cwd": "/" }));
    assert!(fault["message"].as_str().unwrap().ends_with("veto: not today"), "{fault}");
}

#[test]
fn a_program_that_stays_is_asked_again_and_again() {
    let home = home(CONFIG);
    let script = "#!/bin/sh\nwhile read -r line; do printf '%s\\n' \"$$ $line\" >> \"$GREENROOM_PLUGIN_DATA/pids\"; echo '{\"action\":\"pass\"}'; done\n";
    native(home.path(), "stay", "jsonl", &["session.before"], "", script);
    let host = Host::in_home(home, &[]);
    let mut client = host.client();
    grant(&mut client, "stay");
    for _ in 0..3 {
        host.session(&mut client, "cat");
    }
    let pids = host.home.path().join("state/plugin-data/data/stay/pids");
    let text = std::fs::read_to_string(pids).unwrap();
    let mut pids: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    pids.dedup();
    assert_eq!(pids.len(), 1, "{text}");
    let info = client.ok("plugin.get", json!({ "name": "stay" }));
    assert_eq!(info["state"], "running", "{info}");
    assert_eq!(info["invoke_count"], Value::from(3), "{info}");
}

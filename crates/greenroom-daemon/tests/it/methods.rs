//! Every row of the table, and the shapes existing clients expect.

use greenroom_protocol::methods::METHODS;
use serde_json::{Value, json};
use test_kit::wait::until;

use crate::host::{Host, screen, wait_for};

/// Methods that end the host, or turn the connection into something else.
const APART: [&str; 3] = ["server.shutdown", "server.upgrade", "session.attach"];

#[test]
fn every_row_is_served() {
    let host = Host::start();
    let mut client = host.client();
    for row in METHODS.iter().filter(|row| !APART.contains(&row.name)) {
        let params: Value = serde_json::from_str(row.example).unwrap();
        let answer = client.call(row.name, params);
        let kind = answer["error"]["data"]["kind"].as_str().unwrap_or("");
        let unserved = ["unknown_method", "unsupported", "internal", "parse", "invalid_request"];
        assert!(!unserved.contains(&kind), "{}: {answer}", row.name);
    }
    let names: Vec<Value> = METHODS.iter().map(|row| json!(row.name)).collect();
    assert_eq!(client.ok("server.capabilities", json!({}))["methods"], json!(names));
}

#[test]
fn the_shapes_of_existing_clients() {
    let host = Host::start();
    let mut client = host.client();
    let created = client.ok(
        "session.create",
        json!({ "program": "sh", "args": ["-c", "printf 'ready\\n'; cat"], "rows": 5, "cols": 20 }),
    );
    assert_eq!(created["session"], "s1");
    assert_eq!(client.ok("session.list", json!({})), json!({ "sessions": ["s1"] }));
    let waited = client.ok(
        "session.wait",
        json!({ "session": "s1", "matcher": { "type": "contains_text", "value": "ready" } }),
    );
    assert_eq!(waited["matched"], true);
    assert!(waited["elapsed_ms"].is_u64() && waited["transcript_tail"].is_string(), "{waited}");
    let shot = client.ok("session.snapshot", json!({ "session": "s1" }));
    assert_eq!(shot["plain_text"], "ready");
    assert_eq!(shot["cells"].as_array().unwrap().len(), 100);
    assert_eq!(shot["cells"][0]["text"], "r");
    assert_eq!(shot["cells"][0]["style"]["foreground"], "default");
    assert_eq!(shot["size"]["cols"], 20);
    assert_eq!(shot["cursor"]["row"], 1);
    let sent = client.ok(
        "session.input",
        json!({ "session": "s1", "action": { "type": "text", "value": "abc" } }),
    );
    assert_eq!(sent["sent"], true);
    client.ok(
        "session.input",
        json!({ "session": "s1", "action": { "type": "key", "value": "enter" } }),
    );
    wait_for(&mut client, "s1", "abc\nabc");
    let transcript = client.ok("session.transcript", json!({ "session": "s1" }));
    assert!(transcript["text"].as_str().unwrap().contains("abc\r\nabc"), "{transcript}");
    let resized = client.ok("session.resize", json!({ "session": "s1", "rows": 10, "cols": 40 }));
    assert_eq!(resized, json!({ "resized": true }));
    let killed = client.ok("session.kill", json!({ "session": "s1" }));
    assert_eq!(killed["killed"], true);
    assert_eq!(killed["exit"]["signal"], "SIGHUP");
    assert_eq!(client.ok("session.close", json!({ "session": "s1" })), json!({ "closed": true }));
    assert_eq!(client.ok("session.list", json!({})), json!({ "sessions": [] }));
    assert_eq!(client.ok("session.create", json!({}))["session"], "s2");
}

#[test]
fn a_session_has_the_environment_it_was_given() {
    let host = Host::start();
    let mut client = host.client();
    let script =
        "echo \"[$TERM|$COLORTERM|$GREENROOM_SESSION|$X|$Y|$PWD|$(stty size)]\"; sleep 1000";
    let created = client.ok("session.create", json!({
        "command": ["sh", "-c", script], "cwd": "/usr", "name": "env", "size": "90x33",
        "inherit_env": { "PATH": "/usr/bin:/bin", "X": "one", "TMUX": "no" }, "env": { "Y": "two" },
    }));
    assert_eq!(created["name"], "env");
    wait_for(&mut client, "env", "[xterm-256color|truecolor|s1|one|two|/usr|33 90]");
    let info = client.ok("session.info", json!({ "session": "env" }));
    assert_eq!(info["state"], "running");
    assert_eq!(info["cwd"], "/usr");
    assert_eq!(info["size"]["rows"], 33);
}

#[test]
fn snapshots_in_every_form() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(
        &mut client,
        "printf 'one\\n\\033[1mtwo\\033[0m\\n'; read x; printf three; sleep 1000",
    );
    wait_for(&mut client, &id, "two");
    let shot = |client: &mut crate::client::Client, more: Value| {
        let mut params = json!({ "session": id });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.ok("session.snapshot", params)
    };
    assert_eq!(screen(&mut client, &id), "one\ntwo");
    let rows = shot(&mut client, json!({ "format": "rows" }));
    assert_eq!(rows["rows"][1]["text"], "two");
    let runs = shot(&mut client, json!({ "format": "runs", "region": { "row": 1, "rows": 1 } }));
    assert_eq!(
        runs["runs"],
        json!([{ "row": 1, "runs": [
        { "col": 0, "width": 3, "text": "two", "style": { "bold": true } }] }])
    );
    let ansi = shot(&mut client, json!({ "format": "ansi" }));
    assert!(ansi["ansi"].as_str().unwrap().contains("\u{1b}[0;1mtwo"), "{ansi}");
    let since = rows["sequence"].as_u64().unwrap();
    client
        .ok("session.input", json!({ "session": id, "action": { "type": "text", "value": "\n" } }));
    wait_for(&mut client, &id, "three");
    let diff = shot(&mut client, json!({ "format": "rows", "since": since }));
    assert_eq!(diff["since"], json!(since));
    let changed = diff["rows"].as_array().unwrap();
    assert!(changed.len() < 24 && changed.iter().any(|row| row["text"] == "three"), "{diff}");
    let unknown = shot(&mut client, json!({ "format": "rows", "since": 1 }));
    assert!(unknown.get("since").is_none() && unknown["rows"].as_array().unwrap().len() == 24);
}

#[test]
fn scrollback_counts_back_from_the_newest() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "seq 1 100; sleep 1000");
    wait_for(&mut client, &id, "100");
    let shot = client.ok(
        "session.snapshot",
        json!({
        "session": id, "format": "text", "scrollback": { "from": 2, "count": 3 } }),
    );
    // 24 rows show 78 to 100 and an empty one.
    assert_eq!(shot["scrollback"], json!({ "from": 2, "total": 77, "lines": ["73", "74", "75"] }));
}

#[test]
fn input_in_every_form() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "stty raw -echo; printf '\\033[?2004hgo'; cat -v");
    wait_for(&mut client, &id, "go");
    let acts = [
        (json!({ "type": "keys", "value": ["ctrl-a", "up"] }), "^A^[[A"),
        (json!({ "type": "paste", "value": "x" }), "^[[200~x^[[201~"),
        (json!({ "type": "bracketed_paste", "value": "y" }), "^[[200~y^[[201~"),
        (
            json!({ "type": "stream_text", "value": { "text": "slowly", "chunk_chars": 2 } }),
            "slowly",
        ),
        (json!({ "type": "raw", "value": "AQI=" }), "^A^B"),
        (json!({ "type": "interrupt" }), "^C"),
        (json!({ "type": "eof" }), "^D"),
        (json!({ "type": "signal", "value": "int" }), "^C"),
    ];
    let mut expected = "go".to_owned();
    for (action, seen) in acts {
        client.ok("session.input", json!({ "session": id, "action": action }));
        expected.push_str(seen);
        wait_for(&mut client, &id, &expected);
    }
    let mouse = json!({ "type": "mouse", "value": { "row": 1, "col": 1 } });
    client.ok("session.input", json!({ "session": id, "action": mouse }));
    let mark = json!({ "type": "mark_transcript", "value": { "label": "here" } });
    client.ok("session.input", json!({ "session": id, "action": mark }));
    let wrong = json!({ "session": id, "action": { "type": "key", "value": "hyperspace" } });
    assert_eq!(client.fault("session.input", wrong)["code"], -32602);
}

#[test]
fn export_and_replay_show_the_recording() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "echo first; read x; echo second; exit 3");
    wait_for(&mut client, &id, "first");
    let seq =
        client.ok("session.mark", json!({ "session": id, "label": "middle" }))["sequence"].clone();
    client
        .ok("session.input", json!({ "session": id, "action": { "type": "text", "value": "\n" } }));
    let exited = json!({ "type": "exit_code", "value": 3 });
    client.ok("session.wait", json!({ "session": id, "matcher": exited, "snapshot": false }));
    let mut file = String::new();
    let mut cursor = Value::Null;
    loop {
        let page = client
            .ok("session.export", json!({ "session": id, "cursor": cursor, "max_bytes": 50 }));
        file.push_str(page["data"].as_str().unwrap());
        cursor = page["cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    let lines: Vec<Value> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["version"], 3);
    let of = |code: &str| -> String {
        lines[1..]
            .iter()
            .filter(|line| line[1] == code)
            .filter_map(|line| line[2].as_str())
            .collect()
    };
    assert_eq!(of("o"), "first\r\n\r\nsecond\r\n", "{file}");
    assert_eq!((of("m"), of("x")), ("middle".to_owned(), "3".to_owned()), "{file}");
    let text = client.ok("session.export", json!({ "session": id, "format": "text" }));
    assert_eq!(text["data"], "first\n\nsecond\n");
    let then =
        client.ok("session.replay", json!({ "session": id, "at_seq": seq, "format": "text" }));
    assert_eq!(then["snapshot"]["text"], "first");
    let now = client.ok("session.replay", json!({ "session": id, "format": "text" }));
    assert_eq!(now["snapshot"]["text"], "first\n\nsecond");
}

#[test]
fn a_session_ends_when_its_time_is_up() {
    let host = Host::start();
    let mut client = host.client();
    let made =
        client.ok("session.create", json!({ "command": ["sleep", "1000"], "timeout_ms": 100 }));
    let id = made["session"].clone();
    let quiet = client.ok("session.create", json!({ "command": ["cat"], "idle_timeout_ms": 100 }));
    for id in [id, quiet["session"].clone()] {
        let over =
            json!({ "session": id, "matcher": { "type": "process_exited" }, "snapshot": false });
        assert_eq!(client.ok("session.wait", over)["exit"]["signal"], "SIGTERM");
    }
}

#[test]
fn output_is_copied_to_a_file_that_must_be_new() {
    let host = Host::start();
    let mut client = host.client();
    let file = host.home.path().join("copy");
    let params = json!({ "command": ["echo", "copied"], "raw_transcript_path": file });
    let id = client.ok("session.create", params.clone())["session"].clone();
    client.ok("session.wait", json!({ "session": id, "matcher": { "type": "process_exited" } }));
    until("the copy is there", || std::fs::read(&file).unwrap() == b"copied\r\n");
    assert_eq!(client.fault("session.create", params)["data"]["kind"], "conflict");
}

#[test]
fn signals_reach_whom_they_are_meant_for() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(
        &mut client,
        "trap 'echo got-usr1' USR1; echo ready; while :; do sleep 0.05; done",
    );
    wait_for(&mut client, &id, "ready");
    client.ok("session.signal", json!({ "session": id, "signal": "usr1", "to": "leader" }));
    wait_for(&mut client, &id, "got-usr1");
    let wrong = json!({ "session": id, "signal": "nonsense" });
    assert_eq!(client.fault("session.signal", wrong)["code"], -32602);
}

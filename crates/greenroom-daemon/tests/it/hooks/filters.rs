//! Filters on real sessions: replaced, dropped, masked; slow and dead ones.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::stage::{
    CONFIG, REDACTOR, datawatch, event, events, eventually, grant, home, native, wait_exit,
};
use crate::client::Client;
use crate::host::{Host, wait_for};

/// datawatch's own example, as it is in its document.
const PY_REDACT: &str = r#"#!/usr/bin/env python3
import json, sys
req = json.loads(sys.stdin.readline())
if req.get("hook") == "post_session_output":
    line = req.get("line", "")
    if "PASSWORD" in line:
        print(json.dumps({"action": "replace", "line": "[redacted]"}))
        sys.exit(0)
print(json.dumps({"action": "pass"}))
"#;

/// Never answers in time.
const SLEEPER: &str = "#!/usr/bin/env python3\nimport sys, time\nprint('{\"hello\":{\"features\":[\"filter.batch\"]}}', flush=True)\nsys.stdin.readline()\nfor line in sys.stdin:\n    time.sleep(10)\n    print('{}', flush=True)\n";

fn transcript(client: &mut Client, session: &str) -> String {
    let params =
        json!({ "session": session, "since": 0, "format": "text", "max_bytes": 4_000_000 });
    client.ok("session.transcript", params)["text"].as_str().unwrap_or_default().to_owned()
}

/// The transcript once it has this text.
fn shown(client: &mut Client, session: &str, text: &str) -> String {
    eventually(&format!("{text} in the transcript"), || {
        Some(transcript(client, session)).filter(|shown| shown.contains(text))
    })
}

fn slow(home: &Path, when: &str) {
    let more = format!("stage = \"redact\"\n{when}");
    native(home, "slow", "jsonl", &["output.filter"], &more, SLEEPER);
}

#[test]
fn the_example_of_datawatch_redacts_a_live_session() {
    let home = home(CONFIG);
    datawatch(home.path(), "py-redact", &["post_session_output"], PY_REDACT);
    let host = Host::in_home(home, &[]);
    let mut client = host.client();
    let id = host.session(&mut client, "echo the PASSWORD is bl\"\"ue; echo and this stays; cat");
    let text = shown(&mut client, &id, "and this stays");
    assert!(text.contains("[redacted]") && !text.contains("blue"), "{text}");
    let screen = client.ok("session.snapshot", json!({ "session": id, "format": "text" }));
    assert!(!screen.to_string().contains("blue"), "{screen}");
    let cast = client.ok("session.export", json!({ "session": id, "format": "asciicast-v3" }));
    assert!(!cast.to_string().contains("blue"), "{cast}");
}

/// 60 lines through a filter of 50 ms a line: whoever does not wait for it is told what is missing,
/// and whoever does has all of it. Nobody gets a part that looks like the whole.
#[test]
fn a_slow_filter_makes_readers_wait_or_says_how_far_behind_it_is() {
    let home = home(CONFIG);
    let slow = "#!/bin/sh\nread line\nsleep 0.05\necho '{\"action\":\"pass\"}'\n";
    datawatch(home.path(), "slow", &["post_session_output"], slow);
    let host = Host::in_home(home, &[]);
    let mut client = host.client();
    let script = "i=0; while [ $i -lt 60 ]; do echo \"line $i\"; i=$((i+1)); done";
    let id = host.session(&mut client, script);
    let began = Instant::now();
    let wait = json!({ "session": id, "matcher": { "type": "process_exited" }, "timeout_ms": 300 });
    client.ok("session.wait", wait);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let all: String = (0..60).map(|n| format!("line {n}\n")).collect();
    // At once, through every door.
    let now = |more: Value| {
        let mut params = json!({ "session": id, "timeout_ms": 1 });
        let members = more.as_object().unwrap().clone();
        params.as_object_mut().unwrap().extend(members);
        params
    };
    let page = client.ok("session.transcript", now(json!({ "since": 0, "format": "text" })));
    assert!(page["behind"].as_u64() > Some(0) && page["has_more"] == true, "{page}");
    assert!(page["text"].as_str().unwrap().len() < all.len(), "{page}");
    let fault = client.fault("session.replay", now(json!({})));
    assert_eq!(fault["data"]["kind"], "timeout", "{fault}");
    assert!(fault["data"]["behind"].as_u64() > Some(0), "{fault}");
    let text = now(json!({ "format": "text" }));
    let page = client.ok("session.export", text.clone());
    assert!(page["behind"].as_u64() > Some(0) && page["cursor"].is_string(), "{page}");
    // Page after page: nothing missing, nothing twice.
    for format in ["text", "asciicast-v3"] {
        let (mut data, mut cursor) = (String::new(), Value::Null);
        loop {
            let mut params = now(json!({ "format": format, "timeout_ms": 100 }));
            if !cursor.is_null() {
                params["cursor"] = cursor;
            }
            let page = client.ok("session.export", params);
            data.push_str(page["data"].as_str().unwrap());
            cursor = page["cursor"].clone();
            if cursor.is_null() {
                assert_eq!(page["behind"], 0, "{page}");
                break;
            }
        }
        if format == "text" {
            assert_eq!(data, all);
            continue;
        }
        assert!(data.trim_end().ends_with("\"x\", \"0\"]"), "{data}");
        assert_eq!((data.matches("line 0\\r").count(), data.matches("line 59").count()), (1, 1));
    }
    let page =
        client.ok("session.transcript", json!({ "session": id, "since": 0, "format": "text" }));
    assert_eq!((&page["behind"], &page["has_more"]), (&json!(0), &json!(false)), "{page}");
    assert_eq!(page["text"], all);
}

#[test]
fn names_decide_the_order_of_filters_and_a_drop_ends_it() {
    let home = home(CONFIG);
    let replace = |from: &str, to: &str| {
        format!(
            "#!/usr/bin/env python3\nimport json, sys\nline = json.loads(sys.stdin.readline())[\"line\"]\nif \"{from}\" in line: print(json.dumps({{\"action\": \"replace\", \"line\": line.replace(\"{from}\", \"{to}\")}}))\nelif \"gone\" in line: print('{{\"action\":\"drop\"}}')\nelse: print('{{\"action\":\"pass\"}}')\n"
        )
    };
    datawatch(home.path(), "10-second", &["post_session_output"], &replace("middle", "last"));
    datawatch(home.path(), "00-first", &["post_session_output"], &replace("first", "middle"));
    let host = Host::in_home(home, &[]);
    let mut client = host.client();
    let id = host.session(&mut client, "echo a first word; echo this is gone; echo the end; cat");
    let text = shown(&mut client, &id, "the end");
    assert!(text.contains("a last word"), "{text}");
    assert!(!text.contains("gone"), "{text}");
}

/// The session runs on at its pace; readers see masks, a mark in the recording and an event.
#[test]
fn a_filter_that_sleeps_slows_nobody_and_shows_nothing() {
    let home = home(CONFIG);
    slow(home.path(), "");
    let host = Host::in_home(home, &[]);
    let mut client = host.client();
    grant(&mut client, "slow");
    let script = "stty -echo; i=0; while [ $i -lt 2000 ]; do echo \"private words $i\"; i=$((i+1)); done; echo over; cat";
    let began = Instant::now();
    let id = host.session(&mut client, script);
    let drained = eventually("all of it is in the journal", || {
        let info = client.ok("session.info", json!({ "session": id }));
        (info["seq"].as_u64() > Some(38_800)).then(|| began.elapsed())
    });
    assert!(drained < Duration::from_secs(5), "{drained:?}");
    let text = eventually("masks", || {
        Some(transcript(&mut client, &id)).filter(|text| text.matches("****").count() > 1500)
    });
    assert!(!text.contains("private"), "{}", &text[..text.len().min(400)]);
    let masked = event(&mut client, "session.masked");
    assert_eq!(masked["data"]["plugin"], "slow", "{masked}");
    let marked = event(&mut client, "session.marked");
    assert!(marked["data"]["label"].as_str().unwrap().starts_with("slow did not answer"));
    let degraded = event(&mut client, "plugin.state");
    assert!(degraded["data"]["plugin"] == "slow", "{degraded}");
}

#[test]
fn a_dead_filter_costs_a_few_time_outs_over_ten_thousand_lines() {
    let home = home(CONFIG);
    slow(home.path(), "");
    let host = Host::in_home(home, &[]);
    let mut client = host.client();
    grant(&mut client, "slow");
    let id = host.session(&mut client, "seq -f 'line number %g' 10000");
    wait_exit(&mut client, &id);
    eventually("all of it is answered for", || {
        (transcript(&mut client, &id).lines().count() >= 10_000).then_some(())
    });
    assert!(!transcript(&mut client, &id).contains("number"));
    let stats = client.ok("plugin.stats", json!({ "name": "slow" }));
    let timeouts = stats["plugins"]["slow"]["timeouts"].as_u64();
    assert!(timeouts.is_some_and(|count| (1..=5).contains(&count)), "{stats}");
    assert!(!events(&mut client, "plugin.failed").is_empty());
}

#[test]
fn lines_the_prefilter_does_not_find_wait_for_nobody() {
    let home = home(CONFIG);
    slow(home.path(), "when = { regex = \"zebra\" }");
    let host = Host::in_home(home, &[]);
    let mut client = host.client();
    grant(&mut client, "slow");
    let id = host.session(&mut client, "seq -f 'plain %g' 5000; echo done; cat");
    wait_for(&mut client, &id, "done");
    let text = shown(&mut client, &id, "plain 5000");
    assert_eq!(text.matches("plain").count(), 5000);
    let stats = client.ok("plugin.stats", json!({ "name": "slow" }));
    assert_eq!(stats["plugins"]["slow"]["calls"], Value::from(0), "{stats}");
}

/// A program that stays and takes batches.
#[test]
fn a_filter_that_stays_sees_all_lines_in_batches() {
    let home = home(CONFIG);
    let script = "#!/usr/bin/env python3\nimport json, sys\nsys.stdin.readline()\nprint(json.dumps({\"hello\": {\"features\": [\"filter.batch\"]}}), flush=True)\nfor text in sys.stdin:\n    ask = json.loads(text)\n    if \"items\" not in ask: continue\n    edits = [[i[\"n\"], i[\"line\"].replace(\"7\", \"seven\")] for i in ask[\"items\"] if \"7\" in i[\"line\"]]\n    print(json.dumps({\"id\": ask[\"id\"], \"edits\": edits}), flush=True)\n";
    native(home.path(), "batch", "jsonl", &["output.filter"], "timeout_ms = 5000", script);
    let host = Host::in_home(home, &[]);
    let mut client = host.client();
    grant(&mut client, "batch");
    let id = host.session(&mut client, "seq 1 3000; echo done; cat");
    let text = shown(&mut client, &id, "done");
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    for number in 1..=3000usize {
        assert_eq!(lines[number - 1], number.to_string().replace('7', "seven"));
    }
    let stats = client.ok("plugin.stats", json!({ "name": "batch" }));
    let calls = stats["plugins"]["batch"]["calls"].as_u64().unwrap();
    assert!(calls < 300, "{stats}");
}

/// Every line once, however the program is run. (How fast: the benchmarks.)
fn answered(kind: &str, lines: usize) {
    let home = home(CONFIG);
    native(home.path(), "redactor", kind, &["output.filter"], "timeout_ms = 10000", REDACTOR);
    let host = Host::in_home(home, &[]);
    let mut client = host.client();
    grant(&mut client, "redactor");
    let script = format!("seq -f 'line %g' {lines}; echo a PASSWORD");
    let id = host.session(&mut client, &script);
    let (mut since, mut text) = (0, String::new());
    eventually("all lines", || {
        let params =
            json!({ "session": id, "since": since, "format": "text", "max_bytes": 1_000_000 });
        let page = client.ok("session.transcript", params);
        text += page["text"].as_str().unwrap();
        since = page["next_seq"].as_u64().unwrap();
        text.contains("[redacted]").then_some(())
    });
    let shown: Vec<&str> = text.lines().collect();
    let mut expected: Vec<String> = (1..=lines).map(|n| format!("line {n}")).collect();
    expected.push("[redacted]".to_owned());
    assert_eq!(shown, expected);
}

#[test]
fn a_filter_that_is_started_for_each_line_sees_them_all() {
    answered("oneshot", 20);
}

#[test]
fn a_filter_that_stays_sees_them_all() {
    answered("jsonl", 40_000);
}

/// Somebody follows every session from its first byte on, and another client reads as soon as one
/// is listed.
#[test]
fn a_reader_of_the_first_instant_sees_nothing_a_filter_has_not_answered_for() {
    let home = home(CONFIG);
    slow(home.path(), "timeout_ms = 250");
    let host = Host::in_home(home, &[]);
    let mut client = host.client();
    grant(&mut client, "slow");
    let mut follower = host.client();
    follower.ok("server.set_notifications", json!({ "enabled": true }));
    let (mut reader, rounds) = (host.client(), 20);
    for _ in 0..rounds {
        let script = "echo the private word; read x";
        let params = json!({ "command": ["sh", "-c", script], "cwd": "/" });
        let id = client.send("session.create", params);
        let listed = reader.ok("session.list", json!({}));
        for session in listed["sessions"].as_array().unwrap() {
            let shown = transcript(&mut reader, session.as_str().unwrap());
            assert!(!shown.contains("private"), "{shown}");
        }
        let created = client.answer(id)["result"]["session"].as_str().unwrap().to_owned();
        let shown = transcript(&mut reader, &created);
        assert!(!shown.contains("private"), "{shown}");
    }
    // All of them come in the end, masked.
    for _ in 0..rounds {
        let push = follower.until(|frame| {
            let text = frame["params"]["output"].as_str().unwrap_or_default();
            assert!(!text.contains("private"), "{frame}");
            text.contains("*******")
        });
        assert!(!push.to_string().contains("private"));
    }
}

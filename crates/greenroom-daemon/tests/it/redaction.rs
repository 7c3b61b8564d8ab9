//! A session prints its own secret; nothing that leaves the host shows it, also after the daemon
//! was killed.

use greenroom_protocol::api::Base64;
use greenroom_protocol::api::screen::{SnapshotFormat, TranscriptFormat};
use greenroom_protocol::api::session::ExportFormat;
use greenroom_protocol::methods::{METHODS, Scope, document};
use serde_json::{Value, json};
use test_kit::git;

use crate::client::Client;
use crate::host::{Host, wait_for};
use crate::http::Web;

const VALUE: &str = "hunter2-and-more";
const TOKEN: &str = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8";

/// Prints a value it was given and a token nobody knew, in its title and its output, in pieces and
/// wrapped.
const PRINTS: &str = r#"printf 'a %s b\n' "$SECRET"; printf '\033]0;t %s\007' "$SECRET"
    printf '\033[31m%.9s\033[0m%s\n' "$SECRET" "${SECRET#?????????}"; printf '%070d%s\n' 0 "$SECRET"
    printf '\033]9;n %s\007' "$SECRET"; echo "$TOKEN"; echo end; cat"#;

fn start(host: &Host, client: &mut Client) -> String {
    let token = format!("export TOKEN={TOKEN}; {PRINTS}");
    let script = host.home.path().join("prints.sh");
    std::fs::write(&script, token).unwrap();
    let params = json!({ "command": ["sh", script], "cwd": "/", "env": { "SECRET": VALUE } });
    let created = client.ok("session.create", params);
    created["session"].as_str().unwrap().to_owned()
}

/// Everything a client can read of the session, as JSON texts.
fn everything(client: &mut Client, id: &str) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let mut ask = |client: &mut Client, method: &str, params: Value| {
        let name = format!("{method} {params}");
        all.push((name, client.ok(method, params)));
    };
    for format in SnapshotFormat::ALL {
        let params = json!({ "session": id, "format": format, "scrollback": { "count": 100 } });
        ask(client, "session.snapshot", params);
        ask(client, "session.replay", json!({ "session": id, "format": format }));
    }
    for format in TranscriptFormat::ALL {
        ask(client, "session.transcript", json!({ "session": id, "format": format, "since": 0 }));
    }
    for format in ExportFormat::ALL {
        ask(client, "session.export", json!({ "session": id, "format": format }));
    }
    ask(client, "session.info", json!({ "session": id }));
    ask(client, "session.list", json!({}));
    let matcher = json!({ "type": "transcript_contains", "value": "end" });
    let wait = json!({ "session": id, "matcher": matcher, "since": 0 });
    ask(client, "session.wait", wait);
    all
}

#[test]
fn every_method_that_reads_a_session_is_asked() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "echo end; cat");
    wait_for(&mut client, &id, "end");
    let asked = everything(&mut client, &id);
    // Its pushes have a test of their own.
    let elsewhere = ["session.subscribe"];
    for row in METHODS.iter().filter(|row| row.scope == Scope::Read) {
        let asked = asked.iter().any(|(name, _)| name.split(' ').next() == Some(row.name));
        let reads = row.example.contains("\"session\"");
        assert!(asked || !reads || elsewhere.contains(&row.name), "{} may show secrets", row.name);
    }
}

#[test]
fn every_form_of_a_screen_is_in_the_member_of_its_name() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "echo end; cat");
    wait_for(&mut client, &id, "end");
    for format in SnapshotFormat::ALL {
        let shot = client.ok("session.snapshot", json!({ "session": id, "format": format }));
        assert!(!shot[format.word()].is_null(), "{format:?}: {shot}");
    }
}

/// Text with nothing but what is seen: a cell's neighbours are far apart in JSON.
fn squeezed(value: &Value) -> String {
    let shots = [value, &value["snapshot"]];
    let cells = shots.iter().filter_map(|shot| shot["cells"].as_array()).flatten();
    let cells: String =
        cells.filter_map(|cell| cell["text"].as_str().or(cell["char"].as_str())).collect();
    format!("{value}\n{cells}\n{}", bytes(value).unwrap_or_default())
}

/// What was answered as bytes.
fn bytes(value: &Value) -> Option<String> {
    let bytes: Base64 = serde_json::from_value(value["data"].clone()).ok()?;
    Some(String::from_utf8_lossy(&bytes.0).into_owned())
}

fn assert_hidden(all: &[(String, Value)]) {
    for (name, value) in all {
        let text = squeezed(value);
        for secret in ["hunter2", "and-more", "A1b2C3", "Q7r8"] {
            assert!(!text.contains(secret), "{name} shows {secret}: {text}");
        }
    }
}

fn files_below(dir: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => files_below(&entry.path(), found),
            false => found.push(entry.path()),
        }
    }
}

#[test]
fn a_secret_given_with_env_appears_nowhere_also_after_a_kill() {
    let host = Host::start();
    let mut client = host.client();
    let id = start(&host, &mut client);
    wait_for(&mut client, &id, "end");
    let all = everything(&mut client, &id);
    assert_hidden(&all);
    let text =
        all.iter().find(|(name, _)| name.contains("transcript")).unwrap().1["text"].to_string();
    assert!(text.contains("a **************** b"), "{text}");
    assert!(text.contains("ghp_************"), "{text}");

    host.kill_daemon();
    let mut client = host.client();
    assert_hidden(&everything(&mut client, &id));
    // What is printed after the restart, and what was printed before the end.
    let action = json!({ "type": "text", "value": format!("{VALUE}\nagain\n") });
    client.ok("session.input", json!({ "session": id, "action": action }));
    wait_for(&mut client, &id, "again");
    assert_hidden(&everything(&mut client, &id));
    client.ok("session.kill", json!({ "session": id }));
    client.ok("session.wait", json!({ "session": id, "matcher": { "type": "process_exited" } }));
    host.kill_daemon();
    let mut client = host.client();
    client.ok("session.wait", json!({ "session": id, "matcher": { "type": "process_exited" } }));
    let mut all = everything(&mut client, &id);
    all.retain(|(name, _)| !name.starts_with("session.wait"));
    assert_hidden(&all);

    // Not in the events, the log, or any file but the journal.
    assert!(!host.log().contains("hunter2"), "the log shows it");
    let mut files = Vec::new();
    files_below(host.home.path(), &mut files);
    for file in files {
        let extension = file.extension().and_then(|end| end.to_str()).unwrap_or_default();
        if ["seg", "key"].contains(&extension) || file.ends_with("prints.sh") {
            continue;
        }
        let bytes = std::fs::read(&file).unwrap_or_default();
        let shows = bytes.windows(7).any(|seven| seven == b"hunter2");
        assert!(!shows, "{} holds the value", file.display());
    }
}

#[test]
fn a_caller_who_may_do_anything_sees_what_is_masked_and_says_so() {
    let host = Host::start();
    let mut client = host.client();
    let id = start(&host, &mut client);
    wait_for(&mut client, &id, "end");
    let params = json!({ "session": id, "format": "text", "redact": false });
    let bare = client.ok("session.snapshot", params);
    assert!(bare["text"].as_str().unwrap().contains(VALUE));
    let params = json!({ "session": id, "since": 0, "redact": false });
    assert!(client.ok("session.transcript", params)["text"].as_str().unwrap().contains(TOKEN));
    // And it did not spoil what others see.
    assert_hidden(&everything(&mut client, &id));
}

#[test]
fn an_output_subscription_is_masked() {
    let host = Host::start();
    let mut client = host.client();
    let id = start(&host, &mut client);
    for format in TranscriptFormat::ALL {
        let params = json!({ "session": id, "format": format, "since": 0 });
        let ours = client.ok("session.subscribe", params)["subscription"].clone();
        let mut seen = String::new();
        while !seen.contains("end") {
            let push = client.until(|frame| frame["params"]["subscription"] == ours);
            seen.push_str(push["params"]["output"].as_str().unwrap());
            seen.push_str(&bytes(&push["params"]).unwrap_or_default());
        }
        assert!(!seen.contains("hunter2") && !seen.contains("A1b2C3"), "{format:?}: {seen}");
        let pieces = *format == TranscriptFormat::Text || seen.contains("***\x1b[0m");
        assert!(pieces, "{format:?}: in pieces: {seen:?}");
    }
}

#[test]
fn texts_can_be_tried() {
    let host = Host::start();
    let mut client = host.client();
    let text = format!("one\ntwo {TOKEN} three\n");
    let found = client.ok("redact.test", json!({ "text": text, "show": true }));
    let finding = &found["findings"][0];
    assert_eq!(finding["rule"], "github-token");
    assert_eq!((finding["line"].clone(), finding["column"].clone()), (json!(2), json!(9)));
    assert!(!found.to_string().contains("A1b2C3"), "{found}");
    assert!(found["rules"].as_array().unwrap().len() > 40);
}

/// A client with the token may use sessions, not see what is masked, on every method that could
/// show it.
#[test]
fn a_token_is_not_enough_to_see_what_is_masked() {
    let host = Host::start();
    let mut client = host.client();
    let id = start(&host, &mut client);
    wait_for(&mut client, &id, "end");
    let web = Web::of(&mut client);
    let mut asked = 0;
    for row in METHODS {
        let document = document(Some(row.name)).unwrap();
        let params = &document["methods"][0]["params"];
        let name = params["$ref"].as_str().and_then(|name| name.rsplit('/').next());
        let described = name.map_or(params, |name| &document["$defs"][name]).to_string();
        if !described.contains("\"redact\"") {
            continue;
        }
        asked += 1;
        let path = row.surfaces.rest.unwrap().replace("{id}", &id);
        let (verb, path) = path.split_once(' ').unwrap();
        let off = json!({ "enabled": false, "replacement": "*" });
        for (name, value) in [("redact", json!(false)), ("redaction", off)] {
            if !described.contains(&format!("\"{name}\"")) {
                continue;
            }
            let answer = match verb {
                "GET" => web.get(&format!("{path}?{name}={}", crate::http::spelled(&value))),
                _ => {
                    let matcher = json!({ "type": "contains_text", "value": "end" });
                    web.ask(verb, path, Some(json!({ "matcher": matcher, name: value })))
                }
            };
            assert_eq!(answer.status, 403, "{} with {name}: {answer:?}", row.name);
            assert_eq!(answer.kind(), "permission_denied", "{answer:?}");
            assert!(!answer.text.contains("hunter2"), "{answer:?}");
            assert_eq!(answer.json()["error"]["data"]["required_permission"], "admin");
        }
    }
    assert_eq!(asked, 3, "a method that takes `redact` has to be asked here");
    // The tools of an agent have no such wish at all.
    for (tool, more) in [("session_read", json!({})), ("session_wait", json!({ "exit": true }))] {
        let mut arguments = more;
        arguments["session"] = json!(id);
        arguments["redact"] = json!(false);
        let params = json!({ "name": tool, "arguments": arguments });
        let ask = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        let body = ask.to_string();
        let head = format!(
            "POST /mcp HTTP/1.1\r\n{}Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n",
            web.headers()
        );
        let length = format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        let answer = web.raw(format!("{head}{length}{body}").as_bytes());
        assert!(!answer.text.contains("hunter2"), "{answer:?}");
        let said = answer.json();
        let refused = said["error"].is_object() || said["result"]["isError"] == true;
        assert!(refused, "{tool}: {said}");
    }
}

/// More texts and patterns, for one answer.
#[test]
fn a_caller_may_have_more_hidden() {
    let host = Host::start();
    let mut client = host.client();
    let script = "printf 'ticket AB-1234 of \\033[1mal\\033[0mice\\n'; echo end; cat";
    let id = host.session(&mut client, script);
    wait_for(&mut client, &id, "end");
    let how = json!({
        "enabled": true, "replacement": "[REDACTED]", "extra_literals": ["alice"],
        "extra_regexes": ["[A-Z]{2}-[0-9]+"],
    });
    for format in SnapshotFormat::ALL {
        let params = json!({ "session": id, "format": format, "redaction": how });
        let shot = squeezed(&client.ok("session.snapshot", params));
        assert!(!shot.contains("1234") && !shot.contains("alice"), "{format:?}: {shot}");
        assert!(!shot.contains("ice"), "{format:?}: {shot}");
    }
    for format in TranscriptFormat::ALL {
        let params = json!({ "session": id, "since": 0, "format": format, "redaction": how });
        let page = client.ok("session.transcript", params);
        let text = bytes(&page).unwrap_or_else(|| page["text"].to_string());
        assert!(text.contains("ticket ******* of"), "{text}");
        assert!(!text.contains("al") && !text.contains("ice"), "{text}");
    }
    // It spoils nobody else's view.
    let plain = client.ok("session.snapshot", json!({ "session": id, "format": "text" }));
    assert!(plain["text"].as_str().unwrap().contains("AB-1234 of alice"), "{plain}");
    for (member, value, said) in [
        ("replacement", json!("[gone]"), "as wide as what it hides"),
        ("extra_regexes", json!(["("]), "extra_regexes 0"),
        ("extra_literals", json!([""]), "extra_literals 0 is empty"),
    ] {
        for method in ["session.snapshot", "session.transcript"] {
            let mut how = how.clone();
            how[member] = value.clone();
            let fault = client.fault(method, json!({ "session": id, "redaction": how }));
            assert_eq!(fault["data"]["kind"], "invalid_params", "{fault}");
            assert!(fault["message"].as_str().unwrap().contains(said), "{fault}");
        }
    }
}

/// What a file that was brought into a worktree says of secrets, the session does not show.
#[test]
fn secrets_of_files_in_a_worktree_are_known() {
    let host = Host::start();
    let repo = host.home.path().join("repo");
    git::init(&repo);
    let files = [
        (".gitignore", ".env\n"),
        (".worktreeinclude", ".env\n"),
        (".env", "DB_PASSWORD=correct-horse\nMODE=production\nURL=pg://u:batt3ry-s@h/x\n"),
    ];
    for (name, text) in files {
        std::fs::write(repo.join(name), text).unwrap();
    }
    git::commit_all(&repo, "one");
    let mut client = host.client();
    // The second time the worktree is there already.
    for _ in 0..2 {
        let script = "touch kept; cat .env; echo end; cat";
        let params = json!({ "command": ["sh", "-c", script], "cwd": repo, "worktree": "feat-x" });
        let id = client.ok("session.create", params)["session"].as_str().unwrap().to_owned();
        wait_for(&mut client, &id, "end");
        let page = client.ok("session.transcript", json!({ "session": id, "since": 0 }));
        let text = page["text"].as_str().unwrap();
        assert!(text.contains("MODE=production"), "{text}");
        assert!(!text.contains("correct-horse") && !text.contains("batt3ry"), "{text}");
        // Also where no rule would know it.
        let action = json!({ "type": "text", "value": "say correct-horse\nagain\n" });
        client.ok("session.input", json!({ "session": id, "action": action }));
        wait_for(&mut client, &id, "again");
        let page = client.ok("session.transcript", json!({ "session": id, "since": 0 }));
        assert!(page["text"].as_str().unwrap().contains("say *************"), "{page}");
        client.ok("session.kill", json!({ "session": id }));
        client.ok("session.info", json!({ "session": id, "settled": true }));
    }
}

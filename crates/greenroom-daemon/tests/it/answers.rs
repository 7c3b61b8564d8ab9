//! True answers on one connection: after the client's sending side is closed, pushes of sessions
//! that end at once, and params that nobody would read.

use std::io::Write as _;
use std::net::Shutdown;

use greenroom_protocol::methods::METHODS;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::Client;
use crate::host::{Host, signal};
use crate::http::{Web, read_answer};

/// A short series by default, the whole one with `GREENROOM_SOAK`.
fn series(short: usize, whole: usize) -> usize {
    match std::env::var("GREENROOM_SOAK") {
        Ok(count) => count.parse().unwrap_or(whole),
        Err(_) => short,
    }
}

/// Everything that comes until the host closes, by line.
fn rest(client: Client) -> Vec<Value> {
    client.stream.shutdown(Shutdown::Write).unwrap();
    let rest = String::from_utf8(client.rest()).unwrap();
    rest.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn answer(frames: &[Value], id: u64) -> &Value {
    let mut found = frames.iter().filter(|frame| frame["id"] == json!(id));
    let first = found.next().unwrap_or_else(|| panic!("no answer to {id}: {frames:?}"));
    assert!(found.next().is_none(), "two answers to {id}");
    first
}

#[test]
fn a_client_that_sends_no_more_is_answered_everything() {
    let host = Host::start();
    let mut client = host.client();
    let running = host.session(&mut client, "sleep 1000");
    // A burst of what goes on by itself, with what waits and what is refused between.
    let waiting = client.send(
        "session.wait",
        json!({ "session": running, "matcher": { "type": "process_exited" }, "snapshot": false, "timeout_ms": 60_000 }),
    );
    let made: Vec<u64> = (0..series(8, 50))
        .map(|_| client.send("session.create", json!({ "command": ["true"] })))
        .collect();
    let refused = client.send("session.info", json!({ "session": "nobody" }));
    let late = client.send(
        "session.wait",
        json!({ "session": running, "matcher": { "type": "contains_text", "value": "never" }, "snapshot": false, "timeout_ms": 2_300 }),
    );
    // The last line has no end.
    let unfinished = r#"{"jsonrpc":"2.0","id":900,"method":"session.list"}"#;
    client.stream.write_all(unfinished.as_bytes()).unwrap();
    let mut other = host.client();
    let ending = {
        // Later than the host used to wait for such a client: by then the second wait has run out.
        let watch = json!({ "session": running, "matcher": { "type": "contains_text", "value": "never" }, "timeout_ms": 2_500, "snapshot": false });
        std::thread::spawn(move || {
            other.call("session.wait", watch);
            other.ok("session.kill", json!({ "session": "s1" }));
        })
    };
    let frames = rest(client);
    ending.join().unwrap();
    for id in made {
        assert!(answer(&frames, id)["result"]["session"].is_string(), "{frames:?}");
    }
    assert_eq!(answer(&frames, refused)["error"]["data"]["kind"], "unknown_session");
    assert_eq!(answer(&frames, late)["error"]["data"]["kind"], "timeout");
    assert_eq!(answer(&frames, waiting)["result"]["matched"], true);
    assert!(answer(&frames, 900)["result"]["sessions"].is_array());
}

#[test]
fn kills_batches_and_the_other_framing_are_answered_too() {
    let host = Host::start();
    let mut client = host.client();
    let stubborn =
        host.session(&mut client, "trap '' HUP TERM; echo ready; while :; do sleep 1; done");
    crate::host::wait_for(&mut client, &stubborn, "ready");
    let kill = client.send("session.kill", json!({ "session": stubborn, "grace_ms": 300 }));
    client.line(
        &json!([
            { "jsonrpc": "2.0", "id": "a", "method": "session.create", "params": { "command": ["true"] } },
            { "jsonrpc": "2.0", "id": "b", "method": "no.such" },
        ])
        .to_string(),
    );
    let frames = rest(client);
    assert_eq!(answer(&frames, kill)["result"]["killed"], true);
    let batch = frames.iter().find_map(Value::as_array).unwrap();
    assert_eq!(batch.len(), 2, "{batch:?}");

    let mut framed = host.client();
    let text = json!({ "jsonrpc": "2.0", "id": 1, "method": "session.create", "params": { "command": ["true"] } }).to_string();
    write!(framed.stream, "Content-Length: {}\r\n\r\n{text}", text.len()).unwrap();
    framed.stream.shutdown(Shutdown::Write).unwrap();
    let said = String::from_utf8(framed.rest()).unwrap();
    assert!(said.contains("\"result\":{\"session\":"), "{said}");
}

#[test]
fn a_client_that_sends_no_more_hears_that_the_host_stops() {
    let host = Host::start();
    let mut client = host.client();
    let running = host.session(&mut client, "sleep 1000");
    let matcher = json!({ "type": "contains_text", "value": "never" });
    let params = json!({ "session": running, "matcher": matcher, "timeout_ms": 60_000 });
    let waiting = client.send("session.wait", params.clone());
    client.line(&json!([{ "jsonrpc": "2.0", "id": "in a batch", "method": "session.wait", "params": params }]).to_string());
    client.stream.shutdown(Shutdown::Write).unwrap();
    let mut other = host.client();
    while other.ok("server.stats", json!({}))["waits"] != 2 {}
    signal(host.daemon_pid(), Signal::TERM);
    let frames = rest(client);
    assert_eq!(answer(&frames, waiting)["error"]["data"]["kind"], "unavailable", "{frames:?}");
    let batch = frames.iter().find_map(Value::as_array).unwrap();
    assert_eq!(batch[0]["error"]["data"]["kind"], "unavailable", "{batch:?}");
}

#[test]
fn a_client_that_is_gone_is_not_waited_for() {
    let host = Host::start();
    let mut client = host.client();
    let running = host.session(&mut client, "sleep 1000");
    let mut gone = host.client();
    let matcher = json!({ "type": "contains_text", "value": "never" });
    gone.send(
        "session.wait",
        json!({ "session": running, "matcher": matcher, "timeout_ms": 60_000 }),
    );
    while client.ok("server.stats", json!({}))["waits"] != 1 {}
    drop(gone);
    // Far sooner than the wait's own end.
    let began = std::time::Instant::now();
    while client.ok("server.stats", json!({}))["waits"] != 0 {
        assert!(began.elapsed() < crate::client::PATIENCE / 2, "it waits on");
    }
}

#[test]
fn a_client_of_http_that_sends_no_more_is_answered_and_one_that_is_gone_is_not_waited_for() {
    let host = Host::start();
    let mut client = host.client();
    let web = Web::of(&mut client);
    let running = host.session(&mut client, "sleep 1000");
    let post = |path: &str, body: Value| {
        let body = body.to_string();
        let mut stream = web.connect();
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\n{}Content-Length: {length}\r\n\r\n{body}",
            web.headers()
        )
        .unwrap();
        stream
    };
    let never = |timeout: u64| json!({ "matcher": { "type": "contains_text", "value": "never" }, "timeout_ms": timeout });
    let wait = format!("/api/sessions/{running}/wait");
    for (path, body, status) in
        [("/api/sessions", json!({ "command": ["true"] }), 200), (&wait, never(1_500), 504)]
    {
        let stream = post(path, body);
        stream.shutdown(Shutdown::Write).unwrap();
        let answer = read_answer(&mut std::io::BufReader::new(stream));
        assert_eq!(answer.status, status, "{answer:?}");
    }
    let gone = post(&wait, never(60_000));
    while client.ok("server.stats", json!({}))["waits"] != 1 {}
    drop(gone);
    let began = std::time::Instant::now();
    while client.ok("server.stats", json!({}))["waits"] != 0 {
        assert!(began.elapsed() < crate::client::PATIENCE / 2, "it waits on");
    }
}

/// What was pushed about each session, in order.
fn told(client: &mut Client, ids: &[String]) {
    for id in ids {
        let (mut text, mut exits) = (String::new(), 0);
        while exits == 0 {
            let push = client.until(|frame| {
                frame["params"]["session"] == json!(id) && frame["method"] != "session.changed"
            });
            match push["method"].as_str() {
                Some("session.output") => {
                    text.push_str(push["params"]["output"].as_str().unwrap());
                }
                Some("session.exited") => exits += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(text, format!("it is {id}\r\n"), "{id}");
    }
}

fn echo() -> Value {
    json!({ "command": ["sh", "-c", "echo it is $GREENROOM_SESSION"] })
}

#[test]
fn sessions_that_end_at_once_are_told_of_once_and_in_order() {
    let host = Host::start();
    let mut client = host.client();
    let before = client.ok("session.create", echo())["session"].clone();
    let over = json!({ "type": "process_exited" });
    client.ok("session.wait", json!({ "session": before, "matcher": over, "snapshot": false }));
    client.ok("server.set_notifications", json!({ "enabled": true }));
    let count = series(10, 50);
    let one_by_one: Vec<String> = (0..count)
        .map(|_| client.ok("session.create", echo())["session"].as_str().unwrap().to_owned())
        .collect();
    told(&mut client, &one_by_one);
    let asked: Vec<u64> = (0..count).map(|_| client.send("session.create", echo())).collect();
    let burst: Vec<String> = asked
        .into_iter()
        .map(|id| client.answer(id)["result"]["session"].as_str().unwrap().to_owned())
        .collect();
    told(&mut client, &burst);
    // Nothing came twice, and nothing of what was over before.
    client.ok("server.set_notifications", json!({ "enabled": false }));
    for frame in rest(client) {
        assert_eq!(frame["method"], "session.changed", "{frame}");
        assert_ne!(frame["params"]["session"], before);
    }
}

#[test]
fn whoever_subscribes_while_sessions_start_hears_each_or_nothing_of_it() {
    let host = Host::start();
    let mut maker = host.client();
    let asked: Vec<u64> = (0..10).map(|_| maker.send("session.create", echo())).collect();
    let mut client = host.client();
    client.ok("server.set_notifications", json!({ "enabled": true }));
    let later: Vec<String> = (0..3)
        .map(|_| maker.ok("session.create", echo())["session"].as_str().unwrap().to_owned())
        .collect();
    for id in asked {
        maker.answer(id);
    }
    told(&mut client, &later);
}

#[test]
fn a_session_is_named_before_its_output_is_pushed() {
    let host = Host::start();
    let mut client = host.client();
    client.ok("server.set_notifications", json!({ "enabled": true }));
    for _ in 0..5 {
        let id = client.send("session.create", echo());
        let first = client.frame();
        assert_eq!(first["id"], json!(id), "{first}");
        let session = first["result"]["session"].as_str().unwrap().to_owned();
        loop {
            let frame = client.frame();
            assert_eq!(frame["params"]["session"], json!(session));
            if frame["method"] == "session.exited" {
                break;
            }
        }
    }
}

#[test]
fn a_misspelt_param_of_every_method_is_refused_by_socket_and_rest() {
    let host = Host::start();
    let mut client = host.client();
    let web = Web::of(&mut client);
    for row in METHODS.iter().filter(|row| row.name != "server.hello") {
        let fault = client.fault(row.name, json!({ "not_a_param": 1 }));
        assert_eq!(fault["code"], -32602, "{}: {fault}", row.name);
        let message = fault["message"].as_str().unwrap();
        assert!(message.starts_with("unknown parameter not_a_param"), "{}: {message}", row.name);
        let Some((verb, path)) = row.surfaces.rest.and_then(|rest| rest.split_once(' ')) else {
            continue;
        };
        if row.name == "session.attach" {
            continue;
        }
        let path = path.replace("{id}", "x1").replace("{name}", "x1");
        // While plugins are off their paths say that first.
        let expected = match path.starts_with("/api/plugins") {
            true => (503, "plugins_disabled"),
            false => (400, "invalid_params"),
        };
        let by_query = web.ask(verb, &format!("{path}?not_a_param=1"), None);
        assert_eq!((by_query.status, by_query.kind().as_str()), expected, "{path}: {by_query:?}");
        if verb != "GET" {
            let by_body = web.ask(verb, &path, Some(json!({ "not_a_param": 1 })));
            assert_eq!((by_body.status, by_body.kind().as_str()), expected, "{path}: {by_body:?}");
        }
    }
    for (params, says) in [
        (
            json!({ "command": ["sleep", "60"], "sandbx": true }),
            "unknown parameter sandbx; did you mean sandbox?",
        ),
        (json!({ "comand": ["x"] }), "unknown parameter comand; did you mean command?"),
    ] {
        assert_eq!(client.fault("session.create", params.clone())["message"], says);
        let answer = web.ask("POST", "/api/sessions", Some(params));
        assert_eq!(answer.json()["error"]["message"], says);
    }
    assert_eq!(client.ok("session.list", json!({}))["sessions"], json!([]));
    client.ok("server.hello", json!({ "protocol": [1, 2], "newer": true }));
}

#[test]
fn what_the_caller_got_wrong_is_the_callers_mistake() {
    let host = Host::start();
    let mut client = host.client();
    let web = Web::of(&mut client);
    let there = host.home.path().join("config.toml");
    std::fs::write(&there, "").unwrap();
    for params in [
        json!({ "raw_transcript_path": "" }),
        json!({ "raw_transcript_path": "/no/such/dir/x" }),
        json!({ "raw_transcript_path": "/" , "raw_transcript_append": true }),
        json!({ "inherit_env": { "": "" } }),
        json!({ "inherit_env": { "A": "a\0b" } }),
        json!({ "env": { "": "x" } }),
        json!({ "command": ["a\0b"] }),
        json!({ "command": ["true", "a\0b"] }),
        json!({ "program": "true", "args": ["\0"] }),
        json!({ "command": ["true"], "cwd": "/\0" }),
    ] {
        let fault = client.fault("session.create", params.clone());
        assert_eq!(fault["code"], -32602, "{params}: {fault}");
        let answer = web.ask("POST", "/api/sessions", Some(params.clone()));
        assert_eq!(answer.status, 400, "{params}: {answer:?}");
    }
    let taken = json!({ "raw_transcript_path": there });
    assert_eq!(client.fault("session.create", taken)["data"]["kind"], "conflict");
    let nobody = json!({ "connector": { "models": { "m": { "command": ["echo"] } }, "prompt": "x" }, "cwd": "/", "dry_run": true, "inherit_env": { "": "" } });
    assert_eq!(client.fault("run.start", nobody)["code"], -32602);
    assert_eq!(client.ok("session.list", json!({}))["sessions"], json!([]));
}

#[test]
fn waits_that_cannot_hold_end_at_once() {
    let host = Host::start();
    let mut client = host.client();
    let running = host.session(&mut client, "sleep 1000");
    let failed = host.session(&mut client, "exit 3");
    let wait = |session: &str, matcher: Value| json!({ "session": session, "matcher": matcher, "timeout_ms": 60_000, "snapshot": false });
    let over = json!({ "type": "process_exited" });
    client.ok("session.wait", wait(&failed, over.clone()));
    let state = |name: &str| json!({ "type": "state", "value": name });
    for (session, matcher, kind) in [
        (&running, state("nonsense"), "invalid_params"),
        (&running, state("starting"), "conflict"),
        (&running, json!({ "type": "all", "value": [state("running"), over] }), "invalid_params"),
        (&running, json!({ "type": "exit_code", "value": 700 }), "invalid_params"),
        (&running, json!({ "type": "screen_regex", "value": "[" }), "bad_pattern"),
        (&failed, state("running"), "session_closed"),
        (&failed, json!({ "type": "exit_code", "value": 0 }), "session_closed"),
        (&failed, json!({ "type": "success" }), "session_closed"),
    ] {
        let fault = client.fault("session.wait", wait(session, matcher.clone()));
        assert_eq!(fault["data"]["kind"], kind, "{matcher}: {fault}");
    }
    let fault = client.fault("session.wait", wait(&failed, json!({ "type": "success" })));
    assert_eq!(fault["data"]["exit"]["code"], 3, "{fault}");
    let fine = host.session(&mut client, "exit 0");
    let found = client.ok("session.wait", wait(&fine, json!({ "type": "success" })));
    assert_eq!(found["outcome"]["kind"], "success", "{found}");
    assert_eq!(client.fault("session.list", json!({ "state": "runing" }))["code"], -32602);
}

#[test]
fn screens_and_output_are_text_by_rest_and_cells_by_socket() {
    let host = Host::start();
    let mut client = host.client();
    let web = Web::of(&mut client);
    let id = host.session(&mut client, "printf '\\033[31mred\\033[0m\\n'");
    let over = json!({ "type": "process_exited" });
    let found =
        web.ok("POST", &format!("/api/sessions/{id}/wait"), Some(json!({ "matcher": over })));
    assert!(found["snapshot"]["text"].as_str().unwrap().contains("red"), "{found}");
    assert!(found["snapshot"].get("cells").is_none());
    let shot = web.ok("GET", &format!("/api/sessions/{id}/screen"), None);
    assert!(
        shot["text"].as_str().unwrap().contains("red") && shot.get("cells").is_none(),
        "{shot}"
    );
    let page = web.ok("GET", &format!("/api/sessions/{id}/transcript"), None);
    assert_eq!(page["text"], "red\n");
    let raw = web.ok("GET", &format!("/api/sessions/{id}/transcript?format=ansi"), None);
    assert!(raw["text"].as_str().unwrap().contains('\u{1b}'), "{raw}");
    let replayed = web.ok("GET", &format!("/api/sessions/{id}/replay?at_ms=999999"), None);
    assert!(replayed["snapshot"]["text"].is_string(), "{replayed}");
    let wanted = web.ok("GET", &format!("/api/sessions/{id}/screen?format=cells"), None);
    assert!(wanted["cells"].is_array());
    // As ever for those who speak JSON-RPC.
    assert!(client.ok("session.snapshot", json!({ "session": id }))["cells"].is_array());
    let text = client.ok("session.transcript", json!({ "session": id, "since": 0 }));
    assert!(text["text"].as_str().unwrap().contains('\u{1b}'), "{text}");
}

//! What a host must bear: garbage, giants, depth, bad patterns, things that are not there.

use std::io::Write;

use serde_json::{Value, json};

use crate::host::Host;

#[test]
fn garbage_is_answered_and_survived() {
    let host = Host::start();
    let mut client = host.client();
    let cases = [
        ("this is no json", -32700),
        ("{\"jsonrpc\":\"2.0\"", -32700),
        ("42", -32600),
        ("{}", -32600),
        ("[]", -32600),
        ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"session.list\"}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no.such\"}", -32601),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session.info\",\"params\":{\"session\":3}}",
            -32602,
        ),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session.info\",\"params\":{}}", -32602),
    ];
    for (line, code) in cases {
        client.line(line);
        let answer = client.frame();
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
        assert!(answer["error"]["data"]["kind"].is_string(), "{answer}");
    }
    client.stream.write_all(b"\xff\xfe\x00\n").unwrap();
    assert_eq!(client.frame()["error"]["code"], -32700);
    client.ok("session.list", json!({}));
}

#[test]
fn a_frame_of_17_mib_is_refused_and_skipped() {
    let host = Host::start();
    let mut client = host.client();
    let mut stream = client.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        let piece = vec![b'x'; 1024 * 1024];
        for _ in 0..17 {
            stream.write_all(&piece).unwrap();
        }
        stream.write_all(b"\n").unwrap();
    });
    assert_eq!(client.frame()["error"]["data"]["kind"], "too_large");
    writing.join().unwrap();
    client.ok("session.list", json!({}));
    // The same in the other framing: refused before a byte of it is read.
    let mut stream = host.client().stream;
    write!(stream, "Content-Length: {}\r\n\r\n", 17 * 1024 * 1024).unwrap();
    let mut got = [0; 300];
    let read = std::io::Read::read(&mut stream, &mut got).unwrap();
    assert!(String::from_utf8_lossy(&got[..read]).contains("too_large"));
}

#[test]
fn depth_is_capped() {
    let host = Host::start();
    let mut client = host.client();
    client.line(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)));
    assert_eq!(client.frame()["error"]["code"], -32700);
    let mut matcher = json!({ "type": "process_exited" });
    for _ in 0..30 {
        matcher = json!({ "type": "not", "value": matcher });
    }
    let fault = client.fault("session.wait", json!({ "session": "s1", "matcher": matcher }));
    assert_eq!(fault["code"], -32602);
}

#[test]
fn what_is_not_there_is_named() {
    let host = Host::start();
    let mut client = host.client();
    let fault = client.fault("session.info", json!({ "session": "nobody" }));
    assert_eq!(
        (fault["code"].clone(), fault["data"]["kind"].clone()),
        (json!(-32602), json!("unknown_session"))
    );
    assert!(fault["data"]["hint"].is_string(), "{fault}");
    let create =
        |client: &mut crate::client::Client, params: Value| client.fault("session.create", params);
    let fault = create(&mut client, json!({ "command": ["/no/such/program"], "cwd": "/" }));
    assert_eq!(fault["data"]["kind"], "spawn_failed", "{fault}");
    assert_eq!(fault["data"]["step"], "exec");
    let fault = create(&mut client, json!({ "command": ["no-such-program-here"], "cwd": "/" }));
    assert!(fault["data"]["hint"].as_str().unwrap().contains("no-such-program-here"), "{fault}");
    let fault = create(&mut client, json!({ "command": ["true"], "cwd": "/no/such/dir" }));
    assert!(fault["message"].as_str().unwrap().contains("/no/such/dir"), "{fault}");
    let fault = create(&mut client, json!({ "command": ["true"], "cwd": "relative" }));
    assert_eq!(fault["code"], -32602);
    let fault = create(&mut client, json!({ "command": ["true"], "size": "0x0" }));
    assert_eq!(fault["code"], -32602);
    let fault = create(&mut client, json!({ "command": ["true"], "sandbox": true }));
    assert_eq!(fault["data"]["kind"], "refused");
    assert_eq!(
        client.ok("session.list", json!({})),
        json!({ "sessions": [] }),
        "nothing is left behind"
    );
}

#[test]
fn a_bad_pattern_is_told_at_once() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "cat");
    let wait = |matcher: Value| json!({ "session": id, "matcher": matcher, "timeout_ms": 60_000 });
    let fault = client.fault("session.wait", wait(json!({ "type": "screen_regex", "value": "(" })));
    assert_eq!(fault["data"]["kind"], "bad_pattern");
    let fault = client.fault("session.wait", wait(json!({ "type": "any", "value": [] })));
    assert_eq!(fault["code"], -32602);
    let timeout = json!({ "session": id, "timeout_ms": 50,
        "matcher": { "type": "contains_text", "value": "nothing" } });
    let fault = client.fault("session.wait", timeout);
    assert_eq!(fault["code"], -32001);
    assert!(
        fault["data"]["last_text"].is_string() && fault["data"]["elapsed_ms"].is_u64(),
        "{fault}"
    );
}

#[test]
fn an_ended_session_says_when_and_how() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "echo bye; exit 7");
    let over =
        json!({ "session": id, "matcher": { "type": "process_exited" }, "snapshot": "text" });
    let waited = client.ok("session.wait", over);
    assert_eq!(waited["exit"]["code"], 7);
    let never = json!({ "session": id, "matcher": { "type": "contains_text", "value": "x" } });
    assert_eq!(client.fault("session.wait", never)["code"], -32002);
    let input = json!({ "session": id, "action": { "type": "text", "value": "x" } });
    let fault = client.fault("session.input", input);
    assert_eq!(fault["code"], -32002);
    assert!(fault["message"].as_str().unwrap().contains("it exited"), "{fault}");
    assert_eq!(client.fault("session.attach", json!({ "session": id }))["code"], -32002);
    assert_eq!(crate::host::screen(&mut client, &id), "bye");
    assert_eq!(client.ok("session.kill", json!({ "session": id }))["already_ended"], true);
    let again = json!({ "session": id, "name": "x y" });
    assert_eq!(client.fault("session.rename", again)["code"], -32602);
}

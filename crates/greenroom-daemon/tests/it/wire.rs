//! The connection itself: side by side, cancelled, batched, both framings, slow readers.

use std::io::{Read, Write};

use serde_json::{Value, json};
use test_kit::wait::until;

use crate::client::Client;
use crate::host::Host;

fn long_wait(session: &str) -> Value {
    json!({ "session": session, "matcher": { "type": "contains_text", "value": "never" },
            "timeout_ms": 60_000, "wait_id": "w" })
}

#[test]
fn requests_run_side_by_side_and_can_be_cancelled() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "cat");
    let waiting = client.send("session.wait", long_wait(&id));
    // Answered although the wait before it is not.
    client.ok("session.list", json!({}));
    client.line(
        &json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": waiting } })
            .to_string(),
    );
    assert_eq!(client.answer(waiting)["error"]["code"], -32005);
    // The name is free again, and can be cancelled from another connection.
    let waiting = client.send("session.wait", long_wait(&id));
    let mut other = host.client();
    loop {
        let answer = other.ok("session.cancel_wait", json!({ "wait_id": "w" }));
        if answer["cancelled"] == true {
            assert_eq!(answer["session"], json!(id));
            break;
        }
    }
    assert_eq!(client.answer(waiting)["error"]["code"], -32005);
}

#[test]
fn an_id_can_be_used_again_as_soon_as_it_is_answered() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "echo ready; cat");
    let request = json!({ "jsonrpc": "2.0", "id": "same", "method": "session.transcript",
                          "params": { "session": id, "since": 0 } });
    for _ in 0..500 {
        client.line(&request.to_string());
        let answer = client.frame();
        assert!(answer["result"]["text"].is_string(), "{answer}");
    }
}

#[test]
fn an_id_in_flight_is_not_taken_twice() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "cat");
    let waiting = client.send("session.wait", long_wait(&id));
    let again = json!({ "jsonrpc": "2.0", "id": waiting, "method": "session.list" });
    client.line(&again.to_string());
    assert_eq!(client.answer(waiting)["error"]["code"], -32600);
}

#[test]
fn a_batch_is_answered_as_one() {
    let host = Host::start();
    let mut client = host.client();
    client.line(
        &json!([
            { "jsonrpc": "2.0", "id": "a", "method": "session.list" },
            { "jsonrpc": "2.0", "method": "session.list" },
            { "jsonrpc": "2.0", "id": 2, "method": "no.such" },
            { "id": 3 },
        ])
        .to_string(),
    );
    let answers = client.frame();
    let answers = answers.as_array().unwrap();
    assert_eq!(answers.len(), 3, "{answers:?}");
    let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(of(json!("a"))["result"], json!({ "sessions": [] }));
    assert_eq!(of(json!(2))["error"]["code"], -32601);
    assert_eq!(of(json!(3))["error"]["code"], -32600);
}

#[test]
fn the_other_framing_is_recognised() {
    let host = Host::start();
    let mut stream = host.client().stream;
    let text = json!({ "jsonrpc": "2.0", "id": 1, "method": "session.list" }).to_string();
    write!(stream, "content-length: {}\r\n\r\n{text}", text.len()).unwrap();
    let expected =
        "Content-Length: 49\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"sessions\":[]}}";
    let mut got = vec![0; expected.len()];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8(got).unwrap(), expected);
}

#[test]
fn the_last_request_before_the_end_is_answered() {
    let host = Host::start();
    let client = host.client();
    let mut stream = client.stream.try_clone().unwrap();
    stream.write_all(br#"{"jsonrpc":"2.0","id":9,"method":"session.list"}"#).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.rest(), b"{\"jsonrpc\":\"2.0\",\"id\":9,\"result\":{\"sessions\":[]}}\n");
}

#[test]
fn output_is_pushed_without_being_asked_for() {
    let host = Host::start();
    let mut client = host.client();
    client.ok("server.set_notifications", json!({ "enabled": true }));
    let id = host.session(&mut client, "echo one; read x; echo two; exit 4");
    let first = client.pushed("session.output");
    assert_eq!(
        (first["session"].as_str(), first["output"].as_str()),
        (Some(id.as_str()), Some("one\r\n"))
    );
    assert_eq!(client.pushed("session.changed")["session"], json!(id));
    let mut other = host.client();
    let text =
        other.ok("session.subscribe", json!({ "session": id, "since": 0, "format": "text" }));
    assert_eq!(text["seq"], 0);
    assert_eq!(other.pushed("session.output")["output"], "one\n");
    client
        .ok("session.input", json!({ "session": id, "action": { "type": "text", "value": "\n" } }));
    let exited = client.pushed("session.exited");
    assert_eq!(exited["exit"]["code"], 4);
    let mut rest = String::new();
    while !rest.ends_with("two\n") {
        rest.push_str(other.pushed("session.output")["output"].as_str().unwrap());
    }
    assert_eq!(other.pushed("session.exited")["sequence"], exited["sequence"]);
}

#[test]
fn a_client_that_does_not_read_disturbs_nobody() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "read x; seq 1 200000; echo the-end; sleep 1000");
    let mut stuck = host.client();
    stuck.ok("session.subscribe", json!({ "session": id, "since": 0 }));
    stuck.ok("server.subscribe", json!({ "since": 0 }));
    // Fewer than fill the socket's own buffer: the host stops reading one that does not read.
    for _ in 0..50 {
        stuck.send("server.schema", json!({}));
    }
    client
        .ok("session.input", json!({ "session": id, "action": { "type": "text", "value": "\n" } }));
    let shown = json!({ "type": "contains_text", "value": "the-end" });
    client.ok("session.wait", json!({ "session": id, "matcher": shown, "snapshot": false }));
    client.ok("session.list", json!({}));
    // It reads again, and has missed nothing.
    let mut text = String::new();
    while !text.contains("the-end") {
        text.push_str(stuck.pushed("session.output")["output"].as_str().unwrap());
    }
    let numbers: Vec<u32> = text.lines().filter_map(|line| line.trim().parse().ok()).collect();
    assert!(numbers.iter().copied().eq(1..=200_000), "{} numbers", numbers.len());
}

#[test]
fn a_client_that_asked_for_much_is_heard_again_once_it_has_read_it() {
    let host = Host::start();
    let mut client = host.client();
    let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": 0, "method": "server.schema"}));
    // More than the socket and the host's queue hold, in one write.
    let asked = 100;
    let burst: String =
        (0..asked).map(|id| line.replace("\"id\":0", &format!("\"id\":\"q{id}\""))).collect();
    client.line(burst.trim_end());
    let mut other = host.client();
    until("the requests are answered", || {
        other.ok("server.stats", json!({}))["requests"].as_u64() >= Some(asked as u64)
    });
    let first = client.until(|frame| frame["id"] == "q0");
    let size = first.to_string().len() * asked;
    assert!(size > 1 << 20, "{size} bytes queue up");
    client.until(|frame| frame["id"] == format!("q{}", asked - 1));
    client.ok("server.stats", json!({}));
}

#[test]
fn many_requests_at_once_are_refused_not_queued() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "cat");
    let mut params = long_wait(&id);
    params.as_object_mut().unwrap().remove("wait_id");
    let ids: Vec<u64> = (0..300).map(|_| client.send("session.wait", params.clone())).collect();
    let busy = client.until(|frame| frame["error"]["data"]["kind"] == "busy");
    assert!(ids.contains(&busy["id"].as_u64().unwrap()));
    drop(client);
    let mut other: Client = host.client();
    until("the waits end with their client", || other.ok("server.stats", json!({}))["waits"] == 0);
}

//! WebSocket, the event stream, and the attach stream in a browser's coat.

use std::io::{BufRead, BufReader, Write};

use greenroom_protocol::attach::{AttachDecoder, Frame};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{Error, HandshakeError, Message, WebSocket, client};

use super::{Web, read_head};
use crate::client::PATIENCE;
use crate::hooks::stage;
use crate::host::{Host, signal};

pub type Socket = WebSocket<std::net::TcpStream>;

/// A WebSocket with the token, or the status of its refusal.
pub fn websocket(web: &Web, path: &str, headers: &[(&str, &str)]) -> Result<Socket, u16> {
    let mut request = format!("ws://{}{path}", web.address).into_client_request().unwrap();
    let bearer = format!("Bearer {}", web.token);
    let all = [("Authorization", bearer.as_str())];
    let bare = headers.iter().any(|(name, _)| *name == "Sec-WebSocket-Protocol");
    for (name, value) in all.iter().filter(|_| !bare).chain(headers) {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
    }
    match client(request, web.connect()) {
        Ok((socket, _)) => Ok(socket),
        Err(HandshakeError::Failure(Error::Http(response))) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

fn text(socket: &mut Socket) -> Value {
    loop {
        match socket.read().unwrap() {
            Message::Text(text) => return serde_json::from_str(&text).unwrap(),
            Message::Ping(_) | Message::Pong(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

pub fn call(socket: &mut Socket, method: &str, params: Value) -> Value {
    let request = json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params });
    // Line ends are white space: a message is cut where it ends, not at a line.
    socket.send(Message::text(format!("{request:#}"))).unwrap();
    loop {
        let answer = text(socket);
        if answer["id"] == method {
            return answer;
        }
    }
}

fn attached(socket: &mut Socket, mut until: impl FnMut(&Frame<'_>) -> bool) {
    loop {
        let Message::Binary(bytes) = socket.read().unwrap() else { continue };
        let mut decoder = AttachDecoder::new();
        decoder.push(&bytes);
        let found = until(&decoder.next().unwrap().unwrap());
        assert!(decoder.is_between_frames(), "one frame per message");
        if found {
            return;
        }
    }
}

#[test]
fn the_client_api_on_a_websocket() {
    let host = Host::start();
    let web = Web::of(&mut host.client());
    let mut socket = websocket(&web, "/api/rpc", &[]).unwrap();
    let made = call(&mut socket, "session.create", json!({ "command": ["cat"] }));
    assert_eq!(made["result"]["session"], "s1");
    call(&mut socket, "server.subscribe", json!({ "since": 0 }));
    let push = loop {
        let push = text(&mut socket);
        if push["params"]["event"]["kind"] == "session.started" {
            break push;
        }
    };
    assert_eq!(push["method"], "server.event");
    socket.send(Message::text("nonsense")).unwrap();
    let refused = loop {
        let answer = text(&mut socket);
        if answer.get("error").is_some() {
            break answer;
        }
    };
    assert_eq!(refused["error"]["data"]["kind"], "parse");
    // The same connection becomes the terminal, as on the socket.
    let mut other = websocket(&web, "/api/rpc", &[]).unwrap();
    let begun = call(&mut other, "session.attach", json!({ "session": "s1" }));
    assert_eq!(begun["result"]["session"], "s1", "{begun}");
    attached(&mut other, |frame| matches!(frame, Frame::Keyframe { .. }));
    socket.close(None).unwrap();
}

#[test]
fn a_terminal_on_a_websocket() {
    let host = Host::start();
    let mut client = host.client();
    let web = Web::of(&mut client);
    let id = host.session(&mut client, "echo ready; exec cat");
    let path = format!("/api/sessions/{id}/attach?size=90x30&client=page");
    let offered = format!("greenroom.v1, greenroom.token.{}", web.token);
    let mut socket = websocket(&web, &path, &[("Sec-WebSocket-Protocol", &offered)]).unwrap();
    let begun = text(&mut socket);
    assert_eq!(begun["result"]["size"]["cols"], 90, "{begun}");
    attached(&mut socket, |frame| matches!(frame, Frame::Keyframe { .. }));
    let typed = Frame::Input(b"over here\r").to_vec().unwrap();
    socket.send(Message::binary(typed)).unwrap();
    let mut seen = String::new();
    attached(&mut socket, |frame| {
        if let Frame::Output { bytes, .. } = frame {
            seen.push_str(&String::from_utf8_lossy(bytes));
        }
        seen.matches("over here").count() == 2
    });
    let resize = Frame::Resize { cols: 70, rows: 20 }.to_vec().unwrap();
    socket.send(Message::binary(resize)).unwrap();
    attached(&mut socket, |frame| matches!(frame, Frame::Resize { cols: 70, rows: 20 }));
    client.ok("session.kill", json!({ "session": id }));
    attached(&mut socket, |frame| matches!(frame, Frame::Exit(_)));
    let missing = websocket(&web, "/api/sessions/nothing/attach", &[]);
    let refused = text(&mut missing.unwrap());
    assert_eq!(refused["error"]["data"]["kind"], "unknown_session");
}

/// Filters decide about every picture a terminal elsewhere is sent, and about titles.
#[test]
fn a_terminal_on_a_websocket_is_governed_by_filters() {
    let home = stage::home(stage::CONFIG);
    stage::native(
        home.path(),
        "hides",
        "jsonl",
        &["output.filter"],
        "stage = \"redact\"",
        stage::REDACTOR,
    );
    let host = Host::in_home(home, &[]);
    let mut client = host.client();
    stage::grant(&mut client, "hides");
    let web = Web::of(&mut client);
    let script = "printf '\\033]0;the PASSWORD title\\007the PASSWORD is blue\\n'; exec cat";
    let id = host.session(&mut client, script);
    for window in ["?size=80x24", "?size=90x30", ""] {
        let path = format!("/api/sessions/{id}/attach{window}");
        let mut socket = websocket(&web, &path, &[]).unwrap();
        text(&mut socket);
        let mut seen = String::new();
        let typed = format!("typed {window}\r");
        socket.send(Message::binary(Frame::Input(typed.as_bytes()).to_vec().unwrap())).unwrap();
        attached(&mut socket, |frame| match frame {
            Frame::Keyframe { bytes, .. } => {
                seen = String::from_utf8_lossy(bytes).into_owned();
                assert!(!seen.contains("blue") && !seen.contains("PASSWORD"), "{seen}");
                seen.contains("[redacted]") && seen.contains(&format!("typed {window}"))
            }
            Frame::Output { .. } => panic!("bytes nobody answered for"),
            _ => false,
        });
    }
    let info = stage::eventually("a title", || {
        let info = client.ok("session.info", json!({ "session": id }));
        info["title"].is_string().then_some(info)
    });
    assert_eq!(info["title"], "[redacted]", "{info}");
    let titled = stage::event(&mut client, "session.title");
    assert!(!titled.to_string().contains("PASSWORD"), "{titled}");
    let mut socket = websocket(&web, &format!("/api/sessions/{id}/attach"), &[]).unwrap();
    text(&mut socket);
    client.ok("session.kill", json!({ "session": id }));
    attached(&mut socket, |frame| matches!(frame, Frame::Exit(_)));
}

#[test]
fn a_websocket_without_a_token_is_refused() {
    let host = Host::start();
    let web = Web::of(&mut host.client());
    let wrong = Web { address: web.address.clone(), token: "0".repeat(64) };
    for path in ["/api/rpc", "/api/sessions/s1/attach"] {
        assert_eq!(websocket(&wrong, path, &[]).err(), Some(401));
        let offer = [("Sec-WebSocket-Protocol", "greenroom.v1, greenroom.token.nonsense")];
        assert_eq!(websocket(&web, path, &offer).err(), Some(401));
        assert_eq!(web.get(path).status, 426, "{path}");
    }
}

/// Lines of a chunked body.
fn lines(web: &Web, accept: &str, path: &str) -> impl Iterator<Item = String> + use<> {
    let mut stream = web.connect();
    let ask = format!("GET {path} HTTP/1.1\r\n{}{accept}\r\n", web.headers());
    stream.write_all(ask.as_bytes()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream);
    let (status, _) = read_head(&mut reader);
    assert_eq!(status, 200);
    let chunk =
        |line: &String| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_hexdigit());
    reader.lines().map(|line| line.unwrap().trim_end().to_owned()).filter(move |line| !chunk(line))
}

#[test]
fn events_as_a_page_and_as_streams() {
    let host = Host::start();
    let mut client = host.client();
    let web = Web::of(&mut client);
    host.session(&mut client, "exit 3");
    let mut sse =
        lines(&web, "Accept: text/event-stream\r\n", "/api/events?since=0&kinds=session.*");
    let exited = sse.find(|line| line == "event: session.exited").unwrap();
    let data = sse.find(|line| line.starts_with("data: ")).unwrap();
    let event: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(
        (exited.as_str(), &event["data"]["exit"]["code"]),
        ("event: session.exited", &json!(3))
    );
    // From there on, in the other form; what comes later comes too.
    let resume = format!("Accept: application/x-ndjson\r\nLast-Event-ID: {}\r\n", event["id"]);
    let mut after = lines(&web, &resume, "/api/events?kinds=session.created");
    host.session(&mut client, "exit 0");
    let line = after.find(|line| line.starts_with('{')).unwrap();
    let event: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&event["kind"], &event["session"]),
        (&json!("session.created"), &json!("s2")),
        "{event}"
    );
    let page = web.ok("GET", "/api/events?since=0&limit=1", None);
    assert_eq!((page["events"].as_array().unwrap().len(), &page["has_more"]), (1, &json!(true)));
    let refused = web.get("/api/events?follow=true&sessions=nothing-of-this-name");
    assert_eq!(refused.status, 404, "a mistake is told before a stream begins");
    signal(host.daemon_pid(), rustix::process::Signal::KILL);
    assert!(sse.count() < 100_000, "a stream ends with its daemon");
}

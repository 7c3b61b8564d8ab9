//! REST by hand: bytes to a TCP port, and what comes back.

mod hostile;
mod streams;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use greenroom_protocol::methods::{METHODS, MethodRow};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Client, PATIENCE};
use crate::host::{Host, signal};

pub struct Web {
    /// `127.0.0.1:PORT`.
    pub address: String,
    pub token: String,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn kind(&self) -> String {
        self.json()["error"]["data"]["kind"].as_str().unwrap_or_default().to_owned()
    }
}

impl Web {
    pub fn of(client: &mut Client) -> Web {
        let web = client.ok("server.web", json!({}));
        let url = web["url"].as_str().unwrap();
        Web {
            address: url.strip_prefix("http://").unwrap().to_owned(),
            token: web["token"].as_str().unwrap().to_owned(),
        }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Host and token as they should be.
    pub fn headers(&self) -> String {
        format!("Host: {}\r\nAuthorization: Bearer {}\r\n", self.address, self.token)
    }

    pub fn ask(&self, verb: &str, path: &str, body: Option<Value>) -> Answer {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let head = format!("{verb} {path} HTTP/1.1\r\n{}", self.headers());
        let length = format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        self.raw(format!("{head}{length}{body}").as_bytes())
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None)
    }

    #[track_caller]
    pub fn ok(&self, verb: &str, path: &str, body: Option<Value>) -> Value {
        let answer = self.ask(verb, path, body);
        assert_eq!(answer.status, 200, "{verb} {path}: {answer:?}");
        answer.json()
    }

    /// Sends these bytes and reads one answer. A peer that stops listening has answered before.
    pub fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        let _ = stream.write_all(bytes);
        read_answer(&mut BufReader::new(stream))
    }
}

pub fn read_head(stream: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        let read = stream.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        assert!(read > 0);
    }
    (status, headers)
}

pub fn read_answer(stream: &mut impl BufRead) -> Answer {
    let (status, headers) = read_head(stream);
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, length)| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    Answer { status, headers, text: String::from_utf8(body).unwrap() }
}

/// A value as it is written in a query.
pub fn spelled(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The row's own example as a request.
fn request(row: &MethodRow) -> (&'static str, String, Option<Value>) {
    let (verb, path) = row.surfaces.rest.unwrap().split_once(' ').unwrap();
    let mut params: Value = serde_json::from_str(row.example).unwrap();
    let members = params.as_object_mut().unwrap();
    let mut filled = String::new();
    for part in path.split('/').skip(1) {
        filled.push('/');
        if !part.starts_with('{') {
            filled.push_str(part);
            continue;
        }
        let named = [
            "session",
            "run",
            "name",
            "plugin",
            "approval",
            "worktree",
            "id",
            part.trim_matches(['{', '}']),
        ];
        let value = named.iter().find_map(|name| members.remove(*name));
        filled.push_str(&value.as_ref().map_or_else(|| "x1".to_owned(), spelled));
    }
    if verb == "GET" {
        let pair = |(name, value): (&String, &Value)| format!("{name}={}", spelled(value));
        let query: Vec<String> = members.iter().map(pair).collect();
        return (verb, format!("{filled}?{}", query.join("&")), None);
    }
    (verb, filled, Some(params))
}

#[test]
fn every_row_with_a_path_is_served_there() {
    let host = Host::start();
    let mut client = host.client();
    let web = Web::of(&mut client);
    let document = web.ok("GET", "/api/openapi.json", None);
    for row in METHODS {
        let Some(rest) = row.surfaces.rest else { continue };
        let (verb, path) = rest.split_once(' ').unwrap();
        let described = &document["paths"][path][verb.to_ascii_lowercase()];
        assert_eq!(described["operationId"], row.name, "{rest} is not in the document");
        let (verb, path, body) = request(row);
        let answer = web.ask(verb, &path, body);
        if row.name == "session.attach" {
            assert_eq!(answer.status, 426, "{rest}: {answer:?}");
            continue;
        }
        let fault = &answer.json()["error"];
        let nowhere = fault["message"].as_str().is_some_and(|text| text.contains("nothing at"));
        assert!(!nowhere && answer.status != 405, "{rest}: {answer:?}");
        let unserved =
            ["unknown_method", "unsupported", "internal", "invalid_params", "permission_denied"];
        assert!(!unserved.contains(&answer.kind().as_str()), "{rest}: {answer:?}");
        if path.starts_with("/api/plugins") {
            assert_eq!(answer.status, 503, "{rest}: {answer:?}");
            assert!(answer.text.contains("plugins disabled"), "{rest}: {answer:?}");
        }
    }
}

#[test]
fn a_session_from_start_to_end() {
    let host = Host::start();
    let web = Web::of(&mut host.client());
    let script = "echo hello; read x; echo got $x; cat";
    let made = web.ok(
        "POST",
        "/api/sessions",
        Some(json!({ "command": ["sh", "-c", script], "name": "team/a-job" })),
    );
    assert_eq!(made["session"], "s1");
    let listed = web.ok("GET", "/api/sessions?detail=true&state=running,starting", None);
    assert_eq!(listed["sessions"][0]["name"], "team/a-job");
    // By its name, with a slash in it.
    assert_eq!(web.ok("GET", "/api/sessions/team%2Fa%2Djob", None)["id"], "s1");
    let until = |text: &str| json!({ "matcher": { "type": "transcript_contains", "value": text }, "snapshot": false });
    web.ok("POST", "/api/sessions/s1/wait", Some(until("hello")));
    let typed = json!({ "action": { "type": "text", "value": "it\n" } });
    assert_eq!(web.ok("POST", "/api/sessions/s1/input", Some(typed))["sent"], true);
    web.ok("POST", "/api/sessions/s1/wait", Some(until("got it")));
    let shot = web.ok("GET", "/api/sessions/s1/screen?format=text", None);
    assert!(shot["text"].as_str().unwrap().contains("got it"), "{shot}");
    let page = web.ok("GET", "/api/sessions/s1/transcript?since=0&max_bytes=5", None);
    assert_eq!((&page["text"], &page["has_more"]), (&json!("hello"), &json!(true)));
    let late = json!({ "matcher": { "type": "contains_text", "value": "never" }, "timeout_ms": 1 });
    let late = web.ask("POST", "/api/sessions/s1/wait", Some(late));
    assert_eq!((late.status, late.kind().as_str()), (504, "timeout"), "{late:?}");
    web.ok("POST", "/api/sessions/s1/kill", None);
    let closed = web.ask(
        "POST",
        "/api/sessions/s1/input",
        Some(json!({ "action": { "type": "text", "value": "x" } })),
    );
    assert_eq!(closed.status, 410, "{closed:?}");
    web.ok("DELETE", "/api/sessions/s1", None);
    let gone = web.get("/api/sessions/s1");
    assert_eq!((gone.status, gone.kind().as_str()), (404, "unknown_session"));
}

#[test]
fn every_answer_has_the_headers_and_none_of_cors() {
    let host = Host::start();
    let web = Web::of(&mut host.client());
    let wrong = Web { address: web.address.clone(), token: "wrong".into() };
    for answer in [web.get("/api/stats"), web.get("/nothing"), wrong.get("/api/stats")] {
        assert!(answer.header("content-security-policy").unwrap().contains("default-src 'none'"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let cors = |(name, _): &&(String, String)| name.starts_with("access-control-");
        assert!(!answer.headers.iter().any(|header| cors(&header)), "{answer:?}");
    }
}

#[test]
fn the_token_is_told_on_the_socket_only_and_is_not_the_whole_host() {
    let host = Host::start();
    let mut client = host.client();
    let web = Web::of(&mut client);
    assert_eq!(Web::of(&mut client).address, web.address, "started once");
    let file = host.home.path().join("run/token");
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), web.token);
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let elsewhere = client.fault("server.web", json!({ "listen": "127.0.0.1:1" }));
    assert_eq!(elsewhere["data"]["kind"], "conflict", "{elsewhere}");
    let wide = client.fault("server.web", json!({ "listen": "0.0.0.0:0" }));
    assert_eq!(wide["data"]["kind"], "permission_denied", "{wide}");
    // The log has neither the token nor what was asked with it.
    web.get("/api/stats");
    assert!(!host.log().contains(&web.token));
    let mut socket = streams::websocket(&web, "/api/rpc", &[]).unwrap();
    for method in ["server.web", "server.shutdown", "server.upgrade"] {
        let answer = streams::call(&mut socket, method, json!({}));
        assert_eq!(answer["error"]["data"]["kind"], "permission_denied", "{answer}");
    }
}

#[test]
fn another_daemon_serves_the_same_address_and_token() {
    let mut host = Host::start();
    let web = Web::of(&mut host.client());
    web.ok("GET", "/api/stats", None);
    host.kill_daemon();
    let mut client = host.client();
    web.ok("GET", "/api/stats", None);
    let again = Web::of(&mut client);
    assert_eq!((again.address, again.token), (web.address.clone(), web.token.clone()));
    client.ok("server.shutdown", json!({}));
    host.ended();
    assert!(!host.home.path().join("run/token").exists(), "nobody will serve there any more");
}

#[test]
fn a_port_that_somebody_took_gets_no_token() {
    let host = Host::start();
    let web = Web::of(&mut host.client());
    let daemon = host.daemon_pid();
    // Stopped, it cannot be replaced before the port is taken.
    signal(host.keeper_pid(), Signal::STOP);
    signal(daemon, Signal::KILL);
    let taken = loop {
        match std::net::TcpListener::bind(&web.address) {
            Ok(taken) => break taken,
            Err(_) => std::thread::yield_now(),
        }
    };
    signal(host.keeper_pid(), Signal::CONT);
    let again = Web::of(&mut host.client());
    assert_ne!((&again.address, &again.token), (&web.address, &web.token));
    assert_ne!(again.token, web.token);
    again.ok("GET", "/api/stats", None);
    drop(taken);
}

#[test]
fn the_configuration_starts_it() {
    let host = Host::with_config("[http]\nlisten = \"localhost:0\"\n");
    let address = std::fs::read_to_string(host.home.path().join("run/http")).unwrap();
    let web = Web::of(&mut host.client());
    assert_eq!(web.address, address.trim());
    web.ok("GET", "/api/stats", None);
    let none = Host::start();
    assert!(!none.home.path().join("run/http").exists(), "nobody asked for it");
}

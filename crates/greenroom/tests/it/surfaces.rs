//! The other doors: HTTP on a fresh host, MCP on stdin and stdout, and a verb for each row that
//! names one.
#![expect(clippy::print_stderr, reason = "what was not run is said")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use greenroom_protocol::methods::METHODS;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::Home;

/// One request with the token; the status and the body.
fn get(url: &str, token: &str, path: &str) -> (u16, String) {
    let address = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let head =
        format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n");
    stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    (status, text.split_once("\r\n\r\n").unwrap().1.to_owned())
}

#[test]
fn every_verb_of_the_table_exists() {
    let home = Home::new();
    for row in METHODS {
        let Some(verb) = row.surfaces.cli else { continue };
        let said = home.run(&[verb, "--help"]);
        assert_eq!(said.code, 0, "{}: {verb}: {said:?}", row.name);
    }
}

#[test]
fn web_starts_http_on_a_fresh_host() {
    let home = Home::new();
    let web = home.json(&["web", "--json"]);
    let (url, token) = (web["url"].as_str().unwrap(), web["token"].as_str().unwrap());
    assert_eq!(web.as_object().unwrap().len(), 2, "{web}");
    let id = home.shell("read x");
    let (status, body) = get(url, token, "/api/sessions");
    assert_eq!((status, body.as_str()), (200, &*format!("{{\"sessions\":[\"{id}\"]}}")));
    assert_eq!(get(url, "wrong", "/api/sessions").0, 401);
    let said = home.ok(&["web"]);
    assert!(said.contains(url) && said.contains("run/token") && !said.contains(token), "{said}");
    assert_eq!(home.json(&["web", "--json"]), web, "asked twice, started once");
}

#[test]
fn serve_with_http() {
    let home = Home::new();
    let mut serve = home.command(&["serve", "--http", "127.0.0.1:0", "--json"]);
    let mut serve = serve.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(serve.stdout.take().unwrap()).lines();
    let said: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let (url, token) = (said["url"].as_str().unwrap(), said["token"].as_str().unwrap());
    assert_eq!(get(url, token, "/api/stats").0, 200);
    kill_process(Pid::from_child(&serve), Signal::TERM).unwrap();
    assert!(serve.wait().unwrap().success());
    assert!(TcpStream::connect(url.strip_prefix("http://").unwrap()).is_err());
}

/// The block of the page that calls; the others only start something.
#[test]
fn the_calls_of_the_page_work() {
    let tools = ["curl", "jq", "bash"].map(|tool| Command::new(tool).arg("--version").output());
    if tools.iter().any(Result::is_err) {
        eprintln!("NOT RUN: curl, jq or bash is missing");
        return;
    }
    let home = Home::new();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/rest.md");
    let page = std::fs::read_to_string(page).unwrap();
    let block = page.split("```sh\n").find(|block| block.contains("ask()")).unwrap();
    let script = format!("set -e -o pipefail\n{}", block.split("```").next().unwrap());
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).current_dir(home.path()).env_clear();
    for (name, value) in home.command(&[]).get_envs() {
        bash.env(name, value.unwrap());
    }
    let output = bash.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("\"name\":\"work\"") && text.contains("\"closed\":true"), "{text}");
}

struct Agent {
    stdin: std::process::ChildStdin,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    child: std::process::Child,
    next: u64,
}

impl Agent {
    fn start(home: &Home) -> Agent {
        let mut child =
            home.command(&["mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut agent = Agent { stdin: child.stdin.take().unwrap(), lines, child, next: 1 };
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" }
        });
        let answer = agent.ask("initialize", hello);
        assert_eq!(answer["result"]["serverInfo"]["name"], "greenroom", "{answer}");
        agent.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        agent
    }

    fn say(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").unwrap();
    }

    fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn line(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        loop {
            let line = self.line();
            if line["id"] == id {
                return line;
            }
        }
    }

    fn tool(&mut self, name: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({ "name": name, "arguments": arguments }));
        assert_ne!(answer["result"]["isError"], true, "{answer}");
        answer["result"]["structuredContent"].clone()
    }
}

#[test]
fn mcp_on_stdin_and_stdout() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let made = agent.tool(
        "session_start",
        json!({ "command": ["sh", "-c", "pwd; echo $PS1; read x; echo got $x; read y"] }),
    );
    let id = made["session"].as_str().unwrap().to_owned();
    let waited = agent.tool("session_wait", json!({ "session": id, "text": "ready" }));
    let here = home.path().to_str().unwrap();
    assert!(
        waited["screen"].as_str().unwrap().contains(here),
        "its directory and environment are ours: {waited}"
    );
    let sent =
        agent.tool("session_send", json!({ "session": id, "text": "that", "keys": ["enter"] }));
    let waited = agent.tool(
        "session_wait",
        json!({ "session": id, "text": "got that", "since": sent["sequence"] }),
    );
    assert_eq!(waited["matched"], true, "{waited}");
    let read = agent.tool("session_read", json!({ "session": id, "since": 0 }));
    assert!(read["text"].as_str().unwrap().contains("got that"), "{read}");
    assert_eq!(agent.tool("sessions_list", json!({}))["sessions"][0]["id"], json!(id));
    // A daemon that is replaced meanwhile is no matter to a call that may be made again.
    kill_process(Pid::from_raw(home.daemon_pid()).unwrap(), Signal::KILL).unwrap();
    let read = agent.tool("session_read", json!({ "session": id }));
    assert!(read["text"].as_str().unwrap().contains("got that"), "{read}");
    assert_eq!(agent.tool("session_kill", json!({ "session": id }))["killed"], true);
    drop(agent.stdin);
    assert!(agent.child.wait().unwrap().success());
}

#[test]
fn a_wait_by_mcp_can_be_cancelled_and_says_that_it_goes_on() {
    let home = Home::new();
    let mut agent = Agent::start(&home);
    let made = agent.tool("session_start", json!({ "command": ["cat"] }));
    let arguments = json!({ "session": made["session"], "exit": true, "timeout_ms": 600_000 });
    let params = json!({ "name": "session_wait", "arguments": arguments, "_meta": { "progressToken": "p" } });
    let id = agent.send("tools/call", params);
    let told = agent.line();
    assert_eq!(
        (&told["method"], &told["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!("p")),
        "{told}"
    );
    // Others are answered meanwhile.
    agent.tool("sessions_list", json!({}));
    agent.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
    crate::support::eventually("the host waits no longer", || {
        (home.call("server.stats", json!({}))["waits"] == 0).then_some(())
    });
    drop(agent.stdin);
    assert!(agent.child.wait().unwrap().success());
}

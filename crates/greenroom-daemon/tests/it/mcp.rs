//! MCP over streamable HTTP, spoken by hand in the dialects of several years.

use serde_json::{Value, json};

use crate::host::Host;
use crate::http::{Answer, Web};

fn post(web: &Web, headers: &str, message: &Value) -> Answer {
    let body = message.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\n{}{headers}Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n",
        web.headers()
    );
    let length = format!("Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    web.raw(format!("{head}{length}{body}").as_bytes())
}

fn request(web: &Web, method: &str, params: Value) -> Value {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let answer = post(web, "MCP-Protocol-Version: 2025-06-18\r\n", &message);
    assert_eq!(answer.status, 200, "{method}: {answer:?}");
    answer.json()
}

fn tool(web: &Web, name: &str, arguments: Value) -> Value {
    request(web, "tools/call", json!({ "name": name, "arguments": arguments }))["result"].clone()
}

#[test]
fn an_agent_uses_a_session() {
    let host = Host::start();
    let web = Web::of(&mut host.client());
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" }
    });
    let hello = request(&web, "initialize", hello);
    assert_eq!(hello["result"]["serverInfo"]["name"], "greenroom", "{hello}");
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(post(&web, "", &ready).status, 202);
    let tools = request(&web, "tools/list", json!({}));
    let names: Vec<&str> = tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    for row in greenroom_protocol::methods::METHODS {
        assert!(row.surfaces.mcp.is_none_or(|name| names.contains(&name)), "{}", row.name);
    }
    let made = tool(
        &web,
        "session_start",
        json!({ "command": ["sh", "-c", "echo hello; read x; echo got $x; read y"] }),
    );
    assert_eq!(made["structuredContent"]["session"], "s1", "{made}");
    let waited = tool(&web, "session_wait", json!({ "session": "s1", "text": "hello" }));
    assert_eq!(waited["structuredContent"]["matched"], true, "{waited}");
    let sent = tool(&web, "session_send", json!({ "session": "s1", "text": "it", "enter": true }));
    let since = sent["structuredContent"]["sequence"].clone();
    let waited = tool(
        &web,
        "session_wait",
        json!({ "session": "s1", "text": "got (\\w+)", "since": since }),
    );
    assert!(waited["structuredContent"]["screen"].as_str().unwrap().contains("got it"), "{waited}");
    // The daemon may be replaced between two calls: there is no session of MCP's own to lose.
    host.kill_daemon();
    let read = tool(&web, "session_read", json!({ "session": "s1" }));
    assert!(read["content"][0]["text"].as_str().unwrap().contains("got it"), "{read}");
    let late =
        tool(&web, "session_wait", json!({ "session": "s1", "text": "never", "timeout_ms": 1 }));
    assert_eq!(late["structuredContent"]["why"], "timeout", "{late}");
    let killed = tool(&web, "session_kill", json!({ "session": "s1" }));
    assert_eq!(killed["structuredContent"]["killed"], true, "{killed}");
    let events = tool(&web, "events_read", json!({ "kinds": ["session.exited"] }));
    assert_eq!(events["structuredContent"]["events"][0]["session"], "s1", "{events}");
    let listed = tool(&web, "sessions_list", json!({}));
    assert_eq!(listed["structuredContent"]["sessions"][0]["state"], "exited", "{listed}");
}

#[test]
fn mistakes_are_for_the_model_to_read() {
    let host = Host::start();
    let web = Web::of(&mut host.client());
    let missing = tool(&web, "session_read", json!({ "session": "nothing" }));
    assert_eq!(missing["isError"], true);
    assert!(
        missing["content"][0]["text"].as_str().unwrap().contains("unknown session"),
        "{missing}"
    );
    let wrong = tool(&web, "session_wait", json!({ "session": "s1", "text": "(" }));
    assert_eq!(wrong["isError"], true, "{wrong}");
    let unknown = request(&web, "tools/call", json!({ "name": "rm_rf", "arguments": {} }));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("no tool rm_rf"), "{unknown}");
    let huge =
        post(&web, "", &json!({ "jsonrpc": "2.0", "id": 1, "method": "x".repeat(17 << 20) }));
    assert_eq!(huge.status, 413);
    assert!(matches!(web.get("/mcp").status, 405 | 406), "no stream without a call");
}

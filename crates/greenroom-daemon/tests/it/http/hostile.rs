//! Requests nobody should be able to make, and requests that are none.

use std::io::{BufReader, Read, Write};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Answer, Web, read_answer, streams};
use crate::client::Client;
use crate::host::{Host, wait_for};

fn refused(answer: &Answer, status: u16, reason: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.json()["error"]["data"]["reason"], reason, "{answer:?}");
}

fn with(web: &Web, headers: &str) -> Answer {
    web.raw(format!("GET /api/sessions HTTP/1.1\r\n{headers}Connection: close\r\n\r\n").as_bytes())
}

#[test]
fn without_the_token_there_is_nothing() {
    let host = Host::start();
    let web = Web::of(&mut host.client());
    let name = format!("Host: {}\r\n", web.address);
    for path in ["/", "/api/sessions", "/api/openapi.json", "/mcp", "/nothing", "/api/rpc"] {
        let ask = format!("GET {path} HTTP/1.1\r\n{name}Connection: close\r\n\r\n");
        refused(&web.raw(ask.as_bytes()), 401, "token");
    }
    let none = with(&web, &name);
    refused(&none, 401, "token");
    assert_eq!(none.header("www-authenticate"), Some("Bearer realm=\"greenroom\""));
    for wrong in
        ["x".to_owned(), web.token[1..].to_owned(), format!("{}0", web.token), "0".repeat(64)]
    {
        refused(&with(&web, &format!("{name}Authorization: Bearer {wrong}\r\n")), 401, "token");
    }
    refused(&with(&web, &format!("{name}Cookie: token={}\r\n", web.token)), 401, "token");
    let query = format!(
        "GET /api/sessions?token={} HTTP/1.1\r\n{name}Connection: close\r\n\r\n",
        web.token
    );
    refused(&web.raw(query.as_bytes()), 401, "token");
}

#[test]
fn another_name_for_our_address_is_refused() {
    let host = Host::start();
    let web = Web::of(&mut host.client());
    let token = format!("Authorization: Bearer {}\r\n", web.token);
    let port = web.address.rsplit_once(':').unwrap().1;
    for name in
        ["evil.example".to_owned(), format!("evil.example:{port}"), "127.0.0.1:1".to_owned()]
    {
        refused(&with(&web, &format!("Host: {name}\r\n{token}")), 403, "host");
    }
    let both = format!("Host: {}\r\nHost: evil.example\r\n{token}", web.address);
    assert!(matches!(with(&web, &both).status, 400 | 403));
    let line = format!(
        "GET http://evil.example/api/sessions HTTP/1.1\r\n{}Connection: close\r\n\r\n",
        web.headers()
    );
    refused(&web.raw(line.as_bytes()), 403, "host");
    // HTTP/1.0 needs no Host; we do.
    let old = format!("GET /api/sessions HTTP/1.0\r\n{token}\r\n");
    refused(&web.raw(old.as_bytes()), 403, "host");
}

#[test]
fn a_foreign_page_is_refused_everywhere() {
    let host = Host::start();
    let web = Web::of(&mut host.client());
    for origin in ["http://evil.example", "null", "https://127.0.0.1"] {
        refused(&with(&web, &format!("{}Origin: {origin}\r\n", web.headers())), 403, "origin");
        for path in ["/api/rpc", "/api/sessions/s1/attach"] {
            let status = streams::websocket(&web, path, &[("Origin", origin)]).err().unwrap();
            assert_eq!(status, 403, "{path} {origin}");
        }
        let post = format!(
            "POST /mcp HTTP/1.1\r\n{}Origin: {origin}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}",
            web.headers()
        );
        refused(&web.raw(post.as_bytes()), 403, "origin");
    }
    refused(
        &with(&web, &format!("{}Sec-Fetch-Site: cross-site\r\n", web.headers())),
        403,
        "origin",
    );
    // A preflight is a request like any other, and is answered without a word of permission.
    let preflight = format!(
        "OPTIONS /api/sessions HTTP/1.1\r\nHost: {}\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n",
        web.address
    );
    refused(&web.raw(preflight.as_bytes()), 403, "origin");
    let own = format!("{}Origin: http://{}\r\n", web.headers(), web.address);
    assert_eq!(with(&web, &own).status, 200);
}

#[test]
fn bodies_have_a_limit() {
    let host = Host::start();
    let web = Web::of(&mut host.client());
    let head = |length: &str| {
        format!("POST /api/sessions HTTP/1.1\r\n{}{length}Connection: close\r\n\r\n", web.headers())
    };
    // Announced: refused before a byte of it was read.
    let answer = web.raw(head("Content-Length: 999999999999\r\n").as_bytes());
    assert_eq!((answer.status, answer.kind().as_str()), (413, "too_large"));
    // Not announced: refused when it is too much.
    let mut stream = web.connect();
    stream.write_all(head("Transfer-Encoding: chunked\r\n").as_bytes()).unwrap();
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 0x10_0000], b"\r\n"].concat();
    for _ in 0..17 {
        if stream.write_all(&chunk).is_err() {
            break;
        }
    }
    let answer = read_answer(&mut BufReader::new(stream));
    assert_eq!(answer.status, 413, "{answer:?}");
    assert_eq!(web.ok("GET", "/api/sessions", None), json!({ "sessions": [] }));
}

#[test]
fn a_head_that_does_not_end_is_not_waited_for() {
    let host = Host::start();
    let web = Web::of(&mut host.client());
    let began = Instant::now();
    // The clients: a silent one, one that stops within its head, one that drips.
    let silent = web.connect();
    let mut half = web.connect();
    half.write_all(b"GET /api/sessions HTTP/1.1\r\nHost: x\r\nX-Slow: ").unwrap();
    let mut drip = web.connect();
    drip.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    drip.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let mut byte = [0; 64];
    while drip.write_all(b"a: b\r\n").is_ok() {
        match drip.read(&mut byte) {
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) => {}
            _ => break,
        }
        assert!(began.elapsed() < Duration::from_secs(25), "a dripping head is read for ever");
    }
    for mut stream in [silent, half] {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(!String::from_utf8_lossy(&rest).contains("200"), "{rest:?}");
    }
    assert!(began.elapsed() < Duration::from_secs(25));
    web.ok("GET", "/api/stats", None);
}

#[test]
fn garbage_costs_its_connection_only() {
    let host = Host::start();
    let web = Web::of(&mut host.client());
    let huge = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(200_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(5000));
    let hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec();
    let pri = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    for bytes in
        [huge.into_bytes(), many.into_bytes(), hello, pri, vec![0; 5000], b"\r\n\r\n\r\n".to_vec()]
    {
        let mut stream = web.connect();
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        let text = String::from_utf8_lossy(&rest);
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.1 4") || text.starts_with("HTTP/1.0 4"),
            "{text}"
        );
    }
    for body in ["", "[]", "nonsense", "{\"command\": 3}", "{\"rows\": \"many\"}", "\u{0}"] {
        let ask = format!(
            "POST /api/runs HTTP/1.1\r\n{}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            web.headers(),
            body.len()
        );
        assert_eq!(web.raw(ask.as_bytes()).status, 400, "{body:?}");
    }
    let deep = format!("{{\"connector\": {}}}", "[".repeat(100_000));
    let ask = format!(
        "POST /api/runs HTTP/1.1\r\n{}Content-Length: {}\r\nConnection: close\r\n\r\n{deep}",
        web.headers(),
        deep.len()
    );
    assert_eq!(web.raw(ask.as_bytes()).status, 400);
    web.ok("GET", "/api/stats", None);
}

#[test]
fn paths_lead_to_methods_and_nowhere_else() {
    let host = Host::start();
    let web = Web::of(&mut host.client());
    for path in [
        "/etc/passwd",
        "/../../etc/passwd",
        "/api/../../etc/passwd",
        "/api/sessions/../../../etc/passwd",
        "/api/sessions/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/api/sessions/..%2F..%2Frun%2Ftoken/screen",
        "/api/sessions/%00",
        "/api/sessions/s1%0d%0aX-Evil:%201",
        "/api//sessions",
        "/api/sessions/",
        "/API/SESSIONS",
        "//evil.example/api/sessions",
    ] {
        let answer = web.get(path);
        assert!(matches!(answer.status, 400 | 403 | 404), "{path}: {answer:?}");
        assert!(!answer.text.contains("root:") && !answer.text.contains(&web.token), "{path}");
        assert_eq!(answer.header("x-evil"), None);
    }
    assert_eq!(web.get("/api/sessions/%FF").status, 400, "not UTF-8");
    assert_eq!(web.get("/api/sessions?detail=maybe").status, 400);
    assert_eq!(web.get("/api/sessions?colour=red").status, 400);
    assert_eq!(web.ask("DELETE", "/api/sessions", None).status, 405);
    assert_eq!(web.ask("PATCH", "/api/sessions/s1", None).status, 405);
    assert_eq!(web.ask("POST", "/api/runs", Some(json!({ "connector": 1 }))).status, 400);
}

/// A process in a confined session with the whole network: the one way from inside to our port.
#[test]
fn a_confined_session_gets_no_answer_even_with_the_token() {
    let host = Host::start();
    let mut client = host.client();
    if client.ok("sandbox.doctor", json!({}))["full"] != json!(true) {
        eprintln!("NOT RUN: level full cannot be enforced here");
        return;
    }
    let web = Web::of(&mut client);
    let work = tempfile::tempdir().unwrap();
    let port = web.address.rsplit_once(':').unwrap().1;
    let script = format!(
        "cat {}/run/token || echo no-token-file; read token; exec 3<>/dev/tcp/127.0.0.1/{port} || echo no-way; \
         printf 'GET /api/sessions HTTP/1.1\\r\\nHost: {}\\r\\nAuthorization: Bearer %s\\r\\n\\r\\n' $token >&3; \
         head -1 <&3; cat",
        host.home.path().display(),
        web.address
    );
    let start = |client: &mut Client, sandbox| {
        let params =
            json!({ "command": ["bash", "-c", script], "cwd": work.path(), "sandbox": sandbox });
        client.ok("session.create", params)["session"].as_str().unwrap().to_owned()
    };
    let tell = json!({ "type": "text", "value": format!("{}\n", web.token) });
    // As it is by default: no way there.
    let id = start(&mut client, json!(true));
    wait_for(&mut client, &id, "no-token-file");
    client.ok("session.input", json!({ "session": id, "action": tell }));
    wait_for(&mut client, &id, "no-way");
    // With the network, and the token handed in by somebody.
    let id = start(&mut client, json!({ "allow": ["network"] }));
    wait_for(&mut client, &id, "no-token-file");
    client.ok("session.input", json!({ "session": id, "action": tell }));
    wait_for(&mut client, &id, "HTTP/1.1 403");
    // A client outside is served meanwhile.
    web.ok("GET", "/api/sessions", None);
}

//! The daemon dies, is replaced, or ends; sessions do not notice.

use rustix::process::Signal;
use serde_json::{Value, json};
use test_kit::place::example;

use crate::host::{Host, screen, signal, wait_for};

#[test]
fn sessions_outlive_a_killed_daemon() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "echo before; cat");
    client.ok("session.rename", json!({ "session": id, "name": "survivor" }));
    wait_for(&mut client, &id, "before");
    let pid = client.ok("session.info", json!({ "session": id }))["pid"].clone();
    host.kill_daemon();
    let mut client = host.client();
    let info = client.ok("session.info", json!({ "session": "survivor" }));
    assert_eq!((info["pid"].clone(), info["id"].clone()), (pid, json!(id)));
    client.ok(
        "session.input",
        json!({ "session": id, "action": { "type": "text", "value": "after\n" } }),
    );
    wait_for(&mut client, &id, "after");
    assert!(screen(&mut client, &id).starts_with("before\nafter"));
    let stats = client.ok("server.stats", json!({}));
    assert_eq!(stats["keeper"]["daemon_starts"], 2);
    assert_eq!(stats["keeper"]["last_exit"]["signal"], 9);
}

#[test]
fn an_end_that_nobody_saw_is_known_afterwards() {
    let host = Host::start();
    let mut client = host.client();
    let fifo = host.home.path().join("go");
    let script = format!("mkfifo {0}; echo ready; read x < {0}; echo over; exit 6", fifo.display());
    let id = host.session(&mut client, &script);
    wait_for(&mut client, &id, "ready");
    let daemon = host.daemon_pid();
    signal(daemon, Signal::STOP);
    std::fs::write(&fifo, "x\n").unwrap();
    signal(daemon, Signal::KILL);
    let mut client = host.client();
    let over = json!({ "session": id, "matcher": { "type": "exit_code", "value": 6 }, "snapshot": "text" });
    let waited = client.ok("session.wait", over);
    assert_eq!(waited["snapshot"]["text"], "ready\nover");
}

#[test]
fn ended_sessions_stay_readable_after_a_restart() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "echo kept; exit 2");
    client.ok("session.wait", json!({ "session": id, "matcher": { "type": "process_exited" } }));
    host.kill_daemon();
    let mut client = host.client();
    // Its end may not have been recorded when the daemon died; the keeper tells it again.
    client.ok("session.wait", json!({ "session": id, "matcher": { "type": "process_exited" } }));
    let info = client.ok("session.info", json!({ "session": id }));
    assert_eq!((info["state"].clone(), info["exit"]["code"].clone()), (json!("exited"), json!(2)));
    assert_eq!(screen(&mut client, &id), "kept");
    client.ok("session.close", json!({ "session": id }));
    assert!(!host.paths.sessions().join(&id).exists());
}

#[test]
fn a_host_upgrades_under_its_sessions() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "cat");
    let before = host.daemon_pid();
    let upgraded = client.ok("server.upgrade", json!({ "path": example("daemon-host") }));
    assert_eq!(upgraded["upgrading"], true);
    let mut rest = client.rest();
    rest.clear();
    assert_ne!(host.daemon_pid(), before);
    let mut client = host.client();
    client.ok(
        "session.input",
        json!({ "session": id, "action": { "type": "text", "value": "still\n" } }),
    );
    wait_for(&mut client, &id, "still");
    assert_eq!(client.ok("server.stats", json!({}))["keeper"]["generation"], 1);
    let wrong = client.fault("server.upgrade", json!({ "path": "/bin/false" }));
    assert_eq!(wrong["data"]["kind"], "conflict");
    client.ok("session.list", json!({}));
}

#[test]
fn a_stopped_daemon_is_followed_by_another() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "cat");
    let before = host.daemon_pid();
    signal(before, Signal::TERM);
    assert!(client.rest().is_empty());
    assert_ne!(host.daemon_pid(), before);
    assert_eq!(host.client().ok("session.info", json!({ "session": id }))["state"], "running");
}

#[test]
fn shutdown_ends_everything() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "trap '' HUP; sleep 1000 & echo ready; wait");
    wait_for(&mut client, &id, "ready");
    let fault = client.fault("server.shutdown", json!({ "if_idle": true }));
    assert_eq!(fault["data"]["kind"], "conflict");
    let pid = client.ok("session.info", json!({ "session": id }))["pid"].as_i64().unwrap();
    let stopping = client.ok("server.shutdown", json!({ "grace_ms": 2000 }));
    assert_eq!(stopping, json!({ "stopping": true, "sessions": 1 }));
    assert!(client.rest().is_empty());
    let socket = host.paths.socket();
    assert_eq!(host.wait(), Some(0));
    assert!(std::os::unix::net::UnixStream::connect(socket).is_err());
    let gone =
        rustix::process::test_kill_process(rustix::process::Pid::from_raw(pid as i32).unwrap());
    assert!(gone.is_err());
}

#[test]
fn a_lost_database_costs_names_not_sessions() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "echo here; cat");
    wait_for(&mut client, &id, "here");
    for file in ["greenroom.db", "greenroom.db-wal", "greenroom.db-shm"] {
        std::fs::remove_file(host.paths.state().join(file)).unwrap();
    }
    host.kill_daemon();
    let mut client = host.client();
    let list: Value = client.ok("session.list", json!({ "detail": true }));
    assert_eq!(list["sessions"][0]["id"], json!(id));
    assert_eq!(screen(&mut client, &id), "here");
    assert_eq!(client.ok("session.create", json!({ "command": ["cat"] }))["session"], "s2");
}

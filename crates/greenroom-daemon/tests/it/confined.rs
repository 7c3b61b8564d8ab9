//! Sessions in a sandbox, through a real keeper and its stage.

use serde_json::{Value, json};

use crate::client::Client;
use crate::host::{Host, wait_for};

/// Where level full cannot be enforced there is nothing to test, and that is said.
fn able(client: &mut Client) -> bool {
    let found = client.ok("sandbox.doctor", json!({}));
    let full = found["full"] == json!(true);
    if !full {
        eprintln!("NOT RUN: {found}");
    }
    full
}

fn create(client: &mut Client, cwd: &std::path::Path, script: &str, sandbox: Value) -> String {
    let params = json!({ "command": ["bash", "-c", script], "cwd": cwd, "sandbox": sandbox });
    client.ok("session.create", params)["session"].as_str().unwrap().to_owned()
}

#[test]
fn writes_stay_inside_and_the_host_is_out_of_reach() {
    let host = Host::start();
    let mut client = host.client();
    if !able(&mut client) {
        return;
    }
    let work = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let script = format!(
        "echo in > file && echo wrote; echo out > {0}/file || echo no-write; ls {1} | wc -l; \
         test -S {1}/run/greenroom.sock || echo no-socket; echo \"[$GREENROOM_SANDBOX|$GREENROOM_SOCKET|$TMPDIR]\"; \
         echo tmp > /tmp/mine; tty; cat",
        outside.path().display(),
        host.home.path().display()
    );
    let id = create(&mut client, work.path(), &script, json!(true));
    wait_for(&mut client, &id, "/dev/pts/0");
    for line in ["wrote", "no-write", "no-socket", "[full||/tmp]"] {
        wait_for(&mut client, &id, line);
    }
    assert!(work.path().join("file").exists() && !outside.path().join("file").exists());
    let info = client.ok("session.info", json!({ "session": id }));
    assert_eq!(info["sandbox"], "full", "{info}");
    assert!(host.home.path().join("state/tmp").join(&id).join("mine").exists());
    // Survives the daemon, and goes with everything.
    host.kill_daemon();
    let mut client = host.client();
    let info = client.ok("session.info", json!({ "session": id }));
    assert_eq!((&info["state"], &info["sandbox"]), (&json!("running"), &json!("full")));
    client.ok("session.kill", json!({ "session": id }));
    client.ok("session.info", json!({ "session": id, "settled": true }));
    assert!(!host.home.path().join("state/tmp").join(&id).exists());
}

#[test]
fn all_plugins_together() {
    let host = Host::start();
    let mut client = host.client();
    if !able(&mut client) {
        return;
    }
    // In a checkout without a worktree: what hides the link from git lies in our state, and must be
    // seen inside.
    let work = tempfile::tempdir().unwrap();
    test_kit::git::init(work.path());
    let script = "git status --porcelain | sed 's/^/dirty /'; echo shared > scratchpad/note && echo noted; \
                  touch .git/hooks/evil || echo no-hook; cat";
    let params = json!({
        "command": ["bash", "-c", script], "cwd": work.path(), "sandbox": true, "scratchpad": "team",
        "env": { "K": "v" }, "timeout_ms": 60_000
    });
    let id = client.ok("session.create", params)["session"].as_str().unwrap().to_owned();
    wait_for(&mut client, &id, "no-hook");
    wait_for(&mut client, &id, "noted");
    let text = crate::host::screen(&mut client, &id);
    assert!(!text.contains("dirty"), "{text}");
    client.ok("session.kill", json!({ "session": id }));
    let info = client.ok("session.info", json!({ "session": id, "settled": true }));
    let left = info["plugins"][0]["left"].to_string();
    assert!(left.contains("kept") && left.contains("1 file"), "{info}");
    assert_eq!(
        std::fs::read_to_string(host.home.path().join("state/scratchpads/team/note")).unwrap(),
        "shared\n"
    );
    assert!(!work.path().join("scratchpad").is_symlink());
}

#[test]
fn hosts_that_were_not_granted_are_denied_and_told() {
    let host = Host::start();
    let mut client = host.client();
    if !able(&mut client) {
        return;
    }
    let work = tempfile::tempdir().unwrap();
    let script = "ask() { exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT %s HTTP/1.1\\r\\n\\r\\n' $1 >&3; \
                  head -1 <&3; exec 3>&-; }; read x; ask evil.example.com:443; ask 127.0.0.1:443; echo asked; read x; \
                  ask later.example.com:443; echo again; cat";
    let sandbox = json!({ "allow_hosts": ["api.example.com"] });
    let id = create(&mut client, work.path(), script, sandbox);
    let enter = json!({ "session": id, "action": { "type": "text", "value": "\n" } });
    client.ok("session.input", enter.clone());
    wait_for(&mut client, &id, "asked");
    wait_for(&mut client, &id, "403 Forbidden");
    // The next daemon serves the same door.
    host.kill_daemon();
    let mut client = host.client();
    client.ok("session.input", enter);
    wait_for(&mut client, &id, "again");
    client.ok("session.kill", json!({ "session": id }));
    let info = client.ok("session.info", json!({ "session": id, "settled": true }));
    let denied: Vec<&str> =
        info["denied"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(denied.len(), 3, "{info}");
    assert!(denied[0].starts_with("evil.example.com:443: not an allowed host"), "{info}");
    let page = client.ok(
        "server.subscribe",
        json!({ "since": 0, "follow": false, "kinds": ["session.denied"] }),
    );
    assert_eq!(page["events"].as_array().unwrap().len(), 3, "{page}");
    let log = host.home.path().join("state/sessions").join(&id).join("proxy.jsonl");
    assert_eq!(std::fs::read_to_string(log).unwrap().lines().count(), 3);
}

#[test]
fn what_cannot_be_enforced_does_not_start() {
    let host = Host::start();
    let mut client = host.client();
    let home = std::env::var("HOME").unwrap_or_else(|_| "/root".to_owned());
    let fault = client.fault("session.create", json!({ "cwd": home, "sandbox": true }));
    assert_eq!(fault["data"]["plugin"], "sandbox", "{fault}");
    assert!(fault["data"]["hint"].is_string(), "{fault}");
    let bad = json!({ "cwd": "/usr/share", "sandbox": { "allow_hosts": ["*"] } });
    let fault = client.fault("session.create", bad);
    assert!(fault["message"].as_str().unwrap().contains("cannot allow the host"), "{fault}");
    let fault = client.fault("session.create", json!({ "sandbox": { "allow_host": [] } }));
    assert_eq!(fault["data"]["kind"], "invalid_params", "{fault}");
    assert_eq!(client.ok("session.list", json!({})), json!({ "sessions": [] }));
}

#[test]
fn explain_says_what_would_be() {
    let host = Host::start();
    let mut client = host.client();
    let work = tempfile::tempdir().unwrap();
    let params = json!({ "cwd": work.path(), "sandbox": { "allow_hosts": ["api.example.com"] } });
    let explained = client.ok("sandbox.explain", params);
    assert_eq!(explained["level"], "full", "{explained}");
    assert_eq!(explained["hosts"], json!(["api.example.com"]));
    let hidden = explained["hidden"].to_string();
    assert!(hidden.contains(host.home.path().to_str().unwrap()), "{hidden}");
}

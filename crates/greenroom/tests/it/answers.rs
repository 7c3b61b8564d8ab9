//! True answers of the binary: to whoever closes stdin behind its last request, and to waits that
//! cannot hold.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Home, eventually};

fn create(id: u64) -> String {
    let params = json!({ "command": ["true"] });
    json!({ "jsonrpc": "2.0", "id": id, "method": "session.create", "params": params }).to_string()
}

fn lines(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_is_asked_before_the_end_of_stdin_is_answered() {
    let home = Home::new();
    home.ok(&["ls"]);
    for args in [&["serve", "--stdio", "--shared"][..], &["serve", "--stdio"]] {
        // Once with an end of the last line, once without.
        for end in ["\n", ""] {
            let said = home.run_with_input(args, &format!("{}\n{}{end}", create(1), create(2)));
            let answers = lines(&said.out);
            assert_eq!(answers.len(), 2, "{args:?}: {said:?}");
            for answer in answers {
                assert!(answer["result"]["session"].is_string(), "{args:?}: {answer}");
            }
        }
    }
}

#[test]
fn mcp_answers_what_was_asked_before_the_end_of_stdin() {
    let home = Home::new();
    let id = home.shell("read x");
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" }
    });
    // Longer than the protocol's own loop waits for answers after the end.
    let wait = json!({ "session": id, "text": "never", "timeout_ms": 5_500 });
    let request = |id: u64, method: &str, params: Value| {
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
    };
    let input = [
        request(1, "initialize", hello),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string(),
        request(2, "tools/call", json!({ "name": "session_wait", "arguments": wait })),
        request(
            3,
            "tools/call",
            json!({ "name": "session_start", "arguments": { "comand": ["x"] } }),
        ),
        // Not even its line is ended.
        request(
            4,
            "tools/call",
            json!({ "name": "session_start", "arguments": { "command": ["true"] } }),
        ),
    ];
    let said = home.run_with_input(&["mcp"], &input.join("\n"));
    let answers = lines(&said.out);
    let answer = |id: u64| {
        let found = answers.iter().find(|answer| answer["id"] == json!(id));
        &found.unwrap_or_else(|| panic!("no answer to {id}: {said:?}"))["result"]
    };
    assert_eq!(answer(2)["structuredContent"]["why"], "timeout", "{said:?}");
    let refused = answer(3)["content"][0]["text"].as_str().unwrap();
    assert_eq!(refused, "unknown parameter comand; did you mean command?");
    assert!(answer(4)["structuredContent"]["session"].is_string(), "{said:?}");
}

#[test]
fn waits_that_cannot_hold_end_at_once() {
    let home = Home::new();
    let running = home.shell("read x");
    let failed = home.shell("exit 3");
    home.ok(&["wait", &failed, "--until", "exit"]);
    let began = Instant::now();
    let wait = |session: &str, until: &str| {
        home.run(&["wait", session, "--until", until, "--timeout", "5m"])
    };
    let said = wait(&running, "state=nonsense");
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("starting, running, exited, failed, lost"), "{said:?}");
    let said = wait(&running, "state=runing");
    assert!(said.code == 2 && said.err.contains("did you mean running?"), "{said:?}");
    assert_eq!(wait(&running, "text=[").code, 2);
    assert_eq!(wait(&running, "state=starting").code, 1);
    assert_eq!(wait(&failed, "state=running").code, 6);
    assert_eq!(wait(&failed, "text=nothing-like-that").code, 6);
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn success_is_exit_with_status_0() {
    let home = Home::new();
    let (fine, failed) = (home.shell("exit 0"), home.shell("exit 3"));
    let killed = home.shell("kill -9 $$");
    assert_eq!(home.ok(&["wait", &fine, "--until", "success"]), "succeeded");
    for (session, says) in [(&failed, "status 3"), (&killed, "killed by SIGKILL")] {
        let said = home.run(&["wait", session, "--until", "success"]);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains(&format!("{session} did not succeed: {says}")), "{said:?}");
    }
    let said = home.run(&["wait", &failed, "--until", "success", "--until", "text=x", "--json"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(home.run(&["wait", "nobody", "--until", "success"]).code, 6);
    let running = home.shell("read x");
    let said = home.run(&["wait", &running, "--until", "success", "--timeout", "100ms"]);
    assert_eq!(said.code, 3, "{said:?}");
}

/// Reads a line, and takes its time.
const SLOW: &str = "#!/usr/bin/env python3\nimport sys, time\nsys.stdin.readline()\ntime.sleep(0.05)\nprint('{}')\n";
const MANIFEST: &str = "schema = 1\n[plugin]\nname = \"slow\"\nversion = \"1\"\n[[runtime]]\nid = \"main\"\n\
    kind = \"oneshot\"\ncommand = [\"./run\"]\n[[hooks]]\nhook = \"output.filter\"\nstage = \"redact\"\n\
    timeout_ms = 20000\n[capabilities]\n\"output.filter\" = true\n";

/// The program has ended, but not all it printed was let through: nobody can say that the text does
/// not come.
#[test]
fn a_wait_beside_filters_that_are_behind_times_out() {
    let home = Home::new();
    std::fs::write(home.path().join("config.toml"), "[plugins]\nenabled = true\n").unwrap();
    let source = home.path().join("source/slow");
    std::fs::create_dir_all(&source).unwrap();
    std::fs::write(source.join("plugin.toml"), MANIFEST).unwrap();
    std::fs::write(source.join("run"), SLOW).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(source.join("run"), mode).unwrap();
    home.run(&["plugin", "add", &source.display().to_string()]);
    home.ok(&["plugin", "grant", "slow"]);
    let id = home.shell("i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo number $i; done");
    home.ok(&["wait", &id, "--until", "exit"]);
    let said = home.run(&["wait", &id, "--until", "text=number 200", "--timeout", "500ms"]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.err.contains("filters have not answered yet for"), "{said:?}");
    home.ok(&["wait", &id, "--until", "text=number 200", "--timeout", "1m"]);
    eventually("all is let through, and it is not in it", || {
        let said = home.run(&["wait", &id, "--until", "text=number 201", "--timeout", "500ms"]);
        (said.code == 6).then_some(())
    });
}

//! The host in the foreground, and the API on stdin and stdout.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::Home;

#[test]
fn serve_runs_until_it_is_told_to_stop() {
    let home = Home::new();
    let mut serve = home.command(&["serve"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(serve.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert_eq!(first, format!("listening on {}", home.socket().display()));
    assert_eq!(home.ok(&["new", "--no-start", "--", "sh", "-c", "read x"]), "s1");
    let second = home.run(&["serve"]);
    assert_eq!(second.code, 1, "{second:?}");
    let expected = format!("one runs already (keeper pid {}, 1 session running)", keeper(&home));
    assert!(second.err.contains(&expected) && second.err.contains("hint: "), "{second:?}");
    kill_process(Pid::from_child(&serve), Signal::TERM).unwrap();
    assert!(serve.wait().unwrap().success());
    assert_eq!(home.run(&["ls", "--no-start"]).code, 7);
}

fn keeper(home: &Home) -> String {
    let text = std::fs::read_to_string(home.path().join("run/greenroom.lock")).unwrap();
    text.trim().to_owned()
}

/// `serve`, and what it says first.
fn serving(home: &Home, args: &[&str]) -> (std::process::Child, Value) {
    let args = [&["serve", "--json"], args].concat();
    let mut serve = home.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(serve.stdout.take().unwrap()).lines();
    let said = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    (serve, said)
}

#[test]
fn beside_a_host_a_session_is_started_there_and_ends_with_the_command() {
    let home = Home::new();
    let before = home.shell("read x");
    let (mut serve, said) =
        serving(&home, &["--name", "job", "--", "sh", "-c", "echo up; read x; exit 3"]);
    assert_eq!(said["session"], "s2", "{said}");
    home.wait_text("job", "up");
    kill_process(Pid::from_child(&serve), Signal::TERM).unwrap();
    assert!(serve.wait().unwrap().success());
    assert_eq!(home.json(&["info", "s2", "--json"])["state"], "exited");
    let (mut serve, said) = serving(&home, &["--", "sh", "-c", "read x; exit 3"]);
    home.ok(&["send", said["session"].as_str().unwrap(), "x", "--enter"]);
    assert_eq!(serve.wait().unwrap().code(), Some(1), "the session failed");
    assert_eq!(home.json(&["info", &before, "--json"])["state"], "running");
}

#[test]
fn beside_a_host_a_named_socket_leads_to_it_while_the_command_lives() {
    let home = Home::new();
    home.shell("read x");
    let socket = home.path().join("elsewhere/x.sock");
    let (mut serve, said) = serving(&home, &["--socket", socket.to_str().unwrap()]);
    assert_eq!(said["socket"].as_str(), socket.to_str());
    let list =
        || home.command(&["ls", "--json"]).env("GREENROOM_SOCKET", &socket).output().unwrap();
    let seen = list();
    assert!(String::from_utf8_lossy(&seen.stdout).contains("\"s1\""), "{seen:?}");
    // A client that connects there is served by the daemon of the time.
    kill_process(Pid::from_raw(home.daemon_pid()).unwrap(), Signal::KILL).unwrap();
    assert!(list().status.success());
    kill_process(Pid::from_child(&serve), Signal::INT).unwrap();
    assert!(serve.wait().unwrap().success());
    assert!(!socket.exists() && std::fs::symlink_metadata(&socket).is_err());
    assert!(home.ok(&["ls", "--no-start"]).contains("s1"));
    let (mut serve, _) = serving(&home, &["--socket", socket.to_str().unwrap()]);
    home.ok(&["shutdown"]);
    assert!(serve.wait().unwrap().success(), "it ends with its host");
    assert!(std::fs::symlink_metadata(&socket).is_err());
}

#[test]
fn a_socket_where_others_may_enter_is_refused_with_a_way_out() {
    let home = Home::new();
    let open = home.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
    let said = home.run(&["serve", "--socket", open.join("x.sock").to_str().unwrap()]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("others may enter") && said.err.contains("mode 1777"), "{said:?}");
    let hint = said.err.split("--socket ").nth(1).unwrap().trim().to_owned();
    let (mut serve, said) = serving(&home, &["--socket", &hint]);
    assert_eq!(said["socket"], hint.as_str(), "what the hint says works");
    kill_process(Pid::from_child(&serve), Signal::TERM).unwrap();
    assert!(serve.wait().unwrap().success());
    assert!(!home.socket().exists());
}

/// Signals it again and again at later and later moments of its start.
#[test]
fn soak_serve_told_to_stop_at_any_moment_leaves_nothing() {
    let series = test_kit::series::series("moments of a start", 6, 60);
    for case in 0..series.cases {
        let home = Home::new();
        let socket = home.path().join("named/x.sock");
        let wait = std::time::Duration::from_millis(series.dice(case).below(120));
        let mut serve = home.command(&["serve", "--socket", socket.to_str().unwrap(), "--", "cat"]);
        let mut serve = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // The moment is what is tried here, so it is chosen by the clock.
        std::thread::park_timeout(wait);
        kill_process(Pid::from_child(&serve), Signal::TERM).unwrap();
        let status = serve.wait().unwrap();
        let own = home.socket();
        let left: Vec<_> = [&socket, &own]
            .into_iter()
            .filter(|path| std::fs::symlink_metadata(path).is_ok())
            .collect();
        assert!(left.is_empty(), "case {case} after {wait:?} ({status}): {left:?}");
        let lock = std::fs::read_to_string(home.path().join("run/greenroom.lock"));
        if let Some(pid) = lock.ok().and_then(|text| Pid::from_raw(text.trim().parse().ok()?)) {
            let gone = crate::support::gone_within(pid, std::time::Duration::from_secs(5));
            assert!(gone, "case {case} after {wait:?}: the keeper lives");
        }
    }
}

#[test]
fn serve_with_a_command_ends_with_it() {
    let home = Home::new();
    let mut serve = home.command(&[
        "serve",
        "--json",
        "--name",
        "job",
        "--",
        "sh",
        "-c",
        "echo up; read x; exit 3",
    ]);
    let mut serve = serve.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(serve.stdout.take().unwrap()).lines();
    let said: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(
        (said["session"].as_str(), said["socket"].as_str()),
        (Some("s1"), home.socket().to_str())
    );
    home.wait_text("job", "up");
    home.ok(&["send", "job", "x", "--enter"]);
    assert_eq!(serve.wait().unwrap().code(), Some(1), "the session failed");
    assert_eq!(home.run(&["ls", "--no-start"]).code, 7);
}

#[test]
fn serve_on_another_socket() {
    let home = Home::new();
    let dir = home.path().join("sock");
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
        .create(&dir)
        .unwrap();
    let socket = dir.join("x.sock");
    let mut serve = home
        .command(&["serve", "--socket", socket.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(serve.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().ends_with("x.sock"));
    assert!(lines.next().unwrap().unwrap().contains("GREENROOM_SOCKET="));
    let output = home
        .command(&["new", "--", "sh", "-c", "read x"])
        .env("GREENROOM_SOCKET", &socket)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "s1\n", "{output:?}");
    kill_process(Pid::from_child(&serve), Signal::TERM).unwrap();
    assert!(serve.wait().unwrap().success());
}

#[test]
fn stdio_is_a_private_host_that_ends_at_eof() {
    let home = Home::new();
    let create = r#"{"jsonrpc":"2.0","id":1,"method":"session.create","params":{"command":["sh","-c","echo hi; read x"]}}"#;
    let mut serve = home.command(&["serve", "--stdio"]);
    let mut serve = serve.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = serve.stdin.take().unwrap();
    let mut lines = BufReader::new(serve.stdout.take().unwrap()).lines();
    writeln!(stdin, "{create}").unwrap();
    let made: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(made["result"]["session"], "s1", "{made}");
    let pid = i32::try_from(made["result"]["pid"].as_i64().unwrap()).unwrap();
    assert!(!home.socket().exists(), "the shared host was started");
    drop(stdin);
    assert!(serve.wait().unwrap().success());
    assert!(lines.next().is_none());
    assert!(crate::support::gone_within(
        Pid::from_raw(pid).unwrap(),
        std::time::Duration::from_secs(5)
    ));
}

#[test]
fn stdio_answers_before_it_ends_in_both_framings() {
    let home = Home::new();
    let hello = r#"{"jsonrpc":"2.0","id":7,"method":"server.hello","params":{}}"#;
    let said =
        home.run_with_input(&["serve", "--stdio", "--framing", "ndjson"], &format!("{hello}\n"));
    let reply: Value = serde_json::from_str(said.out.trim()).unwrap_or_else(|_| panic!("{said:?}"));
    assert_eq!(
        (reply["id"].as_i64(), reply["result"]["name"].as_str()),
        (Some(7), Some("greenroom"))
    );
    let framed = format!("Content-Length: {}\r\n\r\n{hello}", hello.len());
    let said = home.run_with_input(&["serve", "--stdio", "--framing", "lsp"], &framed);
    assert!(said.out.starts_with("Content-Length: ") && said.out.contains("greenroom"), "{said:?}");
    let said =
        home.run_with_input(&["serve", "--stdio", "--framing", "lsp"], &format!("{hello}\n"));
    assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
}

#[test]
fn stdio_shared_speaks_for_the_background_host() {
    let home = Home::new();
    home.shell("read x");
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"session.list","params":{}}"#;
    let said = home.run_with_input(&["serve", "--stdio", "--shared"], &format!("{list}\n"));
    let reply: Value = serde_json::from_str(said.out.trim()).unwrap();
    assert_eq!(reply["result"]["sessions"], serde_json::json!(["s1"]));
    assert!(home.ok(&["ls", "--no-start"]).contains("s1"), "the shared host is still there");
}

#[test]
fn serve_tells_why_it_cannot() {
    let home = Home::new();
    let mut serve = home.command(&["serve", "--socket", "/proc/nowhere/x.sock"]);
    let mut child = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_ne!(child.wait().unwrap().code(), Some(0));
    assert!(err.contains("cannot start the host") && err.contains("/proc/nowhere"), "{err}");
}

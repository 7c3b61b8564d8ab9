//! What users get wrong, and what they are told.

use serde_json::Value;

use crate::json::CALLS;
use crate::support::{Home, Said};

#[track_caller]
fn check(said: &Said, code: i32, words: &[&str]) {
    assert_eq!(said.code, code, "{said:?}");
    assert_eq!(said.out, "", "an error belongs on stderr");
    for word in words {
        assert!(said.err.contains(word), "{word:?} is missing: {said:?}");
    }
}

#[test]
fn unknown_sessions_are_exit_code_6_in_every_verb() {
    let home = Home::new();
    home.shell("read x");
    let about_a_session = |call: &&[&'static str]| call.iter().any(|word| word.starts_with('{'));
    let calls = CALLS.iter().map(|(_, call)| *call).filter(about_a_session);
    let calls: Vec<&[&str]> = calls.chain([&["read", "{run}", "--since", "0"][..]]).collect();
    assert!(calls.len() > 10, "{calls:?}");
    for call in calls {
        let name = |word: &&'static str| if word.starts_with('{') { "nope" } else { word };
        let args: Vec<&str> = call.iter().map(name).collect();
        let said = home.run(&args);
        check(&said, 6, &["cannot ", "nope", "\nhint: "]);
        let with_json = [&args[..], &["--json"]].concat();
        let said = home.run(&with_json);
        assert_eq!((said.code, said.out.as_str()), (6, ""), "{with_json:?}");
        let error: Value = serde_json::from_str(&said.err).unwrap_or_else(|_| panic!("{said:?}"));
        assert_eq!(error["error"]["kind"], "unknown_session", "{error}");
        assert_eq!(error["error"]["code"], 6);
        assert!(
            error["error"]["message"].is_string() && error["error"]["hint"].is_string(),
            "{error}"
        );
    }
}

#[test]
fn usage_errors_are_exit_code_2() {
    let home = Home::new();
    for args in [
        &["frobnicate"][..],
        &["new", "--worktree"],
        &["new", "--sandbox=weak"],
        &["new", "--size", "0x0"],
        &["new", "--env", "novalue"],
        &["wait", "s1"],
        &["wait", "s1", "--until", "idle"],
        &["wait", "s1", "--until", "exit", "--timeout", "soon"],
        &["read", "s1", "--screen", "--transcript"],
        &["send", "s1"],
        &["key", "s1"],
        &["replay", "x.cast", "--speed", "fast"],
        &["completions", "tcsh"],
        &["attach", "s1", "--prefix", "b"],
    ] {
        let said = home.run(args);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{args:?}: {said:?}");
        let with_json = [args, &["--json"]].concat();
        let said = home.run(&with_json);
        assert_eq!(said.code, 2, "{with_json:?}");
        let error: Value = serde_json::from_str(&said.err).unwrap_or_else(|_| panic!("{said:?}"));
        assert_eq!(error["error"]["code"], 2, "{error}");
    }
    assert!(!home.socket().exists(), "a usage error must not start the host");
}

#[test]
fn no_start_is_exit_code_7() {
    let home = Home::new();
    check(&home.run(&["ls", "--no-start"]), 7, &["nobody listens on", "\nhint: "]);
    check(&home.run(&["new", "--no-start"]), 7, &["\nhint: "]);
    assert!(!home.socket().exists());
    let mut command = home.command(&["ls"]);
    let output = command.env("GREENROOM_SOCKET", home.path().join("other.sock")).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "a named socket is not ours to serve");
}

#[test]
fn waits_have_their_own_exit_codes() {
    let home = Home::new();
    let id = home.shell("echo here; read x");
    home.wait_text(&id, "here");
    let said = home.run(&["wait", &id, "--until", "text=never", "--timeout", "100ms"]);
    check(&said, 3, &["cannot wait for s1"]);
    let said = home.run(&["wait", &id, "--until", "text=never", "--timeout", "100ms", "--json"]);
    let error: Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!((said.code, error["error"]["kind"].as_str()), (3, Some("timeout")));
    assert!(error["error"]["data"]["last_text"].as_str().unwrap().contains("here"), "{error}");
    check(&home.run(&["wait", &id, "--until", "text=(", "--timeout", "1s"]), 2, &["cannot wait"]);
    home.ok(&["send", &id, "bye", "--enter"]);
    let said = home.run(&["wait", &id, "--until", "text=never", "--timeout", "20s"]);
    check(&said, 6, &["cannot wait"]);
}

#[test]
fn programs_that_cannot_start() {
    let home = Home::new();
    let said = home.run(&["new", "--", "/no/such/program"]);
    check(&said, 1, &["cannot start", "/no/such/program"]);
    let said = home.run(&["new", "--cwd", "/no/such/dir", "--", "sh"]);
    check(&said, 2, &["cannot start", "/no/such/dir"]);
    assert!(!said.err.contains("os error"), "{said:?}");
    assert_eq!(
        home.ok(&["new", "--", "sh", "-c", "exit 0"]).chars().next(),
        Some('s'),
        "the host is fine"
    );
}

#[test]
fn an_unusable_home_is_a_clear_error() {
    let home = Home::new();
    std::fs::write(home.path().join("state"), "a file").unwrap();
    check(&home.run(&["ls"]), 1, &["cannot start the host", "state", "\nhint: "]);
    std::fs::remove_file(home.path().join("state")).unwrap();
    std::fs::write(home.path().join("config.toml"), "[attach]\nprefx = \"ctrl-a\"\n").unwrap();
    let said = home.run(&["ls"]);
    assert_ne!(said.code, 0, "{said:?}");
    assert!(said.err.contains("config.toml:2"), "{said:?}");
}

#[test]
fn attach_needs_a_terminal_and_a_live_session() {
    let home = Home::new();
    let id = home.shell("exit 1");
    home.ok(&["wait", &id, "--until", "exit"]);
    let said = home.run(&["attach", &id]);
    check(
        &said,
        1,
        &["cannot attach to s1", "terminal", "hint: read its screen with greenroom read s1"],
    );
}

#[test]
fn keys_and_sends_that_cannot_be() {
    let home = Home::new();
    let id = home.shell("read x");
    check(&home.run(&["key", &id, "frob-q"]), 2, &["frob-q"]);
    home.ok(&["send", &id, "bye", "--enter"]);
    home.ok(&["wait", &id, "--until", "exit"]);
    check(&home.run(&["send", &id, "more"]), 6, &["s1: it exited", "hint: read its last screen"]);
}

#[test]
fn recordings_that_are_none() {
    let home = Home::new();
    std::fs::write(home.path().join("bad.cast"), "hello\n").unwrap();
    check(&home.run(&["replay", "bad.cast"]), 1, &["cannot replay bad.cast: line 1"]);
    check(
        &home.run(&["replay", "missing.cast"]),
        1,
        &["cannot replay missing.cast", "no such file"],
    );
    let wide = home.run(&["serve", "--http", "0.0.0.0:0"]);
    check(&wide, 5, &["cannot serve HTTP on 0.0.0.0:0", "TLS"]);
    check(&home.run(&["web", "--listen", "example.com:80"]), 2, &["cannot read the address"]);
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let home = Home::new();
    home.shell("exit 0");
    let mut command = home.command(&["schema"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_way_to_the_host_that_is_blocked_has_its_own_hint() {
    let home = Home::new();
    home.shell("read x");
    let (run, aside) = (home.path().join("run"), home.path().join("aside"));
    std::fs::rename(&run, &aside).unwrap();
    std::fs::write(&run, "a plain file").unwrap();
    let said = home.run(&["ls"]);
    std::fs::remove_file(&run).unwrap();
    std::fs::rename(&aside, &run).unwrap();
    let hint = format!("hint: {} must be a directory", run.display());
    check(&said, 7, &["not a directory", &hint]);
    if rustix::process::geteuid().is_root() {
        return;
    }
    for path in [home.socket(), run] {
        let mode = std::fs::metadata(&path).unwrap().permissions();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o000))
            .unwrap();
        let said = home.run(&["ls"]);
        std::fs::set_permissions(&path, mode).unwrap();
        let hint = format!("chmod u+rwx {}", path.display());
        check(&said, 5, &["permission denied", &hint]);
    }
}

#[test]
fn a_relative_home_is_said_to_be_one() {
    let home = Home::new();
    let mut command = home.command(&["ls"]);
    let said = Said::of(command.env_remove("GREENROOM_HOME").env("HOME", "here").output().unwrap());
    check(&said, 1, &["HOME=here is a relative path", "hint: set HOME to the whole path"]);
}

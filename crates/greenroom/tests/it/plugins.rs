//! Session plugins from the command line: the page about them, and what is told.
#![expect(clippy::print_stderr, reason = "what was not run is said")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use test_kit::place;
use test_kit::user::User;

use crate::support::{BIN, Home};

fn repository(home: &Home) -> PathBuf {
    let dir = home.path().join("repo");
    test_kit::git::repository(&dir);
    dir
}

/// The binary, run in this directory.
fn run_in(home: &Home, dir: &Path, args: &[&str]) -> (i32, String, String) {
    let output = home.command(args).current_dir(dir).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn what_is_kept_is_told() {
    let home = Home::new();
    let repo = repository(&home);
    let (code, id, err) = run_in(
        &home,
        &repo,
        &["new", "--worktree", "feat-x", "--", "sh", "-c", "echo work > new; echo up; cat"],
    );
    assert_eq!(code, 0, "{err}");
    let id = id.trim();
    home.wait_text(id, "up");
    let listed = home.ok(&["worktree", "ls"]);
    assert!(listed.contains("greenroom/feat-x") && listed.contains(id), "{listed}");
    let said = home.run(&["kill", id]);
    assert!(said.err.contains("kept worktree") && said.err.contains("untracked: new"), "{said:?}");
    let info = home.ok(&["info", id]);
    assert!(info.contains("plugins") && info.contains("kept worktree"), "{info}");
    let clean = home.ok(&["worktree", "clean"]);
    assert!(clean.starts_with("kept feat-x ("), "{clean}");
    let entry = &home.json(&["worktree", "ls", "--json"])["worktrees"][0];
    std::fs::remove_file(Path::new(entry["path"].as_str().unwrap()).join("new")).unwrap();
    assert!(home.ok(&["worktree", "clean", "--dry-run"]).starts_with("would remove feat-x ("));
    assert!(home.ok(&["worktree", "clean"]).starts_with("removed feat-x ("));
    assert_eq!(home.json(&["worktree", "ls", "--json"])["worktrees"], serde_json::json!([]));
}

/// The first lock is taken off: the socket is in sight and unix sockets are allowed. The second
/// holds.
#[test]
fn a_caller_from_inside_gets_no_answer() {
    let home = Home::new();
    let work = tempfile::tempdir().unwrap();
    std::fs::set_permissions(work.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .unwrap();
    let socket = work.path().join("x.sock");
    let config = format!("[sandbox]\nshow = [\"{}\"]\n", socket.display());
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    let mut serve = home.command(&["serve"]);
    let mut serve = serve.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(serve.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    // Another name of the very socket, in a place that is seen inside.
    std::fs::hard_link(home.socket(), &socket).unwrap();
    let run = |args: &[&str]| {
        let mut command = home.command(args);
        command.current_dir(work.path()).env("GREENROOM_SOCKET", &socket).output().unwrap()
    };
    let found = run(&["sandbox", "doctor", "--json"]);
    if found.status.success() {
        // The way to the usual one may lead through the host's /tmp, which is not seen inside.
        let inside = work.path().join("greenroom");
        if std::fs::hard_link(BIN, &inside).is_err() {
            std::fs::copy(BIN, &inside).unwrap();
        }
        let script = format!(
            "GREENROOM_SOCKET={0} ./greenroom ls --no-start; echo code $?; \
             GREENROOM_SOCKET={0} ./greenroom new --no-start -- true; echo code $?; cat",
            socket.display()
        );
        let made = run(&[
            "new",
            "--sandbox",
            "--sandbox-allow",
            "unix",
            "--size",
            "200x24",
            "--",
            "sh",
            "-c",
            &script,
        ]);
        assert!(made.status.success(), "{made:?}");
        let waited = run(&["wait", "s1", "--until", "text=code [0-9]+(.|\\n)*code [0-9]+"]);
        let screen = String::from_utf8_lossy(&run(&["read", "s1"]).stdout).into_owned();
        assert!(waited.status.success(), "{screen}");
        assert_eq!(screen.matches("code 5").count(), 2, "{screen}");
        assert!(screen.contains("callers inside a confined session are not served"), "{screen}");
        // A caller outside is served meanwhile.
        let listed = String::from_utf8_lossy(&run(&["ls", "--json"]).stdout).into_owned();
        assert!(listed.contains("\"s1\"") && !listed.contains("\"s2\""), "{listed}");
    } else {
        eprintln!("NOT RUN: {found:?}");
    }
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&serve),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert!(serve.wait().unwrap().success());
}

#[test]
fn a_refusal_has_a_hint_and_a_code() {
    let home = Home::new();
    let said = home.run(&["new", "--worktree", "x", "--", "true"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("worktree: ") && said.err.contains("hint: "), "{said:?}");
    assert_eq!(said.out, "");
    for usage in [
        &["new", "--base", "main"][..],
        &["new", "--allow-host", "a.example"],
        &["new", "--sandbox=none"],
        &["new", "--timeout", "soon"],
    ] {
        let said = home.run(usage);
        assert_eq!(said.code, 2, "{usage:?}: {said:?}");
    }
    let said = home.run(&["new", "--sandbox", "--allow-host", "10.0.0.1", "--", "true"]);
    assert!(said.err.contains("cannot allow the host"), "{said:?}");
}

#[test]
fn explaining_takes_the_sandbox_for_granted() {
    let home = Home::new();
    let repo = repository(&home);
    let (code, out, err) =
        run_in(&home, &repo, &["sandbox", "explain", "--allow-host", "a.example"]);
    assert_eq!(code, 0, "{err}");
    let network = out.lines().find(|line| line.trim_start().starts_with("network")).unwrap();
    assert!(network.contains("a.example"), "{out}");
}

#[test]
fn a_dry_run_shows_who_changed_what() {
    let home = Home::new();
    let repo = repository(&home);
    let args = [
        "new",
        "--worktree",
        "x",
        "--env",
        "K=sk-secret-123",
        "--timeout",
        "90m",
        "--dry-run",
        "--",
        "make",
    ];
    let (code, out, err) = run_in(&home, &repo, &args);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with("would start make\n"), "{out}");
    for part in ["worktree ", "env: + K=(hidden)", "timeout: 5400 s"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(!out.contains("sk-secret-123"), "{out}");
    assert_eq!(home.ok(&["ls", "--json"]), r#"{"sessions":[]}"#);
}

/// A clean-up that fails is seen, and done as soon as it can be, by the same daemon.
#[test]
fn a_clean_up_that_failed_is_tried_again() {
    // Root may write everywhere.
    let home = Home::of(User::Ordinary.uid(), place::public(), "home");
    let work = home.path().join("work");
    std::fs::create_dir(&work).unwrap();
    User::Ordinary.owns(&work);
    let (code, id, err) = run_in(&home, &work, &["new", "--scratchpad=x", "--", "cat"]);
    assert_eq!(code, 0, "{err}");
    place::set_mode(&work, 0o555);
    let said = home.run(&["kill", id.trim()]);
    assert!(said.err.contains("scratchpad could not clean up"), "{said:?}");
    let doctor = home.run(&["doctor"]).out;
    assert!(
        doctor.contains("clean-up") && doctor.contains("scratchpad of s1 failed 1 time:"),
        "{doctor}"
    );
    assert!(doctor.contains("the host tries again in"), "{doctor}");
    let daemon = home.daemon_pid();
    place::set_mode(&work, 0o755);
    crate::support::eventually("it is cleaned up", || {
        (!work.join("scratchpad").is_symlink()).then_some(())
    });
    crate::support::eventually("all is well", || {
        (!home.run(&["doctor"]).out.contains("clean-up")).then_some(())
    });
    assert_eq!(home.daemon_pid(), daemon);
    let info = home.ok(&["info", id.trim()]);
    assert!(!info.contains("could not clean up"), "{info}");
}

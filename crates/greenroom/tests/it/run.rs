//! `greenroom run`, with the binary, real worktrees and a real sandbox. The agents are scripts in
//! PATH.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use test_kit::{git, place};

use crate::support::{Home, Said, eventually};

/// A home with a repository and agents. Not below `/tmp`: a sandbox has one of its own there.
pub struct Team {
    pub home: Home,
    pub dir: tempfile::TempDir,
}

const AGENT: &str = "#!/bin/sh\nfor last; do :; done\necho \"$(basename $0) heard: $last\"\n";

impl Team {
    pub fn new() -> Team {
        let team = Team { home: Home::new(), dir: place::public() };
        std::fs::create_dir(team.dir.path().join("bin")).unwrap();
        for name in ["claude", "codex", "gemini"] {
            team.program(name, AGENT);
        }
        team.program("shell", "#!/bin/sh\npwd; git branch --show-current; echo \"key=$API_KEY\"\n");
        git::init(&team.repo());
        git::git(&team.repo(), &["commit", "-q", "--allow-empty", "-m", "first"]);
        team
    }

    pub fn repo(&self) -> std::path::PathBuf {
        self.dir.path().join("repo")
    }

    pub fn program(&self, name: &str, text: &str) {
        place::program(&self.dir.path().join("bin").join(name), text);
    }

    pub fn file(&self, name: &str, value: &Value) -> String {
        self.text(name, &value.to_string())
    }

    pub fn text(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        let path = command.get_envs().find(|(name, _)| *name == "PATH").unwrap().1.unwrap();
        let path = format!("{}:{}", self.dir.path().join("bin").display(), path.display());
        command.env("PATH", path).env("SHELL", self.dir.path().join("bin/shell"));
        command.current_dir(self.repo());
        command
    }

    pub fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).output().unwrap())
    }

    /// The outcome of a run that went well.
    #[track_caller]
    fn done(&self, file: &str) -> Value {
        let said = self.run(&["run", file, "--json"]);
        assert_eq!(said.code, 0, "{said:?}");
        let info: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(info["state"], "done", "{info}");
        info
    }

    pub fn transcript(&self, session: &Value) -> String {
        self.home.ok(&["read", session.as_str().unwrap(), "--transcript"])
    }
}

fn pipeline(script: &str) -> Value {
    json!({ "models": { "m": { "command": ["sh", "-c", script, "agent"] } },
            "pipeline": { "phases": [{ "name": "one", "prompt": "p1" }, { "name": "two", "prompt": "p2" }] } })
}

/// Every example of the page.
#[test]
fn the_examples_of_the_page_run() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/connector.md");
    let page = std::fs::read_to_string(page).unwrap();
    let examples: Vec<&str> =
        page.split("```json\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 5);
    let team = Team::new();
    for (at, example) in examples.iter().enumerate() {
        let file = team.text(&format!("example-{at}.json"), example);
        let info = team.done(&file);
        let dry = team.run(&["run", &file, "--dry-run"]);
        assert_eq!(dry.code, 0, "{dry:?}");
        assert!(!dry.out.contains("would not start"), "{dry:?}");
        for phase in info["phases"].as_array().unwrap() {
            assert!(dry.out.contains(phase["name"].as_str().unwrap()), "{dry:?}");
        }
    }
    let keys: Value = serde_json::from_str(&team.home.ok(&["schema", "connector"])).unwrap();
    for name in ["SessionSettings", "Phase"] {
        for key in keys["$defs"][name]["properties"].as_object().unwrap().keys() {
            assert!(page.contains(key.as_str()), "{key} is not on the page");
        }
    }
}

#[test]
fn progress_goes_to_stderr_and_the_outcome_to_stdout() {
    let team = Team::new();
    let file = team.file("p.json", &pipeline("echo \"did $1\""));
    let said = team.run(&["run", &file]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.err.contains("run r1") && said.err.contains("one 1  running as s1 (m)"),
        "{said:?}"
    );
    assert!(said.err.contains("two 1  done in") && !said.err.contains('\x1b'), "{said:?}");
    assert!(said.out.starts_with("PHASE") && said.out.contains("r1 done in"), "{said:?}");
    let detached = team.run(&["run", &file, "--detach"]);
    assert_eq!((detached.code, detached.out.as_str()), (0, "r2\n"));
    eventually("the run ends", || {
        let info = team.home.call("run.info", json!({ "run": "r2" }));
        (info["state"] == "done").then_some(())
    });
    let only = team.run(&["run", &file, "--only", "two", "--json"]);
    let info: Value = serde_json::from_str(&only.out).unwrap();
    assert_eq!(info["phases"].as_array().unwrap().len(), 1);
}

#[test]
fn a_failure_is_exit_code_1_with_a_way_to_look() {
    let team = Team::new();
    let file = team.file("p.json", &pipeline("echo oh no; exit 3"));
    let said = team.run(&["run", &file]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("two    1       skipped"), "{said:?}");
    assert!(
        said.err.contains("run r1 failed: a worker of \"one\" failed: it exited with status 3"),
        "{said:?}"
    );
    assert!(
        said.err.contains("hint: see what the worker showed with greenroom read s1"),
        "{said:?}"
    );
    assert_eq!(team.transcript(&json!("s1")), "oh no");
    let said = team.run(&["run", &file, "--json"]);
    let error: Value = serde_json::from_str(&said.err).unwrap();
    let info: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (said.code, &info["state"], &error["error"]["code"]),
        (1, &json!("failed"), &json!(1))
    );
}

#[test]
fn runs_are_listed_shown_and_stopped() {
    let team = Team::new();
    let none = team.run(&["run", "ls"]);
    assert_eq!((none.code, none.out.as_str()), (0, ""), "{none:?}");
    let short = team.file("short.json", &pipeline("echo hi"));
    let long = team.file("long.json", &pipeline("trap '' HUP TERM; echo up; sleep 1000"));
    assert_eq!(team.run(&["run", &short]).code, 0);
    assert_eq!(team.run(&["run", &long, "--detach"]).out, "r2\n");
    eventually("the worker runs", || team.run(&["read", "s3"]).out.contains("up").then_some(()));
    let listed = team.run(&["run", "ls"]).out;
    let rows: Vec<&str> = listed.lines().collect();
    assert!(rows[1].starts_with("r1") && rows[1].contains("done"), "{listed}");
    assert!(rows[2].contains("running") && rows[2].contains("0 of 2 over"), "{listed}");
    let shown = team.run(&["run", "show", "last"]).out;
    assert!(shown.contains("s3") && shown.contains("r2 running"), "{shown}");
    let json: Value =
        serde_json::from_str(&team.run(&["run", "show", "r1", "--json"]).out).unwrap();
    assert_eq!((&json["run"], &json["state"]), (&json!("r1"), &json!("done")));
    let stopped = team.run(&["run", "stop", "last"]);
    assert_eq!((stopped.code, stopped.out.as_str()), (0, "last stopped\n"), "{stopped:?}");
    assert_eq!(team.home.call("run.info", json!({ "run": "r2" }))["state"], "cancelled");
    let live = team.home.json(&["ls", "--state", "running", "--json"]);
    assert_eq!(live["sessions"], json!([]));
    let again = team.run(&["run", "stop", "r2", "r9"]);
    assert_eq!(again.code, 6, "{again:?}");
    assert!(again.err.contains("cannot stop run r2: it is over (cancelled)"), "{again:?}");
    assert!(again.err.contains("no run has the id r9"), "{again:?}");
    assert_eq!(team.run(&["run", "show", "r9"]).code, 6);
    // A file of such a name is still a file.
    std::fs::write(team.repo().join("ls"), pipeline("echo hi").to_string()).unwrap();
    assert_eq!(team.run(&["run", "./ls"]).code, 0);
}

#[test]
fn what_a_worker_leaves_for_a_moment_does_not_keep_the_next_one_out() {
    let team = Team::new();
    // As git's maintenance after a commit: it is away from the terminal, and soon over.
    let mut value = pipeline("trap '' HUP; setsid sleep 1 >/dev/null 2>&1 </dev/null &");
    value["session"] = json!({ "worktree": "shared" });
    let info = team.done(&team.file("p.json", &value));
    assert_eq!(info["phases"].as_array().unwrap().len(), 2, "{info}");
}

#[test]
fn a_second_run_does_not_continue_the_first_ones_branches() {
    let team = Team::new();
    // The number makes each commit another one: the same work in the same second would be the same
    // commit, and held by the first run's branch.
    let script = "echo \"$1\" >> log; git add log; git -c user.name=t -c user.email=t@t commit -qm \"work $$\"";
    let mut value = pipeline(script);
    value["session"] = json!({ "worktree": "feat" });
    let file = team.file("p.json", &value);
    let branches = |info: &Value| -> Vec<String> {
        let phases = info["phases"].as_array().unwrap();
        phases
            .iter()
            .map(|phase| phase["workers"][0]["branch"].as_str().unwrap().to_owned())
            .collect()
    };
    let log = |slug: &str| {
        let path = team.run(&["worktree", "path", slug]).out;
        std::fs::read_to_string(Path::new(path.trim()).join("log")).unwrap()
    };
    // Its two phases work one after the other in one worktree.
    assert_eq!(branches(&team.done(&file)), ["greenroom/feat", "greenroom/feat"]);
    assert_eq!(log("feat"), "p1\np2\n");
    let said = team.run(&["run", &file]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.err.contains("worktree feat is there already: this run works in feat-r2"),
        "{said:?}"
    );
    assert_eq!(log("feat"), "p1\np2\n", "the first run's branch is as it was");
    assert_eq!(log("feat-r2"), "p1\np2\n");
    let dry = team.run(&["run", &file, "--dry-run"]);
    assert!(dry.out.contains("greenroom/feat-r3"), "{dry:?}");
    let reused = team.run(&["run", &file, "--reuse-worktrees"]);
    assert_eq!((reused.code, log("feat").lines().count()), (0, 4), "{reused:?}");
    // What a run was told holds when it is resumed.
    let go = team.dir.path().join("go");
    let failing = format!("test -e {} || exit 1; {script}", go.display());
    let mut value = pipeline(&failing);
    value["session"] = json!({ "worktree": "feat" });
    let file = team.file("q.json", &value);
    assert_eq!(team.run(&["run", &file]).code, 1);
    std::fs::write(&go, "").unwrap();
    let said = team.run(&["run", "--resume", "last", "--json"]);
    let info: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(branches(&info), ["greenroom/feat-r4", "greenroom/feat-r4"], "{said:?}");
}

#[test]
fn mistakes_are_told_before_anything_starts() {
    let team = Team::new();
    let wrong = |text: &str, args: &[&str], words: &[&str]| {
        let file = team.text("x.json", text);
        let said = team.run(&[&["run", &file], args].concat());
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{said:?}");
        for word in words {
            assert!(said.err.contains(word), "{word:?} is missing: {said:?}");
        }
    };
    wrong(
        "{\n  \"sesion\": {}\n}",
        &[],
        &[
            "x.json:2:3: unknown key \"sesion\", did you mean \"session\"?",
            "hint: greenroom schema connector",
        ],
    );
    wrong("{\"type\": \"mesh\"}", &["--json"], &["not supported"]);
    wrong(
        &pipeline("true").to_string(),
        &["--only", "tow"],
        &["there is no phase \"tow\", did you mean \"two\"?"],
    );
    let missing = team.run(&["run", "/no/such/file.json"]);
    assert_eq!(missing.code, 2, "{missing:?}");
    assert!(missing.err.contains("cannot read /no/such/file.json: no such file"), "{missing:?}");
    let dir = team.dir.path().display().to_string();
    assert_eq!(team.run(&["run", &dir]).code, 2);
    assert!(!team.home.socket().exists(), "no host was needed to see that");
}

#[test]
fn ctrl_c_without_a_terminal_stops_the_run() {
    let team = Team::new();
    let file = team.file("p.json", &pipeline("echo ready; sleep 1000"));
    let mut command = team.command(&["run", &file]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the worker runs", || {
        let socket = team.home.socket().exists();
        (socket && team.home.run(&["read", "s1", "--no-start"]).out.contains("ready")).then_some(())
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("run r1 was stopped"), "{text}");
    let sessions: Value = team.home.json(&["ls", "--state", "running", "--json"]);
    assert_eq!(sessions["sessions"], json!([]), "{sessions}");
}

#[test]
fn ctrl_c_on_a_terminal_asks_once() {
    let team = Team::new();
    let file = team.file("p.json", &pipeline("echo ready; sleep 1000"));
    let args = ["new", "--size", "100x30", "--", "greenroom", "run", &file];
    let outer = String::from_utf8(team.command(&args).output().unwrap().stdout).unwrap();
    let outer = outer.trim();
    team.home.wait_text(outer, "1 running, 0 of 2 over");
    team.home.ok(&["key", outer, "ctrl-c"]);
    team.home.wait_text(outer, "stop run r1 and its workers\\? Ctrl-C again: yes");
    team.home.ok(&["key", outer, "ctrl-c"]);
    team.home.ok(&["wait", outer, "--until", "exit"]);
    let text = team.transcript(&json!(outer));
    assert!(text.contains("run r1 was stopped"), "{text}");
    assert_eq!(team.home.call("run.info", json!({ "run": "r1" }))["state"], "cancelled");
}

/// Through a crash of the daemon the command line goes on drawing, and the run ends well.
#[test]
fn a_crash_of_the_daemon_is_not_the_end() {
    let team = Team::new();
    let go = team.dir.path().join("go");
    let script = format!("echo ready; while [ ! -e {} ]; do sleep 0.05; done", go.display());
    let file = team.file("p.json", &pipeline(&script));
    let mut command = team.command(&["run", &file, "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the worker runs", || {
        let socket = team.home.socket().exists();
        (socket && team.home.run(&["read", "s1", "--no-start"]).out.contains("ready")).then_some(())
    });
    kill_process(Pid::from_raw(team.home.daemon_pid()).unwrap(), Signal::KILL).unwrap();
    std::fs::write(&go, "").unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    let attempts: Vec<&Value> = info["phases"]
        .as_array()
        .unwrap()
        .iter()
        .map(|phase| &phase["workers"][0]["attempts"])
        .collect();
    assert_eq!(attempts, [&json!(1), &json!(1)]);
}

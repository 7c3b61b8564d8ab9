//! A team of five fake agents in three phases, with the binary: it goes as its file says, also when
//! workers fail and the daemon is killed, and a run that failed goes on from where it did.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::run::Team;
use crate::support::eventually;

/// All five are there before any of them goes on: they do run at the same time.
const MEET: &str = "cd \"$GREENROOM_SCRATCHPAD\" && touch here-$GREENROOM_PORT && \
                    while [ $(ls here-* | wc -l) -lt 5 ]; do sleep 0.02; done; ";

/// A fake agent that does as its script says. It is read when the worker starts, so it can be
/// mended.
fn agent(team: &Team, before: &str) -> Value {
    let script = team.dir.path().join("script.agent");
    let run = format!(
        "{before}exec greenroom fake-agent --no-tty --pace 0 --script {} \"$1\" < /dev/null",
        script.display()
    );
    json!({ "command": ["sh", "-c", run, "agent"] })
}

fn three_phases(team: &Team, before: &str, build: &Value) -> Value {
    let prompts = (1..=5).map(|number| json!({ "prompt": format!("part {number}") }));
    let mut phase =
        json!({ "name": "build", "model": "builder", "workers": prompts.collect::<Vec<_>>() });
    phase.as_object_mut().unwrap().extend(build.as_object().unwrap().clone());
    json!({
        "name": "three",
        "session": { "worktree": "{phase}-{worker}", "timeout_ms": 120_000 },
        "models": { "builder": agent(team, before) },
        "model": "fake-agent",
        "pipeline": { "scratchpad": true, "phases": [
            { "name": "plan", "prompt": "hello" }, phase, { "name": "report", "prompt": "hello" }
        ] }
    })
}

fn write_script(team: &Team, turns: &str) {
    team.text("script.agent", &format!("{turns}\notherwise\n  say did {{prompt}}\n  exit 0\n"));
}

/// Each phase and worker in a word.
fn word_of(info: &Value) -> Vec<String> {
    let phases = info["phases"].as_array().unwrap().iter();
    phases
        .map(|phase| {
            let workers = phase["workers"].as_array().unwrap().iter();
            let workers: Vec<String> = workers
                .map(|one| format!("{} {}", one["state"].as_str().unwrap(), one["attempts"]))
                .collect();
            format!("{}: {}", phase["state"].as_str().unwrap(), workers.join(", "))
        })
        .collect()
}

/// The outcome of `greenroom run`, and its exit code.
fn run(team: &Team, args: &[&str]) -> (i32, Value) {
    let said = team.run(&[&["run", "--json"], args].concat());
    let info = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
    (said.code, info)
}

/// What is left in the scratchpad says the same as the host.
fn check_run_json(info: &Value) {
    let path = format!("{}/run.json", info["scratchpad"].as_str().unwrap());
    let copy: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    for key in ["run", "name", "state", "why", "phases"] {
        assert_eq!(copy[key], info[key], "{key}");
    }
}

#[test]
fn five_agents_in_three_phases() {
    let team = Team::new();
    write_script(&team, "");
    let file = team.file("three.json", &three_phases(&team, MEET, &json!({})));
    let dry = team.run(&["run", &file, "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    for part in ["plan", "build", "report", "build-5"] {
        assert!(dry.out.contains(part), "{part}: {}", dry.out);
    }
    assert_eq!(
        team.home.json(&["ls", "--json"])["sessions"],
        json!([]),
        "a dry run starts nothing"
    );
    let (code, info) = run(&team, &[&file]);
    assert_eq!((code, &info["state"]), (0, &json!("done")), "{info}");
    let five = "done: done 1, done 1, done 1, done 1, done 1";
    assert_eq!(word_of(&info), ["done: done 1", five, "done: done 1"]);
    check_run_json(&info);
    let build = info["phases"][1]["workers"].as_array().unwrap();
    for (at, worker) in build.iter().enumerate() {
        let number = at + 1;
        assert_eq!(worker["branch"], format!("greenroom/build-{number}"), "{worker}");
        assert_eq!(worker["exit"]["code"], 0, "{worker}");
        let text = team.transcript(&worker["session"]);
        assert!(text.contains(&format!("did part {number}")), "{text}");
    }
    let worktrees = team.home.json(&["worktree", "ls", "--json"]);
    assert_eq!(worktrees["worktrees"], json!([]), "nobody left work");
    let (code, info) = run(&team, &[&file, "--only", "report"]);
    assert_eq!((code, word_of(&info)), (0, vec!["done: done 1".to_owned()]), "{info}");
}

#[test]
fn a_failed_run_goes_on_from_its_failure() {
    let team = Team::new();
    write_script(&team, "on part 3\n  say cannot\n  exit 3");
    let file = team.file("three.json", &three_phases(&team, "", &json!({ "retries": 1 })));
    let (code, info) = run(&team, &[&file]);
    let failed = "failed: done 1, done 1, failed 2, done 1, done 1";
    assert_eq!((code, &info["state"]), (1, &json!("failed")), "{info}");
    assert_eq!(word_of(&info), ["done: done 1", failed, "skipped: skipped 0"]);
    check_run_json(&info);
    let first = info["phases"][1]["workers"].clone();
    // Nothing was mended: the same again, and only there.
    let (code, info) = run(&team, &["--resume", "last"]);
    let failed = "failed: done 1, done 1, failed 4, done 1, done 1";
    assert_eq!((code, &info["run"], word_of(&info)[1].as_str()), (1, &json!("r1"), failed));
    write_script(&team, "");
    let said = team.run(&["run", &file, "--resume", "r1"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(
        said.err.contains("build 3  running as") && !said.err.contains("plan 1  running"),
        "{said:?}"
    );
    let info = team.home.call("run.info", json!({ "run": "last" }));
    let done = "done: done 1, done 1, done 5, done 1, done 1";
    assert_eq!(word_of(&info), ["done: done 1", done, "done: done 1"]);
    check_run_json(&info);
    for at in [0, 1, 3, 4] {
        assert_eq!(info["phases"][1]["workers"][at], first[at], "it was not touched");
    }
    let again = team.run(&["run", "--resume", "r1"]);
    assert!(again.code != 0 && again.err.contains("went well"), "{again:?}");
    let nobody = team.run(&["run", &file, "--resume", "r9"]);
    assert!(nobody.code != 0 && nobody.err.contains("no run has the id r9"), "{nobody:?}");
    assert_eq!(team.run(&["run", &file, "--resume", "r1", "--dry-run"]).code, 2);
}

#[test]
fn another_file_is_another_run() {
    let team = Team::new();
    write_script(&team, "on part\n  exit 1");
    let file = team.file("three.json", &three_phases(&team, "", &json!({})));
    assert_eq!(run(&team, &[&file, "--only", "build"]).0, 1);
    let mut other = three_phases(&team, "", &json!({}));
    other["pipeline"]["phases"][1]["name"] = json!("make");
    let other = team.file("other.json", &other);
    let said = team.run(&["run", &other, "--resume", "last"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("cannot go on with run r1: the file has other phases"), "{said:?}");
    // The same phases as then, without saying so once more.
    write_script(&team, "");
    let (code, info) = run(&team, &["--resume", "last"]);
    assert_eq!((code, word_of(&info).len()), (0, 1), "{info}");
}

#[test]
fn policies_of_failure_hold() {
    let team = Team::new();
    write_script(&team, "on part 3\n  exit 3");
    for (policy, report) in [("continue", "done"), ("skip_dependents", "skipped")] {
        let build = json!({ "on_failure": policy });
        let file = team.file("three.json", &three_phases(&team, "", &build));
        let (code, info) = run(&team, &[&file]);
        assert_eq!((code, &info["state"]), (1, &json!("failed")), "{info}");
        assert_eq!(info["phases"][2]["state"], report, "{policy}: {info}");
    }
}

#[test]
fn killed_again_and_again_it_finishes_by_itself() {
    let team = Team::new();
    write_script(&team, "");
    let go = team.dir.path().join("go");
    let wait = format!("echo ready; while [ ! -e {} ]; do sleep 0.02; done; ", go.display());
    let file = team.file("three.json", &three_phases(&team, &wait, &json!({})));
    let mut command = team.command(&["run", &file, "--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let running = || -> usize {
        if !team.home.socket().exists() {
            return 0;
        }
        let said = team.home.run(&["ls", "--no-start", "--state", "running", "--json"]);
        let list: Value = serde_json::from_str(&said.out).unwrap_or_default();
        list["sessions"].as_array().map_or(0, Vec::len)
    };
    eventually("five work", || (running() == 5).then_some(()));
    for _ in 0..3 {
        kill_process(Pid::from_raw(team.home.daemon_pid()).unwrap(), Signal::KILL).unwrap();
    }
    std::fs::write(&go, "").unwrap();
    // Once more while they end and the last phase begins.
    kill_process(Pid::from_raw(team.home.daemon_pid()).unwrap(), Signal::KILL).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    let five = "done: done 1, done 1, done 1, done 1, done 1";
    assert_eq!(word_of(&info), ["done: done 1", five, "done: done 1"]);
    check_run_json(&info);
    let sessions = team.home.json(&["ls", "--json"])["sessions"].as_array().unwrap().len();
    assert_eq!(sessions, 7, "none was started twice");
}

//! Connector files, carried out by a real host with scripts as agents.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::Client;
use crate::host::Host;

/// A directory for the agents of one test, and their host.
struct Stage {
    host: Host,
    dir: tempfile::TempDir,
}

impl Stage {
    fn new() -> Stage {
        Stage::with_grace("500ms")
    }

    fn with_grace(grace: &str) -> Stage {
        Stage {
            host: Host::with_config(&format!("[sessions]\nkill_grace = \"{grace}\"\n")),
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A model that runs this script with the prompt as `$1`, in the test's directory as `$D`.
    fn agent(&self, script: &str) -> Value {
        json!({ "command": ["sh", "-c", format!("D={}; {script}", self.dir.path().display()), "agent"] })
    }

    fn start(&self, connector: Value) -> String {
        let params = json!({ "connector": connector, "cwd": self.dir.path() });
        let started = self.host.client().ok("run.start", params);
        started["run"].as_str().unwrap().to_owned()
    }

    /// Waits for the end and describes it.
    fn finish(&self, run: &str) -> Value {
        self.wait_event(|event| event["kind"] == "run.ended" && event["data"]["run"] == run);
        self.host.client().ok("run.info", json!({ "run": run }))
    }

    fn run(&self, connector: Value) -> Value {
        let run = self.start(connector);
        self.finish(&run)
    }

    /// The first event that fits, whether it was before or comes now.
    fn wait_event(&self, fits: impl Fn(&Value) -> bool) -> Value {
        let mut client = self.host.client();
        let subscribe = json!({ "since": 0, "kinds": ["run.*", "session.*"], "follow": true });
        client.ok("server.subscribe", subscribe);
        loop {
            let event = client.pushed("server.event")["event"].take();
            if fits(&event) {
                return event;
            }
        }
    }

    fn wait_worker(&self, run: &str, phase: &str, worker: &str, state: &str) -> Value {
        self.wait_event(|event| {
            let data = &event["data"];
            event["kind"] == "run.worker"
                && (&data["run"], &data["phase"]) == (&json!(run), &json!(phase))
                && (&data["worker"], &data["state"]) == (&json!(worker), &json!(state))
        })["data"]
            .take()
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        path
    }

    fn running(&self) -> Vec<Value> {
        let params = json!({ "state": ["starting", "running"] });
        let list = self.host.client().ok("session.list", params);
        list["sessions"].as_array().unwrap().clone()
    }
}

fn states(info: &Value) -> Vec<(String, Vec<String>)> {
    let word = |value: &Value| value["state"].as_str().unwrap().to_owned();
    let phases = info["phases"].as_array().unwrap().iter();
    phases
        .map(|phase| (word(phase), phase["workers"].as_array().unwrap().iter().map(word).collect()))
        .collect()
}

fn phases(info: &Value) -> Vec<String> {
    states(info).into_iter().map(|(state, _)| state).collect()
}

fn pipeline(agent: Value, phases: Value) -> Value {
    json!({ "models": { "m": agent }, "pipeline": { "phases": phases } })
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

#[test]
fn three_phases_with_five_workers_at_once() {
    let stage = Stage::new();
    std::fs::create_dir(stage.path("here")).unwrap();
    // Each of the five waits for the other four: one after another would never end.
    let agent = stage.agent(
        "echo \"$1\" >> $D/log; case \"$1\" in build*) : > \"$D/here/$1\"; \
         while [ $(ls $D/here | wc -l) -lt 5 ]; do sleep 0.02; done;; esac; echo \"$1\" >> $GREENROOM_SCRATCHPAD/said",
    );
    let info = stage.run(json!({
        "name": "three", "models": { "m": agent },
        "pipeline": { "scratchpad": true, "phases": [
            { "name": "plan", "prompt": "plan" },
            { "name": "build", "prompt": "build {worker} in {phase}", "workers": 5, "parallel": true },
            { "name": "report", "prompt": "report {run}" },
        ] }
    }));
    assert_eq!(info["state"], "done", "{info}");
    assert_eq!(states(&info)[1].1, ["done"; 5]);
    let log = stage.lines("log");
    assert_eq!((log[0].as_str(), log[6].as_str()), ("plan", "report r1"));
    assert_eq!(sorted(log[1..6].to_vec())[4], "build 5 in build");
    let worker = &info["phases"][1]["workers"][2];
    assert_eq!(
        (&worker["attempts"], &worker["exit"]["code"], &worker["model"]),
        (&json!(1), &json!(0), &json!("m"))
    );
    let session = stage.host.client().ok("session.info", json!({ "session": worker["session"] }));
    assert_eq!((&session["name"], &session["labels"]["run"]), (&json!("r1/build-3"), &json!("r1")));
    assert_eq!(session["task"], "build 3 in build");

    let scratchpad = Path::new(info["scratchpad"].as_str().unwrap()).to_owned();
    assert_eq!(std::fs::read_to_string(scratchpad.join("said")).unwrap().lines().count(), 7);
    let file = scratchpad.join("run.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let written: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(written, info);
    let list = stage.host.client().ok("run.list", json!({}));
    assert_eq!(
        (&list["runs"][0]["run"], &list["runs"][0]["state"]),
        (&json!("r1"), &json!("done"))
    );
}

#[test]
fn a_worker_that_fails_is_tried_again() {
    let stage = Stage::new();
    let agent = stage.agent("echo x >> $D/tries; [ $(wc -l < $D/tries) -ge 3 ]");
    let phases = json!([{ "name": "a", "prompt": "p", "retries": 2 }]);
    let info = stage.run(pipeline(agent.clone(), phases));
    let worker = &info["phases"][0]["workers"][0];
    assert_eq!((&info["state"], &worker["attempts"]), (&json!("done"), &json!(3)), "{info}");
    std::fs::remove_file(stage.path("tries")).unwrap();
    let info = stage.run(pipeline(agent, json!([{ "name": "a", "prompt": "p", "retries": 1 }])));
    let worker = &info["phases"][0]["workers"][0];
    assert_eq!((&info["state"], &worker["attempts"]), (&json!("failed"), &json!(2)));
    assert_eq!(worker["why"], "it exited with status 1");
    assert_eq!(info["why"], "a worker of \"a\" failed: it exited with status 1");
}

#[test]
fn a_failure_means_what_the_file_says() {
    let stage = Stage::new();
    let agent = || stage.agent("echo $1 >> $D/log; [ \"$1\" != bad ]");
    let phases_of = |policy: &str| {
        json!([
            { "name": "a", "prompt": "bad", "on_failure": policy },
            { "name": "b", "prompt": "b" },
            { "name": "c", "prompt": "c", "needs": [] },
            { "name": "d", "prompt": "d", "needs": ["c"] },
        ])
    };
    let skip = stage.run(pipeline(agent(), phases_of("skip_dependents")));
    assert_eq!(phases(&skip), ["failed", "skipped", "done", "done"], "{skip}");
    assert_eq!(skip["phases"][1]["why"], "\"a\" failed");
    let go_on = stage.run(pipeline(agent(), phases_of("continue")));
    assert_eq!(phases(&go_on), ["failed", "done", "done", "done"]);
    assert_eq!(go_on["state"], "failed");
    // Under `stop` what had begun may finish, and nothing else begins.
    let stop = stage.run(pipeline(agent(), json!([
        { "name": "a", "prompt": "bad" }, { "name": "b", "prompt": "b" }, { "name": "c", "prompt": "c" }])));
    assert_eq!(phases(&stop), ["failed", "skipped", "skipped"]);
    assert_eq!(stop["phases"][2]["workers"][0]["state"], "skipped");
}

#[test]
fn a_program_that_is_not_there_gives_way_to_its_fallback() {
    let stage = Stage::new();
    let info = stage.run(json!({
        "models": {
            "primary": { "command": ["/no/such/agent"] },
            "fallback": { "command": ["no-such-program-either"], "fallback": "third" },
            "third": stage.agent("echo $1 > $D/out"),
        },
        "pipeline": { "phases": [{ "name": "a", "prompt": "hello" }] },
    }));
    let worker = &info["phases"][0]["workers"][0];
    assert_eq!(
        (&info["state"], &worker["model"], &worker["attempts"]),
        (&json!("done"), &json!("third"), &json!(1)),
        "{info}"
    );
    assert_eq!(stage.lines("out"), ["hello"]);
    let info =
        stage.run(json!({ "models": { "m": { "command": ["/no/such/agent"] } }, "prompt": "x" }));
    let why = info["phases"][0]["workers"][0]["why"].as_str().unwrap();
    assert!(info["state"] == "failed" && why.contains("cannot start `/no/such/agent`"), "{info}");
}

#[test]
fn a_run_outlives_kills_of_the_daemon_and_does_nothing_twice() {
    let stage = Stage::new();
    let gates: Vec<PathBuf> = (1..=4).map(|n| stage.fifo(&format!("gate-{n}"))).collect();
    // One of three workers ends while nobody looks, two after the new daemon is there.
    let agent =
        stage.agent("echo \"$1\" >> $D/log; read x < $D/gate-${1#* }; echo \"$1 over\" >> $D/log");
    let run = stage.start(pipeline(
        agent,
        json!([
            { "name": "work", "prompt": "work {worker}", "workers": 3 },
            { "name": "last", "prompt": "last 4", "session": { "env": { "X": "1" } } },
        ]),
    ));
    for worker in ["1", "2", "3"] {
        stage.wait_worker(&run, "work", worker, "running");
    }
    let old = stage.host.daemon_pid();
    crate::host::signal(old, rustix::process::Signal::KILL);
    std::fs::write(&gates[0], "go\n").unwrap();
    let new = stage.host.daemon_pid();
    assert_ne!(old, new);
    std::fs::write(&gates[1], "go\n").unwrap();
    stage.wait_worker(&run, "work", "2", "done");
    stage.host.kill_daemon();
    std::fs::write(&gates[2], "go\n").unwrap();
    stage.wait_worker(&run, "last", "1", "running");
    stage.host.kill_daemon();
    std::fs::write(&gates[3], "go\n").unwrap();
    let info = stage.finish(&run);
    assert_eq!(info["state"], "done", "{info}");
    let expected = [
        "last 4",
        "last 4 over",
        "work 1",
        "work 1 over",
        "work 2",
        "work 2 over",
        "work 3",
        "work 3 over",
    ];
    assert_eq!(sorted(stage.lines("log")), expected);
    let codes: Vec<&Value> = info["phases"][0]["workers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|worker| &worker["exit"]["code"])
        .collect();
    assert_eq!(codes, [&json!(0); 3], "the one that nobody saw too");
    assert_eq!(stage.running(), [Value::Null; 0]);
}

#[test]
fn kills_while_it_starts_workers_do_not_start_them_twice() {
    let stage = Stage::new();
    let agent = stage.agent("echo \"$1\" >> $D/log");
    let names: Vec<Value> = (0..6).map(|n| json!({ "name": format!("p{n}"), "prompt": format!("p{n} {{worker}}"), "workers": 2 })).collect();
    let run = stage.start(pipeline(agent, json!(names)));
    let mut kills = 0;
    // As often as it can be done before the run is over, at whatever point it is then.
    while stage.host.client().ok("run.info", json!({ "run": run }))["state"] == "running"
        && kills < 8
    {
        stage.host.kill_daemon();
        kills += 1;
    }
    let info = stage.finish(&run);
    assert_eq!(info["state"], "done", "{info}");
    assert!(kills > 0);
    let expected: Vec<String> =
        (0..6).flat_map(|n| [format!("p{n} 1"), format!("p{n} 2")]).collect();
    assert_eq!(sorted(stage.lines("log")), expected, "after {kills} kills");
}

#[test]
fn a_cancel_leaves_nothing_running() {
    let stage = Stage::new();
    let agent =
        stage.agent("trap '' HUP; sleep 1000 & echo $! >> $D/pids; echo ready >> $D/log; wait");
    let run = stage.start(pipeline(agent, json!([
        { "name": "a", "prompt": "x", "workers": 3, "parallel": 2, "retries": 2 }, { "name": "b", "prompt": "y" }])));
    stage.wait_worker(&run, "a", "1", "running");
    stage.wait_worker(&run, "a", "2", "running");
    let deadline = std::time::Instant::now() + crate::client::PATIENCE;
    while stage.lines("log").len() < 2 {
        assert!(std::time::Instant::now() < deadline);
        std::thread::yield_now();
    }
    let answer = stage.host.client().ok("run.cancel", json!({ "run": run }));
    assert_eq!((&answer["cancelled"], &answer["state"]), (&json!(true), &json!("cancelled")));
    assert_eq!(stage.running(), [Value::Null; 0]);
    for pid in stage.lines("pids") {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        assert!(rustix::process::test_kill_process(pid).is_err(), "{pid:?} lives");
    }
    let info = stage.finish(&run);
    assert_eq!(states(&info)[0].1, ["cancelled"; 3], "{info}");
    assert_eq!(phases(&info), ["cancelled", "cancelled"]);
    let again = stage.host.client().ok("run.cancel", json!({ "run": run }));
    assert_eq!(again["already_ended"], true);
    assert_eq!(
        stage.host.client().fault("run.cancel", json!({ "run": "r9" }))["data"]["kind"],
        "not_found"
    );
    assert_eq!(
        stage.host.client().fault("run.info", json!({ "run": "../r1" }))["data"]["kind"],
        "not_found"
    );
}

#[test]
fn some_phases_alone_and_none_at_all() {
    let stage = Stage::new();
    let file = pipeline(
        stage.agent("echo $1 >> $D/log"),
        json!([
        { "name": "a", "prompt": "a" }, { "name": "b", "prompt": "b" }, { "name": "c", "prompt": "c",
          "session": { "env": { "KEY": "hunter2" }, "timeout_ms": 60000 } }]),
    );
    let mut client = stage.host.client();
    let dry = client
        .ok("run.start", json!({ "connector": file, "cwd": stage.dir.path(), "dry_run": true }));
    assert!(dry.get("run").is_none(), "{dry}");
    assert_eq!(dry["plan"]["phases"][2]["workers"][0]["prompt"], "c");
    let would_be = &dry["plan"]["phases"][2]["workers"][0]["session"]["would_be"];
    assert_eq!(would_be["timeout_ms"], 60000, "{dry}");
    assert!(!dry.to_string().contains("hunter2"));
    assert!(client.ok("run.list", json!({}))["runs"].as_array().unwrap().is_empty());
    let only = json!({ "connector": file, "cwd": stage.dir.path(), "only": ["c", "a"] });
    let run = client.ok("run.start", only)["run"].as_str().unwrap().to_owned();
    assert_eq!(stage.finish(&run)["state"], "done");
    assert_eq!(stage.lines("log"), ["a", "c"]);
    let wrong = json!({ "connector": file, "cwd": "/", "only": ["bb"] });
    let fault = client.fault("run.start", wrong);
    assert!(fault["message"].as_str().unwrap().contains("did you mean \"b\"?"), "{fault}");
    // Nothing of a caller's secrets stays behind.
    let runs = stage.host.paths.state().join("runs").join(&run);
    for entry in std::fs::read_dir(&runs).unwrap() {
        let path = entry.unwrap().path();
        assert!(!std::fs::read_to_string(&path).unwrap().contains("hunter2"), "{}", path.display());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn mistakes_in_a_file_have_their_place() {
    let stage = Stage::new();
    let mut client = stage.host.client();
    let mut refused = |connector: Value, words: &str| {
        let fault = client
            .fault("run.start", json!({ "connector": connector, "cwd": "/", "file": "x.json" }));
        assert!(fault["message"].as_str().unwrap().contains(words), "{fault}");
        fault
    };
    let fault = refused(
        json!("{\n \"pipelin\": 1}"),
        "x.json:2:2: unknown key \"pipelin\", did you mean \"pipeline\"?",
    );
    assert_eq!(fault["data"]["problems"][0]["line"], 2);
    refused(
        json!({ "model": "claude", "prompt": "x", "pipeline": { "phases": [{ "until": "text=(" }] } }),
        "belongs into",
    );
    let fault = refused(
        json!({ "pipeline": { "phases": [{ "model": "claude", "until": "text=(" }] } }),
        "regex",
    );
    assert_eq!(fault["data"]["kind"], "bad_pattern");
    assert!(client.ok("run.list", json!({}))["runs"].as_array().unwrap().is_empty());
    let nowhere = json!({ "connector": {}, "cwd": "/no/such/dir" });
    assert_eq!(client.fault("run.start", nowhere)["data"]["kind"], "invalid_params");
}

#[test]
fn speakers_hear_each_other() {
    let stage = Stage::new();
    // Answers with how many turns it was told of, and the last of them.
    let agent = stage
        .agent("echo \"$1\" | grep -c ': reply' | sed 's/^/reply after /'; echo \"$1\" >> $D/log");
    let info = stage.run(json!({
        "models": { "m": agent, "judge": stage.agent("cp $GREENROOM_SCRATCHPAD/dialogue-1.md $D/heard") },
        "pipeline": { "scratchpad": true, "phases": [
            { "name": "talk", "type": "dialogue", "rounds": 2, "model": "m", "prompt": "tea or coffee?",
              "participants": [{ "id": "ann", "role": "likes tea" }, { "id": "bob" }] },
            { "name": "judge", "model": "judge", "prompt": "who won?" },
        ] },
    }));
    assert_eq!(info["state"], "done", "{info}");
    let names: Vec<&str> = info["phases"][0]["workers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|turn| turn["worker"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["ann.1", "bob.1", "ann.2", "bob.2"]);
    let heard = stage.lines("heard");
    let replies: Vec<&str> =
        heard.iter().map(String::as_str).filter(|line| line.starts_with("reply")).collect();
    assert_eq!(replies, ["reply after 0", "reply after 1", "reply after 2", "reply after 3"]);
    let told = stage.lines("log").join("\n");
    assert!(
        told.contains(
            "You are ann in a dialogue with bob. Your role: likes tea.\n\ntea or coffee?"
        ),
        "{told}"
    );
}

#[test]
fn speakers_may_stay_and_be_typed_to() {
    let stage = Stage::new();
    let script = "echo \"I am $$\" >> $D/who; echo ready; while read line; do case \"$line\" in *turn*) echo said-$$; esac; done";
    let mut typed = stage.agent(script);
    typed["prompt_via"] = json!("stdin");
    let once = stage.agent("echo \"$1\" | grep -o 'said-[0-9]*' | tail -1 | sed 's/^/heard /'");
    let info = stage.run(json!({
        "type": "dialogue", "rounds": 2, "prompt": "go",
        "models": { "stays": typed, "once": once },
        "participants": [{ "model": "stays" }, { "model": "once" }],
    }));
    assert_eq!(info["state"], "done", "{info}");
    assert_eq!(stage.lines("who").len(), 1, "one session for both turns");
    let turns = info["phases"][0]["workers"].as_array().unwrap();
    assert_eq!(turns[0]["session"], turns[2]["session"]);
    assert_ne!(turns[1]["session"], turns[3]["session"]);
    assert_eq!(stage.running(), [Value::Null; 0], "it ends with the dialogue");
    let pad = Path::new(info["scratchpad"].as_str().unwrap());
    let said = std::fs::read_to_string(pad.join("dialogue-1.md")).unwrap();
    assert_eq!(said.matches("heard said-").count(), 2, "{said}");
}

#[test]
fn a_worker_may_be_done_before_its_program() {
    let stage = Stage::new();
    let mut typed = stage.agent("echo ready; read line; echo \"got $line\"; sleep 1000");
    typed["prompt_via"] = json!("stdin");
    let info = stage.run(json!({
        "models": { "typed": typed, "early": stage.agent("echo bye") },
        "pipeline": { "phases": [
            { "name": "a", "model": "typed", "prompt": "the task", "until": "text=got the task" },
            { "name": "b", "model": "early", "prompt": "x", "until": { "type": "contains_text", "value": "never" } },
        ] },
    }));
    assert_eq!(phases(&info), ["done", "failed"], "{info}");
    assert_eq!(info["phases"][0]["workers"][0]["exit"]["signal"], "SIGHUP");
    assert_eq!(info["phases"][1]["workers"][0]["why"], "it ended before its condition held");
    assert_eq!(stage.running(), [Value::Null; 0]);
}

#[test]
fn a_worker_has_the_time_its_file_gives_it() {
    let stage = Stage::new();
    let info = stage.run(pipeline(
        stage.agent("sleep 1000"),
        json!([{ "name": "a", "prompt": "x", "session": { "timeout_ms": 200 } }]),
    ));
    let worker = &info["phases"][0]["workers"][0];
    assert_eq!((&worker["state"], &worker["why"]), (&json!("failed"), &json!("its time was up")));
    assert_eq!(worker["exit"]["signal"], "SIGTERM");
}

/// A daemon that dies while it stops a run leaves the rest to the next one.
#[test]
fn a_cancel_outlives_the_daemon() {
    let stage = Stage::new();
    // Takes its time: the daemon dies between TERM and KILL.
    let agent = stage.agent("trap 'echo asked >> $D/log' HUP TERM; while :; do sleep 0.02; done");
    let run = stage.start(pipeline(agent, json!([{ "name": "a", "prompt": "x", "retries": 5 }])));
    stage.wait_worker(&run, "a", "1", "running");
    let mut client = stage.host.client();
    client.send("run.cancel", json!({ "run": run }));
    let deadline = std::time::Instant::now() + crate::client::PATIENCE;
    while stage.lines("log").is_empty() {
        assert!(std::time::Instant::now() < deadline);
        std::thread::yield_now();
    }
    stage.host.kill_daemon();
    let info = stage.finish(&run);
    assert_eq!(
        (&info["state"], &info["phases"][0]["workers"][0]["attempts"]),
        (&json!("cancelled"), &json!(1))
    );
    assert_eq!(stage.running(), [Value::Null; 0]);
}

/// A worker that goes at once and leaves somebody who goes only when he is killed.
const LEAVES_ONE: &str =
    "(trap '' HUP TERM; echo ready >> $D/log; exec setsid sleep 1000) & echo $! >> $D/pids; wait";

/// The pids of its processes that still live.
fn left(stage: &Stage) -> Vec<String> {
    let lives = |pid: &String| {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        rustix::process::test_kill_process(pid).is_ok()
    };
    stage.lines("pids").into_iter().filter(lives).collect()
}

fn wait_for_line(stage: &Stage, name: &str) {
    let deadline = std::time::Instant::now() + crate::client::PATIENCE;
    while stage.lines(name).is_empty() {
        assert!(std::time::Instant::now() < deadline);
        std::thread::yield_now();
    }
}

#[test]
fn a_run_is_over_when_nothing_that_its_workers_left_lives() {
    let stage = Stage::new();
    let agent = stage.agent(LEAVES_ONE);
    let run = stage.start(pipeline(agent, json!([{ "name": "a", "prompt": "x" }])));
    wait_for_line(&stage, "log");
    stage.wait_worker(&run, "a", "1", "running");
    let answer = stage.host.client().ok("run.cancel", json!({ "run": run }));
    assert_eq!(answer["state"], "cancelled");
    assert_eq!(left(&stage), [""; 0]);
    assert_eq!(stage.finish(&run)["state"], "cancelled");
}

#[test]
fn what_a_cancelled_worker_left_is_ended_by_the_next_daemon() {
    let stage = Stage::with_grace("5s");
    let agent = stage.agent(LEAVES_ONE);
    let run = stage.start(pipeline(agent, json!([{ "name": "a", "prompt": "x", "retries": 5 }])));
    wait_for_line(&stage, "log");
    stage.wait_worker(&run, "a", "1", "running");
    stage.host.client().send("run.cancel", json!({ "run": run }));
    stage.wait_event(|event| event["kind"] == "session.exited");
    assert_eq!(left(&stage).len(), 1, "it is killed only after its grace");
    stage.host.kill_daemon();
    assert_eq!(stage.finish(&run)["state"], "cancelled");
    assert_eq!(left(&stage), [""; 0]);
}

#[test]
fn a_worker_whose_condition_held_is_ended_by_the_next_daemon() {
    let stage = Stage::with_grace("5s");
    let agent = stage.agent(&format!("echo done; {LEAVES_ONE}"));
    let run =
        stage.start(pipeline(agent, json!([{ "name": "a", "prompt": "x", "until": "text=done" }])));
    stage.wait_event(|event| event["kind"] == "session.exited");
    stage.host.kill_daemon();
    let info = stage.finish(&run);
    assert_eq!(info["state"], "done", "{info}");
    assert_eq!(left(&stage), [""; 0]);
}

#[test]
fn a_speaker_that_stayed_is_ended_by_the_next_daemon() {
    let stage = Stage::with_grace("5s");
    let script = "(trap '' HUP TERM; exec setsid sleep 1000) & echo $! >> $D/pids; echo ready; while read line; do echo said; done";
    let mut typed = stage.agent(script);
    typed["prompt_via"] = json!("stdin");
    let run = stage.start(json!({
        "type": "dialogue", "rounds": 1, "prompt": "go",
        "models": { "stays": typed, "once": stage.agent("echo heard") },
        "participants": [{ "model": "stays" }, { "model": "once" }],
    }));
    let stayed = |event: &Value| {
        event["kind"] == "session.exited" && event["data"]["exit"]["signal"] == "SIGHUP"
    };
    stage.wait_event(stayed);
    stage.host.kill_daemon();
    let info = stage.finish(&run);
    assert_eq!(info["state"], "done", "{info}");
    assert_eq!(left(&stage), [""; 0]);
}

#[test]
fn a_run_ends_with_its_host_and_not_with_its_daemon() {
    let stage = Stage::new();
    let run = stage.start(pipeline(
        stage.agent("sleep 1000"),
        json!([{ "name": "a", "prompt": "x", "retries": 3 }]),
    ));
    stage.wait_worker(&run, "a", "1", "running");
    let mut client = stage.host.client();
    client.ok("server.hello", json!({}));
    let old = stage.host.daemon_pid();
    crate::host::signal(old, rustix::process::Signal::TERM);
    assert!(client.rest().is_empty());
    assert_ne!(stage.host.daemon_pid(), old);
    assert_eq!(stage.host.client().ok("run.info", json!({ "run": run }))["state"], "running");
    let mut client: Client = stage.host.client();
    client.ok("server.shutdown", json!({ "grace_ms": 100 }));
    assert!(client.rest().is_empty());
    let file = stage.host.paths.state().join("runs").join(&run).join("progress.json");
    let deadline = std::time::Instant::now() + crate::client::PATIENCE;
    let progress = loop {
        let text = std::fs::read_to_string(&file).unwrap();
        let progress: Value = serde_json::from_str(&text).unwrap();
        if progress["state"] != "running" {
            break progress;
        }
        assert!(std::time::Instant::now() < deadline, "{progress}");
        std::thread::yield_now();
    };
    let expected = (&json!("cancelled"), &json!("the host was shut down"));
    assert_eq!((&progress["state"], &progress["why"]), expected);
    assert_eq!(stage.host.wait(), Some(0));
}

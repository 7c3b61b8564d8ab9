//! Sessions with plugins: prepared, cleaned up, refused; also when the daemon is killed between two
//! steps.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use test_kit::git::{repository, try_git};
use test_kit::place::{self, files_below};
use test_kit::wait::eventually;

use crate::client::Client;
use crate::host::{Host, wait_exit, wait_for};

fn settled(client: &mut Client, session: &str) -> Value {
    wait_exit(client, session);
    client.ok("session.info", json!({ "session": session, "settled": true }))
}

/// What a host has of one session's plugins, on disk and in the repository.
fn traces(host: &Host, repo: &Path) -> Vec<String> {
    let state = host.home.path().join("state");
    let mut traces = Vec::new();
    for dir in ["worktrees", "scratchpads", "excludes", "tmp", "ports"] {
        traces.extend(files_below(&state.join(dir)).iter().map(|path| path.display().to_string()));
    }
    for entry in std::fs::read_dir(state.join("scratchpads")).into_iter().flatten().flatten() {
        if entry.file_name() != ".uses" {
            traces.push(entry.path().display().to_string());
        }
    }
    // Git stumbles over a worktree that is removed while it looks: that is a trace too.
    let lines = |args: &[&str]| -> Vec<String> {
        let said = try_git(repo, args).unwrap_or_else(|said| said);
        said.lines().map(str::to_owned).collect()
    };
    traces.extend(lines(&["branch", "--list", "greenroom/*"]));
    let main = format!("{} ", repo.display());
    traces.extend(lines(&["worktree", "list"]).into_iter().filter(|line| !line.starts_with(&main)));
    traces
}

#[test]
fn a_chain_prepares_and_cleans_up() {
    let host = Host::start();
    let repo = host.home.path().join("repo");
    repository(&repo);
    let mut client = host.client();
    let script = "pwd; git status --porcelain; echo \"[$K|$GREENROOM_BRANCH]\"; test -d scratchpad && echo shared; cat";
    let params = json!({
        "command": ["sh", "-c", script], "cwd": repo, "worktree": "feat-x", "scratchpad": true,
        "env": { "K": "value" }, "timeout_ms": 3_600_000
    });
    let dry = client.ok("session.create", {
        let mut params = params.clone();
        params["dry_run"] = json!(true);
        params
    });
    let names: Vec<&str> = dry["dry_run"]["plugins"]
        .as_array()
        .unwrap()
        .iter()
        .map(|plugin| plugin["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["worktree", "scratchpad", "env", "timeout"]);
    assert_eq!(dry["dry_run"]["env"]["K"], Value::Null);
    assert_eq!(traces(&host, &repo), Vec::<String>::new());

    let id = client.ok("session.create", params)["session"].as_str().unwrap().to_owned();
    wait_for(&mut client, &id, "shared");
    // Git has nothing to say: neither link nor worktree makes the tree dirty.
    wait_for(&mut client, &id, "feat-x\n[value|greenroom/feat-x]\nshared");
    let info = client.ok("session.info", json!({ "session": id }));
    assert_eq!(info["branch"], "greenroom/feat-x");
    assert!(info["deadline_at"].is_string(), "{info}");
    let listed = client.ok("worktree.list", json!({}));
    assert_eq!(listed["worktrees"][0]["session"], json!(id), "{listed}");
    let taken = client.fault("session.create", json!({ "cwd": repo, "worktree": "feat-x" }));
    assert_eq!(taken["data"]["plugin"], "worktree", "{taken}");
    client.ok("session.kill", json!({ "session": id }));
    let info = settled(&mut client, &id);
    assert_eq!(info["plugins"][0]["left"]["state"], "removed", "{info}");
    assert_eq!(traces(&host, &repo), Vec::<String>::new());
    client.ok("session.close", json!({ "session": id }));
    assert_eq!(files_below(&host.home.path().join("state/chains")), [] as [PathBuf; 0]);
}

#[test]
fn work_is_kept_and_told_and_resumed() {
    let host = Host::start();
    let repo = host.home.path().join("repo");
    repository(&repo);
    let mut client = host.client();
    let run = |client: &mut Client, script: &str| {
        let params = json!({ "command": ["sh", "-c", script], "cwd": repo, "worktree": "feat-x" });
        client.ok("session.create", params)
    };
    let id = run(&mut client, "echo work > new")["session"].as_str().unwrap().to_owned();
    let info = settled(&mut client, &id);
    let left = &info["plugins"][0]["left"];
    assert_eq!(left["state"], "kept", "{info}");
    assert!(left["why"].as_str().unwrap().contains("untracked: new"), "{left}");
    let cleaned = client.ok("worktree.clean", json!({}));
    assert_eq!(cleaned["worktrees"][0]["action"], "kept", "{cleaned}");
    let again = run(&mut client, "cat new; rm new");
    assert!(again["notes"][0].as_str().unwrap().contains("resum"), "{again}");
    let id = again["session"].as_str().unwrap();
    settled(&mut client, id);
    wait_for(&mut client, id, "work");
    assert_eq!(traces(&host, &repo), Vec::<String>::new());
}

#[test]
fn a_refusal_is_one_error_and_leaves_nothing() {
    let host = Host::start();
    let repo = host.home.path().join("repo");
    repository(&repo);
    let outside = tempfile::tempdir().unwrap();
    let mut client = host.client();
    let cases = [
        (json!({ "cwd": outside.path(), "worktree": "x" }), "worktree", "not in a git repository"),
        (json!({ "cwd": repo, "worktree": "../x" }), "worktree", ""),
        (
            json!({ "cwd": repo, "worktree": "x", "env": { "K": "secret:none" } }),
            "env",
            "No such file",
        ),
        (json!({ "cwd": repo, "worktree": "x", "scratchpad": "a/b" }), "scratchpad", "cannot name"),
        (json!({ "cwd": repo, "worktree": "x", "timeout_ms": 0 }), "timeout", "cannot set"),
        (
            json!({ "cwd": repo, "worktree": "x", "with": ["podman"] }),
            "podman",
            "no session plugin",
        ),
    ];
    for (params, plugin, why) in cases {
        let fault = client.fault("session.create", params);
        assert_eq!(fault["data"]["kind"], "refused", "{fault}");
        assert_eq!(fault["data"]["plugin"], plugin, "{fault}");
        let message = fault["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("cannot start the session: {plugin}: ")), "{fault}");
        assert!(message.contains(why), "{fault}");
        assert_eq!(traces(&host, &repo), Vec::<String>::new(), "{fault}");
    }
    // The chain is done and the program cannot be started: undone too.
    let fault = client.fault(
        "session.create",
        json!({ "command": ["/no/such/program"], "cwd": repo, "worktree": "x", "scratchpad": true }),
    );
    assert_eq!(fault["data"]["kind"], "spawn_failed", "{fault}");
    assert_eq!(traces(&host, &repo), Vec::<String>::new());
    assert_eq!(files_below(&host.home.path().join("state/chains")), [] as [PathBuf; 0]);
    assert_eq!(client.ok("session.list", json!({})), json!({ "sessions": [] }));
}

/// Asks for a session while the daemon dies at `moment`; the keeper's next daemon cleans up. Only a
/// debug build dies on demand; what is shipped is killed at random moments (the command line's
/// tests).
#[cfg(debug_assertions)]
fn die_while_starting(host: &Host, repo: &Path, moment: &str) {
    let file = host.home.path().join("die-at");
    std::fs::write(&file, moment).unwrap();
    let mut client = host.client();
    let mut params = json!({
        "command": ["cat"], "cwd": repo, "worktree": "feat-x", "scratchpad": "team",
        "env": { "K": "v" }, "timeout_ms": 60_000
    });
    if moment.contains("sandbox") {
        params["sandbox"] = json!(true);
    }
    client.send("session.create", params);
    // The connection breaks with the daemon.
    client.rest();
    assert!(!file.exists(), "{moment} did not come");
}

#[cfg(debug_assertions)]
#[test]
fn a_daemon_killed_between_any_two_steps_leaves_nothing() {
    let home = place::private();
    let host = Host::in_home(home, &[("GREENROOM_TEST_DIE_AT", "die-at")]);
    let repo = host.home.path().join("repo");
    repository(&repo);
    let able = host.client().ok("sandbox.doctor", json!({}))["full"] == json!(true);
    let confined = ["preparing sandbox", "noted sandbox", "prepared sandbox"];
    let confined = confined.into_iter().filter(|_| able);
    for moment in [
        "preparing worktree",
        "noted worktree",
        "prepared worktree",
        "preparing scratchpad",
        "noted scratchpad",
        "prepared scratchpad",
        "prepared env",
        "prepared timeout",
        "ready",
    ]
    .into_iter()
    .chain(confined)
    {
        die_while_starting(&host, &repo, moment);
        eventually(moment, || {
            let clean = traces(&host, &repo).is_empty()
                && files_below(&host.home.path().join("state/chains")).is_empty();
            clean.then_some(())
        });
        assert_eq!(host.client().ok("session.list", json!({})), json!({ "sessions": [] }));
    }
    // Killed after the start: the session goes on, its clock too, and its end is seen to.
    die_while_starting(&host, &repo, "started");
    let mut client = host.client();
    let id = client.ok("session.list", json!({}))["sessions"][0].as_str().unwrap().to_owned();
    let info = client.ok("session.info", json!({ "session": id }));
    assert_eq!((&info["state"], &info["branch"]), (&json!("running"), &json!("greenroom/feat-x")));
    for moment in
        ["cleaning scratchpad", "cleaned scratchpad", "cleaning worktree", "cleaned worktree"]
    {
        std::fs::write(host.home.path().join("die-at"), moment).unwrap();
        client.send("session.kill", json!({ "session": id }));
        client.send("session.info", json!({ "session": id, "settled": true }));
        // Dies at the first time; later ones find the clean-up further on.
        eventually(moment, || (!host.home.path().join("die-at").exists()).then_some(()));
        client = host.client();
    }
    let info = settled(&mut client, &id);
    assert_eq!(info["plugins"][0]["left"]["state"], "removed", "{info}");
    assert_eq!(traces(&host, &repo), Vec::<String>::new());
    // Killed between the session's removal and the end of its notes: nobody would ever ask for them
    // again.
    let notes = || files_below(&host.home.path().join("state/chains"));
    assert_eq!(notes().len(), 1);
    std::fs::write(host.home.path().join("die-at"), "removed").unwrap();
    client.send("session.close", json!({ "session": id }));
    client.rest();
    eventually("notes of a removed session", || notes().is_empty().then_some(()));
    assert_eq!(host.client().ok("session.list", json!({})), json!({ "sessions": [] }));
}

#[test]
fn a_clean_up_goes_on_when_the_one_who_asked_goes_away() {
    let host =
        Host::with_config("[worktree]\nteardown = [\"echo run >> ../../../../ran; sleep 1\"]\n");
    let repo = host.home.path().join("repo");
    repository(&repo);
    let mut client = host.client();
    let params = json!({ "command": ["cat"], "cwd": repo, "worktree": "x" });
    let id = client.ok("session.create", params)["session"].as_str().unwrap().to_owned();
    // The first clean-up fails, so the next one is begun by whoever asks.
    let records = files_below(&host.home.path().join("state/worktrees"));
    let record = records.iter().find(|path| path.ends_with(".records/x.json")).unwrap();
    let text = std::fs::read(record).unwrap();
    std::fs::write(record, "{").unwrap();
    client.ok("session.kill", json!({ "session": id }));
    let info = settled(&mut client, &id);
    assert_eq!(info["plugins"][0]["left"]["state"], "failed", "{info}");
    std::fs::write(record, text).unwrap();
    client.send("session.info", json!({ "session": id, "settled": true }));
    let ran = host.home.path().join("ran");
    eventually("the clean-up", || ran.exists().then_some(()));
    drop(client);
    let info = settled(&mut host.client(), &id);
    assert_eq!(info["plugins"][0]["left"]["state"], "removed", "{info}");
    assert_eq!(std::fs::read_to_string(ran).unwrap(), "run\n", "once");
}

#[test]
fn a_limit_of_time_outlives_the_daemon() {
    let host = Host::start();
    let mut client = host.client();
    let params = json!({ "command": ["sh", "-c", "trap 'echo asked; exit 3' TERM; echo up; while :; do sleep 0.1; done"],
        "cwd": "/", "timeout_ms": 2500 });
    let id = client.ok("session.create", params)["session"].as_str().unwrap().to_owned();
    wait_for(&mut client, &id, "up");
    host.kill_daemon();
    let mut client = host.client();
    let info = settled(&mut client, &id);
    assert_eq!(info["exit"]["code"], 3, "{info}");
    let page = client.ok(
        "server.subscribe",
        json!({ "since": 0, "follow": false, "kinds": ["session.timed_out", "session.expiring"] }),
    );
    let kinds: Vec<&str> = page["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["session.expiring", "session.timed_out"], "{page}");
}

#[test]
fn a_session_without_output_is_ended_and_one_with_output_is_not() {
    let host = Host::start();
    let mut client = host.client();
    let create = |client: &mut Client, script: &str| {
        let params =
            json!({ "command": ["sh", "-c", script], "cwd": "/", "idle_timeout_ms": 1500 });
        client.ok("session.create", params)["session"].as_str().unwrap().to_owned()
    };
    let busy = create(&mut client, "for i in 1 2 3 4 5 6 7 8 9 10; do echo $i; sleep 0.3; done");
    let idle = create(&mut client, "echo once; cat");
    assert_eq!(settled(&mut client, &idle)["exit"]["signal"], "SIGTERM");
    assert_eq!(settled(&mut client, &busy)["exit"]["code"], 0);
}

#[test]
fn secrets_are_nowhere_but_in_the_session() {
    const SECRETS: [&str; 3] = ["sk-literal-92837465", "sk-fromfile-5647382", "sk-stored-10293847"];
    let host = Host::with_config("[log]\nlevel = \"trace\"\n");
    let repo = host.home.path().join("repo");
    repository(&repo);
    let keep = host.home.path().join("secrets");
    std::fs::create_dir(&keep).unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("value"), SECRETS[1]).unwrap();
    std::fs::write(keep.join("stored"), format!("{}\n", SECRETS[2])).unwrap();
    place::set_mode(&keep.join("stored"), 0o600);
    let mut client = host.client();
    let params = json!({
        "command": ["sh", "-c", "echo ${#A} ${#B} ${#C}; cat"], "cwd": repo, "worktree": "x", "scratchpad": true,
        "env": { "A": SECRETS[0], "B": format!("file:{}/value", outside.path().display()), "C": "secret:stored" },
        "timeout_ms": 60_000,
    });
    let mut said = String::new();
    let created = client.ok("session.create", params.clone());
    let id = created["session"].as_str().unwrap().to_owned();
    said.push_str(&created.to_string());
    wait_for(&mut client, &id, "19 19 18");
    let mut dry = params.clone();
    dry["dry_run"] = json!(true);
    dry["worktree"] = json!("y");
    said.push_str(&client.ok("session.create", dry).to_string());
    let mut bad = params;
    bad["worktree"] = json!("../bad");
    said.push_str(&client.fault("session.create", bad).to_string());
    for (method, params) in [
        ("session.info", json!({ "session": id, "explain": true })),
        ("session.list", json!({ "detail": true })),
        ("server.subscribe", json!({ "since": 0, "follow": false })),
        ("server.stats", json!({})),
        ("worktree.list", json!({})),
        ("session.transcript", json!({ "session": id })),
    ] {
        said.push_str(&client.ok(method, params).to_string());
    }
    let ps = Command::new("ps").args(["axww", "-o", "args"]).output().unwrap();
    said.push_str(&String::from_utf8_lossy(&ps.stdout));
    client.ok("session.kill", json!({ "session": id }));
    said.push_str(&settled(&mut client, &id).to_string());
    host.kill_daemon();
    drop(host.client().ok("session.list", json!({})));
    for secret in SECRETS {
        assert!(!said.contains(secret), "{secret} was said");
        for file in files_below(host.home.path()).iter().filter(|file| file.is_file()) {
            let bytes = std::fs::read(file).unwrap();
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found || *file == keep.join("stored"), "{secret} is in {}", file.display());
        }
    }
}

#[test]
fn a_cancelled_request_is_cleaned_up_after_too() {
    let outside = tempfile::tempdir().unwrap();
    // The setup waits until we let it.
    let at = outside.path().display();
    let setup = format!("touch {at}/started; while [ ! -e {at}/go ]; do sleep 0.05; done");
    let host = Host::with_config(&format!("[worktree]\nsetup = [\"{setup}\"]\n"));
    let repo = host.home.path().join("repo");
    repository(&repo);
    let mut client = host.client();
    let id =
        client.send("session.create", json!({ "command": ["cat"], "cwd": repo, "worktree": "x" }));
    eventually("the setup", || outside.path().join("started").exists().then_some(()));
    let cancel = json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": id } });
    client.line(&cancel.to_string());
    assert_eq!(client.answer(id)["error"]["data"]["kind"], "cancelled");
    std::fs::write(outside.path().join("go"), "").unwrap();
    // What was begun goes on, with everything that belongs to it, and ends like any other.
    eventually("the session", || {
        let sessions = client.ok("session.list", json!({}));
        (sessions == json!({ "sessions": ["s1"] })).then_some(())
    });
    client.ok("session.kill", json!({ "session": "s1" }));
    settled(&mut client, "s1");
    assert_eq!(traces(&host, &repo), Vec::<String>::new());
}

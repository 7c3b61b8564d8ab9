//! What a person meets on the first day, and on the second: names, lists, help, tables, tips.

use serde_json::{Value, json};

use crate::attach::Outer;
use crate::support::Home;

fn name_of(home: &Home, id: &str) -> Value {
    home.json(&["info", id, "--json"])["name"].clone()
}

#[test]
fn an_ended_session_gives_its_name_up_to_the_next() {
    let home = Home::new();
    let first = home.ok(&["new", "--name", "build", "--", "sh", "-c", "echo one"]);
    home.ok(&["wait", "build", "--until", "exit"]);
    assert_eq!(home.screen("build"), "one", "until then the name leads to the ended one");
    // A start that fails takes nothing.
    assert_eq!(home.run(&["new", "--name", "build", "--", "/no/such/program"]).code, 1);
    assert_eq!(home.screen("build"), "one");
    let second = home.ok(&["new", "--name", "build", "--", "sh", "-c", "echo two; read x"]);
    home.wait_text("build", "two");
    assert_eq!(home.screen(&first), "one");
    let info = home.json(&["info", &first, "--json"]);
    assert_eq!((&info["name"], &info["former_name"]), (&Value::Null, &json!("build")));
    assert!(home.ok(&["ls"]).contains("(build)"));
    let said = home.run(&["new", "--name", "build", "--", "true"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains(&format!("taken by session {second}")), "{said:?}");
    assert!(said.err.contains("hint: attach to it with greenroom new -A build"), "{said:?}");
    // It stays so in the next daemon.
    home.ok(&["upgrade"]);
    assert_eq!(home.json(&["info", &first, "--json"])["former_name"], "build");
    assert_eq!(home.json(&["info", "build", "--json"])["id"], second.as_str());
    home.ok(&["kill", "build"]);
    home.ok(&["rename", &first, "build"]);
    assert_eq!(home.json(&["info", "build", "--json"])["id"], first.as_str());
}

#[test]
fn sessions_without_a_name_are_called_after_what_runs() {
    let home = Home::new();
    let ids = [home.shell("read x"), home.shell("read x"), home.ok(&["new", "--", "/bin/cat"])];
    let names = ids.each_ref().map(|id| name_of(&home, id));
    assert_eq!(names, ["sh", "sh-2", "cat"].map(|name| json!(name)));
    home.ok(&["kill", "sh"]);
    let again = home.shell("read x");
    assert_eq!(name_of(&home, &again), "sh", "a name that was made up is free after the end");
    // A chosen name is not taken by one that is made up.
    home.ok(&["new", "--name", "sleep", "--", "sh", "-c", "echo chosen"]);
    home.ok(&["wait", "sleep", "--until", "exit"]);
    let other = home.ok(&["new", "--", "sleep", "1000"]);
    assert_eq!(name_of(&home, &other), "sleep-2");
    assert_eq!(home.screen("sleep"), "chosen");
}

#[test]
fn prefixes_mean_live_sessions_and_ids_mean_themselves() {
    let home = Home::new();
    home.ok(&["new", "--name", "api-old", "--", "true"]);
    home.ok(&["wait", "api-old", "--until", "exit"]);
    home.ok(&["new", "--name", "api-new", "--", "sh", "-c", "echo new; read x"]);
    home.wait_text("api", "new");
    home.ok(&["new", "--name", "api-third", "--", "cat"]);
    let said = home.run(&["read", "api"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("api-new, api-third") && !said.err.contains("api-old"), "{said:?}");
    for _ in 4..=10 {
        home.ok(&["new", "--", "true"]);
    }
    home.ok(&["kill", "api-new", "api-third"]);
    home.ok(&["rm", "s1"]);
    assert_eq!(home.run(&["kill", "s1"]).code, 6, "s1 never means s10");
}

#[test]
fn attach_or_create_and_attach_without_a_name() {
    let inner = Home::new();
    let outer = Outer::new(&inner);
    let line = "greenroom new -A work -- sh -c 'echo here I am; read x'";
    for _ in 0..2 {
        outer.type_line(line);
        outer.sees("here I am");
        outer.detach();
        outer.type_line("clear");
        outer.sees("^outer>\\s*$");
    }
    let listed = inner.json(&["ls", "--json"]);
    assert_eq!(listed["sessions"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["sessions"][0]["name"], "work");
    outer.type_line("greenroom attach");
    outer.sees("here I am");
    outer.detach();
    // A person sees the name beside the id, and what to do next.
    outer.type_line("clear; greenroom new -- cat");
    outer.sees("s2  cat\\s+hint: use it with greenroom attach cat");
    outer.type_line("clear; greenroom attach; echo rc $?");
    outer.sees("2 sessions run\\s+hint: say which: greenroom attach s1\\s+rc 2");
    outer.type_line("clear; greenroom kill --all; greenroom attach; echo rc $?");
    outer.sees("no session runs\\s+hint: start one with greenroom new --attach\\s+rc 6");
}

#[test]
fn without_a_terminal_nothing_is_started_only_to_be_attached_to() {
    let home = Home::new();
    for args in [&["new", "--attach", "--", "cat"][..], &["new", "-A", "x", "--", "cat"]] {
        let said = home.run(args);
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
        assert!(said.err.contains("nothing was started\nhint: "), "{said:?}");
    }
    assert!(!home.socket().exists(), "not even the host");
    assert_eq!(home.run(&["attach"]).code, 1);
}

#[test]
fn kill_and_rm_take_lists_and_go_on_after_a_mistake() {
    let home = Home::new();
    for (name, team) in [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"), ("e", "y")] {
        let label = format!("team={team}");
        home.ok(&["new", "--name", name, "--label", &label, "--", "cat"]);
    }
    let said = home.run(&["kill", "a", "nope", "b", "a"]);
    assert_eq!(said.code, 6, "{said:?}");
    let ended: Vec<&str> = said.out.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(ended, ["a", "b"], "{said:?}");
    assert_eq!(said.err.matches("greenroom: ").count(), 1, "{said:?}");
    let killed = home.json(&["kill", "--label", "team=y", "--json"]);
    let sessions: Vec<&Value> =
        killed["killed"].as_array().unwrap().iter().map(|one| &one["session"]).collect();
    assert_eq!(sessions, [&json!("s3"), &json!("s4"), &json!("s5")]);
    let said = home.run(&["kill", "--all"]);
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{said:?}");
    assert!(said.err.contains("nothing was ended"), "{said:?}");
    home.ok(&["new", "--name", "f", "--label", "team=x", "--", "cat"]);
    let said = home.run(&["rm", "nope", "a", "f"]);
    assert_eq!((said.code, said.out.as_str()), (6, "a\n"), "{said:?}");
    assert!(said.err.contains("hint: end it first with greenroom kill f"), "{said:?}");
    assert_eq!(home.ok(&["rm", "--ended", "--label", "team=x"]), "s2");
    let said = home.run(&["rm", "--all"]);
    assert_eq!((said.code, said.out.as_str()), (1, "s3\ns4\ns5\n"), "{said:?}");
    assert_eq!(home.ok(&["kill", "--all"]).lines().count(), 1);
    assert_eq!(home.json(&["rm", "--all", "--json"]), json!({ "removed": ["s6"] }));
}

#[test]
fn several_are_ended_at_once() {
    let home = Home::new();
    for name in ["a", "b", "c", "d", "e", "f"] {
        home.ok(&["new", "--name", name, "--", "sh", "-c", "trap '' HUP TERM; echo set; cat; cat"]);
        home.wait_text(name, "set");
    }
    let began = std::time::Instant::now();
    home.ok(&["kill", "--all", "--grace", "3s"]);
    let took = began.elapsed();
    assert!(took.as_secs() < 15, "six with a grace of 3 s each took {took:?}");
}

#[test]
fn help_is_a_verb_and_mistakes_get_a_tip() {
    let home = Home::new();
    assert!(home.ok(&["help"]).contains("shutdown"));
    assert_eq!(home.ok(&["help", "new"]), home.ok(&["new", "--help"]));
    assert!(home.ok(&["help", "plugin", "add"]).contains("greenroom plugin add ./guard"));
    let said = home.run(&["help", "kil"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("hint: did you mean greenroom help kill?"), "{said:?}");
    let said = home.run(&["new", "--name", "ed", "vim", "x.txt"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("greenroom new --name ed -- vim x.txt"), "{said:?}");
    let said = home.run(&["new", "vim", "--json"]);
    let error: Value = serde_json::from_str(&said.err).unwrap();
    let hint = error["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("greenroom new -- vim"), "{said:?}");
    assert!(!home.socket().exists());
}

#[test]
fn shutdown_where_nothing_runs_is_no_failure() {
    let home = Home::new();
    assert_eq!(home.ok(&["shutdown"]), "no host runs; there is nothing to stop");
    assert_eq!(home.json(&["shutdown", "--json"]), json!({ "stopped": false, "sessions": 0 }));
    assert!(!home.socket().exists());
    home.shell("read x");
    assert_eq!(home.run(&["shutdown", "--if-idle"]).code, 1);
    assert_eq!(home.ok(&["shutdown"]), "the host has stopped; 1 session ended");
}

#[test]
fn tables_are_whole_in_pipes_and_fit_on_terminals() {
    let home = Home::new();
    let dir = home.path().join("a-rather-long-name-of-a-directory/and-another-one/feat-17");
    std::fs::create_dir_all(&dir).unwrap();
    let cwd = dir.to_str().unwrap();
    let long = format!("cat; : {}", "x".repeat(120));
    home.ok(&["new", "--name", "deep", "--cwd", cwd, "--", "sh", "-c", &long]);
    let piped = home.ok(&["ls"]);
    assert!(piped.contains(&"x".repeat(120)) && piped.contains("~/a-rather-long"), "{piped}");
    assert!(!piped.contains('…'), "{piped}");
    let screen = |lang: &str| {
        let script = format!("LANG={lang} greenroom ls; echo; read x");
        let id = home.ok(&["new", "--size", "80x24", "--", "sh", "-c", &script]);
        home.wait_text(&id, "deep");
        let screen = home.screen(&id);
        home.ok(&["kill", &id]);
        home.ok(&["rm", &id]);
        screen
    };
    let shown = screen("C.UTF-8");
    let row = shown.lines().find(|line| line.contains("deep")).unwrap();
    assert!(row.contains("/feat-17") && row.contains("▶ running"), "{shown}");
    assert_eq!(shown.lines().count(), 3, "a row is one line: {shown}");
    let plain = screen("C");
    assert!(plain.is_ascii() && plain.contains("> running"), "{plain}");
}

#[test]
fn read_shows_what_scrolled_off() {
    let home = Home::new();
    let id = home.shell("seq 1 200; echo end; read x");
    home.wait_text(&id, "end");
    let text = home.ok(&["read", &id, "--scrollback"]);
    let wanted: Vec<String> =
        (1..=200).map(|n: u32| n.to_string()).chain(["end".to_owned()]).collect();
    assert_eq!(text.lines().collect::<Vec<_>>(), wanted);
    let screen = home.screen(&id).lines().count();
    assert_eq!(home.ok(&["read", &id, "--scrollback", "7"]).lines().count(), screen + 7);
    let value = home.json(&["read", &id, "--scrollback", "2", "--json"]);
    assert_eq!(value["scrollback"].as_array().unwrap().len(), 2, "{value}");
    assert_eq!(home.run(&["read", &id, "--scrollback", "--transcript"]).code, 2);
}

#[test]
fn task_backend_and_effort_are_kept() {
    let home = Home::new();
    let id = home.ok(&[
        "new",
        "--task",
        "fix it",
        "--backend",
        "claude",
        "--effort",
        "high",
        "--",
        "cat",
    ]);
    home.ok(&["upgrade"]);
    let info = home.json(&["info", &id, "--json"]);
    let said = ["task", "backend", "effort"].map(|name| info[name].as_str().unwrap().to_owned());
    assert_eq!(said, ["fix it", "claude", "high"].map(str::to_owned));
    assert!(home.ok(&["info", &id]).contains("effort"));
}

#[test]
fn empty_answers_and_files_that_are_not_there() {
    let home = Home::new();
    home.shell("read x");
    let said = home.run(&["ls", "--label", "team=core", "--state", "running"]);
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{said:?}");
    assert!(said.err.contains("no session fits --label team=core --state running"), "{said:?}");
    assert_eq!(home.run(&["run", "nosuch.json"]).code, 2);
    let doctor = home.ok(&["doctor"]);
    assert!(doctor.contains(home.socket().to_str().unwrap()), "{doctor}");
    assert!(doctor.contains("1 session running"), "{doctor}");
}

#[test]
fn a_sandbox_explains_itself_once_and_says_what_is_missing() {
    let home = Home::new();
    let repo = home.path().join("repo");
    test_kit::git::init(&repo);
    let cwd = repo.to_str().unwrap();
    if home.run(&["sandbox", "doctor"]).code != 0 {
        // Level full cannot be had here: there is nothing to explain, and that is refused.
        assert_ne!(home.run(&["new", "--sandbox", "--", "true"]).code, 0);
        return;
    }
    let text = home.ok(&["sandbox", "explain", "--cwd", cwd]);
    assert!(text.contains(".git/hooks") && !text.contains("read-only in there"), "{text}");
    let value = home.json(&["sandbox", "explain", "--cwd", cwd, "--json"]);
    let protected: Vec<&str> =
        value["protected"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
    assert!(protected.iter().any(|path| path.ends_with("/.git/hooks")), "{protected:?}");
    assert!(!protected.iter().any(|path| path.ends_with("/.git")), "commits are written there");
    // The same for a Mac: a file for sandbox-exec, and its parameters for a program.
    let profile = home.ok(&["sandbox", "explain", "--cwd", cwd, "--for", "macos"]);
    assert!(profile.starts_with(";; untried on a Mac"), "{profile}");
    assert!(profile.contains("\n(version 1)\n(deny default)\n"), "{profile}");
    let value = home.json(&["sandbox", "explain", "--cwd", cwd, "--for", "macos", "--json"]);
    assert_eq!(value["params"]["WRITE_0"], std::fs::canonicalize(&repo).unwrap().to_str().unwrap());
    assert!(value["note"].as_str().unwrap().contains("untried"), "{value}");
    let said = home.run(&["new", "--sandbox", "--cwd", cwd, "--", "no-such-agent"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains("hint: is no-such-agent installed"), "{said:?}");
    // In the session's directory, since the one it was built in may be hidden in there.
    let (built, seen) = (env!("CARGO_BIN_EXE_greenroom"), repo.join("greenroom"));
    if std::fs::hard_link(built, &seen).is_err() {
        std::fs::copy(built, &seen).unwrap();
    }
    let id = home.ok(&["new", "--sandbox", "--cwd", cwd, "--", "sh", "-c", "./greenroom ls; cat"]);
    home.wait_text(&id, "hint: a session in a sandbox cannot reach the host");
}

#[test]
fn of_many_who_want_one_name_at_once_one_gets_it() {
    let home = Home::new();
    home.shell("read x");
    let wanted = ["new", "--name", "same", "--", "cat"];
    let mut starts: Vec<_> = (0..8)
        .map(|_| {
            let mut command = home.command(&wanted);
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
            command.spawn().unwrap()
        })
        .collect();
    let codes: Vec<Option<i32>> =
        starts.iter_mut().map(|start| start.wait().unwrap().code()).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == Some(1)).count(), 7, "{codes:?}");
}

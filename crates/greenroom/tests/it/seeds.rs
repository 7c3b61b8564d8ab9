//! Every command line and every JSON of the documents that session plugins and connector files come
//! from, as they stand there, with `greenroom` for `niia`. `GREENROOM_TEST_SEEDS` may name a
//! directory with the documents: then it is checked that nothing of them is missing here.
#![expect(clippy::print_stderr, reason = "what was not run is said")]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::run::Team;
use crate::support::Home;

/// What a line promises, as a command for the session's shell, and what that prints.
struct Line {
    line: &'static str,
    try_it: &'static str,
    prints: &'static str,
}

const LINES: &[Line] = &[
    Line {
        line: "niia serve --worktree feat-auth",
        try_it: "git branch --show-current; git -C . rev-parse --git-dir",
        prints: "greenroom/feat-auth(.|\\n)*/repo/.git/worktrees/feat-auth",
    },
    Line {
        line: "niia serve --sandbox",
        try_it: "touch ../no || echo kept-out; touch yes /tmp/yes && rm yes && echo at-$GREENROOM_SANDBOX; wc -l < /proc/net/route",
        prints: "\\nkept-out(.|\\n)*\\nat-full\\n(0|1)\\n",
    },
    Line {
        line: "niia serve --worktree feat-x --sandbox",
        try_it: "touch /var/tmp/no || echo kept-out; touch yes && rm yes && echo on-$(git branch --show-current)-$GREENROOM_SANDBOX",
        prints: "\\nkept-out(.|\\n)*on-greenroom/feat-x-full",
    },
    Line {
        line: "niia serve --worktree feat-x --scratchpad",
        try_it: "touch scratchpad/found && rm scratchpad/found && echo on-$(git branch --show-current); git status --porcelain",
        prints: "on-greenroom/feat-x",
    },
    Line {
        line: "niia serve --env ANTHROPIC_API_KEY=sk-... --env HTTPS_PROXY=http://...",
        try_it: "echo ${#ANTHROPIC_API_KEY}-${#HTTPS_PROXY}",
        prints: "6-10",
    },
    Line { line: "niia serve --timeout 3600", try_it: "echo o''n", prints: "on" },
    Line { line: "niia run connector.json", try_it: "", prints: "" },
];

const CONNECTOR: &str = r#"{
  "session": {
    "worktree": "feat-x",
    "sandbox": true,
    "scratchpad": true,
    "env": { "API_KEY": "..." },
    "timeout_ms": 3600000
  }
}"#;

fn able() -> bool {
    let home = Home::new();
    let found = home.json(&["sandbox", "doctor", "--json"]);
    if found["full"] != true {
        eprintln!("NOT RUN with --sandbox: level full cannot be enforced here: {found}");
    }
    found["full"] == true
}

/// Each starts a session that is what it says, and ends with it.
#[test]
fn every_line_does_what_it_says() {
    let able = able();
    for Line { line, try_it, prints } in LINES {
        let args: Vec<&str> = line.strip_prefix("niia ").unwrap().split(' ').collect();
        if args[0] != "serve" || (line.contains("--sandbox") && !able) {
            continue;
        }
        let team = Team::new();
        let mut serve = team.command(&args);
        serve.env("SHELL", "/bin/sh").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut serve = serve.spawn().unwrap();
        let mut lines = BufReader::new(serve.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap_or_else(|| panic!("{line} says nothing")).unwrap();
        assert!(first.starts_with("listening on "), "{line}: {first}");
        assert!(lines.next().unwrap().unwrap().starts_with("s1 runs"), "{line}");
        team.home.ok(&["send", "--no-start", "s1", try_it, "--enter"]);
        team.home.wait_text("s1", prints);
        let info = team.home.json(&["info", "s1", "--json"]);
        assert_eq!(info["deadline_at"].is_string(), line.contains("--timeout"), "{line}: {info}");
        team.home.ok(&["send", "--no-start", "s1", "exit 0", "--enter"]);
        assert!(serve.wait().unwrap().success(), "{line}");
        assert_eq!(team.home.run(&["ls", "--no-start"]).code, 7, "{line}: the host ended with it");
        assert_spotless(&team, line);
    }
}

/// Without changes the worktree and its branch are gone.
fn assert_spotless(team: &Team, line: &str) {
    for args in [&["worktree", "list"][..], &["branch", "--list", "--all"]] {
        let left = test_kit::git::git(&team.repo(), args);
        assert_eq!(left.lines().count(), 1, "{line}: {left}");
    }
}

#[test]
fn the_file_builds_the_chain() {
    if !able() {
        return;
    }
    let team = Team::new();
    // Inside the repository, and seen by nobody.
    std::fs::write(team.repo().join(".git/info/exclude"), "connector.json\n").unwrap();
    std::fs::write(team.repo().join("connector.json"), CONNECTOR).unwrap();
    let said = team.run(&["run", "connector.json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let info = team.home.call("run.info", json!({ "run": "last" }));
    let worker = &info["phases"][0]["workers"][0];
    assert_eq!(worker["branch"], "greenroom/feat-x", "{info}");
    let session = team.home.json(&["info", worker["session"].as_str().unwrap(), "--json"]);
    let plugins: Vec<&Value> =
        session["plugins"].as_array().unwrap().iter().map(|plugin| &plugin["name"]).collect();
    assert_eq!(plugins, ["worktree", "scratchpad", "env", "sandbox", "timeout"]);
    assert!(session["deadline_at"].is_string(), "{session}");
    assert_spotless(&team, "run connector.json");
}

/// The documents, if they are at hand, have nothing that is not here.
#[test]
fn nothing_is_missing() {
    let Some(dir) = std::env::var_os("GREENROOM_TEST_SEEDS") else {
        eprintln!("NOT RUN: GREENROOM_TEST_SEEDS names no directory with the documents");
        return;
    };
    let known: BTreeSet<&str> = LINES.iter().map(|line| line.line).collect();
    let mut seen = BTreeSet::new();
    for name in ["000_", "001_"] {
        let files = std::fs::read_dir(Path::new(&dir)).unwrap().map(|entry| entry.unwrap());
        let mut of = files.filter(|entry| entry.file_name().to_string_lossy().starts_with(name));
        let text = std::fs::read_to_string(of.next().unwrap().path()).unwrap();
        // A command may be followed by prose.
        for rest in text.split("niia ").skip(1).map(|rest| rest.lines().next().unwrap()) {
            let line = format!("niia {rest}");
            let found =
                known.iter().filter(|known| line.starts_with(**known)).max_by_key(|it| it.len());
            seen.insert(*found.unwrap_or_else(|| panic!("{line} is not tried")));
        }
        for block in text.split("\n{\n").skip(1).map(|rest| rest.split("\n}").next().unwrap()) {
            assert_eq!(format!("{{\n{block}\n}}"), CONNECTOR, "another JSON");
        }
    }
    assert_eq!(seen, known);
}

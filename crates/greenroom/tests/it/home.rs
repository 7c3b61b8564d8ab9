//! Bringing work home with the binary, and having the binary at home: worktree verbs, `stats`, the
//! manual, install and uninstall.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use test_kit::place::files_below;

use crate::run::Team;
use crate::support::{BIN, Home, link_or_copy};

/// A team whose sessions have ended and left work.
fn with_work(works: &[(&str, &str, &str)]) -> Team {
    let team = Team::new();
    for (slug, file, text) in works {
        let script = format!(
            "echo {text} > {file}; git add {file}; git -c user.name=t -c user.email=t@t commit -qm '{slug}'"
        );
        let args =
            ["new", "--name", &format!("by-{slug}"), "--worktree", slug, "--", "sh", "-c", &script];
        assert_eq!(team.run(&args).code, 0);
        team.home.ok(&["wait", &format!("by-{slug}"), "--until", "exit"]);
    }
    team
}

#[test]
fn work_comes_home_by_slug_session_and_branch() {
    let team = with_work(&[("x", "x", "one"), ("y", "y", "two"), ("z", "x", "three")]);
    let path = team.run(&["worktree", "path", "x"]);
    assert!(Path::new(path.out.trim()).join("x").exists(), "{path:?}");
    assert_eq!(team.run(&["worktree", "path", "by-x"]).out, path.out, "by its session");
    assert_eq!(team.run(&["worktree", "path", "greenroom/x"]).out, path.out, "by its branch");
    let diff = team.run(&["worktree", "diff", "x"]);
    assert!(
        diff.out.starts_with("diff --git a/x b/x") && diff.out.contains("\n+one\n"),
        "{diff:?}"
    );
    let several = team.run(&["worktree", "diff", "x", "y", "--stat"]);
    assert!(several.out.contains("x (greenroom/x, 1 commit)\n x | 1 +"), "{several:?}");
    // The one that conflicts is named; the others are merged.
    let merged = team.run(&["worktree", "merge", "x", "z", "by-y"]);
    assert_eq!(merged.code, 1, "{merged:?}");
    assert!(merged.out.contains("x: main moved forward to"), "{merged:?}");
    assert!(merged.out.contains("y: merged into main as"), "{merged:?}");
    assert!(merged.err.contains("`greenroom/z` and `main` conflict in x"), "{merged:?}");
    assert_eq!(std::fs::read_to_string(team.repo().join("x")).unwrap(), "one\n");
    let again: Value =
        serde_json::from_str(&team.run(&["worktree", "merge", "x", "--json"]).out).unwrap();
    assert_eq!(again["action"], "nothing");
    let refused = team.run(&["worktree", "merge", "z", "--json"]);
    let error: Value = serde_json::from_str(&refused.err).unwrap();
    assert_eq!(error["error"]["kind"], "conflict", "{refused:?}");
    assert_eq!(error["error"]["data"]["files"], json!(["x"]), "{refused:?}");
    // What is merged goes; what is not stays until force, which keeps it.
    let removed = team.run(&["worktree", "rm", "x", "z", "nosuch"]);
    assert_eq!(removed.code, 1, "{removed:?}");
    assert!(removed.out.starts_with("removed x ("), "{removed:?}");
    assert!(
        removed.err.contains("cannot remove the worktree z: it holds work: 1 commit"),
        "{removed:?}"
    );
    assert!(removed.err.contains("no worktree is called `nosuch`"), "{removed:?}");
    let forced: Value =
        serde_json::from_str(&team.run(&["worktree", "rm", "--force", "z", "--json"]).out).unwrap();
    let kept = forced["kept_as"].as_str().unwrap();
    assert!(kept.starts_with("refs/greenroom/kept/z."), "{forced}");
    assert_eq!(forced["worktree"]["action"], "removed", "{forced}");
    assert_eq!(team.run(&["worktree", "path", "z"]).code, 6);
}

#[test]
fn a_worktree_in_use_is_looked_at_and_not_removed() {
    let team = Team::new();
    let id = team.run(&["new", "--worktree", "w", "--", "sh", "-c", "echo hi > new; echo up; cat"]);
    let id = id.out.trim();
    team.home.wait_text(id, "up");
    assert!(team.run(&["worktree", "diff", id]).out.contains("\n+hi\n"));
    for args in [&["worktree", "rm", "w"][..], &["worktree", "rm", "w", "--force"]] {
        let said = team.run(args);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains(&format!("session {id} works in it")), "{said:?}");
        assert!(
            said.err.contains(&format!("hint: end it first with greenroom kill {id}")),
            "{said:?}"
        );
    }
}

#[test]
fn stats_answers_one_value_for_a_script() {
    let home = Home::new();
    assert_eq!(home.run(&["stats"]).code, 7, "it starts nothing");
    home.ok(&["new", "--", "sleep", "100"]);
    assert_eq!(home.ok(&["stats", "daemon_pid"]), home.daemon_pid().to_string());
    assert_eq!(home.ok(&["stats", "sessions.running"]), "1");
    assert!(home.ok(&["stats"]).contains("keeper_pid"));
    let said = home.run(&["stats", "nosuch"]);
    assert_eq!(said.code, 2, "{said:?}");
}

/// The program, a page for every verb and three completions; and none of it is left.
#[test]
fn what_is_installed_can_be_uninstalled() {
    let dir = tempfile::tempdir().unwrap();
    let prefix = dir.path().join("prefix");
    std::fs::create_dir_all(dir.path().join("target/release")).unwrap();
    link_or_copy(Path::new(BIN), &dir.path().join("target/release/greenroom"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let make = |target: &str| {
        // It is built already.
        let said = Command::new("make")
            .args([target, "CARGO=true", "--no-print-directory"])
            .arg(format!("PREFIX={}", prefix.display()))
            .env("CARGO_TARGET_DIR", dir.path().join("target"))
            .current_dir(&root)
            .output()
            .unwrap();
        assert!(said.status.success(), "{target}: {}", String::from_utf8_lossy(&said.stderr));
    };
    make("install");
    let installed = files_below(&prefix);
    assert!(installed.contains(&prefix.join("bin/greenroom")));
    let man = prefix.join("share/man/man1");
    let pages = ["", "-new", "-run", "-run-stop", "-worktree-merge", "-plugin-list"];
    for page in pages.map(|verb| man.join(format!("greenroom{verb}.1"))) {
        let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{page:?}: {e}"));
        assert!(text.starts_with(".ie") || text.contains(".TH"), "{page:?}");
    }
    let merge = std::fs::read_to_string(man.join("greenroom-worktree-merge.1")).unwrap();
    assert!(merge.contains("squash") && merge.contains("Merge its branch"), "{merge}");
    let help = Command::new(BIN).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let verbs = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    for verb in verbs.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()) {
        let page = man.join(format!("greenroom-{verb}.1"));
        assert!(verb.is_empty() || verb == "help" || page.exists(), "{verb} has no page");
    }
    for completion in [
        "share/bash-completion/completions/greenroom",
        "share/zsh/site-functions/_greenroom",
        "share/fish/vendor_completions.d/greenroom.fish",
    ] {
        assert!(std::fs::metadata(prefix.join(completion)).unwrap().len() > 100, "{completion}");
    }
    make("uninstall");
    assert_eq!(files_below(&prefix), [] as [PathBuf; 0]);
}

/// Ubuntu's profile names the path that `make install` uses.
#[test]
fn the_profile_is_for_where_it_is_installed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    assert!(read("Makefile").contains("PREFIX ?= $(HOME)/.local\n"));
    assert!(read("docs/sandbox.md").contains("profile greenroom @{HOME}/.local/bin/greenroom "));
    assert!(read("Cargo.toml").contains("strip = \"symbols\""));
}

//! `kill -9` of whoever makes and ends worktrees, at any moment, with the git it had started still
//! running: the next one finishes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use greenroom_engine::SessionId;
use greenroom_protocol::api::fence::CleanAction;
use greenroom_workspace::worktree::{Ended, Outcome};

use super::stage::{Stage, git};

const INSIDE: &str = "GREENROOM_TEST_VICTIM";

/// The victim: makes and ends until it is killed.
fn victim(dir: &str) -> ! {
    let mut stage = Stage::empty();
    let home = Path::new(dir);
    stage.repo = home.join("repo");
    let around =
        greenroom_workspace::spec::Surroundings { state: home.join("state"), ..stage.around() };
    let worktrees = greenroom_workspace::worktree::Worktrees::new(Default::default(), &around);
    println!("\nready");
    for session in 1.. {
        let _ = stage.make_with(&worktrees, session, "x", None);
        let _ = stage.end_with(&worktrees, session, "x", Ended::Exited);
    }
    unreachable!()
}

#[test]
fn killed_anywhere() {
    if let Ok(dir) = std::env::var(INSIDE) {
        victim(&dir);
    }
    let stage = Stage::new();
    for number in 0..40 {
        fs::write(stage.repo.join(format!("f{number}")), vec![number; 20_000]).unwrap();
    }
    stage.git(&["add", "."]);
    stage.git(&["commit", "-qm", "many"]);
    fs::write(stage.repo.join(".worktreeinclude"), ".env\n").unwrap();
    fs::write(stage.repo.join(".env"), "KEY").unwrap();
    stage.git(&["add", ".worktreeinclude"]);
    stage.git(&["commit", "-qm", "include"]);
    let worktrees = stage.worktrees();
    let series = test_kit::series::series("kills of a host that makes worktrees", 20, 400);
    let mut interrupted = 0;
    for round in 0..series.cases as u32 {
        kill_one(&stage, round);
        interrupted += u32::from(!worktrees.list().unwrap().is_empty());
        let cleaned = worktrees.clean(false).unwrap();
        assert!(
            cleaned.iter().all(|one| one.action == CleanAction::Removed),
            "{round}: {cleaned:?}"
        );
        let record = worktrees.target(&stage.repo, "x").unwrap().record;
        assert_eq!(worktrees.end(&record, SessionId(1), Ended::Exited).unwrap(), Outcome::Nothing);
        assert_eq!(stage.branches(), "main", "{round}");
        assert_eq!(git(&stage.repo, &["worktree", "list"]).lines().count(), 1, "{round}");
        assert!(!stage.state().join("worktrees").join("x").exists());
        assert_eq!(git(&stage.repo, &["status", "--porcelain"]), "", "{round}");
    }
    assert!(interrupted > 0, "no kill came in between");
}

fn kill_one(stage: &Stage, round: u32) {
    let home = stage.dir.path().canonicalize().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "worktree::kills::killed_anywhere", "--nocapture"])
        .env(INSIDE, &home)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"));
    // Spread over a life of some 60 ms, in steps that do not divide it.
    let until = Instant::now() + Duration::from_micros(u64::from(round) * 7_919 % 90_000);
    while Instant::now() < until {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

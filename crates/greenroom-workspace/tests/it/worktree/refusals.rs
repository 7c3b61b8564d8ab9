//! What a worktree cannot be made of, and what the user is told. Odd repositories that do work are
//! here too.
//!
//! Some tests need a world of their own (no git in PATH, a read-only or tiny file system): they run
//! themselves again inside it.

use std::fs;
use std::path::Path;
use std::process::Command;

use greenroom_workspace::git::GitError;
use greenroom_workspace::spec::Refusal;
use greenroom_workspace::worktree::{Ended, Outcome, WorktreeError};

use super::stage::{Stage, assert_kept, assert_removed, fast_dir, git, try_git};

/// Set for the copy of a test that runs inside its world.
const INSIDE: &str = "GREENROOM_TEST_INSIDE";

fn inside() -> Option<String> {
    std::env::var(INSIDE).ok()
}

/// Runs the named test once more, through `wrapper`.
fn again(test: &str, dir: &Path, mut wrapper: Command) {
    let exe = std::env::current_exe().unwrap();
    let name = format!("worktree::refusals::{test}");
    let out =
        wrapper.arg(exe).args(["--exact", &name, "--nocapture"]).env(INSIDE, dir).output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && text.contains("1 passed"), "{text}");
}

/// In a mount namespace of its own, after `script`.
fn in_mounts(test: &str, dir: &Path, script: &str) {
    let mut wrapper = Command::new("unshare");
    let script = format!("set -e; {script}; exec \"$@\"");
    wrapper.args(["-Urm", "sh", "-c", &script, "sh"]).env("DIR", dir);
    again(test, dir, wrapper);
}

#[track_caller]
fn check(error: WorktreeError, what: &str, hint: &str) {
    let refusal = Refusal::from(error);
    assert!(refusal.what.contains(what), "{}", refusal.what);
    let said = refusal.hint.expect("a hint");
    assert!(said.contains(hint), "{said}");
}

#[test]
fn no_git() {
    if inside().is_none() {
        let mut wrapper = Command::new("/usr/bin/env");
        wrapper.arg("PATH=/nonexistent:relative");
        let dir = fast_dir();
        return again("no_git", dir.path(), wrapper);
    }
    let error = greenroom_workspace::git::find_git().unwrap_err();
    assert!(matches!(error, GitError::Missing));
    check(error.into(), "it is not in PATH", "install git");
}

#[test]
fn not_a_repository() {
    let stage = Stage::empty();
    let worktrees = stage.worktrees();
    for dir in [stage.dir.path().to_owned(), stage.repo.join(".git"), "/nonexistent".into()] {
        let error = worktrees.target(&dir, "x").unwrap_err();
        check(error, "is not in a git repository", "git init");
    }
}

#[test]
fn no_commit_yet() {
    let stage = Stage::empty();
    check(stage.make(1, "x").unwrap_err(), "no commit yet", "git commit --allow-empty");
    assert_eq!(stage.end(1, "x"), Outcome::Nothing);
}

#[test]
fn no_such_base() {
    let stage = Stage::new();
    for base in ["nowhere", "--force", "HEAD~9", "", "a b", "HEAD:a"] {
        let error = stage.make_with(&stage.worktrees(), 1, "x", Some(base)).unwrap_err();
        check(error, "has no such commit", "git branch --all");
    }
    stage.assert_spotless();
}

#[test]
fn another_base() {
    let stage = Stage::new();
    stage.git(&["tag", "old"]);
    stage.git(&["commit", "-q", "--allow-empty", "-m", "two"]);
    let made = stage.make_with(&stage.worktrees(), 1, "x", Some("old")).unwrap();
    assert_eq!(git(&made.path, &["rev-parse", "HEAD"]), stage.git(&["rev-parse", "old"]));
    assert_removed(&stage.end(1, "x"));
}

#[test]
fn bad_slugs() {
    let stage = Stage::new();
    for slug in ["", "..", "a/../b", "-f", "A", "a b", "a\nb", "x.lock"] {
        check(stage.make(1, slug).unwrap_err(), "cannot name a worktree", "feat-auth");
    }
    stage.assert_spotless();
}

#[test]
fn a_branch_or_directory_of_somebody_else() {
    let stage = Stage::new();
    stage.git(&["branch", "greenroom/x"]);
    check(stage.make(1, "x").unwrap_err(), "is not greenroom's", "--base greenroom/x");
    assert_eq!(stage.end(1, "x"), Outcome::Nothing);
    assert!(stage.branches().contains("greenroom/x"));
    let path = stage.worktrees().target(&stage.repo, "y").unwrap().path;
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("precious"), "x").unwrap();
    check(stage.make(1, "y").unwrap_err(), "is not a worktree greenroom made", "move");
    assert_eq!(stage.end(1, "y"), Outcome::Nothing);
    assert!(path.join("precious").exists());
}

#[test]
fn a_branch_in_the_way_of_the_prefix() {
    let stage = Stage::new();
    stage.git(&["branch", "greenroom"]);
    let error = stage.make(1, "x").unwrap_err();
    assert!(error.to_string().contains("refs/heads/greenroom"), "{error}");
    assert_eq!(
        stage.end_with(&stage.worktrees(), 1, "x", Ended::NeverStarted).unwrap(),
        Outcome::Nothing
    );
    assert_eq!(stage.worktrees().list().unwrap(), []);
}

#[test]
fn a_detached_head_is_a_base() {
    let stage = Stage::new();
    stage.git(&["checkout", "-q", "--detach"]);
    stage.git(&["commit", "-q", "--allow-empty", "-m", "adrift"]);
    let made = stage.make(1, "x").unwrap();
    assert_eq!(git(&made.path, &["rev-parse", "HEAD"]), stage.git(&["rev-parse", "HEAD"]));
    // The user's own checkout still holds the commit.
    assert_removed(&stage.end(1, "x"));
    // If it does not any more, the worktree does.
    stage.make(2, "x").unwrap();
    stage.git(&["checkout", "-q", "main"]);
    assert_kept(&stage.end(2, "x"), "1 commit is");
}

#[test]
fn a_bare_repository_works() {
    let mut stage = Stage::new();
    let bare = stage.repo.with_file_name("bare.git");
    git(&stage.repo, &["clone", "-q", "--bare", ".", bare.to_str().unwrap()]);
    stage.repo = bare;
    let made = stage.make(1, "x").unwrap();
    assert!(made.path.join("a").is_file());
    assert_removed(&stage.end(1, "x"));
    let made = stage.make(2, "x").unwrap();
    git(&made.path, &["commit", "-q", "--allow-empty", "-m", "x"]);
    assert_kept(&stage.end(2, "x"), "1 commit is");
}

#[test]
fn a_linked_worktree_of_the_user_works() {
    let mut stage = Stage::new();
    let linked = stage.repo.with_file_name("linked");
    stage.git(&["worktree", "add", "-q", "-b", "theirs", linked.to_str().unwrap()]);
    git(&linked, &["commit", "-q", "--allow-empty", "-m", "there"]);
    let main = std::mem::replace(&mut stage.repo, linked.clone());
    let made = stage.make(1, "x").unwrap();
    assert_eq!(git(&made.path, &["rev-parse", "HEAD"]), git(&linked, &["rev-parse", "HEAD"]));
    assert_eq!(made.common_dir, main.join(".git"));
    assert_removed(&stage.end(1, "x"));
    assert!(linked.join(".git").exists());
}

#[test]
fn submodules() {
    let stage = Stage::new();
    let module = Stage::new();
    let url = module.repo.to_str().unwrap();
    stage.git(&["submodule", "--quiet", "add", url, "mod"]);
    stage.git(&["commit", "-qm", "with a submodule"]);
    let made = stage.make(1, "x").unwrap();
    assert!(
        made.notes.iter().any(|note| note.contains("submodule update --init")),
        "{:?}",
        made.notes
    );
    // Untouched: git itself would refuse to remove it without force.
    assert_removed(&stage.end(1, "x"));
    assert!(stage.repo.join("mod/a").exists());
    let made = stage.make(2, "x").unwrap();
    git(&made.path, &["submodule", "--quiet", "update", "--init"]);
    let inner = made.path.join("mod");
    git(&inner, &["commit", "-q", "--allow-empty", "-m", "deep"]);
    assert_kept(&stage.end(2, "x"), "submodule");
    assert!(try_git(&inner, &["log", "-1", "--format=%s"]).unwrap().contains("deep"));
}

#[test]
fn a_shallow_clone_works_as_far_as_it_goes() {
    let mut stage = Stage::new();
    stage.git(&["commit", "-q", "--allow-empty", "-m", "two"]);
    let clone = stage.repo.with_file_name("shallow");
    let url = format!("file://{}", stage.repo.display());
    git(&stage.repo, &["clone", "-q", "--depth=1", &url, clone.to_str().unwrap()]);
    stage.repo = clone;
    let error = stage.make_with(&stage.worktrees(), 1, "x", Some("HEAD^")).unwrap_err();
    check(error, "has no such commit", "--unshallow");
    let made = stage.make(1, "x").unwrap();
    assert!(made.notes.iter().any(|note| note.contains("shallow")), "{:?}", made.notes);
    git(&made.path, &["commit", "-q", "--allow-empty", "-m", "x"]);
    assert_kept(&stage.end(1, "x"), "1 commit is");
    stage.make(2, "y").unwrap();
    assert_removed(&stage.end(2, "y"));
}

#[test]
fn a_read_only_repository() {
    let Some(dir) = inside() else {
        let stage = Stage::new();
        let script =
            "mount --bind \"$DIR/repo\" \"$DIR/repo\"; mount -o remount,ro,bind \"$DIR/repo\"";
        in_mounts("a_read_only_repository", &stage.dir.path().canonicalize().unwrap(), script);
        return stage.assert_spotless();
    };
    let stage = of(&dir);
    check(stage.make(1, "x").unwrap_err(), "read-only", "writable");
    let outcome = stage.end_with(&stage.worktrees(), 1, "x", Ended::NeverStarted).unwrap();
    assert_eq!(outcome, Outcome::Nothing);
}

#[test]
fn a_full_disk() {
    let Some(dir) = inside() else {
        let stage = Stage::new();
        fs::write(stage.repo.join("large"), vec![7; 3 << 20]).unwrap();
        stage.git(&["add", "."]);
        stage.git(&["commit", "-qm", "large"]);
        let script = "mkdir -p \"$DIR/state\"; mount -t tmpfs -o size=1m none \"$DIR/state\"";
        in_mounts("a_full_disk", &stage.dir.path().canonicalize().unwrap(), script);
        return stage.assert_spotless();
    };
    let stage = of(&dir);
    check(stage.make(1, "x").unwrap_err(), "no space left", "free some space");
    let outcome = stage.end_with(&stage.worktrees(), 1, "x", Ended::NeverStarted).unwrap();
    assert!(matches!(outcome, Outcome::Removed { .. } | Outcome::Nothing), "{outcome:?}");
    stage.assert_spotless();
}

#[test]
fn a_disk_too_full_for_the_record() {
    let Some(dir) = inside() else {
        let stage = Stage::new();
        let script = "mkdir -p \"$DIR/state\"; mount -t tmpfs -o size=16k none \"$DIR/state\"; \
                      head -c 16384 /dev/zero > \"$DIR/state/fill\" || true";
        in_mounts(
            "a_disk_too_full_for_the_record",
            &stage.dir.path().canonicalize().unwrap(),
            script,
        );
        return stage.assert_spotless();
    };
    let stage = of(&dir);
    check(stage.make(1, "x").unwrap_err(), "No space left", "free some space");
    assert_eq!(stage.branches(), "main");
}

/// The stage an outer test has made.
fn of(dir: &str) -> Stage {
    let repo = Path::new(dir).join("repo");
    let inner = tempfile::Builder::new().prefix("inside").tempdir_in("/dev/shm").unwrap();
    // Only its place is used: what the outer test made must not be removed here.
    let state = Path::new(dir).join("state");
    std::os::unix::fs::symlink(&state, inner.path().join("state")).unwrap();
    fs::create_dir_all(state).unwrap();
    Stage { dir: inner, repo, alive: Default::default() }
}

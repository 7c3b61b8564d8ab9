//! A session that wants the host to run something when it cleans up: nothing runs.
//!
//! Each trap is first shown to work on a git that is run carelessly, or the test would prove
//! nothing.

use std::fs;
use std::path::Path;

use greenroom_workspace::worktree::Outcome;

use super::stage::{Stage, assert_kept, git, git_command};

struct Trap {
    stage: Stage,
    tree: std::path::PathBuf,
    admin: std::path::PathBuf,
    /// Exists once somebody fell into it.
    marker: std::path::PathBuf,
}

impl Trap {
    fn new() -> Trap {
        let stage = Stage::new();
        let made = stage.make(1, "x").unwrap();
        let marker = stage.dir.path().canonicalize().unwrap().join("marker");
        Trap { stage, tree: made.path, admin: made.admin_dir, marker }
    }

    fn common(&self) -> std::path::PathBuf {
        self.stage.repo.join(".git")
    }

    /// A program that leaves the marker.
    fn payload(&self) -> String {
        let file = self.stage.dir.path().canonicalize().unwrap().join("payload");
        fs::write(&file, format!("#!/bin/sh\ntouch {}\ncat\n", self.marker.display())).unwrap();
        executable(&file);
        file.to_str().unwrap().to_owned()
    }

    fn set(&self, key: &str, value: &str) {
        self.stage.git(&["config", key, value]);
    }

    /// A careless git falls into it.
    #[track_caller]
    fn works(&self, args: &[&str]) {
        let _ = fs::remove_file(&self.marker);
        let _ = git_command(&self.tree).args(args).output().unwrap();
        assert!(self.marker.exists(), "the trap does not work: git {args:?}");
        fs::remove_file(&self.marker).unwrap();
    }

    /// The end of the session does not, nor does whatever comes after.
    #[track_caller]
    fn is_survived(&self) -> Outcome {
        let outcome = self.stage.end(1, "x");
        assert!(!self.marker.exists(), "the end of the session ran it");
        self.stage.worktrees().clean(true).unwrap();
        self.stage.worktrees().clean(false).unwrap();
        assert!(!self.marker.exists(), "clean ran it");
        if self.stage.make(2, "y").is_ok() {
            self.stage.end(2, "y");
        }
        let _ = self.stage.make(3, "x");
        assert!(!self.marker.exists(), "the next session's start ran it");
        outcome
    }
}

fn executable(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn rewritten_dot_git() {
    let trap = Trap::new();
    let payload = trap.payload();
    let evil = trap.tree.join("evil");
    git(&trap.tree, &["clone", "-q", "--bare", trap.stage.repo.to_str().unwrap(), "evil"]);
    git(&evil, &["config", "core.bare", "false"]);
    git(&evil, &["config", "core.fsmonitor", &payload]);
    fs::write(trap.tree.join(".git"), "gitdir: ./evil\n").unwrap();
    trap.works(&["status"]);
    assert_kept(&trap.is_survived(), ".git was changed");
    assert!(trap.stage.make(4, "x").unwrap_err().to_string().contains(".git was changed"));
}

#[test]
fn dot_git_as_a_directory_and_as_a_link() {
    let trap = Trap::new();
    fs::remove_file(trap.tree.join(".git")).unwrap();
    git(&trap.tree, &["init", "-q"]);
    git(&trap.tree, &["config", "core.fsmonitor", &trap.payload()]);
    trap.works(&["status"]);
    assert_kept(&trap.is_survived(), ".git was changed");
    let trap = Trap::new();
    let copy = trap.stage.dir.path().join("copy");
    fs::rename(trap.tree.join(".git"), &copy).unwrap();
    std::os::unix::fs::symlink(&copy, trap.tree.join(".git")).unwrap();
    assert_kept(&trap.is_survived(), ".git was changed");
}

#[test]
fn rewritten_commondir() {
    let trap = Trap::new();
    let payload = trap.payload();
    let evil = trap.tree.join("evil");
    git(&trap.tree, &["clone", "-q", "--bare", trap.stage.repo.to_str().unwrap(), "evil"]);
    git(&evil, &["config", "core.bare", "false"]);
    git(&evil, &["config", "core.fsmonitor", &payload]);
    fs::write(trap.admin.join("commondir"), format!("{}\n", evil.display())).unwrap();
    trap.works(&["status"]);
    assert_kept(&trap.is_survived(), "commondir was changed");
}

#[test]
fn rewritten_config_worktree() {
    let trap = Trap::new();
    trap.set("extensions.worktreeConfig", "true");
    let text = format!("[core]\n\tfsmonitor = {}\n", trap.payload());
    fs::write(trap.admin.join("config.worktree"), text).unwrap();
    trap.works(&["status"]);
    assert_kept(&trap.is_survived(), "config.worktree was changed");
}

#[test]
fn rewritten_gitdir() {
    let trap = Trap::new();
    fs::write(trap.admin.join("gitdir"), "/etc/.git\n").unwrap();
    assert_kept(&trap.is_survived(), "gitdir was changed");
}

#[test]
fn an_empty_config_worktree_is_no_change() {
    let trap = Trap::new();
    fs::write(trap.admin.join("config.worktree"), "").unwrap();
    assert!(matches!(trap.is_survived(), Outcome::Removed { .. }));
}

#[test]
fn the_tree_replaced_by_a_link() {
    let trap = Trap::new();
    let away = trap.stage.dir.path().join("away");
    fs::rename(&trap.tree, &away).unwrap();
    std::os::unix::fs::symlink(&away, &trap.tree).unwrap();
    let outcome = trap.is_survived();
    assert_kept(&outcome, "is not a directory any more");
    assert!(away.join("a").exists());
}

#[test]
fn fsmonitor_in_the_repository() {
    let trap = Trap::new();
    trap.set("core.fsmonitor", &trap.payload());
    trap.works(&["status"]);
    trap.is_survived();
}

#[test]
fn hooks() {
    let trap = Trap::new();
    let payload = trap.payload();
    let hooks = trap.common().join("hooks");
    fs::create_dir_all(&hooks).unwrap();
    for name in ["reference-transaction", "post-checkout", "post-index-change", "pre-auto-gc"] {
        fs::copy(&payload, hooks.join(name)).unwrap();
    }
    trap.works(&["update-ref", "refs/heads/zzz", "HEAD"]);
    trap.stage.git(&["branch", "-qD", "zzz"]);
    fs::remove_file(&trap.marker).unwrap();
    trap.set("core.hooksPath", hooks.to_str().unwrap());
    trap.is_survived();
}

/// Clean, smudge and process filters, under names that are hard to quote.
#[test]
fn filters() {
    for (name, part) in
        [("evil", "clean"), ("e=vi l.x", "clean"), ("evil", "process"), ("\"q\"", "smudge")]
    {
        let trap = Trap::new();
        let payload = trap.payload();
        trap.set(&format!("filter.{name}.{part}"), &payload);
        trap.set(&format!("filter.{name}.required"), "true");
        let info = trap.common().join("info");
        fs::create_dir_all(&info).unwrap();
        if name == "evil" {
            fs::write(info.join("attributes"), "* filter=evil\n").unwrap();
            let text = fs::read(trap.tree.join("a")).unwrap();
            fs::write(trap.tree.join("a"), text).unwrap();
            trap.works(&["status"]);
        }
        let outcome = trap.is_survived();
        assert!(matches!(outcome, Outcome::Removed { .. }), "{outcome:?}");
    }
}

#[test]
fn external_diff_and_textconv() {
    let trap = Trap::new();
    let payload = trap.payload();
    fs::create_dir_all(trap.common().join("info")).unwrap();
    fs::write(trap.common().join("info/attributes"), "* diff=evil\n").unwrap();
    trap.set("diff.evil.textconv", &payload);
    trap.set("diff.evil.command", &payload);
    trap.set("diff.external", &payload);
    fs::write(trap.tree.join("a"), "other\n").unwrap();
    trap.works(&["diff"]);
    assert_kept(&trap.is_survived(), "modified: a");
}

#[test]
fn aliases_pagers_and_included_settings() {
    let trap = Trap::new();
    let payload = trap.payload();
    let more = trap.stage.dir.path().canonicalize().unwrap().join("more");
    fs::write(&more, format!("[core]\n\tfsmonitor = {payload}\n\tpager = {payload}\n")).unwrap();
    trap.set("include.path", more.to_str().unwrap());
    trap.works(&["status"]);
    for verb in ["status", "worktree", "ls-files", "for-each-ref", "rev-list", "evil"] {
        trap.set(&format!("alias.{verb}"), &format!("!{payload}"));
    }
    trap.works(&["evil"]);
    trap.is_survived();
}

#[test]
fn a_submodule_with_settings_of_its_own() {
    let module = Stage::new();
    let stage = Stage::new();
    stage.git(&["submodule", "--quiet", "add", module.repo.to_str().unwrap(), "mod"]);
    stage.git(&["commit", "-qm", "with a submodule"]);
    let made = stage.make(1, "x").unwrap();
    let marker = stage.dir.path().canonicalize().unwrap().join("marker");
    let trap = Trap { stage, tree: made.path, admin: made.admin_dir, marker };
    let inner = trap.tree.join("mod");
    git(&inner, &["init", "-q"]);
    git(&inner, &["config", "core.fsmonitor", &trap.payload()]);
    trap.works(&["status"]);
    assert_kept(&trap.is_survived(), "submodule in use");
}

/// A missing object would be fetched from a "promisor" by a command of the trapper's choice.
#[test]
fn a_missing_object_is_not_fetched() {
    let trap = Trap::new();
    let payload = trap.payload();
    // A payload that does not wait for what git has to say.
    fs::write(&payload, format!("#!/bin/sh\ntouch {}\n", trap.marker.display())).unwrap();
    fs::write(trap.tree.join("new"), "to be lost").unwrap();
    git(&trap.tree, &["add", "new"]);
    git(&trap.tree, &["commit", "-qm", "new"]);
    trap.set("remote.evil.url", trap.stage.repo.to_str().unwrap());
    trap.set("remote.evil.promisor", "true");
    trap.set("remote.evil.uploadpack", &payload);
    trap.set("core.repositoryFormatVersion", "1");
    trap.set("extensions.partialClone", "evil");
    let commit = git(&trap.tree, &["rev-parse", "HEAD"]);
    let file = trap.common().join("objects").join(&commit[..2]).join(&commit[2..]);
    fs::remove_file(&file).unwrap();
    trap.works(&["cat-file", "-p", &commit]);
    assert_kept(&trap.is_survived(), "cannot");
}

/// A named pipe where git looks for patterns or settings would hold us until the deadline.
#[test]
fn pipes_do_not_hold_us() {
    let trap = Trap::new();
    let pipe = trap.stage.dir.path().canonicalize().unwrap().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    trap.set("core.excludesFile", pipe.to_str().unwrap());
    trap.set("core.attributesFile", pipe.to_str().unwrap());
    assert!(matches!(trap.is_survived(), Outcome::Removed { .. }));
}

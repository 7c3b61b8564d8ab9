//! Making, resuming, ending: what is removed and what is kept.

use std::fs;
use std::os::unix::fs::symlink;

use greenroom_engine::SessionId;
use greenroom_protocol::api::fence::CleanAction;
use greenroom_workspace::worktree::{Ended, Outcome, WorktreeConfig, WorktreeError};

use super::stage::{Stage, assert_kept, assert_removed, git};

#[test]
fn unused_it_leaves_nothing() {
    let stage = Stage::new();
    let made = stage.make(1, "feat/auth").unwrap();
    assert_eq!(made.branch, "greenroom/feat/auth");
    assert_eq!(fs::read_to_string(made.path.join("sub/b")).unwrap(), "second\n");
    assert!(made.path.starts_with(stage.state().join("worktrees")));
    assert_eq!(git(&made.path, &["status", "--porcelain"]), "");
    assert_eq!(git(&made.path, &["symbolic-ref", "HEAD"]), "refs/heads/greenroom/feat/auth");
    assert_removed(&stage.end(1, "feat/auth"));
    stage.assert_spotless();
    // At least once: the second time there is nothing to do.
    assert_eq!(stage.end(1, "feat/auth"), Outcome::Nothing);
}

#[test]
fn starts_as_deep_as_the_user_was() {
    let stage = Stage::new();
    let worktrees = stage.worktrees();
    stage.alive.born(1);
    let target = worktrees.target(&stage.repo.join("sub"), "x").unwrap();
    let env = Default::default();
    let request = greenroom_workspace::worktree::Request {
        session: SessionId(1),
        base: None,
        env: &env,
        confined: false,
    };
    let made = worktrees.make(&target, &request).unwrap();
    assert_eq!(made.cwd, made.path.join("sub"));
}

/// What a session did, and a word of the reason to keep it.
type Case = (&'static str, fn(&std::path::Path), &'static str);

const WORK: &[Case] = &[
    ("modified", |at| fs::write(at.join("a"), "other").unwrap(), "modified: a"),
    ("deleted", |at| fs::remove_file(at.join("a")).unwrap(), "modified: a"),
    ("untracked", |at| fs::write(at.join("new"), "x").unwrap(), "untracked: new"),
    ("untracked empty", |at| fs::write(at.join("new"), "").unwrap(), "untracked: new"),
    ("ignored", |at| fs::write(at.join("x.log"), "x").unwrap(), "ignored but not rebuilt"),
    ("link", |at| symlink("/etc", at.join("l")).unwrap(), "untracked: l"),
    (
        "not ignored modules",
        |at| {
            fs::create_dir_all(at.join("sub/.venv")).unwrap();
            fs::write(at.join("sub/.venv/x"), "x").unwrap();
        },
        "untracked: sub/.venv",
    ),
    (
        "below a .git that is none",
        |at| {
            fs::create_dir(at.join("sub/.git")).unwrap();
            fs::write(at.join("sub/.git/notes"), "x").unwrap();
        },
        "a repository inside: sub/.git",
    ),
    (
        "repository in build products",
        |at| {
            fs::create_dir_all(at.join("target/x")).unwrap();
            git(&at.join("target/x"), &["init", "-q"]);
        },
        "a repository inside: target",
    ),
    (
        "staged",
        |at| {
            fs::write(at.join("new"), "x").unwrap();
            git(at, &["add", "new"]);
            fs::remove_file(at.join("new")).unwrap();
        },
        "modified: new",
    ),
    (
        "assume unchanged",
        |at| {
            git(at, &["update-index", "--assume-unchanged", "a"]);
            fs::write(at.join("a"), "hidden").unwrap();
        },
        "hidden from git",
    ),
    (
        "skip worktree",
        |at| {
            git(at, &["update-index", "--skip-worktree", "a"]);
            fs::write(at.join("a"), "hidden").unwrap();
        },
        "hidden from git",
    ),
    (
        "committed",
        |at| {
            git(at, &["commit", "-q", "--allow-empty", "-m", "x"]);
        },
        "1 commit is on no other branch",
    ),
    (
        "committed and reset",
        |at| {
            git(at, &["commit", "-q", "--allow-empty", "-m", "x"]);
            git(at, &["reset", "-q", "--hard", "HEAD^"]);
        },
        "1 commit is on no other branch",
    ),
    (
        "detached",
        |at| {
            git(at, &["checkout", "-q", "--detach"]);
            git(at, &["commit", "-q", "--allow-empty", "-m", "x"]);
        },
        "1 commit is on no other branch",
    ),
    (
        "detached and back",
        |at| {
            git(at, &["checkout", "-q", "--detach"]);
            git(at, &["commit", "-q", "--allow-empty", "-m", "x"]);
            git(at, &["checkout", "-q", "greenroom/x"]);
        },
        "1 commit is on no other branch",
    ),
    (
        "a ref of this worktree",
        |at| {
            let tree = git(at, &["write-tree"]);
            let commit = git(at, &["commit-tree", "-m", "x", &tree]);
            git(at, &["update-ref", "refs/worktree/mine", &commit]);
        },
        "1 commit is on no other branch",
    ),
    (
        "a tree in a ref of this worktree",
        |at| {
            let tree = git(at, &["write-tree"]);
            git(at, &["update-ref", "refs/worktree/mine", &tree]);
        },
        "not a commit",
    ),
    (
        "stashed",
        |at| {
            fs::write(at.join("a"), "stashed").unwrap();
            git(at, &["stash", "-q"]);
        },
        "1 stashed from it",
    ),
    (
        "stashed detached with a message",
        |at| {
            git(at, &["checkout", "-q", "--detach"]);
            fs::write(at.join("a"), "stashed").unwrap();
            git(at, &["stash", "push", "-q", "-m", "mine"]);
            git(at, &["checkout", "-q", "greenroom/x"]);
        },
        "1 stashed from it",
    ),
    (
        "orphan",
        |at| {
            git(at, &["checkout", "-q", "--orphan", "alone"]);
        },
        "modified",
    ),
    (
        "locked",
        |at| {
            git(at, &["worktree", "lock", "."]);
        },
        "locked",
    ),
    (
        "merging",
        |at| {
            git(at, &["checkout", "-q", "-b", "side"]);
            fs::write(at.join("a"), "side").unwrap();
            git(at, &["commit", "-qam", "side"]);
            git(at, &["checkout", "-q", "greenroom/x"]);
            git(at, &["merge", "-q", "--no-commit", "--no-ff", "side"]);
        },
        "a merge is in progress",
    ),
    (
        "bisecting",
        |at| {
            git(at, &["bisect", "start"]);
        },
        "a bisect is in progress",
    ),
    (
        "symbolic branch",
        |at| {
            git(at, &["checkout", "-q", "--detach"]);
            git(at, &["symbolic-ref", "refs/heads/greenroom/x", "refs/heads/main"]);
        },
        "another name for a branch",
    ),
    (
        "interrupted",
        |at| {
            let admin = git(at, &["rev-parse", "--absolute-git-dir"]);
            fs::write(format!("{admin}/index.lock"), "").unwrap();
        },
        "index.lock",
    ),
];

#[test]
fn work_is_kept_and_named() {
    for (name, work, word) in WORK {
        let stage = Stage::new();
        let made = stage.make(1, "x").unwrap();
        work(&made.path);
        let before = super::stage::files_below(&made.path);
        let outcome = stage.end(1, "x");
        assert_kept(&outcome, word);
        assert_eq!(super::stage::files_below(&made.path), before, "{name}");
        let listed = stage.worktrees().list().unwrap();
        assert!(!listed[0].live && listed[0].why.iter().any(|why| why.contains(word)), "{name}");
        // Nor does asking again change its mind.
        let cleaned = stage.worktrees().clean(false).unwrap();
        assert_eq!(cleaned[0].action, CleanAction::Kept, "{name}");
    }
}

/// A name, and what a session did.
type Deed = (&'static str, fn(&std::path::Path));

/// Things a session may do that need not keep its worktree.
const PLAY: &[Deed] = &[
    ("build products", |at| {
        fs::create_dir_all(at.join("target/debug")).unwrap();
        fs::write(at.join("target/debug/x"), "x").unwrap();
        fs::create_dir_all(at.join("sub/node_modules/y")).unwrap();
        fs::write(at.join("sub/node_modules/y/z"), "x").unwrap();
    }),
    ("empty directories", |at| fs::create_dir_all(at.join("e/m/p/t/y")).unwrap()),
    ("touched", |at| {
        let text = fs::read(at.join("a")).unwrap();
        fs::write(at.join("a"), text).unwrap();
    }),
    ("pushed elsewhere", |at| {
        git(at, &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(at, &["update-ref", "refs/remotes/origin/x", "HEAD"]);
    }),
    ("merged", |at| {
        fs::write(at.join("a"), "merged").unwrap();
        git(at, &["commit", "-qam", "x"]);
        git(at, &["branch", "-f", "other"]);
    }),
    ("its own environment", |at| {
        fs::create_dir(at.join(".venv")).unwrap();
        fs::write(at.join(".venv/.gitignore"), "# made by venv\n*\n").unwrap();
        fs::write(at.join(".venv/x"), "x").unwrap();
    }),
];

#[test]
fn what_can_be_had_again_does_not_keep_it() {
    for (name, play) in PLAY {
        let stage = Stage::new();
        let made = stage.make(1, "x").unwrap();
        play(&made.path);
        let outcome = stage.end(1, "x");
        assert!(matches!(outcome, Outcome::Removed { .. }), "{name}: {outcome:?}");
        assert!(!stage.branches().contains("greenroom"), "{name}");
    }
}

/// Git in a sandbox cannot delete the name of what it picked, though it is done.
#[test]
fn a_pick_that_is_over_does_not_keep_it() {
    let stage = Stage::new();
    let made = stage.make(1, "x").unwrap();
    let admin = stage.repo.join(".git/worktrees/x");
    let head = git(&made.path, &["rev-parse", "HEAD"]);
    fs::write(admin.join("CHERRY_PICK_HEAD"), &head).unwrap();
    fs::write(admin.join("REVERT_HEAD"), &head).unwrap();
    let tree = git(&made.path, &["rev-parse", "HEAD^{tree}"]);
    fs::write(admin.join("AUTO_MERGE"), &tree).unwrap();
    fs::write(made.path.join("a"), "resolving").unwrap();
    let outcome = stage.end(1, "x");
    assert_kept(&outcome, "a cherry-pick is in progress");
    assert_kept(&outcome, "a revert is in progress");
    git(&made.path, &["checkout", "a"]);
    stage.make(2, "x").unwrap();
    assert_removed(&stage.end(2, "x"));
    stage.assert_spotless();
}

#[test]
fn a_branch_in_use_elsewhere_stays() {
    let stage = Stage::new();
    let made = stage.make(1, "x").unwrap();
    git(&made.path, &["commit", "-q", "--allow-empty", "-m", "x"]);
    git(&made.path, &["checkout", "-q", "--detach"]);
    stage.git(&["checkout", "-q", "greenroom/x"]);
    let outcome = stage.end(1, "x");
    assert!(matches!(outcome, Outcome::Removed { branch_kept: true, .. }), "{outcome:?}");
    assert!(stage.branches().contains("greenroom/x"));
}

#[test]
fn a_base_that_only_the_branch_holds_is_kept() {
    let stage = Stage::new();
    stage.git(&["commit", "-q", "--allow-empty", "-m", "two"]);
    stage.make(1, "x").unwrap();
    stage.git(&["reset", "-q", "--hard", "HEAD^"]);
    assert_kept(&stage.end(1, "x"), "1 commit is on no other branch");
}

#[test]
fn a_stash_from_elsewhere_does_not_keep_it() {
    let stage = Stage::new();
    stage.make(1, "x").unwrap();
    fs::write(stage.repo.join("a"), "mine").unwrap();
    stage.git(&["stash", "-q"]);
    assert_removed(&stage.end(1, "x"));
}

#[test]
fn kept_work_is_resumed() {
    let stage = Stage::new();
    let first = stage.make(1, "x").unwrap();
    fs::write(first.path.join("new"), "work").unwrap();
    git(&first.path, &["add", "new"]);
    git(&first.path, &["commit", "-qm", "work"]);
    assert_kept(&stage.end(1, "x"), "commit");
    let second = stage.make_with(&stage.worktrees(), 2, "x", Some("main")).unwrap();
    assert!(second.resumed);
    assert_eq!(second.path, first.path);
    assert_eq!(fs::read_to_string(second.path.join("new")).unwrap(), "work");
    assert!(second.notes.iter().any(|note| note.contains("resumed")), "{:?}", second.notes);
    assert!(second.notes.iter().any(|note| note.contains("--base")), "{:?}", second.notes);
    // Merged: now it can go.
    stage.git(&["merge", "-q", "greenroom/x"]);
    assert_removed(&stage.end(2, "x"));
    stage.assert_spotless();
}

#[test]
fn live_elsewhere_is_refused() {
    let stage = Stage::new();
    stage.make(1, "x").unwrap();
    let error = stage.make(2, "x").unwrap_err();
    assert!(matches!(error, WorktreeError::Live { .. }), "{error}");
    assert!(error.hint().unwrap().contains("greenroom attach s1"));
    // The refused session's end does not touch it.
    assert_eq!(stage.end(2, "x"), Outcome::Nothing);
    assert!(stage.worktrees().list().unwrap()[0].live);
    assert_eq!(stage.worktrees().clean(false).unwrap()[0].action, CleanAction::InUse);
    assert_removed(&stage.end(1, "x"));
}

#[test]
fn a_timeout_keeps_it_and_clean_removes_it() {
    let stage = Stage::new();
    let worktrees = stage.worktrees();
    stage.make(1, "x").unwrap();
    assert_kept(&stage.end_with(&worktrees, 1, "x", Ended::TimedOut).unwrap(), "out of time");
    let would = worktrees.clean(true).unwrap();
    assert_eq!(would[0].action, CleanAction::WouldRemove);
    assert!(would[0].size_bytes > 0 && std::path::Path::new(&would[0].path).is_dir());
    assert_eq!(worktrees.clean(false).unwrap()[0].action, CleanAction::Removed);
    stage.assert_spotless();
}

#[test]
fn a_directory_removed_by_hand_keeps_the_branch() {
    let stage = Stage::new();
    let made = stage.make(1, "x").unwrap();
    git(&made.path, &["commit", "-q", "--allow-empty", "-m", "x"]);
    fs::remove_dir_all(&made.path).unwrap();
    let outcome = stage.end(1, "x");
    assert!(matches!(outcome, Outcome::Kept { .. }), "{outcome:?}");
    // Its data is still there, and may hold more than the branch does.
    let error = stage.make(2, "x").unwrap_err();
    assert!(error.to_string().contains("worktree prune"), "{error}");
    stage.git(&["worktree", "prune"]);
    let again = stage.make(3, "x").unwrap();
    assert!(again.resumed && again.path.join("a").is_file());
    assert_kept(&stage.end(3, "x"), "1 commit is");
}

#[test]
fn removed_by_hand_altogether() {
    let stage = Stage::new();
    let made = stage.make(1, "x").unwrap();
    stage.git(&["worktree", "remove", made.path.to_str().unwrap()]);
    assert_removed(&stage.end(1, "x"));
    stage.assert_spotless();
    let made = stage.make(2, "x").unwrap();
    stage.git(&["worktree", "remove", made.path.to_str().unwrap()]);
    stage.git(&["branch", "-qD", "greenroom/x"]);
    assert!(matches!(stage.end(2, "x"), Outcome::Removed { .. }));
    stage.assert_spotless();
}

#[test]
fn a_repository_that_is_gone() {
    let stage = Stage::new();
    let worktrees = stage.worktrees();
    let record = worktrees.target(&stage.repo, "x").unwrap().record;
    let made = stage.make(1, "x").unwrap();
    fs::remove_dir_all(&stage.repo).unwrap();
    let outcome = worktrees.end(&record, SessionId(1), Ended::Exited).unwrap();
    assert_kept(&outcome, "is gone");
    fs::remove_dir_all(&made.path).unwrap();
    stage.alive.died(1);
    assert_eq!(worktrees.clean(false).unwrap()[0].action, CleanAction::Removed);
    assert_eq!(worktrees.list().unwrap(), []);
}

#[test]
fn a_sparse_checkout_is_clean() {
    let stage = Stage::new();
    let made = stage.make(1, "x").unwrap();
    git(&made.path, &["sparse-checkout", "set", "--no-cone", "/a"]);
    assert!(!made.path.join("sub/b").exists());
    let outcome = stage.end(1, "x");
    // `sparse-checkout` writes settings for this worktree alone: that is one of the pointers.
    assert_kept(&outcome, "config.worktree was changed");
}

#[test]
fn another_prefix() {
    let stage = Stage::new();
    let config =
        WorktreeConfig { prefix: "team/".into(), ports: false, ..WorktreeConfig::default() };
    let worktrees = stage.worktrees_with(config);
    let made = stage.make_with(&worktrees, 1, "x", None).unwrap();
    assert_eq!(made.branch, "team/x");
    assert_removed(&stage.end_with(&worktrees, 1, "x", Ended::Exited).unwrap());
    stage.assert_spotless();
}

#[test]
fn two_repositories_may_use_one_slug() {
    let (one, mut two) = (Stage::new(), Stage::new());
    two.alive = one.alive.clone();
    let around = one.around();
    let worktrees =
        greenroom_workspace::worktree::Worktrees::new(WorktreeConfig::default(), &around);
    let a = one.make_with(&worktrees, 1, "x", None).unwrap();
    let b = two.make_with(&worktrees, 2, "x", None).unwrap();
    assert_ne!(a.path, b.path);
    assert_ne!(a.port.unwrap(), b.port.unwrap());
    assert_eq!(worktrees.list().unwrap().len(), 2);
}

#[test]
fn reftables_are_understood() {
    let stage = Stage::new();
    if super::stage::try_git(&stage.repo, &["refs", "migrate", "--ref-format=reftable"]).is_err() {
        return;
    }
    stage.make(1, "x").unwrap();
    assert_removed(&stage.end(1, "x"));
    let made = stage.make(2, "x").unwrap();
    git(&made.path, &["commit", "-q", "--allow-empty", "-m", "x"]);
    git(&made.path, &["reset", "-q", "--hard", "HEAD^"]);
    assert_kept(&stage.end(2, "x"), "commit");
}

#[test]
fn odd_names() {
    use std::os::unix::ffi::OsStrExt;
    let names: [&[u8]; 7] =
        [b":x", b"a\nb", b"caf\xc3\xa9", b"\xff\xfe", b"-rf", b" lead and trail ", b"*?[\\\""];
    let write = |at: &std::path::Path| {
        for name in names {
            fs::write(at.join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
        }
    };
    let stage = Stage::new();
    write(&stage.repo);
    stage.git(&["add", "."]);
    stage.git(&["commit", "-qm", "odd"]);
    stage.make(1, "x").unwrap();
    assert_removed(&stage.end(1, "x"));
    stage.assert_spotless();
    let stage = Stage::new();
    let made = stage.make(1, "x").unwrap();
    write(&made.path);
    let outcome = stage.end(1, "x");
    assert_kept(&outcome, "untracked: ");
    let Outcome::Kept { why, .. } = outcome else { unreachable!() };
    assert!(!why.iter().any(|why| why.contains('\n')), "{why:?}");
}

/// Our git then works in the repository's own directory, where `HEAD` and `refs/stash` are also
/// files.
#[test]
fn a_stash_and_a_directory_that_is_gone() {
    let stage = Stage::new();
    let made = stage.make(1, "x").unwrap();
    fs::write(made.path.join("a"), "stashed").unwrap();
    git(&made.path, &["stash", "-q"]);
    fs::remove_dir_all(&made.path).unwrap();
    let outcome = stage.end(1, "x");
    let Outcome::Kept { why, .. } = &outcome else { panic!("{outcome:?}") };
    assert!(why.iter().any(|why| why.contains("1 stashed from it")), "{why:?}");
    stage.git(&["stash", "drop", "-q"]);
    assert_eq!(stage.worktrees().clean(false).unwrap()[0].action, CleanAction::Removed);
    stage.assert_spotless();
    let made = stage.make(2, "x").unwrap();
    fs::write(made.path.join("new"), "staged").unwrap();
    git(&made.path, &["add", "new"]);
    fs::remove_dir_all(&made.path).unwrap();
    let outcome = stage.end(2, "x");
    let Outcome::Kept { why, .. } = &outcome else { panic!("{outcome:?}") };
    assert!(why.iter().any(|why| why.contains("staged changes")), "{why:?}");
}

/// Five at once; then each leads to one commit that nothing else leads to, and all end at once:
/// somebody must stay.
#[test]
fn many_at_once() {
    let stage = Stage::new();
    let slugs: Vec<String> = (1..=5).map(|number| format!("review-{number}")).collect();
    let at_once = |work: &(dyn Fn(u64, &str) -> Outcome + Sync)| -> Vec<Outcome> {
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (1..).zip(&slugs).map(|(id, slug)| scope.spawn(move || work(id, slug))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    };
    let make = |id: u64, slug: &str| {
        stage.make(id, slug).unwrap();
        Outcome::Nothing
    };
    at_once(&make);
    assert_eq!(stage.worktrees().list().unwrap().len(), 5);
    at_once(&|id, slug| stage.end(id, slug)).iter().for_each(assert_removed);
    stage.assert_spotless();
    at_once(&make);
    let path = |slug: &str| stage.worktrees().target(&stage.repo, slug).unwrap().path;
    git(&path(&slugs[0]), &["checkout", "-q", "--detach"]);
    git(&path(&slugs[0]), &["commit", "-q", "--allow-empty", "-m", "x"]);
    let commit = git(&path(&slugs[0]), &["rev-parse", "HEAD"]);
    for slug in &slugs {
        git(&path(slug), &["checkout", "-q", "--detach", &commit]);
    }
    let outcomes = at_once(&|id, slug| stage.end(id, slug));
    let kept = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Kept { .. })).count();
    assert_eq!(kept, 1, "{outcomes:?}");
    assert!(git(&stage.repo, &["rev-list", "--all"]).contains(&commit));
}

#[test]
fn two_who_end_the_same_session_do_not_meet() {
    let stage = Stage::new();
    stage.make(1, "x").unwrap();
    let record = stage.worktrees().target(&stage.repo, "x").unwrap().record;
    let (other, file) = (stage.worktrees(), record.clone());
    // The other one is quicker, after this one has read the record and before it has the lock.
    let worktrees = stage.worktrees().stopping(move |step| {
        if step == "before the check" {
            assert_removed(&other.end(&file, SessionId(1), Ended::Exited).unwrap());
        }
        false
    });
    let outcome = worktrees.end(&record, SessionId(1), Ended::Exited).unwrap();
    assert_eq!(outcome, Outcome::Nothing);
    stage.assert_spotless();
}

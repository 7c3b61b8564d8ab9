//! Bringing work home: finding a worktree by name, looking at it, merging it, and removing it with
//! and without force.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use greenroom_protocol::api::fence::{
    CleanAction, MergeAction, WorktreeDiffParams, WorktreeMergeParams, WorktreeMergeResult,
    WorktreeRemoveResult,
};
use greenroom_workspace::worktree::{Ask, Ended, Found, KEPT, WorktreeError};

use super::stage::{Stage, git, try_git};

fn ask(name: &str) -> Ask {
    Ask { name: name.to_owned(), ..Ask::default() }
}

impl Stage {
    #[track_caller]
    fn found(&self, name: &str) -> Found {
        self.worktrees().find(&ask(name)).unwrap()
    }

    fn merge(&self, name: &str) -> Result<WorktreeMergeResult, WorktreeError> {
        self.merge_as(name, WorktreeMergeParams::default())
    }

    fn merge_as(
        &self,
        name: &str,
        how: WorktreeMergeParams,
    ) -> Result<WorktreeMergeResult, WorktreeError> {
        self.worktrees().merge(&self.found(name), &how)
    }

    fn diff(&self, name: &str) -> String {
        let diff =
            self.worktrees().diff(&self.found(name), &WorktreeDiffParams::default()).unwrap();
        String::from_utf8(diff.text).unwrap()
    }

    fn remove(&self, name: &str, force: bool) -> WorktreeRemoveResult {
        self.worktrees().remove_one(&self.found(name), force).unwrap()
    }

    /// A worktree whose session has committed `files`.
    fn committed(&self, session: u64, slug: &str, files: &[(&str, &str)]) -> PathBuf {
        let path = self.make(session, slug).unwrap().path;
        for (name, text) in files {
            fs::write(path.join(name), text).unwrap();
        }
        git(&path, &["add", "."]);
        git(&path, &["commit", "-qm", &format!("work of {slug}")]);
        path
    }

    /// Everything a verb that refuses must leave alone.
    fn state_of_repo(&self) -> (String, String, String, String) {
        let refs = self.git(&["for-each-ref", "--format=%(refname) %(objectname)"]);
        let status = self.git(&["status", "--porcelain", "--ignored"]);
        let staged = self.git(&["ls-files", "-s"]);
        (refs, self.git(&["rev-parse", "HEAD"]), status, staged)
    }
}

#[test]
fn a_worktree_is_found_by_slug_branch_path_and_session() {
    let stage = Stage::new();
    let path = stage.make(7, "feat/auth").unwrap().path;
    for name in ["feat/auth", "greenroom/feat/auth", path.to_str().unwrap(), "s7"] {
        assert_eq!(stage.found(name).path(), path, "{name}");
    }
    let by_session =
        Ask { session_dir: Some(path.join("sub")), ..ask("whatever the session is called") };
    assert_eq!(stage.worktrees().find(&by_session).unwrap().path(), path);
    let missing = stage.worktrees().find(&ask("feat")).unwrap_err();
    assert!(missing.to_string().contains("no worktree is called `feat`"), "{missing}");
    assert_eq!(missing.hint().unwrap(), "is it feat/auth?");
}

#[test]
fn one_slug_in_two_repositories_is_that_of_the_one_you_stand_in() {
    let stage = Stage::new();
    let here = stage.make(1, "same").unwrap().path;
    let other = stage.dir.path().canonicalize().unwrap().join("other");
    git(stage.dir.path(), &["clone", "-q", stage.repo.to_str().unwrap(), "other"]);
    let worktrees = stage.worktrees();
    let target = worktrees.target(&other, "same").unwrap();
    let request = greenroom_workspace::worktree::Request {
        session: greenroom_engine::SessionId(2),
        base: None,
        env: &Default::default(),
        confined: false,
    };
    stage.alive.born(2);
    let there = worktrees.make(&target, &request).unwrap().path;
    assert_ne!(here, there);
    let from = |cwd: &Path| worktrees.find(&Ask { cwd: Some(cwd.to_owned()), ..ask("same") });
    assert_eq!(from(&stage.repo).unwrap().path(), here);
    assert_eq!(from(&other.join(".")).unwrap().path(), there);
    let error = from(Path::new("/")).unwrap_err();
    assert!(matches!(&error, WorktreeError::Ambiguous { paths, .. } if paths.len() == 2));
    assert!(error.to_string().contains(here.to_str().unwrap()), "{error}");
}

#[test]
fn a_diff_shows_what_is_committed_staged_changed_and_untracked() {
    let stage = Stage::new();
    let path = stage.committed(1, "x", &[("committed", "by the agent\n")]);
    fs::write(path.join("a"), "changed\n").unwrap();
    fs::write(path.join("staged"), "only staged\n").unwrap();
    git(&path, &["add", "staged"]);
    fs::write(path.join("new file"), "untracked\n").unwrap();
    fs::create_dir(path.join("deep")).unwrap();
    fs::write(path.join("deep/:(top)odd"), "odd name\n").unwrap();
    fs::remove_file(path.join("sub/b")).unwrap();
    fs::write(path.join("x.log"), "SECRET=1\n").unwrap();
    let before = (git(&path, &["status", "--porcelain"]), git(&path, &["ls-files", "-s"]));
    let text = stage.diff("x");
    for line in [
        "+by the agent",
        "-first",
        "+changed",
        "+only staged",
        "+untracked",
        "+odd name",
        "-second",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
    assert!(!text.contains("SECRET"), "{text}");
    let worktrees = stage.worktrees();
    let short = WorktreeDiffParams { stat: true, ..WorktreeDiffParams::default() };
    let diff = worktrees.diff(&stage.found("x"), &short).unwrap();
    let text = String::from_utf8(diff.text).unwrap();
    assert!(text.contains("new file") && text.contains("6 files changed"), "{text}");
    assert_eq!(diff.commits, 1);
    assert!(diff.notes.iter().any(|note| note.contains("x.log")), "{:?}", diff.notes);
    let after = (git(&path, &["status", "--porcelain"]), git(&path, &["ls-files", "-s"]));
    assert_eq!(before, after, "looking changes nothing");
}

/// What the user did meanwhile is not the agent's.
#[test]
fn a_diff_is_against_where_the_branch_leaves_the_users() {
    let stage = Stage::new();
    stage.git(&["branch", "dev"]);
    let path = stage.committed(1, "x", &[("mine", "agent\n")]);
    fs::write(stage.repo.join("theirs"), "user\n").unwrap();
    stage.git(&["add", "."]);
    stage.git(&["commit", "-qm", "the user goes on"]);
    assert!(!stage.diff("x").contains("theirs"));
    git(&path, &["merge", "-q", "main"]);
    let text = stage.diff("x");
    assert!(text.contains("+agent") && !text.contains("theirs"), "{text}");
    let base = WorktreeDiffParams { base: Some("dev".into()), ..WorktreeDiffParams::default() };
    let all = stage.worktrees().diff(&stage.found("x"), &base).unwrap();
    assert!(String::from_utf8(all.text).unwrap().contains("theirs"));
    let wrong = WorktreeDiffParams { base: Some("nosuch".into()), ..WorktreeDiffParams::default() };
    assert!(matches!(
        stage.worktrees().diff(&stage.found("x"), &wrong),
        Err(WorktreeError::Base { .. })
    ));
}

#[test]
fn branches_come_home_one_after_another() {
    let stage = Stage::new();
    for (session, slug) in [(1, "x"), (2, "y"), (3, "z")] {
        stage.committed(session, slug, &[(slug, "work\n")]);
    }
    let first = stage.merge("x").unwrap();
    assert_eq!(
        (first.action, first.into.as_str(), first.commits),
        (MergeAction::FastForward, "main", 1)
    );
    let second = stage.merge("y").unwrap();
    assert_eq!((second.action, second.commits), (MergeAction::Merged, 1));
    assert_eq!(second.commit.as_str(), stage.git(&["rev-parse", "main"]));
    let squashed = stage
        .merge_as(
            "z",
            WorktreeMergeParams {
                squash: true,
                message: Some("feat: z".into()),
                ..WorktreeMergeParams::default()
            },
        )
        .unwrap();
    assert_eq!(squashed.action, MergeAction::Squashed);
    assert_eq!(stage.git(&["log", "-1", "--format=%s %P"]), format!("feat: z {}", second.commit));
    for slug in ["x", "y", "z"] {
        assert_eq!(fs::read_to_string(stage.repo.join(slug)).unwrap(), "work\n");
    }
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    assert_eq!(stage.merge("x").unwrap().action, MergeAction::Nothing);
    assert_eq!(
        stage
            .merge_as("z", WorktreeMergeParams { squash: true, ..WorktreeMergeParams::default() })
            .unwrap()
            .action,
        MergeAction::Nothing,
        "the same content twice is nothing"
    );
    // Merged ones can go; a squashed one still has a commit of its own.
    for session in [1, 2, 3] {
        stage.alive.died(session);
    }
    assert_eq!(stage.remove("x", false).worktree.action, CleanAction::Removed);
    assert_eq!(stage.remove("z", false).worktree.action, CleanAction::Kept);
}

#[test]
fn a_merge_that_would_conflict_changes_nothing_and_names_the_files() {
    let stage = Stage::new();
    stage.committed(1, "x", &[("a", "agent\n"), ("new", "n\n")]);
    fs::write(stage.repo.join("a"), "user\n").unwrap();
    stage.git(&["commit", "-qam", "user"]);
    fs::write(stage.repo.join("untracked"), "precious\n").unwrap();
    let before = stage.state_of_repo();
    for squash in [false, true] {
        let error = stage
            .merge_as("x", WorktreeMergeParams { squash, ..WorktreeMergeParams::default() })
            .unwrap_err();
        let WorktreeError::Conflicts { files, .. } = &error else { panic!("{error}") };
        assert_eq!(files, &["a"]);
        assert_eq!(stage.state_of_repo(), before);
    }
    assert!(!stage.repo.join(".git/MERGE_HEAD").exists());
    assert!(!stage.repo.join("new").exists());
}

#[test]
fn a_checkout_with_changes_is_not_touched() {
    let stage = Stage::new();
    stage.committed(1, "x", &[("a", "agent\n"), ("new", "agent's\n"), ("debug.log2", "l\n")]);
    let dirty = |stage: &Stage| {
        let before = stage.state_of_repo();
        let error = stage.merge("x").unwrap_err();
        assert_eq!(stage.state_of_repo(), before, "{error}");
        error
    };
    fs::write(stage.repo.join("sub/b"), "mine\n").unwrap();
    let error = dirty(&stage);
    assert!(matches!(&error, WorktreeError::Dirty { files, .. } if files == &["sub/b"]), "{error}");
    stage.git(&["add", "sub/b"]);
    assert!(matches!(dirty(&stage), WorktreeError::Dirty { .. }));
    stage.git(&["reset", "-q", "--hard"]);
    // Untracked files are no obstacle, unless the merge would write over them. Nor would it over
    // ignored ones.
    fs::write(stage.repo.join("elsewhere"), "fine\n").unwrap();
    fs::write(stage.repo.join("new"), "precious\n").unwrap();
    assert!(matches!(dirty(&stage), WorktreeError::NotMerged { .. }));
    assert_eq!(fs::read_to_string(stage.repo.join("new")).unwrap(), "precious\n");
    fs::create_dir_all(stage.repo.join(".git/info")).unwrap();
    fs::write(stage.repo.join(".git/info/exclude"), "new\n").unwrap();
    assert!(matches!(dirty(&stage), WorktreeError::NotMerged { .. }));
    assert_eq!(fs::read_to_string(stage.repo.join("new")).unwrap(), "precious\n");
    fs::remove_file(stage.repo.join("new")).unwrap();
    // What git was told not to look at.
    stage.git(&["update-index", "--assume-unchanged", "a"]);
    fs::write(stage.repo.join("a"), "secretly changed\n").unwrap();
    assert!(matches!(dirty(&stage), WorktreeError::NotMerged { .. }));
    stage.git(&["update-index", "--no-assume-unchanged", "a"]);
    stage.git(&["checkout", "-q", "a"]);
    // In the middle of something.
    fs::write(stage.repo.join(".git/MERGE_HEAD"), stage.git(&["rev-parse", "HEAD"])).unwrap();
    assert!(matches!(dirty(&stage), WorktreeError::NotMerged { .. }));
    fs::remove_file(stage.repo.join(".git/MERGE_HEAD")).unwrap();
    assert_eq!(stage.merge("x").unwrap().action, MergeAction::FastForward);
    assert_eq!(fs::read_to_string(stage.repo.join("elsewhere")).unwrap(), "fine\n");
}

#[test]
fn it_must_be_clear_into_what() {
    let stage = Stage::new();
    stage.git(&["branch", "dev"]);
    stage.committed(1, "x", &[("x", "x\n")]);
    stage.committed(2, "y", &[("y", "y\n")]);
    stage.git(&["checkout", "-q", "--detach"]);
    assert!(matches!(stage.merge("x"), Err(WorktreeError::NoCheckout { .. })));
    let into = |branch: &str| WorktreeMergeParams {
        into: Some(branch.into()),
        ..WorktreeMergeParams::default()
    };
    assert!(matches!(stage.merge_as("x", into("nosuch")), Err(WorktreeError::NoBranch { .. })));
    let own = stage.merge_as("x", into("greenroom/x"));
    assert!(matches!(own, Err(WorktreeError::IntoItself { .. })));
    // A branch that another session works on is that session's.
    let live = stage.merge_as("x", into("greenroom/y")).unwrap_err();
    assert!(live.to_string().contains("session s2 works in"), "{live}");
    // A branch that is nowhere checked out moves by itself.
    let done = stage.merge_as("x", into("dev")).unwrap();
    assert_eq!((done.action, done.checkout), (MergeAction::FastForward, None));
    assert_eq!(stage.git(&["rev-parse", "dev"]), stage.git(&["rev-parse", "greenroom/x"]));
    // A branch that is checked out beside moves with its files.
    let beside = stage.dir.path().canonicalize().unwrap().join("beside");
    stage.git(&["worktree", "add", "-q", beside.to_str().unwrap(), "main"]);
    let done = stage.merge_as("x", into("main")).unwrap();
    assert_eq!(done.checkout.as_deref(), beside.to_str());
    assert_eq!(fs::read_to_string(beside.join("x")).unwrap(), "x\n");
    assert_eq!(git(&beside, &["status", "--porcelain"]), "");
}

#[test]
fn what_is_not_on_the_branch_is_not_forgotten() {
    let stage = Stage::new();
    let path = stage.committed(1, "x", &[("x", "x\n")]);
    fs::write(path.join("loose"), "not committed\n").unwrap();
    let merged = stage.merge("x").unwrap();
    assert!(merged.notes.iter().any(|note| note.contains("loose")), "{:?}", merged.notes);
    git(&path, &["checkout", "-q", "--detach"]);
    fs::write(path.join("y"), "y\n").unwrap();
    git(&path, &["add", "y"]);
    git(&path, &["commit", "-qm", "astray"]);
    let error = stage.merge("x").unwrap_err();
    assert!(error.to_string().contains("is not on greenroom/x"), "{error}");
}

/// The repository's own settings and the tree's attributes name programs; none of them runs.
#[test]
fn nothing_of_the_repository_runs() {
    let stage = Stage::new();
    let mark = stage.dir.path().join("ran");
    let program = stage.dir.path().join("program");
    fs::write(&program, format!("#!/bin/sh\necho \"$0 $*\" >> {}\n", mark.display())).unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let path =
        stage.committed(1, "x", &[("a", "agent\n"), (".gitattributes", "* merge=m diff=d\n")]);
    fs::write(path.join("late"), "late\n").unwrap();
    fs::write(stage.repo.join("sub/b"), "user\n").unwrap();
    stage.git(&["commit", "-qam", "user"]);
    let program = program.to_str().unwrap();
    let hooks = stage.repo.join(".git/hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in ["post-merge", "pre-merge-commit", "reference-transaction", "post-checkout"] {
        symlink(program, hooks.join(hook)).unwrap();
    }
    for key in [
        "core.fsmonitor",
        "core.pager",
        "diff.external",
        "diff.d.command",
        "diff.d.textconv",
        "merge.m.driver",
        "gpg.program",
        "core.editor",
    ] {
        stage.git(&["config", key, program]);
    }
    stage.git(&["config", "commit.gpgSign", "true"]);
    let _ = fs::remove_file(&mark);
    assert!(stage.diff("x").contains("+agent"));
    assert_eq!(stage.merge("x").unwrap().action, MergeAction::Merged);
    stage.alive.died(1);
    assert_eq!(stage.remove("x", true).worktree.action, CleanAction::Removed);
    assert!(!mark.exists(), "{}", fs::read_to_string(&mark).unwrap_or_default());
}

#[test]
fn files_that_pass_through_a_filter_are_left_to_git_itself() {
    let stage = Stage::new();
    fs::write(stage.repo.join(".gitattributes"), "*.bin filter=lfs\n").unwrap();
    stage.git(&["add", "."]);
    stage.git(&["commit", "-qm", "attributes"]);
    stage.committed(1, "x", &[("plain", "p\n")]);
    stage.committed(2, "y", &[("big.bin", "pointer\n")]);
    assert_eq!(stage.merge("x").unwrap().action, MergeAction::FastForward);
    let before = stage.state_of_repo();
    let error = stage.merge("y").unwrap_err();
    assert!(error.to_string().contains("big.bin passes through a filter"), "{error}");
    assert_eq!(stage.state_of_repo(), before);
}

#[test]
fn removing_needs_that_nothing_is_lost_and_nobody_works_there() {
    let stage = Stage::new();
    let path = stage.committed(1, "x", &[("x", "x\n")]);
    assert_eq!(stage.remove("x", false).worktree.action, CleanAction::InUse);
    assert_eq!(stage.remove("x", true).worktree.action, CleanAction::InUse, "nor by force");
    stage.alive.died(1);
    let kept = stage.remove("x", false).worktree;
    assert_eq!(kept.action, CleanAction::Kept);
    assert!(kept.why[0].contains("1 commit is on no other branch"), "{:?}", kept.why);
    assert!(path.is_dir());
    // The list says what holds now, not what held when the session ended.
    let why = || stage.worktrees().list().unwrap().remove(0).why;
    assert_eq!(why(), kept.why);
    stage.merge("x").unwrap();
    assert_eq!(why(), [] as [String; 0]);
    fs::write(path.join("later"), "by hand\n").unwrap();
    assert!(why()[0].contains("later"), "{:?}", why());
    fs::remove_file(path.join("later")).unwrap();
    assert_eq!(stage.remove("x", false).worktree.action, CleanAction::Removed);
    assert!(matches!(stage.worktrees().find(&ask("x")), Err(WorktreeError::Unknown { .. })));
    stage.assert_spotless();
}

#[test]
fn force_keeps_commits_and_every_file_under_a_ref() {
    let stage = Stage::new();
    let path = stage.committed(1, "feat/x", &[("x", "first try\n"), ("gone", "g\n")]);
    git(&path, &["commit", "-q", "--amend", "-m", "amended"]);
    let amended_away = git(&path, &["rev-parse", "HEAD@{1}"]);
    fs::write(path.join("a"), "staged\n").unwrap();
    git(&path, &["add", "a"]);
    fs::write(path.join("a"), "changed after\r\n").unwrap();
    fs::remove_file(path.join("gone")).unwrap();
    fs::write(path.join("note"), "untracked\n").unwrap();
    fs::write(path.join("x.log"), "ignored\n").unwrap();
    fs::write(path.join("run.sh"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(path.join("run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    symlink("a", path.join("link")).unwrap();
    git(&path, &["config", "core.autocrlf", "true"]);
    stage.alive.died(1);
    let removed = stage.remove("feat/x", true);
    assert_eq!(removed.worktree.action, CleanAction::Removed, "{removed:?}");
    for word in ["modified: ", "untracked: ", "ignored but", "on no other branch"] {
        assert!(removed.worktree.why.iter().any(|why| why.contains(word)), "{word}: {removed:?}");
    }
    let kept = removed.kept_as.unwrap();
    assert!(kept.starts_with(&format!("{KEPT}feat+x.")), "{kept}");
    assert!(!path.exists());
    assert_eq!(stage.branches(), "main");
    let file = |name: &str| {
        let out = super::stage::git_command(&stage.repo)
            .args(["cat-file", "blob", &format!("{kept}:{name}")])
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    assert_eq!(file("a"), "changed after\r\n");
    assert_eq!(file("note"), "untracked\n");
    assert_eq!(file("x.log"), "ignored\n");
    assert_eq!(file("link"), "a");
    assert_eq!(file("x"), "first try\n");
    assert!(try_git(&stage.repo, &["cat-file", "-e", &format!("{kept}:gone")]).is_err());
    assert!(stage.git(&["ls-tree", &kept, "run.sh"]).starts_with("100755"));
    assert_eq!(stage.git(&["show", &format!("{kept}^2:a")]), "staged");
    let all = stage.git(&["rev-list", &kept]);
    assert!(all.contains(&amended_away), "what was amended is there too");
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    // It comes back as a branch.
    stage.git(&["branch", "again", &kept]);
    assert!(stage.git(&["log", "--format=%s", "again"]).contains("amended"));
}

#[test]
fn force_does_not_take_what_no_commit_can_hold() {
    let stage = Stage::new();
    type Trouble = (&'static str, fn(&Path));
    let trouble: [Trouble; 5] = [
        ("in conflict: a", |path| {
            fs::write(path.join("a"), "stashed\n").unwrap();
            git(path, &["stash", "-q"]);
            fs::write(path.join("a"), "committed\n").unwrap();
            git(path, &["commit", "-qam", "another"]);
            assert!(try_git(path, &["stash", "pop", "-q"]).is_err());
        }),
        ("repository inside", |path| {
            fs::create_dir(path.join("nested")).unwrap();
            git(&path.join("nested"), &["init", "-q"]);
        }),
        ("untracked: build-tool", |path| {
            let cache = path.join("build-tool");
            fs::create_dir(&cache).unwrap();
            fs::write(cache.join("CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55")
                .unwrap();
        }),
        ("merge is in progress", |path| {
            let head = git(path, &["rev-parse", "HEAD"]);
            let dir = git(path, &["rev-parse", "--git-dir"]);
            fs::write(Path::new(&dir).join("MERGE_HEAD"), head).unwrap();
        }),
        ("was changed", |path| fs::write(path.join(".git"), "gitdir: /elsewhere\n").unwrap()),
    ];
    for (at, (word, make)) in trouble.into_iter().enumerate() {
        let (session, slug) = (at as u64 + 1, format!("t{at}"));
        let path = stage.make(session, &slug).unwrap().path;
        make(&path);
        stage.alive.died(session);
        let removed = stage.remove(&slug, true);
        assert_eq!(removed.worktree.action, CleanAction::Kept, "{removed:?}");
        assert!(removed.worktree.why.iter().any(|why| why.contains(word)), "{word}: {removed:?}");
        assert!(path.is_dir() && removed.kept_as.is_none());
    }
}

/// A submodule that the merge moves is the user's to update; nothing of it is entered.
#[test]
fn a_submodule_is_not_entered() {
    let stage = Stage::new();
    let library = stage.dir.path().join("library");
    git(stage.dir.path(), &["init", "-q", "-b", "main", "library"]);
    git(&library, &["commit", "-q", "--allow-empty", "-m", "one"]);
    stage.git(&["submodule", "add", "-q", library.to_str().unwrap(), "lib"]);
    stage.git(&["commit", "-qm", "library"]);
    let mark = stage.dir.path().join("ran");
    let monitor = format!("touch {}", mark.display());
    git(&stage.repo.join("lib"), &["config", "core.fsmonitor", &monitor]);
    stage.committed(1, "x", &[("x", "x\n")]);
    assert_eq!(stage.merge("x").unwrap().action, MergeAction::FastForward);
    assert!(stage.repo.join("x").exists() && stage.repo.join("lib/.git").exists());
    assert!(!mark.exists());
}

#[test]
fn ended_sessions_and_verbs_go_together() {
    let stage = Stage::new();
    stage.committed(1, "x", &[("x", "x\n")]);
    stage.merge("x").unwrap();
    // What is merged is not kept when its session ends.
    let outcome = stage.end_with(&stage.worktrees(), 1, "x", Ended::Exited).unwrap();
    super::stage::assert_removed(&outcome);
    stage.assert_spotless();
}

//! A repository, a state directory, and who is alive.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use greenroom_engine::SessionId;
use greenroom_workspace::spec::{Living, Surroundings};
use greenroom_workspace::worktree::{
    Ended, Made, Outcome, Request, WorktreeConfig, WorktreeError, Worktrees,
};
use tempfile::TempDir;
pub use test_kit::git::{command as git_command, commit_all, git, try_git};
pub use test_kit::place::{files_below, in_memory as fast_dir};

#[derive(Default)]
pub struct Alive(Mutex<HashSet<u64>>);

impl Living for Alive {
    fn is_alive(&self, id: SessionId) -> bool {
        self.0.lock().unwrap().contains(&id.0)
    }
}

impl Alive {
    pub fn born(&self, id: u64) {
        self.0.lock().unwrap().insert(id);
    }

    pub fn died(&self, id: u64) {
        self.0.lock().unwrap().remove(&id);
    }
}

pub struct Stage {
    pub dir: TempDir,
    pub repo: PathBuf,
    pub alive: Arc<Alive>,
}

impl Stage {
    /// A repository with one commit.
    pub fn new() -> Stage {
        Stage::below(fast_dir())
    }

    /// The same in a directory of a kind.
    pub fn below(dir: TempDir) -> Stage {
        let stage = Stage::empty_below(dir);
        fs::write(stage.repo.join("a"), "first\n").unwrap();
        fs::create_dir(stage.repo.join("sub")).unwrap();
        fs::write(stage.repo.join("sub/b"), "second\n").unwrap();
        fs::write(stage.repo.join(".gitignore"), "node_modules/\ntarget/\n*.log\n.env\n").unwrap();
        commit_all(&stage.repo, "one");
        stage
    }

    /// A repository without a commit.
    pub fn empty() -> Stage {
        Stage::empty_below(fast_dir())
    }

    fn empty_below(dir: TempDir) -> Stage {
        let repo = dir.path().canonicalize().unwrap().join("repo");
        fs::create_dir(&repo).unwrap();
        git(&repo, &["init", "-q", "-b", "main", "--template="]);
        Stage { dir, repo, alive: Arc::default() }
    }

    pub fn state(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("state")
    }

    pub fn around(&self) -> Surroundings {
        let home = self.dir.path().to_owned();
        Surroundings {
            state: self.state(),
            config: home.join("config"),
            runtime: home.join("run"),
            home,
            living: self.alive.clone(),
        }
    }

    pub fn worktrees(&self) -> Worktrees {
        self.worktrees_with(WorktreeConfig { ports: false, ..WorktreeConfig::default() })
    }

    pub fn worktrees_with(&self, config: WorktreeConfig) -> Worktrees {
        Worktrees::new(config, &self.around())
    }

    pub fn make(&self, session: u64, slug: &str) -> Result<Made, WorktreeError> {
        self.make_with(&self.worktrees(), session, slug, None)
    }

    pub fn make_with(
        &self,
        worktrees: &Worktrees,
        session: u64,
        slug: &str,
        base: Option<&str>,
    ) -> Result<Made, WorktreeError> {
        self.alive.born(session);
        let target = worktrees.target(&self.repo, slug)?;
        let path = std::env::var_os("PATH").unwrap();
        let env: BTreeMap<OsString, OsString> = [("PATH".into(), path)].into();
        worktrees.make(
            &target,
            &Request { session: SessionId(session), base, env: &env, confined: false },
        )
    }

    pub fn end(&self, session: u64, slug: &str) -> Outcome {
        self.end_with(&self.worktrees(), session, slug, Ended::Exited).unwrap()
    }

    pub fn end_with(
        &self,
        worktrees: &Worktrees,
        session: u64,
        slug: &str,
        how: Ended,
    ) -> Result<Outcome, WorktreeError> {
        let record = worktrees.target(&self.repo, slug)?.record;
        let outcome = worktrees.end(&record, SessionId(session), how);
        self.alive.died(session);
        outcome
    }

    pub fn git(&self, args: &[&str]) -> String {
        git(&self.repo, args)
    }

    pub fn branches(&self) -> String {
        self.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"])
    }

    /// That nothing of any worktree is left, in the repository or in our state.
    pub fn assert_spotless(&self) {
        assert_eq!(self.branches(), "main");
        assert!(!self.repo.join(".git/worktrees").exists());
        assert_eq!(files_below(&self.state()), Vec::<PathBuf>::new());
        assert_eq!(self.git(&["status", "--porcelain"]), "");
    }
}

#[track_caller]
pub fn assert_removed(outcome: &Outcome) {
    assert!(matches!(outcome, Outcome::Removed { branch_kept: false, .. }), "{outcome:?}");
}

/// That it was kept, and that one of the reasons contains `word`.
#[track_caller]
pub fn assert_kept(outcome: &Outcome, word: &str) {
    let Outcome::Kept { path, why, .. } = outcome else { panic!("{outcome:?}") };
    assert!(path.is_dir(), "{}", path.display());
    assert!(why.iter().any(|reason| reason.contains(word)), "{word}: {why:?}");
}

//! A repository, a state directory, and who is alive.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use greenroom_engine::SessionId;
use greenroom_plugins::spec::{Living, Surroundings};
use greenroom_plugins::worktree::{
    Ended, Made, Outcome, Request, WorktreeConfig, WorktreeError, Worktrees,
};
use tempfile::TempDir;

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

/// In memory where there is such a place: the tests make thousands of files.
pub fn fast_dir() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
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
        stage.git(&["add", "."]);
        stage.git(&["commit", "-qm", "one"]);
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

pub fn files_below(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_below(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// As a user would run it, with their identity and nothing of this machine.
pub fn git_command(cwd: &Path) -> Command {
    let mut command = Command::new(greenroom_plugins::git::find_git().unwrap());
    command
        .current_dir(cwd)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "A")
        .env("GIT_AUTHOR_EMAIL", "a@example.org")
        .env("GIT_COMMITTER_NAME", "A")
        .env("GIT_COMMITTER_EMAIL", "a@example.org");
    command
}

pub fn try_git(cwd: &Path, args: &[&str]) -> Result<String, String> {
    let out =
        git_command(cwd).args(["-c", "protocol.file.allow=always"]).args(args).output().unwrap();
    if out.status.success() {
        Ok(String::from_utf8(out.stdout).unwrap().trim_end().to_owned())
    } else {
        Err(String::from_utf8_lossy(&out.stderr).into_owned())
    }
}

pub fn git(cwd: &Path, args: &[&str]) -> String {
    try_git(cwd, args).unwrap_or_else(|said| panic!("git {args:?} in {}: {said}", cwd.display()))
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

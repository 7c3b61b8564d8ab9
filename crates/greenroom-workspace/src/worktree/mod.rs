//! A git worktree and branch of a session's own, made before it and removed after it if nothing
//! would be lost.
//!
//! In: a slug, a base, the directory the user asked to start in. Out: a directory to start in, or a
//! refusal; after the session "removed", or "kept" with path, branch and every reason. `record` is
//! what we know on disk, `make` and `end` change it step by step, `check` decides, `snapshot`
//! removes exactly what was checked; `find`, `diff`, `merge` and `remove` are for a person who
//! brings work home. The rule all of it serves: no sequence of verbs and crashes makes a commit or
//! a file's content unreachable. Deliberately absent: `-B`, pushing.

mod bring;
mod check;
mod commands;
mod diff;
mod end;
mod error;
mod excludes;
mod fill;
mod find;
mod history;
mod list;
mod make;
mod merge;
mod plugin;
mod pointers;
mod ports;
mod record;
mod remove;
mod slug;
mod snapshot;
mod values;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use greenroom_engine::SessionId;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

pub use bring::{INCLUDE_FILE, Share};
pub use diff::Diff;
pub use end::{Ended, Outcome};
pub use error::WorktreeError;
pub use excludes::{escaped, exclude_in_session};
pub use find::{Ask, Found};
pub use make::{Made, Request, Target};
pub use plugin::{ABOUT, Worktree};
pub use ports::COUNT as PORTS;
pub use remove::KEPT;
pub use slug::Slug;

use crate::live::Live;
use crate::spec::{Living, Surroundings};
use ports::Ports;

/// `[worktree]` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorktreeConfig {
    /// Before the slug in a branch's name.
    pub prefix: String,
    /// How directories of the checkout come into a worktree.
    pub share: BTreeMap<String, Share>,
    /// Run in a new worktree before its first session, by `sh`.
    pub setup: Vec<String>,
    /// Run in a worktree after each session.
    pub teardown: Vec<String>,
    /// For each of those commands.
    pub command_timeout_s: u64,
    /// Names of directories that hold nothing but build products. Where git ignores them they do
    /// not keep a worktree.
    pub disposable: Vec<String>,
    /// Whether a session gets ten ports.
    pub ports: bool,
}

impl Default for WorktreeConfig {
    fn default() -> WorktreeConfig {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        WorktreeConfig {
            prefix: "greenroom/".into(),
            share: [".venv", "target"]
                .map(|dir| (dir.to_owned(), Share::ReflinkIfPossible))
                .into_iter()
                .collect(),
            setup: Vec::new(),
            teardown: Vec::new(),
            command_timeout_s: 600,
            // Each is written by one well-known tool and made again by it.
            disposable: names(&[
                "node_modules",
                "target",
                ".venv",
                "__pycache__",
                ".pytest_cache",
                ".mypy_cache",
                ".ruff_cache",
                ".tox",
                ".gradle",
                ".next",
                ".nuxt",
                ".turbo",
                ".parcel-cache",
                ".svelte-kit",
                ".zig-cache",
            ]),
            ports: true,
        }
    }
}

impl WorktreeConfig {
    fn command_timeout(&self) -> Duration {
        Duration::from_secs(self.command_timeout_s.max(1))
    }
}

/// All worktrees below one state directory.
#[derive(Clone)]
pub struct Worktrees {
    root: PathBuf,
    ports: PathBuf,
    config: Live<WorktreeConfig>,
    living: Arc<dyn Living>,
    steps: Steps,
}

impl Worktrees {
    pub fn new(config: WorktreeConfig, around: &Surroundings) -> Worktrees {
        Worktrees {
            root: around.state_dir("worktrees"),
            ports: around.state_dir("ports"),
            config: Live::new(config),
            living: around.living.clone(),
            steps: Steps::default(),
        }
    }

    /// Other settings, from now on; clones have them too.
    pub fn reconfigure(&self, config: WorktreeConfig) {
        self.config.set(config);
    }

    /// For tests: asked before each step that leaves something on disk; `true` stops as if the host
    /// had died there.
    pub fn stopping(
        mut self,
        stop: impl Fn(&'static str) -> bool + Send + Sync + 'static,
    ) -> Worktrees {
        self.steps = Steps(Some(Arc::new(stop)));
        self
    }

    fn is_alive(&self, session: u64) -> bool {
        self.living.is_alive(SessionId(session))
    }

    fn with_ports<T>(&self, use_it: impl FnOnce(&Ports<'_>) -> T) -> T {
        let is_alive = |id: SessionId| self.living.is_alive(id);
        use_it(&Ports { dir: self.ports.clone(), is_alive: &is_alive })
    }
}

/// Where a host may die.
#[derive(Clone, Default)]
struct Steps(Option<Stop>);

type Stop = Arc<dyn Fn(&'static str) -> bool + Send + Sync>;

impl Steps {
    fn at(&self, step: &'static str) -> Result<(), WorktreeError> {
        match &self.0 {
            Some(stop) if stop(step) => Err(WorktreeError::Stopped(step)),
            _ => Ok(()),
        }
    }
}

type Lock = Arc<File>;

/// One at a time per repository, also among hosts: what one check counts as an anchor another must
/// not be removing. The directory itself is locked, so nothing is left in it. Each git we start
/// under it inherits it.
fn lock(common_dir: &Path) -> Result<Lock, WorktreeError> {
    lock_dir(common_dir).map(Arc::new)
}

fn lock_dir(dir: &Path) -> Result<File, WorktreeError> {
    let lock = || -> std::io::Result<File> {
        let file = File::open(dir)?;
        // The holder of the lock has a deadline on everything it does.
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    };
    lock().map_err(WorktreeError::io("lock", dir))
}

//! What a run writes down, so that a daemon that dies does not take it along.
//!
//! `<state>/runs/<id>/` is ours alone: `plan.json` (what was asked, with the caller's environment
//! while the run lasts), `progress.json` (rewritten after every step), one file per prompt that is
//! typed, per condition that held and one per answer of a dialogue. `run.json` in the scratchpad is
//! a copy of the outcome for everybody else; nothing is ever read back from there, because workers
//! can write it. Every file is 0600 and replaced by a rename.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use greenroom_engine::keep::{self, Lasting};
use greenroom_formats::connector::Plan;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::machine::{Job, Progress};

/// Ended runs that stay listed; the oldest go first.
const ENDED_KEPT: usize = 100;

/// No file of ours is larger: a plan has at most some hundred prompts.
const FILE_MAX: u64 = 64 * 1024 * 1024;

const PLAN: &str = "plan.json";
const PROGRESS: &str = "progress.json";

/// What was asked for when a run began. Has no `Debug`: it holds the caller's environment.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct RunRequest {
    pub run: String,
    pub file: Option<String>,
    pub cwd: String,
    pub scratchpad: PathBuf,
    pub plan: Plan,
    /// Worktrees of the file that others have, and what they are called in this run.
    #[serde(default)]
    pub renamed: BTreeMap<String, String>,
    pub inherit_env: Option<BTreeMap<String, String>>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesError {
    #[error("cannot {step} {}: {source}", path.display())]
    Io { step: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot read {}: it is not what was written: {source}", path.display())]
    Foreign { path: PathBuf, source: serde_json::Error },
    #[error("cannot write {}: {source}", path.display())]
    Unwritable { path: PathBuf, source: serde_json::Error },
}

impl FilesError {
    fn io(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FilesError {
        move |source| FilesError::Io { step, path: path.to_owned(), source }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct RunsDir {
    dir: PathBuf,
    scratchpads: PathBuf,
}

/// One run's id and directories.
#[derive(Clone, Debug)]
pub(crate) struct RunDir {
    pub run: String,
    /// The directory that its workers share: the scratchpad plugin's for a run.
    pub scratchpad: PathBuf,
    path: PathBuf,
}

impl RunsDir {
    pub(crate) fn new(state: &Path) -> RunsDir {
        RunsDir { dir: state.join("runs"), scratchpads: state.join("scratchpads") }
    }

    fn named(&self, run: String) -> RunDir {
        let scratchpad = self.scratchpads.join(format!("run-{run}"));
        RunDir { path: self.dir.join(&run), scratchpad, run }
    }

    /// What the next run would be called and where it would lie. Nothing is made.
    pub(crate) fn next(&self) -> RunDir {
        self.named(format!("r{}", self.ids().last().map_or(1, |last| last + 1)))
    }

    /// Takes an id and makes its directories.
    pub(crate) fn create(&self) -> Result<RunDir, FilesError> {
        private_dir(&self.dir)?;
        loop {
            let next = self.next();
            match DirBuilder::new().mode(0o700).create(&next.path) {
                Ok(()) => return private_dir(&next.scratchpad).map(|()| next),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(FilesError::io("create", &next.path)(error)),
            }
        }
    }

    /// Every run there is, oldest first.
    pub(crate) fn all(&self) -> Vec<RunDir> {
        self.ids().into_iter().map(|id| self.named(format!("r{id}"))).collect()
    }

    pub(crate) fn find(&self, run: &str) -> Option<RunDir> {
        self.all().into_iter().find(|dir| dir.run == run)
    }

    /// Forgets the oldest of `ended`; their scratchpads stay.
    pub(crate) fn forget_old(&self, ended: &[RunDir]) {
        for dir in ended.iter().rev().skip(ENDED_KEPT) {
            if let Err(error) = std::fs::remove_dir_all(&dir.path) {
                tracing::warn!(run = dir.run, %error, "forgetting an old run");
            }
        }
    }

    fn ids(&self) -> Vec<u64> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let id =
            |entry: std::fs::DirEntry| entry.file_name().to_str()?.strip_prefix('r')?.parse().ok();
        let mut ids: Vec<u64> = entries.filter_map(id).collect();
        ids.sort_unstable();
        ids
    }
}

impl RunDir {
    /// Nothing came of the run: removes its directory, and its scratchpad if that is empty.
    pub(crate) fn give_back(&self) {
        let _ = std::fs::remove_dir(&self.scratchpad);
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!(dir = %self.path.display(), %error, "removing a run that did not begin");
        }
    }

    pub(crate) fn request(&self) -> Result<RunRequest, FilesError> {
        read_json(&self.path.join(PLAN))
    }

    pub(crate) fn write_request(&self, request: &RunRequest) -> Result<(), FilesError> {
        write_json(&self.path.join(PLAN), request)
    }

    pub(crate) fn progress(&self) -> Result<Progress, FilesError> {
        read_json(&self.path.join(PROGRESS))
    }

    pub(crate) fn write_progress(&self, progress: &Progress) -> Result<(), FilesError> {
        write_json(&self.path.join(PROGRESS), progress)
    }

    /// How far the typing of a prompt had come.
    pub(crate) fn typing(&self, job: Job, attempt: u32) -> Option<Typing> {
        read_json(&self.of_attempt("typing", job, attempt)).ok()
    }

    pub(crate) fn write_typing(
        &self,
        job: Job,
        attempt: u32,
        typing: &Typing,
    ) -> Result<(), FilesError> {
        write_json(&self.of_attempt("typing", job, attempt), typing)
    }

    /// Whether what a worker was to wait for has held: all that is left is to end it.
    pub(crate) fn has_held(&self, job: Job, attempt: u32) -> bool {
        self.of_attempt("held", job, attempt).exists()
    }

    pub(crate) fn write_held(&self, job: Job, attempt: u32) -> Result<(), FilesError> {
        write_json(&self.of_attempt("held", job, attempt), &true)
    }

    /// What a turn of a dialogue said.
    pub(crate) fn answer(&self, job: Job) -> Option<String> {
        read_json(&self.of_turn(job)).ok()
    }

    pub(crate) fn write_answer(&self, job: Job, answer: &str) -> Result<(), FilesError> {
        write_json(&self.of_turn(job), &answer)
    }

    fn of_attempt(&self, what: &str, job: Job, attempt: u32) -> PathBuf {
        self.path.join(format!("{what}-{}-{}-{attempt}.json", job.phase, job.worker))
    }

    fn of_turn(&self, job: Job) -> PathBuf {
        self.path.join(format!("answer-{}-{}.json", job.phase, job.worker))
    }
}

/// How far the typing of a prompt had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Typing {
    /// Enter was pressed.
    pub entered: bool,
    /// The output before that.
    pub seq: u64,
}

pub(crate) fn private_dir(dir: &Path) -> Result<(), FilesError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(FilesError::io("create", dir))
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), FilesError> {
    let text = serde_json::to_vec_pretty(value)
        .map_err(|source| FilesError::Unwritable { path: path.to_owned(), source })?;
    replace(path, &text)
}

/// A whole file or none: what stands at `path`, a link too, is replaced and never written through.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), FilesError> {
    keep::write(path, bytes, Lasting::Machine).map_err(FilesError::io("write", path))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, FilesError> {
    let bytes = keep::read(path, FILE_MAX)
        .and_then(|bytes| bytes.ok_or_else(|| io::ErrorKind::NotFound.into()))
        .map_err(FilesError::io("read", path))?;
    serde_json::from_slice(&bytes)
        .map_err(|source| FilesError::Foreign { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn ids_go_up_and_old_runs_are_forgotten() {
        let state = tempfile::tempdir().unwrap();
        let runs = RunsDir::new(state.path());
        assert_eq!(runs.next().run, "r1");
        for expected in ["r1", "r2", "r3"] {
            assert_eq!(runs.create().unwrap().run, expected);
        }
        std::fs::remove_dir(state.path().join("runs/r2")).unwrap();
        assert_eq!(runs.create().unwrap().run, "r4");
        let ended = runs.all();
        let names: Vec<&str> = ended.iter().map(|dir| dir.run.as_str()).collect();
        assert_eq!(names, ["r1", "r3", "r4"]);
        let many: Vec<RunDir> = (0..ENDED_KEPT).map(|n| runs.named(format!("x{n}"))).collect();
        runs.forget_old(&[&ended[..1], &many[..]].concat());
        assert!(runs.find("r1").is_none() && runs.find("r3").is_some());
    }

    #[test]
    fn files_are_private_and_replaced_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        for name in ["run.json", "run.json.new"] {
            symlink(&victim, dir.path().join(name)).unwrap();
        }
        let path = dir.path().join("run.json");
        write_json(&path, &7).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        let meta = std::fs::symlink_metadata(&path).unwrap();
        assert!(meta.is_file());
        assert_eq!(meta.permissions().mode() & 0o777, 0o600);
        assert_eq!(read_json::<u8>(&path).unwrap(), 7);
        assert!(!dir.path().join("run.json.new").exists());
    }
}

//! What a run writes down, so that a daemon that dies does not take it along.
//!
//! `<state>/runs/<id>/` is ours alone: `plan.json` (what was asked, with the caller's environment while
//! the run lasts), `progress.json` (rewritten after every step), one file per prompt that is typed and
//! one per answer of a dialogue. `run.json` in the scratchpad is a copy of the outcome for everybody
//! else; nothing is ever read back from there, because workers can write it.
//! Every file is 0600 and replaced by a rename.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use greenroom_protocol::connector::Plan;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::machine::{Job, Progress};

/// Ended runs that stay listed; the oldest go first.
const ENDED_KEPT: usize = 100;

/// No file of ours is larger: a plan has at most some hundred prompts.
const FILE_MAX: u64 = 64 * 1024 * 1024;

const PLAN: &str = "plan.json";
const PROGRESS: &str = "progress.json";

/// What was asked for when a run began. Has no `Debug`: it holds the caller's environment.
#[derive(Clone, Serialize, Deserialize)]
pub struct Written {
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
pub enum FilesError {
    #[error("cannot {step} {}: {source}", path.display())]
    Io { step: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot read {}: it is not what was written: {source}", path.display())]
    Foreign { path: PathBuf, source: serde_json::Error },
    #[error("cannot write {}: {source}", path.display())]
    Unwritable { path: PathBuf, source: serde_json::Error },
}

/// All runs of a host.
#[derive(Clone, Debug)]
pub struct RunsDir {
    dir: PathBuf,
    scratchpads: PathBuf,
}

/// One run's directory.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
}

impl RunsDir {
    pub fn new(state: &Path) -> RunsDir {
        RunsDir { dir: state.join("runs"), scratchpads: state.join("scratchpads") }
    }

    /// The directory that workers of this run share: the scratchpad plugin's for a run.
    pub fn scratchpad(&self, run: &str) -> PathBuf {
        self.scratchpads.join(format!("run-{run}"))
    }

    /// The id the next run would get.
    pub fn next_id(&self) -> String {
        format!("r{}", self.ids().last().map_or(1, |last| last + 1))
    }

    /// Takes an id and makes its directory.
    pub fn create(&self) -> Result<(String, RunDir), FilesError> {
        private_dir(&self.dir)?;
        loop {
            let run = self.next_id();
            let path = self.dir.join(&run);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok((run, RunDir { path })),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(FilesError::Io { step: "create", path, source }),
            }
        }
    }

    /// Every run there is, oldest first.
    pub fn all(&self) -> Vec<(String, RunDir)> {
        let dir = |id: u64| (format!("r{id}"), RunDir { path: self.dir.join(format!("r{id}")) });
        self.ids().into_iter().map(dir).collect()
    }

    pub fn find(&self, run: &str) -> Option<RunDir> {
        self.all().into_iter().find(|(id, _)| id == run).map(|(_, dir)| dir)
    }

    /// Forgets the oldest of `ended`; their scratchpads stay.
    pub fn forget_old(&self, ended: &[String]) {
        for run in ended.iter().rev().skip(ENDED_KEPT) {
            if let Err(error) = std::fs::remove_dir_all(self.dir.join(run)) {
                tracing::warn!(%run, %error, "forgetting an old run");
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
    /// Where nothing is ever written.
    pub fn nowhere() -> RunDir {
        RunDir { path: PathBuf::from("/dev/null") }
    }

    /// With everything in it.
    pub fn remove(&self) {
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!(dir = %self.path.display(), %error, "removing a run that did not begin");
        }
    }

    pub fn write_plan(&self, written: &Written) -> Result<(), FilesError> {
        write_json(&self.path, PLAN, written)
    }

    pub fn plan(&self) -> Result<Written, FilesError> {
        read_json(&self.path.join(PLAN))
    }

    pub fn write_progress(&self, progress: &Progress) -> Result<(), FilesError> {
        write_json(&self.path, PROGRESS, progress)
    }

    pub fn progress(&self) -> Result<Progress, FilesError> {
        read_json(&self.path.join(PROGRESS))
    }

    /// How far the typing of a prompt had come.
    pub fn typing(&self, job: Job, attempt: u32) -> Option<Typing> {
        read_json(&self.path.join(typing_name(job, attempt))).ok()
    }

    pub fn write_typing(&self, job: Job, attempt: u32, typing: &Typing) -> Result<(), FilesError> {
        write_json(&self.path, &typing_name(job, attempt), typing)
    }

    /// What a turn of a dialogue said.
    pub fn answer(&self, job: Job) -> Option<String> {
        read_json(&self.path.join(answer_name(job))).ok()
    }

    pub fn write_answer(&self, job: Job, answer: &str) -> Result<(), FilesError> {
        write_json(&self.path, &answer_name(job), &answer)
    }
}

/// How far the typing of a prompt had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Typing {
    /// Enter was pressed.
    pub entered: bool,
    /// The output before that.
    pub seq: u64,
}

fn typing_name(job: Job, attempt: u32) -> String {
    format!("typing-{}-{}-{attempt}.json", job.phase, job.worker)
}

fn answer_name(job: Job) -> String {
    format!("answer-{}-{}.json", job.phase, job.worker)
}

pub fn private_dir(dir: &Path) -> Result<(), FilesError> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|source| FilesError::Io {
        step: "create",
        path: dir.to_owned(),
        source,
    })
}

pub fn write_json(dir: &Path, name: &str, value: &impl Serialize) -> Result<(), FilesError> {
    let path = dir.join(name);
    let text = serde_json::to_vec_pretty(value)
        .map_err(|source| FilesError::Unwritable { path: path.clone(), source })?;
    replace(dir, name, &text)
}

/// A whole file or none: what stands at `name`, a link too, is replaced and never written through.
pub fn replace(dir: &Path, name: &str, bytes: &[u8]) -> Result<(), FilesError> {
    let aside = dir.join(format!(".{name}.new"));
    let fail = |step, path: &Path, source| FilesError::Io { step, path: path.to_owned(), source };
    match std::fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(fail("replace", &aside, error));
        }
        _ => {}
    }
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&aside)
        .map_err(|error| fail("write", &aside, error))?;
    file.write_all(bytes)
        .and_then(|()| file.sync_data())
        .map_err(|error| fail("write", &aside, error))?;
    let path = dir.join(name);
    std::fs::rename(&aside, &path).map_err(|error| fail("replace", &path, error))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, FilesError> {
    let fail = |source| FilesError::Io { step: "read", path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(fail)?;
    file.take(FILE_MAX).read_to_end(&mut bytes).map_err(fail)?;
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
        assert_eq!(runs.next_id(), "r1");
        for expected in ["r1", "r2", "r3"] {
            assert_eq!(runs.create().unwrap().0, expected);
        }
        std::fs::remove_dir(state.path().join("runs/r2")).unwrap();
        assert_eq!(runs.create().unwrap().0, "r4");
        let ended: Vec<String> = runs.all().into_iter().map(|(id, _)| id).collect();
        assert_eq!(ended, ["r1", "r3", "r4"]);
        let many: Vec<String> = (0..ENDED_KEPT).map(|n| format!("x{n}")).collect();
        runs.forget_old(&[&ended[..1], &many[..]].concat());
        assert!(runs.find("r1").is_none() && runs.find("r3").is_some());
    }

    #[test]
    fn files_are_private_and_replaced_not_written_through() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "precious").unwrap();
        for name in ["run.json", ".run.json.new"] {
            symlink(&victim, dir.path().join(name)).unwrap();
        }
        write_json(dir.path(), "run.json", &7).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
        let meta = std::fs::symlink_metadata(dir.path().join("run.json")).unwrap();
        assert!(meta.is_file());
        assert_eq!(meta.permissions().mode() & 0o777, 0o600);
        assert_eq!(read_json::<u8>(&dir.path().join("run.json")).unwrap(), 7);
        assert!(!dir.path().join(".run.json.new").exists());
    }
}

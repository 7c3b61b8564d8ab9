//! The file of one chain: what its plugins noted, how far they came, what they left.
//!
//! Lines of JSON, 0600; each says all that was known, and the newest whole one counts. Never holds
//! a secret: plugins' notes and the lines of a [`Change`] do not. Kept until its session is
//! removed, so that what was kept can be told.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use greenroom_engine::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::difference::Change;
use crate::disk::{gone, private_dir};
use crate::spec::{Cleanup, EndedHow, Limits, SessionSpec, StateError, millis};

/// The version of the file's format. A newer one is left alone, not guessed at.
const VERSION: u32 = 1;

/// A chain has a handful of plugins with short notes; anything larger is not ours.
const FILE_MAX: u64 = 4 * 1024 * 1024;

/// A file with more than this begins anew with its newest line.
const LINES_MAX: u64 = 64 * 1024;

/// Remarks of one session: a program that tries forbidden hosts in a loop must not fill the disk.
const REMARKS_MAX: usize = 200;

#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    #[error("cannot read the chains in {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
}

/// Where a chain is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    #[default]
    Preparing,
    /// The session may run.
    Prepared,
    Finishing,
    Finished,
}

/// One plugin's part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    plugin: String,
    #[serde(default)]
    state: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<CleanupReport>,
}

impl Step {
    pub fn plugin(&self) -> &str {
        &self.plugin
    }

    pub fn state(&self) -> &Value {
        &self.state
    }

    /// Nothing is left to do.
    pub fn is_clean(&self) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| outcome.failed.is_none())
    }
}

/// What one plugin left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanupReport {
    pub plugin: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<Cleanup>,
    /// Why it could not clean up; it is tried again when the host starts next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl CleanupReport {
    pub fn done(plugin: &str, cleanup: Cleanup) -> CleanupReport {
        CleanupReport { plugin: plugin.to_owned(), cleanup: Some(cleanup), failed: None }
    }

    pub fn failed(plugin: &str, why: String) -> CleanupReport {
        CleanupReport { plugin: plugin.to_owned(), cleanup: None, failed: Some(why) }
    }

    /// What the user must hear about.
    pub fn left_behind(&self) -> Option<String> {
        match (&self.cleanup, &self.failed) {
            (_, Some(why)) => Some(format!("{} could not clean up: {why}", self.plugin)),
            (Some(Cleanup::Kept { what, why }), _) => Some(format!("kept {what}: {why}")),
            _ => None,
        }
    }
}

/// Everything that is kept of a chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainFile {
    version: u32,
    session: u64,
    phase: Phase,
    steps: Vec<Step>,
    #[serde(default)]
    changes: Vec<Change>,
    #[serde(default)]
    notes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    /// The level of its sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sandbox: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    idle_timeout_ms: Option<u64>,
    #[serde(default)]
    timed_out: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    remarks: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    more_remarks: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl ChainFile {
    pub fn new(id: SessionId) -> ChainFile {
        ChainFile { version: VERSION, session: id.0, ..ChainFile::default() }
    }

    pub fn session(&self) -> SessionId {
        SessionId(self.session)
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub fn step(&self, plugin: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.plugin == plugin)
    }

    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The branch the session works on, if a plugin gave it one.
    pub fn branch(&self) -> Option<&str> {
        self.branch.as_deref()
    }

    /// The level of its sandbox: whoever talks to the host from inside must be refused.
    pub fn sandbox(&self) -> Option<&str> {
        self.sandbox.as_deref()
    }

    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Remarks, and how many more there were.
    pub fn remarks(&self) -> (&[String], u64) {
        (&self.remarks, self.more_remarks)
    }

    pub fn is_open(&self) -> bool {
        self.phase != Phase::Finished
    }

    /// What was left so far, in the order of the clean-up.
    pub fn outcomes(&self) -> Vec<CleanupReport> {
        self.steps.iter().rev().filter_map(|step| step.outcome.clone()).collect()
    }

    pub fn limits(&self) -> Limits {
        Limits {
            timeout: self.timeout_ms.map(Duration::from_millis),
            idle_timeout: self.idle_timeout_ms.map(Duration::from_millis),
        }
    }

    /// When the program began to run, if that was noted.
    pub fn started_at(&self) -> Option<SystemTime> {
        UNIX_EPOCH.checked_add(Duration::from_millis(self.started_ms?))
    }

    /// An end that a limit of time caused says so.
    pub fn how_it_ended(&self, how: EndedHow) -> EndedHow {
        match how {
            EndedHow::Exited(status) if self.timed_out => EndedHow::TimedOut(status),
            other => other,
        }
    }

    pub(super) fn begin(&mut self, plugin: &str) {
        let plugin = plugin.to_owned();
        self.steps.push(Step { plugin, state: Value::Null, outcome: None });
    }

    /// Notes of the plugin that is preparing: the last one.
    pub(super) fn noted(&mut self, state: Value) {
        if let Some(step) = self.steps.last_mut() {
            step.state = state;
        }
    }

    pub(super) fn prepared(&mut self, spec: &SessionSpec, changes: &[Change]) {
        self.phase = Phase::Prepared;
        self.changes = changes.to_vec();
        self.notes = spec.notes.clone();
        self.branch = spec.git.as_ref().map(|git| git.branch.clone());
        self.sandbox = spec.base.confinement.as_ref().map(|fence| fence.level().to_owned());
        self.timeout_ms = spec.limits.timeout.map(millis);
        self.idle_timeout_ms = spec.limits.idle_timeout.map(millis);
    }

    pub(super) fn started(&mut self, at: SystemTime) {
        self.started_ms = at.duration_since(UNIX_EPOCH).ok().map(millis);
    }

    pub(super) fn timed_out(&mut self) {
        self.timed_out = true;
    }

    pub(super) fn remark(&mut self, text: String) {
        if self.remarks.contains(&text) {
            return;
        }
        if self.remarks.len() < REMARKS_MAX {
            self.remarks.push(text);
        } else {
            self.more_remarks += 1;
        }
    }

    pub(super) fn finishing(&mut self) {
        self.phase = Phase::Finishing;
    }

    pub(super) fn cleaned(&mut self, index: usize, outcome: CleanupReport) {
        self.steps[index].outcome = Some(outcome);
    }

    /// True when nothing is left to clean up.
    pub(super) fn finished(&mut self) -> bool {
        if self.steps.iter().all(Step::is_clean) {
            self.phase = Phase::Finished;
        }
        self.phase == Phase::Finished
    }
}

fn path_of(dir: &Path, id: SessionId) -> PathBuf {
    dir.join(format!("{id}.json"))
}

/// Adds what is known now to the chain's file; the newest line counts. One writer at a time.
///
/// Adding is one call. Replacing the file by rename makes some file systems write the data out at
/// once, for which a session's start would wait.
pub(super) fn write(dir: &Path, file: &ChainFile) -> Result<Written, StateError> {
    let path = path_of(dir, file.session());
    let refuse = |source| StateError::Write { path: path.clone(), source };
    // A piece of a line that a full disk left ends where this one begins.
    let mut text = b"\n".to_vec();
    serde_json::to_writer(&mut text, file).map_err(StateError::Unwritable)?;
    text.push(b'\n');
    let mut out = options().append(true).open(&path).map_err(refuse)?;
    let before = out.metadata().map_err(refuse)?.len();
    if before > LINES_MAX {
        let fresh = path.with_extension("new");
        out = options().write(true).truncate(true).open(&fresh).map_err(refuse)?;
        out.write_all(&text).map_err(refuse)?;
        // Before it takes the place of something that may be on the disk already.
        out.sync_data().map_err(refuse)?;
        std::fs::rename(&fresh, &path).map_err(refuse)?;
        return Ok(Written { out, path, new: true });
    }
    out.write_all(&text).map_err(refuse)?;
    Ok(Written { out, path, new: before == 0 })
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    options
}

/// Survives this process; after [`Written::keep`] also the machine.
#[must_use]
pub(super) struct Written {
    out: File,
    path: PathBuf,
    /// Its name has to be kept too.
    new: bool,
}

impl Written {
    pub(super) fn keep(self) -> Result<(), StateError> {
        let keep = || -> io::Result<()> {
            self.out.sync_data()?;
            match self.path.parent().filter(|_| self.new) {
                Some(dir) => File::open(dir)?.sync_all(),
                None => Ok(()),
            }
        };
        keep().map_err(|source| StateError::Write { path: self.path.clone(), source })
    }
}

pub(super) fn remove(dir: &Path, id: SessionId) -> io::Result<()> {
    gone(std::fs::remove_file(path_of(dir, id)))
}

/// Every chain below `dir`, which is made if it is not there. A file that is not a chain's is left
/// alone and told.
pub(super) fn load_all(dir: &Path) -> Result<HashMap<SessionId, ChainFile>, ChainError> {
    let refuse = |source| ChainError::Read { path: dir.to_owned(), source };
    private_dir(dir).map_err(refuse)?;
    let mut files = HashMap::new();
    for entry in std::fs::read_dir(dir).map_err(refuse)? {
        let path = entry.map_err(refuse)?.path();
        match path.extension().and_then(|ext| ext.to_str()) {
            Some("json") => {}
            Some("new") => {
                // Written by a host that died before the rename: what it says did not happen yet.
                let _ = std::fs::remove_file(&path);
                continue;
            }
            _ => continue,
        }
        match read(&path) {
            Ok(file) if file.version == VERSION => {
                files.insert(file.session(), file);
            }
            Ok(file) => {
                tracing::error!(path = %path.display(), version = file.version, "a chain of another version");
            }
            // A host died before its first line: nothing was done yet.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let _ = std::fs::remove_file(&path);
            }
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "a chain that cannot be read")
            }
        }
    }
    Ok(files)
}

fn read(path: &Path) -> io::Result<ChainFile> {
    let mut text = Vec::new();
    File::open(path)?.take(FILE_MAX).read_to_end(&mut text)?;
    let mut lines = text.rsplit(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let newest = lines.next().ok_or(io::ErrorKind::UnexpectedEof)?;
    // A line that a full disk cut short was refused, and what it says did not happen.
    match serde_json::from_slice(newest) {
        Ok(file) => Ok(file),
        Err(error) => lines
            .find_map(|line| serde_json::from_slice(line).ok())
            .ok_or_else(|| io::Error::other(error)),
    }
}

//! What every session plugin sees: the session to be, its own notes, and how it answers.
//!
//! In: a [`SessionSpec`] that the caller's wishes filled. Out: the same, changed; a [`Refusal`]
//! that stops the session before it starts; a [`Cleanup`] after it ended. Deliberately absent: the
//! order of plugins and the transaction around them, which are the chain's.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use greenroom_engine::SessionId;
pub use greenroom_engine::process::BoxFuture;
use greenroom_engine::process::ExitStatus;
use greenroom_protocol::api::ask::SessionAsk;
use greenroom_protocol::api::session::About;
use greenroom_sandbox::launch::Launch;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::JoinError;

/// One link of the chain. The built-in ones and those from outside play the same role.
pub trait SessionPlugin: Send + Sync {
    fn about(&self) -> &Description;

    /// Whether this session has anything for it to do. A plugin that was asked for by name is not
    /// asked.
    fn wanted(&self, spec: &SessionSpec) -> bool {
        spec.ask.asked().any(|name| self.about().asks.contains(&name))
    }

    /// Prepares. It records in `state` what it makes outside of `spec` *before* it makes it: if it
    /// fails or the host dies at any point, [`SessionPlugin::after_session`] with that state must
    /// be able to undo it. A plugin that makes nothing only changes `spec`, as in a dry run.
    fn before_session<'a>(
        &'a self,
        spec: &'a mut SessionSpec,
        _state: &'a mut PluginState,
    ) -> Preparing<'a> {
        self.dry_run(spec)
    }

    /// Cleans up, also after a session that never started. Called at least once, so a second call
    /// must find nothing left to do and say so. A plugin that makes nothing has nothing to clean
    /// up.
    fn after_session<'a>(
        &'a self,
        _end: &'a SessionEnd,
        _state: &'a PluginState,
    ) -> CleaningUp<'a> {
        Box::pin(std::future::ready(Ok(Cleanup::Nothing)))
    }

    /// What [`SessionPlugin::before_session`] does to `spec`, doing nothing else.
    fn dry_run<'a>(&'a self, spec: &'a mut SessionSpec) -> Preparing<'a>;
}

pub type Preparing<'a> = BoxFuture<'a, Result<(), Refusal>>;
pub type CleaningUp<'a> = BoxFuture<'a, Result<Cleanup, CleanupError>>;

/// What a session plugin says of itself: lists and order follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description {
    pub name: &'static str,
    /// For lists of plugins; `None` for a part of the host that is in none.
    pub summary: Option<&'static str>,
    /// The members of [`SessionAsk`] it answers. A session that asks for what nobody answers does
    /// not start.
    pub asks: &'static [&'static str],
    /// Lower runs earlier before a session and later after it.
    pub order: u16,
    /// Whether it makes anything on disk. Its notes are then brought to the disk, which takes
    /// milliseconds; those of others only have to outlive the host's process.
    pub durable: bool,
}

/// Shorter values are too common to be hidden.
const REDACTION_MIN_BYTES: usize = 6;

/// Variables whose values are seen all the time and hide nothing.
const PUBLIC: &[&str] = &[
    "CI",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "COLUMNS",
    "DEBUG",
    "DISPLAY",
    "EDITOR",
    "FORCE_COLOR",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LINES",
    "LOGNAME",
    "NODE_ENV",
    "NO_COLOR",
    "PAGER",
    "PATH",
    "PROMPT",
    "PS1",
    "PS2",
    "PS4",
    "PWD",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "VISUAL",
];

fn is_public(name: &OsStr) -> bool {
    let name = name.to_str().unwrap_or_default();
    PUBLIC.contains(&name) || name.starts_with("LC_") || name.starts_with("XDG_")
}

/// A session to be. What the engine needs is in `base`; the rest is for the plugins.
#[derive(Clone, Debug)]
pub struct SessionSpec {
    pub id: SessionId,
    /// Program, directory, environment without secrets, size. Its `Debug` hides the environment.
    pub base: greenroom_engine::SessionSpec,
    /// Where the caller asked to start: `base.cwd` before any plugin changed it.
    pub project_dir: PathBuf,
    /// What the caller asked for around it.
    pub ask: SessionAsk,
    /// More plugins that the caller asked for, by name.
    pub with: Vec<String>,
    /// The run this session is a worker of; its workers share a scratchpad.
    pub run: Option<String>,
    /// Variables whose values must not be seen anywhere but in the session.
    pub secrets: BTreeMap<OsString, Secret>,
    /// Values the session can read, such as in files that were brought for it, and must not show.
    pub hides: Vec<Secret>,
    /// Programs put before `base.argv`, the outermost first; each whole argv's end is the next
    /// one's program.
    pub wrappers: Vec<Vec<OsString>>,
    /// Directories a sandbox must let the session write, besides `base.cwd`.
    pub writable: Vec<PathBuf>,
    /// Files a sandbox must let the session read, although they may lie in something hidden.
    pub readable: Vec<PathBuf>,
    /// Git data of `base.cwd`, if a plugin made it a worktree.
    pub git: Option<GitPlace>,
    pub limits: Limits,
    /// What is said of it; `base.about` before any plugin changed it.
    pub about: About,
    /// Variables that plugins set: the caller's own do not replace them.
    pub claimed: BTreeSet<OsString>,
    /// What the user should know: resumed a worktree, left files out. In order.
    pub notes: Vec<String>,
    /// What plugins did to it that is neither its program, place nor variables: `timeout: 90 s`. In
    /// order.
    pub done: Vec<String>,
}

/// A worktree and where its repository keeps its data, as recorded when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitPlace {
    pub worktree: PathBuf,
    /// The repository's `.git`.
    pub common_dir: PathBuf,
    /// `<common_dir>/worktrees/<name>`.
    pub admin_dir: PathBuf,
    /// Below `refs/heads/`: what the session may move, such as `greenroom/feat-auth`.
    pub branch: String,
    /// It was there before this session.
    pub resumed: bool,
}

/// How long a session may live.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub timeout: Option<Duration>,
    /// Without output.
    pub idle_timeout: Option<Duration>,
}

/// As it is written down.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl SessionSpec {
    /// Before any plugin saw it.
    pub fn new(id: SessionId, base: greenroom_engine::SessionSpec, ask: SessionAsk) -> SessionSpec {
        SessionSpec {
            id,
            project_dir: base.cwd.clone(),
            about: About::read(&base.about),
            base,
            ask,
            with: Vec::new(),
            run: None,
            secrets: BTreeMap::new(),
            hides: Vec::new(),
            wrappers: Vec::new(),
            writable: Vec::new(),
            readable: Vec::new(),
            git: None,
            limits: Limits::default(),
            claimed: BTreeSet::new(),
            notes: Vec::new(),
            done: Vec::new(),
        }
    }

    /// Sets a variable whose value may be seen.
    pub fn set_env(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        let name = name.into();
        self.secrets.remove(&name);
        self.claimed.insert(name.clone());
        self.base.env.insert(name, value.into());
    }

    /// Sets a variable whose value must not be seen.
    pub fn set_secret(&mut self, name: impl Into<OsString>, value: Secret) {
        let name = name.into();
        self.base.env.remove(&name);
        self.secrets.insert(name, value);
    }

    pub fn unset_env(&mut self, name: impl AsRef<OsStr>) {
        self.base.env.remove(name.as_ref());
        self.secrets.remove(name.as_ref());
    }

    /// A visible variable's value.
    pub fn env(&self, name: &str) -> Option<&OsStr> {
        self.base.env.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Values that must not appear in anything that leaves the session, for whoever filters that.
    /// Short ones are left out: hiding every `1` would hide nothing and spoil everything. So are
    /// variables that are never secret, such as the prompt, which is on every line.
    pub fn redactions(&self) -> Vec<Secret> {
        let hides = |(name, secret): &(&OsString, &Secret)| {
            secret.0.len() >= REDACTION_MIN_BYTES && !is_public(name)
        };
        let given = self.secrets.iter().filter(hides).map(|(_, secret)| secret);
        let read = self.hides.iter().filter(|secret| secret.0.len() >= REDACTION_MIN_BYTES);
        given.chain(read).cloned().collect()
    }

    /// What the engine starts: wrappers before the program, secrets in the environment.
    pub fn into_engine(self) -> greenroom_engine::SessionSpec {
        let hidden = self.redactions().into_iter().map(|secret| secret.0).collect();
        let mut base = self.base;
        base.hidden = hidden;
        base.about = self.about.written();
        let program = std::mem::take(&mut base.argv);
        base.argv = self.wrappers.into_iter().flatten().chain(program).collect();
        base.env.extend(self.secrets.into_iter().map(|(name, value)| (name, value.0)));
        base
    }
}

/// What whoever starts processes is told of a session, in a sandbox or not.
pub fn launch(spec: &greenroom_engine::SessionSpec) -> Launch {
    Launch {
        argv: spec.argv.clone(),
        env: spec.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        cwd: spec.cwd.clone(),
        cols: spec.size.cols(),
        rows: spec.size.rows(),
    }
}

/// A value that must not be seen: its `Debug` hides it and it cannot be serialised.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(OsString);

impl Secret {
    pub fn new(value: impl Into<OsString>) -> Secret {
        Secret(value.into())
    }

    /// For the one who puts it into the session, and nobody else.
    pub fn reveal(&self) -> &OsStr {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// A plugin's notes about one session. They survive the host; they are never secrets.
#[derive(Default)]
pub struct PluginState {
    value: Value,
    keeper: Option<Arc<dyn KeepState>>,
}

impl fmt::Debug for PluginState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginState").field("value", &self.value).finish_non_exhaustive()
    }
}

/// Writes a plugin's notes down so that they survive the host's death.
pub trait KeepState: Send + Sync {
    fn keep(&self, value: &Value) -> Result<(), StateError>;
}

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("cannot write down what it is about to do in {}: {source}", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    #[error("its notes are not what it wrote: {0}")]
    Foreign(#[source] serde_json::Error),
    #[error("its notes cannot be written as JSON: {0}")]
    Unwritable(#[source] serde_json::Error),
}

impl PluginState {
    /// As read from a journal.
    pub fn of(value: Value) -> PluginState {
        PluginState { value, keeper: None }
    }

    /// Written through `keeper` from now on.
    pub fn kept_by(value: Value, keeper: Arc<dyn KeepState>) -> PluginState {
        PluginState { value, keeper: Some(keeper) }
    }

    /// Writes the notes down. When this returns they survive a crash.
    pub fn record(&mut self, notes: &impl Serialize) -> Result<(), StateError> {
        let value = serde_json::to_value(notes).map_err(StateError::Unwritable)?;
        if let Some(keeper) = &self.keeper {
            keeper.keep(&value)?;
        }
        self.value = value;
        Ok(())
    }

    /// What was recorded last; `None` if the plugin died before it recorded anything.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, StateError> {
        if self.value.is_null() {
            return Ok(None);
        }
        T::deserialize(&self.value).map(Some).map_err(StateError::Foreign)
    }

    pub fn value(&self) -> &Value {
        &self.value
    }
}

/// Why a session must not start. Shown to the user as one error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Refusal {
    /// Filled by the chain.
    pub plugin: String,
    /// What was attempted and on what, and why it cannot be.
    pub what: String,
    /// A command or a file that helps.
    pub hint: Option<String>,
    /// Somebody decided so; nothing is broken.
    pub denied: bool,
}

impl Refusal {
    pub fn new(what: impl Into<String>) -> Refusal {
        Refusal { plugin: String::new(), what: what.into(), hint: None, denied: false }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }
}

impl From<JoinError> for Refusal {
    fn from(died: JoinError) -> Refusal {
        Refusal::new(format!("cannot prepare the session: {died}"))
    }
}

impl From<StateError> for Refusal {
    fn from(error: StateError) -> Refusal {
        Refusal::new(error.to_string()).hint("check the space and rights of the state directory")
    }
}

/// What a plugin left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "left", rename_all = "snake_case")]
pub enum Cleanup {
    Nothing,
    Removed {
        what: String,
    },
    /// With what the user would be looking for, such as a path, and why it was not removed.
    Kept {
        what: String,
        why: String,
    },
}

/// Cleaning up did not work; it is tried again when the host starts next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct CleanupError {
    pub what: String,
}

impl CleanupError {
    pub fn new(what: impl Into<String>) -> CleanupError {
        CleanupError { what: what.into() }
    }
}

impl From<JoinError> for CleanupError {
    fn from(died: JoinError) -> CleanupError {
        CleanupError::new(format!("cannot clean up: {died}"))
    }
}

impl From<StateError> for CleanupError {
    fn from(error: StateError) -> CleanupError {
        CleanupError::new(error.to_string())
    }
}

/// The end of a session, for clean-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEnd {
    pub id: SessionId,
    pub how: EndedHow,
    pub at: SystemTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndedHow {
    /// The chain or the start failed, or the host died in between.
    NeverStarted,
    Exited(ExitStatus),
    /// A limit of time was reached.
    TimedOut(ExitStatus),
}

/// What plugins share: where things lie, and who is alive. Given to each when it is made.
#[derive(Clone)]
pub struct Surroundings {
    /// Ours alone, 0700: worktrees, scratchpads, chains.
    pub state: PathBuf,
    /// With `secrets/` in it.
    pub config: PathBuf,
    /// With the socket in it.
    pub runtime: PathBuf,
    /// The home of the user.
    pub home: PathBuf,
    pub living: Arc<dyn Living>,
}

impl Surroundings {
    /// A directory below the state directory.
    pub fn state_dir(&self, name: impl AsRef<Path>) -> PathBuf {
        self.state.join(name)
    }
}

/// Who is alive.
pub trait Living: Send + Sync {
    /// Whether the session runs or is being prepared. An unknown session is not alive.
    fn is_alive(&self, id: SessionId) -> bool;
}

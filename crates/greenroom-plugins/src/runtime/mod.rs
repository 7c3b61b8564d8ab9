//! Programs of plugins: started on pipes, asked, and ended with everything they started.
//!
//! | room | what it is |
//! |---|---|
//! | here | what a program is launched with, the running program, answers and failures |
//! | `verdict` | what an answer says |
//! | `profile` | grants to a fence, and how strong it is here |
//! | `oneshot` | one program per call |
//! | `jsonl` | a program that stays, with batches |
//! | `pipes` | lines and caps |
//!
//! In: a [`Launch`] and JSON. Out: a [`Reply`] or a [`CallFailure`], always by the deadline. A
//! [`RunningProgram`] owns a whole tree of processes: dropping it ends all of them. Deliberately
//! absent: which plugin is asked what (`host`), forks (the keeper's), and what a failure means for
//! the session (the hook's policy).

pub mod jsonl;
pub mod oneshot;
mod pipes;
pub mod profile;
pub(crate) mod verdict;

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use greenroom_engine::process::{BoxFuture, ExitStatus};
use greenroom_sandbox::plan::Plan;
use greenroom_sandbox::policy::{Level, Reach};
use serde_json::{Map, Value};

pub use verdict::{Action, Verdict};

/// One answer, unless the plugin has declared that it needs [`MAX_DECLARED_ANSWER`].
pub const MAX_ANSWER: usize = 1024 * 1024;
/// The most a plugin may declare: what one line of any of our own surfaces may be.
pub const MAX_DECLARED_ANSWER: usize = 16 * 1024 * 1024;
/// What is kept of one program's stderr: its beginning, enough for any trace of calls.
pub const MAX_STDERR: usize = 64 * 1024;
/// One request: a batch of lines is far below, and whatever is above is no question to ask a
/// program.
pub const MAX_REQUEST: usize = 16 * 1024 * 1024;

/// How to start a plugin's program. Made once per plugin and generation; cheap to clone.
#[derive(Clone)]
pub struct Launch {
    /// For messages, and for what is counted per plugin.
    pub plugin: String,
    /// `argv[0]` with a slash is a path inside the sandbox; without it is looked up in the `PATH`
    /// of `env`.
    pub argv: Vec<OsString>,
    /// Complete: nothing is inherited. May hold secrets, so it is never shown.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    /// From `profile`. Every program goes through the stage, also where nothing can be enforced.
    pub plan: Arc<Plan>,
    /// The hosts in the plan, for whoever serves the way out; `None` if it has none of its own.
    pub reach: Option<Reach>,
    pub terms: Terms,
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("plugin", &self.plugin)
            .field("program", &self.argv.first())
            .finish_non_exhaustive()
    }
}

impl Launch {
    /// Where no pid namespace holds its processes, one of ours stays to watch over them, and is
    /// asked to end them.
    pub fn watched(&self) -> bool {
        self.plan.steps.level != Level::Full
    }

    /// Plan and program in a sealed memfd. `mark` goes into the environment, to find again what has
    /// escaped.
    pub fn seal(&self, mark: (&str, &str)) -> Result<OwnedFd, LaunchError> {
        let mut env = self.env.clone();
        env.retain(|(name, _)| name != mark.0);
        env.push((mark.0.into(), mark.1.into()));
        // Without a terminal the size means nothing.
        let (argv, cwd) = (self.argv.clone(), self.cwd.clone());
        let launch = greenroom_sandbox::launch::Launch::new(argv, env, cwd, 1, 1);
        let sealed = self.plan.seal(&launch);
        sealed.map_err(|error| self.refused("sandbox plan", io::Error::other(error)))
    }

    /// The error of a start that failed at this step.
    pub fn refused(&self, step: &'static str, source: io::Error) -> LaunchError {
        let program = self.argv.first().map(|it| it.to_string_lossy().into_owned());
        let (plugin, program) = (self.plugin.clone(), program.unwrap_or_default());
        LaunchError::Spawn { plugin, program, step, source }
    }
}

/// What was agreed with the plugin about answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Exit code 2 is a veto with stderr as its reason. Native plugins only: to datawatch's it is a
    /// failure.
    pub exit_two_blocks: bool,
    /// No output at all is an answer that changes nothing. datawatch's plugins only.
    pub silence_passes: bool,
    /// The longest answer; never above [`MAX_DECLARED_ANSWER`].
    pub max_answer: usize,
}

impl Terms {
    pub const NATIVE: Terms =
        Terms { exit_two_blocks: true, silence_passes: false, max_answer: MAX_ANSWER };
    pub const DATAWATCH: Terms =
        Terms { exit_two_blocks: false, silence_passes: true, max_answer: MAX_ANSWER };
}

/// Starts programs of plugins. The daemon's asks the keeper.
pub trait Launcher: Send + Sync {
    fn launch<'a>(
        &'a self,
        launch: &'a Launch,
    ) -> BoxFuture<'a, Result<RunningProgram, LaunchError>>;
}

/// Why a program did not start.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("cannot start `{program}` of plugin {plugin}: {step}: {source}")]
    Spawn { plugin: String, program: String, step: &'static str, source: io::Error },
    #[error("cannot make pipes for plugin {plugin}: {source}")]
    Pipes { plugin: String, source: io::Error },
    #[error("cannot start plugin {plugin}: the keeper does not answer: {why}")]
    Keeper { plugin: String, why: String },
}

/// A running program and everything it started. Ends with this value.
pub struct RunningProgram {
    /// Non-blocking, ours: closing it is the end of input.
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub hold: Arc<dyn Hold>,
}

/// What a launcher can do about a program it has started. Dropping it kills all of it.
pub trait Hold: Send + Sync {
    /// Waits until the program has been reaped. May be asked more than once.
    fn exited(&self) -> BoxFuture<'_, ExitStatus>;
    /// Kills all of it. Does not wait and may be called again; a program that has ended is not an
    /// error.
    fn kill_tree(&self);
}

/// What a plugin answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The answer as it came; empty for a veto by exit code and for silence that passes.
    pub answer: Map<String, Value>,
    /// The program ended with the code that vetoes: what it printed on stderr.
    pub veto: Option<String>,
    /// The beginning of what it printed on stderr, at most [`MAX_STDERR`]. Not for clients: it may
    /// quote what was asked.
    pub stderr: String,
    pub took: Duration,
}

impl Reply {
    /// What it says. An action nobody knows is a failure, never a pass.
    pub fn verdict(&self) -> Result<Verdict, CallFailure> {
        match &self.veto {
            Some(reason) => Ok(Verdict::block(reason)),
            None => Verdict::read(&self.answer),
        }
    }
}

/// Why there is no answer. Each counts as a failure of the plugin; the hook's policy says what
/// follows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    #[error("{0}")]
    Launch(String),
    #[error("did not answer within {} ms", .0.as_millis())]
    Deadline(Duration),
    #[error("{calls} calls of plugin {plugin} are under way: it got no turn before the deadline")]
    NoTurn { plugin: String, calls: usize },
    /// What it said on stderr is not part of the sentence: it may quote what it was asked.
    #[error("ended with {status} without an answer")]
    Died { status: String, stderr: String },
    #[error("closed its output without an answer")]
    NoAnswer { stderr: String },
    #[error("answered more than {limit} bytes in one line")]
    TooLong { limit: usize },
    #[error("answered what is not a JSON object: {why}")]
    Malformed { why: String },
    #[error("answered with the unknown action `{0}`")]
    UnknownAction(String),
    #[error("is not allowed {0}")]
    NotAllowed(String),
    #[error("reported an error: {0}")]
    Reported(String),
    #[error("has not read its input for {} ms", .0.as_millis())]
    Stalled(Duration),
    #[error("printed more than {limit} lines in a minute that are no answers")]
    Junk { limit: usize },
    #[error("the request is {bytes} bytes, the limit is {limit}")]
    RequestTooLong { bytes: usize, limit: usize },
    #[error("was stopped")]
    Stopped,
}

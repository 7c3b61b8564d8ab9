//! The role the engine needs played by whoever owns processes.
//!
//! The engine never forks, signals or reaps. The daemon hands it an
//! implementation that asks the keeper.

use std::fmt;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;

use crate::id::SessionId;
use crate::journal::RingFds;
use crate::spec::SessionSpec;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A child on its PTY, as the keeper holds it.
#[derive(Debug)]
pub struct Held {
    pub pid: u32,
    pub master: OwnedFd,
    pub ring: RingFds,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Code(i32),
    Signal(i32),
    /// It ended while nobody who could know the status was alive.
    Unknown,
}

impl ExitStatus {
    #[must_use]
    pub fn success(self) -> bool {
        self == ExitStatus::Code(0)
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitStatus::Code(code) => write!(f, "status {code}"),
            ExitStatus::Signal(signal) => write!(f, "signal {signal}"),
            ExitStatus::Unknown => f.write_str("status unknown"),
        }
    }
}

/// Whom a signal is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Leader,
    /// The terminal's foreground process group: what Ctrl-C would reach.
    Foreground,
    /// Everything the session started, whatever group or session it moved to.
    Tree,
}

#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error("cannot start `{program}`: {step}: {source}")]
    Spawn { program: String, step: &'static str, source: std::io::Error },
    #[error("cannot signal session {id}: {source}")]
    Signal { id: SessionId, source: std::io::Error },
    #[error("the keeper does not answer: {0}")]
    Keeper(String),
}

/// Marks everything a session starts, with a word of its own.
pub const KEY_VARIABLE: &str = "GREENROOM_SESSION_KEY";

/// What is needed to find a session's processes.
#[derive(Clone, Debug)]
pub struct Member {
    pub id: SessionId,
    pub pid: u32,
    /// The word in [`KEY_VARIABLE`]; finds strays that left the tree.
    pub key: String,
}

pub trait Processes: Send + Sync {
    fn spawn<'a>(
        &'a self,
        id: SessionId,
        spec: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<Held, ProcessError>>;

    fn signal<'a>(
        &'a self,
        member: &'a Member,
        target: Target,
        signal: i32,
    ) -> BoxFuture<'a, Result<(), ProcessError>>;

    /// The exit the keeper told of a session that is not released yet: it may
    /// have come before the engine had entered the session.
    fn early_exit(&self, id: SessionId) -> Option<ExitStatus>;

    /// How many processes of the session live, also after its program has ended.
    fn alive<'a>(&'a self, member: &'a Member) -> BoxFuture<'a, usize>;

    /// Who is left of the session, in words for people.
    fn left<'a>(&'a self, _member: &'a Member) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async { Vec::new() })
    }

    /// The session is drained and recorded: the keeper may forget it.
    fn release(&self, id: SessionId);
}

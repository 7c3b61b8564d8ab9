//! The role of a plugin's program for the host: somebody who answers.
//!
//! In: requests with deadlines. Out: a reply or a failure, always. The real ones are in `programs`;
//! tests bring their own.

use std::sync::Arc;
use std::time::Duration;

use greenroom_engine::SessionId;
use greenroom_formats::manifest::Runtime;
use serde_json::{Map, Value};

use super::catalog::Found;
use crate::runtime::{BoxFuture, CallFailure, Reply};

/// What a program is asked.
pub(crate) struct Request<'a> {
    pub session: Option<SessionId>,
    pub fields: Map<String, Value>,
    /// Many lines that the fields are about, all in one request.
    pub lines: Option<&'a [&'a str]>,
    pub deadline: Duration,
}

/// One runtime of one plugin.
pub(crate) trait Program: Send + Sync {
    /// `None` from one that takes lines one by one and was given many: nothing was asked then.
    fn ask<'a>(&'a self, request: Request<'a>)
    -> BoxFuture<'a, Result<Option<Reply>, CallFailure>>;

    /// Known to take lines one by one.
    fn one_by_one(&self) -> bool;

    /// Whether its program runs.
    fn condition(&self) -> Condition {
        Condition::Down
    }

    /// It did not answer for a while: the next call shall find a fresh program.
    fn hung(&self) {}

    /// The session has ended: a program of its own can go.
    fn forget(&self, _session: SessionId) {}

    /// How strongly its program is held, once that is known.
    fn level(&self) -> Option<&'static str>;

    /// Finds out whether it could be started; with `start`, starts it if it is one that stays.
    fn wake(&self, start: bool) -> BoxFuture<'_, Result<(), CallFailure>>;

    /// Ends its programs. Calls under way fail.
    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Opens programs.
pub(crate) trait Programs: Send + Sync {
    /// Starts nothing. Fails where such a runtime cannot be had at all.
    fn open(
        &self,
        found: &Arc<Found>,
        runtime: &Runtime,
        events: ProgramEvents,
    ) -> Result<Arc<dyn Program>, String>;
}

/// What a program does between calls.
pub(crate) enum ProgramEvent<'a> {
    /// Its condition may have changed.
    Changed(Option<String>),
    Stderr(&'a str),
    Restarted,
}

/// Is told what a program does between calls. Must not block.
pub(crate) type ProgramEvents = Arc<dyn Fn(ProgramEvent<'_>) + Send + Sync>;

/// Whether a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Condition {
    /// Not now; it starts when it is asked.
    Down,
    Up,
    Spawning,
    /// It ended and is not started again before a while.
    Backoff,
    /// It ended too often.
    Quarantined,
}

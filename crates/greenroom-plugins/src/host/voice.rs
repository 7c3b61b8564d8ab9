//! The role of a plugin's program for the host: somebody who answers.
//!
//! In: requests with deadlines. Out: a reply or a failure, always. The real ones are in `programs`; tests bring their own.

use std::sync::Arc;
use std::time::Duration;

use greenroom_engine::SessionId;
use greenroom_protocol::manifest::Runtime;
use serde_json::Value;

use super::supply::Found;
use crate::runtime::{CallFailure, Reply};
use crate::spec::Wait;

/// One runtime of one plugin.
pub(crate) trait Voice: Send + Sync {
    fn call(
        &self,
        session: Option<SessionId>,
        request: Value,
        deadline: Duration,
    ) -> Wait<'_, Result<Reply, CallFailure>>;

    /// Known to take lines one by one.
    fn one_by_one(&self) -> bool;

    /// Many lines at once. `None` from one that takes them one by one: nothing was asked then.
    fn batch<'a>(
        &'a self,
        session: SessionId,
        request: Value,
        items: &'a [&'a str],
        deadline: Duration,
    ) -> Wait<'a, Result<Option<Reply>, CallFailure>>;

    /// Whether its program runs.
    fn condition(&self) -> Condition;

    /// It did not answer for a while: the next call shall find a fresh program.
    fn hung(&self);

    /// The session has ended: a program of its own can go.
    fn forget(&self, session: SessionId);

    /// How strongly its program is held, once that is known.
    fn level(&self) -> Option<&'static str>;

    /// Finds out whether it could be started; with `start`, starts it if it is one that stays.
    fn wake(&self, start: bool) -> Wait<'_, Result<(), CallFailure>>;

    /// Ends its programs. Calls under way fail.
    fn stop(&self) -> Wait<'_, ()>;
}

/// Opens voices.
pub(crate) trait Voices: Send + Sync {
    /// Starts nothing. Fails where such a runtime cannot be had at all.
    fn open(
        &self,
        found: &Arc<Found>,
        runtime: &Runtime,
        ear: Arc<dyn Ear>,
    ) -> Result<Arc<dyn Voice>, String>;
}

/// Hears what a voice does between calls. Must not block.
pub(crate) trait Ear: Send + Sync {
    /// Its condition may have changed.
    fn changed(&self, why: Option<String>);

    fn stderr(&self, text: &str);

    fn restarted(&self);
}

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

//! The clock of a session: how long it may live, and how long without output.
//!
//! Counted on the wall clock from the program's start, which is kept with the chain, so a new
//! daemon goes on counting. At nine tenths of the time a warning, at the limit TERM to everything
//! the session started, a grace, then KILL. Nobody is woken by output: the time of the last output
//! is looked at when the idle limit may have been reached.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use greenroom_engine::SessionHandle;
use greenroom_engine::session::Ladder;
use greenroom_protocol::events::{Payload, SessionExpiring, SessionTimedOut};
use greenroom_workspace::spec::{Limits, millis};
use tokio::task::AbortHandle;

use super::Sessions;
use crate::events::about;
use crate::hooks;

/// Between TERM and KILL: an agent may have something to save.
const GRACE: Duration = Duration::from_secs(10);

const SIGTERM: i32 = 15;

/// Looked at again after this long at the latest: the wall clock may be set meanwhile.
const LOOK: Duration = Duration::from_secs(30);

/// Starts the clock, if the session has limits.
pub(crate) fn watch(sessions: &Arc<Sessions>, handle: &SessionHandle) -> Option<AbortHandle> {
    let file = sessions.chains.look(handle.id())?;
    let limits = file.limits();
    if limits == Limits::default() {
        return None;
    }
    let started = file.started_at().unwrap_or_else(|| handle.info().record.created);
    let clock = Clock { sessions: sessions.clone(), handle: handle.clone(), limits, started };
    Some(tokio::spawn(clock.run()).abort_handle())
}

struct Clock {
    sessions: Arc<Sessions>,
    handle: SessionHandle,
    limits: Limits,
    started: SystemTime,
}

/// The next thing to happen.
#[derive(Debug, PartialEq)]
struct Due {
    at: SystemTime,
    limit: &'static str,
    what: What,
}

#[derive(Debug, PartialEq)]
enum What {
    Warn { left: Duration },
    End,
}

impl Clock {
    async fn run(self) {
        // A warning that fell due before we came was given by an earlier daemon.
        let mut warned = SystemTime::now();
        loop {
            let now = SystemTime::now();
            let last = self.handle.info().last_output.unwrap_or(self.started);
            let Some(due) = next(self.limits, self.started, last, warned) else { return };
            match due.at.duration_since(now) {
                Ok(left) if !left.is_zero() => tokio::time::sleep(left.min(LOOK)).await,
                _ => match due.what {
                    What::Warn { left } => {
                        warned = due.at;
                        self.say(due.limit, Some(left));
                    }
                    What::End => {
                        self.say(due.limit, None);
                        self.sessions.chains.timed_out(self.handle.id());
                        // On a task of its own: the end of the session ends this one.
                        tokio::spawn(end(self.handle));
                        return;
                    }
                },
            }
        }
    }

    fn say(&self, limit: &str, left: Option<Duration>) {
        let id = self.handle.id();
        let left_ms = left.map(millis);
        let limit_name = limit.to_owned();
        let event: Payload = match left_ms {
            Some(left_ms) => SessionExpiring { limit: limit_name, left_ms }.into(),
            None => SessionTimedOut { limit: limit_name }.into(),
        };
        tracing::info!(session = %id, limit, kind = event.kind, "the clock of a session");
        self.sessions.storage.log(about(id, event));
        if let Some(left) = left {
            hooks::expiring(&self.sessions.hooks, &self.handle, limit, left);
        }
    }
}

async fn end(handle: SessionHandle) {
    let ladder = Ladder { signal: Some(SIGTERM), grace: GRACE, ..Ladder::default() };
    if let Err(error) = handle.kill(ladder).await {
        tracing::debug!(session = %handle.id(), %error, "ending a session in time");
    }
}

/// What falls due next. Warnings up to `warned` have been given.
fn next(
    limits: Limits,
    started: SystemTime,
    last_output: SystemTime,
    warned: SystemTime,
) -> Option<Due> {
    let of = |limit: Option<Duration>, from: SystemTime, name: &'static str| {
        let limit = limit?;
        let end = from.checked_add(limit)?;
        let warning = from.checked_add(limit.mul_f64(0.9))?;
        Some(match warning > warned {
            true => Due { at: warning, limit: name, what: What::Warn { left: limit.mul_f64(0.1) } },
            false => Due { at: end, limit: name, what: What::End },
        })
    };
    let idle_from = last_output.max(started);
    [of(limits.timeout, started, "timeout"), of(limits.idle_timeout, idle_from, "idle_timeout")]
        .into_iter()
        .flatten()
        .min_by_key(|due| due.at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_warning_then_the_end() {
        let limits = Limits { timeout: Some(Duration::from_secs(100)), idle_timeout: None };
        let due = next(limits, at(1000), at(1000), at(1000)).unwrap();
        let left = Duration::from_secs(10);
        assert_eq!(due, Due { at: at(1090), limit: "timeout", what: What::Warn { left } });
        let due = next(limits, at(1000), at(1000), at(1090)).unwrap();
        assert_eq!(due, Due { at: at(1100), limit: "timeout", what: What::End });
    }

    #[test]
    fn output_puts_the_idle_limit_off_and_not_the_other() {
        let limits = Limits {
            timeout: Some(Duration::from_secs(1000)),
            idle_timeout: Some(Duration::from_secs(100)),
        };
        let due = next(limits, at(1000), at(1050), at(1200)).unwrap();
        assert_eq!((due.at, due.limit, due.what), (at(1150), "idle_timeout", What::End));
        let due = next(limits, at(1000), at(1990), at(1991)).unwrap();
        assert_eq!((due.at, due.limit), (at(2000), "timeout"));
        assert_eq!(next(Limits::default(), at(1), at(1), at(1)), None);
    }
}

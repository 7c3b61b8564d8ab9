//! Ending a session, step by step, with everything it started.

use std::time::Duration;

use tokio::time::Instant;

use crate::error::EngineError;
use crate::process::{ExitStatus, Member, Target};
use crate::session::SessionHandle;

pub(super) const SIGHUP: i32 = 1;
pub(super) const SIGKILL: i32 = 9;
pub(super) const SIGTERM: i32 = 15;

/// How long each rung is given before the next.
#[derive(Clone, Copy, Debug)]
pub struct Ladder {
    /// Sent first instead of HUP and TERM.
    pub signal: Option<i32>,
    /// HUP is what closing a terminal sends; shells go at once.
    pub after_hangup: Duration,
    pub grace: Duration,
}

impl Default for Ladder {
    fn default() -> Ladder {
        Ladder {
            signal: None,
            after_hangup: Duration::from_millis(500),
            grace: Duration::from_secs(5),
        }
    }
}

/// After KILL only the kernel is in the way (a process in disk wait).
const AFTER_KILL: Duration = Duration::from_secs(5);

/// Strays are looked for again this often while a rung lasts.
const LOOK: Duration = Duration::from_millis(25);

impl SessionHandle {
    /// Ends the session and its whole tree, or what an ended one has left; answers when nothing is
    /// left.
    pub async fn kill(&self, ladder: Ladder) -> Result<ExitStatus, EngineError> {
        let Some(member) = self.shared.member() else { return Err(self.ended_error("kill")) };
        let processes = &self.shared.parts.processes;
        if self.change().ended.is_some() && processes.alive(&member).await == 0 {
            return Err(self.ended_error("kill"));
        }
        let rungs = match ladder.signal {
            Some(SIGKILL) => vec![(SIGKILL, AFTER_KILL)],
            Some(signal) => vec![(signal, ladder.grace), (SIGKILL, AFTER_KILL)],
            None => {
                vec![(SIGHUP, ladder.after_hangup), (SIGTERM, ladder.grace), (SIGKILL, AFTER_KILL)]
            }
        };
        for (signal, patience) in rungs {
            let sent = processes.signal(&member, Target::Tree, signal).await;
            if let Err(error) = sent {
                tracing::debug!(session = %self.id(), signal, %error, "a rung of the ladder");
            }
            if self.all_gone(&member, Instant::now() + patience).await {
                break;
            }
        }
        let mut left = processes.left(&member).await;
        if !left.is_empty() && self.change().ended.is_some() {
            return Err(EngineError::WillNotDie { id: self.id(), left });
        }
        let mut changes = self.changes();
        let ended = changes.wait_for(|change| change.ended.is_some() || change.closed);
        match tokio::time::timeout(AFTER_KILL, ended).await {
            Ok(Ok(change)) => change.ended.ok_or(EngineError::Gone { id: self.id() }),
            Ok(Err(_)) => Err(EngineError::Gone { id: self.id() }),
            Err(_) => {
                if left.is_empty() {
                    left.push(format!("pid {}", member.pid));
                }
                Err(EngineError::WillNotDie { id: self.id(), left })
            }
        }
    }

    async fn all_gone(&self, member: &Member, deadline: Instant) -> bool {
        let mut changes = self.changes();
        loop {
            let ended = self.change().ended.is_some();
            if ended && self.shared.parts.processes.alive(member).await == 0 {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            let pause = tokio::time::sleep_until((Instant::now() + LOOK).min(deadline));
            tokio::select! {
                _ = changes.changed(), if !ended => {}
                () = pause => {}
            }
        }
    }
}

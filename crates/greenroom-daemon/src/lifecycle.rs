//! The end of the daemon: who may ask for it, and what happens in which order.
//!
//! Three ends. *Stop* (SIGTERM, from a person or from a keeper that was told to stop): stop
//! accepting, flush, exit; the keeper then starts a successor or ends everything, as it was told.
//! *Upgrade*: the same, with the code that asks for a successor at once. *Shutdown*:
//! end every session first, then exit for good. A SIGKILL at any point loses nothing: that is the
//! journal's and the keeper's work, not this room's.

use std::time::Duration;

use tokio::sync::watch;

/// Why the daemon ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Somebody sent SIGTERM.
    Stop,
    /// A new program takes over.
    Upgrade,
    /// Everything ends; sessions get this long between TERM and KILL.
    Shutdown { grace: Duration },
    /// The keeper is gone: nobody would ever restart us or hold the sessions.
    Orphaned,
}

/// Asks for the end and waits for it. Cheap to share.
pub(crate) struct Life {
    ending: watch::Sender<Option<Ending>>,
    /// The same, once no connection is accepted any more. A client that is sent away comes back at
    /// once, and must find the next daemon.
    leaving: watch::Sender<Option<Ending>>,
}

/// Waits for the end to begin.
pub(crate) struct Stopping(watch::Receiver<Option<Ending>>);

impl Default for Life {
    fn default() -> Life {
        Life { ending: watch::Sender::new(None), leaving: watch::Sender::new(None) }
    }
}

impl Life {
    /// Begins the end. The first reason stays, except that a shutdown overrides the others: the
    /// sessions must not be left running by a race.
    pub(crate) fn end(&self, why: Ending) -> bool {
        self.ending.send_if_modified(|ending| {
            let first = ending.is_none();
            let overrides = matches!(why, Ending::Shutdown { .. })
                && !matches!(ending, Some(Ending::Shutdown { .. }));
            if first || overrides {
                *ending = Some(why);
            }
            first || overrides
        })
    }

    pub(crate) fn ending(&self) -> Option<Ending> {
        *self.ending.borrow()
    }

    /// For whoever accepts connections: the end has begun.
    pub(crate) fn stopping(&self) -> Stopping {
        Stopping(self.ending.subscribe())
    }

    /// No connection is accepted any more: those there are may end.
    pub(crate) fn stopped_accepting(&self) {
        self.leaving.send_replace(self.ending().or(Some(Ending::Stop)));
    }

    /// For connections: the end has begun, and no other is accepted.
    pub(crate) fn leaving(&self) -> Stopping {
        Stopping(self.leaving.subscribe())
    }
}

impl Stopping {
    pub(crate) async fn wait(&mut self) {
        self.reason().await;
    }

    pub(crate) async fn reason(&mut self) -> Ending {
        match self.0.wait_for(Option::is_some).await {
            Ok(ending) => ending.expect("waited for"),
            // The host itself is gone.
            Err(_) => Ending::Stop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_reason_stays_and_a_shutdown_overrides() {
        let life = Life::default();
        let mut waiting = life.stopping();
        assert!(life.end(Ending::Stop));
        assert!(!life.end(Ending::Upgrade));
        assert_eq!(waiting.reason().await, Ending::Stop);
        let grace = Duration::from_secs(1);
        assert!(life.end(Ending::Shutdown { grace }));
        assert!(!life.end(Ending::Shutdown { grace: Duration::ZERO }));
        assert_eq!(life.ending(), Some(Ending::Shutdown { grace }));
    }
}

//! When an actor wants to be woken without anything happening to it.
//!
//! An idle session has none of these set: it costs no wake-up at all.

use tokio::time::Instant;

#[derive(Default)]
pub(super) struct Timers {
    /// In a flood the screen is fed now and then.
    pub feed: Option<Instant>,
    /// The screen is put to sleep.
    pub sleep: Option<Instant>,
    /// Readers of the screen have waited long enough for a synchronized update to end.
    pub sync: Option<Instant>,
    /// Viewers who are sent pictures get the next one.
    pub paint: Option<Instant>,
    /// Marks that came too fast are told.
    pub marks: Option<Instant>,
    /// The leader has exited, and its last words are over.
    pub exit: Option<Instant>,
    /// A terminal that nobody had open, or that failed, is read again.
    pub reopen: Option<Instant>,
    /// No timer: when pictures were last sent.
    pub painted: Option<Instant>,
}

impl Timers {
    pub(super) fn next(&self) -> Option<Instant> {
        [self.feed, self.sleep, self.sync, self.paint, self.marks, self.exit, self.reopen]
            .into_iter()
            .flatten()
            .min()
    }
}

/// Whether it is time; the timer is off then.
pub(super) fn due(timer: &mut Option<Instant>, now: Instant) -> bool {
    timer.take_if(|at| *at <= now).is_some()
}

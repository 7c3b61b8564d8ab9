//! When an actor wants to be woken without anything happening to it.
//!
//! An idle session has none of these set: it costs no wake-up at all.

use tokio::time::Instant;

#[derive(Default)]
pub(super) struct Timers {
    pub feed: Option<Instant>,
    pub sleep: Option<Instant>,
    pub sync: Option<Instant>,
    pub paint: Option<Instant>,
    pub painted: Option<Instant>,
    pub marks: Option<Instant>,
    pub exit: Option<Instant>,
    pub reopen: Option<Instant>,
}

impl Timers {
    pub fn next(&self) -> Option<Instant> {
        [self.feed, self.sleep, self.sync, self.paint, self.marks, self.exit, self.reopen]
            .into_iter()
            .flatten()
            .min()
    }
}

pub(super) fn due(timer: &mut Option<Instant>, now: Instant) -> bool {
    if timer.is_some_and(|at| at <= now) {
        *timer = None;
        return true;
    }
    false
}

pub(super) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

//! Namespaces made in advance, for the next sandboxed session.
//!
//! In: a sandboxed session that runs, so that another is likely. Out: the end of a socket in which
//! a user and a network namespace wait (`greenroom_sandbox::stage`), handed to the next stage and
//! never looked at here. At most one waits. It is made a moment after the start that used the last
//! one up, so that no start waits for it. Absent on purpose: any promise; a stage that finds none
//! makes its own.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use crate::launch::{Become, ChildSpec, Starter, Stdio, launch};
use crate::link::Endpoint;

/// The program that has just been started, and whoever waits for it, come first.
const LATER: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub(crate) struct ReadyNamespaces {
    waiting: Option<Endpoint>,
    due: Option<Instant>,
    /// Who made the last one, or is at it.
    maker: i32,
}

impl ReadyNamespaces {
    pub(crate) fn want(&mut self) {
        if self.waiting.is_none() && self.due.is_none() {
            self.due = Some(Instant::now() + LATER);
        }
    }

    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    pub(crate) fn is_made_by(&self, pid: i32) -> bool {
        self.maker == pid
    }

    pub(crate) fn take(&mut self) -> Option<Endpoint> {
        self.waiting.take()
    }

    /// Not wanted any more.
    pub(crate) fn forget(&mut self) {
        *self = ReadyNamespaces::default();
    }

    /// Lets a child make one, if it is time. If anything goes wrong, there is none.
    pub(crate) fn make_on_time(&mut self, now: Instant, starter: &Starter<'_>) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        let Ok((ours, theirs)) = Endpoint::pair() else { return };
        let spec = ChildSpec {
            child: Become::Namespaces(starter.stages),
            stdio: Stdio::Inherit,
            pass: &[theirs.as_fd()],
            nofile: Some(starter.nofile),
            expendable: false,
        };
        // Reaped like any orphan: its end says nothing that the socket does not.
        if let Ok(launched) = launch(&spec, starter.slots) {
            self.waiting = Some(ours);
            self.maker = launched.pid;
        }
    }
}

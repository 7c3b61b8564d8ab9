//! Namespaces made in advance, for the next sandboxed session.
//!
//! In: a sandboxed session that runs, so that another is likely. Out: the end of a socket in which a user and a network
//! namespace wait (`greenroom_sandbox::stage`), handed to the next stage and never looked at here. At most one waits. It is
//! made a moment after the start that used the last one up, so that no start waits for it. Absent on purpose: any promise;
//! a stage that finds none makes its own.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::launch::{Become, Plan, Stdio, launch};
use crate::staging::Starter;

/// The program that has just been started, and whoever waits for it, come first.
const LATER: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub(crate) struct Spare {
    waiting: Option<OwnedFd>,
    due: Option<Instant>,
    /// Who made the last one, or is at it.
    maker: i32,
}

impl Spare {
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

    pub(crate) fn take(&mut self) -> Option<OwnedFd> {
        self.waiting.take()
    }

    /// Not wanted any more.
    pub(crate) fn forget(&mut self) {
        *self = Spare::default();
    }

    /// Lets a child make one, if it is time. Whatever goes wrong: there is none.
    pub(crate) fn make_on_time(&mut self, now: Instant, starter: &Starter<'_>) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let Ok((ours, theirs)) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)
        else {
            return;
        };
        let plan = Plan {
            child: Become::Spare(starter.stages),
            stdio: Stdio::Inherit,
            pass: &[theirs.as_fd()],
            cgroup: None,
            nofile: Some(starter.nofile),
            expendable: false,
        };
        // Reaped like any orphan: its end says nothing that the socket does not.
        if let Ok(launched) = launch(&plan, starter.slots) {
            self.waiting = Some(ours);
            self.maker = launched.pid;
        }
    }
}

//! Messages on their way to the daemon. The keeper never blocks on the link: what does not fit
//! waits here.
//!
//! In: messages. Out: datagrams, as fast as the daemon reads. Fds are looked up when a message is
//! sent, so waiting holds none open. Bounded: over `HIGH_WATER` the loop stops reading requests, so
//! only exits are added, one per session.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};

use greenroom_sandbox::wire::Wire;
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::link::Endpoint;
use crate::message::ToDaemon;
use crate::piped::PipedPrograms;
use crate::sessions::{Sessions, fds_of};

/// Waiting answers at which no further request is read.
pub(crate) const HIGH_WATER: usize = 256;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    Empty,
    /// Go on when the socket is writable.
    Full,
    /// Too many fds are in flight; nothing signals the end of that, so try again soon.
    TooManyFds,
    /// The daemon is gone; what waited is dropped. The next one asks with `List`.
    Gone,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<ToDaemon>,
}

impl Outbox {
    pub(crate) fn push(&mut self, message: ToDaemon) {
        self.waiting.push_back(message);
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn takes_requests(&self) -> bool {
        self.waiting.len() < HIGH_WATER
    }

    pub(crate) fn flush(
        &mut self,
        link: &Endpoint,
        sessions: &Sessions,
        piped: &PipedPrograms,
    ) -> Flush {
        while let Some(message) = self.waiting.front_mut() {
            let Some(fds) = attach(message, sessions, piped) else {
                self.waiting.pop_front();
                continue;
            };
            match link.send(&message.encode(), &fds, SendFlags::DONTWAIT) {
                Ok(()) => {
                    self.waiting.pop_front();
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Flush::Full,
                Err(Errno::TOOMANYREFS | Errno::NOBUFS | Errno::NOMEM) => {
                    return Flush::TooManyFds;
                }
                Err(_) => {
                    self.clear();
                    return Flush::Gone;
                }
            }
        }
        Flush::Empty
    }
}

/// The fds of a message. Sessions released meanwhile leave a `Taken`; a `Spawned` without its
/// session is not sent.
fn attach<'a>(
    message: &mut ToDaemon,
    sessions: &'a Sessions,
    piped: &'a PipedPrograms,
) -> Option<Vec<BorrowedFd<'a>>> {
    match message {
        // A worker that has ended meanwhile needs no proxy; what it printed is in its pipes.
        ToDaemon::PipedStarted { id, listener, .. } => {
            let socket = piped.listener(*id).filter(|_| listener.is_some());
            *listener = socket.map(drop);
            Some(socket.into_iter().collect())
        }
        ToDaemon::Spawned { id, .. } => Some(fds_of(sessions.get(*id)?).to_vec()),
        ToDaemon::Listener { id, .. } => Some(vec![sessions.get(*id)?.listener.as_ref()?.as_fd()]),
        ToDaemon::Taken { sessions: taken } => {
            // Not those whose terminal is still to come; they are told when it does.
            taken.retain(|(id, ())| sessions.get(*id).is_some());
            let held = taken.iter().filter_map(|(id, ())| sessions.get(*id));
            Some(held.flat_map(fds_of).collect())
        }
        _ => Some(Vec::new()),
    }
}

//! The table of held sessions: id → process, fds, state.
//!
//! In: started children, status pipes that became readable, exits. Out: entries for `Sessions`, fds for `Taken`. A session
//! stays until `release`, whatever happens to its process, so that an exit can be told to the next daemon too. Absent on
//! purpose: names, sizes, anything a session means.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd};

use crate::launch::{Fault, Progress, Status};
use crate::link::{FDS_PER_SESSION, SessionFds};
use crate::message::{ExitStatus, SessionEntry, SessionId, SessionState};

/// Four fds each: 16,384 fds, and less than 2 MiB of table.
pub(crate) const MAX_SESSIONS: usize = 4096;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) pid: i32,
    pub(crate) fds: SessionFds,
    pub(crate) phase: Phase,
}

#[derive(Debug)]
pub(crate) enum Phase {
    Starting(Status),
    Running,
    Exited(ExitStatus),
}

/// What a look at a starting session brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    NotYet,
    Spawned { pid: i32 },
    Failed(Fault),
}

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    held: BTreeMap<SessionId, Session>,
    /// Processes that have not been reaped. A reaped pid may belong to anybody.
    by_pid: HashMap<i32, SessionId>,
    starting: Vec<SessionId>,
}

impl Sessions {
    pub(crate) fn insert(&mut self, id: SessionId, session: Session) {
        match session.phase {
            Phase::Starting(_) => self.starting.push(id),
            Phase::Running | Phase::Exited(_) => {}
        }
        if !matches!(session.phase, Phase::Exited(_)) {
            self.by_pid.insert(session.pid, id);
        }
        self.held.insert(id, session);
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn contains(&self, id: SessionId) -> bool {
        self.held.contains_key(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.held.iter().map(|(id, session)| (*id, session))
    }

    /// The leader's pid, while it is certainly still that process.
    pub(crate) fn live_pid(&self, id: SessionId) -> Option<i32> {
        let session = self.held.get(&id)?;
        (!matches!(session.phase, Phase::Exited(_))).then_some(session.pid)
    }

    pub(crate) fn live_pids(&self) -> Vec<i32> {
        self.by_pid.keys().copied().collect()
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.held.get(&id)
    }

    pub(crate) fn starting(&self) -> impl Iterator<Item = (SessionId, BorrowedFd<'_>)> {
        self.starting.iter().filter_map(|id| match &self.held.get(id)?.phase {
            Phase::Starting(status) => Some((*id, status.as_fd())),
            _ => None,
        })
    }

    /// Reads the status pipe of a starting session. A failed one is gone afterwards.
    pub(crate) fn settle(&mut self, id: SessionId) -> Settled {
        let Some(session) = self.held.get_mut(&id) else {
            return Settled::NotYet;
        };
        let Phase::Starting(status) = &session.phase else {
            return Settled::NotYet;
        };
        let progress = status.poll();
        if progress == Progress::Pending {
            return Settled::NotYet;
        }
        self.starting.retain(|other| *other != id);
        if let Progress::Failed(fault) = progress {
            self.by_pid.remove(&session.pid);
            self.held.remove(&id);
            return Settled::Failed(fault);
        }
        session.phase = Phase::Running;
        Settled::Spawned { pid: session.pid }
    }

    pub(crate) fn by_pid(&self, pid: i32) -> Option<SessionId> {
        self.by_pid.get(&pid).copied()
    }

    /// Notes the end of a reaped process. `settle` comes first, so that a failed start is never an exit.
    pub(crate) fn exited(&mut self, pid: i32, status: ExitStatus) -> Option<SessionId> {
        let id = self.by_pid.remove(&pid)?;
        let session = self.held.get_mut(&id)?;
        session.phase = Phase::Exited(status);
        self.starting.retain(|other| *other != id);
        Some(id)
    }

    /// Forgets an ended session and closes its fds. `false` while its process lives, or if it is not held.
    pub(crate) fn release(&mut self, id: SessionId) -> bool {
        let ended =
            self.held.get(&id).is_some_and(|session| matches!(session.phase, Phase::Exited(_)));
        ended && self.held.remove(&id).is_some()
    }

    pub(crate) fn entries(&self) -> Vec<SessionEntry> {
        self.iter()
            .map(|(id, session)| SessionEntry {
                id,
                pid: session.pid,
                state: match &session.phase {
                    Phase::Starting(_) => SessionState::Starting,
                    Phase::Running => SessionState::Running,
                    Phase::Exited(status) => SessionState::Exited(*status),
                },
            })
            .collect()
    }
}

/// In the order of the wire.
pub(crate) fn fds_of(session: &Session) -> [BorrowedFd<'_>; FDS_PER_SESSION] {
    let fds = &session.fds;
    [fds.master.as_fd(), fds.pipe_read.as_fd(), fds.pipe_write.as_fd(), fds.ring.as_fd()]
}

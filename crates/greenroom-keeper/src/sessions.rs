//! The table of held sessions: id → process, fds, state.
//!
//! In: started children, status pipes that became readable, exits. Out: entries for `Sessions`, fds for `Taken`. A session
//! stays until `release`, whatever happens to its process, so that an exit can be told to the next daemon too. Absent on
//! purpose: names, sizes, anything a session means.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use crate::launch::{Fault, Progress, Status};
use crate::link::{FDS_PER_SESSION, SessionFds};
use crate::message::{ExitStatus, SessionEntry, SessionId, SessionState};
use crate::staging::{Inside, Staged, Staging};

/// Four fds each: 16,384 fds, and less than 2 MiB of table.
pub(crate) const MAX_SESSIONS: usize = 4096;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) pid: i32,
    pub(crate) fds: SessionFds,
    pub(crate) phase: Phase,
    /// The program, if it runs in a sandbox: `pid` is then the stage around it.
    pub(crate) inner: Option<OwnedFd>,
    /// Where the sandbox's programs look for the proxy.
    pub(crate) listener: Option<OwnedFd>,
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
    Spawned {
        pid: i32,
    },
    /// With words, if errno alone does not tell.
    Failed(Fault, String),
}

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    held: BTreeMap<SessionId, Session>,
    /// Processes that have not been reaped. A reaped pid may belong to anybody.
    by_pid: HashMap<i32, SessionId>,
    starting: Vec<SessionId>,
    /// Sandboxes in the making. They become `held` when their program runs.
    staging: BTreeMap<SessionId, Staging>,
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

    pub(crate) fn insert_staging(&mut self, id: SessionId, staging: Staging) {
        self.by_pid.insert(staging.pid, id);
        self.staging.insert(id, staging);
    }

    pub(crate) fn is_staging(&self) -> bool {
        !self.staging.is_empty()
    }

    /// When the next stage that takes too long must be killed.
    pub(crate) fn stage_deadline(&self) -> Option<Instant> {
        self.staging.values().filter_map(|staging| staging.kill_at).min()
    }

    /// Stages whose time is up, each named once.
    pub(crate) fn late_stages(&mut self, now: Instant) -> Vec<i32> {
        let late = self.staging.values_mut().filter(|it| it.kill_at.is_some_and(|at| at <= now));
        late.map(|staging| {
            staging.kill_at = None;
            staging.pid
        })
        .collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len() + self.staging.len()
    }

    pub(crate) fn contains(&self, id: SessionId) -> bool {
        self.held.contains_key(&id) || self.staging.contains_key(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.held.iter().map(|(id, session)| (*id, session))
    }

    /// The leader's pid, while it is certainly still that process.
    pub(crate) fn live_pid(&self, id: SessionId) -> Option<i32> {
        if let Some(staging) = self.staging.get(&id) {
            return Some(staging.pid);
        }
        let session = self.held.get(&id)?;
        (!matches!(session.phase, Phase::Exited(_))).then_some(session.pid)
    }

    /// Sessions whose process has not been reaped.
    pub(crate) fn live(&self) -> impl Iterator<Item = SessionId> {
        self.by_pid.values().copied()
    }

    pub(crate) fn live_pids(&self) -> Vec<i32> {
        self.by_pid.keys().copied().collect()
    }

    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.held.get(&id)
    }

    pub(crate) fn starting(&self) -> impl Iterator<Item = (SessionId, BorrowedFd<'_>)> {
        let plain = self.starting.iter().filter_map(|id| match &self.held.get(id)?.phase {
            Phase::Starting(status) => Some((*id, status.as_fd())),
            _ => None,
        });
        plain.chain(self.staging.iter().map(|(id, staging)| (*id, staging.as_fd())))
    }

    /// Hears what a stage has to say. `reaped`: it will say no more.
    fn settle_staging(&mut self, id: SessionId, reaped: bool) -> Option<Settled> {
        let staging = self.staging.get_mut(&id)?;
        let staged = match staging.look() {
            Staged::NotYet if reaped => staging.died(),
            staged => staged,
        };
        if let Staged::NotYet = staged {
            return Some(Settled::NotYet);
        }
        let pid = self.staging.remove(&id)?.pid;
        self.by_pid.remove(&pid);
        Some(match staged {
            Staged::NotYet => Settled::NotYet,
            Staged::Running(Inside { fds: Some(fds), inner, listener }) => {
                let phase = Phase::Running;
                self.insert(id, Session { pid, fds, phase, inner, listener });
                Settled::Spawned { pid }
            }
            Staged::Running(Inside { fds: None, .. }) => {
                unreachable!("a session's stage is started with its buffers")
            }
            Staged::Failed(fault, why) => {
                // Whatever it is doing, it is not wanted any more. Not reaped yet, so the number is still its own.
                if !reaped {
                    let _ = crate::signals::kill_group(pid, libc::SIGKILL);
                }
                Settled::Failed(fault, why)
            }
        })
    }

    /// Reads the status pipe of a starting session. A failed one is gone afterwards.
    pub(crate) fn settle(&mut self, id: SessionId, reaped: bool) -> Settled {
        if let Some(settled) = self.settle_staging(id, reaped) {
            return settled;
        }
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
            return Settled::Failed(fault, String::new());
        }
        session.phase = Phase::Running;
        Settled::Spawned { pid: session.pid }
    }

    /// Its program is not the process that was started: it runs in a pid namespace.
    pub(crate) fn is_inside(&self, id: SessionId) -> bool {
        self.held.get(&id).is_some_and(|session| session.inner.is_some())
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
        let starting = |(id, staging): (&SessionId, &Staging)| SessionEntry {
            id: *id,
            pid: staging.pid,
            state: SessionState::Starting,
        };
        let staging = self.staging.iter().map(starting);
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
            .chain(staging)
            .collect()
    }
}

/// In the order of the wire.
pub(crate) fn fds_of(session: &Session) -> [BorrowedFd<'_>; FDS_PER_SESSION] {
    let fds = &session.fds;
    [fds.master.as_fd(), fds.pipe_read.as_fd(), fds.pipe_write.as_fd(), fds.ring.as_fd()]
}

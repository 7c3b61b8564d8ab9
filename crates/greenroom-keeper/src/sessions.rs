//! The table of held sessions: id → process, fds, state.
//!
//! In: started children, status pipes that became readable, exits. Out: entries for `Sessions`, fds
//! for `Taken`. A session stays until `release`, whatever happens to its process, so that an exit
//! can be told to the next daemon too. Absent on purpose: names, sizes, anything a session means.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use greenroom_sandbox::lineage::Stat;

use crate::launch::{Progress, SpawnError, Status};
use crate::link::FDS_PER_SESSION;
use crate::message::{ExitStatus, SessionEntry, SessionFds, SessionId, SessionState, SpawnStep};
use crate::staging::{Inside, Staged, Staging};
use crate::tree::Process;

/// Four fds each: 16,384 fds, and less than 2 MiB of table.
pub(crate) const MAX_SESSIONS: usize = 4096;

#[derive(Debug)]
pub(crate) struct Session {
    /// The keeper's own child: the session's warden, or its stage; or the program itself, if an
    /// image before there were wardens started it.
    pub(crate) pid: i32,
    /// Below its warden. `None` if there is none, or if it was gone before it could be looked at.
    pub(crate) program: Option<Process>,
    /// `pid` is a warden.
    pub(crate) held: bool,
    pub(crate) fds: SessionFds,
    pub(crate) phase: Phase,
    /// The program, if it runs in a sandbox: `pid` is then its stage.
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

impl Session {
    /// The number of the program, for people.
    pub(crate) fn program_pid(&self) -> i32 {
        self.program.map_or(self.pid, |program| program.pid)
    }

    /// Below whom everything of the session is, and nothing else.
    fn warden(&self) -> i32 {
        if self.held || self.inner.is_some() { self.pid } else { 0 }
    }
}

/// What the end of one of the keeper's children meant.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reaped {
    pub(crate) id: SessionId,
    /// How the session ended, if that was not known before.
    pub(crate) ended: Option<ExitStatus>,
    /// It held others and did not end by itself: they may be left.
    pub(crate) strays: bool,
}

/// How far a starting session has come.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    NotYet,
    Spawned {
        pid: i32,
        warden: i32,
    },
    /// With words, if errno alone does not tell.
    Failed(SpawnError, String),
}

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    held: BTreeMap<SessionId, Session>,
    /// The keeper's children that have not been reaped. A reaped pid may belong to anybody. A
    /// warden stays here after its session was released, as long as it holds somebody.
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

    /// The stage of a session that is on its way.
    pub(crate) fn stage_of(&self, id: SessionId) -> Option<i32> {
        self.staging.get(&id).map(|staging| staging.pid)
    }

    /// The keeper's own child of this session, held or released, while it is not reaped.
    pub(crate) fn child_of(&self, id: SessionId) -> Option<i32> {
        self.by_pid.iter().find(|(_, of)| **of == id).map(|(pid, _)| *pid)
    }

    /// Who is the warden of which session, also of those that are released already.
    pub(crate) fn wardens(&self) -> Vec<(SessionId, i32)> {
        let warden = |(pid, id): (&i32, &SessionId)| match self.held.get(id) {
            Some(session) if session.warden() == 0 => None,
            // Released: only wardens are kept after that.
            _ => (!self.staging.contains_key(id)).then_some((*id, *pid)),
        };
        self.by_pid.iter().filter_map(warden).collect()
    }

    /// A warden of a session that was released under the keeper's previous image.
    pub(crate) fn adopt_warden(&mut self, id: SessionId, pid: i32) {
        self.by_pid.insert(pid, id);
    }

    /// A warden has said who its program is. Nobody else is ever below it but what that one starts.
    pub(crate) fn started(&mut self, warden: i32, program: i32) {
        let session = self.by_pid.get(&warden).and_then(|id| self.held.get_mut(id));
        if let Some(session) = session {
            let still = Stat::of(program).filter(|stat| stat.parent == warden);
            let start_time = still.map_or(0, |stat| stat.start_time);
            session.program = Some(Process { pid: program, start_time });
        }
    }

    /// A warden has said how its program ended.
    pub(crate) fn ended(&mut self, warden: i32, status: ExitStatus) -> Option<SessionId> {
        let id = *self.by_pid.get(&warden)?;
        let session = self.held.get_mut(&id)?;
        if matches!(session.phase, Phase::Exited(_)) {
            return None;
        }
        session.phase = Phase::Exited(status);
        self.starting.retain(|other| *other != id);
        Some(id)
    }

    /// Sessions whose process has not been reaped.
    pub(crate) fn live(&self) -> impl Iterator<Item = SessionId> {
        self.by_pid.values().copied()
    }

    pub(crate) fn none_live(&self) -> bool {
        self.by_pid.is_empty()
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
                let (program, held) = (None, false);
                let session = Session { pid, program, held, fds, phase, inner, listener };
                let warden = session.warden();
                self.insert(id, session);
                Settled::Spawned { pid, warden }
            }
            Staged::Running(Inside { fds: None, .. }) => {
                unreachable!("a session's stage is started with its buffers")
            }
            Staged::Failed(fault, why) => {
                // The program is not wanted any more. Not reaped yet, so the number is still its
                // own.
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
        let silent = session.held && session.program.is_none();
        let fault = match progress {
            Progress::Failed(fault) => Some(fault),
            // Its warden was killed on the way.
            _ if silent => Some(SpawnError { step: SpawnStep::Fork, errno: libc::ECHILD }),
            _ => None,
        };
        if let Some(fault) = fault {
            self.by_pid.remove(&session.pid);
            self.held.remove(&id);
            return Settled::Failed(fault, String::new());
        }
        session.phase = Phase::Running;
        Settled::Spawned { pid: session.program_pid(), warden: session.warden() }
    }

    /// Its program is not the process that was started: it runs in a pid namespace.
    pub(crate) fn is_inside(&self, id: SessionId) -> bool {
        self.held.get(&id).is_some_and(|session| session.inner.is_some())
    }

    pub(crate) fn by_pid(&self, pid: i32) -> Option<SessionId> {
        self.by_pid.get(&pid).copied()
    }

    /// Notes the end of a reaped process. `settle` comes first, so that a failed start is never an
    /// exit.
    pub(crate) fn reaped(&mut self, pid: i32, status: ExitStatus) -> Option<Reaped> {
        let id = self.by_pid.remove(&pid)?;
        let by_itself = status == ExitStatus::Code(0);
        let Some(session) = self.held.get_mut(&id) else {
            return Some(Reaped { id, ended: None, strays: !by_itself });
        };
        let told = matches!(session.phase, Phase::Exited(_));
        // A warden that has not told was killed, and its program is about to be.
        let killed = ExitStatus::Signal { signo: libc::SIGKILL, core_dumped: false };
        let status = if session.held { killed } else { status };
        let strays = if session.held { !told || !by_itself } else { session.inner.is_some() };
        if !told {
            session.phase = Phase::Exited(status);
            self.starting.retain(|other| *other != id);
        }
        Some(Reaped { id, ended: (!told).then_some(status), strays })
    }

    /// Forgets an ended session and closes its fds. `false` while its process lives, or if it is
    /// not held.
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
                pid: session.program_pid(),
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

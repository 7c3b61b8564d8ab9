//! What keeper and daemon say to each other, and its bytes.
//!
//! In: one datagram. Out: one `ToKeeper` or `ToDaemon`. A message is a kind (u16) and its fields; fields may be added at the
//! end of a kind, so bytes after the known fields are ignored, and an unknown kind is `DecodeError::UnknownKind`, which the
//! receiver skips with a log line. `PROTOCOL_VERSION` travels in both `Hello`s. Absent on purpose: file descriptors
//! (`link.rs` attaches them), argv and environment (`spec.rs` puts them into a sealed memfd, so no datagram is large).

use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::wire::{DecodeError, Reader, Writer};

/// Grows when a kind changes its meaning; a new kind or a new trailing field does not need it.
pub const PROTOCOL_VERSION: u16 = 1;
/// Longest datagram: room for the longest path or reason beside a few integers.
pub const MAX_MESSAGE_BYTES: usize = 8 * 1024;
/// Sessions in one `Take` or `Taken`: 4 fds each stay below the kernel's 253 per message (`SCM_MAX_FD`).
pub const MAX_TAKE: usize = 60;
/// Sessions in one `Sessions`; 17 bytes each stay well inside `MAX_MESSAGE_BYTES`.
pub const MAX_LIST: usize = 300;
/// Longest path in a message (PATH_MAX).
pub const MAX_PATH_BYTES: usize = 4096;
/// Longest reason text; longer ones are cut.
pub const MAX_REASON_BYTES: usize = 4096;

/// A session's number, chosen by the daemon, never used twice while the keeper holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A worker's number, chosen by the daemon, never used twice in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u64);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    Code(i32),
    Signal { signo: i32, core_dumped: bool },
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExitStatus::Code(code) => write!(f, "exit code {code}"),
            ExitStatus::Signal { signo, .. } => write!(f, "signal {signo}"),
        }
    }
}

/// Where a spawn stopped. The errno beside it says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpawnStep {
    /// The spec was unreadable, unsealed, or over a limit.
    Spec,
    /// The id is already held (EEXIST), or too many sessions are (ENOSPC).
    Id,
    /// Opening or configuring the PTY.
    Pty,
    /// Making the pipe, the ring or the status pipe.
    Buffers,
    Fork,
    /// Giving the child its own fd table.
    Descriptors,
    /// Joining the cgroup.
    Cgroup,
    /// setsid, controlling terminal, stdio.
    Terminal,
    /// Restoring resource limits.
    Limits,
    /// Entering the working directory.
    Cwd,
    /// Running the program.
    Exec,
    /// The sandbox could not be made as its plan says; the program was not run.
    Sandbox,
}

impl SpawnStep {
    pub const ALL: [SpawnStep; 12] = [
        SpawnStep::Spec,
        SpawnStep::Id,
        SpawnStep::Pty,
        SpawnStep::Buffers,
        SpawnStep::Fork,
        SpawnStep::Descriptors,
        SpawnStep::Cgroup,
        SpawnStep::Terminal,
        SpawnStep::Limits,
        SpawnStep::Cwd,
        SpawnStep::Exec,
        SpawnStep::Sandbox,
    ];

    pub fn name(self) -> &'static str {
        match self {
            SpawnStep::Spec => "spec",
            SpawnStep::Id => "id",
            SpawnStep::Pty => "pty",
            SpawnStep::Buffers => "buffers",
            SpawnStep::Fork => "fork",
            SpawnStep::Descriptors => "descriptors",
            SpawnStep::Cgroup => "cgroup",
            SpawnStep::Terminal => "terminal",
            SpawnStep::Limits => "limits",
            SpawnStep::Cwd => "cwd",
            SpawnStep::Exec => "exec",
            SpawnStep::Sandbox => "sandbox",
        }
    }

    pub(crate) fn from_wire(value: u8) -> Result<SpawnStep, DecodeError> {
        SpawnStep::ALL
            .get(usize::from(value))
            .copied()
            .ok_or(DecodeError::BadValue { field: "spawn step", value: u64::from(value) })
    }
}

/// Whom a `Signal` is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalTarget {
    /// The session's first process.
    Leader,
    /// The leader's process group.
    Group,
    /// The process group that has the terminal now.
    Foreground,
}

/// What the keeper knows of a session's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// Forked, not yet through exec; `Spawned` or `SpawnFailed` is still to come.
    Starting,
    Running,
    /// Kept until `Release`.
    Exited(ExitStatus),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionEntry {
    pub id: SessionId,
    pub pid: i32,
    pub state: SessionState,
}

/// How the previous daemon ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastExit {
    pub status: ExitStatus,
    pub lived_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeeperHello {
    pub version: u16,
    pub keeper_pid: i32,
    pub keeper_started_unix_ms: u64,
    /// How often the keeper has replaced its own image.
    pub generation: u32,
    /// How many daemons it has started, this one included.
    pub daemon_starts: u32,
    pub last_exit: Option<LastExit>,
    /// It knows `Work`.
    pub workers: bool,
    /// It knows `Wardens` and `End`, and tells `Over`.
    pub wardens: bool,
}

/// Daemon → keeper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToKeeper {
    Hello {
        version: u16,
        pid: i32,
    },
    /// The daemon is about to accept clients.
    Ready,
    /// Attached: the spec memfd, then `cgroup.procs` if `with_cgroup`, then the sealed sandbox plan if `with_plan`. A keeper
    /// that does not know plans refuses the fd it did not expect.
    Spawn {
        id: SessionId,
        with_cgroup: bool,
        with_plan: bool,
    },
    List,
    Take {
        ids: Vec<SessionId>,
    },
    Signal {
        id: SessionId,
        signo: i32,
        to: SignalTarget,
    },
    Release {
        id: SessionId,
    },
    Replace {
        path: PathBuf,
    },
    Shutdown,
    /// A program on pipes that ends with this daemon. Attached: the sealed plan, then what becomes its stdin, stdout and
    /// stderr.
    Work {
        id: WorkerId,
        /// A process stays to watch over it, and is asked to end rather than killed: see the sandbox's stage.
        watched: bool,
    },
    /// Everything of it is to end now. Its end is told as ever.
    EndWork {
        id: WorkerId,
    },
    /// Who is the warden of which session: of running ones, and of ended ones that left processes, released or not.
    Wardens,
    /// Everything of the session is to end now, also what its program left. `Exited` and `Over` are told as ever.
    End {
        id: SessionId,
    },
}

/// Keeper → daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToDaemon {
    Hello(KeeperHello),
    /// Attached: master, pipe read end, pipe write end, ring.
    Spawned {
        id: SessionId,
        pid: i32,
        /// Everything of the session is below this process, and nothing else. 0 if there is none.
        warden: i32,
    },
    SpawnFailed {
        id: SessionId,
        step: SpawnStep,
        errno: i32,
        /// In words, if errno alone does not tell: which layer of a sandbox, and on what path. May be empty.
        why: String,
    },
    /// Attached: the socket inside a sandbox on which its programs look for the proxy. Comes before the `Spawned` or
    /// `Taken` of its session.
    Listener {
        id: SessionId,
    },
    Sessions {
        sessions: Vec<SessionEntry>,
        more: bool,
    },
    /// Attached: 4 fds for each id, in order. Ids that are not held are left out.
    Taken {
        ids: Vec<SessionId>,
    },
    Exited {
        id: SessionId,
        status: ExitStatus,
    },
    /// errno 0: delivered.
    Signalled {
        id: SessionId,
        errno: i32,
    },
    Replaced {
        why_not: Option<String>,
    },
    /// Attached, if `listener`: the socket inside its sandbox on which it looks for the proxy.
    Working {
        id: WorkerId,
        pid: i32,
        listener: bool,
    },
    WorkFailed {
        id: WorkerId,
        step: SpawnStep,
        errno: i32,
        why: String,
    },
    /// Reaped, and forgotten.
    WorkEnded {
        id: WorkerId,
        status: ExitStatus,
    },
    Wardens {
        wardens: Vec<(SessionId, i32)>,
        more: bool,
    },
    /// Nothing of the session is left. Comes after its `Exited`, which it may follow at once.
    Over {
        id: SessionId,
    },
}

mod kind {
    pub(super) const HELLO: u16 = 1;
    pub(super) const READY: u16 = 2;
    pub(super) const SPAWN: u16 = 3;
    pub(super) const LIST: u16 = 4;
    pub(super) const TAKE: u16 = 5;
    pub(super) const SIGNAL: u16 = 6;
    pub(super) const RELEASE: u16 = 7;
    pub(super) const REPLACE: u16 = 8;
    pub(super) const SHUTDOWN: u16 = 9;
    pub(super) const WORK: u16 = 10;
    pub(super) const END_WORK: u16 = 11;
    pub(super) const WARDENS: u16 = 12;
    pub(super) const END: u16 = 13;
    pub(super) const KEEPER_HELLO: u16 = 129;
    pub(super) const SPAWNED: u16 = 130;
    pub(super) const SPAWN_FAILED: u16 = 131;
    pub(super) const SESSIONS: u16 = 132;
    pub(super) const TAKEN: u16 = 133;
    pub(super) const EXITED: u16 = 134;
    pub(super) const SIGNALLED: u16 = 135;
    pub(super) const REPLACED: u16 = 136;
    pub(super) const LISTENER: u16 = 137;
    pub(super) const WORKING: u16 = 138;
    pub(super) const WORK_FAILED: u16 = 139;
    pub(super) const WORK_ENDED: u16 = 140;
    pub(super) const WARDENS_ARE: u16 = 141;
    pub(super) const OVER: u16 = 142;
}

impl ToKeeper {
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        match self {
            ToKeeper::Hello { version, pid } => w.u16(kind::HELLO).u16(*version).i32(*pid),
            ToKeeper::Ready => w.u16(kind::READY),
            ToKeeper::Spawn { id, with_cgroup, with_plan } => {
                w.u16(kind::SPAWN).u64(id.0).flag(*with_cgroup).flag(*with_plan)
            }
            ToKeeper::List => w.u16(kind::LIST),
            ToKeeper::Take { ids } => put_ids(w.u16(kind::TAKE), ids),
            ToKeeper::Signal { id, signo, to } => {
                w.u16(kind::SIGNAL).u64(id.0).i32(*signo).u8(*to as u8)
            }
            ToKeeper::Release { id } => w.u16(kind::RELEASE).u64(id.0),
            ToKeeper::Replace { path } => w.u16(kind::REPLACE).bytes(path.as_os_str().as_bytes()),
            ToKeeper::Shutdown => w.u16(kind::SHUTDOWN),
            ToKeeper::Work { id, watched } => w.u16(kind::WORK).u64(id.0).flag(*watched),
            ToKeeper::EndWork { id } => w.u16(kind::END_WORK).u64(id.0),
            ToKeeper::Wardens => w.u16(kind::WARDENS),
            ToKeeper::End { id } => w.u16(kind::END).u64(id.0),
        };
        w.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<ToKeeper, DecodeError> {
        let mut r = Reader::new(bytes);
        Ok(match r.u16("message kind")? {
            kind::HELLO => ToKeeper::Hello { version: r.u16("version")?, pid: r.i32("pid")? },
            kind::READY => ToKeeper::Ready,
            kind::SPAWN => ToKeeper::Spawn {
                id: SessionId(r.u64("session id")?),
                with_cgroup: r.flag("cgroup flag")?,
                // Older daemons end here.
                with_plan: !r.peek().is_empty() && r.flag("plan flag")?,
            },
            kind::LIST => ToKeeper::List,
            kind::TAKE => ToKeeper::Take { ids: get_ids(&mut r)? },
            kind::SIGNAL => ToKeeper::Signal {
                id: SessionId(r.u64("session id")?),
                signo: r.i32("signal number")?,
                to: get_target(&mut r)?,
            },
            kind::RELEASE => ToKeeper::Release { id: SessionId(r.u64("session id")?) },
            kind::REPLACE => {
                let path = r.bytes("path", MAX_PATH_BYTES)?.to_vec();
                ToKeeper::Replace { path: PathBuf::from(std::ffi::OsString::from_vec(path)) }
            }
            kind::SHUTDOWN => ToKeeper::Shutdown,
            kind::WORK => ToKeeper::Work { id: get_worker(&mut r)?, watched: r.flag("watched")? },
            kind::END_WORK => ToKeeper::EndWork { id: get_worker(&mut r)? },
            kind::WARDENS => ToKeeper::Wardens,
            kind::END => ToKeeper::End { id: SessionId(r.u64("session id")?) },
            other => return Err(DecodeError::UnknownKind(other)),
        })
    }
}

impl ToDaemon {
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        match self {
            ToDaemon::Hello(hello) => put_hello(w.u16(kind::KEEPER_HELLO), hello),
            ToDaemon::Spawned { id, pid, warden } => {
                w.u16(kind::SPAWNED).u64(id.0).i32(*pid).i32(*warden)
            }
            ToDaemon::SpawnFailed { id, step, errno, why } => w
                .u16(kind::SPAWN_FAILED)
                .u64(id.0)
                .u8(*step as u8)
                .i32(*errno)
                .bytes(cut(why).as_bytes()),
            ToDaemon::Listener { id } => w.u16(kind::LISTENER).u64(id.0),
            ToDaemon::Sessions { sessions, more } => {
                w.u16(kind::SESSIONS).flag(*more).count(sessions.len());
                for entry in sessions {
                    put_entry(&mut w, entry);
                }
                &mut w
            }
            ToDaemon::Taken { ids } => put_ids(w.u16(kind::TAKEN), ids),
            ToDaemon::Exited { id, status } => {
                put_status(w.u16(kind::EXITED).u64(id.0), Some(status))
            }
            ToDaemon::Signalled { id, errno } => w.u16(kind::SIGNALLED).u64(id.0).i32(*errno),
            ToDaemon::Replaced { why_not } => {
                w.u16(kind::REPLACED).flag(why_not.is_none());
                w.bytes(cut(why_not.as_deref().unwrap_or("")).as_bytes())
            }
            ToDaemon::Working { id, pid, listener } => {
                w.u16(kind::WORKING).u64(id.0).i32(*pid).flag(*listener)
            }
            ToDaemon::WorkFailed { id, step, errno, why } => w
                .u16(kind::WORK_FAILED)
                .u64(id.0)
                .u8(*step as u8)
                .i32(*errno)
                .bytes(cut(why).as_bytes()),
            ToDaemon::WorkEnded { id, status } => {
                put_status(w.u16(kind::WORK_ENDED).u64(id.0), Some(status))
            }
            ToDaemon::Wardens { wardens, more } => {
                w.u16(kind::WARDENS_ARE).flag(*more).count(wardens.len());
                for (id, pid) in wardens {
                    w.u64(id.0).i32(*pid);
                }
                &mut w
            }
            ToDaemon::Over { id } => w.u16(kind::OVER).u64(id.0),
        };
        w.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<ToDaemon, DecodeError> {
        let mut r = Reader::new(bytes);
        Ok(match r.u16("message kind")? {
            kind::KEEPER_HELLO => ToDaemon::Hello(get_hello(&mut r)?),
            kind::SPAWNED => ToDaemon::Spawned {
                id: SessionId(r.u64("session id")?),
                pid: r.i32("pid")?,
                warden: match r.peek() {
                    // Older keepers end here.
                    [] => 0,
                    _ => r.i32("warden")?,
                },
            },
            kind::SPAWN_FAILED => ToDaemon::SpawnFailed {
                id: SessionId(r.u64("session id")?),
                step: SpawnStep::from_wire(r.u8("spawn step")?)?,
                errno: r.i32("errno")?,
                why: match r.peek() {
                    // Older keepers end here.
                    [] => String::new(),
                    _ => String::from_utf8_lossy(r.bytes("reason", MAX_REASON_BYTES)?).into(),
                },
            },
            kind::LISTENER => ToDaemon::Listener { id: SessionId(r.u64("session id")?) },
            kind::SESSIONS => {
                let more = r.flag("more flag")?;
                let count = r.count("session count", MAX_LIST)?;
                let sessions = (0..count).map(|_| get_entry(&mut r)).collect::<Result<_, _>>()?;
                ToDaemon::Sessions { sessions, more }
            }
            kind::TAKEN => ToDaemon::Taken { ids: get_ids(&mut r)? },
            kind::EXITED => {
                let id = SessionId(r.u64("session id")?);
                ToDaemon::Exited { id, status: get_end(&mut r)? }
            }
            kind::SIGNALLED => {
                ToDaemon::Signalled { id: SessionId(r.u64("session id")?), errno: r.i32("errno")? }
            }
            kind::REPLACED => {
                let ok = r.flag("replaced flag")?;
                let why = r.bytes("reason", MAX_REASON_BYTES)?;
                ToDaemon::Replaced {
                    why_not: (!ok).then(|| String::from_utf8_lossy(why).into_owned()),
                }
            }
            kind::WORKING => ToDaemon::Working {
                id: get_worker(&mut r)?,
                pid: r.i32("pid")?,
                listener: r.flag("listener flag")?,
            },
            kind::WORK_FAILED => ToDaemon::WorkFailed {
                id: get_worker(&mut r)?,
                step: SpawnStep::from_wire(r.u8("spawn step")?)?,
                errno: r.i32("errno")?,
                why: String::from_utf8_lossy(r.bytes("reason", MAX_REASON_BYTES)?).into(),
            },
            kind::WORK_ENDED => {
                ToDaemon::WorkEnded { id: get_worker(&mut r)?, status: get_end(&mut r)? }
            }
            kind::WARDENS_ARE => {
                let more = r.flag("more flag")?;
                let count = r.count("warden count", MAX_LIST)?;
                let mut warden = || Ok((SessionId(r.u64("session id")?), r.i32("pid")?));
                let wardens = (0..count).map(|_| warden()).collect::<Result<_, DecodeError>>()?;
                ToDaemon::Wardens { wardens, more }
            }
            kind::OVER => ToDaemon::Over { id: SessionId(r.u64("session id")?) },
            other => return Err(DecodeError::UnknownKind(other)),
        })
    }
}

fn get_worker(r: &mut Reader<'_>) -> Result<WorkerId, DecodeError> {
    Ok(WorkerId(r.u64("worker id")?))
}

fn get_end(r: &mut Reader<'_>) -> Result<ExitStatus, DecodeError> {
    get_status(r)?.ok_or(DecodeError::BadValue { field: "exit status", value: 0 })
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_REASON_BYTES)]
}

fn put_ids<'a>(w: &'a mut Writer, ids: &[SessionId]) -> &'a mut Writer {
    w.count(ids.len());
    for id in ids {
        w.u64(id.0);
    }
    w
}

fn get_ids(r: &mut Reader<'_>) -> Result<Vec<SessionId>, DecodeError> {
    let count = r.count("id count", MAX_TAKE)?;
    (0..count).map(|_| Ok(SessionId(r.u64("session id")?))).collect()
}

fn get_target(r: &mut Reader<'_>) -> Result<SignalTarget, DecodeError> {
    match r.u8("signal target")? {
        0 => Ok(SignalTarget::Leader),
        1 => Ok(SignalTarget::Group),
        2 => Ok(SignalTarget::Foreground),
        value => Err(DecodeError::BadValue { field: "signal target", value: u64::from(value) }),
    }
}

/// Kind of status (0 none, 1 code, 2 signal, 3 signal with core), then the number.
pub(crate) fn put_status<'a>(w: &'a mut Writer, status: Option<&ExitStatus>) -> &'a mut Writer {
    match status {
        None => w.u8(0).i32(0),
        Some(ExitStatus::Code(code)) => w.u8(1).i32(*code),
        Some(ExitStatus::Signal { signo, core_dumped }) => {
            w.u8(2 + u8::from(*core_dumped)).i32(*signo)
        }
    }
}

pub(crate) fn get_status(r: &mut Reader<'_>) -> Result<Option<ExitStatus>, DecodeError> {
    let kind = r.u8("status kind")?;
    let number = r.i32("status")?;
    match kind {
        0 => Ok(None),
        1 => Ok(Some(ExitStatus::Code(number))),
        2 | 3 => Ok(Some(ExitStatus::Signal { signo: number, core_dumped: kind == 3 })),
        value => Err(DecodeError::BadValue { field: "status kind", value: u64::from(value) }),
    }
}

fn put_entry(w: &mut Writer, entry: &SessionEntry) {
    w.u64(entry.id.0).i32(entry.pid);
    match &entry.state {
        SessionState::Starting => w.u8(4).i32(0),
        SessionState::Running => put_status(w, None),
        SessionState::Exited(status) => put_status(w, Some(status)),
    };
}

fn get_entry(r: &mut Reader<'_>) -> Result<SessionEntry, DecodeError> {
    let id = SessionId(r.u64("session id")?);
    let pid = r.i32("pid")?;
    let mut ahead = Reader::new(r.peek());
    let state = if ahead.u8("status kind")? == 4 {
        r.u8("status kind")?;
        r.i32("status")?;
        SessionState::Starting
    } else {
        get_status(r)?.map_or(SessionState::Running, SessionState::Exited)
    };
    Ok(SessionEntry { id, pid, state })
}

fn put_hello<'a>(w: &'a mut Writer, hello: &KeeperHello) -> &'a mut Writer {
    w.u16(hello.version)
        .i32(hello.keeper_pid)
        .u64(hello.keeper_started_unix_ms)
        .u32(hello.generation)
        .u32(hello.daemon_starts);
    put_status(w, hello.last_exit.as_ref().map(|last| &last.status))
        .u64(hello.last_exit.map_or(0, |last| last.lived_ms))
        .flag(hello.workers)
        .flag(hello.wardens)
}

fn get_hello(r: &mut Reader<'_>) -> Result<KeeperHello, DecodeError> {
    let version = r.u16("version")?;
    let keeper_pid = r.i32("keeper pid")?;
    let keeper_started_unix_ms = r.u64("keeper start time")?;
    let generation = r.u32("generation")?;
    let daemon_starts = r.u32("daemon starts")?;
    let status = get_status(r)?;
    let lived_ms = r.u64("lived")?;
    Ok(KeeperHello {
        version,
        keeper_pid,
        keeper_started_unix_ms,
        generation,
        daemon_starts,
        last_exit: status.map(|status| LastExit { status, lived_ms }),
        // Older keepers end here.
        workers: !r.peek().is_empty() && r.flag("workers")?,
        wardens: !r.peek().is_empty() && r.flag("wardens")?,
    })
}

#[cfg(test)]
mod tests;

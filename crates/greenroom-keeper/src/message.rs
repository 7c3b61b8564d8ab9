//! What keeper and daemon say to each other, and its bytes.
//!
//! In: one datagram. Out: one `ToKeeper` or `ToDaemon`. A message is a kind (u16) and its fields,
//! stated once below each type; fields may be added at the end of a kind, so bytes after the known
//! fields are ignored, and an unknown kind is skipped by the receiver with a log line.
//! `PROTOCOL_VERSION` travels in both `Hello`s. Absent on purpose: argv and environment (`spec.rs`
//! puts them into a sealed memfd, so no datagram is large).

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use greenroom_sandbox::wire::{Reader, Wire, WireError, Writer};
use greenroom_sandbox::{layout, numbered};

/// Grows when a kind changes its meaning; a new kind or a new trailing field does not need it.
pub const PROTOCOL_VERSION: u16 = 1;
/// Longest datagram: room for the longest path or reason beside a few integers.
pub const MAX_MESSAGE_BYTES: usize = 8 * 1024;
/// Sessions in one `Take` or `Taken`: 4 fds each stay below the kernel's 253 per message
/// (`SCM_MAX_FD`).
pub const MAX_TAKE: usize = 60;
/// Sessions in one `Sessions`; 17 bytes each stay well inside `MAX_MESSAGE_BYTES`.
pub const MAX_LIST: usize = 300;
/// Longest path in a message (PATH_MAX).
pub const MAX_PATH_BYTES: usize = 4096;
/// Longest reason text; longer ones are cut.
pub const MAX_REASON_BYTES: usize = 4096;

macro_rules! ids {
    ($($(#[$about:meta])* $name:ident),+) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl Wire for $name {
            fn put(&self, w: &mut Writer) {
                w.put(&self.0);
            }
            fn get(r: &mut Reader<'_>) -> Result<Self, WireError> {
                u64::get(r).map($name)
            }
        }
    )+};
}

ids! {
    /// A session's number, chosen by the daemon, never used twice while the keeper holds it.
    SessionId,
    /// A piped program's number, chosen by the daemon, never used twice in its life.
    PipedId
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

numbered! {
    /// Where a spawn stopped. The errno beside it says why.
    pub enum SpawnStep {
        /// The spec was unreadable, unsealed, or over a limit.
        Spec "spec",
        /// The id is already held (EEXIST), or too many sessions are (ENOSPC).
        Id "id",
        /// Opening or configuring the PTY.
        Pty "pty",
        /// Making the pipe, the ring or the status pipe.
        Buffers "buffers",
        Fork "fork",
        /// Giving the child its own fd table.
        Descriptors "descriptors",
        /// Joining a cgroup, which is not done any more.
        Cgroup "cgroup",
        /// setsid, controlling terminal, stdio.
        Terminal "terminal",
        /// Restoring resource limits.
        Limits "limits",
        /// Entering the working directory.
        Cwd "cwd",
        /// Running the program.
        Exec "exec",
        /// The sandbox could not be made as its plan says; the program was not run.
        Sandbox "sandbox",
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

layout!(enum SignalTarget: u8 { 0 Leader, 1 Group, 2 Foreground });

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

layout!(struct SessionEntry { id, pid, state });

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
    /// It knows `StartPiped`.
    pub piped: bool,
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
    /// Attached: the spec memfd, then the sealed sandbox plan if `with_plan`. A keeper that does
    /// not know plans refuses the fd it did not expect. `with_cgroup` is for daemons before
    /// decision 012 and refused.
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
    /// A program on pipes that ends with this daemon. Attached: the sealed plan, then what becomes
    /// its stdin, stdout and stderr.
    StartPiped {
        id: PipedId,
        /// A process stays to watch over it, and is asked to end rather than killed: see the
        /// sandbox's stage.
        watched: bool,
    },
    /// Everything of it is to end now. Its end is told as ever.
    EndPiped {
        id: PipedId,
    },
    /// Who is the warden of which session: of running ones, and of ended ones that left processes,
    /// released or not.
    Wardens,
    /// Everything of the session is to end now, also what its program left. `Exited` and `Over` are
    /// told as ever.
    End {
        id: SessionId,
    },
}

layout!(enum ToKeeper: u16 {
    1 Hello { version, pid },
    2 Ready,
    3 Spawn { id, with_cgroup; with_plan },
    4 List,
    5 Take { ids <= MAX_TAKE },
    6 Signal { id, signo, to },
    7 Release { id },
    8 Replace { path <= MAX_PATH_BYTES },
    9 Shutdown,
    10 StartPiped { id, watched },
    11 EndPiped { id },
    12 Wardens,
    13 End { id }
});

/// What the keeper hands over for a session.
#[derive(Debug)]
pub struct SessionFds {
    pub master: OwnedFd,
    pub pipe_read: OwnedFd,
    pub pipe_write: OwnedFd,
    pub ring: OwnedFd,
}

layout!(struct SessionFds { master, pipe_read, pipe_write, ring });

/// A message from the keeper with its fds, as the daemon receives it.
pub type KeeperEvent = ToDaemon<SessionFds, OwnedFd>;

/// Keeper → daemon. `S` is what comes along for a session, and `F` a single fd: nothing for the
/// keeper, which looks them up when it sends (`outbox.rs`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToDaemon<S = (), F = ()> {
    Hello(KeeperHello),
    Spawned {
        id: SessionId,
        pid: i32,
        fds: S,
        /// Everything of the session is below this process, and nothing else. 0 if there is none.
        warden: i32,
    },
    SpawnFailed {
        id: SessionId,
        step: SpawnStep,
        errno: i32,
        /// In words, if errno alone does not tell: which layer of a sandbox, and on what path. May
        /// be empty.
        why: String,
    },
    /// The socket inside a sandbox on which its programs look for the proxy. Comes before the
    /// `Spawned` or `Taken` of its session.
    Listener {
        id: SessionId,
        listener: F,
    },
    /// Part of the answer to `List`; the last part has `more == false`.
    Sessions {
        sessions: Vec<SessionEntry>,
        more: bool,
    },
    /// Answer to `Take`. Ids that are not held (any more) are left out.
    Taken {
        sessions: Vec<(SessionId, S)>,
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
    /// `Ok`: the keeper is about to exec its new image; expect SIGTERM, then exit with
    /// `EXIT_UPGRADE`. A second one with a reason may follow if the exec itself failed.
    Replaced {
        result: Result<(), String>,
    },
    /// A piped program runs. With the socket on which it looks for the proxy, if it may reach any
    /// host.
    PipedStarted {
        id: PipedId,
        pid: i32,
        listener: Option<F>,
    },
    PipedFailed {
        id: PipedId,
        step: SpawnStep,
        errno: i32,
        why: String,
    },
    /// Reaped, and forgotten.
    PipedEnded {
        id: PipedId,
        status: ExitStatus,
    },
    /// Part of the answer to `Wardens`; the last part has `more == false`.
    Wardens {
        wardens: Vec<(SessionId, i32)>,
        more: bool,
    },
    /// Nothing of the session is left. Comes after its `Exited`, which it may follow at once.
    Over {
        id: SessionId,
    },
    /// A kind this build does not know; its fds are closed.
    Unknown {
        kind: u16,
    },
}

layout!(enum ToDaemon<S, F>: u16 {
    129 Hello(hello),
    130 Spawned { id, pid, fds; warden },
    131 SpawnFailed { id, step, errno; why },
    132 Sessions { more, sessions <= MAX_LIST },
    133 Taken { sessions <= MAX_TAKE },
    134 Exited { id, status },
    135 Signalled { id, errno },
    136 Replaced { result },
    137 Listener { id, listener },
    138 PipedStarted { id, pid, listener },
    139 PipedFailed { id, step, errno, why },
    140 PipedEnded { id, status },
    141 Wardens { more, wardens <= MAX_LIST },
    142 Over { id };
    else Unknown
});

/// A reason as it is told: a longer one is cut.
pub(crate) fn reason(text: impl fmt::Display) -> String {
    let mut text = text.to_string();
    text.truncate(text.floor_char_boundary(MAX_REASON_BYTES));
    text
}

/// A word for the state (0 runs, 1 code, 2 signal, 3 signal with core, 4 starts), then the number.
impl Wire for SessionState {
    fn put(&self, w: &mut Writer) {
        let (word, number) = match *self {
            SessionState::Running => (0, 0),
            SessionState::Exited(ExitStatus::Code(code)) => (1, code),
            SessionState::Exited(ExitStatus::Signal { signo, core_dumped }) => {
                (2 + u8::from(core_dumped), signo)
            }
            SessionState::Starting => (4, 0),
        };
        w.put(&word).put(&number);
    }

    fn get(r: &mut Reader<'_>) -> Result<SessionState, WireError> {
        match Wire::get(r)? {
            (0_u8, _) => Ok(SessionState::Running),
            (1, code) => Ok(SessionState::Exited(ExitStatus::Code(code))),
            (word @ 2..=3, signo) => {
                Ok(SessionState::Exited(ExitStatus::Signal { signo, core_dumped: word == 3 }))
            }
            (4, _) => Ok(SessionState::Starting),
            (other, _) => Err(r.bad_value(other)),
        }
    }
}

impl Wire for ExitStatus {
    fn put(&self, w: &mut Writer) {
        w.put(&SessionState::Exited(*self));
    }
    fn get(r: &mut Reader<'_>) -> Result<ExitStatus, WireError> {
        get_exit(r)?.ok_or_else(|| r.bad_value(0_u8))
    }
}

/// As for a session that runs, if there is none.
pub(crate) fn put_exit(w: &mut Writer, exit: Option<ExitStatus>) -> &mut Writer {
    w.put(&exit.map_or(SessionState::Running, SessionState::Exited))
}

pub(crate) fn get_exit(r: &mut Reader<'_>) -> Result<Option<ExitStatus>, WireError> {
    match r.get("exit status")? {
        SessionState::Exited(status) => Ok(Some(status)),
        SessionState::Running => Ok(None),
        SessionState::Starting => Err(r.bad_value(4_u8)),
    }
}

pub(crate) fn put_last_exit(w: &mut Writer, last: Option<LastExit>) -> &mut Writer {
    put_exit(w, last.map(|last| last.status)).put(&last.map_or(0, |last| last.lived_ms))
}

pub(crate) fn get_last_exit(r: &mut Reader<'_>) -> Result<Option<LastExit>, WireError> {
    let (status, lived_ms) = (get_exit(r)?, r.get("lived")?);
    Ok(status.map(|status| LastExit { status, lived_ms }))
}

impl Wire for KeeperHello {
    fn put(&self, w: &mut Writer) {
        w.put(&self.version).put(&self.keeper_pid).put(&self.keeper_started_unix_ms);
        w.put(&self.generation).put(&self.daemon_starts);
        put_last_exit(w, self.last_exit).put(&self.piped).put(&self.wardens);
    }

    fn get(r: &mut Reader<'_>) -> Result<KeeperHello, WireError> {
        Ok(KeeperHello {
            version: r.get("version")?,
            keeper_pid: r.get("keeper pid")?,
            keeper_started_unix_ms: r.get("keeper start time")?,
            generation: r.get("generation")?,
            daemon_starts: r.get("daemon starts")?,
            last_exit: get_last_exit(r)?,
            piped: r.get_added("piped")?,
            wardens: r.get_added("wardens")?,
        })
    }
}

#[cfg(test)]
mod tests;

//! What one image of the keeper leaves to the next: plain numbers in a memfd.
//!
//! In and out: `Handover`, the whole state of the keeper with fds as numbers. The old image makes
//! exactly these fds survive exec, the new one adopts exactly these. `HANDOVER_VERSION` is checked
//! by `--check` before anything is risked. Absent on purpose: waiting messages. The daemon is
//! restarted anyway, and the new one asks.

use std::ffi::OsString;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};

use greenroom_sandbox::memfd::{self, MemfdError};
use greenroom_sandbox::wire::{Reader, Wire, WireError, Writer};

use crate::message::{
    ExitStatus, LastExit, MAX_PATH_BYTES, SessionId, get_exit, get_last_exit, put_exit,
    put_last_exit,
};
use crate::piped::{HeldPiped, MAX_PIPED};
use crate::sessions::MAX_SESSIONS;
use crate::tree::Process;

/// Grows with every change of the layout; a keeper can only be replaced by one that reads its
/// version. Version 1 had no sandboxes, version 2 no piped programs, version 3 no wardens; all are
/// still read.
const HANDOVER_VERSION: u16 = 4;
const OLDEST_VERSION: u16 = 1;
/// Far above 4,096 sessions of 40 bytes and a few paths.
const MAX_HANDOVER_BYTES: u64 = 4 * 1024 * 1024;
/// Released sessions may have one too; each is a process, and a user has no more of those.
const MAX_WARDENS: usize = 65_536;
/// Arguments of the daemon.
const MAX_DAEMON_ARGS: usize = 1024;
/// An absent limit on the wire.
const NONE: u64 = u64::MAX;
/// For errors, and the memfd's name.
const STATE: &str = "keeper's state";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handover {
    pub(crate) generation: u32,
    pub(crate) started_unix_ms: u64,
    pub(crate) foreground: bool,
    pub(crate) socket: OsString,
    pub(crate) lock: OsString,
    pub(crate) log: OsString,
    pub(crate) daemon_log: OsString,
    pub(crate) daemon: Vec<OsString>,
    /// Soft and hard limit on open files as they were before the first image raised them.
    pub(crate) nofile: (Option<u64>, Option<u64>),
    pub(crate) lock_fd: RawFd,
    pub(crate) listener_fd: RawFd,
    pub(crate) link_fd: Option<RawFd>,
    pub(crate) ready_fd: Option<RawFd>,
    /// Pid and age.
    pub(crate) running: Option<(i32, u64)>,
    pub(crate) starts: u32,
    pub(crate) last_exit: Option<LastExit>,
    pub(crate) young_deaths: u32,
    pub(crate) ever_ready: bool,
    pub(crate) sessions: Vec<HeldSession>,
    pub(crate) piped: Vec<HeldPiped>,
    /// Every warden, also of sessions that are released.
    pub(crate) wardens: Vec<(SessionId, i32)>,
    /// The pipe on which they talk: where it is read, where it is written.
    pub(crate) reports: Option<(RawFd, RawFd)>,
    /// Orphans of sessions without a warden may be the keeper's children.
    pub(crate) strays_tolerated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldSession {
    pub(crate) id: SessionId,
    pub(crate) pid: i32,
    pub(crate) program: Option<Process>,
    pub(crate) held: bool,
    pub(crate) fds: [RawFd; 4],
    pub(crate) status_fd: Option<RawFd>,
    pub(crate) exit: Option<ExitStatus>,
    pub(crate) inner_fd: Option<RawFd>,
    pub(crate) listener_fd: Option<RawFd>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum HandoverError {
    #[error(transparent)]
    Memfd(#[from] MemfdError),
    #[error("the keeper's state cannot be read: {0}")]
    Malformed(#[from] WireError),
}

impl Handover {
    /// Every fd that must survive exec.
    pub(crate) fn fds(&self) -> Vec<RawFd> {
        let sessions = self.sessions.iter();
        let of_sandbox = |it: &HeldSession| it.inner_fd.into_iter().chain(it.listener_fd);
        let held =
            sessions.flat_map(|it| it.fds.into_iter().chain(it.status_fd).chain(of_sandbox(it)));
        [self.lock_fd, self.listener_fd]
            .into_iter()
            .chain(self.link_fd)
            .chain(self.ready_fd)
            .chain(self.reports.into_iter().flat_map(|(read, write)| [read, write]))
            .chain(held)
            .collect()
    }

    pub(crate) fn to_memfd(&self) -> Result<OwnedFd, HandoverError> {
        Ok(memfd::write(STATE, &self.encode())?)
    }

    pub(crate) fn from_memfd(fd: BorrowedFd<'_>) -> Result<Handover, HandoverError> {
        Ok(Handover::decode(&memfd::read(STATE, fd, MAX_HANDOVER_BYTES)?)?)
    }

    /// In the oldest version that can say all of it, so that a keeper can go back to an image
    /// before wardens or piped programs while it has none.
    fn encode(&self) -> Vec<u8> {
        let nobody = self.sessions.is_empty() && self.wardens.is_empty();
        let needed = match (nobody, self.piped.is_empty()) {
            (true, true) => 2,
            (true, false) => 3,
            (false, _) => HANDOVER_VERSION,
        };
        self.encode_as(needed)
    }

    fn encode_as(&self, version: u16) -> Vec<u8> {
        let mut w = Writer::default();
        w.put(&version).put(&self.generation).put(&self.started_unix_ms).put(&self.foreground);
        w.put(&self.socket).put(&self.lock).put(&self.log).put(&self.daemon_log).put(&self.daemon);
        let (soft, hard) = self.nofile;
        w.put(&soft.unwrap_or(NONE)).put(&hard.unwrap_or(NONE));
        w.put(&self.lock_fd).put(&self.listener_fd);
        w.put(&Fd(self.link_fd)).put(&Fd(self.ready_fd));
        w.put(&self.running.unwrap_or_default()).put(&self.starts);
        put_last_exit(&mut w, self.last_exit).put(&self.young_deaths).put(&self.ever_ready);
        w.put(&(self.sessions.len() as u32));
        for session in &self.sessions {
            put_session(&mut w, session, version);
        }
        if version >= 3 {
            w.put(&self.piped);
        }
        if version >= 4 {
            let (read, write) = self.reports.unzip();
            w.put(&self.wardens).put(&Fd(read)).put(&Fd(write)).put(&self.strays_tolerated);
        }
        w.finish()
    }

    fn decode(bytes: &[u8]) -> Result<Handover, WireError> {
        let mut r = Reader::new(bytes, Vec::new());
        let version = r.get("version")?;
        if !(OLDEST_VERSION..=HANDOVER_VERSION).contains(&version) {
            let (what, expected) = ("the keeper's state", HANDOVER_VERSION);
            return Err(WireError::Version { what, found: version, expected });
        }
        let mut handover = Handover {
            generation: r.get("generation")?,
            started_unix_ms: r.get("start time")?,
            foreground: r.get("foreground")?,
            socket: r.get_at_most("socket", MAX_PATH_BYTES)?,
            lock: r.get_at_most("lock", MAX_PATH_BYTES)?,
            log: r.get_at_most("log", MAX_PATH_BYTES)?,
            daemon_log: r.get_at_most("daemon log", MAX_PATH_BYTES)?,
            daemon: r.get_at_most("daemon arguments", MAX_DAEMON_ARGS)?,
            nofile: (get_limit(&mut r)?, get_limit(&mut r)?),
            lock_fd: r.get("lock fd")?,
            listener_fd: r.get("listener fd")?,
            link_fd: r.get::<Fd>("link fd")?.0,
            ready_fd: r.get::<Fd>("ready fd")?.0,
            running: Some(r.get("daemon")?).filter(|(pid, _)| *pid > 0),
            starts: r.get("daemon starts")?,
            last_exit: get_last_exit(&mut r)?,
            young_deaths: r.get("young deaths")?,
            ever_ready: r.get("ever ready")?,
            sessions: get_sessions(&mut r, version)?,
            piped: Vec::new(),
            wardens: Vec::new(),
            reports: None,
            strays_tolerated: false,
        };
        if version >= 3 {
            handover.piped = r.get_at_most("piped", MAX_PIPED)?;
        }
        if version >= 4 {
            handover.wardens = r.get_at_most("wardens", MAX_WARDENS)?;
            let (Fd(read), Fd(write)) = r.get("reports")?;
            handover.reports = read.zip(write);
            handover.strays_tolerated = r.get("strays")?;
        } else {
            handover.strays_tolerated = !handover.sessions.is_empty();
        }
        Ok(handover)
    }
}

fn put_session(w: &mut Writer, session: &HeldSession, version: u16) {
    w.put(&session.id).put(&session.pid).put(&session.fds).put(&Fd(session.status_fd));
    put_exit(w, session.exit);
    if version >= 2 {
        w.put(&Fd(session.inner_fd)).put(&Fd(session.listener_fd));
    }
    if version >= 4 {
        let (pid, start) = session.program.map_or((0, 0), |it| (it.pid, it.start_time));
        w.put(&session.held).put(&pid).put(&start);
    }
}

fn get_sessions(r: &mut Reader<'_>, version: u16) -> Result<Vec<HeldSession>, WireError> {
    let value = r.get::<u32>("sessions")? as usize;
    if value > MAX_SESSIONS {
        return Err(WireError::OverLimit { field: "sessions", value, limit: MAX_SESSIONS });
    }
    (0..value).map(|_| get_session(r, version)).collect()
}

fn get_session(r: &mut Reader<'_>, version: u16) -> Result<HeldSession, WireError> {
    let mut session = HeldSession {
        id: r.get("session id")?,
        pid: r.get("pid")?,
        fds: r.get("fds")?,
        status_fd: r.get::<Fd>("status fd")?.0,
        exit: get_exit(r)?,
        inner_fd: None,
        listener_fd: None,
        held: false,
        program: None,
    };
    if version >= 2 {
        session.inner_fd = r.get::<Fd>("inner fd")?.0;
        session.listener_fd = r.get::<Fd>("listener fd")?.0;
    }
    if version >= 4 {
        session.held = r.get("held")?;
        let (pid, start_time) = r.get("program")?;
        session.program = Some(Process { pid, start_time }).filter(|it| it.pid > 0);
    }
    Ok(session)
}

/// -1 if there is none.
struct Fd(Option<RawFd>);

impl Wire for Fd {
    fn put(&self, w: &mut Writer) {
        w.put(&self.0.unwrap_or(-1));
    }
    fn get(r: &mut Reader<'_>) -> Result<Fd, WireError> {
        i32::get(r).map(|fd| Fd(Some(fd).filter(|fd| *fd >= 0)))
    }
}

fn get_limit(r: &mut Reader<'_>) -> Result<Option<u64>, WireError> {
    Ok(Some(r.get("limit")?).filter(|limit| *limit != NONE))
}

#[cfg(test)]
mod tests;

//! What one image of the keeper leaves to the next: plain numbers in a memfd.
//!
//! In and out: `Handover`, the whole state of the keeper with fds as numbers. The old image makes exactly these fds survive
//! exec, the new one adopts exactly these. `HANDOVER_VERSION` is checked by `--check` before anything is risked. Absent on
//! purpose: waiting messages. The daemon is restarted anyway, and the new one asks.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;

use rustix::fs::MemfdFlags;

use crate::message::{
    ExitStatus, LastExit, MAX_PATH_BYTES, SessionId, WorkerId, get_status, put_status,
};
use crate::sessions::MAX_SESSIONS;
use crate::tree::Process;
use crate::wire::{DecodeError, Reader, Writer};
use crate::workers::MAX_WORKERS;

/// Grows with every change of the layout; a keeper can only be replaced by one that reads its version. Version 1 had no
/// sandboxes, version 2 no workers, version 3 no wardens; all are still read.
const HANDOVER_VERSION: u16 = 4;
const OLDEST_VERSION: u16 = 1;
/// Far above 4,096 sessions of 40 bytes and a few paths.
const MAX_HANDOVER_BYTES: u64 = 4 * 1024 * 1024;
/// Released sessions may have one too; each is a process, and a user has no more of those.
const MAX_WARDENS: usize = 65_536;
/// Arguments of the daemon.
const MAX_DAEMON_ARGS: usize = 1024;
/// Absent fd or limit on the wire.
const NONE: u64 = u64::MAX;

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
    pub(crate) workers: Vec<HeldWorker>,
    /// Every warden, also of sessions that are released.
    pub(crate) wardens: Vec<(SessionId, i32)>,
    /// The pipe on which they talk: where it is read, where it is written.
    pub(crate) reports: Option<(RawFd, RawFd)>,
    /// Orphans of sessions without a warden may be the keeper's children.
    pub(crate) strays_tolerated: bool,
}

/// The old daemon's, to be ended with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldWorker {
    pub(crate) id: WorkerId,
    pub(crate) pid: i32,
    pub(crate) watched: bool,
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
    #[error("cannot {step} the keeper's state: {source}")]
    Io { step: &'static str, source: io::Error },
    #[error("the keeper's state is {0} bytes, the limit is {MAX_HANDOVER_BYTES}")]
    TooLarge(u64),
    #[error("the keeper's state cannot be read: {0}")]
    Malformed(#[from] DecodeError),
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
        let fd = rustix::fs::memfd_create("greenroom-keeper", MemfdFlags::CLOEXEC)
            .map_err(|errno| io_error("create")(errno.into()))?;
        let mut file = File::from(fd);
        file.write_all(&self.encode()).map_err(io_error("write"))?;
        Ok(file.into())
    }

    pub(crate) fn from_memfd(fd: BorrowedFd<'_>) -> Result<Handover, HandoverError> {
        let file = File::from(fd.try_clone_to_owned().map_err(io_error("open"))?);
        let size = file.metadata().map_err(io_error("measure"))?.len();
        if size > MAX_HANDOVER_BYTES {
            return Err(HandoverError::TooLarge(size));
        }
        let mut bytes = vec![0; size as usize];
        file.read_exact_at(&mut bytes, 0).map_err(io_error("read"))?;
        Ok(Handover::decode(&bytes)?)
    }

    /// As old as it can be said, so that a keeper can go back to an image before wardens or workers while it has none.
    fn encode(&self) -> Vec<u8> {
        let nobody = self.sessions.is_empty() && self.wardens.is_empty();
        let needed = match (nobody, self.workers.is_empty()) {
            (true, true) => 2,
            (true, false) => 3,
            (false, _) => HANDOVER_VERSION,
        };
        self.encode_as(needed)
    }

    fn encode_as(&self, version: u16) -> Vec<u8> {
        let mut w = Writer::default();
        w.u16(version).u32(self.generation).u64(self.started_unix_ms).flag(self.foreground);
        for path in [&self.socket, &self.lock, &self.log, &self.daemon_log] {
            w.bytes(path.as_bytes());
        }
        w.count(self.daemon.len());
        for arg in &self.daemon {
            w.bytes(arg.as_bytes());
        }
        w.u64(self.nofile.0.unwrap_or(NONE))
            .u64(self.nofile.1.unwrap_or(NONE))
            .i32(self.lock_fd)
            .i32(self.listener_fd);
        put_fd(&mut w, self.link_fd);
        put_fd(&mut w, self.ready_fd);
        let (pid, lived) = self.running.unwrap_or((0, 0));
        w.i32(pid).u64(lived).u32(self.starts);
        put_status(&mut w, self.last_exit.as_ref().map(|last| &last.status))
            .u64(self.last_exit.map_or(0, |last| last.lived_ms))
            .u32(self.young_deaths)
            .flag(self.ever_ready)
            .count(self.sessions.len());
        for session in &self.sessions {
            w.u64(session.id.0).i32(session.pid);
            for fd in session.fds {
                w.i32(fd);
            }
            put_fd(&mut w, session.status_fd);
            put_status(&mut w, session.exit.as_ref());
            if version >= 2 {
                put_fd(&mut w, session.inner_fd);
                put_fd(&mut w, session.listener_fd);
            }
            if version >= 4 {
                let (pid, start) = session.program.map_or((0, 0), |it| (it.pid, it.start_time));
                w.flag(session.held).i32(pid).u64(start);
            }
        }
        if version >= 3 {
            w.count(self.workers.len());
            for worker in &self.workers {
                w.u64(worker.id.0).i32(worker.pid).flag(worker.watched);
            }
        }
        if version >= 4 {
            w.count(self.wardens.len());
            for (id, pid) in &self.wardens {
                w.u64(id.0).i32(*pid);
            }
            put_fd(&mut w, self.reports.map(|(read, _)| read));
            put_fd(&mut w, self.reports.map(|(_, write)| write));
            w.flag(self.strays_tolerated);
        }
        w.finish()
    }

    fn decode(bytes: &[u8]) -> Result<Handover, DecodeError> {
        let mut r = Reader::new(bytes);
        let version = r.u16("state version")?;
        if !(OLDEST_VERSION..=HANDOVER_VERSION).contains(&version) {
            return Err(DecodeError::Version {
                what: "the keeper's state",
                found: version,
                expected: HANDOVER_VERSION,
            });
        }
        let mut handover = Handover {
            generation: r.u32("generation")?,
            started_unix_ms: r.u64("start time")?,
            foreground: r.flag("foreground")?,
            socket: get_os(&mut r, "socket")?,
            lock: get_os(&mut r, "lock")?,
            log: get_os(&mut r, "log")?,
            daemon_log: get_os(&mut r, "daemon log")?,
            daemon: {
                let count = r.count("daemon arguments", MAX_DAEMON_ARGS)?;
                (0..count).map(|_| get_os(&mut r, "daemon argument")).collect::<Result<_, _>>()?
            },
            nofile: (get_limit(&mut r)?, get_limit(&mut r)?),
            lock_fd: r.i32("lock fd")?,
            listener_fd: r.i32("listener fd")?,
            link_fd: get_fd(&mut r)?,
            ready_fd: get_fd(&mut r)?,
            running: {
                let pid = r.i32("daemon pid")?;
                let lived = r.u64("daemon age")?;
                (pid > 0).then_some((pid, lived))
            },
            starts: r.u32("daemon starts")?,
            last_exit: {
                let status = get_status(&mut r)?;
                let lived_ms = r.u64("lived")?;
                status.map(|status| LastExit { status, lived_ms })
            },
            young_deaths: r.u32("young deaths")?,
            ever_ready: r.flag("ever ready")?,
            sessions: {
                let count = r.count("session count", MAX_SESSIONS)?;
                (0..count).map(|_| get_session(&mut r, version)).collect::<Result<_, _>>()?
            },
            workers: match version {
                ..3 => Vec::new(),
                _ => {
                    let count = r.count("worker count", MAX_WORKERS)?;
                    (0..count).map(|_| get_worker(&mut r)).collect::<Result<_, _>>()?
                }
            },
            wardens: Vec::new(),
            reports: None,
            strays_tolerated: false,
        };
        if version >= 4 {
            let count = r.count("warden count", MAX_WARDENS)?;
            let mut warden = || Ok((SessionId(r.u64("session id")?), r.i32("pid")?));
            handover.wardens = (0..count).map(|_| warden()).collect::<Result<_, DecodeError>>()?;
            handover.reports = get_fd(&mut r)?.zip(get_fd(&mut r)?);
            handover.strays_tolerated = r.flag("strays")?;
        } else {
            handover.strays_tolerated = !handover.sessions.is_empty();
        }
        Ok(handover)
    }
}

fn get_session(r: &mut Reader<'_>, version: u16) -> Result<HeldSession, DecodeError> {
    let sandboxes = version >= 2;
    Ok(HeldSession {
        id: SessionId(r.u64("session id")?),
        pid: r.i32("pid")?,
        fds: [r.i32("fd")?, r.i32("fd")?, r.i32("fd")?, r.i32("fd")?],
        status_fd: get_fd(r)?,
        exit: get_status(r)?,
        inner_fd: if sandboxes { get_fd(r)? } else { None },
        listener_fd: if sandboxes { get_fd(r)? } else { None },
        held: version >= 4 && r.flag("held")?,
        program: match version {
            ..4 => None,
            _ => {
                let program = Process { pid: r.i32("program")?, start_time: r.u64("start time")? };
                (program.pid > 0).then_some(program)
            }
        },
    })
}

fn get_worker(r: &mut Reader<'_>) -> Result<HeldWorker, DecodeError> {
    Ok(HeldWorker {
        id: WorkerId(r.u64("worker id")?),
        pid: r.i32("pid")?,
        watched: r.flag("watched")?,
    })
}

fn put_fd(w: &mut Writer, fd: Option<RawFd>) {
    w.i32(fd.unwrap_or(-1));
}

fn get_fd(r: &mut Reader<'_>) -> Result<Option<RawFd>, DecodeError> {
    let fd = r.i32("fd")?;
    Ok((fd >= 0).then_some(fd))
}

fn get_limit(r: &mut Reader<'_>) -> Result<Option<u64>, DecodeError> {
    let value = r.u64("limit")?;
    Ok((value != NONE).then_some(value))
}

fn get_os(r: &mut Reader<'_>, field: &'static str) -> Result<OsString, DecodeError> {
    let bytes = r.bytes(field, MAX_PATH_BYTES)?;
    Ok(OsString::from_vec(bytes.to_vec()))
}

fn io_error(step: &'static str) -> impl FnOnce(io::Error) -> HandoverError {
    move |source| HandoverError::Io { step, source }
}

#[cfg(test)]
mod tests;

//! A session's kernel objects: PTY, pipe, ring, and the child on the PTY.
//!
//! In: a checked `SpawnSpec`. Out: a session that is starting: the four fds the keeper holds, a
//! pid, and the status pipe of `launch.rs`; or the step that failed. Absent on purpose: a single
//! byte of terminal traffic.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use greenroom_sandbox::stage::terminal::Terminal;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use crate::launch::{Become, ChildSpec, Launched, SpawnError, Starter, Stdio, launch};
use crate::message::{SessionFds, SessionId, SpawnStep};
use crate::sessions::{Phase, Session};
use crate::spec::SpawnSpec;

/// Between master and ring a pipe never holds more than one splice (16 KiB); unprivileged users get
/// few large pipes.
const PIPE_BYTES: usize = 16 * 1024;

/// Pipe and ring of a session. A sandboxed one has them before its terminal.
#[derive(Debug)]
pub(crate) struct Buffers {
    pipe_read: OwnedFd,
    pipe_write: OwnedFd,
    ring: OwnedFd,
}

impl Buffers {
    pub(crate) fn open(ring_bytes: u32) -> Result<Buffers, SpawnError> {
        let (pipe_read, pipe_write) = open_pipe().map_err(SpawnError::at(SpawnStep::Buffers))?;
        let ring = open_ring(ring_bytes).map_err(SpawnError::at(SpawnStep::Buffers))?;
        Ok(Buffers { pipe_read, pipe_write, ring })
    }

    pub(crate) fn with(self, master: OwnedFd) -> SessionFds {
        let Buffers { pipe_read, pipe_write, ring } = self;
        SessionFds { master, pipe_read, pipe_write, ring }
    }
}

/// Opens everything and launches the warden, which starts the program.
pub(crate) fn start(
    id: SessionId,
    spec: SpawnSpec,
    starter: &Starter<'_>,
    reports: BorrowedFd<'_>,
) -> Result<Session, SpawnError> {
    let (cols, rows) = (spec.launch.cols, spec.launch.rows);
    let terminal = Terminal::open(cols, rows).map_err(SpawnError::at(SpawnStep::Pty))?;
    let buffers = Buffers::open(spec.ring_bytes)?;
    let unreadable = SpawnError { step: SpawnStep::Spec, errno: libc::EINVAL };
    let image = spec.launch.image().ok_or(unreadable)?;
    let Launched { pid, status } = launch(
        &ChildSpec {
            child: Become::Warden { image: &image, stages: starter.stages, id, reports },
            stdio: Stdio::Terminal(terminal.slave.as_fd()),
            pass: &[],
            nofile: Some(starter.nofile),
            expendable: true,
        },
        starter.slots,
    )?;
    let (fds, phase) = (buffers.with(terminal.master), Phase::Starting(status));
    Ok(Session { pid, program: None, held: true, fds, phase, inner: None, listener: None })
}

fn open_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    match rustix::pipe::fcntl_setpipe_size(&write, PIPE_BYTES) {
        // Over the user's pipe quota: the size the kernel gave is smaller and works too.
        Ok(_) | Err(Errno::PERM) => Ok((read, write)),
        Err(errno) => Err(errno),
    }
}

fn open_ring(bytes: u32) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let ring = rustix::fs::memfd_create("greenroom-ring", flags)?;
    rustix::fs::ftruncate(&ring, u64::from(bytes))?;
    // A ring cut short under a mapping would be SIGBUS for the daemon.
    rustix::fs::fcntl_add_seals(&ring, SealFlags::SHRINK)?;
    Ok(ring)
}

//! A session's kernel objects: PTY, pipe, ring, and the child on the PTY.
//!
//! In: a checked `SpawnSpec`. Out: the four fds the keeper holds, a pid, and the status pipe of `launch.rs`; or the step that
//! failed. Absent on purpose: a single byte of terminal traffic.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{MemfdFlags, OFlags, SealFlags};
use rustix::pipe::PipeFlags;
use rustix::pty::OpenptFlags;
use rustix::termios::{InputModes, OptionalActions, Winsize};

use crate::launch::{Become, Fault, Image, Launched, Plan, Stdio, launch};
use crate::link::SessionFds;
use crate::message::{SessionId, SpawnStep};
use crate::spec::SpawnSpec;
use crate::staging::Starter;

/// Between master and ring a pipe never holds more than one splice (16 KiB); unprivileged users get few large pipes.
const PIPE_BYTES: usize = 16 * 1024;

pub(crate) struct Started {
    pub(crate) launched: Launched,
    pub(crate) fds: SessionFds,
}

/// Pipe and ring of a session whose terminal is still to come.
#[derive(Debug)]
pub(crate) struct Buffers {
    /// Read end, write end, ring; gone once the session has them.
    fds: Option<[OwnedFd; 3]>,
}

impl Buffers {
    pub(crate) fn open(ring_bytes: u32) -> Result<Buffers, Fault> {
        let (pipe_read, pipe_write) = open_pipe().map_err(Fault::at(SpawnStep::Buffers))?;
        let ring = open_ring(ring_bytes).map_err(Fault::at(SpawnStep::Buffers))?;
        Ok(Buffers { fds: Some([pipe_read, pipe_write, ring]) })
    }

    pub(crate) fn take(&mut self) -> Option<[OwnedFd; 3]> {
        self.fds.take()
    }
}

/// Opens everything and launches the warden, which starts the program.
pub(crate) fn start(
    id: SessionId,
    spec: SpawnSpec,
    cgroup: Option<BorrowedFd<'_>>,
    starter: &Starter<'_>,
    reports: BorrowedFd<'_>,
) -> Result<Started, Fault> {
    let (master, slave) = open_pty(&spec).map_err(Fault::at(SpawnStep::Pty))?;
    let (pipe_read, pipe_write) = open_pipe().map_err(Fault::at(SpawnStep::Buffers))?;
    let ring = open_ring(spec.ring_bytes).map_err(Fault::at(SpawnStep::Buffers))?;
    let image = Image::new(spec.argv, spec.env, Some(spec.cwd))
        .ok_or(Fault { step: SpawnStep::Spec, errno: libc::EINVAL })?;
    let launched = launch(
        &Plan {
            child: Become::Warden { image: &image, stages: starter.stages, id, reports },
            stdio: Stdio::Terminal(slave.as_fd()),
            pass: &[],
            cgroup,
            nofile: Some(starter.nofile),
            expendable: true,
        },
        starter.slots,
    )?;
    Ok(Started { launched, fds: SessionFds { master, pipe_read, pipe_write, ring } })
}

fn open_pty(spec: &SpawnSpec) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&master)?;
    // By fd, not by path: works in any mount namespace.
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    let mut termios = rustix::termios::tcgetattr(&slave)?;
    termios.input_modes |= InputModes::IUTF8;
    rustix::termios::tcsetattr(&slave, OptionalActions::Now, &termios)?;
    let size = Winsize { ws_row: spec.rows, ws_col: spec.cols, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&slave, size)?;
    // A blocking splice from the master would hold the pipe's lock.
    let flags = rustix::fs::fcntl_getfl(&master)?;
    rustix::fs::fcntl_setfl(&master, flags | OFlags::NONBLOCK)?;
    Ok((master, slave))
}

fn open_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    match rustix::pipe::fcntl_setpipe_size(&write, PIPE_BYTES) {
        // Over the user's pipe quota: the size the kernel gave is smaller and works too.
        Ok(_) | Err(rustix::io::Errno::PERM) => Ok((read, write)),
        Err(errno) => Err(errno.into()),
    }
}

fn open_ring(bytes: u32) -> io::Result<OwnedFd> {
    let ring = rustix::fs::memfd_create(
        "greenroom-ring",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?;
    rustix::fs::ftruncate(&ring, u64::from(bytes))?;
    // A ring cut short under a mapping would be SIGBUS for the daemon.
    rustix::fs::fcntl_add_seals(&ring, SealFlags::SHRINK)?;
    Ok(ring)
}

//! Sandboxed sessions on their way: the stage is making the fence and has not yet become the
//! program.
//!
//! In: a launched stage and its control socket. Out, without ever blocking: the terminal it made
//! inside (a piped program has none: its pipes go to the stage over that socket), or which layer
//! failed and why. The program runs once the stage has said "ready" and the socket has ended
//! without a fault: exec closes it. A stage that takes too long is killed. Absent on purpose: what
//! a plan says; the keeper only carries it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use greenroom_sandbox::control::{NAMESPACES_WORD, Report, STDIO_WORD};
use greenroom_sandbox::wire::Wire;
use rustix::net::{RecvFlags, SendFlags};

use crate::launch::{
    Become, ChildSpec, Launched, Progress, SpawnError, Starter, Status, Stdio, launch,
};
use crate::link::{Endpoint, LinkError};
use crate::message::{SessionFds, SpawnStep};
use crate::spawn::Buffers;

/// A stage needs milliseconds; one that hangs on a dead file system is given up after this.
const STAGE_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Staging {
    pub(crate) pid: i32,
    status: Status,
    control: Endpoint,
    /// `None` for a piped program.
    buffers: Option<Buffers>,
    ready: Option<Made>,
    /// `None` once it was killed for being late.
    pub(crate) kill_at: Option<Instant>,
}

/// What a stage made inside.
#[derive(Debug)]
struct Made {
    /// A piped program has no terminal.
    master: Option<OwnedFd>,
    inner: Option<OwnedFd>,
    listener: Option<OwnedFd>,
}

/// How far a stage has come.
pub(crate) enum Staged {
    NotYet,
    Running(Inside),
    Failed(SpawnError, String),
}

/// A session whose program runs inside.
pub(crate) struct Inside {
    /// `None` for a piped program.
    pub(crate) fds: Option<SessionFds>,
    /// The program, which is not the process the keeper started.
    pub(crate) inner: Option<OwnedFd>,
    pub(crate) listener: Option<OwnedFd>,
}

impl Staging {
    /// A session's stage.
    pub(crate) fn start(
        plan: BorrowedFd<'_>,
        buffers: Buffers,
        namespaces: Option<Endpoint>,
        starter: &Starter<'_>,
    ) -> Result<Staging, SpawnError> {
        let given = namespaces.as_ref().map(|it| (NAMESPACES_WORD, [it.as_fd()]));
        let given = given.as_ref().map(|(word, fds)| (word, &fds[..]));
        Staging::launch(plan, Some(buffers), given, starter)
    }

    /// A piped program's stage.
    pub(crate) fn start_piped(
        plan: BorrowedFd<'_>,
        stdio: [BorrowedFd<'_>; 3],
        starter: &Starter<'_>,
    ) -> Result<Staging, SpawnError> {
        Staging::launch(plan, None, Some((&STDIO_WORD, &stdio)), starter)
    }

    fn launch(
        plan: BorrowedFd<'_>,
        buffers: Option<Buffers>,
        given: Option<(&[u8; 1], &[BorrowedFd<'_>])>,
        starter: &Starter<'_>,
    ) -> Result<Staging, SpawnError> {
        let (control, theirs) = Endpoint::pair().map_err(SpawnError::at(SpawnStep::Buffers))?;
        if let Some((word, fds)) = given {
            // Waits in the socket until the stage reads it, or is closed with it.
            control
                .send(word, fds, SendFlags::DONTWAIT)
                .map_err(SpawnError::at(SpawnStep::Descriptors))?;
        }
        let pass = [plan, theirs.as_fd()];
        let child = Become::Stage(starter.stages);
        let nofile = Some(starter.nofile);
        let stdio = Stdio::Inherit;
        let spec = ChildSpec { child, stdio, pass: &pass, nofile, expendable: true };
        let Launched { pid, status } = launch(&spec, starter.slots)?;
        Ok(Staging {
            pid,
            status,
            control,
            buffers,
            ready: None,
            kill_at: Some(Instant::now() + STAGE_PATIENCE),
        })
    }

    /// Reads what the stage has said. After anything but `NotYet` this is over.
    pub(crate) fn look(&mut self) -> Staged {
        loop {
            match self.control.recv(RecvFlags::DONTWAIT) {
                Ok(Some((bytes, fds))) => match self.heard(&bytes, fds) {
                    Ok(()) => {}
                    Err((fault, why)) => return Staged::Failed(fault, why),
                },
                Ok(None) => return self.ended(),
                Err(LinkError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::WouldBlock =>
                {
                    return Staged::NotYet;
                }
                Err(error) => return failed(libc::EPROTO, format!("its stage: {error}")),
            }
        }
    }

    fn heard(&mut self, bytes: &[u8], fds: Vec<OwnedFd>) -> Result<(), (SpawnError, String)> {
        let fault = |errno| SpawnError { step: SpawnStep::Sandbox, errno };
        let strange = || (fault(libc::EPROTO), "its stage said something strange".to_owned());
        match Report::decode(bytes) {
            Ok(Report::Ready { inner, listener }) if self.ready.is_none() => {
                let mut fds = fds.into_iter();
                let mut next =
                    |wanted: bool| wanted.then(|| fds.next().ok_or_else(strange)).transpose();
                let master = next(self.buffers.is_some())?;
                let (inner, listener) = (next(inner)?, next(listener)?);
                self.ready = Some(Made { master, inner, listener });
                Ok(())
            }
            Ok(Report::Failed(error)) => Err((fault(error.errno), error.to_string())),
            Ok(Report::Ready { .. }) | Err(_) => Err(strange()),
        }
    }

    /// The end of the control socket: exec, or death.
    fn ended(&mut self) -> Staged {
        let Some(Made { master, inner, listener }) = self.ready.take() else {
            return self.died();
        };
        let fds = self.buffers.take().zip(master).map(|(buffers, master)| buffers.with(master));
        Staged::Running(Inside { fds, inner, listener })
    }

    /// It was reaped, or ended, without having said all it should.
    pub(crate) fn died(&self) -> Staged {
        match self.status.poll() {
            Progress::Failed(fault) => Staged::Failed(fault, "its stage could not run".to_owned()),
            _ if self.kill_at.is_none() => failed(
                libc::ETIMEDOUT,
                format!("its stage was not ready after {} s", STAGE_PATIENCE.as_secs()),
            ),
            _ => failed(libc::ECHILD, "its stage was killed".to_owned()),
        }
    }
}

fn failed(errno: i32, why: String) -> Staged {
    Staged::Failed(SpawnError { step: SpawnStep::Sandbox, errno }, why)
}

impl AsFd for Staging {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

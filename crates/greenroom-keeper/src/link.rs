//! The control socket between keeper and daemon: one SEQPACKET datagram is one message, fds ride
//! along as SCM_RIGHTS.
//!
//! The daemon uses `KeeperLink`: blocking `send`-like calls and a blocking `recv` that gives
//! `KeeperEvent`s with their fds already sorted into sessions. It is `Send + Sync`; let one thread
//! loop on `recv` and any other send. **Always keep receiving**: the keeper never blocks on this
//! socket, but while 256 answers wait for a daemon that does not read, it stops reading requests,
//! so a daemon that sends and does not receive ends up waiting for itself.
//!
//! The keeper uses `Endpoint` with non-blocking calls. Absent on purpose: retries, requests matched
//! to replies (the daemon knows its session ids), and any fd this protocol does not expect: those
//! are closed on receipt.

use std::io;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use greenroom_sandbox::wire::{Reader, Wire, WireError};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::message::{
    KeeperEvent, MAX_MESSAGE_BYTES, MAX_TAKE, PROTOCOL_VERSION, PipedId, SessionId, SignalTarget,
    ToKeeper,
};
use crate::spec::{SpawnSpec, SpecError};

/// Number of the link's fd in a daemon started by the keeper.
pub const LINK_FD: i32 = 3;
/// Number of the listening socket's fd in a daemon started by the keeper.
pub const LISTEN_FD: i32 = 4;
/// master, pipe read end, pipe write end, ring.
pub const FDS_PER_SESSION: usize = 4;
/// The most fds in one message.
pub const MAX_FDS: usize = MAX_TAKE * FDS_PER_SESSION;

#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("cannot {step} on the keeper link")]
    Io { step: &'static str, source: io::Error },
    #[error("fd {0} is not the keeper link: was this daemon started by the keeper?")]
    NotALink(i32),
    #[error("the fds from the keeper were already taken over")]
    AlreadyTaken,
    #[error("a message on the keeper link was cut at {MAX_MESSAGE_BYTES} bytes")]
    Truncated,
    #[error("fds were lost on the keeper link: the limit on open files is too low")]
    FdsLost,
    #[error("a message on the keeper link came with {got} fds, which is not what belongs to it")]
    FdCount { got: usize },
    #[error("a message on the keeper link is malformed")]
    Malformed(#[from] WireError),
    #[error("cannot describe session {id} to the keeper")]
    Spec { id: SessionId, source: SpecError },
    #[error("{count} sessions in one take, the limit is {MAX_TAKE}")]
    TakeTooLarge { count: usize },
}

/// The daemon's side.
#[derive(Debug)]
pub struct KeeperLink {
    endpoint: Endpoint,
}

impl KeeperLink {
    /// Takes over a connected SEQPACKET socket.
    pub fn new(fd: OwnedFd) -> Result<KeeperLink, LinkError> {
        let number = std::os::fd::AsRawFd::as_raw_fd(&fd);
        match rustix::net::sockopt::socket_type(&fd) {
            Ok(SocketType::SEQPACKET) => {}
            _ => return Err(LinkError::NotALink(number)),
        }
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)
            .map_err(io_error("set CLOEXEC"))?;
        Ok(KeeperLink { endpoint: Endpoint::new(fd) })
    }

    /// A second handle to the same link, for another thread.
    pub fn try_clone(&self) -> Result<KeeperLink, LinkError> {
        let fd = rustix::io::fcntl_dupfd_cloexec(&self.endpoint, 0).map_err(io_error("dup"))?;
        Ok(KeeperLink { endpoint: Endpoint::new(fd) })
    }

    pub fn hello(&self) -> Result<(), LinkError> {
        self.send(
            &ToKeeper::Hello { version: PROTOCOL_VERSION, pid: std::process::id() as i32 },
            &[],
        )
    }

    pub fn ready(&self) -> Result<(), LinkError> {
        self.send(&ToKeeper::Ready, &[])
    }

    /// Asks for a session; `Spawned` or `SpawnFailed` follows.
    pub fn spawn(&self, id: SessionId, spec: &SpawnSpec) -> Result<(), LinkError> {
        self.ask_for(id, spec, None)
    }

    /// Asks for a session in a sandbox. `plan` is sealed (`greenroom_sandbox::plan::Plan::seal`)
    /// and has the program. If its network has allowed hosts, `Listener` comes before `Spawned`. A
    /// fault of the sandbox is a `SpawnFailed` with words.
    pub fn spawn_sandboxed(
        &self,
        id: SessionId,
        ring_bytes: u32,
        plan: BorrowedFd<'_>,
    ) -> Result<(), LinkError> {
        self.ask_for(id, &SpawnSpec::sandboxed(ring_bytes), Some(plan))
    }

    fn ask_for(
        &self,
        id: SessionId,
        spec: &SpawnSpec,
        plan: Option<BorrowedFd<'_>>,
    ) -> Result<(), LinkError> {
        let memfd = spec.to_memfd().map_err(|source| LinkError::Spec { id, source })?;
        let message = ToKeeper::Spawn { id, with_cgroup: false, with_plan: plan.is_some() };
        let mut fds = vec![memfd.as_fd()];
        fds.extend(plan);
        self.send(&message, &fds)
    }

    /// Asks for a piped program: `PipedStarted` or `PipedFailed` follows, then `PipedEnded`. `plan`
    /// is sealed and for pipes; `stdio` becomes its stdin, stdout and stderr. It ends with this
    /// daemon. Only if the keeper's hello said that it knows piped programs.
    pub fn start_piped(
        &self,
        id: PipedId,
        watched: bool,
        plan: BorrowedFd<'_>,
        stdio: [BorrowedFd<'_>; 3],
    ) -> Result<(), LinkError> {
        let [stdin, stdout, stderr] = stdio;
        self.send(&ToKeeper::StartPiped { id, watched }, &[plan, stdin, stdout, stderr])
    }

    /// Ends a piped program and everything it started, without asking it.
    pub fn end_piped(&self, id: PipedId) -> Result<(), LinkError> {
        self.send(&ToKeeper::EndPiped { id }, &[])
    }

    /// Asks who is the warden of which session, also of those that are released. Only if the
    /// keeper's hello said that it knows.
    pub fn wardens(&self) -> Result<(), LinkError> {
        self.send(&ToKeeper::Wardens, &[])
    }

    /// Ends everything of a session, also what its program left behind, without asking it.
    pub fn end(&self, id: SessionId) -> Result<(), LinkError> {
        self.send(&ToKeeper::End { id }, &[])
    }

    pub fn list(&self) -> Result<(), LinkError> {
        self.send(&ToKeeper::List, &[])
    }

    /// Asks for the fds of at most `MAX_TAKE` sessions.
    pub fn take(&self, ids: &[SessionId]) -> Result<(), LinkError> {
        if ids.len() > MAX_TAKE {
            return Err(LinkError::TakeTooLarge { count: ids.len() });
        }
        self.send(&ToKeeper::Take { ids: ids.to_vec() }, &[])
    }

    pub fn signal(&self, id: SessionId, signo: i32, to: SignalTarget) -> Result<(), LinkError> {
        self.send(&ToKeeper::Signal { id, signo, to }, &[])
    }

    /// The session's output is drained and its end recorded: the keeper may forget it. Ignored
    /// while its process lives.
    pub fn release(&self, id: SessionId) -> Result<(), LinkError> {
        self.send(&ToKeeper::Release { id }, &[])
    }

    pub fn replace(&self, path: &Path) -> Result<(), LinkError> {
        self.send(&ToKeeper::Replace { path: path.to_owned() }, &[])
    }

    /// Ends every session (`Exited` is told for each), then the keeper, once this daemon has
    /// exited.
    pub fn shutdown(&self) -> Result<(), LinkError> {
        self.send(&ToKeeper::Shutdown, &[])
    }

    pub fn send(&self, message: &ToKeeper, fds: &[BorrowedFd<'_>]) -> Result<(), LinkError> {
        let bytes = message.encode();
        loop {
            match self.endpoint.send(&bytes, fds, SendFlags::empty()) {
                Err(Errno::INTR) => {}
                other => return other.map_err(io_error("send")),
            }
        }
    }

    /// Waits for the next message. `None`: the keeper is gone.
    pub fn recv(&self) -> Result<Option<KeeperEvent>, LinkError> {
        let Some((bytes, fds)) = self.endpoint.recv(RecvFlags::empty())? else {
            return Ok(None);
        };
        let got = fds.len();
        let mut r = Reader::new(&bytes, fds);
        match KeeperEvent::get(&mut r) {
            Ok(event) if r.fds_left() == 0 || matches!(event, KeeperEvent::Unknown { .. }) => {
                Ok(Some(event))
            }
            Ok(_) | Err(WireError::NoFd { .. }) => Err(LinkError::FdCount { got }),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for KeeperLink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.endpoint.as_fd()
    }
}

/// Bytes and fds.
pub(crate) type Datagram = (Vec<u8>, Vec<OwnedFd>);

/// One end of the socket: datagrams with fds, nothing understood.
#[derive(Debug)]
pub(crate) struct Endpoint {
    fd: OwnedFd,
}

impl Endpoint {
    pub(crate) fn new(fd: OwnedFd) -> Endpoint {
        Endpoint { fd }
    }

    /// Both ends: the keeper's, and the one for a child.
    pub(crate) fn pair() -> Result<(Endpoint, OwnedFd), Errno> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None)?;
        Ok((Endpoint::new(ours), theirs))
    }

    /// The raw errno: the keeper tells "later" (EAGAIN, ETOOMANYREFS) from "never" by it.
    pub(crate) fn send(
        &self,
        bytes: &[u8],
        fds: &[BorrowedFd<'_>],
        flags: SendFlags,
    ) -> Result<(), Errno> {
        let mut space = [MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Errno::INVAL);
        }
        rustix::net::sendmsg(
            &self.fd,
            &[IoSlice::new(bytes)],
            &mut control,
            flags | SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    /// `None` at the end. With DONTWAIT an empty queue is an `Io` error of kind `WouldBlock`.
    pub(crate) fn recv(&self, flags: RecvFlags) -> Result<Option<Datagram>, LinkError> {
        let mut bytes = [0_u8; MAX_MESSAGE_BYTES];
        let mut space = [MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let result = rustix::net::recvmsg(
                &self.fd,
                &mut [IoSliceMut::new(&mut bytes)],
                &mut control,
                flags | RecvFlags::CMSG_CLOEXEC,
            );
            match result {
                Ok(received) => break received,
                Err(Errno::INTR) => {}
                // The peer died with our messages unread. Told once, and before what it had sent:
                // that is still to come.
                Err(Errno::CONNRESET) => {}
                Err(errno) => return Err(io_error("receive")(errno)),
            }
        };
        // Collected before any check so that no path leaks an fd.
        let fds: Vec<OwnedFd> = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            })
            .flatten()
            .collect();
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(LinkError::FdsLost);
        }
        if received.flags.contains(ReturnFlags::TRUNC) {
            return Err(LinkError::Truncated);
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        Ok(Some((bytes[..received.bytes].to_vec(), fds)))
    }
}

impl AsFd for Endpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn io_error(step: &'static str) -> impl FnOnce(Errno) -> LinkError {
    move |errno| LinkError::Io { step, source: errno.into() }
}

#[cfg(test)]
mod tests;

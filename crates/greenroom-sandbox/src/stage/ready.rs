//! A user and a network namespace made in advance, by a process that has nothing else to do and
//! ends at once.
//!
//! Making them takes the kernel half a millisecond, a third of what a stage needs, and no plan has
//! a say in it. In: a socket. Out, on that socket: both, as fds, for exactly one stage; they are
//! gone when nobody has the socket any more. Absent on purpose: everything that grows old. Mounts
//! and processes are a stage's own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::LinkNameSpaceType;

use super::{Failing, namespaces, receive_waiting, send};
use crate::control::{NAMESPACES_WORD, StageError};
use crate::layer::Layer;

pub(crate) struct ReadyNamespaces {
    user: OwnedFd,
    network: OwnedFd,
}

/// Makes both and leaves them in the socket.
pub(super) fn make(socket: BorrowedFd<'_>) -> Result<(), StageError> {
    namespaces::user()?;
    namespaces::network()?;
    let failing = || "leave it for another".to_owned();
    let open = |path| {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .failing(Layer::NetworkNamespace, failing)
    };
    let (user, network) = (open("/proc/self/ns/user")?, open("/proc/self/ns/net")?);
    let left = send(socket, &NAMESPACES_WORD, &[user.as_fd(), network.as_fd()]);
    left.then_some(()).ok_or(Errno::PIPE).failing(Layer::NetworkNamespace, failing)
}

/// What waits in the socket, if it is there already.
pub(super) fn take(socket: BorrowedFd<'_>) -> Option<ReadyNamespaces> {
    let (_, fds) = receive_waiting(socket).ok()??;
    let mut fds = fds.into_iter();
    Some(ReadyNamespaces { user: fds.next()?, network: fds.next()? })
}

impl ReadyNamespaces {
    /// `false`: as if there had been none. A network that cannot be entered after the user
    /// namespace was is a fault.
    pub(super) fn enter(&self) -> Result<bool, StageError> {
        let enter =
            |fd: &OwnedFd, kind| rustix::thread::move_into_link_name_space(fd.as_fd(), Some(kind));
        if enter(&self.user, LinkNameSpaceType::User).is_err() {
            return Ok(false);
        }
        enter(&self.network, LinkNameSpaceType::Network)
            .map(|()| true)
            .failing(Layer::NetworkNamespace, || "enter one".into())
    }
}

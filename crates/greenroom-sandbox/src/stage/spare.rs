//! A user and a network namespace made in advance, by a process that has nothing else to do and ends at once.
//!
//! Making them takes the kernel half a millisecond, a third of what a stage needs, and no plan has a say in it. In: a socket.
//! Out, on that socket: both, as fds, for exactly one stage; they are gone when nobody has the socket any more. Absent on
//! purpose: everything that grows old. Mounts and processes are a stage's own.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::thread::LinkNameSpaceType;

use super::{Failing, namespaces};
use crate::control::Fault;
use crate::layer::Layer;

pub(crate) struct Spare {
    user: OwnedFd,
    network: OwnedFd,
}

/// Makes both and leaves them in the socket.
pub(super) fn make(socket: BorrowedFd<'_>) -> Result<(), Fault> {
    namespaces::user()?;
    namespaces::network()?;
    let left = || -> Result<(), Errno> {
        let open = |path| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let (user, network) = (open("/proc/self/ns/user")?, open("/proc/self/ns/net")?);
        let fds = [user.as_fd(), network.as_fd()];
        let mut space = [MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        let parts = [IoSlice::new(b"N")];
        rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL).map(drop)
    };
    left().failing(Layer::NetworkNamespace, || "leave it for another".into())
}

/// What waits in the socket, if it is there already.
pub(super) fn take(socket: BorrowedFd<'_>) -> Option<Spare> {
    let mut space = [MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0; 1];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut word)], &mut ancillary, flags).ok()?;
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let mut fds = fds.flatten();
    Some(Spare { user: fds.next()?, network: fds.next()? })
}

impl Spare {
    /// `false`: as if there had been none. A network that cannot be entered after the user namespace was is a fault.
    pub(super) fn enter(&self) -> Result<bool, Fault> {
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

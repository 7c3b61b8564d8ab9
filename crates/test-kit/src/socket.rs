//! File descriptors that came over a socket.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// The next message: how many bytes it had, and the descriptors (at most three) that came along.
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> (usize, Vec<OwnedFd>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(bytes)];
    let got = recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC).unwrap();
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    (got.bytes, fds.flatten().collect())
}

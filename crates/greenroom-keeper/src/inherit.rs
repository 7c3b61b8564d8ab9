//! The daemon's first act: taking over the two fds the keeper left at fixed numbers.
//!
//! Out: the link and the listening socket, both CLOEXEC from here on. Absent on purpose: a second
//! call. Two owners of one fd number would close each other's.
#![expect(unsafe_code, reason = "an fd known only by its number has to be taken over once")]

use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::link::{KeeperLink, LINK_FD, LISTEN_FD, LinkError};

/// What a daemon is born with.
#[derive(Debug)]
pub struct Inherited {
    pub link: KeeperLink,
    /// Bound, listening, non-blocking.
    pub listener: UnixListener,
}

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes over the link (fd 3) and the listening socket (fd 4). Call it before anything else opens
/// an fd, and once.
pub fn inherited() -> Result<Inherited, LinkError> {
    if TAKEN.swap(true, Ordering::SeqCst) {
        return Err(LinkError::AlreadyTaken);
    }
    let link = KeeperLink::new(adopt(LINK_FD)?)?;
    let listener = adopt(LISTEN_FD)?;
    if !matches!(rustix::net::sockopt::socket_acceptconn(&listener), Ok(true)) {
        return Err(LinkError::NotALink(LISTEN_FD));
    }
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::CLOEXEC)
        .map_err(|errno| LinkError::Io { step: "set CLOEXEC", source: errno.into() })?;
    Ok(Inherited { link, listener: listener.into() })
}

fn adopt(number: i32) -> Result<OwnedFd, LinkError> {
    // SAFETY: only looks whether the number is open.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(LinkError::NotALink(number));
    }
    // SAFETY: the number is open, and the flag in `inherited` makes this its only owner in a
    // process started by the keeper.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

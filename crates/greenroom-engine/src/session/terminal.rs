//! A PTY master that the runtime watches.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::unix::AsyncFd;

pub(crate) type Master = Arc<AsyncFd<OwnedFd>>;

#[allow(unsafe_code, reason = "the runtime's registration asks for a promise `OwnedFd` keeps")]
pub(crate) fn watch(master: OwnedFd) -> io::Result<Master> {
    // SAFETY: an `OwnedFd` is open, is always the same descriptor, and moves
    // into the `AsyncFd`, which drops it after deregistering.
    let watched = unsafe { AsyncFd::register(master) };
    watched.map(Arc::new).map_err(io::Error::from)
}

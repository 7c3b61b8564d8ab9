//! The accept loop on the socket the keeper listens on.
//!
//! In: connections of our own user (the kernel says whose they are). Out: one task each. An error
//! of `accept` is either about that one connection (go on), about a shortage (pause), or about the
//! socket itself (end, and be restarted).

use std::fs::File;
use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use greenroom_protocol::{Fault, FaultKind, Id, rpc};
use rustix::io::Errno;
use tokio::net::{UnixListener, UnixStream};

use crate::call::caller::Caller;
use crate::descriptors;
use crate::host::Host;
use crate::rpc::conn;

/// Out of descriptors or memory: others must end something first.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, thiserror::Error)]
#[error("cannot accept connections: {0}")]
pub(crate) struct SocketError(io::Error);

/// Accepts until the daemon ends.
pub(crate) async fn accept(host: Arc<Host>, listener: StdListener) -> Result<(), SocketError> {
    listener.set_nonblocking(true).map_err(SocketError)?;
    let listener = UnixListener::from_std(listener).map_err(SocketError)?;
    let mut stopping = host.life.stopping();
    let most = descriptors::connections_max();
    // A descriptor in reserve: given up for a moment when none is left, so that a new client can be
    // told.
    let mut spare = File::open("/dev/null").ok();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopping.wait() => return Ok(()),
        };
        match accepted {
            Ok((stream, _)) => admit(&host, stream, most),
            Err(error) => match class(&error) {
                Trouble::Passing => {}
                Trouble::Shortage => {
                    tracing::warn!(%error, "accepting a connection");
                    if spare.take().is_some()
                        && let Ok(Ok((stream, _))) =
                            tokio::time::timeout(SHORTAGE_PAUSE, listener.accept()).await
                    {
                        let why = "the host has no file descriptor left";
                        refuse(&host, &stream, FaultKind::Busy, why);
                    }
                    tokio::time::sleep(SHORTAGE_PAUSE).await;
                    spare = File::open("/dev/null").ok();
                }
                Trouble::Fatal => return Err(SocketError(error)),
            },
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Trouble {
    /// The connection broke before it was accepted.
    Passing,
    Shortage,
    /// The socket itself is no good.
    Fatal,
}

fn class(error: &io::Error) -> Trouble {
    match Errno::from_io_error(error) {
        Some(Errno::CONNABORTED | Errno::INTR | Errno::AGAIN | Errno::PROTO | Errno::PERM) => {
            Trouble::Passing
        }
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Trouble::Shortage,
        _ => Trouble::Fatal,
    }
}

fn admit(host: &Arc<Host>, stream: UnixStream, most: u64) {
    let denied = |why: &str| refuse(host, &stream, FaultKind::PermissionDenied, why);
    let pid = match stream.peer_cred() {
        Ok(peer) if peer.uid() == rustix::process::geteuid().as_raw() => {
            peer.pid().and_then(|pid| u32::try_from(pid).ok())
        }
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), "a connection of another user was refused");
            return denied("this host belongs to another user");
        }
        Err(error) => {
            tracing::warn!(%error, "a connection of an unknown user was refused");
            return denied("the kernel does not say who is calling");
        }
    };
    // Each of its requests is refused with the reason: a confined caller shall know that it was
    // heard.
    let caller = match host.callers.refused(pid) {
        None => Caller::LocalUser { pid },
        Some(why) => {
            tracing::warn!(pid, why, "a caller gets no answers");
            host.edge.counters.refuse();
            Caller::Confined { pid, why }
        }
    };
    if host.edge.counters.connections() >= most {
        return refuse(host, &stream, FaultKind::Busy, "the host has too many connections");
    }
    let connected = host.edge.counters.connected();
    let host = host.clone();
    tokio::spawn(async move {
        conn::serve(host, stream, caller).await;
        drop(connected);
    });
}

/// One line and the end; a client that speaks the other framing sees the end only.
fn refuse(host: &Arc<Host>, stream: &UnixStream, kind: FaultKind, why: &str) {
    host.edge.counters.refuse();
    let mut line = rpc::encode_fault(&Id::Null, &Fault::new(kind, why));
    line.push('\n');
    let _ = stream.try_write(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_accept_are_told_apart() {
        let of = |errno: Errno| class(&errno.into());
        assert_eq!(of(Errno::CONNABORTED), Trouble::Passing);
        assert_eq!(of(Errno::MFILE), Trouble::Shortage);
        assert_eq!(of(Errno::NOMEM), Trouble::Shortage);
        assert_eq!(of(Errno::BADF), Trouble::Fatal);
        assert_eq!(class(&io::Error::other("?")), Trouble::Fatal);
    }
}

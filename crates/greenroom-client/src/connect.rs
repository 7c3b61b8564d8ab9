//! Opens the socket, with patience while the host is coming up.
//!
//! A daemon that restarts leaves its socket open in the keeper: connecting works and the answer
//! waits in the backlog. Only a full backlog and a keeper that is being replaced need retries.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout_at};

use crate::error::ClientError;

/// How long to retry by default.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// `sun_path` is 108 bytes with its NUL.
const ADDRESS_MAX: usize = 107;
/// First pause between tries; doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(2);
/// Longest pause: what a user would not notice.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Which failures may pass by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// The backlog is full: somebody is there. All else is final.
    Now,
    /// Also refused; a missing socket is final.
    Listening,
    /// Also a missing socket: we were connected a moment ago.
    Returning,
}

/// Whether somebody accepts connections at `path` now: one try, no retries. A full backlog is
/// somebody.
pub async fn is_listening(path: &Path) -> bool {
    match connect(path).await {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// A connection to speak on by oneself, with the usual patience.
pub async fn open_stream(path: &Path) -> Result<UnixStream, ClientError> {
    open(path, PATIENCE, Retry::Listening).await
}

/// One try, also for a path that is too long for an address: that one goes by way of its directory.
async fn connect(path: &Path) -> io::Result<UnixStream> {
    let parts = path.parent().zip(path.file_name());
    match parts.filter(|_| path.as_os_str().len() > ADDRESS_MAX) {
        None => UnixStream::connect(path).await,
        Some((directory, name)) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = rustix::fs::open(directory, flags, Mode::empty())?;
            let through = format!("/proc/self/fd/{}", directory.as_raw_fd());
            UnixStream::connect(Path::new(&through).join(name)).await
        }
    }
}

/// The kernel says who made the socket. Nothing is sent to anybody but ourselves: whoever put a
/// socket where ours should be would learn environments, keys typed and files.
fn ours(stream: UnixStream, path: &Path) -> Result<UnixStream, ClientError> {
    let own = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == own => Ok(stream),
        Ok(peer) => Err(ClientError::Foreign { path: path.to_owned(), owner: peer.uid() }),
        Err(source) => Err(ClientError::Unreachable { path: path.to_owned(), source }),
    }
}

pub(crate) async fn open(
    path: &Path,
    patience: Duration,
    retry: Retry,
) -> Result<UnixStream, ClientError> {
    let deadline = Instant::now() + patience;
    let mut pause = PAUSE_MIN;
    loop {
        let error = match timeout_at(deadline, connect(path)).await {
            Ok(Ok(stream)) => return ours(stream, path),
            Ok(Err(error)) => error,
            Err(_) => io::ErrorKind::TimedOut.into(),
        };
        let passing = match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => true,
            io::ErrorKind::ConnectionRefused => retry != Retry::Now,
            io::ErrorKind::NotFound => retry == Retry::Returning,
            _ => false,
        };
        if !passing || Instant::now() + pause >= deadline {
            return Err(ClientError::Unreachable { path: path.to_owned(), source: error });
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Counts connections that are lost at once, and gives up when it is no coincidence.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    quick: u32,
    since: Option<Instant>,
}

/// A connection that lived shorter than this was lost at once.
const QUICK: Duration = Duration::from_secs(1);
/// So many in a row mean that the request itself ends the daemon. With the pauses in between this
/// is well over a second: a host that is killed again and again does not come near it.
const QUICK_LOSSES: u32 = 20;

impl Losses {
    /// Before each use of a connection.
    pub(crate) fn begin(&mut self) {
        self.since = Some(Instant::now());
    }

    /// After the connection was lost: pauses, or gives up.
    pub(crate) async fn lost(&mut self, method: &str) -> Result<(), ClientError> {
        let quick = self.since.is_some_and(|since| since.elapsed() < QUICK);
        self.quick = if quick { self.quick + 1 } else { 0 };
        if self.quick >= QUICK_LOSSES {
            return Err(ClientError::KeepsFailing { method: method.to_owned(), times: self.quick });
        }
        let pause = PAUSE_MIN.saturating_mul(1 << self.quick.min(10)).min(PAUSE_MAX);
        // The first loss is a restart: the socket is there and waits for the new daemon.
        if self.quick > 1 {
            sleep(pause).await;
        }
        Ok(())
    }
}

/// The process that listens for the host, if the kernel tells.
pub(crate) fn keeper_of(stream: &UnixStream) -> Option<i32> {
    stream.peer_cred().ok().and_then(|peer| peer.pid())
}

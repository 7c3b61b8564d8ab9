//! What the keeper is told when it starts, and the exit codes of a daemon that it tells apart.
//!
//! In: paths, a command, a pipe. Absent on purpose: defaults; the binary chooses every path.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// Exit code of a daemon that was asked to stop everything: the keeper ends all sessions and itself.
pub const EXIT_SHUTDOWN: i32 = 0;
/// Exit code of a daemon that makes room for its successor: restarted at once, without back-off.
pub const EXIT_UPGRADE: i32 = 75;

#[derive(Debug)]
pub struct KeeperOptions {
    /// The listening socket; its directory is made (0700) if missing.
    pub socket: PathBuf,
    /// Held with flock while the keeper lives.
    pub lock: PathBuf,
    /// The keeper's own log.
    pub log: PathBuf,
    /// Where stdout and stderr of the daemon go (not with `foreground`).
    pub daemon_log: PathBuf,
    /// Program and arguments of the daemon, e.g. `["/proc/self/exe", "daemon", …]`. `/proc/self/exe` follows the keeper's
    /// image, so a replaced keeper starts the new daemon.
    pub daemon: Vec<OsString>,
    /// Daemon's stdout and stderr stay on this terminal; SIGINT stops like SIGTERM.
    pub foreground: bool,
    /// Gets `ok\n` when the first daemon is ready, or the reason why it never will be.
    pub ready_fd: Option<OwnedFd>,
}

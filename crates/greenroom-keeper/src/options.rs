//! What the keeper is told when it starts, and the exit codes of a daemon that it tells apart.
//!
//! In: paths, a command, a pipe. Absent on purpose: defaults; the binary chooses every path.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::claim::KeeperPaths;

/// Exit code of a daemon that was asked to stop everything: the keeper ends all sessions and
/// itself.
pub const EXIT_SHUTDOWN: i32 = 0;
/// Exit code of a daemon that makes room for its successor: restarted at once, without back-off.
pub const EXIT_UPGRADE: i32 = 75;

/// The ready pipe's first word: the host is up.
pub const READY_OK: &str = "ok\n";
/// The ready pipe's first word: another keeper has the directory.
pub const READY_HELD: &str = "held ";
/// The name under which keeper and daemon show in `ps`, whatever the path of their image.
pub(crate) const CALLED: &std::ffi::CStr = c"greenroom";

#[derive(Debug)]
pub struct KeeperOptions {
    /// What it claims and where it listens.
    pub paths: KeeperPaths,
    /// The keeper's own log.
    pub log: PathBuf,
    /// Where stdout and stderr of the daemon go (not with `foreground`).
    pub daemon_log: PathBuf,
    /// Program and arguments of the daemon, e.g. `["/proc/self/exe", "daemon", …]`.
    /// `/proc/self/exe` follows the keeper's image, so a replaced keeper starts the new daemon.
    pub daemon: Vec<OsString>,
    /// Daemon's stdout and stderr stay on this terminal; SIGINT and the end of the terminal stop
    /// like SIGTERM.
    pub foreground: bool,
    /// Gets [`READY_OK`] when the first daemon is ready, or the reason why it never will be; before
    /// that, if somebody else has the directory, a line of [`READY_HELD`] and a pid (0: unknown).
    pub ready_fd: Option<OwnedFd>,
}

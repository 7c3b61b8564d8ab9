//! The socket of a keeper that holds its state directory, and the second way to it.
//!
//! In: the [`KeeperPaths`]. Out: a listening socket (0600, in a 0700 directory, non-blocking), or a
//! sentence for the user. A live socket is never stolen, a dead one is cleaned away; the claim
//! makes that check safe against a second keeper. The second way is a link in the user's runtime
//! directory, which comes and goes with logins; the socket itself lies with the state and stays.
//! Absent on purpose: accepting.

use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::claim::{ClaimError, KeeperPaths, at, private_directory};

/// Connections that may wait while there is no daemon; the kernel caps it at net.core.somaxconn.
const BACKLOG: i32 = 1024;
/// `sun_path` is 108 bytes with its NUL.
const MAX_SOCKET_PATH: usize = 107;
/// The file with the token of HTTP, beside the socket.
const TOKEN: &str = "token";

#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    #[error("cannot make the socket {}: {source}; a state directory must lie where sockets can be made, such as a local disk", path.display())]
    Bind { path: PathBuf, source: io::Error },
    #[error("somebody already listens on {}", path.display())]
    Live { path: PathBuf },
    #[error("{} is in the way: it is not a socket", path.display())]
    NotASocket { path: PathBuf },
    #[error(transparent)]
    Claim(#[from] ClaimError),
}

impl ListenError {
    /// Whether somebody else serves this directory, or is about to end, and who.
    pub(crate) fn held_by(&self) -> Option<i32> {
        match self {
            ListenError::Claim(ClaimError::Held { pid, .. }) => Some(pid.unwrap_or(0)),
            ListenError::Live { .. } => Some(0),
            _ => None,
        }
    }
}

/// A socket of ours and the file that leads to it.
pub(crate) struct BoundSocket {
    pub(crate) listener: OwnedFd,
    file: Option<(u64, u64)>,
}

impl BoundSocket {
    /// Listens at the socket. The state directory must be claimed.
    pub(crate) fn open(paths: &KeeperPaths) -> Result<BoundSocket, ListenError> {
        private_directory(&paths.socket)?;
        clear_stale(&paths.socket)?;
        let bound = bind(&paths.socket);
        let listener =
            bound.map_err(|source| ListenError::Bind { path: paths.socket.clone(), source })?;
        Ok(BoundSocket::of(listener, &paths.socket))
    }

    /// A listener that is open already, with the file that is there now.
    pub(crate) fn of(listener: OwnedFd, socket: &Path) -> BoundSocket {
        BoundSocket { listener, file: file(socket) }
    }

    /// Whether the path still leads here.
    pub(crate) fn is_reachable(&self, socket: &Path) -> bool {
        self.file.is_some() && self.file == file(socket)
    }
}

/// Puts what is not a socket aside. Only for a directory that is ours alone.
pub(crate) fn move_aside(socket: &Path) {
    let strange = std::fs::symlink_metadata(socket).is_ok_and(|meta| !meta.file_type().is_socket());
    if strange {
        let mut aside = socket.as_os_str().to_owned();
        aside.push(".aside");
        let _ = std::fs::rename(socket, aside);
    }
}

fn file(path: &Path) -> Option<(u64, u64)> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    meta.file_type().is_socket().then(|| (meta.dev(), meta.ino()))
}

/// Removes a socket nobody listens on. Anything else in that place stays.
fn clear_stale(path: &Path) -> Result<(), ListenError> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_socket() => {}
        Ok(_) => {
            return Err(ListenError::NotASocket { path: path.to_owned() });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at("look at", path)(error).into()),
    }
    match connect(path) {
        Err(Errno::CONNREFUSED) => {
            Ok(std::fs::remove_file(path).map_err(at("remove the stale socket", path))?)
        }
        Err(Errno::NOENT) => Ok(()),
        // EAGAIN is a full backlog: very much alive.
        Ok(()) | Err(Errno::AGAIN) => Err(ListenError::Live { path: path.to_owned() }),
        Err(errno) => Err(at("try", path)(errno.into()).into()),
    }
}

fn connect(path: &Path) -> Result<(), Errno> {
    let probe = socket()?;
    let short = Short::of(path)?;
    rustix::net::connect(&probe, &SocketAddrUnix::new(&*short.path)?)
}

fn bind(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket()?;
    let short = Short::of(path)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(&*short.path)?)?;
    // Nobody else can reach it before this: the directory is 0700.
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

/// A name for a path that is too long for a socket's address: through a handle of its directory.
struct Short {
    path: PathBuf,
    _directory: Option<OwnedFd>,
}

impl Short {
    /// Good while it lives.
    fn of(path: &Path) -> Result<Short, Errno> {
        let parts = path.parent().zip(path.file_name());
        match parts.filter(|_| path.as_os_str().as_bytes().len() > MAX_SOCKET_PATH) {
            None => Ok(Short { path: path.to_owned(), _directory: None }),
            Some((directory, name)) => {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let directory = rustix::fs::open(directory, flags, Mode::empty())?;
                let through = format!("/proc/self/fd/{}", directory.as_raw_fd());
                Ok(Short { path: Path::new(&through).join(name), _directory: Some(directory) })
            }
        }
    }
}

/// Leads `alias` to the socket, and `token` beside it to the token there. Answers whether anything
/// was changed.
///
/// What is somebody else's stays: another user's directory, a socket somebody listens on, a file.
pub fn make_alias(alias: &Path, socket: &Path) -> io::Result<bool> {
    let (Some(theirs), Some(ours)) = (alias.parent(), socket.parent()) else { return Ok(false) };
    let us = rustix::process::geteuid().as_raw();
    let login = theirs.parent();
    // After `su` the variable still names the runtime directory of the user before; after a logout
    // there is none.
    let theirs_too = login
        .and_then(|login| std::fs::metadata(login).ok())
        .is_some_and(|login| login.uid() != us);
    if theirs_too || !login.and_then(Path::parent).is_some_and(Path::exists) {
        return Ok(false);
    }
    DirBuilder::new().recursive(true).mode(0o700).create(theirs)?;
    let meta = std::fs::symlink_metadata(theirs)?;
    if !meta.is_dir() || meta.uid() != us {
        return Ok(false);
    }
    if meta.mode() & 0o077 != 0 {
        std::fs::set_permissions(theirs, PermissionsExt::from_mode(0o700))?;
    }
    let made = link(alias, socket)?;
    Ok(link(&theirs.join(TOKEN), &ours.join(TOKEN))? || made)
}

/// One link to a socket of ours. Answers whether it was made: what is somebody else's stays.
pub fn link(from: &Path, to: &Path) -> io::Result<bool> {
    if std::fs::read_link(from).is_ok_and(|target| target == to) {
        return Ok(false);
    }
    match std::fs::symlink_metadata(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Ok(meta) if meta.is_symlink() => {}
        Ok(meta) if meta.file_type().is_socket() && connect(from) == Err(Errno::CONNREFUSED) => {}
        Ok(_) => return Ok(false),
        Err(error) => return Err(error),
    }
    let mut beside = from.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let _ = std::fs::remove_file(&beside);
    symlink(to, &beside)?;
    // In one step: whoever connects meanwhile finds the old one or the new one.
    std::fs::rename(&beside, from).map(|()| true)
}

/// Takes away what [`make_alias`] made.
pub(crate) fn remove_alias(alias: &Path, socket: &Path) {
    unlink(alias, socket);
    if let (Some(theirs), Some(ours)) = (alias.parent(), socket.parent()) {
        unlink(&theirs.join(TOKEN), &ours.join(TOKEN));
    }
}

/// Takes away a link of ours.
pub fn unlink(from: &Path, to: &Path) {
    if std::fs::read_link(from).is_ok_and(|target| target == to) {
        let _ = std::fs::remove_file(from);
    }
}

#[cfg(test)]
mod tests;

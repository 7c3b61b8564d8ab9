//! The one place that decides whether this keeper may serve a socket path, and binds it.
//!
//! In: lock and socket path. Out: the held lock and a listening socket (0600, in a 0700 directory, non-blocking), or a
//! sentence for the user. A live socket is never stolen, a dead one is cleaned away; the lock makes that check safe against a
//! second keeper. Absent on purpose: accepting.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// Connections that may wait while there is no daemon; the kernel caps it at net.core.somaxconn.
const BACKLOG: i32 = 1024;
/// `sun_path` is 108 bytes with its NUL.
const MAX_SOCKET_PATH: usize = 107;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    #[error("cannot {step} {}: {source}", path.display())]
    Io { step: &'static str, path: PathBuf, source: io::Error },
    #[error("another keeper{pid} already holds {}", path.display())]
    Locked { path: PathBuf, pid: String },
    #[error("somebody already listens on {}", path.display())]
    Live { path: PathBuf },
    #[error("{} is in the way: it is not a socket", path.display())]
    NotASocket { path: PathBuf },
    #[error("the directory {} is open to others (owner {uid}, mode {mode:o}): it must be yours and 0700", path.display())]
    OpenDirectory { path: PathBuf, uid: u32, mode: u32 },
    #[error(
        "the socket path {} is {} bytes long, the system allows {MAX_SOCKET_PATH}: set a shorter GREENROOM_HOME",
        path.display(), path.as_os_str().len()
    )]
    PathTooLong { path: PathBuf },
}

pub(crate) struct Listening {
    pub(crate) lock: OwnedFd,
    pub(crate) listener: OwnedFd,
}

pub(crate) fn listen(lock: &Path, socket: &Path) -> Result<Listening, ListenError> {
    if socket.as_os_str().as_bytes().len() > MAX_SOCKET_PATH {
        return Err(ListenError::PathTooLong { path: socket.to_owned() });
    }
    for path in [lock, socket] {
        private_directory(path)?;
    }
    let lock = hold(lock)?;
    clear_stale(socket)?;
    let listener = bind(socket).map_err(at("bind", socket))?;
    Ok(Listening { lock, listener })
}

fn at(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ListenError {
    let path = path.to_owned();
    move |source| ListenError::Io { step, path, source }
}

fn private_directory(file: &Path) -> Result<(), ListenError> {
    let dir = match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(at("create", dir))?;
    let meta = std::fs::metadata(dir).map_err(at("look at", dir))?;
    let ours = meta.uid() == rustix::process::geteuid().as_raw();
    if !ours || meta.mode() & 0o077 != 0 {
        return Err(ListenError::OpenDirectory {
            path: dir.to_owned(),
            uid: meta.uid(),
            mode: meta.mode() & 0o7777,
        });
    }
    Ok(())
}

fn hold(path: &Path) -> Result<OwnedFd, ListenError> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path)
        .map_err(at("open", path))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            return Err(ListenError::Locked { path: path.to_owned(), pid: holder(&mut file) });
        }
        Err(errno) => return Err(at("lock", path)(errno.into())),
    }
    // Only for the message above; a lock without a pid is as good.
    let _ = file.set_len(0);
    let _ = writeln!(file, "{}", std::process::id());
    Ok(file.into())
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let _ = file.rewind();
    let _ = file.take(16).read_to_string(&mut text);
    match text.trim().parse::<u32>() {
        Ok(pid) => format!(" (pid {pid})"),
        Err(_) => String::new(),
    }
}

/// Removes a socket nobody listens on. Anything else in that place stays.
fn clear_stale(path: &Path) -> Result<(), ListenError> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_socket() => {}
        Ok(_) => {
            return Err(ListenError::NotASocket { path: path.to_owned() });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at("look at", path)(error)),
    }
    match connect(path) {
        Err(rustix::io::Errno::CONNREFUSED) => {
            std::fs::remove_file(path).map_err(at("remove the stale socket", path))
        }
        Err(rustix::io::Errno::NOENT) => Ok(()),
        // EAGAIN is a full backlog: very much alive.
        Ok(()) | Err(rustix::io::Errno::AGAIN) => Err(ListenError::Live { path: path.to_owned() }),
        Err(errno) => Err(at("try", path)(errno.into())),
    }
}

fn connect(path: &Path) -> Result<(), rustix::io::Errno> {
    let probe = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    rustix::net::connect(&probe, &SocketAddrUnix::new(path)?)
}

fn bind(path: &Path) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // Nobody else can reach it before this: the directory is 0700.
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

#[cfg(test)]
mod tests;

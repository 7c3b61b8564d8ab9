//! A socket somebody named, for a host that listens elsewhere: a link while it lives.
//!
//! A client that connects there is the host's caller like any other, and the link outlives a
//! restart of the daemon. The directory must be ours alone: whoever may write there could put
//! another socket in its place.

use std::path::{Path, PathBuf};

use greenroom_keeper::claim::{ClaimError, private_directory};

use crate::error::Failure;

/// Taken away when dropped.
#[derive(Debug)]
pub struct SocketLink {
    pub path: PathBuf,
    socket: PathBuf,
}

impl SocketLink {
    /// Where `path` would be, if it can lead to a socket at all. Nothing is made yet but its
    /// directory.
    pub fn check(path: &Path) -> Result<PathBuf, Failure> {
        let refuse =
            |why: String| Failure::failed(format!("cannot listen on {}: {why}", path.display()));
        let path = std::path::absolute(path)
            .map_err(|error| Failure::io(format!("cannot listen on {}", path.display()), &error))?;
        private_directory(&path).map_err(|error| match error {
            ClaimError::OpenDirectory { path: dir, mode, .. } => refuse(format!(
                "others may enter {} (mode {mode:o}) and put a socket of theirs in its place",
                dir.display()
            ))
            .hint(format!(
                "name a directory that is yours alone, such as --socket {}",
                example(&path).display()
            )),
            ClaimError::Io { step, path, source } => Failure::io(
                format!("cannot start the host: cannot {step} {}", path.display()),
                &source,
            ),
            error => refuse(error.to_string()),
        })?;
        Ok(path)
    }

    /// Leads `path` to the socket.
    pub fn open(path: PathBuf, socket: &Path) -> Result<SocketLink, Failure> {
        let attempt = format!("cannot listen on {}", path.display());
        greenroom_keeper::link(&path, socket).map_err(|error| Failure::io(&attempt, &error))?;
        if std::fs::read_link(&path).is_ok_and(|target| target == socket) {
            return Ok(SocketLink { path, socket: socket.to_owned() });
        }
        Err(Failure::failed(format!("{attempt}: something is in the way"))
            .hint("remove it, or name another path"))
    }
}

impl Drop for SocketLink {
    fn drop(&mut self) {
        greenroom_keeper::unlink(&self.path, &self.socket);
    }
}

/// A place for the same name that works: made and closed by us.
fn example(path: &Path) -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let dir = runtime.or_else(|| std::env::var_os("HOME")).map(PathBuf::from).unwrap_or_default();
    dir.join("greenroom-sockets").join(path.file_name().unwrap_or("host.sock".as_ref()))
}

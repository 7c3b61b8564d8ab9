//! Bytes for another process: in a memfd, because arguments are seen by everybody, files can be
//! changed and datagrams are small.
//!
//! In: bytes, or an fd. Out: a sealed memfd, or the bytes of one that can no longer change, up to a
//! limit. `what` is whatever the bytes are, for errors. Absent on purpose: what they mean.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

#[derive(Debug, thiserror::Error)]
pub enum MemfdError {
    #[error("cannot {step} the {what}: {source}")]
    Io { step: &'static str, what: &'static str, source: io::Error },
    #[error("the {0} is not sealed")]
    Unsealed(&'static str),
    #[error("the {what} is {bytes} bytes, the limit is {limit}")]
    TooLarge { what: &'static str, bytes: u64, limit: u64 },
}

fn failed<E: Into<io::Error>>(step: &'static str, what: &'static str) -> impl Fn(E) -> MemfdError {
    move |error| MemfdError::Io { step, what, source: error.into() }
}

/// Puts bytes into a memfd that nobody can change any more.
#[cfg(target_os = "linux")]
pub fn seal(what: &'static str, bytes: &[u8], limit: u64) -> Result<OwnedFd, MemfdError> {
    check(what, bytes.len() as u64, limit)?;
    let fd = write(what, bytes)?;
    rustix::fs::fcntl_add_seals(&fd, seals()).map_err(failed("seal", what))?;
    Ok(fd)
}

#[cfg(not(target_os = "linux"))]
pub fn seal(what: &'static str, _bytes: &[u8], _limit: u64) -> Result<OwnedFd, MemfdError> {
    Err(failed("seal", what)(io::ErrorKind::Unsupported))
}

/// Puts bytes into a memfd, to be read by the next image of this process.
#[cfg(target_os = "linux")]
pub fn write(what: &'static str, bytes: &[u8]) -> Result<OwnedFd, MemfdError> {
    use rustix::fs::MemfdFlags;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create(what, flags).map_err(failed("create", what))?;
    let mut file = File::from(fd);
    file.write_all(bytes).map_err(failed("write", what))?;
    Ok(file.into())
}

#[cfg(target_os = "linux")]
fn seals() -> rustix::fs::SealFlags {
    use rustix::fs::SealFlags;
    SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE
}

/// Only from a memfd that can no longer change.
#[cfg(target_os = "linux")]
pub fn unseal(what: &'static str, fd: BorrowedFd<'_>, limit: u64) -> Result<Vec<u8>, MemfdError> {
    // Not a memfd at all: EINVAL.
    let found = rustix::fs::fcntl_get_seals(fd).map_err(failed("check the seals of", what))?;
    if !found.contains(seals()) {
        return Err(MemfdError::Unsealed(what));
    }
    read(what, fd, limit)
}

pub fn read(what: &'static str, fd: BorrowedFd<'_>, limit: u64) -> Result<Vec<u8>, MemfdError> {
    let file = File::from(fd.try_clone_to_owned().map_err(failed("open", what))?);
    let size = file.metadata().map_err(failed("measure", what))?.len();
    check(what, size, limit)?;
    let mut bytes = vec![0; size as usize];
    file.read_exact_at(&mut bytes, 0).map_err(failed("read", what))?;
    Ok(bytes)
}

fn check(what: &'static str, bytes: u64, limit: u64) -> Result<(), MemfdError> {
    if bytes > limit { Err(MemfdError::TooLarge { what, bytes, limit }) } else { Ok(()) }
}

//! Paths that are what they seem: opened without following a symlink anywhere.
//!
//! In: absolute paths of the policy. Out: fds that name exactly the file meant, or a fault. A session may have written some
//! of these directories before, and a symlink at the right place would have us mount, make or grant something else.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::Failing;
use crate::control::Fault;
use crate::layer::Layer;
use crate::plan::{Make, MakeWhat};

/// A handle to what is at `path`: no symlink on the way; at the end, if there is one, it is the symlink itself.
pub(super) fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)
}

/// As `open`, and what is there is no symlink either.
pub(super) fn open_real(path: &Path) -> Result<OwnedFd, Errno> {
    let fd = open(path)?;
    if kind(fd.as_fd())? == FileType::Symlink { Err(Errno::LOOP) } else { Ok(fd) }
}

pub(super) fn kind(fd: BorrowedFd<'_>) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(fd)?.st_mode))
}

/// Makes what is missing, on the host, as the user.
pub(super) fn make(make: &Make) -> Result<(), Fault> {
    let path = &make.path;
    match open(path) {
        Ok(_) => return Ok(()),
        Err(Errno::NOENT) if make.what != MakeWhat::Nothing => {}
        Err(errno) => {
            return Err(errno).failing(Layer::Paths, || format!("find {}", path.display()));
        }
    }
    let made = match &make.what {
        MakeWhat::Nothing => Ok(()),
        MakeWhat::Dir => make_dirs(path).map(drop),
        MakeWhat::File(content) => make_file(path, content),
    };
    made.failing(Layer::Paths, || format!("make {}", path.display()))
}

fn make_file(path: &Path, content: &[u8]) -> Result<(), Errno> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL);
    };
    let parent = make_dirs(parent)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644)) {
        Ok(file) => rustix::io::write(&file, content).map(drop),
        // Somebody else was faster; it is pinned as it is.
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// The directory at `path`, made with its parents where they are missing.
pub(super) fn make_dirs(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = rustix::fs::openat(CWD, "/", flags, Mode::empty())?;
    for component in path.components() {
        let Component::Normal(name) = component else { continue };
        dir = enter_or_make(&dir, name, flags)?;
    }
    Ok(dir)
}

fn enter_or_make(dir: &OwnedFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => {}
        result => return result,
    }
    match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

/// Something to mount on: a directory or an empty file at `path`, made if it is missing.
pub(super) fn mount_point(path: &Path, directory: bool) -> Result<OwnedFd, Errno> {
    match open(path) {
        Err(Errno::NOENT) => {}
        result => return result,
    }
    if directory {
        return make_dirs(path);
    }
    make_file(path, b"")?;
    open(path)
}

/// The names in a directory, at most `limit`.
pub(super) fn entries(dir: BorrowedFd<'_>, limit: usize) -> Result<Vec<std::ffi::OsString>, Errno> {
    use std::os::unix::ffi::OsStrExt;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let readable = rustix::fs::openat(dir, ".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(readable)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if names.len() == limit {
            return Err(Errno::TOOBIG);
        }
        names.push(OsStr::from_bytes(name).to_owned());
    }
    Ok(names)
}

/// Whether something is there at all, symlink or not.
pub(super) fn exists(path: &Path) -> bool {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

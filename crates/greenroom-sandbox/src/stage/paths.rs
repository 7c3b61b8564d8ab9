//! Paths that are what they seem: opened without following a symlink anywhere.
//!
//! In: absolute paths of the policy. Out: fds that name exactly the file meant, or a fault. A
//! session may have written some of these directories before, and a symlink at the right place
//! would have us mount, make or grant something else.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::Failing;
use crate::control::StageError;
use crate::layer::Layer;
use crate::plan::{Make, MakeWhat};

/// A handle to what is at `path`: no symlink on the way; at the end, if there is one, it is the
/// symlink itself.
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
pub(super) fn make(make: &Make) -> Result<(), StageError> {
    let path = &make.path;
    if let MakeWhat::LooseRefs { packed, prefix } = &make.what {
        return loose_refs(path, packed, prefix)
            .failing(Layer::Paths, || format!("unpack the branches in {}", path.display()));
    }
    match open(path) {
        Ok(_) => return Ok(()),
        Err(Errno::NOENT) if make.what != MakeWhat::Nothing => {}
        Err(errno) => {
            return Err(errno).failing(Layer::Paths, || format!("find {}", path.display()));
        }
    }
    let made = match &make.what {
        MakeWhat::Nothing | MakeWhat::LooseRefs { .. } => Ok(()),
        MakeWhat::Dir => make_dirs(path).map(drop),
        MakeWhat::File(content) => make_file(path, content),
    };
    made.failing(Layer::Paths, || format!("make {}", path.display()))
}

/// Gives each branch below `dir` that only the packed list knows a file with the same content. Git
/// reads the file first, so nothing changes; but without one, a session that may write the
/// directory could make it, and so move the branch.
fn loose_refs(dir: &Path, packed: &Path, prefix: &str) -> Result<(), Errno> {
    let to_errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let list = match std::fs::File::open(packed) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        list => list.map_err(to_errno)?,
    };
    let mut made = 0;
    let mut line = Vec::new();
    let mut list = std::io::BufReader::new(list);
    // A line is an id and a name; the limit is far above both.
    while (&mut list).take(MAX_REF_LINE).read_until(b'\n', &mut line).map_err(to_errno)? > 0 {
        if let Some((id, name)) = packed_ref(&line, prefix) {
            made += 1;
            if made > MAX_REFS {
                return Err(Errno::TOOBIG);
            }
            let path = dir.join(name);
            if !exists(&path) {
                make_file(&path, format!("{id}\n").as_bytes())?;
            }
        }
        line.clear();
    }
    Ok(())
}

/// Longest line of `packed-refs` that is read as one.
const MAX_REF_LINE: u64 = 8 * 1024;
/// Most branches beside a session's own.
const MAX_REFS: usize = 4096;

/// Id and name below `prefix`, if the line is a ref there and its name is a plain path.
fn packed_ref<'a>(line: &'a [u8], prefix: &str) -> Option<(&'a str, &'a str)> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (id, name) = line.split_once(' ')?;
    let name = name.strip_prefix(prefix)?;
    let hex = id.len() >= 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let plain = |part: &str| !part.is_empty() && !part.starts_with('.');
    (hex && name.split('/').all(plain)).then_some((id, name))
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
pub(super) fn entries(dir: BorrowedFd<'_>, limit: usize) -> Result<Vec<OsString>, Errno> {
    Ok(kinds(dir, limit)?.into_iter().map(|(name, _)| name).collect())
}

/// The names in a directory and what they are, at most `limit`.
pub(super) fn kinds(dir: BorrowedFd<'_>, limit: usize) -> Result<Vec<(OsString, FileType)>, Errno> {
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
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(dir, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        names.push((OsStr::from_bytes(name).to_owned(), kind));
    }
    Ok(names)
}

/// Whether something is there at all, symlink or not.
pub(super) fn exists(path: &Path) -> bool {
    rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

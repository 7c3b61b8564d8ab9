//! Every file of a worktree as it was at one moment, and the removal of exactly those.
//!
//! The check looks at a snapshot; the removal deletes a file only if it is still what the snapshot
//! saw, and a directory only if it is empty by then. What appears or changes in between stays.
//! Directories are entered by descriptor and never through a symbolic link, so a tree that is
//! changed under us cannot lead us out of it.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, openat, statat, unlinkat};

use super::error::WorktreeError;
use crate::disk::if_there;

/// Each level holds a descriptor.
const MAX_DEPTH: usize = 200;

/// About 200 bytes each. A tree with more cannot be checked, and is kept.
const MAX_ENTRIES: usize = 3_000_000;

/// Tells one state of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    dev: u64,
    ino: u64,
    mode: u32,
    size: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    #[allow(clippy::unnecessary_cast, reason = "the fields' types differ between systems")]
    fn of(stat: &Stat) -> Stamp {
        Stamp {
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            mode: stat.st_mode as u32,
            size: stat.st_size as i64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }

    pub fn is_link(&self) -> bool {
        FileType::from_raw_mode(self.mode) == FileType::Symlink
    }
}

/// A directory that was not looked into file by file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heap {
    pub files: u64,
    pub bytes: u64,
    /// There is a repository in it.
    pub has_git: bool,
    /// Its own `.gitignore` says `*`.
    pub ignores_itself: bool,
}

/// Files and links by their path from the top.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub files: HashMap<Vec<u8>, Stamp>,
    /// Directories taken as a whole.
    pub heaps: HashMap<Vec<u8>, Heap>,
    /// Entries called `.git` below the top, which git does not show and we never remove.
    pub nested_git: Vec<Vec<u8>>,
    /// Somebody mounted something here.
    pub mounts: Vec<Vec<u8>>,
}

/// Whether a directory is taken as a whole, asked by its path and whether it has a `CACHEDIR.TAG`.
pub type IsHeap<'a> = dyn Fn(&[u8], bool) -> bool + 'a;

pub fn take(top: &Path, is_heap: &IsHeap<'_>) -> Result<Snapshot, WorktreeError> {
    let failed = WorktreeError::io("look through", top);
    let inner = || -> io::Result<Snapshot> {
        let dir = open_dir(CWD, top.as_os_str())?;
        let dev = Stamp::of(&rustix::fs::fstat(&dir)?).dev;
        let mut walk = Walk { snapshot: Snapshot::default(), is_heap, dev };
        walk.dir(dir, &mut Vec::new(), 0)?;
        Ok(walk.snapshot)
    };
    inner().map_err(failed)
}

struct Walk<'a> {
    snapshot: Snapshot,
    is_heap: &'a IsHeap<'a>,
    dev: u64,
}

impl Walk<'_> {
    fn dir(&mut self, dir: OwnedFd, at: &mut Vec<u8>, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(io::Error::other("too many levels of directories"));
        }
        for name in names(dir.as_fd())? {
            let length = at.len();
            if length > 0 {
                at.push(b'/');
            }
            at.extend_from_slice(name.as_bytes());
            self.entry(dir.as_fd(), &name, at, depth)?;
            at.truncate(length);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        at: &mut Vec<u8>,
        depth: usize,
    ) -> io::Result<()> {
        if self.snapshot.files.len() > MAX_ENTRIES {
            return Err(io::Error::other("too many files"));
        }
        let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let stamp = Stamp::of(&stat);
        if depth > 0 && is_dot_git(name) {
            self.snapshot.nested_git.push(at.clone());
            return Ok(());
        }
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            self.snapshot.files.insert(at.clone(), stamp);
            return Ok(());
        }
        if depth == 0 && is_dot_git(name) {
            self.snapshot.nested_git.push(at.clone());
            return Ok(());
        }
        if stamp.dev != self.dev {
            self.snapshot.mounts.push(at.clone());
            return Ok(());
        }
        let inside = open_dir(dir, name)?;
        let tagged = statat(&inside, "CACHEDIR.TAG", AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if !(self.is_heap)(at, tagged) {
            return self.dir(inside, at, depth + 1);
        }
        let mut heap = Heap { ignores_itself: ignores_itself(inside.as_fd()), ..Heap::default() };
        if heap_of(inside.as_fd(), self.dev, &mut heap, depth + 1)? {
            self.snapshot.mounts.push(at.clone());
        }
        self.snapshot.heaps.insert(at.clone(), heap);
        Ok(())
    }
}

/// Adds up a directory; whether something is mounted below it.
fn heap_of(dir: BorrowedFd<'_>, dev: u64, heap: &mut Heap, depth: usize) -> io::Result<bool> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other("too many levels of directories"));
    }
    let mut mounted = false;
    for name in names(dir)? {
        heap.has_git |= is_dot_git(&name);
        let stat = statat(dir, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            heap.files += 1;
            heap.bytes += blocks(&stat);
        } else if Stamp::of(&stat).dev == dev {
            mounted |= heap_of(open_dir(dir, &name)?.as_fd(), dev, heap, depth + 1)?;
        } else {
            mounted = true;
        }
    }
    Ok(mounted)
}

#[allow(clippy::unnecessary_cast, reason = "the field's type differs between systems")]
fn blocks(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks as i64).unwrap_or(0).saturating_mul(512)
}

/// Bytes on disk below a directory; what cannot be looked at does not count.
pub fn size_of(top: &Path) -> u64 {
    let mut heap = Heap::default();
    let counted = open_dir(CWD, top.as_os_str()).and_then(|dir| {
        let dev = Stamp::of(&rustix::fs::fstat(&dir)?).dev;
        heap_of(dir.as_fd(), dev, &mut heap, 0)
    });
    counted.map_or(heap.bytes, |_| heap.bytes)
}

fn ignores_itself(dir: BorrowedFd<'_>) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(file) = openat(dir, ".gitignore", flags, Mode::empty()) else { return false };
    let mut text = [0; 512];
    let Ok(count) = rustix::io::read(&file, &mut text) else { return false };
    let text = String::from_utf8_lossy(&text[..count]);
    text.lines().map(str::trim).any(|line| line == "*") && !text.contains('!')
}

fn is_dot_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

pub(super) fn open_dir(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

pub(super) fn names(dir: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)? {
        let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
        if name != "." && name != ".." {
            found.push(name);
        }
    }
    Ok(found)
}

/// Deletes what the snapshot saw, if it is still so. `step` is called before each file.
pub fn remove(
    top: &Path,
    seen: &Snapshot,
    step: &dyn Fn() -> Result<(), WorktreeError>,
) -> Result<(), WorktreeError> {
    let opened = if_there(open_dir(CWD, top.as_os_str()));
    let Some(dir) = opened.map_err(WorktreeError::io("open", top))? else { return Ok(()) };
    let mut remover = Remover { top, seen, step, left: None };
    remover.dir(dir.as_fd(), &mut Vec::new())?;
    drop(dir);
    if let Some(path) = remover.left {
        return Err(WorktreeError::Moving { path });
    }
    match std::fs::remove_dir(top) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            Err(WorktreeError::Moving { path: top.to_owned() })
        }
        other => other.map_err(WorktreeError::io("remove", top)),
    }
}

struct Remover<'a> {
    top: &'a Path,
    seen: &'a Snapshot,
    step: &'a dyn Fn() -> Result<(), WorktreeError>,
    /// The first thing that was not as it had been.
    left: Option<PathBuf>,
}

impl Remover<'_> {
    fn dir(&mut self, dir: BorrowedFd<'_>, at: &mut Vec<u8>) -> Result<(), WorktreeError> {
        let path = self.path(at);
        for name in names(dir).map_err(WorktreeError::io("read", &path))? {
            let length = at.len();
            if length > 0 {
                at.push(b'/');
            }
            at.extend_from_slice(name.as_bytes());
            self.entry(dir, &name, at)?;
            at.truncate(length);
            if self.left.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        at: &mut Vec<u8>,
    ) -> Result<(), WorktreeError> {
        let path = self.path(at);
        let failed = || WorktreeError::io("remove", &path);
        let stat = match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => return Ok(()),
            other => other.map_err(|error| failed()(error.into()))?,
        };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            let inside = open_dir(dir, name).map_err(failed())?;
            if self.seen.heaps.contains_key(at.as_slice()) {
                remove_all(inside.as_fd(), 0).map_err(failed())?;
            } else {
                self.dir(inside.as_fd(), at)?;
            }
            return match unlinkat(dir, name, AtFlags::REMOVEDIR) {
                Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST) => {
                    self.left.get_or_insert(path);
                    Ok(())
                }
                other => other.map_err(|error| failed()(error.into())),
            };
        }
        if self.seen.files.get(at.as_slice()) != Some(&Stamp::of(&stat)) {
            self.left.get_or_insert(path);
            return Ok(());
        }
        (self.step)()?;
        unlinkat(dir, name, AtFlags::empty()).map_err(|error| failed()(error.into()))
    }

    fn path(&self, at: &[u8]) -> PathBuf {
        self.top.join(OsStr::from_bytes(at))
    }
}

/// Deletes everything in a directory.
pub(super) fn remove_all(dir: BorrowedFd<'_>, depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other("too many levels of directories"));
    }
    for name in names(dir)? {
        let stat = statat(dir, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mut flags = AtFlags::empty();
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            remove_all(open_dir(dir, &name)?.as_fd(), depth + 1)?;
            flags = AtFlags::REMOVEDIR;
        }
        match unlinkat(dir, &*name, flags) {
            // Some tools take the right to write from what they made; it is still derived.
            Err(rustix::io::Errno::ACCESS) => {
                rustix::fs::fchmod(dir, Mode::RWXU)?;
                unlinkat(dir, &*name, flags)?;
            }
            other => other?,
        }
    }
    Ok(())
}

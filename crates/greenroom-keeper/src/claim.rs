//! Whose state directory it is: at most one keeper's, however the directory is reached.
//!
//! In: a [`KeeperPaths`]. Out: a held [`Claim`], or who has the directory. Four things must agree,
//! so that none of them can be lost alone: a lock on the directory itself (links, bind mounts and
//! other names lead to the same one, and it cannot be deleted beside a living host), a lock on a
//! file in it (for file systems that lock no directories), the locks of earlier versions, and the
//! list of keepers that had it: one of those that still lives (boot, pid, start time) keeps it,
//! also in a copy of the directory. Absent on purpose: listening (`listen.rs`), and giving a claim
//! up: it ends with the process.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::aside;
use crate::tree::Process;

/// In the state directory: a line per keeper that may still live.
const LEDGER: &str = "keepers";
/// The ledger holds a handful of lines; a larger file is not ours.
const LEDGER_MAX: u64 = 64 * 1024;
/// Between two looks at a lock that somebody is about to give up.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Where a keeper belongs: what it claims and where it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeeperPaths {
    /// The state directory: one keeper each.
    pub state: PathBuf,
    /// Says who holds it. In a private directory, made if missing.
    pub lock: PathBuf,
    /// Where clients connect.
    pub socket: PathBuf,
    /// A second way to the socket, for whoever knows only the user's runtime directory.
    pub alias: Option<PathBuf>,
    /// Where earlier versions had their locks: one that is held is a host of this directory.
    pub earlier_locks: Vec<PathBuf>,
}

/// Why a directory cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    #[error("cannot {step} {}: {source}", path.display())]
    Io { step: &'static str, path: PathBuf, source: io::Error },
    #[error("another keeper{} already holds {}", Pid(*pid), path.display())]
    Held { path: PathBuf, pid: Option<i32> },
    #[error("the directory {} is open to others (owner {uid}, mode {mode:o}): it must be yours and 0700", path.display())]
    OpenDirectory { path: PathBuf, uid: u32, mode: u32 },
}

struct Pid(Option<i32>);

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |pid| write!(f, " (pid {pid})"))
    }
}

/// A held state directory.
pub(crate) struct Claim {
    /// The lock that counts: the directory's, or where there are none the file's. Goes through
    /// exec.
    pub(crate) main: OwnedFd,
    /// The file's, beside the directory's.
    _file: Option<OwnedFd>,
    /// The directory that is locked.
    directory: (u64, u64),
}

impl Claim {
    /// Takes the directory, or says who has it.
    pub(crate) fn take(paths: &KeeperPaths) -> Result<Claim, ClaimError> {
        private_directory(&paths.lock)?;
        let (dir, directory) = open_directory(&paths.state)?;
        let held = |pid: Option<i32>| ClaimError::Held {
            path: paths.state.clone(),
            pid: pid.or_else(|| living(&paths.state).map(|other| other.process.pid)),
        };
        let dir = match lock(&dir) {
            Ok(true) => Some(dir),
            Ok(false) => return Err(held(holder(&paths.lock))),
            // Not every file system locks directories; the file is locked in any case.
            Err(_) => None,
        };
        let file = open_lock(&paths.lock)?;
        if !lock(&file).map_err(|errno| at("lock", &paths.lock)(errno.into()))? {
            return Err(held(holder(&paths.lock)));
        }
        for earlier in paths.earlier_locks.iter().filter(|earlier| **earlier != paths.lock) {
            let by = is_held(earlier).then(|| holder(earlier));
            // Our own, if an earlier version's keeper has become this one.
            if let Some(by) = by.filter(|by| *by != Some(std::process::id() as i32)) {
                return Err(held(by));
            }
        }
        if let Some(other) = living(&paths.state) {
            return Err(held(Some(other.process.pid)));
        }
        note(paths, &file);
        let file = OwnedFd::from(file);
        let (main, file) = match dir {
            Some(dir) => (dir, Some(file)),
            None => (file, None),
        };
        Ok(Claim { main, _file: file, directory })
    }

    /// The claim of this keeper's earlier image, which came through exec.
    pub(crate) fn resumed(main: OwnedFd, paths: &KeeperPaths) -> Claim {
        let file = open_lock(&paths.lock).ok().filter(|file| lock(file) == Ok(true));
        if let Some(file) = &file {
            note(paths, file);
        }
        let file = file.map(OwnedFd::from);
        let Ok((dir, directory)) = open_directory(&paths.state) else {
            return Claim { main, _file: file, directory: Default::default() };
        };
        // The lock of an image that locked a file only.
        if inode(&main).ok() != Some(directory) && lock(&dir) == Ok(true) {
            return Claim { main: dir, _file: Some(main), directory };
        }
        Claim { main, _file: file, directory }
    }

    /// Whether the notes of this claim are there: they can be deleted, the claim cannot.
    pub(crate) fn is_noted(paths: &KeeperPaths) -> bool {
        paths.lock.exists() && paths.state.join(LEDGER).exists()
    }

    /// Writes down again what was deleted.
    pub(crate) fn note_again(&mut self, paths: &KeeperPaths) {
        if let Ok(file) = open_lock(&paths.lock) {
            note(paths, &file);
            if lock(&file) == Ok(true) {
                self._file = Some(file.into());
            }
        }
    }

    /// Whether the directory at this path is the one that is held.
    pub(crate) fn covers(&self, state: &Path) -> bool {
        std::fs::metadata(state).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.directory)
    }
}

pub(crate) fn at(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ClaimError {
    let path = path.to_owned();
    move |source| ClaimError::Io { step, path, source }
}

/// Makes the directory of a file, or refuses one that others may enter.
pub fn private_directory(file: &Path) -> Result<(), ClaimError> {
    let dir = match file.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(at("create", dir))?;
    let meta = std::fs::metadata(dir).map_err(at("look at", dir))?;
    let ours = meta.uid() == rustix::process::geteuid().as_raw();
    if !ours || meta.mode() & 0o077 != 0 {
        return Err(ClaimError::OpenDirectory {
            path: dir.to_owned(),
            uid: meta.uid(),
            mode: meta.mode() & 0o7777,
        });
    }
    Ok(())
}

fn open_directory(path: &Path) -> Result<(OwnedFd, (u64, u64)), ClaimError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(at("create", path))?;
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|errno| at("open", path)(errno.into()))?;
    let inode = inode(&dir).map_err(at("look at", path))?;
    Ok((dir, inode))
}

fn inode(fd: &impl AsFd) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(fd)?;
    Ok((stat.st_dev, stat.st_ino))
}

fn open_lock(path: &Path) -> Result<File, ClaimError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW);
    aside::open(path, &options).map_err(at("open", path))
}

/// Whether it is ours now.
fn lock(file: &impl AsFd) -> Result<bool, Errno> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Whether somebody holds a lock; nothing is made and nothing is kept.
fn is_held(path: &Path) -> bool {
    let opened =
        OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    opened.is_ok_and(|file| lock(&file) == Ok(false))
}

/// The pid in a lock.
fn holder(path: &Path) -> Option<i32> {
    let mut text = String::new();
    File::open(path).ok()?.take(16).read_to_string(&mut text).ok()?;
    text.lines().next()?.trim().parse().ok()
}

/// Writes down who holds the directory. The locks are what counts, so a full disk is no reason not
/// to start.
fn note(paths: &KeeperPaths, lock: &File) {
    sign(lock);
    let Some(own) = Identity::own() else { return };
    let path = paths.state.join(LEDGER);
    let beside = paths.state.join(format!("{LEDGER}.new"));
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&beside)?;
        // All others were seen dead just now.
        file.write_all(format!("{own}\n").as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, &path)
    };
    let _ = write();
}

/// Puts our pid into a lock, for sentences only.
fn sign(mut lock: &File) {
    let _ = lock.set_len(0);
    let _ = lock.rewind();
    let _ = lock.write_all(format!("{}\n", std::process::id()).as_bytes());
}

/// The keeper that has this state directory, if one lives. Nothing is locked to learn it.
pub fn keeper_of(state: &Path) -> Option<i32> {
    living(state).map(|keeper| keeper.process.pid)
}

/// A keeper of the ledger that lives and is not this process.
fn living(state: &Path) -> Option<Identity> {
    let mut text = String::new();
    let file = File::open(state.join(LEDGER)).ok()?;
    // What is damaged names nobody: then the locks decide alone.
    file.take(LEDGER_MAX).read_to_string(&mut text).ok()?;
    let own = std::process::id() as i32;
    text.lines().filter_map(Identity::parse).find(|other| other.process.pid != own && other.lives())
}

/// A process of this boot, told apart from every other, also from a later one with its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    boot: String,
    /// The pid namespace: numbers mean something only inside.
    space: u64,
    process: Process,
}

impl Identity {
    /// This process.
    pub fn own() -> Option<Identity> {
        let process = Process::of(std::process::id() as i32)?;
        Some(Identity { boot: boot()?, space: space()?, process })
    }

    fn parse(line: &str) -> Option<Identity> {
        let mut words = line.split_ascii_whitespace();
        let (boot, space) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        let (pid, start_time) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        words.next().is_none().then_some(())?;
        Some(Identity { boot, space, process: Process { pid, start_time } })
    }

    /// Whether it still runs. One of another pid namespace cannot be seen from here: whether that
    /// one lives is for the locks to say, which no namespace divides.
    pub fn lives(&self) -> bool {
        let here = boot().as_ref() == Some(&self.boot) && space() == Some(self.space);
        here && self.process.lives()
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Process { pid, start_time } = self.process;
        write!(f, "{} {} {pid} {start_time}", self.boot, self.space)
    }
}

/// This boot's id: no number of a process means anything after it.
pub fn boot() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_owned()).filter(|boot| !boot.is_empty())
}

fn space() -> Option<u64> {
    std::fs::metadata("/proc/self/ns/pid").ok().map(|meta| meta.ino())
}

/// Holds a lock file for as long as the answer lives, waiting a moment for whoever has it.
#[expect(
    clippy::disallowed_methods,
    reason = "a lock has no deadline, and nothing tells when it is free"
)]
pub fn hold(path: &Path, patience: Duration) -> Result<OwnedFd, ClaimError> {
    let deadline = Instant::now() + patience;
    let file = open_lock(path)?;
    while !lock(&file).map_err(|errno| at("lock", path)(errno.into()))? {
        if Instant::now() >= deadline {
            return Err(ClaimError::Held { path: path.to_owned(), pid: holder(path) });
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    sign(&file);
    Ok(file.into())
}

#[cfg(test)]
impl KeeperPaths {
    /// Everything below one directory.
    pub(crate) fn below(dir: &Path) -> KeeperPaths {
        let run = dir.join("run");
        let (lock, socket) = (run.join("lock"), run.join("sock"));
        KeeperPaths {
            state: dir.join("state"),
            lock,
            socket,
            alias: None,
            earlier_locks: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;

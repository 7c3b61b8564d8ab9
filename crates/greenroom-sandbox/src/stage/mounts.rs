//! The session's view of the file system.
//!
//! In: the plan's mounts. Out: a read-only world in which exactly the plan's places are writable,
//! masked or pinned, with its own `/tmp`, `/dev/shm`, `/dev/pts` and `/proc`. Handles to everything
//! that stays are taken first, while paths still mean what they mean outside; then the world is
//! closed; then they are put back, shallow before deep. Every target is opened without following
//! symlinks (`paths.rs`).

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
};

use super::guard::Guards;
use super::sys::{NODEV, NOEXEC, NOSUID, RDONLY, restrict_mount, restrict_one_mount};
use super::{Failing, paths};
use crate::control::StageError;
use crate::layer::Layer;
use crate::plan::{Mount, Place};

/// Branches beside a session's own that are pinned one by one.
const MAX_SIBLINGS: usize = 4096;
/// Entries of a directory some of whose names are hidden; each that is left is a mount.
const MAX_LISTED: usize = 4096;
/// The size of the session's `/dev/shm`; it is memory.
const SHM_BYTES: &str = "67108864";
/// Devices that do nothing but what their names say.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Something that will be put at a place.
struct Piece {
    at: PathBuf,
    what: What,
}

enum What {
    /// A detached copy, and whether it is a directory.
    Copy {
        tree: OwnedFd,
        directory: bool,
        /// Read-only where it may be that what is around it is not.
        fixed: bool,
        /// Not made where it is missing by now: git outside took it away, and an empty branch would
        /// be a broken one.
        found: bool,
    },
    Mask,
    /// The directory as it is, and what of it is not seen.
    Without {
        dir: OwnedFd,
        names: Vec<OsString>,
    },
}

/// Builds all of it. Call in the first process of the new pid namespace.
pub(crate) fn build(mounts: &[Mount]) -> Result<Guards, StageError> {
    let layer = Layer::Mounts;
    let propagation = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", propagation)
        .failing(layer, || "make mounts private".into())?;
    let mut pieces = Vec::with_capacity(mounts.len());
    for mount in mounts {
        collect(mount, &mut pieces)?;
    }
    let devices = devices()?;
    let root = paths::open(Path::new("/")).failing(layer, || "open /".into())?;
    restrict_mount(root.as_fd(), RDONLY | NOSUID | NODEV)
        .failing(layer, || "make the root read-only".into())?;
    let scratch = Scratch::new()?;
    let mut guards = Guards::default();
    let closed = place(pieces, &scratch, &mut guards)?;
    dev(devices, &scratch)?;
    proc()?;
    // Only now: until here places below them may have been made. What is placed there keeps its own
    // attributes.
    for mask in closed {
        restrict_one_mount(mask.as_fd(), RDONLY).failing(layer, || "close a mask".into())?;
    }
    guards.with_masks(scratch);
    Ok(guards)
}

pub(super) fn clone(source: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    rustix::mount::open_tree(source, "", flags)
}

pub(super) fn attach(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", target, "", flags)
}

/// Takes handles while paths still mean what they mean outside.
fn collect(mount: &Mount, pieces: &mut Vec<Piece>) -> Result<(), StageError> {
    let at = &mount.at;
    let (source, attributes) = match &mount.what {
        Place::Masked => {
            pieces.push(Piece { at: at.clone(), what: What::Mask });
            return Ok(());
        }
        Place::OthersReadOnly { except } => return siblings(at, except, pieces),
        Place::Without { names } => {
            let dir = match paths::open_real(at) {
                Err(Errno::NOENT) if mount.optional => return Ok(()),
                dir => dir.failing(Layer::Paths, || format!("open {}", at.display()))?,
            };
            let failing = || format!("look at {}", at.display());
            if paths::kind(dir.as_fd()).failing(Layer::Paths, failing)? == FileType::Directory {
                let what = What::Without { dir, names: names.clone() };
                pieces.push(Piece { at: at.clone(), what });
            }
            return Ok(());
        }
        Place::Writable => (paths::open_real(at), NOSUID | NODEV),
        Place::Pinned => (paths::open_real(at), NOSUID | NODEV),
        Place::Replaced { from } => (paths::open_real(from), NOSUID | NODEV),
        Place::View { from } => (paths::open_real(from), RDONLY | NOSUID | NODEV),
        // May be a symlink (shared hooks, say): then the symlink itself is pinned.
        Place::ReadOnly => (paths::open(at), RDONLY | NOSUID | NODEV),
    };
    let source = match source {
        Err(Errno::NOENT) if mount.optional => return Ok(()),
        source => source
            .failing(Layer::Paths, || format!("open {} (a symlink is refused)", shown(mount)))?,
    };
    let mut piece = copy(at, source.as_fd(), attributes)
        .failing(Layer::Mounts, || format!("take {}", at.display()))?;
    if let (Place::View { .. }, What::Copy { fixed, .. }) = (&mount.what, &mut piece.what) {
        // What is around a view belongs to the session, so there is no file of the user's that the
        // session could write instead.
        *fixed = false;
    }
    pieces.push(piece);
    Ok(())
}

fn shown(mount: &Mount) -> String {
    match &mount.what {
        Place::Replaced { from } | Place::View { from } => from.display().to_string(),
        _ => mount.at.display().to_string(),
    }
}

fn copy(at: &Path, source: BorrowedFd<'_>, attributes: u64) -> Result<Piece, Errno> {
    let directory = paths::kind(source)? == FileType::Directory;
    let tree = clone(source)?;
    restrict_mount(tree.as_fd(), attributes)?;
    let fixed = attributes & RDONLY != 0;
    Ok(Piece { at: at.to_owned(), what: What::Copy { tree, directory, fixed, found: false } })
}

/// Everything in `dir` except one entry becomes read-only. Locks are left alone: each is a moment
/// of git at work, which renames it, and nothing that git reads.
fn siblings(
    dir: &Path,
    except: &std::ffi::OsStr,
    pieces: &mut Vec<Piece>,
) -> Result<(), StageError> {
    let failing = || format!("protect what is beside {}", dir.join(except).display());
    let fd = paths::open_real(dir).failing(Layer::Paths, failing)?;
    let names = paths::entries(fd.as_fd(), MAX_SIBLINGS).failing(Layer::Paths, failing)?;
    let is_lock = |name: &OsStr| name.as_encoded_bytes().ends_with(b".lock");
    for name in names.into_iter().filter(|name| name != except && !is_lock(name)) {
        let at = dir.join(name);
        let taken = paths::open(&at);
        match taken.and_then(|fd| copy(&at, fd.as_fd(), RDONLY | NOSUID | NODEV)) {
            // Deleted or packed meanwhile.
            Err(Errno::NOENT) => {}
            piece => {
                let mut piece = piece.failing(Layer::Mounts, failing)?;
                if let What::Copy { found, .. } = &mut piece.what {
                    *found = true;
                }
                pieces.push(piece);
            }
        }
    }
    Ok(())
}

fn devices() -> Result<Vec<Piece>, StageError> {
    let mut devices = Vec::new();
    for name in DEVICES {
        let at = Path::new("/dev").join(name);
        match paths::open_real(&at) {
            Err(Errno::NOENT) => {}
            source => {
                let piece = source.and_then(|fd| copy(&at, fd.as_fd(), NOSUID | NOEXEC));
                devices.push(piece.failing(Layer::Mounts, || format!("take /dev/{name}"))?);
            }
        }
    }
    Ok(devices)
}

/// A small tmpfs that `/dev/shm` and all masks are parts of. It hangs below `/proc` until they are
/// taken; the new `/proc` then covers the place.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) root: OwnedFd,
}

impl Scratch {
    fn new() -> Result<Scratch, StageError> {
        let failing = || "make a tmpfs".into();
        let made = || -> Result<OwnedFd, Errno> {
            let options = [("size", SHM_BYTES), ("mode", "0755")];
            let root = new_mount("tmpfs", &options, MountAttrFlags::MOUNT_ATTR_NODEV)?;
            attach(root.as_fd(), paths::open(Path::new("/proc"))?.as_fd())?;
            rustix::fs::mkdirat(&root, "empty", Mode::from_raw_mode(0o555))?;
            rustix::fs::mkdirat(&root, "shm", Mode::from_raw_mode(0o1777))?;
            // mkdir obeys the umask; everybody may write here.
            let shm =
                rustix::fs::openat(&root, "shm", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
            rustix::fs::fchmod(&shm, Mode::from_raw_mode(0o1777))?;
            let flags = OFlags::CREATE | OFlags::RDONLY | OFlags::CLOEXEC;
            rustix::fs::openat(&root, "file", flags, Mode::from_raw_mode(0o444))?;
            Ok(root)
        };
        made().failing(Layer::Mounts, failing).map(|root| Scratch { root })
    }

    fn take(&self, name: &str) -> Result<OwnedFd, Errno> {
        let part =
            rustix::fs::openat(&self.root, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        clone(part.as_fd())
    }

    /// What is seen instead of something that is masked.
    pub(super) fn take_mask(&self, directory: bool) -> Result<OwnedFd, Errno> {
        self.take(if directory { "empty" } else { "file" })
    }

    /// A directory of its own, in which places can be made until it is closed.
    fn take_new(&self, number: usize) -> Result<OwnedFd, Errno> {
        let name = format!("mask{number}");
        rustix::fs::mkdirat(&self.root, name.as_str(), Mode::from_raw_mode(0o755))?;
        self.take(&name)
    }
}

/// Puts everything in its place. Returns the masks that still have to be made read-only.
fn place(
    pieces: Vec<Piece>,
    scratch: &Scratch,
    guards: &mut Guards,
) -> Result<Vec<OwnedFd>, StageError> {
    let parents: BTreeSet<PathBuf> =
        pieces.iter().flat_map(|it| it.at.ancestors().skip(1)).map(Path::to_owned).collect();
    let placed_later: BTreeSet<PathBuf> = pieces.iter().map(|it| it.at.clone()).collect();
    let (mut open_masks, mut ours) = (Vec::new(), BTreeSet::new());
    for piece in pieces {
        let at = &piece.at;
        let placed = match piece.what {
            What::Copy { tree, directory, fixed, found } => {
                if fixed {
                    guards.fixed(at.clone());
                }
                let target =
                    if found { paths::open(at) } else { paths::mount_point(at, directory) };
                match target.and_then(|target| attach(tree.as_fd(), target.as_fd())) {
                    Err(Errno::NOENT) if found => Ok(None),
                    placed => placed.map(|()| None),
                }
            }
            What::Without { dir, names } => {
                let skip = |name: &OsStr| {
                    names.iter().any(|it| it == name) || placed_later.contains(&at.join(name))
                };
                // A directory in one that is ours already needs no mount of its own.
                let in_ours = at.parent().is_some_and(|parent| ours.contains(parent));
                ours.insert(at.clone());
                listed(at, &dir, skip, (!in_ours).then_some((scratch, open_masks.len())))
            }
            What::Mask => {
                let number = parents.contains(at).then_some(open_masks.len());
                mask(at, scratch, number).inspect(|_| guards.masked(at.clone()))
            }
        };
        let many = if placed.as_ref().is_err_and(|errno| *errno == Errno::TOOBIG) {
            format!(", which has more than {MAX_LISTED} entries")
        } else {
            String::new()
        };
        let failing = || format!("place {}{many}", at.display());
        open_masks.extend(placed.failing(Layer::Mounts, failing)?);
    }
    Ok(open_masks)
}

/// Puts a directory of our own over the one at `at`, in which every entry is found that `skip` does
/// not skip. Returns the mount, if it is one.
fn listed(
    at: &Path,
    dir: &OwnedFd,
    skip: impl Fn(&OsStr) -> bool,
    new: Option<(&Scratch, usize)>,
) -> Result<Option<OwnedFd>, Errno> {
    let place = paths::mount_point(at, true)?;
    let mount = match new {
        Some((scratch, number)) => {
            let tree = scratch.take_new(number)?;
            attach(tree.as_fd(), place.as_fd())?;
            Some(tree)
        }
        None => None,
    };
    let tree = mount.as_ref().unwrap_or(&place);
    // Names are looked up in the directory below the one that covers it now. Nobody but its user
    // can write there.
    rustix::process::fchdir(dir)?;
    let entries = match paths::kinds(dir.as_fd(), MAX_LISTED) {
        // The session could not list it either.
        Err(Errno::ACCESS) => Vec::new(),
        entries => entries?,
    };
    for (name, kind) in entries {
        if skip(&name) {
            continue;
        }
        match entry(tree, &at.join(&name), &name, kind) {
            Ok(()) => {}
            // Gone meanwhile, or on a file system that does not answer: then it is not seen.
            Err(Errno::NOENT | Errno::ACCESS | Errno::STALE | Errno::IO | Errno::NOTCONN) => {}
            Err(Errno::NODEV | Errno::NXIO | Errno::TIMEDOUT | Errno::HOSTDOWN) => {}
            Err(errno) => return Err(errno),
        }
    }
    rustix::process::chdir("/")?;
    Ok(mount)
}

/// One entry of the working directory, in `tree`, which is at its place already.
fn entry(tree: &OwnedFd, at: &Path, name: &OsStr, kind: FileType) -> Result<(), Errno> {
    match kind {
        FileType::Directory => rustix::fs::mkdirat(tree, name, Mode::from_raw_mode(0o755))?,
        FileType::RegularFile => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(tree, name, flags, Mode::from_raw_mode(0o644)).map(drop)?;
        }
        FileType::Symlink => {
            let leads_to = rustix::fs::readlinkat(CWD, name, Vec::new())?;
            return rustix::fs::symlinkat(leads_to, tree, name);
        }
        // Sockets cannot be used in here, and the rest has no business in a home.
        _ => return Ok(()),
    }
    rustix::mount::mount_bind_recursive(name, at)
}

fn mask(at: &Path, scratch: &Scratch, number: Option<usize>) -> Result<Option<OwnedFd>, Errno> {
    // Followed, if it is a symlink: what must not be seen is what it leads to.
    let target = match rustix::fs::openat(CWD, at, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(None),
        target => target?,
    };
    let directory = paths::kind(target.as_fd())? == FileType::Directory;
    let tree = match number {
        Some(number) if directory => scratch.take_new(number)?,
        _ => scratch.take_mask(directory)?,
    };
    attach(tree.as_fd(), target.as_fd())?;
    if number.is_some() && directory {
        return Ok(Some(tree));
    }
    restrict_mount(tree.as_fd(), RDONLY)?;
    Ok(None)
}

fn dev(devices: Vec<Piece>, scratch: &Scratch) -> Result<(), StageError> {
    place(devices, scratch, &mut Guards::default())?;
    let failing = || "make /dev/shm".into();
    if paths::exists(Path::new("/dev/shm")) {
        let target = paths::open_real(Path::new("/dev/shm")).failing(Layer::Mounts, failing)?;
        let shm = scratch.take("shm").failing(Layer::Mounts, failing)?;
        attach(shm.as_fd(), target.as_fd()).failing(Layer::Mounts, failing)?;
    }
    let terminals = || -> Result<(), Errno> {
        let options = [("ptmxmode", "0666"), ("mode", "0620")];
        let pts = new_mount("devpts", &options, MountAttrFlags::MOUNT_ATTR_NOEXEC)?;
        let target = paths::open_real(Path::new("/dev/pts"))?;
        attach(pts.as_fd(), target.as_fd())?;
        let ptmx = paths::open(Path::new("/dev/ptmx"))?;
        if paths::kind(ptmx.as_fd())? != FileType::Symlink {
            let own = clone(paths::open_real(Path::new("/dev/pts/ptmx"))?.as_fd())?;
            attach(own.as_fd(), ptmx.as_fd())?;
        }
        Ok(())
    };
    terminals().failing(Layer::Terminal, || "make terminals of its own".into())
}

/// A file system of its own, without set-user-id programs and with what `more` forbids.
fn new_mount(kind: &str, options: &[(&str, &str)], more: MountAttrFlags) -> Result<OwnedFd, Errno> {
    let fs = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        rustix::mount::fsconfig_set_string(fs.as_fd(), *key, *value)?;
    }
    rustix::mount::fsconfig_create(fs.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | more;
    rustix::mount::fsmount(fs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Shows the session's processes only. Read-only as a whole: as root, much below `/proc/sys` could
/// be written.
fn proc() -> Result<(), StageError> {
    let failing = || "mount a fresh /proc".into();
    // On top of the scratch, which is out of sight then. Unmounting it would wait for every CPU of
    // the machine.
    let more = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let fresh = new_mount("proc", &[], more).failing(Layer::Proc, failing)?;
    let target = paths::open_real(Path::new("/proc")).failing(Layer::Proc, failing)?;
    attach(fresh.as_fd(), target.as_fd()).failing(Layer::Proc, failing)
}

//! What a new worktree gets besides what git checks out: ignored files by name, and heavy
//! directories.
//!
//! `.worktreeinclude` at the checkout's top names files in the syntax of `.gitignore`; those of
//! them that git ignores are copied. Directories are shared as the configuration says. Everything
//! is first made in a staging directory and then put in its place by one rename, so that after a
//! crash each piece is either whole and recorded or not there.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, RenameFlags, mkdirat, renameat_with};
use serde::{Deserialize, Serialize};

use super::check::{os, there};
use super::error::WorktreeError;
use super::record::{Ours, make_dir};
use super::snapshot::{names, open_dir};
use crate::git::Repo;

/// The file that names what to copy.
pub const INCLUDE_FILE: &str = ".worktreeinclude";

/// Settings and keys, not data: more is a mistake in the patterns.
const MAX_FILES: usize = 10_000;
const MAX_BYTES: u64 = 1 << 30;

/// A `node_modules` of a large repository has a quarter of a million.
const MAX_SHARED: usize = 1_000_000;

const MAX_DEPTH: usize = 200;

/// How a directory comes into a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    None,
    /// A copy that shares its blocks until one side writes. Refused where the file system cannot.
    Reflink,
    /// The same where the file system can, else nothing.
    ReflinkIfPossible,
    /// The same files under another name: who writes in place writes to both.
    Hardlink,
    /// The same directory.
    Symlink,
}

impl Share {
    fn word(self) -> &'static str {
        match self {
            Share::None => "none",
            Share::Reflink | Share::ReflinkIfPossible => "reflink",
            Share::Hardlink => "hardlink",
            Share::Symlink => "symlink",
        }
    }
}

/// Something made in staging, and where it goes.
pub struct Piece {
    staged: PathBuf,
    pub ours: Ours,
}

/// What could be made ready, and what the user should know.
#[derive(Default)]
pub struct Brought {
    pub pieces: Vec<Piece>,
    pub notes: Vec<String>,
}

/// Makes everything ready in `staging`, which is empty.
pub fn stage(
    source: &Repo,
    top: &Path,
    share: &BTreeMap<String, Share>,
    staging: &Path,
) -> Result<Brought, WorktreeError> {
    make_dir(staging)?;
    let mut brought = Brought::default();
    stage_shared(source, top, share, staging, &mut brought)?;
    let patterns = top.join(INCLUDE_FILE);
    if fs::symlink_metadata(&patterns).is_ok_and(|meta| meta.is_file()) {
        stage_included(source, top, &patterns, staging, &mut brought)?;
    }
    Ok(brought)
}

fn stage_included(
    source: &Repo,
    top: &Path,
    patterns: &Path,
    staging: &Path,
    brought: &mut Brought,
) -> Result<(), WorktreeError> {
    let named = source.untracked_matching(patterns)?;
    let ignored = source.ignored(&named)?;
    let shared: Vec<String> = brought.pieces.iter().map(|p| p.ours.path().to_owned()).collect();
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    let mut bytes = 0;
    for path in named.iter().filter(|path| ignored.contains(*path)) {
        let Ok(name) = std::str::from_utf8(path) else {
            brought
                .notes
                .push("a file of .worktreeinclude was left out: its name is not UTF-8".into());
            continue;
        };
        if shared.iter().any(|dir| Path::new(name).starts_with(dir)) {
            continue;
        }
        let from = top.join(os(path));
        let meta = fs::symlink_metadata(&from).map_err(WorktreeError::io("look at", &from))?;
        let staged = staging.join(format!("i{}", brought.pieces.len() + files.len()));
        if meta.is_symlink() {
            let target = fs::read_link(&from).map_err(WorktreeError::io("read", &from))?;
            symlink(&target, &staged).map_err(WorktreeError::io("copy", &from))?;
            let Some(target) = target.to_str().map(str::to_owned) else { continue };
            let ours = Ours::Link { path: name.to_owned(), target };
            brought.pieces.push(Piece { staged, ours });
        } else if meta.is_file() {
            bytes += meta.len();
            files.push((name.to_owned(), staged));
            if files.len() > MAX_FILES {
                return Err(WorktreeError::TooMuchIncluded { limit: format!("{MAX_FILES} files") });
            }
            if bytes > MAX_BYTES {
                return Err(WorktreeError::TooMuchIncluded { limit: format!("{MAX_BYTES} bytes") });
            }
            let (_, staged) = files.last().expect("just pushed");
            copy_file(&from, staged).map_err(WorktreeError::io("copy", &from))?;
        }
    }
    let copies: Vec<PathBuf> = files.iter().map(|(_, staged)| staged.clone()).collect();
    for ((path, staged), content) in files.into_iter().zip(source.hashes(&copies)?) {
        brought.pieces.push(Piece { staged, ours: Ours::File { path, content } });
    }
    Ok(())
}

fn stage_shared(
    source: &Repo,
    top: &Path,
    share: &BTreeMap<String, Share>,
    staging: &Path,
    brought: &mut Brought,
) -> Result<(), WorktreeError> {
    for (number, (dir, mode)) in share.iter().enumerate() {
        let from = top.join(dir);
        if *mode == Share::None || !fs::symlink_metadata(&from).is_ok_and(|meta| meta.is_dir()) {
            continue;
        }
        let refuse =
            |why: String| WorktreeError::Share { dir: dir.clone(), mode: mode.word(), why };
        if !is_inside(dir) {
            return Err(refuse("it is not a path inside the repository".into()));
        }
        if source.ignored(&[dir.as_bytes().to_vec()])?.is_empty() {
            brought.notes.push(format!("{dir} was not shared: git does not ignore it"));
            continue;
        }
        let staged = staging.join(format!("s{number}"));
        let ours = if *mode == Share::Symlink {
            symlink(&from, &staged).map_err(WorktreeError::io("link", &from))?;
            let target = from.to_str().ok_or_else(|| refuse("its path is not UTF-8".into()))?;
            Ours::Link { path: dir.clone(), target: target.to_owned() }
        } else {
            match copy_dir(&from, &staged, *mode, &mut 0, 0) {
                Err(error) if *mode == Share::ReflinkIfPossible && is_unsupported(&error) => {
                    fs::remove_dir_all(&staged).map_err(WorktreeError::io("remove", &staged))?;
                    continue;
                }
                Err(error) if is_unsupported(&error) => {
                    return Err(refuse("the file system cannot do that here".into()));
                }
                other => other.map_err(WorktreeError::io("share", &from))?,
            }
            Ours::Dir { path: dir.clone() }
        };
        brought.pieces.push(Piece { staged, ours });
    }
    Ok(())
}

fn is_inside(dir: &str) -> bool {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(name) if !name.eq_ignore_ascii_case(".git"));
    !dir.is_empty() && Path::new(dir).components().all(plain)
}

fn is_unsupported(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let kinds = [Errno::OPNOTSUPP, Errno::XDEV, Errno::INVAL, Errno::NOTTY, Errno::NOSYS];
    kinds.iter().any(|kind| error.raw_os_error() == Some(kind.raw_os_error()))
}

fn copy_dir(
    from: &Path,
    to: &Path,
    mode: Share,
    count: &mut usize,
    depth: usize,
) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other("too many levels of directories"));
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        *count += 1;
        if *count > MAX_SHARED {
            return Err(io::Error::other("too many files"));
        }
        let (inner, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_dir(&inner, &target, mode, count, depth + 1)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&inner)?, &target)?;
        } else if kind.is_file() && mode == Share::Hardlink {
            fs::hard_link(&inner, &target)?;
        } else if kind.is_file() {
            reflink(&inner, &target)?;
        }
    }
    fs::set_permissions(to, fs::metadata(from)?.permissions())
}

fn reflink(from: &Path, to: &Path) -> io::Result<()> {
    let source = File::open(from)?;
    let target = File::options().write(true).create_new(true).open(to)?;
    clone_blocks(&source, &target)?;
    keep_looks(&source, &target)
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::open(from)?;
    let mut target = File::options().write(true).create_new(true).open(to)?;
    if clone_blocks(&source, &target).is_err() {
        io::copy(&mut source, &mut target)?;
    }
    keep_looks(&source, &target)
}

/// Modes, and times: build tools compare them.
fn keep_looks(source: &File, target: &File) -> io::Result<()> {
    let meta = source.metadata()?;
    target.set_permissions(fs::Permissions::from_mode(meta.mode() & 0o777))?;
    target.set_modified(meta.modified()?)
}

#[cfg(target_os = "linux")]
fn clone_blocks(source: &File, target: &File) -> io::Result<()> {
    Ok(rustix::fs::ioctl_ficlone(target, source)?)
}

#[cfg(not(target_os = "linux"))]
fn clone_blocks(_: &File, _: &File) -> io::Result<()> {
    Err(rustix::io::Errno::OPNOTSUPP.into())
}

/// Puts one piece in its place. What is there already (the commit brought it) stays. Whether it was
/// put.
pub fn place(piece: &Piece, top: &Path) -> Result<bool, WorktreeError> {
    let target = top.join(piece.ours.path());
    if !there(&piece.staged) {
        return Ok(false);
    }
    let inner = || -> io::Result<bool> {
        let Some((dir, name)) = open_parent(top, Path::new(piece.ours.path()))? else {
            return Ok(false);
        };
        match renameat_with(CWD, &piece.staged, dir.as_fd(), name, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOTEMPTY) => Ok(false),
            Err(error) => Err(error.into()),
        }
    };
    inner().map_err(WorktreeError::io("put in place", &target))
}

/// The directory a path lies in, made if need be; never through a link, which a commit could have
/// put there.
fn open_parent<'a>(top: &Path, path: &'a Path) -> io::Result<Option<(OwnedFd, &'a OsStr)>> {
    let mut dir = open_dir(CWD, top.as_os_str())?;
    let Some(name) = path.file_name() else { return Ok(None) };
    for part in path.parent().unwrap_or(Path::new("")).components() {
        let part = part.as_os_str();
        match mkdirat(&dir, part, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        dir = match open_dir(dir.as_fd(), part) {
            Ok(dir) => dir,
            // A link or a file is in the way: the commit's layout is another one.
            Err(error) if is_in_the_way(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
    }
    Ok(Some((dir, name)))
}

fn is_in_the_way(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::NOTDIR, Errno::LOOP]
        .iter()
        .any(|kind| error.raw_os_error() == Some(kind.raw_os_error()))
}

/// Empties a staging directory that a crash left.
pub fn discard(staging: &Path) -> Result<(), WorktreeError> {
    let Ok(dir) = open_dir(CWD, staging.as_os_str()) else { return Ok(()) };
    let failed = || WorktreeError::io("empty", staging);
    if !names(dir.as_fd()).map_err(failed())?.is_empty() {
        super::snapshot::remove_all(dir.as_fd(), 0).map_err(failed())?;
    }
    fs::remove_dir(staging).map_err(failed())
}

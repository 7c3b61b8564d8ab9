//! Files in and out of a private tree, in which a session may have put anything: links, devices,
//! pipes, huge files.
//!
//! Nothing here follows a link in such a tree: it is read only if it is a plain file, and written
//! by renaming another over it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::super::tree;
use crate::disk::{if_there, private_dir, read_plain};

/// What is taken over from the user's state at most. More is a cache or a history, and would make
/// the first start slow.
#[derive(Debug)]
pub struct Budget {
    pub bytes: u64,
    pub entries: u32,
}

impl Budget {
    pub fn usual() -> Budget {
        Budget { bytes: 64 * 1024 * 1024, entries: 4096 }
    }
}

/// Deeper than any honest tree.
const DEPTH_MAX: usize = 32;

/// Puts a file at `at`, whatever is there. `aside` is on the same file system, and no session can
/// write it.
pub fn put(at: &Path, content: &[u8], aside: &Path) -> io::Result<()> {
    let temporary = fresh_file(aside, content)?;
    if at.symlink_metadata().is_ok_and(|about| about.is_dir()) {
        tree::remove(at)?;
    }
    std::fs::rename(&temporary, at).inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })
}

/// As [`put`], for a file of the user's that must never be seen half written, nor lost with the
/// machine.
pub fn replace(at: &Path, content: &[u8]) -> io::Result<()> {
    let dir = at.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let temporary = fresh_file(dir, content)?;
    let mode = at.metadata().map_or(0o600, |about| about.mode() & 0o777);
    let done = File::open(&temporary).and_then(|file| {
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(mode))?;
        file.sync_all()?;
        std::fs::rename(&temporary, at)
    });
    done.inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })
}

fn fresh_file(dir: &Path, content: &[u8]) -> io::Result<std::path::PathBuf> {
    for number in 0..100 {
        let path = dir.join(format!(".greenroom-{}-{number}", std::process::id()));
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        match opened {
            Ok(mut file) => {
                file.write_all(content).inspect_err(|_| {
                    let _ = std::fs::remove_file(&path);
                })?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("there are too many unfinished files"))
}

/// Removes whatever is at `path`.
pub fn clear(path: &Path) -> io::Result<()> {
    match if_there(path.symlink_metadata())? {
        None => Ok(()),
        Some(about) if about.is_dir() => tree::remove(path),
        Some(_) => std::fs::remove_file(path),
    }
}

/// An empty directory at `path`, or the one that is there.
pub fn clear_to_dir(path: &Path) -> io::Result<()> {
    if !path.symlink_metadata().is_ok_and(|about| about.is_dir()) {
        clear(path)?;
        private_dir(path)?;
    }
    Ok(())
}

/// Copies what is at `from`, the user's, to `to`, where nothing is and no session writes. What does
/// not fit is left out.
pub fn take_over(from: &Path, to: &Path, budget: &mut Budget, depth: usize) -> io::Result<()> {
    let about = from.symlink_metadata()?;
    if budget.entries == 0 || depth > DEPTH_MAX {
        return Ok(());
    }
    budget.entries -= 1;
    if about.is_symlink() {
        return std::os::unix::fs::symlink(std::fs::read_link(from)?, to);
    }
    if about.is_file() && about.len() <= budget.bytes {
        let Some(content) = read_plain(from, budget.bytes)? else { return Ok(()) };
        budget.bytes -= content.len() as u64;
        let mode = about.mode() & 0o777 | 0o600;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(to)?;
        return file.write_all(&content);
    }
    if about.is_dir() {
        private_dir(to)?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            let at = to.join(entry.file_name());
            // A file that cannot be read, or is gone meanwhile, is not worth a session.
            if let Err(error) = take_over(&entry.path(), &at, budget, depth + 1) {
                tracing::debug!(path = %entry.path().display(), %error, "not taken over");
            }
        }
    }
    Ok(())
}

//! Files in and out of a private tree, in which a session may have put anything: links, devices, pipes, huge files.
//!
//! Nothing here follows a link in such a tree: it is read only if it is a plain file, and written by renaming another over it.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::super::tree;

/// What is taken over from the user's state at most. More is a cache or a history, and would make the first start slow.
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

/// The content of a plain file, if it has at most `max` bytes; `None` if there is none.
pub fn read(path: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
    let opened = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let about = file.metadata()?;
    if !about.is_file() || about.len() > max {
        return Err(io::Error::other("it is no plain file, or too large"));
    }
    let mut content = Vec::new();
    file.take(max + 1).read_to_end(&mut content)?;
    match content.len() as u64 > max {
        true => Err(io::Error::other("it is too large")),
        false => Ok(Some(content)),
    }
}

/// Puts a file at `at`, whatever is there. `aside` is on the same file system, and no session can write it.
pub fn put(at: &Path, content: &[u8], aside: &Path) -> io::Result<()> {
    let temporary = fresh_file(aside, content)?;
    if at.symlink_metadata().is_ok_and(|about| about.is_dir()) {
        tree::remove(at)?;
    }
    std::fs::rename(&temporary, at).inspect_err(|_| {
        let _ = std::fs::remove_file(&temporary);
    })
}

/// As [`put`], for a file of the user's that must never be seen half written, nor lost with the machine.
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

pub fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes whatever is at `path`.
pub fn clear(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(about) if about.is_dir() => tree::remove(path),
        Ok(_) => std::fs::remove_file(path),
    }
}

/// An empty directory at `path`, or the one that is there.
pub fn clear_to_dir(path: &Path) -> io::Result<()> {
    if !path.symlink_metadata().is_ok_and(|about| about.is_dir()) {
        clear(path)?;
        make_dir(path)?;
    }
    Ok(())
}

/// Copies what is at `from`, the user's, to `to`, where nothing is and no session writes. What does not fit is left out.
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
        let Some(content) = read(from, budget.bytes)? else { return Ok(()) };
        budget.bytes -= content.len() as u64;
        let mode = about.mode() & 0o777 | 0o600;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(to)?;
        return file.write_all(&content);
    }
    if about.is_dir() {
        make_dir(to)?;
        for entry in std::fs::read_dir(from)? {
            let entry = entry?;
            let at = to.join(entry.file_name());
            // One that cannot be read, or is gone meanwhile, is not worth a session.
            if let Err(error) = take_over(&entry.path(), &at, budget, depth + 1) {
                tracing::debug!(path = %entry.path().display(), %error, "not taken over");
            }
        }
    }
    Ok(())
}

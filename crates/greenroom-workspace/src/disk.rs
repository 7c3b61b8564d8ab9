//! What this crate does to files in one way: directories of ours alone, files that may not be
//! there, files that somebody else could have put there.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// A directory of ours alone, with its parents.
pub fn private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// `None` where there is nothing.
pub fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Removed, now or before.
pub fn gone(removed: io::Result<()>) -> io::Result<()> {
    if_there(removed).map(drop)
}

/// The content of a plain file, if it has at most `max` bytes; `None` if there is none. Neither a
/// link nor a pipe that somebody put there leads or holds us elsewhere.
pub fn read_plain(path: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let Some(file) = if_there(opened)? else { return Ok(None) };
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

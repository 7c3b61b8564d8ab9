//! Removing a directory a session could fill as it liked.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Deeper than any honest tree; `remove_dir_all` itself does not recurse on the stack.
const DEPTH_MAX: usize = 4096;

/// Removes it, also if directories in it were closed even to their owner. Links are removed, never
/// followed.
pub fn remove(dir: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(dir, 0)?;
            std::fs::remove_dir_all(dir)
        }
        other => other,
    }
}

fn open_up(dir: &Path, depth: usize) -> io::Result<()> {
    if depth > DEPTH_MAX {
        return Err(io::Error::other("it is too deep"));
    }
    std::fs::set_permissions(dir, PermissionsExt::from_mode(0o700))?;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path(), depth + 1)?;
        }
    }
    Ok(())
}

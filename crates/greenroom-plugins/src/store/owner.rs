//! Who could have written a directory: what nobody but the operator can write is the operator's word.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// Only the operator (or root) can change what lies in `dir`; else what is in the way.
///
/// Group bits do no harm below a directory that others cannot enter, which the host's own home is.
pub fn only_ours(dir: &Path) -> Result<(), String> {
    let closed = behind_a_closed_door(dir);
    let mut ahead = vec![dir.to_owned()];
    if let Some(parent) = dir.parent() {
        check(parent, closed)?;
    }
    while let Some(path) = ahead.pop() {
        if check(&path, closed)? {
            let entries = fs::read_dir(&path).map_err(|error| said(&path, &error))?;
            for entry in entries {
                ahead.push(entry.map_err(|error| said(&path, &error))?.path());
            }
        }
    }
    Ok(())
}

/// Answers whether it is a directory.
fn check(path: &Path, closed: bool) -> Result<bool, String> {
    let meta = fs::symlink_metadata(path).map_err(|error| said(path, &error))?;
    let ours = geteuid().as_raw();
    if meta.uid() != ours && meta.uid() != 0 {
        return Err(format!("{} belongs to user {}", path.display(), meta.uid()));
    }
    let open = meta.permissions().mode() & 0o022 != 0 && !meta.is_symlink();
    match open && !closed {
        true => {
            Err(format!("others may write {}: chmod -R go-w {}", path.display(), path.display()))
        }
        false => Ok(meta.is_dir()),
    }
}

fn behind_a_closed_door(dir: &Path) -> bool {
    let ours = geteuid().as_raw();
    let mut above: Option<PathBuf> = fs::canonicalize(dir).ok();
    while let Some(path) = above {
        let closed = fs::metadata(&path)
            .is_ok_and(|meta| meta.mode() & 0o077 == 0 && (meta.uid() == ours || meta.uid() == 0));
        if closed {
            return true;
        }
        above = path.parent().map(Path::to_owned);
    }
    false
}

fn said(path: &Path, error: &std::io::Error) -> String {
    format!("cannot look at {}: {error}", path.display())
}

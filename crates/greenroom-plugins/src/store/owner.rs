//! Who could have written a directory: what nobody but the operator can write is the operator's
//! word.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::process::geteuid;

/// Only the operator (or root) can change what lies in `dir`; else what is in the way.
///
/// Group bits do no harm below a directory that others cannot enter, which the host's own home is.
pub(super) fn only_ours(dir: &Path) -> Result<(), String> {
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
    if open && !closed {
        let path = path.display();
        return Err(format!("others may write {path}: chmod -R go-w {path}"));
    }
    Ok(meta.is_dir())
}

fn behind_a_closed_door(dir: &Path) -> bool {
    let ours = geteuid().as_raw();
    let closed = |path: &Path| {
        fs::metadata(path)
            .is_ok_and(|meta| meta.mode() & 0o077 == 0 && (meta.uid() == ours || meta.uid() == 0))
    };
    fs::canonicalize(dir).is_ok_and(|dir| dir.ancestors().any(closed))
}

fn said(path: &Path, error: &std::io::Error) -> String {
    format!("cannot look at {}: {error}", path.display())
}

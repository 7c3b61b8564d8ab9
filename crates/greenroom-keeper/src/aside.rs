//! Files of the keeper's own, whatever lies in their place.
//!
//! In: a path. Out: an open file. A directory or a link there gets another name: locks and logs
//! hold nothing a start depends on, so damage to them must not keep the host from starting. Absent
//! on purpose: what is in the files.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Names tried for what is moved.
const NAMES_MAX: u32 = 100;

/// Opens the file, after moving away what is none.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
    options.open(path).or_else(|error| {
        if std::fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_file()) {
            move_away(path)?;
            return options.open(path);
        }
        Err(error)
    })
}

/// Gives what lies at `path` a free name beside it.
fn move_away(path: &Path) -> io::Result<()> {
    let mut names = (1..=NAMES_MAX).map(|number| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".damaged-{number}"));
        PathBuf::from(name)
    });
    let free = |name: &PathBuf| std::fs::symlink_metadata(name).is_err();
    let full = || io::Error::other(format!("{NAMES_MAX} damaged ones lie beside it already"));
    std::fs::rename(path, names.find(free).ok_or_else(full)?)
}

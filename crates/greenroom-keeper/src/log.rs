//! The keeper's log: one line per event, `<unix seconds>.<milliseconds> <text>`, mode 0600.
//!
//! In: finished sentences. Out: a file that starts anew (the old one as `.old`) when it is over 1
//! MiB at a start. Absent on purpose: levels, argv, environments. A log that cannot be written is
//! silent: sessions matter more.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::aside;

/// A log over this size is set aside at the next start.
const ROTATE_BYTES: u64 = 1024 * 1024;

pub(crate) struct Log {
    file: Option<File>,
}

impl Log {
    pub(crate) fn open(path: &Path) -> Log {
        Log { file: open_rotated(path).ok() }
    }

    pub(crate) fn say(&mut self, text: fmt::Arguments<'_>) {
        let Some(file) = &mut self.file else { return };
        let now = unix_ms();
        let line = format!("{}.{:03} {text}\n", now / 1000, now % 1000);
        // One write per line keeps lines whole under O_APPEND; a full disk costs the line, nothing
        // else.
        let _ = file.write_all(line.as_bytes());
    }
}

/// Opens a log for appending, after setting a large one aside.
pub(crate) fn open_rotated(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    if std::fs::metadata(path).is_ok_and(|meta| meta.len() > ROTATE_BYTES) {
        let mut old = path.as_os_str().to_owned();
        old.push(".old");
        // A log that cannot be renamed only grows.
        let _ = std::fs::rename(path, old);
    }
    aside::open(path, OpenOptions::new().create(true).append(true).read(true).mode(0o600))
}

pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

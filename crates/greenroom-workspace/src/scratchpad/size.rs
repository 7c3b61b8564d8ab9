//! How much a scratchpad holds, for people.

use std::fmt;
use std::path::Path;

/// A count beyond this is told as "more than": nobody waits for a walk through a million files.
const FILES_MAX: u64 = 100_000;

/// Directories of sessions nest a few levels; a loop of mounts must not hold us.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub files: u64,
    pub bytes: u64,
    /// There is more than was counted.
    pub more: bool,
}

/// Walks without following links. What cannot be read counts as "more".
pub fn measure(dir: &Path) -> Size {
    let mut size = Size::default();
    walk(dir, 0, &mut size);
    size
}

fn walk(dir: &Path, depth: usize, size: &mut Size) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        size.more = true;
        return;
    };
    for entry in entries {
        let Ok((entry, meta)) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))
        else {
            size.more = true;
            continue;
        };
        if size.files >= FILES_MAX || (meta.is_dir() && depth >= DEPTH_MAX) {
            size.more = true;
            return;
        }
        if meta.is_dir() {
            walk(&entry, depth + 1, size);
        } else {
            size.files += 1;
            size.bytes += meta.len();
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.more { "more than " } else { "" };
        let files = if self.files == 1 { "file" } else { "files" };
        write!(f, "{more}{} {files}, {}", self.files, bytes(self.bytes))
    }
}

fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} bytes");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

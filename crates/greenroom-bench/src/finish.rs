//! The finishing line of a flood: a FIFO into which the program writes one byte when its last
//! question was answered, that is when its host has parsed everything. The same line for every
//! host, independent of how it notices the end of a process.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Longest a round may take; a contender that is slower is broken, not slow.
const ROUND_LIMIT: Duration = Duration::from_secs(120);

pub struct FinishLine {
    _dir: tempfile::TempDir,
    path: PathBuf,
    fifo: File,
}

impl FinishLine {
    pub fn draw() -> Result<FinishLine> {
        let dir = tempfile::tempdir().context("cannot make a directory for a FIFO")?;
        let path = dir.path().join("finish");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .context("cannot make a FIFO")?;
        // Opened for both directions: it neither blocks now nor ends when a writer closes.
        let fifo = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .context("cannot open the FIFO")?;
        Ok(FinishLine { _dir: dir, path, fifo })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Until `count` programs have crossed it.
    pub fn wait(&mut self, count: usize) -> Result<()> {
        let mut left = count;
        let mut buffer = [0; 64];
        while left > 0 {
            if !crate::bare::readable(&self.fifo, ROUND_LIMIT)? {
                bail!("{left} of {count} floods did not end within {ROUND_LIMIT:?}");
            }
            let room = left.min(buffer.len());
            left -= self.fifo.read(&mut buffer[..room]).context("cannot read the FIFO")?;
        }
        Ok(())
    }
}

/// The program's side.
pub fn cross(path: &Path) -> Result<()> {
    OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut fifo| fifo.write_all(b"."))
        .with_context(|| format!("cannot write to {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_must_cross() {
        let mut line = FinishLine::draw().unwrap();
        let path = line.path().to_owned();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| cross(&path).unwrap());
            }
            line.wait(3).unwrap();
        });
        assert!(!crate::bare::readable(&line.fifo, Duration::ZERO).unwrap());
    }
}

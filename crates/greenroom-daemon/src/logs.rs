//! The daemon's log: JSON lines in a file, set aside by size, a bounded number kept.
//!
//! In: `tracing` events of this process. Out: `daemon.log`, `daemon.log.1`, … each 0600. Lines go
//! through a bounded queue to a thread of its own, because whoever logs may be a session's actor
//! and must not wait for a disk; lines that find the queue full are counted and the count is
//! logged. Deliberately absent: environment values and text of sessions. Nobody may log those.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use greenroom_config::Log;
use greenroom_engine::egress::{Egress, Raw};
use greenroom_engine::keep;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Lines waiting for the disk: a burst of a session start storm, not a flood.
const QUEUE_LINES: usize = 4096;

/// How long the end of the process waits for the last lines.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
#[error("cannot open the log {}: {source}", path.display())]
pub(crate) struct LogError {
    path: PathBuf,
    source: io::Error,
}

/// Keeps the log going; flush it before the process ends.
#[derive(Clone)]
pub(crate) struct Logs {
    queue: SyncSender<Line>,
    dropped: Arc<AtomicU64>,
}

enum Line {
    Text(Vec<u8>),
    Flush(SyncSender<()>),
}

impl Logs {
    /// Opens the file and makes this the process's log.
    pub(crate) fn start(path: &Path, config: &Log) -> Result<Logs, LogError> {
        let logs = Logs::open(path, config)?;
        let filter = tracing_subscriber::EnvFilter::new(&config.level);
        let layer = tracing_subscriber::fmt::layer().json().with_writer(logs.clone());
        // A second subscriber in one process (tests) leaves the first in place.
        let _ = tracing_subscriber::registry().with(filter).with(layer).try_init();
        Ok(logs)
    }

    fn open(path: &Path, config: &Log) -> Result<Logs, LogError> {
        let open = || Rotated::open(path, config.file_bytes, config.files);
        // Something that is no log may lie there; it is not worth the host.
        let rotated = open()
            .or_else(|error| keep::set_aside(path).map_err(|_| error).and_then(|_| open()))
            .map_err(|source| LogError { path: path.to_owned(), source })?;
        let (queue, lines) = sync_channel(QUEUE_LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let counted = dropped.clone();
        std::thread::Builder::new()
            .name("logs".to_owned())
            .spawn(move || write_lines(rotated, &lines, &counted))
            .map_err(|source| LogError { path: path.to_owned(), source })?;
        Ok(Logs { queue, dropped })
    }

    /// Everything logged so far is in the file when this returns, or time is up.
    pub(crate) fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if self.queue.send(Line::Flush(done)).is_ok() {
            let _ = wait.recv_timeout(FLUSH_PATIENCE);
        }
    }
}

impl<'a> MakeWriter<'a> for Logs {
    type Writer = LineWriter;

    fn make_writer(&'a self) -> LineWriter {
        LineWriter { logs: self.clone(), line: Vec::new() }
    }
}

/// Gathers one event's line and queues it when dropped.
pub(crate) struct LineWriter {
    logs: Logs,
    line: Vec<u8>,
}

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LineWriter {
    fn drop(&mut self) {
        let line = std::mem::take(&mut self.line);
        if let Err(TrySendError::Full(_)) = self.logs.queue.try_send(Line::Text(line)) {
            self.logs.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn write_lines(mut file: Rotated, lines: &Receiver<Line>, dropped: &AtomicU64) {
    // Nobody may log a secret; should somebody do, it is not kept.
    let egress = Egress::built_in();
    while let Ok(line) = lines.recv() {
        match line {
            // A log that cannot be written has nobody to tell; the next line tries again.
            Line::Text(text) => {
                let text = egress.bytes(Raw::new(text)).into_inner();
                drop(file.write(&text));
            }
            Line::Flush(done) => drop(done.try_send(())),
        }
        let missing = dropped.swap(0, Ordering::Relaxed);
        if missing > 0 {
            let note =
                format!("{{\"level\":\"WARN\",\"message\":\"{missing} log lines dropped\"}}\n");
            drop(file.write(note.as_bytes()));
        }
    }
}

/// A file that is set aside when it has grown.
struct Rotated {
    path: PathBuf,
    file: File,
    written: u64,
    limit: u64,
    keep: usize,
}

impl Rotated {
    fn open(path: &Path, limit: u64, keep: usize) -> io::Result<Rotated> {
        let file = append_to(path)?;
        let written = file.metadata()?.len();
        Ok(Rotated { path: path.to_owned(), file, written, limit, keep })
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.written > 0 && self.written + line.len() as u64 > self.limit {
            self.rotate()?;
        }
        self.file.write_all(line)?;
        self.written += line.len() as u64;
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        for older in (1..self.keep).rev() {
            let from = if older == 1 { self.path.clone() } else { self.aside(older - 1) };
            match std::fs::rename(from, self.aside(older)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if self.keep == 1 {
            std::fs::remove_file(&self.path)?;
        }
        self.file = append_to(&self.path)?;
        self.written = 0;
        Ok(())
    }

    fn aside(&self, number: usize) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    let nofollow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(nofollow)
        .open(path)?;
    // One made by hand or by an older version may be open to others.
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(PermissionsExt::from_mode(0o600))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_set_aside_and_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("d.log");
        let mut log = Rotated::open(&path, 10, 3).unwrap();
        for line in ["one-one\n", "two-two\n", "three\n", "four-four\n", "five\n"] {
            log.write(line.as_bytes()).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert_eq!(read("d.log"), "five\n");
        assert_eq!(read("d.log.1"), "four-four\n");
        assert_eq!(read("d.log.2"), "three\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_single_kept_file_starts_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("d.log");
        let mut log = Rotated::open(&path, 4, 1).unwrap();
        log.write(b"one\n").unwrap();
        log.write(b"two\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_open_file_is_closed_to_others_and_a_link_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("d.log");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        append_to(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(append_to(&link).is_err());
    }

    #[test]
    fn lines_arrive_whole_and_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("d.log");
        let config = greenroom_config::Config::default().log;
        let logs = Logs::open(&path, &config).unwrap();
        for number in 0..100 {
            let mut writer = logs.make_writer();
            writer.write_all(b"line ").unwrap();
            writeln!(writer, "{number}").unwrap();
        }
        logs.flush();
        let text = std::fs::read_to_string(&path).unwrap();
        let expected: String = (0..100).map(|number| format!("line {number}\n")).collect();
        assert_eq!(text, expected);
    }
}

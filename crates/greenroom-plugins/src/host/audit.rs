//! The audit log: what plugins decided and how they failed, as JSON lines.
//!
//! In: records from anywhere, without waiting. Out: `audit.jsonl` (0600), renamed to
//! `audit.jsonl.1` and so on when it is full; the oldest goes. A record that finds the queue full
//! is counted and told with the next one. Deliberately absent: payloads, answers and stderr, which
//! may hold what nobody should keep.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::SystemTime;

use greenroom_protocol::Timestamp;
use serde_json::{Value, json};

/// Records that wait for the disk.
const QUEUE: usize = 1024;
/// A file is renamed beyond this.
const FILE_BYTES: u64 = 4 * 1024 * 1024;
/// Old files kept.
const FILES: usize = 4;

/// The handle. Cheap to clone.
#[derive(Clone)]
pub(super) struct Audit {
    queue: SyncSender<Order>,
    lost: Arc<AtomicU64>,
}

enum Order {
    Line(Value),
    Flush(SyncSender<()>),
}

impl Audit {
    /// Starts the thread that writes. Without one nothing is audited, and that is said.
    pub(super) fn start(path: PathBuf) -> Audit {
        let (queue, orders) = sync_channel(QUEUE);
        let lost = Arc::<AtomicU64>::default();
        let writer = Writer { path, out: None, bytes: 0, lost: lost.clone() };
        let thread = std::thread::Builder::new().name("audit".to_owned());
        if let Err(error) = thread.spawn(move || writer.run(&orders)) {
            tracing::error!(%error, "nothing is audited: no thread");
        }
        Audit { queue, lost }
    }

    /// Adds the time and writes it down, later.
    pub(super) fn note(&self, mut record: Value) {
        record["time_ms"] = Timestamp::from_system(SystemTime::now()).0.into();
        if self.queue.try_send(Order::Line(record)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Everything noted before is in the file when this returns. Blocks.
    pub(super) fn flush(&self) {
        let (tell, told) = sync_channel(1);
        if self.queue.send(Order::Flush(tell)).is_ok() {
            let _ = told.recv();
        }
    }
}

struct Writer {
    path: PathBuf,
    out: Option<File>,
    bytes: u64,
    lost: Arc<AtomicU64>,
}

impl Writer {
    fn run(mut self, orders: &Receiver<Order>) {
        while let Ok(order) = orders.recv() {
            match order {
                Order::Line(record) => {
                    let lost = self.lost.swap(0, Ordering::Relaxed);
                    if lost > 0 {
                        self.write(&json!({ "audit": "lost", "count": lost }));
                    }
                    self.write(&record);
                }
                Order::Flush(tell) => drop(tell.send(())),
            }
        }
    }

    fn write(&mut self, record: &Value) {
        let line = format!("{record}\n");
        if let Err(error) = self.append(line.as_bytes()) {
            tracing::warn!(path = %self.path.display(), %error, "writing the audit log");
            self.lost.fetch_add(1, Ordering::Relaxed);
            self.out = None;
        }
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.bytes + line.len() as u64 > FILE_BYTES && self.bytes > 0 {
            self.out = None;
            rotate(&self.path)?;
        }
        let out = match &mut self.out {
            Some(out) => out,
            None => {
                let out =
                    OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
                self.bytes = out.metadata()?.len();
                self.out.insert(out)
            }
        };
        out.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }
}

fn rotate(path: &Path) -> io::Result<()> {
    let name = |number: usize| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    for number in (1..FILES).rev() {
        match std::fs::rename(name(number), name(number + 1)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    std::fs::rename(path, name(1))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn lines_are_kept_and_files_rotated() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let audit = Audit::start(path.clone());
        let long = "x".repeat(100_000);
        for number in 0..200 {
            audit.note(json!({ "number": number, "long": long }));
            audit.flush();
        }
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut names: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let expected =
            ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3", "audit.jsonl.4"];
        assert_eq!(names, expected);
        let text = std::fs::read_to_string(&path).unwrap();
        let last: Value = serde_json::from_str(text.lines().next_back().unwrap()).unwrap();
        assert_eq!(last["number"], 199);
        assert!(last["time_ms"].as_u64().unwrap() > 1_600_000_000_000);
        assert!(text.len() as u64 <= FILE_BYTES);
    }

    #[test]
    fn what_was_lost_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::start(dir.path().join("audit.jsonl"));
        audit.lost.store(7, Ordering::Relaxed);
        audit.note(json!({ "plugin": "a" }));
        audit.flush();
        let text = std::fs::read_to_string(dir.path().join("audit.jsonl")).unwrap();
        assert!(text.starts_with(r#"{"audit":"lost","count":7}"#), "{text}");
    }
}

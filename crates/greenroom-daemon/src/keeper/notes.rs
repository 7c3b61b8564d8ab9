//! What is noted on disk of sessions' processes, for the case that keeper and wardens are killed
//! together.
//!
//! In: a session's warden and program, once they run; later, who else was seen. Out, to a later
//! host: those that still live. One small file per session, named like it, gone with the last of
//! its processes. The boot and the start times make a number mean what it meant. A file that is
//! damaged or gone tells nothing; the mark in the environment still finds most. Absent on purpose:
//! any power over processes.

use std::fmt::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;

use greenroom_engine::keep::{self, Lasting};
use greenroom_keeper::claim;
use greenroom_keeper::tree::Process;

/// Far above what is noted of one session.
const BYTES_MAX: usize = 256 * 1024;
/// The most processes in one note.
const PROCESSES_MAX: usize = 4096;

#[derive(Clone, Debug)]
pub struct Notes {
    dir: PathBuf,
    boot: String,
}

/// Whether sandboxes were ever used here: from then on callers are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confined {
    pub ever: bool,
    /// A keeper died with some session unended since: somebody of a sandbox may be left whom nobody
    /// holds.
    pub lost: bool,
}

/// What is noted of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    pub warden: Option<Process>,
    pub program: Option<Process>,
    pub others: Vec<Process>,
}

impl Notes {
    pub fn below(state: &std::path::Path) -> Notes {
        Notes { dir: state.join("processes"), boot: claim::boot().unwrap_or_default() }
    }

    pub fn confined(&self) -> Confined {
        // A mark that cannot be looked at counts as there.
        let there = |name: &str| self.dir.join(name).try_exists().unwrap_or(true);
        Confined { ever: there("confined"), lost: there("confined-lost") }
    }

    pub fn note_confined(&self, confined: Confined) {
        self.make();
        for (name, is) in [("confined", confined.ever), ("confined-lost", confined.lost)] {
            if is && let Err(error) = keep::write(&self.dir.join(name), b"", Lasting::Process) {
                tracing::warn!(name, %error, "noting that a sandbox was used");
            }
        }
    }

    /// A directory that cannot be made is reported when a note is written to it.
    fn make(&self) {
        let _ = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
    }

    fn file(&self, id: u64) -> PathBuf {
        self.dir.join(format!("s{id}"))
    }

    /// The session runs even if the note fails; only a later host knows less of it.
    pub fn write(&self, id: u64, note: &Note) {
        let mut text = format!("boot {}\n", self.boot);
        let mut line = |word: &str, process: &Process| {
            let _ = writeln!(text, "{word} {} {}", process.pid, process.start_time);
        };
        note.warden.iter().for_each(|it| line("warden", it));
        note.program.iter().for_each(|it| line("program", it));
        note.others.iter().take(PROCESSES_MAX).for_each(|it| line("other", it));
        self.make();
        if let Err(error) = keep::write(&self.file(id), text.as_bytes(), Lasting::Process) {
            tracing::warn!(session = id, %error, "noting a session's processes");
        }
    }

    pub fn read(&self, id: u64) -> Option<Note> {
        let bytes = std::fs::read(self.file(id)).ok().filter(|bytes| bytes.len() <= BYTES_MAX)?;
        self.parse(&String::from_utf8(bytes).ok()?)
    }

    fn parse(&self, text: &str) -> Option<Note> {
        let mut lines = text.lines();
        if lines.next()?.strip_prefix("boot ")? != self.boot || self.boot.is_empty() {
            return None;
        }
        let mut note = Note::default();
        for line in lines {
            let mut words = line.split(' ');
            let (word, pid, start) = (words.next()?, words.next()?, words.next()?);
            let process = Process { pid: pid.parse().ok()?, start_time: start.parse().ok()? };
            match word {
                "warden" => note.warden = Some(process),
                "program" => note.program = Some(process),
                "other" => note.others.push(process),
                _ => return None,
            }
        }
        Some(note)
    }

    pub fn remove(&self, id: u64) {
        let _ = std::fs::remove_file(self.file(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_and_a_damaged_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let notes = Notes::below(dir.path());
        let process = |pid| Process { pid, start_time: 100 + pid as u64 };
        let note = Note {
            warden: Some(process(3)),
            program: Some(process(4)),
            others: vec![process(5), process(6)],
        };
        notes.write(7, &note);
        assert_eq!(notes.read(7), Some(note));
        assert_eq!(notes.read(8), None);
        let file = dir.path().join("processes/s7");
        let text = std::fs::read_to_string(&file).unwrap();
        for damaged in ["", "boot other\nprogram 1 1\n", "boot", "\0\u{1}", &text[..text.len() - 5]]
        {
            std::fs::write(&file, damaged).unwrap();
            let read = notes.read(7);
            assert!(
                read.as_ref().is_none_or(|read| read.others.len() < 2),
                "{damaged:?}: {read:?}"
            );
        }
        let later = Notes { boot: "another".to_owned(), ..notes.clone() };
        std::fs::write(&file, &text).unwrap();
        assert_eq!(later.read(7), None, "numbers mean nothing after a boot");
        notes.remove(7);
        assert!(!file.exists());
    }
}

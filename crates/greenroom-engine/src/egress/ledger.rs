//! What filters from outside answered (L3), by place in the output, and how far they have answered.
//!
//! In: verdicts in the order of the lines. Out: edits for whoever reads, and the point beyond which nothing may be
//! shown yet. Kept beside the journal, so that a restart neither forgets an answer nor asks twice. Bounded: where too
//! many edits would have to be remembered, everything before them is masked.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::id::Seq;

/// Edits remembered per session.
const EDITS_MAX: usize = 32 * 1024;

/// Text of replacements remembered per session.
const TEXT_MAX: usize = 8 * 1024 * 1024;

/// A replacement is no longer than this: a filter that answers with a book gets a mask.
pub(crate) const REPLACE_MAX: usize = 64 * 1024;

/// A file longer than this is begun anew.
const FILE_MAX: u64 = 32 * 1024 * 1024;

const FILE: &str = "answers";
const MAGIC: &[u8; 8] = b"grled\0\0\x01";

/// What is shown of a range of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// Masks of the same width.
    Mask,
    /// Nothing but its escape sequences.
    Drop,
    /// This, then its escape sequences.
    Replace(String),
}

pub(crate) struct Ledger {
    book: Mutex<Book>,
    answered: watch::Sender<Seq>,
}

#[derive(Default)]
struct Book {
    /// By where they begin; they do not overlap.
    edits: BTreeMap<u64, (u64, Edit)>,
    text: usize,
    /// Everything before this is masked: its edits were forgotten.
    floor: u64,
    file: Option<File>,
    written: u64,
}

/// Edits for one reader.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edits {
    pub floor: u64,
    pub list: Vec<(u64, u64, Edit)>,
}

impl Ledger {
    pub fn exists(dir: &Path) -> bool {
        dir.join(FILE).exists()
    }

    /// As an earlier daemon left it in `dir`; without a file of its own from nothing on.
    pub fn open(dir: &Path) -> io::Result<Ledger> {
        let mut book = Book::default();
        let path = dir.join(FILE);
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(file) => {
                file.take(2 * FILE_MAX).read_to_end(&mut bytes)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let (answered, good) = book.read(&bytes);
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
        if good == 0 {
            file.set_len(0)?;
            (&file).write_all(MAGIC)?;
        } else {
            // What a crash left of a last record must not be read as part of the next.
            file.set_len(good as u64)?;
        }
        book.written = good.max(MAGIC.len()) as u64;
        book.file = Some(file);
        Ok(Ledger { book: Mutex::new(book), answered: watch::Sender::new(answered) })
    }

    /// One that ends with this daemon.
    pub fn in_memory() -> Ledger {
        Ledger { book: Mutex::default(), answered: watch::Sender::new(Seq(0)) }
    }

    /// Nothing beyond this may be shown.
    pub fn answered(&self) -> Seq {
        *self.answered.borrow()
    }

    pub fn changes(&self) -> watch::Receiver<Seq> {
        self.answered.subscribe()
    }

    /// Whoever waits for answers looks again: somebody else gives them now, or nobody.
    pub fn wake(&self) {
        self.answered.send_modify(|_| {});
    }

    /// Enters what was answered about the output up to `to`. On disk before anybody sees it.
    pub fn enter(&self, edits: Vec<(Seq, Seq, Edit)>, to: Seq) -> io::Result<()> {
        let mut book = self.book();
        let mut bytes = Vec::new();
        for (from, to, edit) in &edits {
            record(&mut bytes, from.0, to.0, Some(edit));
        }
        record(&mut bytes, to.0, to.0, None);
        let kept = book.append(&bytes);
        for (from, to, edit) in edits {
            book.insert(from.0, to.0, edit);
        }
        book.bound();
        drop(book);
        self.answered.send_modify(|answered| *answered = (*answered).max(to));
        kept
    }

    /// The edits of `from..to`.
    pub fn edits(&self, from: Seq, to: Seq) -> Edits {
        let book = self.book();
        let before = book.edits.range(..from.0).next_back().filter(|(_, (end, _))| *end > from.0);
        let within = book.edits.range(from.0..to.0.max(from.0));
        let list =
            before.into_iter().chain(within).map(|(from, (to, edit))| (*from, *to, edit.clone()));
        Edits { floor: book.floor, list: list.collect() }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// Takes what can be read; says up to where the filters had answered, and how much was good.
    fn read(&mut self, bytes: &[u8]) -> (Seq, usize) {
        let Some(mut rest) = bytes.strip_prefix(MAGIC) else { return (Seq(0), 0) };
        let mut answered = 0;
        let mut waiting = Vec::new();
        let mut good = MAGIC.len();
        while let Some((from, to, edit, after)) = unrecord(rest) {
            rest = after;
            match edit {
                Some(edit) => waiting.push((from, to, edit)),
                None => {
                    answered = answered.max(to);
                    waiting.drain(..).for_each(|(from, to, edit)| self.insert(from, to, edit));
                    good = bytes.len() - rest.len();
                }
            }
        }
        self.bound();
        (Seq(answered), good)
    }

    fn insert(&mut self, from: u64, to: u64, edit: Edit) {
        if from < to {
            self.text += weight(&edit);
            if let Some((_, old)) = self.edits.insert(from, (to, edit)) {
                self.text -= weight(&old);
            }
        }
    }

    fn bound(&mut self) {
        while self.edits.len() > EDITS_MAX || self.text > TEXT_MAX {
            let Some((_, (to, edit))) = self.edits.pop_first() else { return };
            self.text -= weight(&edit);
            self.floor = self.floor.max(to);
        }
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.written > FILE_MAX {
            self.rewrite()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Leaves out what is forgotten.
    fn rewrite(&mut self) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        if self.floor > 0 {
            record(&mut bytes, 0, self.floor, Some(&Edit::Mask));
        }
        for (from, (to, edit)) in &self.edits {
            record(&mut bytes, *from, *to, Some(edit));
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.set_len(0)?;
        file.write_all(&bytes)?;
        self.written = bytes.len() as u64;
        Ok(())
    }
}

fn weight(edit: &Edit) -> usize {
    match edit {
        Edit::Replace(text) => text.len(),
        _ => 0,
    }
}

fn record(out: &mut Vec<u8>, from: u64, to: u64, edit: Option<&Edit>) {
    let (kind, text) = match edit {
        None => (0u8, ""),
        Some(Edit::Mask) => (1, ""),
        Some(Edit::Drop) => (2, ""),
        Some(Edit::Replace(text)) => (3, text.as_str()),
    };
    out.push(kind);
    out.extend(from.to_le_bytes());
    out.extend(to.to_le_bytes());
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

fn unrecord(bytes: &[u8]) -> Option<(u64, u64, Option<Edit>, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let (from, rest) = rest.split_first_chunk::<8>()?;
    let (to, rest) = rest.split_first_chunk::<8>()?;
    let (len, rest) = rest.split_first_chunk::<4>()?;
    let text = rest.get(..u32::from_le_bytes(*len) as usize)?;
    let after = &rest[text.len()..];
    let edit = match kind {
        0 => None,
        1 => Some(Edit::Mask),
        2 => Some(Edit::Drop),
        3 => Some(Edit::Replace(String::from_utf8(text.to_vec()).ok()?)),
        _ => return None,
    };
    Some((u64::from_le_bytes(*from), u64::from_le_bytes(*to), edit, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_survive_and_a_torn_end_does_not_matter() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        let replaced = Edit::Replace("x".to_owned());
        ledger.enter(vec![(Seq(3), Seq(5), replaced.clone())], Seq(10)).unwrap();
        ledger.enter(vec![(Seq(12), Seq(14), Edit::Drop)], Seq(20)).unwrap();
        drop(ledger);
        let path = dir.path().join(FILE);
        let whole = std::fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let ledger = Ledger::open(dir.path()).unwrap();
            let edits = ledger.edits(Seq(0), Seq(100)).list;
            match ledger.answered() {
                Seq(0) => assert!(edits.is_empty()),
                Seq(10) => assert_eq!(edits, [(3, 5, replaced.clone())]),
                Seq(20) => assert_eq!(edits.len(), 2),
                other => panic!("{other}"),
            }
            // And goes on from there.
            ledger.enter(vec![(Seq(30), Seq(31), Edit::Mask)], Seq(40)).unwrap();
            drop(ledger);
            assert_eq!(Ledger::open(dir.path()).unwrap().answered(), Seq(40));
        }
    }

    #[test]
    fn what_is_forgotten_is_masked() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        let many = EDITS_MAX as u64 + 10;
        let edits = (0..many).map(|n| (Seq(n * 2), Seq(n * 2 + 1), Edit::Drop)).collect();
        ledger.enter(edits, Seq(many * 2)).unwrap();
        let edits = ledger.edits(Seq(0), Seq(many * 2));
        assert_eq!((edits.floor, edits.list.len()), (19, EDITS_MAX));
    }
}

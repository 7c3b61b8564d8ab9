//! What filters from outside answered (L3), by place in the output, and how far they have answered.
//!
//! In: edits in the order of the lines. Out: edits for whoever reads, and the point beyond which
//! nothing may be shown yet. Kept beside the journal, so that a restart neither forgets an answer
//! nor asks twice. Each entry ends with a checksum: what comes after a damaged one is asked about
//! again. Bounded: where too many edits would have to be remembered, everything before them is
//! masked.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::egress::Edit;
use crate::id::Seq;
use crate::keep;
use crate::lock::lock;

/// Edits remembered per session.
const EDITS_MAX: usize = 32 * 1024;

/// Text of replacements remembered per session.
const TEXT_MAX: usize = 8 * 1024 * 1024;

/// A file longer than this is begun anew.
const FILE_MAX: u64 = 32 * 1024 * 1024;

const FILE: &str = "answers";
/// As an older version wrote it: without checksums.
const MAGIC_OLD: &[u8; 8] = b"grled\0\0\x01";
const MAGIC: &[u8; 8] = b"granswr2";

pub(crate) struct Ledger {
    entries: Mutex<Entries>,
    answered: watch::Sender<Seq>,
    lost: AtomicBool,
}

#[derive(Default)]
struct Entries {
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
    pub(crate) fn exists(dir: &Path) -> bool {
        dir.join(FILE).exists()
    }

    /// As an earlier daemon left it in `dir`; without a file of its own from nothing on. A file
    /// that cannot be used is set aside.
    pub(crate) fn open(dir: &Path) -> io::Result<Ledger> {
        let path = dir.join(FILE);
        let (bytes, mut lost) = match keep::read(&path, 2 * FILE_MAX) {
            Ok(bytes) => (bytes.unwrap_or_default(), false),
            Err(error) => {
                tracing::error!(path = %path.display(), %error, "what filters answered is lost");
                keep::set_aside(&path)?;
                (Vec::new(), true)
            }
        };
        let mut entries = Entries::default();
        let (answered, good) = entries.read(&bytes);
        lost |= good < bytes.len();
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path)?;
        if good == 0 || bytes.starts_with(MAGIC_OLD) {
            entries.file = Some(file);
            entries.rewrite(answered)?;
        } else {
            // What a crash left of a last record must not be read as part of the next.
            file.set_len(good as u64)?;
            entries.written = good as u64;
            entries.file = Some(file);
        }
        let lost = AtomicBool::new(lost);
        Ok(Ledger { entries: Mutex::new(entries), answered: watch::Sender::new(answered), lost })
    }

    /// Answers of an earlier daemon are gone: only who filters can say what may be shown.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// The same, found out by somebody else: there was a file and now there is none.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// A ledger without a file, which ends with this daemon.
    pub(crate) fn in_memory() -> Ledger {
        Ledger {
            entries: Mutex::default(),
            answered: watch::Sender::new(Seq(0)),
            lost: true.into(),
        }
    }

    /// Nothing beyond this may be shown.
    pub(crate) fn answered(&self) -> Seq {
        *self.answered.borrow()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<Seq> {
        self.answered.subscribe()
    }

    /// Lets every waiting reader look again: somebody else answers now, or nobody.
    pub(crate) fn wake(&self) {
        self.answered.send_modify(|_| {});
    }

    /// Enters what was answered about the output up to `to`. On disk before anybody sees it.
    pub(crate) fn enter(&self, mut edits: Vec<(Seq, Seq, Edit)>, to: Seq) -> io::Result<()> {
        // Most lines pass; only what changes has to be remembered.
        edits.retain(|(_, _, edit)| *edit != Edit::Pass);
        let mut entries = lock(&self.entries);
        let mut bytes = Vec::new();
        for (from, to, edit) in &edits {
            record(&mut bytes, from.0, to.0, edit);
        }
        end(&mut bytes, 0, to.0);
        let kept = entries.append(&bytes, self.answered());
        for (from, to, edit) in edits {
            entries.insert(from.0, to.0, edit);
        }
        entries.bound();
        drop(entries);
        self.answered.send_modify(|answered| *answered = (*answered).max(to));
        kept
    }

    /// The edits of `from..to`.
    pub(crate) fn edits(&self, from: Seq, to: Seq) -> Edits {
        let entries = lock(&self.entries);
        let before =
            entries.edits.range(..from.0).next_back().filter(|(_, (end, _))| *end > from.0);
        let within = entries.edits.range(from.0..to.0.max(from.0));
        let list =
            before.into_iter().chain(within).map(|(from, (to, edit))| (*from, *to, edit.clone()));
        Edits { floor: entries.floor, list: list.collect() }
    }
}

impl Entries {
    /// Takes what can be read; says up to where the filters had answered, and how much was good.
    fn read(&mut self, bytes: &[u8]) -> (Seq, usize) {
        let checked = bytes.starts_with(MAGIC);
        if !checked && !bytes.starts_with(MAGIC_OLD) {
            return (Seq(0), 0);
        }
        let mut good = MAGIC.len();
        let mut rest = &bytes[good..];
        let mut answered = 0;
        let mut waiting = Vec::new();
        while let Some((from, to, edit, after)) = unrecord(rest) {
            let at = bytes.len() - after.len();
            rest = after;
            match edit {
                Some(edit) => waiting.push((from, to, edit)),
                None if checked && keep::unchecked(&bytes[good..at]).is_none() => break,
                None => {
                    answered = answered.max(to);
                    waiting.drain(..).for_each(|(from, to, edit)| self.insert(from, to, edit));
                    good = at;
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

    fn append(&mut self, bytes: &[u8], answered: Seq) -> io::Result<()> {
        if self.written > FILE_MAX {
            self.rewrite(answered)?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(bytes)?;
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Leaves out what is forgotten.
    fn rewrite(&mut self, answered: Seq) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        if self.floor > 0 {
            record(&mut bytes, 0, self.floor, &Edit::Mask);
        }
        for (from, (to, edit)) in &self.edits {
            record(&mut bytes, *from, *to, edit);
        }
        if answered > Seq(0) {
            end(&mut bytes, MAGIC.len(), answered.0);
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
        Edit::Pass | Edit::Drop | Edit::Mask => 0,
    }
}

fn record(out: &mut Vec<u8>, from: u64, to: u64, edit: &Edit) {
    let (kind, text) = match edit {
        Edit::Pass => return,
        Edit::Mask => (1u8, ""),
        Edit::Drop => (2, ""),
        Edit::Replace(text) => (3, text.as_str()),
    };
    out.push(kind);
    out.extend(from.to_le_bytes());
    out.extend(to.to_le_bytes());
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Ends an entry: up to where was answered, and a checksum of everything in it from `begin` on.
fn end(out: &mut Vec<u8>, begin: usize, answered: u64) {
    out.push(0);
    out.extend(answered.to_le_bytes());
    out.extend(answered.to_le_bytes());
    out.extend(4u32.to_le_bytes());
    let sum = crc32fast::hash(&out[begin..]);
    out.extend(sum.to_le_bytes());
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
    fn a_damaged_answer_and_all_after_it_are_asked_about_again() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        ledger.enter(vec![(Seq(3), Seq(5), Edit::Mask)], Seq(10)).unwrap();
        ledger.enter(vec![(Seq(12), Seq(14), Edit::Mask)], Seq(20)).unwrap();
        drop(ledger);
        let path = dir.path().join(FILE);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 2;
            std::fs::write(&path, flipped).unwrap();
            let ledger = Ledger::open(dir.path()).unwrap();
            let edits = ledger.edits(Seq(0), Seq(100)).list;
            let expected: &[(u64, u64, Edit)] = match ledger.answered() {
                Seq(0) => &[],
                Seq(10) => &[(3, 5, Edit::Mask)],
                other => panic!("byte {at}: answered up to {other}"),
            };
            assert_eq!(edits, expected, "byte {at}");
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        let ledger = Ledger::open(dir.path()).unwrap();
        assert!(ledger.has_lost() && ledger.answered() == Seq(0));
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

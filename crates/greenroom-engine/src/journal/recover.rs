//! After a kill: from the ring's words, the pipe's fill and the files to a
//! journal that goes on where the old daemon stopped.
//!
//! In comes whatever is there, sound or not; out go a [`Journal`] and a [`Recovered`] that names
//! everything that was lost. Only after the old daemon was reaped: until then one of its threads
//! may still move bytes. Deliberately absent: guessing. What does not fit together is reported as a
//! loss and left out.
#![allow(unsafe_code, reason = "reads the fallback's zeroed room, see `ring`")]

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::Ordering;

use greenroom_term::Size;

use super::error::JournalError;
use super::files::{Files, Open, gap_record};
use super::intake::{self, Intake, Mode};
use super::limits::{Limits, NOTE_BYTES};
use super::note::{kind, start_payload};
use super::notepad::Notepad;
use super::read::gaps_of;
use super::record::{Record, Records};
use super::ring::{MAGIC, Ring, VERSION, Word};
use super::segment::{self, IDX, Listing, SEG, SEQ_MAX, Segment};
use super::shared::{Roll, Shared};
use super::spill::Spiller;
use super::{Journal, RingFds, format_ring, map_ring};
use crate::id::Seq;

/// What a recovery found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Where the output goes on.
    pub tail: Seq,
    /// Bytes that were on their way when the old daemon died.
    pub in_flight: u64,
    /// Bytes that were in memory and are being written to files now.
    pub unspilled: u64,
    /// Everything that could not be kept. Empty after any kill.
    pub lost: Vec<Lost>,
}

/// A loss, in the order found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The ring's words contradict each other or the files; how many bytes it held is not known.
    Ring,
    /// Bytes missing from the files.
    Bytes { from: Seq, to: Seq },
    /// Damaged bytes of an index (notes and times of that segment).
    Index { start: Seq, bytes: u64 },
    /// No sound key file: a replay cannot start at this segment.
    Keyframe { start: Seq },
    /// Damaged bytes among the notes in the ring.
    Notes { bytes: u64 },
    /// A segment numbered beyond the end of the output, renamed.
    SetAside { start: Seq },
    /// Files that are not of a journal, left alone.
    Foreign { files: u64 },
}

impl Journal {
    /// Takes over the journal of a running session. Only after the old daemon
    /// was reaped. `size` is the terminal's size now (TIOCGWINSZ), used where
    /// nothing better is known; append a `Resize` note with it as well.
    pub fn recover(
        dir: &Path,
        fds: RingFds,
        limits: Limits,
        spiller: &Spiller,
        size: Size,
    ) -> Result<(Journal, Recovered), JournalError> {
        segment::make_dir(dir)
            .map_err(|source| JournalError::MakeDir { dir: dir.into(), source })?;
        let listing = segment::list(dir)
            .map_err(|source| JournalError::ReadDir { dir: dir.into(), source })?;
        let mut found = Recovered::default();
        let intake = recover_ring(dir, fds, size, &listing, &mut found)?;
        let ring = intake.ring();
        let tail = intake.tail();
        finish_orphaned_roll(dir, &ring, tail, &listing, &mut found);
        let spilled = ring.load(Word::Spilled);
        found.tail = Seq(tail);
        found.unspilled = tail - spilled;

        let mut files = Files::default();
        let keyed = recover_files(dir, listing, spilled, &mut files, &mut found);
        let oldest = files.segments.front().map_or(spilled, |segment| segment.start);
        let newest = files.segments.back().map_or(spilled, |segment| segment.start);
        let next_ord = recover_notes(&ring, files.next_ord, &mut found);
        let blank = files.open.is_none();

        let shared = Shared::new(dir.into(), oldest, tail, spilled);
        shared.needs_keyframe.store(!keyed, Ordering::Release);
        let mut journal = Journal::assemble(intake, shared, limits, spiller, files);
        journal.intake.set_mode(spiller.mode());
        journal.ring_from = spilled;
        journal.notepad = Notepad::new(ring.clone(), next_ord);
        journal.segment_start = newest;
        if blank {
            // Nothing to go on with: a segment that keeps what the ring has.
            let size = ring_size(&ring).unwrap_or(size);
            let time_ns = super::unix_ns();
            journal.request_roll(Roll { at: spilled, ord: 0, time_ns, keyframe: Vec::new(), size });
        }
        journal.ask_for_spill();
        Ok((journal, found))
    }
}

fn ring_size(ring: &Ring) -> Option<Size> {
    let word = ring.load(Word::Size);
    Size::new(u16::try_from(word >> 16).ok()?, word as u16)
}

/// Makes the ring whole: its words agree, the pipe is empty.
fn recover_ring(
    dir: &Path,
    fds: RingFds,
    size: Size,
    listing: &Listing,
    found: &mut Recovered,
) -> Result<Intake, JournalError> {
    let pipe_error = |source| JournalError::Pipe { dir: dir.into(), source };
    let ring = map_ring(dir, fds.ring)?;
    let in_pipe = rustix::io::ioctl_fionread(&fds.pipe_read).map_err(|e| pipe_error(e.into()))?;
    let tail = match true_tail(&ring, in_pipe) {
        Some(tail) => tail,
        None => {
            let untouched = ring.load(Word::Magic) == 0 && ring.load(Word::Tail) == 0;
            if !(untouched && listing.segments.is_empty()) {
                found.lost.push(Lost::Ring);
            }
            let end = listing.segments.last().map_or(0, |last| last.start + last.len);
            format_ring(&ring, size, end);
            end
        }
    };
    if in_pipe > ring.data_bytes() {
        // No pipe of ours holds that much. What is in there is nobody's.
        found.lost.push(Lost::Bytes { from: Seq(tail), to: Seq(tail) });
        empty_pipe(fds.pipe_read.as_fd()).map_err(pipe_error)?;
        return Ok(Intake::new(ring, fds.pipe_read, fds.pipe_write, tail));
    }
    let mut intake = Intake::new(ring, fds.pipe_read, fds.pipe_write, tail);
    // Whether they were announced or not, these are the next bytes.
    intake.announce(in_pipe);
    intake.finish().map_err(pipe_error)?;
    found.in_flight = in_pipe;
    Ok(intake)
}

fn empty_pipe(pipe: std::os::fd::BorrowedFd<'_>) -> std::io::Result<()> {
    let mut sink = vec![0; 64 * 1024];
    while rustix::io::ioctl_fionread(pipe)? > 0 {
        rustix::io::read(pipe, &mut sink)?;
    }
    Ok(())
}

/// The end of what the ring holds, or `None` if its words cannot be right.
fn true_tail(ring: &Ring, in_pipe: u64) -> Option<u64> {
    let sound = ring.load(Word::Magic) == MAGIC
        && ring.load(Word::Version) == VERSION
        && ring.load(Word::DataBytes) == ring.data_bytes();
    if !sound {
        return None;
    }
    let (word_tail, draining) = intake::unpack(ring.load(Word::Tail));
    if word_tail > SEQ_MAX {
        return None;
    }
    let tail = if !draining {
        word_tail
    } else if ring.load(Word::Mode) == Mode::Pipe as u64 {
        word_tail.checked_sub(in_pipe)?
    } else {
        scan(ring, word_tail)?
    };
    // A gap that was opened just before the kill counts.
    let (gap_from, gap_to) = (ring.load(Word::GapFrom), ring.load(Word::GapTo));
    if gap_from < gap_to {
        if gap_to > tail {
            return None;
        }
        ring.word(Word::Spilled).fetch_max(gap_to, Ordering::AcqRel);
    }
    let spilled = ring.load(Word::Spilled);
    let fits = spilled <= tail && tail + in_pipe <= spilled.checked_add(ring.data_bytes())?;
    fits.then_some(tail)
}

/// Fallback: a read into the zeroed room was under way; the last byte that is
/// not zero is the last one that came.
fn scan(ring: &Ring, tail: u64) -> Option<u64> {
    let end = ring.load(Word::ScanEnd);
    let spilled = ring.load(Word::Spilled);
    if end < tail || spilled > tail || end > spilled.checked_add(ring.data_bytes())? {
        return None;
    }
    // SAFETY: the old daemon is gone and nobody else has begun.
    let (a, b) = unsafe { ring.data(tail, end) };
    let last = |part: &[u8]| part.iter().rposition(|byte| *byte != 0).map(|at| at + 1);
    let len = last(b).map(|at| a.len() + at).or_else(|| last(a)).unwrap_or(0);
    Some(tail + len as u64)
}

/// A roll after the files were removed begins a segment first and moves
/// `Spilled` to it then, since there was no file for the bytes before it.
fn finish_orphaned_roll(
    dir: &Path,
    ring: &Ring,
    tail: u64,
    listing: &Listing,
    found: &mut Recovered,
) {
    let Some(newest) = listing.segments.last() else { return };
    let spilled = ring.load(Word::Spilled);
    let key = segment::read_key(dir, newest.start).unwrap_or_default();
    let begun = listing.segments.len() == 1 && newest.len == 0;
    if begun
        && (spilled + 1..=tail).contains(&newest.start)
        && segment::decode_key(&key, newest.start).is_some()
    {
        found.lost.push(Lost::Bytes { from: Seq(spilled), to: Seq(newest.start) });
        ring.store(Word::Spilled, newest.start);
    }
}

/// Opens the newest segment for writing; says whether its key is sound.
fn recover_files(
    dir: &Path,
    mut listing: Listing,
    spilled: u64,
    files: &mut Files,
    found: &mut Recovered,
) -> bool {
    if listing.foreign > 0 {
        found.lost.push(Lost::Foreign { files: listing.foreign });
    }
    // An unfinished roll is numbered up to the tail, an unfinished drop below
    // the oldest; either way no bytes belong to it.
    for start in listing.debris.drain(..) {
        segment::remove(dir, start);
    }
    // A segment begins only where everything before it is spilled.
    listing.segments.retain(|segment| {
        let ours = segment.start <= spilled;
        if !ours {
            segment::set_aside(dir, segment.start);
            found.lost.push(Lost::SetAside { start: Seq(segment.start) });
        }
        ours
    });
    report_short(dir, &listing.segments, found);
    let Some(newest) = listing.segments.last().copied() else {
        if spilled > 0 {
            found.lost.push(Lost::Bytes { from: Seq(0), to: Seq(spilled) });
        }
        return true;
    };
    files.segments = listing.segments.into();
    match reopen(dir, &newest, spilled, files, found) {
        Ok(open) => files.open = Some(open),
        Err(error) => {
            tracing::warn!(%error, dir = %dir.display(), "cannot go on with the newest segment");
            files.segments.pop_back();
            segment::set_aside(dir, newest.start);
            found.lost.push(Lost::Bytes { from: Seq(newest.start), to: Seq(spilled) });
        }
    }
    let key = segment::read_key(dir, newest.start).unwrap_or_default();
    let sound = segment::decode_key(&key, newest.start).is_some();
    if !sound {
        found.lost.push(Lost::Keyframe { start: Seq(newest.start) });
    }
    sound
}

/// Older segments whose file ends before the next one starts.
fn report_short(dir: &Path, segments: &[Segment], found: &mut Recovered) {
    for pair in segments.windows(2) {
        let (segment, next) = (&pair[0], &pair[1]);
        if !segment.has_key {
            found.lost.push(Lost::Keyframe { start: Seq(segment.start) });
        }
        if segment.start + segment.len < next.start {
            let index = segment::read_index(dir, segment.start).unwrap_or_default();
            let end = covered(segment, &index);
            if end < next.start {
                found.lost.push(Lost::Bytes { from: Seq(end), to: Seq(next.start) });
            }
        }
    }
}

/// Where the segment's bytes end, recorded gaps at its end included.
fn covered(segment: &Segment, index: &[u8]) -> u64 {
    let mut end = segment.start + segment.len;
    for (from, to) in gaps_of(index) {
        if from <= end {
            end = end.max(to);
        }
    }
    end
}

fn reopen(
    dir: &Path,
    newest: &Segment,
    spilled: u64,
    files: &mut Files,
    found: &mut Recovered,
) -> std::io::Result<Open> {
    let start = newest.start;
    let seg = segment::open_write(&segment::path(dir, start, SEG))?;
    let idx = segment::open_write(&segment::path(dir, start, IDX))?;
    let index = segment::read_index(dir, start)?;
    let mut records = Records::new(&index);
    let mut begun = false;
    for record in records.by_ref() {
        begun |= record.kind == kind::START && record.seq == start;
        if record.kind != kind::GAP && record.kind != kind::START {
            files.next_ord = files.next_ord.max(record.ord.saturating_add(1));
        } else if record.kind == kind::START {
            files.next_ord = files.next_ord.max(record.ord);
        }
    }
    let idx_len = records.sound_end as u64;
    // A torn last record is what a kill leaves; it is written again from the
    // ring. Anything else is damage.
    let torn = (index.len() as u64).saturating_sub(idx_len);
    if records.damaged > torn || (!begun && !index.is_empty()) || index.is_empty() {
        found.lost.push(Lost::Index { start: Seq(start), bytes: records.damaged });
    }
    idx.set_len(idx_len)?;
    if !begun {
        let payload = start_payload(Size::new(80, 24).expect("80x24 is a size"));
        let time_ns = super::unix_ns();
        Record { kind: kind::START, seq: start, time_ns, ord: 0, payload: &payload }
            .encode(&mut files.held);
    }
    let end = covered(newest, &index);
    if end < spilled {
        gap_record(end, spilled, &mut files.held);
        found.lost.push(Lost::Bytes { from: Seq(end), to: Seq(spilled) });
    }
    Ok(Open { start, seg, idx, idx_len })
}

/// Looks through the notes that are still in the ring; the next ordinal.
fn recover_notes(ring: &Ring, written: u64, found: &mut Recovered) -> u64 {
    let (tail, head) = (ring.load(Word::NoteTail), ring.load(Word::NoteHead));
    if head < tail || head - tail > NOTE_BYTES as u64 || head > SEQ_MAX {
        found.lost.push(Lost::Notes { bytes: NOTE_BYTES as u64 });
        ring.store(Word::NoteTail, 0);
        ring.store(Word::NoteHead, 0);
        return written;
    }
    let mut notes = Vec::new();
    ring.notes(tail, head, &mut notes);
    let mut records = Records::new(&notes);
    let last = records.by_ref().map(|record| record.ord).max();
    if records.damaged > 0 {
        found.lost.push(Lost::Notes { bytes: records.damaged });
    }
    last.map_or(written, |last| written.max(last.saturating_add(1)))
}

//! One session's files, as the helper thread sees them: a turn writes what the
//! ring holds, rolls, and drops old segments.
//!
//! In: the ring's words, a pending roll. Out: files, then words that say so.
//! Each step may be the last one before a kill, so the order is: index (notes,
//! gaps), bytes at an offset computed from their number, `Spilled`. Repeating
//! any of them changes nothing: notes are recognised by ordinal, bytes land
//! where they already are, gaps are merged by readers.
//! Deliberately absent: threads and queues (`spill`), fallocate.
#![allow(unsafe_code, reason = "reads the ring's window of unspilled bytes, see `ring`")]

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::limits::{NOTE_BYTES, REMOVED_CHECK, WAKE_BYTES};
use super::note::{kind, start_payload};
use super::record::{Record, Records};
use super::ring::Word;
use super::segment::{self, IDX, KEY, Key, NEW_KEY, SEG, Segment};
use super::shared::{PauseReason, Roll, Session};
use super::spill::{Disk, DiskOp};
use crate::lock::lock;

/// Notes of a paused recording that left the ring to make room.
const HELD_BYTES: usize = 64 * 1024;

/// Endless input without any output cannot roll: from here on an index takes the rare notes only.
const INDEX_FULL: u64 = 16 * 1024 * 1024;

pub(super) struct Open {
    pub start: u64,
    pub seg: File,
    pub idx: File,
    pub idx_len: u64,
}

#[derive(Default)]
pub(super) struct Files {
    /// Oldest first; the last one is `open`, if anything is.
    pub segments: VecDeque<Segment>,
    pub open: Option<Open>,
    /// Ordinals below are in an index.
    pub next_ord: u64,
    /// Encoded records to write before the next notes.
    pub held: Vec<u8>,
    looked: Option<Instant>,
    notes: Vec<u8>,
    out: Vec<u8>,
}

/// What a turn leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpillEnd {
    Done,
    More,
    /// A segment began: the total budget may be exceeded.
    Rolled,
}

impl Files {
    /// Makes the next turn look whether the files are still there.
    #[cfg(test)]
    pub fn look_again(&mut self) {
        self.looked = None;
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Writes what is there. An error leaves everything as it was, or further.
    pub(super) fn turn(&mut self, session: &Session, disk: &Disk) -> Result<SpillEnd, PauseReason> {
        let turn = self.try_turn(session, disk);
        if turn.is_err() {
            self.hold_notes(session);
        }
        turn
    }

    fn try_turn(&mut self, session: &Session, disk: &Disk) -> Result<SpillEnd, PauseReason> {
        let shared = &session.shared;
        // Before the gap words: the actor stores them first, so bytes that
        // `Spilled` says are given up are in the gap we then see.
        let spilled = session.ring.load(Word::Spilled);
        self.discard_stale_roll(session, spilled);
        self.check_removed(session)?;
        let Some(open) = &self.open else {
            return self.roll_if_reached(session, disk, true);
        };
        let start = open.start;
        let roll = lock(&session.roll).as_ref().map(|roll| (roll.at, roll.ord));
        self.write_index(session, disk, roll.map(|(_, ord)| ord))?;
        let tail = shared.tail.load(Ordering::Acquire);
        let to = roll.map_or(tail, |(at, _)| at.min(tail));
        let (done, error) = self.write_data(session, disk, start, spilled, to);
        disk.step();
        let moved = session
            .ring
            .word(Word::Spilled)
            .compare_exchange(spilled, done, Ordering::AcqRel, Ordering::Acquire)
            .is_err();
        if let Some(error) = error {
            return Err(PauseReason::of(&error));
        }
        if moved {
            // Given up by the actor while we wrote: those bytes may be newer
            // ones. The gap covers them; go on behind it.
            return Ok(SpillEnd::More);
        }
        shared.readable.store(done, Ordering::Release);
        self.drop_over_limit(session);
        if roll.is_some_and(|(at, _)| at == done) {
            return self.roll_if_reached(session, disk, false);
        }
        let waiting = shared.tail.load(Ordering::Acquire) - done;
        Ok(if waiting >= WAKE_BYTES { SpillEnd::More } else { SpillEnd::Done })
    }

    /// A roll inside a gap would begin with bytes that are missing.
    fn discard_stale_roll(&mut self, session: &Session, spilled: u64) {
        let mut roll = lock(&session.roll);
        if roll.as_ref().is_some_and(|roll| roll.at < spilled) {
            *roll = None;
            drop(roll);
            session.shared.needs_keyframe.store(true, Ordering::Release);
            session.shared.roll_pending.store(false, Ordering::Release);
        }
    }

    /// Writes to removed files succeed and are lost: look, once in a while.
    fn check_removed(&mut self, session: &Session) -> Result<(), PauseReason> {
        let now = Instant::now();
        if self.looked.is_some_and(|last| now - last < REMOVED_CHECK) {
            return Ok(());
        }
        self.looked = Some(now);
        let Some(open) = &self.open else { return Ok(()) };
        if segment::is_linked(&open.seg) && segment::is_linked(&open.idx) {
            return Ok(());
        }
        self.open = None;
        self.segments.clear();
        session.shared.needs_keyframe.store(true, Ordering::Release);
        Err(PauseReason::Removed)
    }

    /// Moves notes and the gap from the ring to the index, up to ordinal `until`.
    fn write_index(
        &mut self,
        session: &Session,
        disk: &Disk,
        until: Option<u64>,
    ) -> Result<(), PauseReason> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let ring = &session.ring;
        self.out.clear();
        self.out.extend_from_slice(&self.held);
        let (gap_from, gap_to) = (ring.load(Word::GapFrom), ring.load(Word::GapTo));
        if gap_from < gap_to {
            gap_record(gap_from, gap_to, &mut self.out);
        }
        let tail = ring.load(Word::NoteTail);
        let head = ring.load(Word::NoteHead);
        self.notes.clear();
        ring.notes(tail, head, &mut self.notes);
        let mut next_ord = self.next_ord;
        let mut records = Records::new(&self.notes);
        let mut taken = None;
        loop {
            let at = records.position();
            let Some(record) = records.next() else { break };
            if until.is_some_and(|until| record.ord >= until) {
                taken = Some(at as u64);
                break;
            }
            if record.ord >= next_ord {
                let common = matches!(record.kind, kind::TIME | kind::INPUT);
                if !common || open.idx_len < INDEX_FULL {
                    record.encode(&mut self.out);
                }
                next_ord = record.ord.saturating_add(1);
            }
        }
        if !self.out.is_empty() {
            let written = disk
                .check(DiskOp::WriteIndex)
                .and_then(|()| open.idx.write_all_at(&self.out, open.idx_len));
            if let Err(error) = written {
                // Half of it may be there, and the next try may be shorter:
                // sound records must not stay behind the end.
                let _ = open.idx.set_len(open.idx_len);
                return Err(PauseReason::of(&error));
            }
            disk.step();
            open.idx_len += self.out.len() as u64;
            if let Some(newest) = self.segments.back_mut() {
                newest.bytes += self.out.len() as u64;
            }
            session.shared.index_bytes.store(open.idx_len, Ordering::Relaxed);
        }
        self.held.clear();
        self.next_ord = next_ord;
        ring.store(Word::NoteTail, taken.map_or(head, |taken| tail + taken));
        disk.step();
        if gap_from < gap_to {
            ring.store(Word::GapFrom, gap_to);
            session.shared.needs_keyframe.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Writes bytes `[from, to)`; says how far it came.
    fn write_data(
        &mut self,
        session: &Session,
        disk: &Disk,
        start: u64,
        from: u64,
        to: u64,
    ) -> (u64, Option<io::Error>) {
        let Some(open) = &self.open else { return (from, None) };
        let mut at = from;
        while at < to {
            // SAFETY: the window is unspilled, so the actor does not write it, unless it gives it
            // up on a stalled disk: then the kernel may copy newer bytes, which the
            // compare-exchange finds out. The slices go to the kernel only.
            let (a, b) = unsafe { session.ring.data(at, to) };
            let written = disk.check(DiskOp::WriteData).and_then(|()| {
                let parts = [IoSlice::new(a), IoSlice::new(b)];
                Ok(rustix::io::pwritev(&open.seg, &parts, at - start)?)
            });
            match written {
                Ok(0) => return (at, Some(io::ErrorKind::WriteZero.into())),
                Ok(n) => {
                    at += n as u64;
                    if let Some(newest) = self.segments.back_mut() {
                        newest.bytes += n as u64;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (at, Some(error)),
            }
        }
        (at, None)
    }

    /// Performs the pending roll. `orphaned`: there is no file to finish, so
    /// what the ring holds before the roll cannot be kept.
    fn roll_if_reached(
        &mut self,
        session: &Session,
        disk: &Disk,
        orphaned: bool,
    ) -> Result<SpillEnd, PauseReason> {
        let mut pending = lock(&session.roll);
        let Some(roll) = pending.as_ref() else {
            session.shared.needs_keyframe.store(true, Ordering::Release);
            return Err(PauseReason::AwaitingKeyframe);
        };
        if self.open.as_ref().is_some_and(|open| open.start == roll.at) {
            // Nothing was output since the segment began: a new screen for it.
            replace_key(&session.shared.dir, roll, disk)
                .map_err(|error| PauseReason::of(&error))?;
            *pending = None;
            session.shared.needs_keyframe.store(false, Ordering::Release);
            session.shared.roll_pending.store(false, Ordering::Release);
            return Ok(SpillEnd::Rolled);
        }
        let open = begin_segment(&session.shared.dir, roll, disk)
            .map_err(|error| PauseReason::of(&error))?;
        disk.step();
        let (at, ord) = (roll.at, roll.ord);
        let bytes = open.idx_len + roll.keyframe.len() as u64;
        *pending = None;
        drop(pending);
        if orphaned {
            session.ring.word(Word::Spilled).fetch_max(at, Ordering::AcqRel);
            session.ring.store(Word::GapFrom, session.ring.load(Word::GapTo));
            self.next_ord = self.next_ord.max(ord);
        }
        let shared = &session.shared;
        if self.segments.is_empty() {
            shared.oldest.store(at, Ordering::Release);
        }
        self.segments.push_back(Segment { start: at, bytes, len: 0, has_key: true });
        shared.index_bytes.store(open.idx_len, Ordering::Relaxed);
        self.open = Some(open);
        shared.readable.fetch_max(at, Ordering::AcqRel);
        shared.needs_keyframe.store(false, Ordering::Release);
        shared.roll_pending.store(false, Ordering::Release);
        self.drop_over_limit(session);
        Ok(SpillEnd::Rolled)
    }

    fn drop_over_limit(&mut self, session: &Session) {
        let mut total = self.bytes();
        while total > session.limits.session_bytes
            && let Some(freed) = self.drop_oldest(session)
        {
            total -= freed;
        }
    }

    /// Drops one segment from the front, never the newest. Says what it freed.
    pub(super) fn drop_oldest(&mut self, session: &Session) -> Option<u64> {
        if self.segments.len() < 2 {
            return None;
        }
        let dropped = self.segments.pop_front()?;
        session.shared.oldest.store(self.segments[0].start, Ordering::Release);
        segment::remove(&session.shared.dir, dropped.start);
        Some(dropped.bytes)
    }

    /// The disk does not take notes: when the ring's area fills, keep the rare
    /// ones here and let times and input marks go.
    fn hold_notes(&mut self, session: &Session) {
        let ring = &session.ring;
        let (tail, head) = (ring.load(Word::NoteTail), ring.load(Word::NoteHead));
        if head.saturating_sub(tail) < NOTE_BYTES as u64 / 2 {
            return;
        }
        self.notes.clear();
        ring.notes(tail, head, &mut self.notes);
        for record in Records::new(&self.notes) {
            let keep = !matches!(record.kind, kind::TIME | kind::INPUT);
            if keep && record.ord >= self.next_ord && self.held.len() < HELD_BYTES {
                record.encode(&mut self.held);
            }
            self.next_ord = self.next_ord.max(record.ord.saturating_add(1));
        }
        ring.store(Word::NoteTail, head);
    }
}

pub(super) fn gap_record(from: u64, to: u64, out: &mut Vec<u8>) {
    let payload = to.to_le_bytes();
    Record { kind: kind::GAP, seq: from, time_ns: super::unix_ns(), ord: 0, payload: &payload }
        .encode(out);
}

fn write_key(dir: &Path, roll: &Roll, ext: &str) -> io::Result<()> {
    let key = Key { size: roll.size, ord: roll.ord, bytes: &roll.keyframe };
    let file = segment::open_new(&segment::path(dir, roll.at, ext))?;
    file.write_all_at(&segment::encode_key(roll.at, key), 0)
}

fn replace_key(dir: &Path, roll: &Roll, disk: &Disk) -> io::Result<()> {
    disk.check(DiskOp::BeginSegment)?;
    write_key(dir, roll, NEW_KEY)?;
    disk.step();
    let to = segment::path(dir, roll.at, KEY);
    std::fs::rename(segment::path(dir, roll.at, NEW_KEY), to)
}

/// Makes the three files; the `.seg`, which makes the segment exist, last.
fn begin_segment(dir: &Path, roll: &Roll, disk: &Disk) -> io::Result<Open> {
    disk.check(DiskOp::BeginSegment)?;
    segment::make_dir(dir)?;
    write_key(dir, roll, KEY)?;
    disk.step();
    let idx = segment::open_new(&segment::path(dir, roll.at, IDX))?;
    let mut out = Vec::new();
    let payload = start_payload(roll.size);
    let (seq, time_ns, ord) = (roll.at, roll.time_ns, roll.ord);
    Record { kind: kind::START, seq, time_ns, ord, payload: &payload }.encode(&mut out);
    idx.write_all_at(&out, 0)?;
    disk.step();
    let seg = segment::open_new(&segment::path(dir, roll.at, SEG))?;
    Ok(Open { start: roll.at, seg, idx, idx_len: out.len() as u64 })
}

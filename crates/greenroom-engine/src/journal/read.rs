//! Views of the past: replay of files, for live and for ended sessions.
//!
//! In come a directory and a place to start, out go items in order: a keyframe where one is needed,
//! bytes, notes, and a [`Item::Gap`] for every byte that is not there, for whatever reason. Reads
//! files only, so it may run on any thread; it blocks. Deliberately absent: what is still in the
//! ring (`flush` first) and decoding (egress does that).

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use greenroom_term::Size;

use super::error::JournalError;
use super::limits::{FLUSH_DEADLINE, INDEX_BYTES};
use super::note::{Note, decode_size, kind};
use super::record::Records;
use super::segment::{self, IDX, Key, Listing, SEG, SEQ_MAX, Segment};
use super::shared::{Session, Shared};
use super::spill::Spiller;
use crate::id::Seq;

/// Bytes handed to the sink at once.
const CHUNK: usize = 64 * 1024;

/// One thing that happened. Times are nanoseconds since the Unix epoch and
/// never run backwards within a replay, even if the clock was set back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// The screen at `seq`. Comes first (unless the start was a sequence number
    /// inside a segment) and again where a gap ended.
    Keyframe {
        seq: Seq,
        time_ns: u64,
        size: Size,
        bytes: &'a [u8],
    },
    Output {
        seq: Seq,
        time_ns: u64,
        bytes: &'a [u8],
    },
    Note {
        seq: Seq,
        time_ns: u64,
        note: &'a Note,
    },
    /// Bytes `[from, to)` are missing: dropped from the front, given up on a
    /// full disk, or lost with a file.
    Gap {
        from: Seq,
        to: Seq,
    },
}

impl Item<'_> {
    /// Where it is, and when it was. A gap has no time of its own.
    pub fn place(&self) -> (Seq, u64) {
        match self {
            Item::Keyframe { seq, time_ns, .. }
            | Item::Output { seq, time_ns, .. }
            | Item::Note { seq, time_ns, .. } => (*seq, *time_ns),
            Item::Gap { from, .. } => (*from, 0),
        }
    }
}

/// Where a replay starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayFrom {
    /// The newest keyframe: the shortest way to the present screen.
    LastKeyframe,
    /// The newest keyframe at or before this: seeking.
    KeyframeBefore(Seq),
    /// Everything that is kept.
    Oldest,
    /// Exactly here. If that is dropped already a gap comes first.
    Seq(Seq),
}

/// How a flush ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushed {
    /// Everything asked for is in the files, or recorded as a gap.
    Done,
    /// Recording is paused, or the disk was too slow.
    NotYet,
}

/// Reads a journal. Cheap to clone; any thread.
#[derive(Clone)]
pub struct JournalReader {
    shared: Arc<Shared>,
    live: Option<(Weak<Session>, Spiller)>,
}

/// Opens the journal of a session that has ended.
pub fn open_ended(dir: &Path) -> Result<JournalReader, JournalError> {
    let listing =
        segment::list(dir).map_err(|source| JournalError::ReadDir { dir: dir.into(), source })?;
    let Some((oldest, tail)) = span_of(dir, &listing, INDEX_BYTES) else {
        return Err(JournalError::Empty { dir: dir.into() });
    };
    let shared = Shared::new(dir.into(), oldest, tail, tail);
    Ok(JournalReader { shared: Arc::new(shared), live: None })
}

/// The oldest byte in files and the end of the output, which may be a gap: so much of the newest
/// index is read.
pub(super) fn span_of(dir: &Path, listing: &Listing, index_bytes: u64) -> Option<(u64, u64)> {
    let (first, last) = (listing.segments.first()?, listing.segments.last()?);
    let index = segment::read_capped(&segment::path(dir, last.start, IDX), index_bytes);
    let gaps = gaps_of(&index.unwrap_or_default());
    let tail = gaps.into_iter().map(|(_, to)| to).fold(last.start + last.len, u64::max);
    Some((first.start, tail))
}

impl JournalReader {
    pub(super) fn live(session: &Arc<Session>, spiller: &Spiller) -> JournalReader {
        JournalReader {
            shared: Arc::clone(&session.shared),
            live: Some((Arc::downgrade(session), spiller.clone())),
        }
    }

    /// Oldest byte kept, and the end of the output (in files after a flush).
    pub fn span(&self) -> (Seq, Seq) {
        (
            Seq(self.shared.oldest.load(Ordering::Acquire)),
            Seq(self.shared.tail.load(Ordering::Acquire)),
        )
    }

    /// Waits until everything below `to`, and every note so far, is in the
    /// files; at most five seconds, and not for a paused disk.
    pub async fn flush(&self, to: Seq) -> Flushed {
        let Some((session, spiller)) = &self.live else { return Flushed::Done };
        let Some(session) = session.upgrade() else {
            // The journal was closed: what could be written is written.
            let reached = self.shared.readable.load(Ordering::Acquire) >= to.0;
            return if reached { Flushed::Done } else { Flushed::NotYet };
        };
        let mut goal = session.goal();
        goal.seq = goal.seq.min(to.0);
        let wait = async {
            loop {
                let progress = self.shared.progress.notified();
                // Paused first: notes may be kept in memory only.
                if self.shared.paused.load(Ordering::Acquire) {
                    return Flushed::NotYet;
                }
                if session.is_flushed(goal) {
                    return Flushed::Done;
                }
                spiller.schedule(&session, true);
                progress.await;
            }
        };
        tokio::time::timeout(FLUSH_DEADLINE, wait).await.unwrap_or(Flushed::NotYet)
    }

    /// Hands everything from `from` on to `sink`, in order, until the end of
    /// the files or a `Break`. Says where it stopped. Blocks on the disk.
    pub fn replay(
        &self,
        from: ReplayFrom,
        sink: &mut dyn FnMut(Item<'_>) -> ControlFlow<()>,
    ) -> Result<Seq, JournalError> {
        let end = self.shared.readable.load(Ordering::Acquire);
        let dir = &self.shared.dir;
        let segments = match segment::list(dir) {
            Ok(listing) => listing.segments,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(source) => return Err(JournalError::ReadDir { dir: dir.clone(), source }),
        };
        let segments: Vec<Segment> = segments.into_iter().filter(|s| s.start <= end).collect();
        let mut replay =
            Replay { dir, sink, at: end, stopped: false, after_gap: false, now: 0, open_gap: None };
        replay.run(&segments, from, end);
        replay.close_gap();
        Ok(Seq(replay.at))
    }
}

struct Replay<'a> {
    dir: &'a Path,
    sink: &'a mut dyn FnMut(Item<'_>) -> ControlFlow<()>,
    at: u64,
    stopped: bool,
    /// Bytes are missing before `at`, so the next keyframe is needed.
    after_gap: bool,
    /// The latest time given out.
    now: u64,
    /// A gap that may grow before it is reported.
    open_gap: Option<(u64, u64)>,
}

/// A note or a time, with its place.
struct Event {
    seq: u64,
    time_ns: u64,
    ord: u64,
    /// `None`: a time record.
    note: Option<Note>,
}

impl Replay<'_> {
    fn run(&mut self, segments: &[Segment], from: ReplayFrom, end: u64) {
        let Some(oldest) = segments.first().map(|segment| segment.start) else {
            if let ReplayFrom::Seq(Seq(seq)) = from {
                self.at = seq.min(end);
                self.gap(end);
            }
            return;
        };
        let before = |seq: u64| segments.iter().rposition(|s| s.start <= seq).unwrap_or(0);
        let with_key =
            |last: usize| (0..=last).rev().find(|i| self.has_key(segments[*i].start)).unwrap_or(0);
        let first = match from {
            ReplayFrom::Oldest => 0,
            ReplayFrom::LastKeyframe => with_key(segments.len() - 1),
            ReplayFrom::KeyframeBefore(Seq(seq)) => with_key(before(seq)),
            ReplayFrom::Seq(Seq(seq)) => before(seq),
        };
        self.at = segments[first].start;
        self.after_gap = true;
        if let ReplayFrom::Seq(Seq(seq)) = from {
            self.at = seq.min(end);
            self.after_gap = false;
            self.gap(oldest);
        }
        for (i, segment) in segments.iter().enumerate().skip(first) {
            let to = segments.get(i + 1).map_or(end, |next| next.start).min(end);
            self.segment(segment.start, to);
        }
    }

    fn emit(&mut self, item: Item<'_>) {
        self.close_gap();
        if !self.stopped {
            self.stopped = (self.sink)(item).is_break();
        }
    }

    fn close_gap(&mut self) {
        if let Some((from, to)) = self.open_gap.take() {
            let gap = Item::Gap { from: Seq(from), to: Seq(to) };
            self.stopped |= (self.sink)(gap).is_break();
        }
    }

    /// Reports `[at, to)` as missing, if that is anything; neighbours become one gap.
    fn gap(&mut self, to: u64) {
        if self.at < to && !self.stopped {
            self.open_gap = Some((self.open_gap.map_or(self.at, |(from, _)| from), to));
            self.at = to;
            self.after_gap = true;
        }
    }

    fn has_key(&self, start: u64) -> bool {
        let file = segment::read_key(self.dir, start).unwrap_or_default();
        segment::decode_key(&file, start).is_some()
    }

    fn segment(&mut self, start: u64, to: u64) {
        if self.stopped {
            return;
        }
        let index = segment::read_index(self.dir, start).unwrap_or_default();
        let (began, events) = events_of(&index, start);
        self.now = self.now.max(began);
        let gaps = gaps_of(&index);
        let file = segment::open_read(&segment::path(self.dir, start, SEG)).ok();
        let mut in_key = 0;
        if self.at == start && self.after_gap {
            in_key = self.keyframe(start, &index);
        }
        let from = self.at;
        // Notes reach the index before the bytes around them: those beyond
        // what is readable belong to a later replay.
        for event in events.iter().take_while(|event| event.seq <= to) {
            if event.seq >= from {
                self.output(start, event.seq, file.as_ref(), &gaps);
            }
            self.now = self.now.max(event.time_ns);
            if event.seq >= from
                && event.ord >= in_key
                && let Some(note) = &event.note
            {
                self.emit(Item::Note { seq: Seq(event.seq), time_ns: self.now, note });
            }
        }
        self.output(start, to, file.as_ref(), &gaps);
    }

    /// A key that is missing leaves a blank screen of the size in the index.
    /// Says which notes are in the screen already.
    fn keyframe(&mut self, start: u64, index: &[u8]) -> u64 {
        let file = segment::read_key(self.dir, start).unwrap_or_default();
        let blank = || {
            let size = Records::new(index).find(|r| r.kind == kind::START)?;
            Some(Key { size: decode_size(size.payload)?, ord: 0, bytes: &[] })
        };
        let Some(Key { size, ord, bytes }) = segment::decode_key(&file, start).or_else(blank)
        else {
            return 0;
        };
        self.after_gap = false;
        self.emit(Item::Keyframe { seq: Seq(start), time_ns: self.now, size, bytes });
        ord
    }

    /// Bytes `[at, to)` of the segment, with its gaps.
    fn output(&mut self, start: u64, to: u64, file: Option<&File>, gaps: &[(u64, u64)]) {
        for &(gap_from, gap_to) in gaps {
            if gap_to <= self.at || gap_from >= to {
                continue;
            }
            self.bytes(start, gap_from.clamp(self.at, to), file);
            self.gap(gap_to.min(to));
        }
        self.bytes(start, to, file);
    }

    fn bytes(&mut self, start: u64, to: u64, file: Option<&File>) {
        let mut chunk = Vec::new();
        while self.at < to && !self.stopped {
            let want = (to - self.at).min(CHUNK as u64) as usize;
            chunk.resize(want, 0);
            let got = file.map_or(Ok(0), |file| file.read_at(&mut chunk, self.at - start));
            match got {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The file ends early, or cannot be read: say so, go on.
                Ok(0) | Err(_) => return self.gap(to),
                Ok(n) => {
                    self.close_gap();
                    if self.stopped {
                        return;
                    }
                    let (seq, time_ns) = (Seq(self.at), self.now);
                    self.at += n as u64;
                    self.emit(Item::Output { seq, time_ns, bytes: &chunk[..n] });
                }
            }
        }
    }
}

/// The time the segment began, and its notes and times, ordered by place.
fn events_of(index: &[u8], start: u64) -> (u64, Vec<Event>) {
    let mut began = 0;
    let mut events = Vec::new();
    for record in Records::new(index) {
        let note = match record.kind {
            kind::START => {
                began = record.time_ns;
                continue;
            }
            kind::TIME => None,
            kind => match Note::decode(kind, record.payload) {
                Some(note) => Some(note),
                None => continue,
            },
        };
        let (seq, time_ns, ord) = (record.seq.max(start), record.time_ns, record.ord);
        events.push(Event { seq, time_ns, ord, note });
    }
    // Written in order; a damaged or foreign index must not break the order.
    events.sort_by_key(|event| event.seq);
    // The first bytes may be older than the file that was begun for them.
    (events.first().map_or(began, |first| began.min(first.time_ns)), events)
}

/// The gaps an index records, ordered and merged.
pub(super) fn gaps_of(index: &[u8]) -> Vec<(u64, u64)> {
    let mut gaps: Vec<(u64, u64)> = Records::new(index)
        .filter(|record| record.kind == kind::GAP)
        .filter_map(|record| {
            Some((record.seq, u64::from_le_bytes(record.payload.try_into().ok()?)))
        })
        .filter(|(from, to)| from < to && *to <= SEQ_MAX)
        .collect();
    gaps.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (from, to) in gaps {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

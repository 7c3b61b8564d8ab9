//! The actor's side of the ring's note area: where a note is safe from a kill
//! until an index holds it.
//!
//! In come notes and times, out go records in the ring. The area is small on purpose; when a disk
//! does not take notes, times give way first, then input marks (counted), and the rare ones wait
//! here. Deliberately absent: reading the area (`files`, `recover`).
#![allow(unsafe_code, reason = "the free part of the note area is the actor's, see `ring`")]

use std::collections::VecDeque;
use std::sync::Arc;

use super::limits::{NOTE_BYTES, TIME_APART_NS, TIME_BYTES};
use super::note::{Note, kind};
use super::record::Record;
use super::ring::{Ring, Word};
use super::unix_ns;

/// Notes that found no room in the ring wait here, so many at most.
const WAITING_MAX: usize = 64;

/// How much of the area may be in use after a record of this rank.
const TIMES: usize = NOTE_BYTES / 2;
const INPUTS: usize = NOTE_BYTES * 3 / 4;
const RARE: usize = NOTE_BYTES;

pub(super) struct Notepad {
    ring: Arc<Ring>,
    next_ord: u64,
    /// The last time record: time and place.
    last_time: Option<(u64, u64)>,
    lost: u64,
    waiting: VecDeque<(Note, u64, u64)>,
    /// Kept for their capacity.
    payload: Vec<u8>,
    encoded: Vec<u8>,
}

impl Notepad {
    pub(super) fn new(ring: Arc<Ring>, next_ord: u64) -> Notepad {
        Notepad {
            ring,
            next_ord,
            last_time: None,
            lost: 0,
            waiting: VecDeque::new(),
            payload: Vec::new(),
            encoded: Vec::new(),
        }
    }

    pub(super) fn next_ord(&self) -> u64 {
        self.next_ord
    }

    /// Bytes from `at` on come now. `now` is the clock of this pump: it is
    /// asked once per pump, and once per [`TIME_BYTES`].
    pub(super) fn time(&mut self, at: u64, now: &mut Option<u64>) {
        let time = match (self.last_time, *now) {
            (Some((_, seq)), Some(_)) if at - seq < TIME_BYTES => return,
            _ => unix_ns(),
        };
        *now = Some(time);
        let due = self.last_time.is_none_or(|(last, seq)| {
            at - seq >= TIME_BYTES || time.saturating_sub(last) >= TIME_APART_NS
        });
        if due && self.put(kind::TIME, at, time, &[], TIMES) {
            self.last_time = Some((time, at));
        }
    }

    /// Writes `note` at `seq`. It survives a kill from the moment this returns,
    /// unless the area is full, which takes a disk that is paused or hangs.
    pub(super) fn note(&mut self, note: Note, seq: u64) {
        let time = unix_ns();
        self.put_waiting();
        if self.lost > 0 && self.put_note(&Note::Lost(self.lost), seq, time, TIMES) {
            self.lost = 0;
        }
        if let Note::Input { .. } = note {
            self.lost += u64::from(!self.put_note(&note, seq, time, INPUTS));
        } else if !self.waiting.is_empty() || !self.put_note(&note, seq, time, RARE) {
            if self.waiting.len() < WAITING_MAX {
                self.waiting.push_back((note, seq, time));
            } else {
                self.lost += 1;
            }
        }
    }

    /// Writes what found no room before, as far as there is room now.
    pub(super) fn put_waiting(&mut self) {
        while let Some((note, seq, time)) = self.waiting.pop_front() {
            if !self.put_note(&note, seq, time, RARE) {
                self.waiting.push_front((note, seq, time));
                return;
            }
        }
    }

    fn put_note(&mut self, note: &Note, seq: u64, time_ns: u64, cap: usize) -> bool {
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        note.payload(&mut payload);
        let put = self.put(note.kind(), seq, time_ns, &payload, cap);
        self.payload = payload;
        put
    }

    /// Puts a record into the area if no more than `cap` of it is in use then.
    /// It gets its ordinal here, so that ordinals grow along the area, which
    /// recovery relies on. The head moves last: a kill before means no record.
    fn put(&mut self, kind: u8, seq: u64, time_ns: u64, payload: &[u8], cap: usize) -> bool {
        self.encoded.clear();
        Record { kind, seq, time_ns, ord: self.next_ord, payload }.encode(&mut self.encoded);
        let head = self.ring.load(Word::NoteHead);
        let used = head.saturating_sub(self.ring.load(Word::NoteTail));
        if used + self.encoded.len() as u64 > cap as u64 {
            return false;
        }
        // SAFETY: we are the actor, and there is room behind the head.
        unsafe { self.ring.put_note(head, &self.encoded) };
        self.ring.store(Word::NoteHead, head + self.encoded.len() as u64);
        self.next_ord += 1;
        true
    }
}

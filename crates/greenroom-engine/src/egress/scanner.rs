//! One text in the making: what was printed lately, where each byte of it lies in the stream, and
//! what is hidden in it.
//!
//! In: runs of text with their places. Out: ranges to mask, and where the undecided end begins.
//! What is masked is a property of the text alone: the union of all findings, each of which is
//! decided by what stands around it. So it does not matter how the text came or from where it is
//! read.

use std::collections::VecDeque;

use crate::egress::finder::Heads;
use crate::egress::literals::Literals;
use crate::egress::rules::{HOLD_MAX, Look, Open, Rules, TRIGGER_MAX};

/// Text looked at again with every scan: the longest trigger and all that may be undecided after
/// it.
const CONTEXT: usize = TRIGGER_MAX + HOLD_MAX + 32;

/// Text kept before that: a rule looks at what stands in front of its trigger.
const BEHIND: usize = 80;

/// Longest secret, in bytes of the stream with everything between its characters. Bounded, so that
/// a reader who begins in the middle can look back far enough.
pub(crate) const SPAN_MAX: u64 = 32 * 1024;

/// So many bytes of sequences between two characters part them: nobody colours a letter a hundred
/// times.
const QUIET_MAX: usize = 1024;

/// Stands for a boundary. No text has it: it is a control without effect.
const BOUNDARY: u8 = 0;

/// The number of the rule "a value this session was given".
pub const VALUE: u16 = u16::MAX;

/// What is looked for.
pub(crate) struct Sought<'a> {
    pub rules: &'a Rules,
    pub literals: &'a Literals,
    pub heads: &'a Heads,
    /// All text is hidden.
    pub all: bool,
}

/// A range of the scanner's text to mask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finding {
    pub from: u64,
    pub to: u64,
    pub rule: u16,
}

/// The end of the text that is not decided yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub from: u64,
    /// Characters of the shortest secret it may become.
    pub whole: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Scanner {
    text: Vec<u8>,
    /// Number of the first byte in `text`.
    first: u64,
    /// Places in text and stream where a run begins.
    runs: VecDeque<(u64, u64)>,
    scanned: u64,
    open: Vec<Going>,
    quiet: usize,
}

/// A secret that goes on.
#[derive(Clone, Copy, Debug)]
struct Going {
    open: Open,
    from: u64,
    /// No further than this in the stream.
    until: u64,
    rule: u16,
}

impl Scanner {
    /// Forgets everything; the next text has nothing before it.
    pub(super) fn clear(&mut self) {
        self.first = self.end();
        self.scanned = self.first;
        self.text.clear();
        self.runs.clear();
        self.open.clear();
        self.quiet = 0;
    }

    pub(super) fn push(&mut self, bytes: &[u8], raw: u64) {
        let at = self.end();
        let goes_on = self.runs.back().is_some_and(|(text, start)| start + (at - text) == raw);
        if !goes_on {
            self.runs.push_back((at, raw));
        }
        self.text.extend_from_slice(bytes);
        self.quiet = 0;
    }

    pub(super) fn quiet(&mut self, len: usize, raw: u64) {
        self.quiet += len;
        if self.quiet > QUIET_MAX {
            self.boundary(raw);
        }
    }

    pub(super) fn boundary(&mut self, raw: u64) {
        if self.text.last().is_some_and(|&last| last != BOUNDARY) {
            // A boundary is no text: sequences are counted on across it.
            let quiet = self.quiet;
            self.push(&[BOUNDARY], raw);
            self.quiet = quiet;
        }
    }

    /// Takes the last character back. What was there must have been scanned.
    pub(super) fn pop(&mut self) {
        let is_char = |byte: u8| byte >= 0x20;
        while let Some(&last) = self.text.last() {
            if !is_char(last) {
                break;
            }
            self.text.pop();
            if last & 0xc0 != 0x80 {
                break;
            }
        }
        let end = self.end();
        while self.runs.back().is_some_and(|(text, _)| *text >= end) {
            self.runs.pop_back();
        }
        self.scanned = self.scanned.min(end);
    }

    pub(super) fn end(&self) -> u64 {
        self.first + self.text.len() as u64
    }

    /// Where a byte of the text lies in the stream.
    pub(super) fn raw(&self, at: u64) -> u64 {
        let run = self.runs.partition_point(|(text, _)| *text <= at).saturating_sub(1);
        self.runs.get(run).map_or(0, |(text, raw)| raw + at.saturating_sub(*text))
    }

    /// The runs of `from..to` as places in the stream, with their text.
    pub(super) fn each_run(&self, from: u64, to: u64, mut each: impl FnMut(u64, &[u8])) {
        let mut at = from.max(self.first);
        let mut run = self.runs.partition_point(|(text, _)| *text <= at).saturating_sub(1);
        while at < to.min(self.end()) {
            let Some(&(start, raw)) = self.runs.get(run) else { return };
            let end = self.runs.get(run + 1).map_or(to, |(next, _)| (*next).min(to));
            each(raw + (at - start), self.slice(at, end));
            at = end;
            run += 1;
        }
    }

    /// The first byte of text that lies at `raw` or after.
    pub(super) fn text_at(&self, raw: u64) -> u64 {
        let run = self.runs.partition_point(|(_, start)| *start <= raw);
        let next = self.runs.get(run).map_or(self.end(), |(text, _)| *text);
        match run.checked_sub(1).and_then(|run| self.runs.get(run)) {
            Some((text, start)) => (text + (raw - start)).min(next),
            None => next,
        }
    }

    /// The place `chars` characters after `from`.
    pub(super) fn after(&self, from: u64, chars: usize) -> u64 {
        let rest = self.slice(from, self.end());
        let starts = rest.iter().enumerate().filter(|(_, byte)| **byte & 0xc0 != 0x80);
        starts.map(|(at, _)| from + at as u64).nth(chars).unwrap_or(self.end())
    }

    fn slice(&self, from: u64, to: u64) -> &[u8] {
        let index = |at: u64| (at.saturating_sub(self.first) as usize).min(self.text.len());
        &self.text[index(from)..index(to)]
    }

    /// Looks at what is new, and again at what was undecided. With `ended` nothing more comes.
    pub(super) fn scan(
        &mut self,
        sought: &Sought<'_>,
        ended: bool,
        found: &mut Vec<Finding>,
    ) -> Option<Pending> {
        self.trim();
        self.scan_all(sought, ended, found)
    }

    /// The same for a text that is given as a whole.
    pub(super) fn scan_all(
        &mut self,
        sought: &Sought<'_>,
        ended: bool,
        found: &mut Vec<Finding>,
    ) -> Option<Pending> {
        if sought.all {
            found.push(Finding { from: self.first, to: self.end(), rule: VALUE });
            self.scanned = self.end();
            return None;
        }
        let mut pending = None;
        // Before anything new is found: a secret that was open at the last scan covers text that no
        // trigger leads to.
        self.go_on(found);
        let mut open = std::mem::take(&mut self.open);
        // What was undecided is looked at again. Findings may come twice; to mask a mask changes
        // nothing.
        let from = (self.scanned.saturating_sub(CONTEXT as u64)).max(self.first);
        let from = (from - self.first) as usize;
        let mut at = from;
        while let Some(place) = sought.heads.next(&self.text, at) {
            at = place + 1;
            let length = sought.literals.at(&self.text[place..]);
            if length > 0 {
                let from = self.first + place as u64;
                found.push(Finding { from, to: from + length as u64, rule: VALUE });
            }
            sought.rules.look(&self.text, place, ended, |rule, look| match look {
                Look::Nothing => {}
                Look::Undecided { from, whole } => {
                    earlier(&mut pending, self.first + from as u64, whole);
                }
                Look::Secret { from, to, open: how } => {
                    let (from, to) = (self.first + from as u64, self.first + to as u64);
                    let until = self.raw(from) + SPAN_MAX;
                    found.push(Finding { from, to: self.limit(from, to, until), rule });
                    // The same secret is found again while it is within the context, and must go on
                    // once only.
                    let is_new = open.iter().all(|going| (going.from, going.rule) != (from, rule));
                    if to == self.end() && how != Open::Closed && is_new {
                        open.push(Going { open: how, from, until, rule });
                    }
                }
            });
        }
        if !ended && let Some((from, whole)) = sought.literals.pending(&self.text) {
            earlier(&mut pending, self.first + from as u64, whole);
        }
        self.open = open;
        self.scanned = self.end();
        pending
    }

    /// Secrets that were open at the end of the last scan.
    fn go_on(&mut self, found: &mut Vec<Finding>) {
        if self.open.is_empty() {
            return;
        }
        let (from, end) = (self.scanned, self.end());
        let before = self.slice(from.saturating_sub(1), from).last().copied().unwrap_or(BOUNDARY);
        let mut open = std::mem::take(&mut self.open);
        open.retain(|going| {
            let to = from + going.open.extent(before, self.slice(from, end)) as u64;
            let limited = self.limit(from, to, going.until);
            if limited > from {
                found.push(Finding { from, to: limited, rule: going.rule });
            }
            to == end && limited == to
        });
        self.open = open;
    }

    /// Cuts a range where it lies too far on in the stream.
    fn limit(&self, from: u64, to: u64, until: u64) -> u64 {
        if to == from || self.raw(to - 1) < until {
            return to;
        }
        (from..to).find(|&at| self.raw(at) >= until).unwrap_or(to)
    }

    /// Forgets what no scan will look at again.
    fn trim(&mut self) {
        let keep = (CONTEXT + BEHIND) as u64;
        let cut = self.scanned.saturating_sub(keep).saturating_sub(self.first) as usize;
        // Not for every byte: moving the rest costs more than keeping it.
        if cut < 4096 {
            return;
        }
        self.text.drain(..cut);
        self.first += cut as u64;
        while self.runs.get(1).is_some_and(|(text, _)| *text <= self.first) {
            self.runs.pop_front();
        }
    }
}

fn earlier(pending: &mut Option<Pending>, from: u64, whole: usize) {
    match pending {
        Some(there) => {
            there.from = there.from.min(from);
            there.whole = there.whole.min(whole);
        }
        None => *pending = Some(Pending { from, whole }),
    }
}

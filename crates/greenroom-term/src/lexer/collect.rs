//! Sequences kept whole, for the screen.
//!
//! In: bytes from an ESC on, in any pieces. Out: whole sequences, each kept until its last byte
//! came, and controls that act in the middle of one.
//!
//! vte is thus only ever handed whole sequences and is in ground state between them: one parser
//! serves every screen of a thread, and an unfinished sequence is a few bytes that a keyframe can
//! end with. Controls that vte executes at once inside a sequence are executed at once here and
//! left out of the kept bytes.
//! Deliberately absent: meaning. Lengths are bounded, since a program may never end what it began:
//! what outgrows its limit is swallowed to its end. It is not taken to be broken off, as
//! [`tokens`](super::tokens) does, because vte would not either.

use super::{Grammar, Kind, Place, Step};

/// A CSI or plain escape; 32 parameters of 5 digits fit several times.
const MAX_CSI: usize = 1024;
/// An OSC string. Room for a clipboard text; tmux's own limit for what it forwards is near.
const MAX_OSC: usize = 128 * 1024;
/// A DCS string; we only answer requests, which are short.
const MAX_DCS: usize = 4096;
/// An APC string while a keyframe is restored; its writer keeps to this.
pub(crate) const MAX_APC: usize = 4096;

/// What one byte did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collected {
    /// Kept or swallowed.
    More,
    /// A control to execute now.
    Execute,
    /// The sequence is whole, a string without its terminator: [`Collector::take`] it; call
    /// [`Collector::done`] after using it. Other strings than OSC and DCS come only while a
    /// keyframe is restored.
    Whole(Kind),
}

#[derive(Debug, Default)]
pub(crate) struct Collector {
    grammar: Grammar,
    kept: Vec<u8>,
    /// The string outgrew its limit: swallow to its end.
    overlong: bool,
    /// Keep APC strings: set only while a keyframe is restored.
    pub keep_apc: bool,
}

impl Collector {
    #[inline]
    pub(crate) fn in_ground(&self) -> bool {
        self.grammar.place() == Place::Ground
    }

    /// Takes the sequence out, so that it can be used while the collector is not borrowed.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.kept)
    }

    /// After a whole sequence was used; `buffer` may be what [`take`](Collector::take) gave.
    pub(crate) fn done(&mut self, mut buffer: Vec<u8>) {
        const SPARE: usize = 256;
        buffer.clear();
        if buffer.capacity() > SPARE {
            buffer = Vec::new();
        }
        self.kept = buffer;
        self.overlong = false;
        // A string ended by ESC has already begun the next.
        if self.grammar.place() == Place::Escape {
            self.kept.push(0x1b);
        }
    }

    /// Bytes that put a new collector into the same state; empty in ground.
    pub(crate) fn unfinished(&self) -> &[u8] {
        match self.grammar.place() {
            Place::CsiIgnore => b"\x1b[0<",
            Place::DcsIgnore => b"\x1bP0<",
            Place::DcsPassthrough if self.overlong => b"\x1bPz",
            Place::Osc if self.overlong => b"\x1b]!",
            Place::Text if !self.keep_apc => b"\x1b_",
            _ => &self.kept,
        }
    }

    /// Strings: swallows or keeps bytes up to the next one that may end them.
    pub(crate) fn bulk(&mut self, bytes: &[u8]) -> usize {
        let limit = match self.grammar.place() {
            Place::Osc => MAX_OSC,
            Place::Text => MAX_APC,
            _ => return 0,
        };
        let end = bytes.iter().position(|&b| b < 0x20).unwrap_or(bytes.len());
        self.keep_payload(&bytes[..end], limit);
        end
    }

    pub(crate) fn step(&mut self, byte: u8) -> Collected {
        match self.grammar.step(byte) {
            Step::Part => self.keep(byte),
            Step::Nothing => {}
            Step::Execute => return Collected::Execute,
            Step::Begin | Step::Drop => self.begin_anew(),
            Step::Ignore => self.kept.clear(),
            Step::Last(kind) => {
                self.kept.push(byte);
                return Collected::Whole(kind);
            }
            Step::StringEnd(kind) => {
                if !self.overlong && (kind != Kind::Text || self.keep_apc) {
                    return Collected::Whole(kind);
                }
                self.begin_anew();
            }
        }
        Collected::More
    }

    fn begin_anew(&mut self) {
        let buffer = self.take();
        self.done(buffer);
    }

    fn keep(&mut self, byte: u8) {
        match self.grammar.place() {
            Place::Osc => self.keep_payload(&[byte], MAX_OSC),
            Place::DcsPassthrough => self.keep_payload(&[byte], MAX_DCS),
            Place::Text => self.keep_payload(&[byte], MAX_APC),
            _ if self.kept.len() < MAX_CSI => self.kept.push(byte),
            _ => {
                self.kept.clear();
                self.grammar.ignore();
            }
        }
    }

    fn keep_payload(&mut self, bytes: &[u8], limit: usize) {
        if self.grammar.place() == Place::Text && !self.keep_apc {
            return;
        }
        if self.overlong || self.kept.len() + bytes.len() > limit {
            self.overlong = true;
            self.kept = Vec::new();
        } else {
            self.kept.extend_from_slice(bytes);
        }
    }
}

//! Output as lines, for filters from outside.
//!
//! In: masked output with its numbers. Out: lines with the range of output each stands for. A line
//! ends at a line feed. Of one that was drawn several times with carriage returns only the last
//! drawing is a line; the others are reported as drawn over, and nobody will see them.

use std::collections::VecDeque;

use greenroom_term::{Tokenizer, Tokens};

use crate::egress::filter::{Line, Unit};
use crate::id::Seq;

/// A line without an end is cut here: filters are made for lines.
const LINE_MAX: usize = 16 * 1024;

/// Bytes of a character.
const CHAR_MAX: usize = 4;

/// A line and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub line: Line,
    /// Behind its text.
    pub to: Seq,
    /// Behind its line end.
    pub end: Seq,
    /// What was drawn over lies between here and the line.
    pub drawn_from: Seq,
}

#[derive(Default)]
pub(crate) struct Assembler {
    tokenizer: Tokenizer,
    now: Now,
    done: VecDeque<Placed>,
}

/// The line in the making.
#[derive(Default)]
struct Now {
    text: Vec<u8>,
    drawn_from: u64,
    from: u64,
    to: u64,
    /// A carriage return that may belong to a line feed.
    returned: bool,
}

impl Now {
    fn placed(&mut self, end: u64, partial: bool) -> Placed {
        let mut text = std::mem::take(&mut self.text);
        text.retain(|byte| *byte != 0);
        let text = String::from_utf8(text)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let line = Line { seq: Seq(self.from), unit: Unit::Line, text, partial };
        let placed =
            Placed { line, to: Seq(self.to), end: Seq(end), drawn_from: Seq(self.drawn_from) };
        *self = Now { drawn_from: end, from: end, to: end, ..Now::default() };
        placed
    }
}

impl Assembler {
    /// The next byte is `at`.
    pub(crate) fn new(at: Seq) -> Assembler {
        let now = Now { drawn_from: at.0, from: at.0, to: at.0, ..Now::default() };
        Assembler { now, ..Assembler::default() }
    }

    pub(crate) fn feed(&mut self, at: Seq, bytes: &[u8]) {
        let mut tokenizer = std::mem::take(&mut self.tokenizer);
        tokenizer.feed(bytes, &mut Reading { assembler: self, bytes, at: at.0 });
        self.tokenizer = tokenizer;
    }

    /// Finished lines.
    pub(crate) fn take(&mut self, most: usize) -> Vec<Placed> {
        self.done.drain(..self.done.len().min(most)).collect()
    }

    /// Lines that were too many.
    pub(crate) fn give_back(&mut self, lines: Vec<Placed>) {
        lines.into_iter().rev().for_each(|line| self.done.push_front(line));
    }

    pub(crate) fn has_lines(&self) -> bool {
        !self.done.is_empty()
    }

    /// Whether there is a line without an end.
    pub(crate) fn has_partial(&self) -> bool {
        !self.now.text.is_empty()
    }

    /// The program paused: what there is of the last line becomes a line. `at` is where the output
    /// ends.
    pub(crate) fn flush(&mut self, at: Seq) {
        if self.has_partial() {
            self.now.to = at.0;
            self.now.returned = false;
            let placed = self.now.placed(at.0, true);
            self.done.push_back(placed);
        }
    }
}

struct Reading<'a> {
    assembler: &'a mut Assembler,
    bytes: &'a [u8],
    at: u64,
}

impl Reading<'_> {
    fn skip(&mut self, len: usize) {
        (self.bytes, self.at) = (&self.bytes[len..], self.at + len as u64);
    }

    /// Text without line ends. A line that is too long is cut in front of a character.
    fn run(&mut self, len: usize) {
        let mut left = len;
        while left > 0 {
            let now = &mut self.assembler.now;
            if std::mem::take(&mut now.returned) {
                // Drawn anew.
                now.text.clear();
                now.from = self.at;
            }
            let over = now.text.len().checked_sub(LINE_MAX);
            // What is no text has no characters, and must not grow without end either.
            if over.is_some_and(|over| over >= CHAR_MAX || self.bytes[0] & 0xc0 != 0x80) {
                now.to = self.at;
                let placed = now.placed(self.at, true);
                self.assembler.done.push_back(placed);
            }
            let now = &mut self.assembler.now;
            let room = LINE_MAX.saturating_sub(now.text.len()).clamp(1, left);
            now.text.extend_from_slice(&self.bytes[..room]);
            self.skip(room);
            left -= room;
        }
    }

    /// One byte, `\n` or `\r`.
    fn line_end(&mut self) {
        let (byte, at) = (self.bytes[0], self.at);
        self.skip(1);
        let now = &mut self.assembler.now;
        if !now.returned {
            now.to = at;
        }
        if byte == b'\r' {
            now.returned = true;
        } else {
            let placed = now.placed(at + 1, false);
            self.assembler.done.push_back(placed);
        }
    }
}

impl Tokens for Reading<'_> {
    fn text(&mut self, len: usize) {
        let mut left = len;
        while left > 0 {
            let run = memchr::memchr2(b'\n', b'\r', &self.bytes[..left]).unwrap_or(left);
            self.run(run);
            left -= run;
            if left > 0 {
                self.line_end();
                left -= 1;
            }
        }
    }

    fn quiet(&mut self, len: usize) {
        self.skip(len);
    }

    fn boundary(&mut self) {
        let text = &mut self.assembler.now.text;
        if text.last().is_some_and(|last| *last != b' ') {
            text.push(b' ');
        }
    }

    fn backspace(&mut self) {
        // A whole character.
        while self.assembler.now.text.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_know_where_they_lie() {
        let input = b"one\r\n\x1b[1mtwo\x1b[m\r\n10%\r20%\r\nlast";
        for cut in 0..=input.len() {
            let mut assembler = Assembler::new(Seq(0));
            assembler.feed(Seq(0), &input[..cut]);
            assembler.feed(Seq(cut as u64), &input[cut..]);
            let lines = assembler.take(100);
            let told: Vec<_> = lines
                .iter()
                .map(|p| (p.line.text.as_str(), p.drawn_from.0, p.line.seq.0, p.to.0, p.end.0))
                .collect();
            let expected = [("one", 0, 0, 3, 5), ("two", 5, 5, 15, 17), ("20%", 17, 21, 24, 26)];
            assert_eq!(told, expected, "cut at {cut}");
            assembler.flush(Seq(input.len() as u64));
            assert!(assembler.take(1)[0].line.partial);
            assert!(!assembler.has_partial());
        }
    }
    proptest::proptest! {
        /// However it comes in: the same lines at the same places.
        #[test]
        fn the_split_does_not_matter(
            parts in proptest::collection::vec((0..8_usize, 0..LINE_MAX), 0..12),
            cuts in proptest::collection::vec(0..200_000_usize, 0..20),
        ) {
            let kinds = ["x", "ä", "\n", "\r\n", "\r", "\x1b[31m", "\u{8}", "日"];
            let input: String = parts
                .iter()
                .map(|(kind, many)| kinds[*kind].repeat(if [0, 1, 7].contains(kind) { *many } else { many % 3 }))
                .collect();
            let input = input.as_bytes();
            let lines = |mut cuts: Vec<usize>| {
                cuts.push(input.len());
                cuts.sort_unstable();
                let mut assembler = Assembler::new(Seq(7));
                let mut at = 0;
                for cut in cuts.into_iter().filter(|cut| *cut <= input.len()) {
                    assembler.feed(Seq(7 + at as u64), &input[at..cut]);
                    at = cut;
                }
                assembler.flush(Seq(7 + at as u64));
                assembler.take(usize::MAX)
            };
            let whole = lines(Vec::new());
            proptest::prop_assert_eq!(&whole, &lines((0..input.len()).collect()));
            proptest::prop_assert_eq!(&whole, &lines(cuts));
            let broken = |placed: &Placed| placed.line.text.contains('\u{fffd}');
            proptest::prop_assert!(!whole.iter().any(broken));
            let longest = whole.iter().map(|placed| placed.line.text.len()).max();
            proptest::prop_assert!(longest.is_none_or(|len| len < LINE_MAX + 2 * CHAR_MAX));
        }
    }
}

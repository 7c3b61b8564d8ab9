//! The byte front: what stands between a PTY and the guest's grid.
//!
//! In: bytes, in any pieces. Out: the same effects on the guest as if vte's `Processor` had read
//! the whole stream at once, at several times its speed, with its faults covered.
//!
//! Runs of text are written straight into the grid (`print`), common CSI sequences are parsed by
//! hand (`csi`), everything else is collected whole ([`crate::lexer`]) and handed to vte
//! (`handler`). Text that must scroll off within one batch is not written at all (`skip`), and
//! neither is what is painted over within it (`picture`). Deliberately absent: buffering of
//! synchronized updates. Bytes take effect at once, or "keyframe plus bytes" would not be defined;
//! readers look at the flag.

mod blank_ends;
mod classify;
mod csi;
mod dispatch;
mod handler;
mod modes;
mod picture;
mod print;
mod rules;
mod scan;
mod skip;
mod utf8;

#[cfg(test)]
mod equality;

use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::TermMode;
use vte::ansi::{CharsetIndex, Handler, StandardCharset};

use crate::guest::Guest;
use crate::lexer::collect::{Collected, Collector};
use crate::mark::{Mark, Marks};
use crate::size::Size;
use crate::state::State;

use blank_ends::BlankEnds;
pub(crate) use dispatch::cursor_style_number;
use rules::{Rule, Rules};
use utf8::Decoded;

/// Replies that nobody has taken yet. A program that asks without reading its input gets no more
/// answers; it could not read them either.
const MAX_REPLIES: usize = 64 * 1024;

/// Below this size a batch is not worth the look-ahead: the attempt costs 15 % and rarely pays.
const SKIP_FROM: usize = 16 * 1024;

pub(crate) struct Front {
    pub guest: Guest,
    pub state: State,
    pub marks: Marks,
    replies: Vec<u8>,
    collector: Collector,
    /// A character cut by the end of a read.
    cut: Vec<u8>,
    /// Batches from this size on are looked at for skipping; `None`: never (history is kept).
    skip_from: Option<usize>,
    /// Where in a batch a whole picture is looked for; `None`: by the size of the screen.
    window: Option<usize>,
    blank_ends: BlankEnds,
    /// Something visible happened.
    pub touched: bool,
    rules: Rules,
}

impl Front {
    pub(crate) fn new(size: Size, history: usize) -> Front {
        let guest = Guest::new(size, history);
        Front {
            state: State::new(guest.cols(), guest.rows()),
            guest,
            marks: Marks::default(),
            replies: Vec::new(),
            collector: Collector::default(),
            cut: Vec::new(),
            skip_from: (history == 0).then_some(SKIP_FROM),
            window: None,
            blank_ends: BlankEnds::default(),
            touched: false,
            rules: Rules::default(),
        }
    }

    pub(crate) fn resize(&mut self, size: Size) {
        if self.guest.resize(size) {
            self.forget_blank_ends();
            self.state.resized(self.guest.cols(), self.guest.rows());
            self.touched = true;
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let bytes = &bytes[self.finish(bytes)..];
        match self.skip_from {
            Some(from) if bytes.len() >= from => self.skim(bytes),
            _ => self.parse(bytes),
        }
    }

    /// While set, private strings of a keyframe are honoured.
    pub(crate) fn set_restoring(&mut self, on: bool) {
        self.collector.keep_apc = on;
    }

    pub(crate) fn take_replies(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.replies)
    }

    /// The bytes of a sequence or character whose end has not come yet.
    pub(crate) fn unfinished(&self) -> (&[u8], &[u8]) {
        (self.collector.unfinished(), &self.cut)
    }

    fn reply(&mut self, answer: &[u8]) {
        if self.replies.len() + answer.len() <= MAX_REPLIES {
            self.replies.extend_from_slice(answer);
        }
    }

    /// Whole reading, no skipping.
    fn parse(&mut self, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            at += if self.collector.in_ground() {
                self.ground(&bytes[at..])
            } else {
                self.sequence(&bytes[at..])
            };
        }
    }

    /// Reads on until no sequence and no character is open; returns how far.
    fn finish(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() && !self.in_ground() {
            at += if self.cut.is_empty() {
                self.sequence(&bytes[at..])
            } else {
                self.ground(&bytes[at..])
            };
        }
        at
    }

    fn in_ground(&self) -> bool {
        self.collector.in_ground() && self.cut.is_empty()
    }

    /// Takes at least one byte in ground state.
    #[inline]
    fn ground(&mut self, bytes: &[u8]) -> usize {
        if !self.cut.is_empty() {
            return self.mend(bytes);
        }
        match bytes[0] {
            0x20..=0x7e => {
                let end = scan::ascii_run(bytes);
                self.print_ascii(&bytes[..end]);
                end
            }
            0x1b => match self.quick_csi(bytes) {
                Some(len) => len,
                None => {
                    self.collector.step(0x1b);
                    1
                }
            },
            byte @ 0x00..=0x1f => {
                self.execute(byte);
                1
            }
            0x7f => {
                self.state.last_char = Some('\x7f');
                1
            }
            0x80.. => self.print_utf8(bytes),
        }
    }

    /// Completes the character that the last read cut.
    #[cold]
    fn mend(&mut self, bytes: &[u8]) -> usize {
        let had = self.cut.len();
        let mut joined = [0; 4];
        joined[..had].copy_from_slice(&self.cut);
        let more = bytes.len().min(joined.len() - had);
        joined[had..had + more].copy_from_slice(&bytes[..more]);
        let (c, len) = match utf8::decode(&joined[..had + more]) {
            Decoded::Cut => {
                self.cut.extend_from_slice(&bytes[..more]);
                return more;
            }
            Decoded::Char(c, len) => (c, len),
            // The bytes so far were the start of a character: all of them are one error.
            Decoded::Invalid(len) => (char::REPLACEMENT_CHARACTER, len),
        };
        self.cut.clear();
        self.print_char(c);
        len - had
    }

    /// Takes bytes while a sequence is open.
    fn sequence(&mut self, bytes: &[u8]) -> usize {
        let taken = self.collector.bulk(bytes);
        if taken > 0 {
            return taken;
        }
        match self.collector.step(bytes[0]) {
            Collected::More => {}
            Collected::Execute => self.execute(bytes[0]),
            Collected::Whole(kind) => {
                let sequence = self.collector.take();
                self.dispatch(kind, &sequence);
                self.collector.done(sequence);
            }
        }
        1
    }

    /// A C0 control. C1 controls do nothing, as in vte.
    fn execute(&mut self, byte: u8) {
        let term = &mut self.guest.term;
        match byte {
            b'\n' | 0x0b | 0x0c => self.line_feed(),
            b'\r' => {
                let cursor = &mut term.grid_mut().cursor;
                cursor.point.column = Column(0);
                cursor.input_needs_wrap = false;
                self.touched = true;
            }
            b'\t' => {
                term.put_tab(1);
                self.forget_blank_ends();
                self.touched = true;
            }
            0x08 => {
                term.backspace();
                self.touched = true;
            }
            0x07 => self.marks.push(Mark::Bell),
            0x0e => self.invoke(CharsetIndex::G1),
            0x0f => self.invoke(CharsetIndex::G0),
            _ => {}
        }
    }

    /// Cells may have changed in a way that is not followed.
    #[inline]
    fn forget_blank_ends(&mut self) {
        if self.rules.hold(Rule::BlankEndsForgotten) {
            self.blank_ends.forget();
        }
    }

    fn invoke(&mut self, charset: CharsetIndex) {
        self.state.charset = charset;
        self.guest.term.set_active_charset(charset);
    }

    #[inline]
    fn line_feed(&mut self) {
        self.touched = true;
        let rows = self.guest.rows();
        let grid = self.guest.term.grid_mut();
        let next = grid.cursor.point.line.0 as usize + 1;
        if next != self.state.region.end {
            if next < rows {
                grid.cursor.point.line += 1;
            }
        } else if self.state.region.is_empty() {
            // Both ends beyond the screen: nothing scrolls.
        } else {
            let region = Line(self.state.region.start as i32)..Line(next as i32);
            grid.scroll_up(&region, 1);
            self.forget_blank_ends();
        }
    }

    /// Text can be written into cells as it is: no insert mode, autowrap, ASCII charset.
    #[inline]
    fn plain_printing(&self) -> bool {
        let mode = *self.guest.term.mode() & (TermMode::LINE_WRAP | TermMode::INSERT);
        mode == TermMode::LINE_WRAP
            && self.guest.grid().cursor.charsets[self.state.charset] == StandardCharset::Ascii
    }
}

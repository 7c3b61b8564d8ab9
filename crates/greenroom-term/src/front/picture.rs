//! Fast-forward: what is painted over within the batch is not painted.
//!
//! In: a batch of bytes, nothing open. Out: the same screen as a full reading.
//!
//! A full-screen program paints row by row: cursor to the row's start, text, erase the rest. Take a
//! point P at such a positioning after which every row is written that way before anything else
//! happens to the grid. Then no cell that was on the screen at P is there afterwards, and P itself
//! sets the cursor. So what came before P need not be painted; what it *sets* (colours, modes,
//! titles, charsets) is applied, and reading goes on at P.
//!
//! As in `skip` a whitelist decides. Before P, movements and whatever only changes cells are
//! ignored; after P, until all rows are written, everything that is not text, a colour, a mode, a
//! positioning or an erase ends the attempt, and so does text that reaches the last column.
//! Deliberately absent: programs that paint by line feeds; those are `skip`'s.

use alacritty_terminal::term::TermMode;
use memchr::memchr;
use unicode_width::UnicodeWidthChar;

use super::Front;
use super::classify::{Class, classify};
use super::csi::{self, Params};
use super::rules::Rule;
use super::scan;
use super::skip::{MAX_SHORT, Stretch, Unseen, inserts, plain_csi};
use super::utf8::{self, Decoded};

/// A picture is looked for in the last so many bytes of a batch, plus two per cell: room for one
/// whole picture after the cut one at the start.
const WINDOW: usize = 4096;
/// A positioning is looked for among so many sequences: a coloured log has none.
const MAX_SOUGHT: usize = 32;
/// Pictures with more colours need more room; tried second.
const WIDER: usize = 4;

impl Front {
    /// Reads on to the last whole picture of the batch; returns how far.
    pub(super) fn skip_pictures(&mut self, bytes: &[u8]) -> usize {
        let Some(point) = self.last_picture(bytes) else { return 0 };
        let mut at = 0;
        for _ in 0..=MAX_SHORT {
            let stretch = Stretch::find(&bytes[at..point], self.rules, Unseen::PaintedOver);
            if at + stretch.end == point {
                if self.otherwise_placed() {
                    break;
                }
                self.apply(&bytes[at..], stretch.end, &stretch.applied);
                return point;
            }
            // Up to the barrier, and the barrier itself.
            self.parse(&bytes[at..at + stretch.end]);
            at += stretch.end;
            if self.in_ground() {
                at += self.ground(&bytes[at..]);
            }
            at += self.finish(&bytes[at..]);
            if at >= point {
                return at;
            }
        }
        self.parse(&bytes[at..point]);
        point + self.finish(&bytes[point..])
    }

    /// P: where every row begins to be written anew.
    fn last_picture(&self, bytes: &[u8]) -> Option<usize> {
        if self.otherwise_placed() {
            return None;
        }
        let window = self.window.unwrap_or(WINDOW + 2 * self.guest.rows() * self.guest.cols());
        [window, window * WIDER]
            .into_iter()
            .filter_map(|window| bytes.len().checked_sub(window))
            .map_while(|from| positioning(bytes, from))
            .find(|&point| self.repaints(&bytes[point..]))
    }

    /// Positions count from somewhere else, or text moves what it is written on.
    fn otherwise_placed(&self) -> bool {
        let mode = self.guest.term.mode();
        mode.contains(TermMode::ORIGIN) && self.rules.hold(Rule::OriginStops)
            || mode.contains(TermMode::INSERT) && self.rules.hold(Rule::InsertStops)
    }

    /// Whether the bytes, from a positioning on, write every row from its start to its end before
    /// they do anything else.
    fn repaints(&self, bytes: &[u8]) -> bool {
        let mut canvas = Canvas::new(self.guest.rows(), self.guest.cols());
        let spare = usize::from(!self.rules.hold(Rule::AllRows));
        let mut params = Params::new();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            at += match byte {
                0x20..=0x7e => {
                    let run = scan::ascii_run(&bytes[at..]);
                    canvas.col += run;
                    run
                }
                0x80.. => match utf8::decode(&bytes[at..]) {
                    Decoded::Char(c, len) => match c.width() {
                        Some(width @ 1..) => {
                            canvas.col += width;
                            len
                        }
                        _ => return false,
                    },
                    _ => return false,
                },
                0x1b => match csi::simple(&bytes[at..], &mut params) {
                    Some((b'm', len)) => len,
                    Some((b'H' | b'f', len)) => {
                        canvas.goto(params.or(0, 1), params.or(1, 1));
                        if !self.rules.hold(Rule::FirstColumn) {
                            canvas.whole = true;
                        }
                        len
                    }
                    Some((b'K', len)) => {
                        canvas.erase(params.or(0, 0));
                        len
                    }
                    _ => match classify(&bytes[at..], self.rules) {
                        (Class::Apply, len) if inserts(&bytes[at..at + len]) => return false,
                        (Class::Apply | Class::Sgr, len) => len,
                        _ => return false,
                    },
                },
                _ => return false,
            };
            if canvas.col >= canvas.cols && self.rules.hold(Rule::BeforeTheEdge) {
                return false;
            }
            if !self.rules.hold(Rule::RestErased) {
                canvas.erase(0);
            }
            if canvas.left <= spare {
                return true;
            }
        }
        false
    }
}

/// Which rows were written.
struct Canvas {
    done: Vec<bool>,
    left: usize,
    cols: usize,
    row: usize,
    col: usize,
    /// The row is being written from its first column on.
    whole: bool,
}

impl Canvas {
    fn new(rows: usize, cols: usize) -> Canvas {
        Canvas { done: vec![false; rows], left: rows, cols, row: 0, col: 0, whole: false }
    }

    /// From 1; too large means the last one.
    fn goto(&mut self, row: u16, col: u16) {
        self.row = usize::from(row).min(self.done.len()) - 1;
        self.col = usize::from(col).min(self.cols) - 1;
        self.whole = self.col == 0;
    }

    fn erase(&mut self, which: u16) {
        let all = which == 2 || which == 0 && self.whole;
        if all && !std::mem::replace(&mut self.done[self.row], true) {
            self.left -= 1;
        }
    }
}

/// The first cursor positioning at or after `from`. An ESC begins a sequence wherever it stands.
fn positioning(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    for _ in 0..MAX_SOUGHT {
        at += memchr(0x1b, &bytes[at..])?;
        if let Some((b'H' | b'f', _)) = plain_csi(&bytes[at..]) {
            return Some(at);
        }
        at += 1;
    }
    None
}

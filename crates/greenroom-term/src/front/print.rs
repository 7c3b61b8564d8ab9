//! Text into cells.
//!
//! In: runs of printable characters. Out: written cells, the cursor moved, exactly as the guest's
//! `input` would have done it character by character. Everything that is not plain (insert mode, no
//! autowrap, line drawing, halves of wide characters in the way) goes through `input` itself.
//! Deliberately absent: the guest's damage tracking; nobody reads it.

use alacritty_terminal::grid::Cursor;
use alacritty_terminal::index::Column;
use alacritty_terminal::term::cell::{Cell, Flags};
use unicode_width::UnicodeWidthChar;
use vte::ansi::Handler;

use super::Front;
use super::rules::Rule;
use super::utf8::{self, Decoded};

/// Combining marks in one cell. Far more than any script stacks; the guest has no limit and would
/// keep 34 MB in a cell.
pub(crate) const MAX_MARKS: usize = 32;

const WIDE_HALVES: Flags = Flags::WIDE_CHAR.union(Flags::WIDE_CHAR_SPACER);

impl Front {
    /// Printable ASCII, at least one byte.
    pub(super) fn print_ascii(&mut self, run: &[u8]) {
        self.touched = true;
        self.state.last_char = run.last().map(|&b| char::from(b));
        if self.plain_printing() || !self.rules.hold(Rule::PlainPrinting) {
            self.write(run);
        } else {
            self.forget_blank_ends();
            for &byte in run {
                self.guest.term.input(char::from(byte));
            }
        }
    }

    /// Text that starts with a byte that is not ASCII; takes at least one byte.
    pub(super) fn print_utf8(&mut self, bytes: &[u8]) -> usize {
        let (first, len) = match utf8::decode(bytes) {
            Decoded::Char(c, len) => (c, len),
            Decoded::Invalid(len) => {
                // A lone byte of the C1 range is a control without effect.
                if len > 1 || bytes[0] > 0x9f {
                    self.print_char(char::REPLACEMENT_CHARACTER);
                }
                return len;
            }
            Decoded::Cut => {
                if self.rules.hold(Rule::CutUtf8) {
                    self.cut.extend_from_slice(bytes);
                }
                return bytes.len();
            }
        };
        if width(first) == Some(1) && self.plain_printing() {
            self.print_narrow(first, bytes)
        } else {
            self.print_char(first);
            len
        }
    }

    /// A run of narrow characters, ASCII among them.
    fn print_narrow(&mut self, first: char, bytes: &[u8]) -> usize {
        let mut run = [first; 32];
        let mut count = 1;
        let mut at = first.len_utf8();
        while count < run.len()
            && let Some(&byte) = bytes.get(at)
        {
            let c = match byte {
                0x20..=0x7e => char::from(byte),
                0x80.. => match utf8::decode(&bytes[at..]) {
                    Decoded::Char(c, _) if width(c) == Some(1) => c,
                    _ => break,
                },
                _ => break,
            };
            run[count] = c;
            count += 1;
            at += c.len_utf8();
        }
        self.touched = true;
        self.state.last_char = Some(run[count - 1]);
        self.write(&run[..count]);
        at
    }

    /// Any one character.
    pub(super) fn print_char(&mut self, c: char) {
        if ('\u{80}'..='\u{9f}').contains(&c) {
            return;
        }
        self.state.last_char = Some(c);
        self.put(c);
    }

    /// As [`print_char`](Front::print_char), without becoming what REP repeats.
    pub(super) fn put(&mut self, c: char) {
        match width(c) {
            None => {}
            Some(0) => {
                self.touched = true;
                if self.marks_under_cursor() < MAX_MARKS {
                    self.forget_blank_ends();
                    self.guest.term.input(c);
                }
            }
            Some(2) if self.plain_printing() => {
                self.touched = true;
                self.write_wide(c);
            }
            Some(_) => {
                self.touched = true;
                self.forget_blank_ends();
                self.guest.term.input(c);
            }
        }
    }

    /// Writes narrow characters from the cursor on.
    #[inline]
    pub(super) fn write<T: Copy + Into<char>>(&mut self, mut text: &[T]) {
        let cols = self.guest.cols();
        let halves = if self.rules.hold(Rule::WideHalves) { WIDE_HALVES } else { Flags::empty() };
        while let Some(&first) = text.first() {
            if self.guest.grid().cursor.input_needs_wrap {
                self.wrap();
            }
            let grid = self.guest.term.grid_mut();
            let (line, col) = (grid.cursor.point.line, grid.cursor.point.column.0);
            let template = grid.cursor.template.clone();
            let end = cols.min(col + text.len());
            let cells = &mut grid[line][Column(col)..Column(end)];
            let written = match &template.extra {
                None => fill(cells, text, &template, halves),
                Some(_) => fill_linked(cells, text, &template, halves),
            };
            if written == 0 {
                // Half a wide character, or marks, in the way: overwriting them is the guest's
                // business.
                self.forget_blank_ends();
                self.guest.term.input(first.into());
                text = &text[1..];
                continue;
            }
            advance(&mut grid.cursor, col + written, cols);
            text = &text[written..];
            if self.rules.hold(Rule::BlankEndsGrow) {
                self.blank_ends.wrote(line.0 as usize, col + written);
            }
        }
    }

    fn write_wide(&mut self, c: char) {
        if self.guest.grid().cursor.input_needs_wrap {
            self.wrap();
        }
        let cols = self.guest.cols();
        let grid = self.guest.term.grid_mut();
        let point = grid.cursor.point;
        let col = point.column.0;
        if col + 1 >= cols {
            self.forget_blank_ends();
            return self.guest.term.input(c);
        }
        let template = grid.cursor.template.clone();
        let cells = &mut grid[point.line][Column(col)..Column(col + 2)];
        if cells.iter().any(|cell| cell.flags.intersects(WIDE_HALVES)) {
            self.forget_blank_ends();
            return self.guest.term.input(c);
        }
        let spacer = template.flags | Flags::WIDE_CHAR_SPACER;
        cells[0] = Cell { c, flags: template.flags | Flags::WIDE_CHAR, ..template.clone() };
        cells[1] = Cell { c: ' ', flags: spacer, ..template };
        self.blank_ends.wrote(point.line.0 as usize, col + 2);
        advance(&mut grid.cursor, col + 2, cols);
    }

    /// The guest's private `wrapline`, with autowrap known to be on.
    fn wrap(&mut self) {
        let end = self.state.region.end;
        let cols = self.guest.cols();
        let grid = self.guest.term.grid_mut();
        grid.cursor_cell().flags.insert(Flags::WRAPLINE);
        self.blank_ends.wrote(grid.cursor.point.line.0 as usize, cols);
        if grid.cursor.point.line.0 as usize + 1 >= end {
            self.line_feed();
        } else {
            grid.cursor.point.line += 1;
        }
        let cursor = &mut self.guest.term.grid_mut().cursor;
        cursor.point.column = Column(0);
        cursor.input_needs_wrap = false;
    }

    /// Marks already in the cell that a combining mark would go to.
    fn marks_under_cursor(&self) -> usize {
        let grid = self.guest.grid();
        let cursor = &grid.cursor;
        let row = &grid[cursor.point.line];
        let mut col = cursor.point.column;
        if !cursor.input_needs_wrap {
            col.0 = col.0.saturating_sub(1);
        }
        if row[col].flags.contains(Flags::WIDE_CHAR_SPACER) {
            col.0 = col.0.saturating_sub(1);
        }
        row[col].zerowidth().map_or(0, <[char]>::len)
    }
}

/// Puts the cursor behind what was written; at the edge it waits to wrap.
#[inline(always)]
fn advance(cursor: &mut Cursor<Cell>, to: usize, cols: usize) {
    cursor.point.column = Column(to.min(cols - 1));
    cursor.input_needs_wrap |= to >= cols;
}

/// Fills cells with text in the template's style up to the first that is not a plain cell.
#[inline(always)]
fn fill<T: Copy + Into<char>>(
    cells: &mut [Cell],
    text: &[T],
    template: &Cell,
    halves: Flags,
) -> usize {
    let (fg, bg, flags) = (template.fg, template.bg, template.flags);
    let mut written = 0;
    for (cell, &c) in cells.iter_mut().zip(text) {
        if cell.extra.is_some() || cell.flags.intersects(halves) {
            break;
        }
        cell.c = c.into();
        cell.fg = fg;
        cell.bg = bg;
        cell.flags = flags;
        written += 1;
    }
    written
}

/// As [`fill`], with a hyperlink or an underline colour in the style.
fn fill_linked<T: Copy + Into<char>>(
    cells: &mut [Cell],
    text: &[T],
    template: &Cell,
    halves: Flags,
) -> usize {
    let mut written = 0;
    for (cell, &c) in cells.iter_mut().zip(text) {
        if cell.flags.intersects(halves) {
            break;
        }
        *cell = Cell { c: c.into(), ..template.clone() };
        written += 1;
    }
    written
}

/// The width of a character that is no control. The common scripts are decided without the table.
#[inline]
fn width(c: char) -> Option<usize> {
    match c {
        ' '..='~' | '\u{a0}'..='\u{ac}' | '\u{ae}'..='\u{2ff}' => Some(1),
        '\u{2500}'..='\u{257f}' | '\u{400}'..='\u{482}' => Some(1),
        '\u{4e00}'..='\u{9fff}' | '\u{3041}'..='\u{3096}' | '\u{30a0}'..='\u{30ff}' => Some(2),
        _ => c.width(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortcut_agrees_with_the_table() {
        for c in '\0'..=char::MAX {
            assert_eq!(width(c), c.width(), "{c:?}");
        }
    }
}

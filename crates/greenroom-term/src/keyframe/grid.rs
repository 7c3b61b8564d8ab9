//! One grid as text and attributes.
//!
//! In: a grid. Out: sequences that paint it onto a blank one, then patches for cells that text
//! cannot make: halves of wide characters that lost the other half, tabs, wrap flags.

use alacritty_terminal::grid::{Dimensions, Grid, Row};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use unicode_width::UnicodeWidthChar;
use vte::ansi::{Color, NamedColor};

use super::Writer;
use super::patch::Patches;
use crate::frame::STYLE;

/// Shorter gaps are written as blanks: a movement is no shorter.
const MIN_GAP: usize = 4;

impl Writer {
    pub(super) fn paint(&mut self, grid: &Grid<Cell>) {
        let mut patches = Patches::default();
        let mut previous = None;
        for line in 0..grid.screen_lines() {
            self.meet_cursor(line, 0);
            let row = &grid[Line(line as i32)];
            let Some(last) = row[..].iter().rposition(|cell| !is_default(cell)) else { continue };
            if previous.is_some_and(|previous| previous + 1 == line) {
                if is_wrapped(&grid[Line(line as i32 - 1)]) {
                    self.wraps.push(self.out.len());
                }
                self.put("\r\n");
            } else {
                self.format(format_args!("\x1b[{}H", line + 1));
            }
            self.row(row, last + 1, line, &mut patches);
            previous = Some(line);
        }
        self.patch_cells(&patches);
    }

    fn row(&mut self, row: &Row<Cell>, end: usize, line: usize, patches: &mut Patches) {
        let mut col = 0;
        while col < end {
            self.meet_cursor(line, col);
            let cell = &row[Column(col)];
            let gap = gap(row, col, end);
            if gap >= MIN_GAP || (gap > 0 && col + gap == end) {
                self.gap(cell, gap, col + gap == end);
                for (at, cell) in row[Column(col)..Column(col + gap)].iter().enumerate() {
                    patches.expect(line, col + at, cell, ' ', Flags::empty());
                }
                col += gap;
                continue;
            }
            let (shown, pair) = self.glyph(row, col);
            let style = cell.flags & STYLE;
            if pair {
                patches.expect(line, col, cell, shown, style | Flags::WIDE_CHAR);
                let spacer = &row[Column(col + 1)];
                patches.expect(line, col + 1, spacer, ' ', style | Flags::WIDE_CHAR_SPACER);
                col += 2;
            } else {
                patches.expect(line, col, cell, shown, style);
                col += 1;
            }
        }
    }

    /// Prints one cell, or two that are a wide character. Says what it printed, and whether it was
    /// such a pair.
    pub(super) fn glyph(&mut self, row: &Row<Cell>, col: usize) -> (char, bool) {
        let cell = &row[Column(col)];
        self.pen(cell);
        let pair = is_pair(row, col);
        let printable = matches!(cell.c, ' '..='~') || cell.c.width() == Some(1);
        let shown = if pair || printable { cell.c } else { ' ' };
        self.out.push(shown);
        self.out.extend(cell.zerowidth().into_iter().flatten());
        (shown, pair)
    }

    /// Notes how much was written when what is painted next stands at the cursor or behind it.
    fn meet_cursor(&mut self, line: usize, col: usize) {
        if self.before_cursor.is_none() && self.cursor_at.is_some_and(|at| at <= (line, col)) {
            self.before_cursor = Some(self.out.len());
        }
    }

    /// Erased cells of one background.
    fn gap(&mut self, cell: &Cell, len: usize, last: bool) {
        if cell.bg != Color::Named(NamedColor::Background) {
            let mut erased = Cell { bg: cell.bg, ..Cell::default() };
            erased.set_hyperlink(self.pen.hyperlink());
            self.pen(&erased);
            self.format(format_args!("\x1b[{len}X"));
        }
        if !last {
            self.format(format_args!("\x1b[{len}C"));
        }
    }
}

/// Whether the line goes on in the next row.
fn is_wrapped(row: &Row<Cell>) -> bool {
    row[..].last().is_some_and(|cell| cell.flags.contains(Flags::WRAPLINE))
}

fn is_default(cell: &Cell) -> bool {
    cell.bg == Color::Named(NamedColor::Background) && cell.flags.is_empty() && is_erased(cell)
}

/// Looks as an erase leaves a cell, flags that only a patch can set aside.
fn is_erased(cell: &Cell) -> bool {
    cell.c == ' '
        && cell.fg == Color::Named(NamedColor::Foreground)
        && !cell.flags.intersects(STYLE)
        && is_bare(cell)
}

/// Nothing beside the character. (An empty extra is what the guest leaves of a cleared mark.)
fn is_bare(cell: &Cell) -> bool {
    cell.extra.is_none()
        || cell.zerowidth().is_none_or(<[char]>::is_empty)
            && cell.underline_color().is_none()
            && cell.hyperlink().is_none()
}

/// How many cells from `col` on are erased with one background.
fn gap(row: &Row<Cell>, col: usize, end: usize) -> usize {
    let bg = row[Column(col)].bg;
    row[Column(col)..Column(end)].iter().take_while(|cell| cell.bg == bg && is_erased(cell)).count()
}

/// A wide character and its other half, as printing it makes them.
pub(super) fn is_pair(row: &Row<Cell>, col: usize) -> bool {
    if col + 1 >= row.len() {
        return false;
    }
    let (cell, spacer) = (&row[Column(col)], &row[Column(col + 1)]);
    cell.flags.contains(Flags::WIDE_CHAR)
        && spacer.flags.contains(Flags::WIDE_CHAR_SPACER)
        && cell.c.width() == Some(2)
        && spacer.c == ' '
        && (cell.fg, cell.bg) == (spacer.fg, spacer.bg)
        && cell.flags & STYLE == spacer.flags & STYLE
        && spacer.zerowidth().is_none_or(<[char]>::is_empty)
        && cell.underline_color() == spacer.underline_color()
        && cell.hyperlink() == spacer.hyperlink()
}

//! Private strings of a keyframe: what no sequence can say.
//!
//! In: cells whose flags or character printing cannot make, cursors with a pending wrap, the
//! character that REP repeats. Out: `APC greenroom ; items ST`, and back.
//! Honoured only while a keyframe is restored: a program cannot use them. Values are checked all
//! the same, since a keyframe comes from a file.

use std::fmt::Write;

use alacritty_terminal::grid::Cursor;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};

use super::Writer;
use crate::front::Front;
use crate::lexer::collect::MAX_APC;

const PREFIX: &str = "\x1b_greenroom";

/// Items of one string; the longest item is 24 bytes.
const ITEMS: usize = MAX_APC / 24 - 2;

/// Cells to patch.
#[derive(Default)]
pub(super) struct Patches(Vec<(usize, usize, char, Flags)>);

impl Patches {
    /// Notes the cell if painting makes it something else.
    pub(super) fn expect(&mut self, line: usize, col: usize, cell: &Cell, c: char, flags: Flags) {
        if cell.c != c || cell.flags != flags {
            self.0.push((line, col, cell.c, cell.flags));
        }
    }
}

impl Writer {
    pub(super) fn patch_cells(&mut self, patches: &Patches) {
        if !self.private {
            return;
        }
        for some in patches.0.chunks(ITEMS) {
            let mut items = String::new();
            for (line, col, c, flags) in some {
                write!(items, ";c{line},{col},{:x},{:x}", u32::from(*c), flags.bits())
                    .expect("writing to a string does not fail");
            }
            self.format(format_args!("{PREFIX}{items}\x1b\\"));
        }
    }

    /// `k`: the cursor; `s`: the parked primary's saved cursor.
    pub(super) fn patch_cursor(&mut self, which: char, cursor: &Cursor<Cell>) {
        let (line, col) = (cursor.point.line.0, cursor.point.column.0);
        let wrap = u8::from(cursor.input_needs_wrap);
        if self.private {
            self.format(format_args!("{PREFIX};{which}{line},{col},{wrap}\x1b\\"));
        }
    }

    pub(super) fn patch_last_char(&mut self, c: Option<char>) {
        match c {
            _ if !self.private => {}
            Some(c) => self.format(format_args!("{PREFIX};p{:x}\x1b\\", u32::from(c))),
            None => self.format(format_args!("{PREFIX};p\x1b\\")),
        }
    }
}

impl Front {
    /// Applies a private string; whatever does not fit is passed over.
    pub(crate) fn patch(&mut self, sequence: &[u8]) {
        let text = std::str::from_utf8(sequence).unwrap_or_default();
        let Some(items) = text.strip_prefix(PREFIX) else { return };
        for item in items.split(';') {
            let _ = self.patch_item(item);
        }
    }

    fn patch_item(&mut self, item: &str) -> Option<()> {
        let (kind, values) = item.split_at_checked(1)?;
        let mut values = values.split(',');
        if kind == "p" {
            let code = u32::from_str_radix(values.next()?, 16).ok();
            self.state.last_char = code.and_then(char::from_u32);
            return Some(());
        }
        let line: usize = values.next()?.parse().ok().filter(|&line| line < self.guest.rows())?;
        let col: usize = values.next()?.parse().ok().filter(|&col| col < self.guest.cols())?;
        let value = values.next()?;
        let (line, col) = (Line(line as i32), Column(col));
        if kind == "c" {
            let c = char::from_u32(u32::from_str_radix(value, 16).ok()?)?;
            let flags = u16::from_str_radix(values.next()?, 16).ok()?;
            let cell = &mut self.guest.term.grid_mut()[line][col];
            cell.c = c;
            cell.flags = Flags::from_bits(flags)?;
            return Some(());
        }
        let cursor = match kind {
            "k" => &mut self.guest.term.grid_mut().cursor,
            "s" => &mut self.guest.parked_mut()?.saved_cursor,
            _ => return None,
        };
        cursor.point.line = line;
        cursor.point.column = col;
        cursor.input_needs_wrap = value == "1";
        Some(())
    }
}

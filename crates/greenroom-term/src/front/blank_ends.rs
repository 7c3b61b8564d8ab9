//! Which rows are blank from where on.
//!
//! In: erases to the end of a line, writes, and word of anything else that touches cells. Out: how
//! far the next erase must go. A full-screen program writes a row and erases its rest, frame after
//! frame, and the rest was blank already: not touching it again is a third of the work saved.
//! Deliberately absent: cleverness. An act that is neither a plain write nor such an erase makes
//! everything forgotten.

use vte::ansi::Color;

#[derive(Debug, Default)]
pub(super) struct BlankEnds {
    /// Rows noted in an older epoch are forgotten.
    epoch: u64,
    rows: Vec<BlankEnd>,
}

#[derive(Clone, Copy, Debug)]
struct BlankEnd {
    epoch: u64,
    /// Blank from here on,
    col: usize,
    /// in this colour.
    bg: Color,
}

impl BlankEnds {
    /// Something may have touched any cell.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.epoch += 1;
    }

    /// Cells of the row up to `end` were written.
    #[inline]
    pub(super) fn wrote(&mut self, row: usize, end: usize) {
        if let Some(tail) = self.rows.get_mut(row) {
            tail.col = tail.col.max(end);
        }
    }

    /// The row is erased from `col` on: gives the column up to which there is something to do.
    #[inline]
    pub(super) fn erase(&mut self, row: usize, col: usize, bg: Color, cols: usize) -> usize {
        let tail = BlankEnd { epoch: self.epoch, col, bg };
        if row >= self.rows.len() {
            // A row of no epoch: the first is 0.
            self.rows.resize(row + 1, BlankEnd { epoch: u64::MAX, col: 0, bg });
        }
        let old = std::mem::replace(&mut self.rows[row], tail);
        if old.epoch == self.epoch && old.bg == bg { old.col.clamp(col, cols) } else { cols }
    }
}

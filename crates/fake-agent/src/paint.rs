//! Frames: finished lines above, a live region below.
//!
//! In: lines that are finished, and the live region (spinner, box or dialog) as a whole each time.
//! Out: bytes of one synchronized frame. On the main screen finished lines are printed once and
//! scroll away, as agents do it; on the alternate screen every frame paints all rows. Deliberately
//! absent: diffing; programs like this repaint, and hosts must cope with it.

use std::collections::VecDeque;

use crate::line::{Line, Style};

/// Lines kept for a repaint after a change of size; older ones are only in the terminal's history.
const MAX_KEPT: usize = 2000;
const SYNC_BEGIN: &[u8] = b"\x1b[?2026h\x1b[?25l";
const SYNC_END: &[u8] = b"\x1b[?2026l";

#[derive(Default)]
pub(crate) struct Live {
    pub lines: Vec<Line>,
    /// Row and column within the lines; hidden without.
    pub cursor: Option<(usize, usize)>,
}

enum Item {
    Line(Line),
    Raw(Vec<u8>),
    /// Paints nothing and is never repeated.
    Mark(Vec<u8>),
}

pub(crate) struct View {
    alternate: bool,
    cols: usize,
    rows: usize,
    kept: VecDeque<Item>,
    /// How many of the kept items, from the end, are not yet on the screen.
    fresh: usize,
    /// Rows from the top of the live region to the cursor.
    above_cursor: usize,
    out: Vec<u8>,
}

impl View {
    pub(crate) fn new(alternate: bool, (cols, rows): (usize, usize)) -> Self {
        let kept = VecDeque::new();
        Self { alternate, cols, rows, kept, fresh: 0, above_cursor: 0, out: Vec::new() }
    }

    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// Bytes that paint nothing: modes, marks, the title. They follow the lines committed before:
    /// a mark that says "the answer ends here" must not come before the answer.
    pub(crate) fn emit(&mut self, bytes: &[u8]) {
        if self.fresh == 0 {
            self.out.extend_from_slice(bytes);
        } else {
            self.keep(Item::Mark(bytes.to_vec()));
        }
    }

    pub(crate) fn commit(&mut self, line: Line) {
        self.keep(Item::Line(line));
    }

    /// Bytes printed among the finished lines; they should end with CR LF.
    pub(crate) fn raw(&mut self, bytes: Vec<u8>) {
        self.keep(Item::Raw(bytes));
    }

    /// Forgets where everything was: the next frame paints all that is kept.
    pub(crate) fn resize(&mut self, (cols, rows): (usize, usize)) {
        (self.cols, self.rows) = (cols, rows);
        self.fresh = self.kept.len();
        self.above_cursor = 0;
        self.out.extend_from_slice(b"\x1b[2J\x1b[3J\x1b[H");
    }

    /// Adds a frame with this live region to the bytes to write.
    pub(crate) fn frame(&mut self, mut live: Live) {
        let surplus = live.lines.len().saturating_sub(self.rows);
        live.lines.drain(..surplus);
        live.cursor = live
            .cursor
            .map(|(row, col)| (row.saturating_sub(surplus), col.min(self.cols.saturating_sub(1))));
        self.out.extend_from_slice(SYNC_BEGIN);
        if self.alternate {
            self.paint_all(&live);
        } else {
            self.paint_below(&live);
        }
        if live.cursor.is_some() {
            self.out.extend_from_slice(b"\x1b[?25h");
        }
        self.out.extend_from_slice(SYNC_END);
    }

    /// Takes the live region away, so that the shell's prompt follows the last finished line.
    pub(crate) fn clear_live(&mut self) {
        self.frame(Live::default());
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    fn keep(&mut self, item: Item) {
        self.kept.push_back(item);
        self.fresh += 1;
        // What was not yet painted must not be lost.
        while self.kept.len() > MAX_KEPT.max(self.fresh) {
            self.kept.pop_front();
        }
    }

    fn painted(&mut self) {
        self.fresh = 0;
        self.kept.retain(|item| !matches!(item, Item::Mark(_)));
    }

    fn paint_below(&mut self, live: &Live) {
        self.out.push(b'\r');
        move_by(&mut self.out, self.above_cursor, 'A');
        self.out.extend_from_slice(b"\x1b[J");
        let first = self.kept.len() - self.fresh;
        for item in self.kept.range(first..) {
            match item {
                Item::Raw(bytes) | Item::Mark(bytes) => self.out.extend_from_slice(bytes),
                Item::Line(line) => {
                    for row in line.wrap(self.cols, 2) {
                        row.paint(&mut self.out);
                        self.out.extend_from_slice(b"\r\n");
                    }
                }
            }
        }
        self.painted();
        for (at, line) in live.lines.iter().enumerate() {
            if at > 0 {
                self.out.extend_from_slice(b"\r\n");
            }
            line.cut(self.cols).paint(&mut self.out);
        }
        let last = live.lines.len().saturating_sub(1);
        let (row, col) = live.cursor.unwrap_or((last, 0));
        move_by(&mut self.out, last - row.min(last), 'A');
        self.out.push(b'\r');
        move_by(&mut self.out, col, 'C');
        self.above_cursor = row.min(last);
    }

    fn paint_all(&mut self, live: &Live) {
        let room = self.rows.saturating_sub(live.lines.len());
        let mut above: VecDeque<Line> = VecDeque::new();
        let first_fresh = self.kept.len() - self.fresh;
        for item in self.kept.range(first_fresh..) {
            if let Item::Raw(bytes) = item {
                self.out.extend_from_slice(bytes);
            }
        }
        for item in self.kept.iter().rev() {
            let Item::Line(line) = item else { continue };
            for row in line.wrap(self.cols, 2).into_iter().rev() {
                above.push_front(row);
            }
            if above.len() >= room {
                break;
            }
        }
        let surplus = above.len().saturating_sub(room);
        let shown = above.len() - surplus;
        let rows = above.into_iter().skip(surplus).chain(live.lines.iter().cloned());
        let blank = std::iter::repeat_with(Line::default);
        self.out.extend_from_slice(b"\x1b[H");
        for (at, row) in rows.chain(blank).take(self.rows).enumerate() {
            if at > 0 {
                self.out.extend_from_slice(b"\r\n");
            }
            row.cut(self.cols).paint(&mut self.out);
            self.out.extend_from_slice(b"\x1b[K");
        }
        for item in self.kept.range(first_fresh..) {
            if let Item::Mark(bytes) = item {
                self.out.extend_from_slice(bytes);
            }
        }
        self.painted();
        if let Some((row, col)) = live.cursor {
            let at = format!("\x1b[{};{}H", shown + row + 1, col + 1);
            self.out.extend_from_slice(at.as_bytes());
        }
    }
}

/// A border around lines, each cut or filled to the inner width.
pub(crate) fn boxed(lines: Vec<Line>, inner: usize, style: Style) -> Vec<Line> {
    let bar = "─".repeat(inner + 2);
    let mut out = vec![Line::new(&format!("╭{bar}╮"), style)];
    out.extend(lines.into_iter().map(|line| {
        let mut row = Line::new("│ ", style);
        row.append(line.fit(inner));
        row.with(" │", style)
    }));
    out.push(Line::new(&format!("╰{bar}╯"), style));
    out
}

fn move_by(out: &mut Vec<u8>, count: usize, direction: char) {
    if count > 0 {
        out.extend_from_slice(format!("\x1b[{count}{direction}").as_bytes());
    }
}

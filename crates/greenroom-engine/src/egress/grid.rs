//! Screens with their secrets masked, on the grid: what is painted piecewise stands together there.
//!
//! In: rows. Out: the same rows with as many cells. Rows that the terminal wrapped are one text.
//! Programs that wrap by themselves, within a frame of their own, leave no such mark: known values
//! are looked for across those rows too.

use std::sync::Arc;

use greenroom_term::{Frame, Row};
use unicode_width::UnicodeWidthChar;

use crate::egress::Edit;
use crate::egress::literals::Literals;
use crate::egress::redactor::{PAUSE_CHARS, Redactor, Shield};
use crate::egress::rules::Rules;
use crate::egress::scanner::{Scanner, Sought};

/// Rows as one text, and where each run of it came from.
#[derive(Default)]
struct Joined {
    text: Vec<u8>,
    /// Place in the text, row, run, and how much of the run's text was left out in front.
    pieces: Vec<(usize, usize, usize, usize)>,
}

/// What to mask: row, run, bytes of its text.
type Spot = (usize, usize, std::ops::Range<usize>);

pub(super) fn frame(shield: &Arc<Shield>, frame: &Arc<Frame>) -> Arc<Frame> {
    let cursor = (usize::from(frame.cursor.row), usize::from(frame.cursor.col));
    let spots = spots(shield, &frame.rows, usize::from(frame.size.cols()), Some(cursor));
    let title = frame.title.as_ref().map(|title| text(shield, title));
    let same_title = title == frame.title;
    let links = linked(shield, &frame.rows);
    if spots.is_empty() && same_title && !links {
        return frame.clone();
    }
    let mut masked = Frame { title, ..Frame::clone(frame) };
    mask(&mut masked.rows, spots);
    if links {
        mask_links(shield, &mut masked.rows);
    }
    Arc::new(masked)
}

pub(super) fn rows(shield: &Arc<Shield>, mut rows: Vec<Row>, cols: usize) -> Vec<Row> {
    let spots = spots(shield, &rows, cols, None);
    mask(&mut rows, spots);
    if linked(shield, &rows) {
        mask_links(shield, &mut rows);
    }
    rows
}

/// A whole text.
pub(super) fn text(shield: &Arc<Shield>, text: &str) -> String {
    let bytes = Redactor::whole(shield.clone(), text.as_bytes());
    if bytes == text.as_bytes() {
        return text.to_owned();
    }
    let visible: Vec<u8> = bytes.into_iter().filter(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&visible).into_owned()
}

fn linked(shield: &Arc<Shield>, rows: &[Row]) -> bool {
    let links = rows.iter().flat_map(|row| &row.runs).filter_map(|run| run.style.link.as_deref());
    links.into_iter().any(|link| text(shield, link) != link)
}

fn mask_links(shield: &Arc<Shield>, rows: &mut [Row]) {
    for run in rows.iter_mut().flat_map(|row| &mut row.runs) {
        if let Some(link) = &run.style.link {
            run.style.link = Some(text(shield, link).into());
        }
    }
}

fn spots(shield: &Shield, rows: &[Row], cols: usize, cursor: Option<(usize, usize)>) -> Vec<Spot> {
    let mut spots = Vec::new();
    for (range, joined) in joined_rows(rows, cols) {
        joined.find(&shield.sought(), false, &mut spots);
        // A program that stopped in the middle of a word may go on, whatever stood there before.
        if let Some((row, col)) = cursor.filter(|(row, _)| range.contains(row)) {
            let end = rows[row].runs.last().map_or(0, |run| usize::from(run.col + run.width));
            // In the last column it stands on what was printed there.
            let col = if col + 1 == cols && end == cols { cols } else { col };
            let mut before = Joined::default();
            for (index, full) in rows.iter().enumerate().take(row).skip(range.start) {
                before.row(index, full, cols);
            }
            before.row_to(row, &rows[row], col);
            before.find(&shield.sought(), true, &mut spots);
        }
    }
    if !shield.literals().is_empty() {
        across(shield.literals(), rows, &mut spots);
    }
    spots
}

/// Known values that a program wrapped by itself.
fn across(literals: &Literals, rows: &[Row], spots: &mut Vec<Spot>) {
    let mut joined = Joined::default();
    for (index, row) in rows.iter().enumerate() {
        joined.core(index, row);
    }
    let (none, heads) = (Rules::default(), literals.heads());
    joined.find(&Sought { rules: &none, literals, heads: &heads, all: false }, false, spots);
}

impl Joined {
    /// A row with its gaps as blanks, up to `cols`.
    fn row(&mut self, index: usize, row: &Row, cols: usize) {
        let mut col = 0;
        for (number, run) in row.runs.iter().enumerate() {
            self.blanks(usize::from(run.col.saturating_sub(col)));
            self.pieces.push((self.text.len(), index, number, 0));
            self.text.extend_from_slice(run.text.as_bytes());
            col = run.col + run.width;
        }
        self.blanks(cols.saturating_sub(usize::from(col)));
    }

    /// What of a row stands before a column.
    fn row_to(&mut self, index: usize, row: &Row, end: usize) {
        let mut col = 0;
        for (number, run) in row.runs.iter().enumerate() {
            let from = usize::from(run.col);
            if from >= end {
                break;
            }
            self.blanks(from.saturating_sub(col));
            self.pieces.push((self.text.len(), index, number, 0));
            col = from;
            for c in run.text.chars() {
                col += c.width().unwrap_or(0);
                if col > end {
                    return;
                }
                self.text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        self.blanks(end.saturating_sub(col));
    }

    /// A row without blanks and lines of boxes around its text.
    fn core(&mut self, index: usize, row: &Row) {
        let is_frame = |c: char| c == ' ' || c == '|' || ('\u{2500}'..='\u{257f}').contains(&c);
        let start = self.text.len();
        let pieces = self.pieces.len();
        for (number, run) in row.runs.iter().enumerate() {
            let at_start = self.text.len() == start;
            let text = if at_start { run.text.trim_start_matches(is_frame) } else { &run.text };
            if !text.is_empty() {
                self.pieces.push((self.text.len(), index, number, run.text.len() - text.len()));
                self.text.extend_from_slice(text.as_bytes());
            }
        }
        let kept = std::str::from_utf8(&self.text[start..])
            .map_or(usize::MAX, |text| text.trim_end_matches(is_frame).len());
        self.text.truncate(start.saturating_add(kept));
        while self.pieces.len() > pieces
            && self.pieces.last().is_some_and(|piece| piece.0 >= self.text.len())
        {
            self.pieces.pop();
        }
    }

    fn blanks(&mut self, count: usize) {
        self.text.extend(std::iter::repeat_n(b' ', count));
    }

    fn find(&self, sought: &Sought<'_>, open: bool, spots: &mut Vec<Spot>) {
        let mut scanner = Scanner::default();
        let mut found = Vec::new();
        scanner.push(&self.text, 0);
        let pending = scanner.scan_all(sought, !open, &mut found);
        let mut ranges: Vec<(usize, usize)> =
            found.iter().map(|finding| (finding.from as usize, finding.to as usize)).collect();
        if let Some(pending) = pending {
            let chars = PAUSE_CHARS.min(pending.whole / 4);
            ranges.push((scanner.after(pending.from, chars) as usize, self.text.len()));
        }
        for (from, to) in ranges {
            self.locate(from, to, spots);
        }
    }

    fn locate(&self, from: usize, to: usize, spots: &mut Vec<Spot>) {
        for (number, &(start, row, run, skipped)) in self.pieces.iter().enumerate() {
            let end = self.pieces.get(number + 1).map_or(self.text.len(), |next| next.0);
            let (from, to) = (from.max(start), to.min(end));
            if from < to {
                spots.push((row, run, from - start + skipped..to - start + skipped));
            }
        }
    }
}

fn mask(rows: &mut [Row], spots: Vec<Spot>) {
    for (row, run, range) in spots {
        let Some(run) = rows.get_mut(row).and_then(|row| row.runs.get_mut(run)) else { continue };
        // A mask may be shorter than the text it replaced, so another mask may have moved this
        // one's place: bytes are kept by padding with what a terminal ignores, and dropped at the
        // end.
        let mut out = String::with_capacity(run.text.len());
        for (at, c) in run.text.char_indices() {
            if range.contains(&at) && c != ' ' && c != '\0' {
                let width = c.width().unwrap_or(0);
                out.extend(std::iter::repeat_n('*', width));
                out.extend(std::iter::repeat_n('\0', c.len_utf8().saturating_sub(width)));
            } else {
                out.push(c);
            }
        }
        run.text = out;
    }
    for run in rows.iter_mut().flat_map(|row| &mut row.runs) {
        if run.text.contains('\0') {
            run.text.retain(|c| c != '\0');
        }
    }
}

/// Masks what `found` finds in rows that belong together.
pub(super) fn mask_where(
    rows: &mut [Row],
    cols: usize,
    found: impl Fn(&[u8]) -> Vec<std::ops::Range<usize>>,
) {
    let mut spots = Vec::new();
    for (_, joined) in joined_rows(rows, cols) {
        for range in found(&joined.text) {
            joined.locate(range.start, range.end, &mut spots);
        }
    }
    mask(rows, spots);
}

/// As many columns, all of them masked.
pub(super) fn stars(text: &str) -> String {
    let mask = |c: char| match c {
        ' ' | '\t' => c.to_string(),
        _ => "*".repeat(c.width().unwrap_or(0)),
    };
    text.chars().map(mask).collect()
}

/// Rows that belong together, with their text; those without text are left out.
pub(super) fn groups(rows: &[Row], cols: usize) -> Vec<(std::ops::Range<usize>, String)> {
    joined_rows(rows, cols)
        .map(|(range, joined)| (range, String::from_utf8_lossy(&joined.text).trim_end().to_owned()))
        .filter(|(_, text)| !text.is_empty())
        .collect()
}

/// Rows that go on in the next, as one.
fn joined_rows(
    rows: &[Row],
    cols: usize,
) -> impl Iterator<Item = (std::ops::Range<usize>, Joined)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let wrapped = rows.get(from..)?.iter().take_while(|row| row.wrapped).count();
        let to = (from + wrapped + 1).min(rows.len());
        let range = std::mem::replace(&mut from, to)..to;
        let mut joined = Joined::default();
        for (index, row) in rows.iter().enumerate().take(to).skip(range.start) {
            joined.row(index, row, if index + 1 < to { cols } else { 0 });
        }
        (!range.is_empty()).then_some((range, joined))
    })
}

/// Shows rows as a filter wants them shown.
pub(super) fn show(rows: &mut [Row], cols: usize, edit: &Edit) {
    match edit {
        Edit::Pass => {}
        Edit::Drop => rows.iter_mut().for_each(|row| row.runs.clear()),
        Edit::Mask => {
            let all = rows.iter().enumerate().flat_map(|(row, cells)| {
                cells
                    .runs
                    .iter()
                    .enumerate()
                    .map(move |(run, there)| (row, run, 0..there.text.len()))
            });
            let all = all.collect();
            mask(rows, all);
        }
        Edit::Replace(text) => {
            let mut rest = text.chars();
            for row in rows {
                let (mut line, mut width) = (String::new(), 0);
                while let Some(c) = rest.clone().next() {
                    let columns = c.width().unwrap_or(0);
                    if width + columns > cols {
                        break;
                    }
                    line.push(c);
                    width += columns;
                    rest.next();
                }
                let style = greenroom_term::Style::default();
                row.runs.clear();
                if !line.is_empty() {
                    let width = u16::try_from(width).unwrap_or(u16::MAX);
                    row.runs.push(greenroom_term::Run { col: 0, width, text: line, style });
                }
            }
        }
    }
}

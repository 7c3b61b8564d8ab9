//! Frames as the wire's snapshots.

use greenroom_engine::Seq;
use greenroom_engine::egress::Filtered;
use greenroom_engine::term::{
    Color, CursorShape, Frame, MouseMode, Row, Run, Style, Underline, paint,
};
use greenroom_engine::wait::{Region, region_text};
use greenroom_protocol::api::screen as wire;
use greenroom_protocol::api::screen::SnapshotFormat;
use std::sync::Arc;
use unicode_width::UnicodeWidthChar;

/// Everything but the content.
pub(crate) fn blank(frame: &Frame, seq: Seq) -> wire::Snapshot {
    wire::Snapshot {
        size: super::size(frame.size),
        cursor: wire::Cursor {
            row: frame.cursor.row,
            col: frame.cursor.col,
            visible: frame.cursor.visible,
            shape: Some(
                match frame.cursor.shape {
                    CursorShape::Block => "block",
                    CursorShape::Underline => "underline",
                    CursorShape::Bar => "bar",
                }
                .to_owned(),
            ),
        },
        sequence: seq.0,
        alternate_screen: frame.alternate,
        application_cursor: frame.modes.app_cursor,
        application_keypad: frame.modes.app_keypad,
        title: frame.title.clone(),
        bracketed_paste: frame.modes.bracketed_paste,
        mouse: frame.modes.mouse != MouseMode::Off,
        ..wire::Snapshot::default()
    }
}

/// The screen, or a part of it, in one form.
pub(crate) fn snapshot(
    frame: &Filtered<Arc<Frame>>,
    seq: Seq,
    format: SnapshotFormat,
    region: Option<wire::Region>,
) -> wire::Snapshot {
    let frame = frame.get();
    let area = area(region);
    let mut shot = blank(frame, seq);
    shot.region = region;
    match format {
        SnapshotFormat::Text => shot.text = Some(text(frame, region)),
        SnapshotFormat::Rows => shot.rows = Some(rows(frame, area)),
        SnapshotFormat::Runs => shot.runs = Some(runs(frame, area)),
        SnapshotFormat::Cells => {
            shot.plain_text = Some(text(frame, region));
            shot.cells = Some(cells(frame, area));
        }
        SnapshotFormat::Ansi => shot.ansi = Some(paint::ansi_rows(in_area(frame, area))),
    }
    shot
}

/// Rows joined by newlines, without trailing blanks and, for the whole screen, trailing empty rows.
pub(crate) fn text(frame: &Frame, region: Option<wire::Region>) -> String {
    match region {
        None => greenroom_engine::wait::frame_text(frame),
        Some(_) => region_text(frame, area(region)),
    }
}

/// Only the rows of `new` that differ from `old`.
pub(crate) fn changed_rows(old: &Frame, new: &Frame) -> Vec<u16> {
    (0..)
        .zip(&new.rows)
        .filter(|(number, row)| old.rows.get(usize::from(*number)) != Some(row))
        .map(|(number, _)| number)
        .collect()
}

fn area(region: Option<wire::Region>) -> Region {
    let region = region.unwrap_or_default();
    Region {
        row: region.row,
        col: region.col,
        rows: region.rows.unwrap_or(u16::MAX),
        cols: region.cols.unwrap_or(u16::MAX),
    }
}

fn in_area(frame: &Frame, area: Region) -> &[Row] {
    let first = usize::from(area.row).min(frame.rows.len());
    let last = first.saturating_add(area.rows.into()).min(frame.rows.len());
    &frame.rows[first..last]
}

fn rows(frame: &Frame, area: Region) -> Vec<wire::RowText> {
    (area.row..)
        .zip(in_area(frame, area))
        .map(|(number, row)| {
            let one = Region { row: number, rows: 1, ..area };
            wire::RowText { row: number, text: region_text(frame, one), wrapped: row.wrapped }
        })
        .collect()
}

fn runs(frame: &Frame, area: Region) -> Vec<wire::RowRuns> {
    let last = area.col.saturating_add(area.cols);
    let inside = |run: &&Run| run.col < last && run.col.saturating_add(run.width) > area.col;
    (area.row..)
        .zip(in_area(frame, area))
        .map(|(number, row)| wire::RowRuns {
            row: number,
            runs: row.runs.iter().filter(inside).map(run).collect(),
            wrapped: row.wrapped,
        })
        .collect()
}

fn run(run: &Run) -> wire::Run {
    let style = &run.style;
    wire::Run {
        col: run.col,
        width: run.width,
        text: run.text.clone(),
        style: wire::Style {
            fg: color(style.fg),
            bg: color(style.bg),
            bold: style.bold,
            dim: style.dim,
            italic: style.italic,
            underline: underline(style.underline).map(str::to_owned),
            inverse: style.inverse,
            hidden: style.hidden,
            strike: style.strike,
            link: style.link.as_deref().map(str::to_owned),
        },
    }
}

fn underline(underline: Underline) -> Option<&'static str> {
    match underline {
        Underline::None => None,
        Underline::Single => Some("single"),
        Underline::Double => Some("double"),
        Underline::Curly => Some("curly"),
        Underline::Dotted => Some("dotted"),
        Underline::Dashed => Some("dashed"),
    }
}

fn color(color: Color) -> wire::Color {
    match color {
        Color::Default => wire::Color::Default,
        Color::Indexed(index) => wire::Color::Indexed(index),
        Color::Rgb(r, g, b) => wire::Color::Rgb(r, g, b),
    }
}

fn cells(frame: &Frame, area: Region) -> Vec<wire::Cell> {
    let width = frame.size.cols();
    let last = area.col.saturating_add(area.cols).min(width);
    let mut cells = Vec::new();
    for (number, row) in (area.row..).zip(in_area(frame, area)) {
        let mut line = vec![wire::Cell::default(); width.into()];
        for run in &row.runs {
            fill(&mut line, run);
        }
        for (col, mut cell) in (0..width).zip(line) {
            if (area.col..last).contains(&col) {
                cell.row = number;
                cell.col = col;
                cells.push(cell);
            }
        }
    }
    cells
}

/// Puts a run's characters into its cells.
fn fill(line: &mut [wire::Cell], run: &Run) {
    let style = cell_style(&run.style);
    let mut col = usize::from(run.col);
    let end = (col + usize::from(run.width)).min(line.len());
    for cell in &mut line[col.min(end)..end] {
        cell.style = style.clone();
    }
    let mut last: Option<usize> = None;
    for c in run.text.chars() {
        let width = c.width().unwrap_or(0);
        if width == 0 {
            // A mark sits in the cell of what it marks.
            if let Some(cell) = last.and_then(|last| line.get_mut(last)) {
                cell.text.push(c);
            }
            continue;
        }
        let Some(cell) = line.get_mut(col).filter(|_| col < end) else { break };
        if c != ' ' {
            cell.text.push(c);
        }
        cell.wide = width == 2;
        if width == 2
            && let Some(next) = line.get_mut(col + 1)
        {
            next.wide_continuation = true;
        }
        last = Some(col);
        col += width;
    }
}

fn cell_style(style: &Style) -> wire::CellStyle {
    wire::CellStyle {
        foreground: color(style.fg),
        background: color(style.bg),
        bold: style.bold,
        dim: style.dim,
        italic: style.italic,
        underline: style.underline != Underline::None,
        inverse: style.inverse,
        hidden: style.hidden,
        strike: style.strike,
        link: style.link.as_deref().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use greenroom_engine::term::{Screen, Size};

    use super::*;

    fn frame(text: &str) -> Frame {
        let mut screen = Screen::new(Size::new(10, 3).unwrap());
        screen.feed(text.as_bytes());
        screen.frame()
    }

    #[test]
    fn every_cell_is_there_once() {
        let frame = frame("a\u{6f22}e\u{301}\x1b[1mB\r\n  x");
        let cells = cells(&frame, area(None));
        assert_eq!(cells.len(), 30);
        let texts: Vec<&str> = cells.iter().take(6).map(|cell| cell.text.as_str()).collect();
        assert_eq!(texts, ["a", "\u{6f22}", "", "e\u{301}", "B", ""]);
        assert!(cells[1].wide && cells[2].wide_continuation && !cells[0].wide);
        assert!(cells[4].style.bold && !cells[3].style.bold);
        assert_eq!((cells[12].row, cells[12].col, cells[12].text.as_str()), (1, 2, "x"));
    }

    #[test]
    fn a_region_is_cut_out_of_every_form() {
        let frame = frame("abcdef\r\nghijkl");
        let region = Some(wire::Region { row: 1, col: 2, rows: Some(1), cols: Some(3) });
        assert_eq!(text(&frame, region), "ijk");
        assert_eq!(rows(&frame, area(region))[0].text, "ijk");
        let found: Vec<String> = cells(&frame, area(region)).into_iter().map(|c| c.text).collect();
        assert_eq!(found, ["i", "j", "k"]);
        let beyond = Some(wire::Region { row: 99, col: 99, rows: None, cols: None });
        assert_eq!(text(&frame, beyond), "");
        assert!(rows(&frame, area(beyond)).is_empty() && runs(&frame, area(beyond)).is_empty());
    }

    #[test]
    fn only_changed_rows_differ() {
        let old = frame("one\r\ntwo");
        let new = frame("one\r\nTWO\r\nthree");
        assert_eq!(changed_rows(&old, &new), [1, 2]);
        assert!(changed_rows(&new, &new).is_empty());
    }
}

//! What two terminals show, in a form that can be compared.

use std::fmt::Write;

use alacritty_terminal::grid::{Cursor, Dimensions, Grid};
use alacritty_terminal::index::Line;
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::Cell;
use vte::ansi::{CharsetIndex, Color, CursorStyle, Rgb};

use super::super::Front;
use super::super::print::MAX_MARKS;
use crate::input_modes::{MouseEncoding, MouseMode};
use crate::mark::Mark;
use crate::state::State;

#[derive(Debug, PartialEq)]
pub struct Picture {
    pub cells: Vec<Vec<CellView>>,
    pub cursor: String,
    pub saved: String,
    pub mode: TermMode,
    pub mouse: MouseMode,
    pub encoding: MouseEncoding,
    pub style: CursorStyle,
    pub colors: Vec<(usize, Rgb)>,
    pub keyboard: u8,
    pub replies: String,
    pub marks: Vec<Mark>,
    pub total_lines: usize,
    /// Our own state; the stock guest has none to compare.
    pub own: Option<State>,
}

/// A cell without what may differ: generated link ids, marks past our limit, empty extras.
#[derive(Debug, PartialEq)]
pub struct CellView {
    c: char,
    fg: Color,
    bg: Color,
    flags: u16,
    marks: Vec<char>,
    underline: Option<Color>,
    link: Option<String>,
}

impl Picture {
    /// Modes that we keep ourselves.
    pub const OWN_MODES: TermMode = TermMode::MOUSE_MODE
        .union(TermMode::SGR_MOUSE)
        .union(TermMode::UTF8_MOUSE)
        .union(TermMode::KITTY_KEYBOARD_PROTOCOL);

    /// Takes replies and marks.
    pub fn of(front: &mut Front) -> Picture {
        let mut replies = String::from_utf8(front.take_replies()).expect("replies are text");
        // What the stock guest does not answer.
        let version = concat!("\x1bP>|greenroom ", env!("CARGO_PKG_VERSION"), "\x1b\\");
        replies = replies.replace(version, "");
        let marks = front.marks.take();
        let grid = front.guest.grid();
        Picture {
            cells: cells(grid),
            cursor: cursor(&grid.cursor),
            saved: cursor(&grid.saved_cursor),
            mode: *front.guest.term.mode() & !Picture::OWN_MODES,
            mouse: front.state.mouse,
            encoding: front.state.mouse_encoding,
            style: front.state.cursor_style.unwrap_or_default(),
            colors: front.state.colors.iter().map(|(&index, &rgb)| (index, rgb)).collect(),
            keyboard: front.state.keyboard_flags(front.guest.on_alternate()),
            replies: without_colors(&replies),
            marks,
            total_lines: grid.total_lines(),
            own: Some(front.state.clone()),
        }
    }
}

/// The stock guest's events do not say which colour it would have told.
fn without_colors(replies: &str) -> String {
    let mut text = String::new();
    let mut rest = replies;
    while let Some((before, after)) = rest.split_once("rgb:") {
        text += before;
        text += "rgb:0000/0000/0000";
        rest = &after[14..];
    }
    text + rest
}

pub fn cells(grid: &Grid<Cell>) -> Vec<Vec<CellView>> {
    (0..grid.screen_lines())
        .map(|line| grid[Line(line as i32)][..].iter().map(view).collect())
        .collect()
}

fn view(cell: &Cell) -> CellView {
    let link = cell.hyperlink().map(|link| {
        let id = if link.id().ends_with("_alacritty") { "" } else { link.id() };
        format!("{id} {}", link.uri())
    });
    let marks = cell.zerowidth().unwrap_or_default();
    CellView {
        c: cell.c,
        fg: cell.fg,
        bg: cell.bg,
        flags: cell.flags.bits(),
        marks: marks[..marks.len().min(MAX_MARKS)].to_vec(),
        underline: cell.underline_color(),
        link,
    }
}

pub fn cursor(cursor: &Cursor<Cell>) -> String {
    use CharsetIndex::{G0, G1, G2, G3};
    let charsets = [G0, G1, G2, G3].map(|index| cursor.charsets[index]);
    let wrap = cursor.input_needs_wrap;
    format!("{:?} wrap {wrap} {charsets:?} {:?}", cursor.point, view(&cursor.template))
}

/// Empty when equal.
pub fn differences(expected: &Picture, found: &Picture) -> String {
    let mut text = String::new();
    let mut note = |what: &str, expected: String, found: String| {
        if expected != found {
            writeln!(text, "{what}:\n  expected {expected}\n  found    {found}").unwrap();
        }
    };
    for (line, (a, b)) in expected.cells.iter().zip(&found.cells).enumerate() {
        for (col, (a, b)) in a.iter().zip(b).enumerate() {
            if a != b {
                note(&format!("cell {line},{col}"), format!("{a:?}"), format!("{b:?}"));
            }
        }
    }
    if expected.own.is_some() && found.own.is_some() {
        note("state", format!("{:?}", expected.own), format!("{:?}", found.own));
    }
    note("cursor", expected.cursor.clone(), found.cursor.clone());
    note("saved", expected.saved.clone(), found.saved.clone());
    note("mode", format!("{:?}", expected.mode), format!("{:?}", found.mode));
    note("mouse", format!("{:?}", expected.mouse), format!("{:?}", found.mouse));
    note("encoding", format!("{:?}", expected.encoding), format!("{:?}", found.encoding));
    note("style", format!("{:?}", expected.style), format!("{:?}", found.style));
    note("colors", format!("{:?}", expected.colors), format!("{:?}", found.colors));
    note("keyboard", expected.keyboard.to_string(), found.keyboard.to_string());
    note("replies", expected.replies.clone(), found.replies.clone());
    note("marks", format!("{:?}", expected.marks), format!("{:?}", found.marks));
    note("lines", expected.total_lines.to_string(), found.total_lines.to_string());
    text
}

/// The parts of two fronts that are not on the active screen.
pub fn parked_differences(live: &Front, restored: &Front) -> String {
    let view = |front: &Front| {
        let parked = front.guest.parked().map(|grid| {
            (cells(grid), cursor(&grid.cursor), cursor(&grid.saved_cursor))
        });
        let alt = (!front.guest.on_alternate()).then(|| cursor(front.guest.alt_saved()));
        format!("{parked:?} {alt:?}")
    };
    let (a, b) = (view(live), view(restored));
    if a == b { String::new() } else { format!("parked:\n  {a}\n  {b}\n") }
}

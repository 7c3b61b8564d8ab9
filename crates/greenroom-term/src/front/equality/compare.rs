//! What two terminals show, in a form that can be compared.

use std::fmt::{Debug, Display, Write};

use alacritty_terminal::grid::{Cursor, Dimensions, Grid};
use alacritty_terminal::index::{Line, Point};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::Cell;
use vte::ansi::{CharsetIndex, Color, CursorStyle, Rgb, StandardCharset};

use super::super::Front;
use super::super::print::MAX_MARKS;
use crate::input_modes::{MouseEncoding, MouseMode};
use crate::mark::Mark;
use crate::state::State;

#[derive(Debug, PartialEq)]
pub struct Picture {
    pub cells: Vec<Vec<CellView>>,
    pub cursor: CursorView,
    pub saved: CursorView,
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
        let replies = String::from_utf8(front.take_replies()).expect("replies are text");
        let mut marks = front.marks.take();
        // The stock guest tells of these only.
        marks.retain(|mark| matches!(mark, Mark::Title(_) | Mark::Bell));
        marks.dedup_by(|a, b| *a == Mark::Bell && *b == Mark::Bell);
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
            replies: stock_replies(&without_colors(&replies)),
            marks,
            total_lines: grid.total_lines(),
            own: Some(front.state.clone()),
        }
    }
}

/// Only what the stock guest answers as well, and as we do.
pub fn stock_replies(replies: &str) -> String {
    let mut kept = String::new();
    let mut rest = replies;
    while !rest.is_empty() {
        let string = rest.starts_with("\x1b]") || rest.starts_with("\x1bP");
        let len = if string {
            rest.find("\x1b\\")
                .map(|at| at + 2)
                .into_iter()
                .chain(rest.find('\x07').map(|at| at + 1))
                .min()
        } else {
            rest[2..].find(|c: char| c.is_ascii_alphabetic()).map(|at| at + 3)
        };
        let (reply, tail) = rest.split_at(len.expect("replies are whole"));
        if !is_own(reply) {
            kept += reply;
        }
        rest = tail;
    }
    kept
}

fn is_own(reply: &str) -> bool {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| reply.starts_with(prefix));
    starts(&["\x1bP", "\x1b]L", "\x1b]l", "\x1b[>4;"])
        || reply.ends_with('x')
        || reply.ends_with('t') && starts(&["\x1b[1t", "\x1b[3;", "\x1b[5;", "\x1b[6;", "\x1b[9;"])
        || reply.starts_with("\x1b[?") && (reply.ends_with('n') || reply.ends_with('R'))
        || reply.ends_with('y')
            && starts(&[
                "\x1b[?9;",
                "\x1b[?47;",
                "\x1b[?66;",
                "\x1b[?67;",
                "\x1b[?10",
                "\x1b[?2026;",
            ])
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

/// Place, pending wrap, charsets, style.
pub type CursorView = (Point, bool, [StandardCharset; 4], CellView);

pub fn cursor(cursor: &Cursor<Cell>) -> CursorView {
    use CharsetIndex::{G0, G1, G2, G3};
    let charsets = [G0, G1, G2, G3].map(|index| cursor.charsets[index]);
    (cursor.point, cursor.input_needs_wrap, charsets, view(&cursor.template))
}

/// Empty when equal.
pub fn differences(expected: &Picture, found: &Picture) -> String {
    let mut text = String::new();
    for (line, (a, b)) in expected.cells.iter().zip(&found.cells).enumerate() {
        for (col, (a, b)) in a.iter().zip(b).enumerate() {
            note(&mut text, &format_args!("cell {line},{col}"), a, b);
        }
    }
    if expected.own.is_some() && found.own.is_some() {
        note(&mut text, &"state", &expected.own, &found.own);
    }
    note(&mut text, &"cursor", &expected.cursor, &found.cursor);
    note(&mut text, &"saved", &expected.saved, &found.saved);
    note(&mut text, &"mode", &expected.mode, &found.mode);
    note(&mut text, &"mouse", &expected.mouse, &found.mouse);
    note(&mut text, &"encoding", &expected.encoding, &found.encoding);
    note(&mut text, &"style", &expected.style, &found.style);
    note(&mut text, &"colors", &expected.colors, &found.colors);
    note(&mut text, &"keyboard", &expected.keyboard, &found.keyboard);
    note(&mut text, &"replies", &expected.replies, &found.replies);
    note(&mut text, &"marks", &expected.marks, &found.marks);
    note(&mut text, &"lines", &expected.total_lines, &found.total_lines);
    text
}

fn note<T: PartialEq + Debug>(text: &mut String, what: &dyn Display, expected: &T, found: &T) {
    if expected != found {
        writeln!(text, "{what}:\n  expected {expected:?}\n  found    {found:?}").unwrap();
    }
}

/// The parts of two fronts that are not on the active screen.
pub fn parked_differences(live: &Front, restored: &Front) -> String {
    let view = |front: &Front| {
        let parked = front
            .guest
            .parked()
            .map(|grid| (cells(grid), cursor(&grid.cursor), cursor(&grid.saved_cursor)));
        let alt = (!front.guest.on_alternate()).then(|| cursor(front.guest.alt_saved()));
        format!("{parked:?} {alt:?}")
    };
    let (a, b) = (view(live), view(restored));
    if a == b { String::new() } else { format!("parked:\n  {a}\n  {b}\n") }
}

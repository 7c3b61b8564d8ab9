//! A typed picture of the screen.
//!
//! In: a grid of the guest. Out: [`Frame`], [`Row`], [`Run`], [`Style`]: plain data that shares
//! nothing with the screen and names no type of the guest.
//! Deliberately absent: colours of a theme. `Color::Indexed(1)` stays an index: whoever draws it
//! knows the palette.

use std::sync::Arc;

use alacritty_terminal::grid::{Grid, Row as GridRow};
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::cell::{Cell, Flags};
use vte::ansi::{Color as AnsiColor, NamedColor};

use crate::input_modes::InputModes;
use crate::size::Size;

/// The whole visible screen at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub size: Size,
    pub cursor: Cursor,
    pub alternate: bool,
    pub title: Option<String>,
    pub modes: InputModes,
    pub rows: Vec<Row>,
}

/// Where the cursor stands, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub row: u16,
    pub col: u16,
    pub visible: bool,
    pub shape: CursorShape,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CursorShape {
    #[default]
    Block,
    Underline,
    Bar,
}

/// One line: its runs from left to right, without trailing blanks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub runs: Vec<Run>,
    /// The text goes on in the next row: the line was too long, the program did not break it.
    pub wrapped: bool,
}

impl Row {
    /// The text of the row, gaps as blanks, trailing blanks trimmed.
    pub fn text(&self) -> String {
        let mut text = self.text_between(0, u16::MAX);
        text.truncate(text.trim_end_matches(' ').len());
        text
    }

    /// The text between two columns, gaps as blanks.
    pub fn text_between(&self, from: u16, to: u16) -> String {
        let mut text = String::new();
        let mut at = from;
        for run in &self.runs {
            let end = run.col + run.width;
            if end <= from || run.col >= to {
                continue;
            }
            text.extend(std::iter::repeat_n(' ', usize::from(run.col.saturating_sub(at))));
            if run.text.chars().count() == usize::from(run.width) {
                let skip = usize::from(from.saturating_sub(run.col));
                let take = usize::from(end.min(to) - run.col.max(from));
                text.extend(run.text.chars().skip(skip).take(take));
            } else {
                // Wide or combined characters: whole runs, no cutting inside.
                text.push_str(&run.text);
            }
            at = end;
        }
        text
    }
}

/// Neighbouring cells of one style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub col: u16,
    /// Width in cells, which is not the number of characters.
    pub width: u16,
    pub text: String,
    pub style: Style,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Style {
    pub fg: Color,
    pub bg: Color,
    pub bold: bool,
    pub dim: bool,
    pub italic: bool,
    pub underline: Underline,
    pub inverse: bool,
    pub hidden: bool,
    pub strike: bool,
    /// The URI of an OSC 8 hyperlink.
    pub link: Option<Arc<str>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Color {
    #[default]
    Default,
    Indexed(u8),
    Rgb(u8, u8, u8),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Underline {
    #[default]
    None,
    Single,
    Double,
    Curly,
    Dotted,
    Dashed,
}

/// The flags that SGR sets.
pub(crate) const STYLE: Flags = Flags::INVERSE
    .union(Flags::BOLD)
    .union(Flags::ITALIC)
    .union(Flags::ALL_UNDERLINES)
    .union(Flags::DIM)
    .union(Flags::HIDDEN)
    .union(Flags::STRIKEOUT);

/// Rows `from..to` of a grid; negative lines are history.
pub(crate) fn rows(grid: &Grid<Cell>, from: i32, to: i32) -> Vec<Row> {
    (from..to).map(|line| row(&grid[Line(line)])).collect()
}

/// The same characters as [`Row::text`] without building runs.
pub(crate) fn push_row_text(cells: &GridRow<Cell>, text: &mut String) {
    let start = text.len();
    for cell in &cells[..] {
        if !cell.flags.intersects(Flags::WIDE_CHAR_SPACER | Flags::LEADING_WIDE_CHAR_SPACER) {
            push_cell(cell, text);
        }
    }
    let kept = text[start..].trim_end_matches(' ').len();
    text.truncate(start + kept);
}

fn row(cells: &GridRow<Cell>) -> Row {
    let mut runs: Vec<Run> = Vec::new();
    let mut last: Option<&Cell> = None;
    for (col, cell) in cells[..].iter().enumerate() {
        let col = col as u16;
        if cell.flags.contains(Flags::WIDE_CHAR_SPACER)
            && let Some(run) = runs.last_mut()
            && run.col + run.width == col
        {
            run.width += 1;
            continue;
        }
        match runs.last_mut() {
            Some(run) if last.is_some_and(|last| same_style(last, cell)) => {
                run.width += 1;
                push_cell(cell, &mut run.text);
            }
            _ => {
                let mut text = String::new();
                push_cell(cell, &mut text);
                runs.push(Run { col, width: 1, text, style: style(cell) });
            }
        }
        last = Some(cell);
    }
    trim(&mut runs);
    let wrapped = cells[Column(cells.len() - 1)].flags.contains(Flags::WRAPLINE);
    Row { runs, wrapped }
}

/// A tab leaves its control character in the cell it started from; readers want a blank.
fn push_cell(cell: &Cell, text: &mut String) {
    text.push(if cell.c == '\t' { ' ' } else { cell.c });
    text.extend(cell.zerowidth().into_iter().flatten());
}

/// Unstyled blanks at the end of a row say nothing.
fn trim(runs: &mut Vec<Run>) {
    while let Some(run) = runs.last_mut() {
        if run.style != Style::default() {
            return;
        }
        let kept = run.text.trim_end_matches(' ').len();
        run.width -= (run.text.len() - kept) as u16;
        run.text.truncate(kept);
        if !run.text.is_empty() {
            return;
        }
        runs.pop();
    }
}

fn same_style(a: &Cell, b: &Cell) -> bool {
    a.fg == b.fg
        && a.bg == b.bg
        && (a.flags & STYLE) == (b.flags & STYLE)
        && (a.extra.is_none() && b.extra.is_none() || a.hyperlink() == b.hyperlink())
}

fn style(cell: &Cell) -> Style {
    let has = |flag| cell.flags.contains(flag);
    Style {
        fg: color(cell.fg),
        bg: color(cell.bg),
        bold: has(Flags::BOLD),
        dim: has(Flags::DIM),
        italic: has(Flags::ITALIC),
        underline: underline(cell.flags),
        inverse: has(Flags::INVERSE),
        hidden: has(Flags::HIDDEN),
        strike: has(Flags::STRIKEOUT),
        link: cell.hyperlink().map(|link| Arc::from(link.uri())),
    }
}

pub(crate) const UNDERLINES: [(Flags, Underline); 5] = [
    (Flags::UNDERLINE, Underline::Single),
    (Flags::DOUBLE_UNDERLINE, Underline::Double),
    (Flags::UNDERCURL, Underline::Curly),
    (Flags::DOTTED_UNDERLINE, Underline::Dotted),
    (Flags::DASHED_UNDERLINE, Underline::Dashed),
];

fn underline(flags: Flags) -> Underline {
    let found = UNDERLINES.into_iter().find(|(flag, _)| flags.contains(*flag));
    found.map(|(_, kind)| kind).unwrap_or_default()
}

fn color(color: AnsiColor) -> Color {
    match color {
        AnsiColor::Indexed(index) => Color::Indexed(index),
        AnsiColor::Spec(rgb) => Color::Rgb(rgb.r, rgb.g, rgb.b),
        AnsiColor::Named(name) if (name as usize) <= NamedColor::BrightWhite as usize => {
            Color::Indexed(name as u8)
        }
        AnsiColor::Named(_) => Color::Default,
    }
}

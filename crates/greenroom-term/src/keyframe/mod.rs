//! Keyframes: the screen as an escape stream.
//!
//! In: a front. Out: bytes that make a new screen of the same size equal to it, hidden state and
//! unfinished sequence included. There are two forms. Ours, for journals, says the little that no
//! sequence can say (`patch`) in private strings, which a screen honours only while it is being
//! restored. The one for viewers has ordinary sequences only, because terminals do print or use
//! strings they do not know: there a wrap that is pending is made by printing the cell before it
//! once more, last of all.
//! The stream assumes a terminal just reset. Deliberately absent: history.

mod grid;
mod patch;

use std::fmt::Write;

use alacritty_terminal::grid::{Cursor, Grid};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::Cell;
use vte::ansi::{CharsetIndex, NamedColor, StandardCharset};

use crate::frame::STYLE;
use crate::front::{Front, cursor_style_number};
use crate::guest::Guest;
use crate::sgr;
use crate::state::State;

pub(crate) fn write(front: &Front) -> Vec<u8> {
    write_annotated(front).bytes
}

/// A keyframe, and where in it things are that its bytes do not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnnotatedKeyframe {
    pub bytes: Vec<u8>,
    /// So many of the bytes paint what stands before the cursor.
    pub to_cursor: usize,
    /// Line ends (CR LF) in it between rows that are one line.
    pub wraps: Vec<usize>,
}

pub(crate) fn write_annotated(front: &Front) -> AnnotatedKeyframe {
    write_with(front, Writer { private: true, ..Writer::default() })
}

/// For terminals that are not ours.
pub(crate) fn write_public(front: &Front) -> Vec<u8> {
    write_with(front, Writer::default()).bytes
}

fn write_with(front: &Front, mut writer: Writer) -> AnnotatedKeyframe {
    let guest = &front.guest;
    let state = &front.state;
    match guest.parked() {
        None => {
            writer.excursion(guest.alt_saved(), &state.keyboard[1]);
            writer.keyboard(&state.keyboard[0]);
            writer.active_grid(guest.grid());
        }
        Some(primary) => {
            writer.keyboard(&state.keyboard[0]);
            writer.paint(primary);
            writer.cursor(&primary.cursor, Some(primary), 0);
            writer.put("\x1b[?1049h");
            writer.parked_cursor(primary);
            writer.plain_pen();
            writer.put("\x1b[2J");
            writer.keyboard(&state.keyboard[1]);
            writer.active_grid(guest.grid());
        }
    }
    let to_cursor = writer.before_cursor.unwrap_or(writer.out.len());
    let wraps = std::mem::take(&mut writer.wraps);
    writer.globals(state);
    writer.modes(*guest.term.mode(), state);
    writer.active_cursor(guest, state);
    let mut bytes = writer.out.into_bytes();
    let (sequence, character) = front.unfinished();
    bytes.extend_from_slice(sequence);
    bytes.extend_from_slice(character);
    AnnotatedKeyframe { bytes, to_cursor, wraps }
}

#[derive(Default)]
struct Writer {
    out: String,
    /// What no sequence can say is said in private strings.
    private: bool,
    /// The style that text written now would have.
    pen: Cell,
    /// The charsets as designated so far.
    charsets: [bool; 4],
    /// The active cursor's line and column, while its grid is painted, and what was written when it
    /// was met.
    cursor_at: Option<(usize, usize)>,
    before_cursor: Option<usize>,
    wraps: Vec<usize>,
}

const INDEXES: [CharsetIndex; 4] =
    [CharsetIndex::G0, CharsetIndex::G1, CharsetIndex::G2, CharsetIndex::G3];

impl Writer {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn format(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.out.write_fmt(arguments).expect("writing to a string does not fail");
    }

    /// The alternate screen's own state while the primary is shown.
    fn excursion(&mut self, saved: &Cursor<Cell>, keyboard: &[u8]) {
        if *saved == Cursor::default() && keyboard.is_empty() {
            return;
        }
        self.put("\x1b[?1049h");
        self.keyboard(keyboard);
        self.saved(saved, None);
        self.put("\x1b[?1049l");
        // Each screen has its own pen and charsets; the primary's are still untouched.
        self.pen = Cell::default();
        self.charsets = [false; 4];
    }

    fn active_grid(&mut self, grid: &Grid<Cell>) {
        let cursor = &grid.cursor;
        let line = usize::try_from(cursor.point.line.0).unwrap_or(0);
        self.cursor_at = Some((line, cursor.point.column.0 + usize::from(cursor.input_needs_wrap)));
        self.paint(grid);
        self.cursor_at = None;
        self.saved(&grid.saved_cursor, Some(grid));
    }

    fn saved(&mut self, saved: &Cursor<Cell>, grid: Option<&Grid<Cell>>) {
        if *saved != Cursor::default() {
            self.cursor(saved, grid, 0);
            self.put("\x1b7");
        }
    }

    /// Pen, charsets, place. Rows count from `top`. On a grid a wrap that is pending is made anew.
    fn cursor(&mut self, cursor: &Cursor<Cell>, grid: Option<&Grid<Cell>>, top: usize) {
        let line = usize::try_from(cursor.point.line.0).unwrap_or(0);
        let col = cursor.point.column.0;
        let row = |grid: &'_ Grid<Cell>| grid[cursor.point.line].clone();
        let row = grid.filter(|_| cursor.input_needs_wrap && !self.private).map(row);
        match row.filter(|row| col + 1 == row.len()) {
            Some(row) => {
                let from = if col > 0 && grid::is_pair(&row, col - 1) { col - 1 } else { col };
                self.designate(|_| false);
                self.place(line, from, top);
                self.glyph(&row, from);
                self.look(cursor);
            }
            None => {
                self.look(cursor);
                self.place(line, col, top);
            }
        }
        if cursor.input_needs_wrap {
            self.patch_cursor('k', cursor);
        }
    }

    fn look(&mut self, cursor: &Cursor<Cell>) {
        self.pen(&cursor.template);
        self.designate(|index| cursor.charsets[index] != StandardCharset::Ascii);
    }

    fn place(&mut self, line: usize, col: usize, top: usize) {
        self.format(format_args!("\x1b[{};{}H", line.saturating_sub(top) + 1, col + 1));
    }

    /// The primary's saved cursor was set by the switch to the alternate screen; a size change
    /// since then may have moved it apart from the cursor.
    fn parked_cursor(&mut self, primary: &Grid<Cell>) {
        if primary.saved_cursor != primary.cursor {
            self.patch_cursor('s', &primary.saved_cursor);
        }
    }

    fn plain_pen(&mut self) {
        self.pen(&Cell::default());
        self.designate(|_| false);
    }

    fn designate(&mut self, drawing: impl Fn(CharsetIndex) -> bool) {
        for (at, introducer) in "()*+".chars().enumerate() {
            let wanted = drawing(INDEXES[at]);
            if self.charsets[at] != wanted {
                let set = if wanted { '0' } else { 'B' };
                self.format(format_args!("\x1b{introducer}{set}"));
                self.charsets[at] = wanted;
            }
        }
    }

    /// Makes `style`'s attributes the ones in force.
    fn pen(&mut self, style: &Cell) {
        let pen = &self.pen;
        let bare = pen.extra.is_none() && style.extra.is_none();
        if bare
            && (pen.fg, pen.bg) == (style.fg, style.bg)
            && pen.flags & STYLE == style.flags & STYLE
        {
            return;
        }
        let same_link = pen.hyperlink() == style.hyperlink();
        if pen.fg != style.fg
            || pen.bg != style.bg
            || pen.flags & STYLE != style.flags & STYLE
            || pen.underline_color() != style.underline_color()
        {
            let sgr = sgr::of_cell(style);
            self.format(format_args!("\x1b[{}m", if sgr == "0" { "" } else { &sgr }));
        }
        if !same_link {
            match style.hyperlink() {
                Some(link) => {
                    self.format(format_args!("\x1b]8;id={};{}\x1b\\", link.id(), link.uri()));
                }
                None => self.put("\x1b]8;;\x1b\\"),
            }
        }
        self.pen = style.clone();
    }

    fn keyboard(&mut self, stack: &[u8]) {
        for flags in stack {
            self.format(format_args!("\x1b[>{flags}u"));
        }
    }

    fn globals(&mut self, state: &State) {
        if !state.tabs_are_default() {
            self.put("\x1b[3g");
            for (col, _) in state.tabs.iter().enumerate().filter(|(_, stop)| **stop) {
                self.format(format_args!("\x1b[{}G\x1bH", col + 1));
            }
        }
        for title in &state.titles {
            self.title(title.as_deref());
            self.put("\x1b[22t");
        }
        self.title(state.title.as_deref());
        for (&index, color) in &state.colors {
            let rgb =
                format_args!("rgb:{:02x}/{:02x}/{:02x}", color.r, color.g, color.b).to_string();
            match index.checked_sub(NamedColor::Foreground as usize) {
                None => self.format(format_args!("\x1b]4;{index};{rgb}\x1b\\")),
                Some(dynamic) => self.format(format_args!("\x1b]{};{rgb}\x1b\\", 10 + dynamic)),
            }
        }
        if state.modify_other_keys != 0 {
            self.format(format_args!("\x1b[>4;{}m", state.modify_other_keys));
        }
        if let Some(style) = state.cursor_style {
            self.format(format_args!("\x1b[{} q", cursor_style_number(style)));
        }
    }

    fn title(&mut self, title: Option<&str>) {
        if let Some(title) = title {
            self.format(format_args!("\x1b]2;{title}\x1b\\"));
        }
    }

    /// Every mode that is not as after a reset; origin and insert mode come with the cursor.
    fn modes(&mut self, mode: TermMode, state: &State) {
        for (flag, sequence) in [
            (TermMode::APP_CURSOR, "\x1b[?1h"),
            (TermMode::APP_KEYPAD, "\x1b="),
            (TermMode::BRACKETED_PASTE, "\x1b[?2004h"),
            (TermMode::FOCUS_IN_OUT, "\x1b[?1004h"),
            (TermMode::LINE_FEED_NEW_LINE, "\x1b[20h"),
        ] {
            if mode.contains(flag) {
                self.put(sequence);
            }
        }
        for (flag, sequence) in [
            (TermMode::SHOW_CURSOR, "\x1b[?25l"),
            (TermMode::LINE_WRAP, "\x1b[?7l"),
            (TermMode::ALTERNATE_SCROLL, "\x1b[?1007l"),
            (TermMode::URGENCY_HINTS, "\x1b[?1042l"),
        ] {
            if !mode.contains(flag) {
                self.put(sequence);
            }
        }
        let mouse = [state.mouse.private_mode(), state.mouse_encoding.private_mode()];
        for number in mouse.into_iter().flatten() {
            self.format(format_args!("\x1b[?{number}h"));
        }
        if state.backarrow {
            self.put("\x1b[?67h");
        }
    }

    fn active_cursor(&mut self, guest: &Guest, state: &State) {
        let grid = guest.grid();
        let cursor = &grid.cursor;
        self.region(state, guest.rows());
        if guest.term.mode().contains(TermMode::ORIGIN) {
            // Positions are relative from here on.
            self.put("\x1b[?6h");
            self.cursor(cursor, Some(grid), state.region.start);
            // The cursor may even be outside the region, which no position can say.
            self.patch_cursor('k', cursor);
        } else {
            self.cursor(cursor, Some(grid), 0);
        }
        if guest.term.mode().contains(TermMode::INSERT) {
            self.put("\x1b[4h");
        }
        match state.charset {
            CharsetIndex::G0 => {}
            CharsetIndex::G1 => self.put("\x0e"),
            // Nothing that we read invokes G2 or G3.
            CharsetIndex::G2 | CharsetIndex::G3 => {}
        }
        self.patch_last_char(state.last_char);
        if state.sync_update {
            self.put("\x1b[?2026h");
        }
    }

    fn region(&mut self, state: &State, rows: usize) {
        if state.region_is_full(rows) {
            return;
        }
        let (top, bottom) = (state.region.start, state.region.end);
        // A region that reaches the bottom may have been set beyond it, and then be a single row
        // or none, which cannot be asked for by its true numbers.
        let bottom = if bottom == rows { top.max(rows) + 2 } else { bottom };
        self.format(format_args!("\x1b[{};{}r", top + 1, bottom));
    }
}

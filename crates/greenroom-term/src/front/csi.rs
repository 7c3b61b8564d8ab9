//! Common CSI sequences, parsed in place.
//!
//! In: bytes from an ESC on. Out: the sequence done and its length, or `None`, which hands it to
//! the lexer: anything private, with intermediates, with colons, with controls inside, cut by the
//! end of the batch, or with a final byte that is not listed here.
//! Also here: the clamps for sequences whose cost a program could choose (REP, CHT, CBT).

use alacritty_terminal::Term;
use alacritty_terminal::event::VoidListener;
use alacritty_terminal::index::{Column, Line};
use alacritty_terminal::term::TermMode;
use alacritty_terminal::term::cell::Flags;
use unicode_width::UnicodeWidthChar;
use vte::ansi::{
    Attr, ClearMode, Color, Handler, LineClearMode, NamedColor, Rgb, TabulationClearMode,
};

use super::Front;
use super::rules::Rule;

/// vte's limit; a longer list makes it ignore the sequence.
const MAX_PARAMS: usize = 32;

/// The parameters of one sequence.
pub(super) struct Params {
    values: [u16; MAX_PARAMS],
    len: usize,
}

impl Params {
    #[inline]
    pub(super) fn new() -> Params {
        Params { values: [0; MAX_PARAMS], len: 0 }
    }

    /// vte's reading of a parameter: absent and zero are the default.
    #[inline]
    pub(super) fn or(&self, index: usize, default: u16) -> u16 {
        match self.values[..self.len].get(index) {
            Some(&value) if value != 0 => value,
            _ => default,
        }
    }

    pub(super) fn starts_with_reset(&self) -> bool {
        self.values[0] == 0
    }

    #[inline]
    fn count(&self) -> usize {
        self.or(0, 1).into()
    }
}

/// `ESC [ digits and semicolons final`: fills `params`, gives the final byte and the length.
#[inline]
pub(super) fn simple(bytes: &[u8], params: &mut Params) -> Option<(u8, usize)> {
    if bytes.get(1) != Some(&b'[') {
        return None;
    }
    params.len = 0;
    let mut value = 0u32;
    let mut at = 2;
    loop {
        match *bytes.get(at)? {
            // Saturating, as vte does it.
            digit @ b'0'..=b'9' => {
                value = (value * 10 + u32::from(digit - b'0')).min(u32::from(u16::MAX));
            }
            // The last place is for the final byte's parameter.
            b';' if params.len < MAX_PARAMS - 1 => {
                params.values[params.len] = value as u16;
                params.len += 1;
                value = 0;
            }
            last @ 0x40..=0x7e => {
                params.values[params.len] = value as u16;
                params.len += 1;
                return Some((last, at + 1));
            }
            _ => return None,
        }
        at += 1;
    }
}

impl Front {
    /// Does the sequence at the start of `bytes` if it is one of the common ones.
    #[inline]
    pub(super) fn quick_csi(&mut self, bytes: &[u8]) -> Option<usize> {
        if let [_, b'[', b'm', ..] = bytes {
            // Every second sequence of coloured output.
            self.sgr_simple(0);
            return Some(3);
        }
        let mut params = Params::new();
        let (last, len) = simple(bytes, &mut params)?;
        if last == b'm' {
            self.sgr(&params);
            return Some(len);
        }
        // Anything but an erase to the right or a movement touches cells in its own way.
        if !matches!(last, b'K' | b'H' | b'f' | b'A'..=b'G' | b'd' | b'`' | b'a' | b'e') {
            self.forget_blank_ends();
        }
        let term = &mut self.guest.term;
        match last {
            b'H' | b'f' => {
                term.goto(i32::from(params.or(0, 1)) - 1, usize::from(params.or(1, 1)) - 1);
            }
            b'K' => match params.or(0, 0) {
                0 => self.erase_right(),
                which @ (1 | 2) => {
                    let left = which == 1;
                    term.clear_line(if left { LineClearMode::Left } else { LineClearMode::All });
                    self.forget_blank_ends();
                }
                _ => {}
            },
            b'J' => match params.or(0, 0) {
                0 => term.clear_screen(ClearMode::Below),
                1 => term.clear_screen(ClearMode::Above),
                2 => term.clear_screen(ClearMode::All),
                3 => term.clear_screen(ClearMode::Saved),
                _ => {}
            },
            b'A' => term.move_up(params.count()),
            b'B' | b'e' => term.move_down(params.count()),
            b'C' | b'a' => term.move_forward(params.count()),
            b'D' => term.move_backward(params.count()),
            b'E' => term.move_down_and_cr(params.count()),
            b'F' => term.move_up_and_cr(params.count()),
            b'G' | b'`' => term.goto_col(params.count() - 1),
            b'd' => term.goto_line(i32::from(params.or(0, 1)) - 1),
            b'X' => term.erase_chars(params.count()),
            b'P' => term.delete_chars(params.count()),
            b'@' => term.insert_blank(params.count()),
            b'L' => term.insert_blank_lines(params.count()),
            b'M' => term.delete_lines(params.count()),
            b'S' => term.scroll_up(params.count()),
            b'T' => term.scroll_down(params.count()),
            b'I' => self.tabs_forward(params.count()),
            b'Z' => self.tabs_back(params.count()),
            b'b' => self.repeat(params.count()),
            b'r' => self.set_region(params.or(0, 1).into(), params.or(1, 0)),
            b's' => term.save_cursor_position(),
            b'u' => term.restore_cursor_position(),
            b'g' => self.drop_tabs(params.or(0, 0)),
            _ => return None,
        }
        self.touched = true;
        Some(len)
    }

    /// The guest's `clear_line` to the right, as far as there is something to clear.
    #[inline]
    fn erase_right(&mut self) {
        let cols = self.guest.cols();
        let grid = self.guest.term.grid_mut();
        if grid.cursor.input_needs_wrap {
            return;
        }
        let (point, bg) = (grid.cursor.point, grid.cursor.template.bg);
        let end = self.blank_ends.erase(point.line.0 as usize, point.column.0, bg, cols);
        for cell in &mut grid[point.line][point.column..Column(end)] {
            if cell.extra.is_some() {
                cell.extra = None;
            }
            cell.c = ' ';
            cell.fg = Color::Named(NamedColor::Foreground);
            cell.bg = bg;
            cell.flags = Flags::empty();
        }
    }

    fn set_region(&mut self, top: usize, bottom: u16) {
        let bottom = (bottom != 0).then_some(usize::from(bottom));
        self.state.set_region(top, bottom, self.guest.rows());
        self.guest.term.set_scrolling_region(top, bottom);
    }

    fn drop_tabs(&mut self, which: u16) {
        match which {
            0 => {
                let col = self.guest.grid().cursor.point.column.0;
                self.state.tabs[col] = false;
                self.guest.term.clear_tabs(TabulationClearMode::Current);
            }
            3 => {
                self.state.tabs.fill(false);
                self.guest.term.clear_tabs(TabulationClearMode::All);
            }
            _ => {}
        }
    }

    /// CHT, one stop at a time: it ends when the cursor no longer moves, not when the program's
    /// count says so.
    pub(super) fn tabs_forward(&mut self, count: usize) {
        self.each_tab(count, |term| term.move_forward_tabs(1));
    }

    pub(super) fn tabs_back(&mut self, count: usize) {
        self.each_tab(count, |term| term.move_backward_tabs(1));
    }

    fn each_tab(&mut self, count: usize, go: impl Fn(&mut Term<VoidListener>)) {
        for _ in 0..count {
            let before = self.guest.grid().cursor.point.column;
            go(&mut self.guest.term);
            if self.guest.grid().cursor.point.column == before {
                break;
            }
        }
    }

    /// REP. Once every row has been filled with the character and has scrolled off after it, every
    /// further line changes nothing: only the place in the line counts.
    pub(super) fn repeat(&mut self, count: usize) {
        let Some(c) = self.state.last_char else { return };
        if self.guest.term.mode().contains(TermMode::INSERT) && c.width() != Some(0) {
            return self.repeat_inserting(c, count);
        }
        let (cols, rows) = (self.guest.cols(), self.guest.rows());
        let width = c.width().unwrap_or(0);
        let filled = cols * (2 * rows + 2);
        let mut count = count;
        if width > 0 && count > filled {
            let period = cols / width;
            let rest = if self.rules.hold(Rule::RepPhase) { (count - filled) % period } else { 0 };
            count = filled + rest;
        }
        if width == 0 {
            count = count.min(super::print::MAX_MARKS);
        }
        if width == 1 && self.plain_printing() {
            let run = [c; 64];
            for at in (0..count).step_by(run.len()) {
                self.write(&run[..run.len().min(count - at)]);
            }
        } else {
            for _ in 0..count {
                self.put(c);
            }
        }
    }

    /// REP in insert mode. A row that does not scroll is shifted round and round; as soon as the
    /// screen is what it was before, whole rounds are left out.
    fn repeat_inserting(&mut self, c: char, count: usize) {
        let mut left = count;
        let mut seen = self.guest.grid().clone();
        let (mut since, mut patience) = (0, self.guest.cols());
        while left > 0 {
            self.put(c);
            left -= 1;
            since += 1;
            let now = self.guest.grid();
            let same_place = now.cursor.point == seen.cursor.point
                && now.cursor.input_needs_wrap == seen.cursor.input_needs_wrap;
            let rows = 0..self.guest.rows() as i32;
            let same = same_place && rows.map(Line).all(|line| now[line] == seen[line]);
            if same && left >= since {
                if self.rules.hold(Rule::RepPhase) {
                    left %= since;
                } else {
                    left = 0;
                }
            } else if since == patience {
                // Further on, and with twice the patience: a round may be long.
                seen = now.clone();
                (since, patience) = (0, 2 * patience);
            }
        }
    }

    #[inline]
    fn sgr(&mut self, params: &Params) {
        let values = &params.values[..params.len];
        let mut at = 0;
        while let Some(&value) = values.get(at) {
            at += 1;
            match value {
                38 | 48 | 58 => at += self.sgr_color(value, &values[at..]),
                _ => self.sgr_simple(value),
            }
        }
    }

    /// `38 ; 5 ; n` and `38 ; 2 ; r ; g ; b`; returns how many parameters after the first it took.
    /// As in vte, values out of range are taken and give no colour.
    #[inline]
    fn sgr_color(&mut self, which: u16, rest: &[u16]) -> usize {
        let byte = |index: usize| rest.get(index).map(|&value| u8::try_from(value).ok());
        let (color, taken) = match rest.first() {
            Some(2) => match (byte(1), byte(2), byte(3)) {
                (Some(Some(r)), Some(Some(g)), Some(Some(b))) => {
                    (Some(Color::Spec(Rgb { r, g, b })), 4)
                }
                // It stops at the first value that is no byte.
                (Some(None), ..) | (None, ..) => (None, 2),
                (_, Some(None), _) | (_, None, _) => (None, 3),
                _ => (None, 4),
            },
            Some(5) => (byte(1).flatten().map(Color::Indexed), 2),
            _ => (None, 1),
        };
        if let Some(color) = color {
            let template = &mut self.guest.term.grid_mut().cursor.template;
            match which {
                38 => template.fg = color,
                48 => template.bg = color,
                _ => template.set_underline_color(Some(color)),
            }
        }
        taken.min(rest.len())
    }

    #[inline]
    fn sgr_simple(&mut self, value: u16) {
        let term = &mut self.guest.term;
        let template = &mut term.grid_mut().cursor.template;
        match value {
            0 => {
                template.fg = Color::Named(NamedColor::Foreground);
                template.bg = Color::Named(NamedColor::Background);
                template.flags = Flags::empty();
                if template.extra.is_some() {
                    template.set_underline_color(None);
                }
            }
            1 => template.flags.insert(Flags::BOLD),
            2 => template.flags.insert(Flags::DIM),
            3 => template.flags.insert(Flags::ITALIC),
            4 => term.terminal_attribute(Attr::Underline),
            7 => template.flags.insert(Flags::INVERSE),
            8 => template.flags.insert(Flags::HIDDEN),
            9 => template.flags.insert(Flags::STRIKEOUT),
            21 => template.flags.remove(Flags::BOLD),
            22 => template.flags.remove(Flags::BOLD | Flags::DIM),
            23 => template.flags.remove(Flags::ITALIC),
            24 => template.flags.remove(Flags::ALL_UNDERLINES),
            27 => template.flags.remove(Flags::INVERSE),
            28 => template.flags.remove(Flags::HIDDEN),
            29 => template.flags.remove(Flags::STRIKEOUT),
            30..=37 => template.fg = named(value - 30),
            39 => template.fg = Color::Named(NamedColor::Foreground),
            40..=47 => template.bg = named(value - 40),
            49 => template.bg = Color::Named(NamedColor::Background),
            59 => template.set_underline_color(None),
            90..=97 => template.fg = named(value - 90 + 8),
            100..=107 => template.bg = named(value - 100 + 8),
            _ => {}
        }
    }
}

/// The sixteen named colours in the guest's order.
#[inline]
pub(crate) fn named(index: u16) -> Color {
    use NamedColor::*;
    const NAMES: [NamedColor; 8] = [Black, Red, Green, Yellow, Blue, Magenta, Cyan, White];
    let name = NAMES[usize::from(index) & 7];
    Color::Named(if index & 8 == 0 { name } else { name.to_bright() })
}

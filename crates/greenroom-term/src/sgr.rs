//! SGR: the parameters that set a style.
//!
//! In: a cell of the guest, or a [`Style`]. Out: parameters, beginning with a reset. A colour of
//! the guest may be one of the sixteen with parameters of their own or the same by its number in
//! the palette: a keyframe must not mix them up.

use std::fmt::Write;

use alacritty_terminal::term::cell::{Cell, Flags};
use vte::ansi::{Color as AnsiColor, NamedColor, Rgb};

use crate::frame::{Color, Style, UNDERLINES};

enum Shade {
    Default,
    /// One of the sixteen.
    Basic(u8),
    Indexed(u8),
    Rgb(u8, u8, u8),
}

/// What sets exactly this cell's style.
pub(crate) fn of_cell(cell: &Cell) -> String {
    let mut sgr = "0".to_owned();
    push_flags(&mut sgr, cell.flags);
    push_color(&mut sgr, 30, of_guest(cell.fg));
    push_color(&mut sgr, 40, of_guest(cell.bg));
    if let Some(color) = cell.underline_color() {
        push_color(&mut sgr, 50, of_guest(color));
    }
    sgr
}

/// The same for a style of a frame, appended to `out`.
pub(crate) fn push_style(out: &mut String, style: &Style) {
    let underline = UNDERLINES.into_iter().find(|(_, kind)| *kind == style.underline);
    let mut flags = underline.map_or(Flags::empty(), |(flag, _)| flag);
    flags.set(Flags::BOLD, style.bold);
    flags.set(Flags::DIM, style.dim);
    flags.set(Flags::ITALIC, style.italic);
    flags.set(Flags::INVERSE, style.inverse);
    flags.set(Flags::HIDDEN, style.hidden);
    flags.set(Flags::STRIKEOUT, style.strike);
    out.push('0');
    push_flags(out, flags);
    push_color(out, 30, of_frame(style.fg));
    push_color(out, 40, of_frame(style.bg));
}

fn push_flags(out: &mut String, flags: Flags) {
    for (flag, code) in [
        (Flags::BOLD, ";1"),
        (Flags::DIM, ";2"),
        (Flags::ITALIC, ";3"),
        (Flags::UNDERLINE, ";4"),
        (Flags::DOUBLE_UNDERLINE, ";4:2"),
        (Flags::UNDERCURL, ";4:3"),
        (Flags::DOTTED_UNDERLINE, ";4:4"),
        (Flags::DASHED_UNDERLINE, ";4:5"),
        (Flags::INVERSE, ";7"),
        (Flags::HIDDEN, ";8"),
        (Flags::STRIKEOUT, ";9"),
    ] {
        if flags.contains(flag) {
            out.push_str(code);
        }
    }
}

fn push_color(out: &mut String, base: u8, shade: Shade) {
    let written = match shade {
        Shade::Default => Ok(()),
        Shade::Basic(index @ 0..=7) => write!(out, ";{}", base + index),
        Shade::Basic(index) => write!(out, ";{}", base + 60 + index - 8),
        Shade::Indexed(index) => write!(out, ";{};5;{index}", base + 8),
        Shade::Rgb(r, g, b) => write!(out, ";{};2;{r};{g};{b}", base + 8),
    };
    written.expect("writing to a string does not fail");
}

fn of_guest(color: AnsiColor) -> Shade {
    match color {
        AnsiColor::Indexed(index) => Shade::Indexed(index),
        AnsiColor::Spec(Rgb { r, g, b }) => Shade::Rgb(r, g, b),
        AnsiColor::Named(name) if (name as usize) <= NamedColor::BrightWhite as usize => {
            Shade::Basic(name as u8)
        }
        AnsiColor::Named(name) => {
            debug_assert!(name as usize <= NamedColor::Background as usize, "no colour of a cell");
            Shade::Default
        }
    }
}

fn of_frame(color: Color) -> Shade {
    match color {
        Color::Default => Shade::Default,
        Color::Indexed(index @ 0..=15) => Shade::Basic(index),
        Color::Indexed(index) => Shade::Indexed(index),
        Color::Rgb(r, g, b) => Shade::Rgb(r, g, b),
    }
}

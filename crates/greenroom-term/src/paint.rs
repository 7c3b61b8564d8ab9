//! Frames as escape streams: for the `ansi` snapshot and for letterboxing.
//!
//! In: a [`Frame`], perhaps masked since it was taken. Out: sequences that paint it. Unlike a
//! keyframe this carries only what is seen, clipped to the window it is painted into.

use std::fmt::Write as _;

use crate::frame::{Frame, Row, Style};
use crate::input_modes::{InputModes, MouseEncoding, MouseMode};
use crate::sgr;
use crate::size::Size;

/// Paints `frame` into a window of another size, from its top-left corner.
/// When the window is lower than the session, the rows around the cursor show.
pub fn letterbox(frame: &Frame, window: Size) -> Vec<u8> {
    let mut out = String::with_capacity(4096);
    out.push_str("\x1b[?2026h\x1b[?25l\x1b[?7l\x1b[r\x1b[0m\x1b[2J");
    let first = first_row(frame, window);
    for (line, row) in frame.rows.iter().skip(first).take(window.rows().into()).enumerate() {
        let _ = write!(out, "\x1b[{};1H", line + 1);
        paint_row(&mut out, row, window.cols());
    }
    border(&mut out, frame, window);
    let row = usize::from(frame.cursor.row).saturating_sub(first);
    let inside = row < usize::from(window.rows()) && frame.cursor.col < window.cols();
    if frame.cursor.visible && inside {
        let _ = write!(out, "\x1b[{};{}H\x1b[?25h", row + 1, frame.cursor.col + 1);
    }
    out.push_str("\x1b[?7h\x1b[?2026l");
    out.into_bytes()
}

/// The same with what the program asked input to look like, for a viewer who is sent nothing else.
pub fn whole(frame: &Frame, window: Size) -> Vec<u8> {
    let mut out = String::from_utf8(letterbox(frame, window)).expect("it was a string");
    modes(&mut out, &frame.modes);
    out.into_bytes()
}

/// Each mode that is on or off; those that are numbers only if they were set.
fn modes(out: &mut String, modes: &InputModes) {
    let keys = [
        (1, modes.app_cursor),
        (66, modes.app_keypad),
        (67, modes.backarrow),
        (1004, modes.focus),
        (1007, modes.alternate_scroll),
        (2004, modes.bracketed_paste),
    ];
    let mouse = [MouseMode::X10, MouseMode::Normal, MouseMode::Button, MouseMode::Any]
        .map(|mode| (mode.private_mode(), modes.mouse == mode));
    let encoding = [MouseEncoding::Utf8, MouseEncoding::Sgr, MouseEncoding::SgrPixels]
        .map(|encoding| (encoding.private_mode(), modes.mouse_encoding == encoding));
    let reports = mouse.into_iter().chain(encoding).filter_map(|(number, on)| Some((number?, on)));
    let switches: Vec<(u16, bool)> = keys.into_iter().chain(reports).collect();
    // Some exclude each other: what is off must not undo what is on.
    for (number, _) in switches.iter().filter(|(_, on)| !on) {
        let _ = write!(out, "\x1b[?{number}l");
    }
    for (number, _) in switches.iter().filter(|(_, on)| *on) {
        let _ = write!(out, "\x1b[?{number}h");
    }
    if modes.kitty_flags != 0 {
        let _ = write!(out, "\x1b[={};1u", modes.kitty_flags);
    }
    if modes.modify_other_keys != 0 {
        let _ = write!(out, "\x1b[>4;{}m", modes.modify_other_keys);
    }
}

/// The frame's rows as text with colours, one line each.
pub fn ansi_rows(rows: &[Row]) -> String {
    let mut out = String::new();
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        paint_row(&mut out, row, u16::MAX);
    }
    out
}

fn first_row(frame: &Frame, window: Size) -> usize {
    let rows = usize::from(window.rows());
    let cursor = usize::from(frame.cursor.row);
    (cursor + 1).saturating_sub(rows).min(frame.rows.len().saturating_sub(rows))
}

/// Marks the session's edge inside a larger window.
fn border(out: &mut String, frame: &Frame, window: Size) {
    out.push_str("\x1b[0;2m");
    if window.cols() > frame.size.cols() {
        for line in 0..frame.size.rows().min(window.rows()) {
            let _ = write!(out, "\x1b[{};{}H│", line + 1, frame.size.cols() + 1);
        }
    }
    if window.rows() > frame.size.rows() {
        let width = usize::from(frame.size.cols().min(window.cols()));
        let _ = write!(out, "\x1b[{};1H{}", frame.size.rows() + 1, "─".repeat(width));
        if window.cols() > frame.size.cols() {
            out.push('┘');
        }
    }
    out.push_str("\x1b[0m");
}

fn paint_row(out: &mut String, row: &Row, cols: u16) {
    let mut col = 0;
    let mut style = Style::default();
    for run in &row.runs {
        if run.col >= cols {
            break;
        }
        if run.col > col {
            set_style(out, &mut style, &Style::default());
            out.extend(std::iter::repeat_n(' ', usize::from(run.col - col)));
        }
        set_style(out, &mut style, &run.style);
        out.push_str(&run.text);
        col = run.col + run.width;
    }
    set_style(out, &mut style, &Style::default());
}

fn set_style(out: &mut String, now: &mut Style, next: &Style) {
    if now == next {
        return;
    }
    if now.link != next.link {
        let target = next.link.as_deref().unwrap_or("");
        let _ = write!(out, "\x1b]8;;{target}\x1b\\");
    }
    out.push_str("\x1b[");
    sgr::push_style(out, next);
    out.push('m');
    *now = next.clone();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::Screen;

    fn size(cols: u16, rows: u16) -> Size {
        Size::new(cols, rows).unwrap()
    }

    fn painted(bytes: &[u8], session: Size, window: Size) -> Screen {
        let mut screen = Screen::new(session);
        screen.feed(bytes);
        let mut viewer = Screen::new(window);
        viewer.feed(b"old content that must go");
        viewer.feed(&letterbox(&screen.frame(), window));
        viewer
    }

    #[test]
    fn a_larger_window_shows_all_and_the_edge() {
        let viewer = painted(b"ab\r\ncd", size(4, 2), size(8, 4));
        assert_eq!(viewer.text(), "ab  │\ncd  │\n────┘");
        assert_eq!((viewer.cursor().row, viewer.cursor().col), (1, 2));
    }

    #[test]
    fn a_smaller_window_follows_the_cursor() {
        let viewer = painted(b"1\r\n2\r\n3\r\n4444444", size(10, 4), size(3, 2));
        assert_eq!(viewer.text(), "3\n444");
        assert!(!viewer.cursor().visible, "the cursor is outside the window");
    }

    #[test]
    fn input_modes_survive_and_what_is_off_is_off() {
        let mut viewer = Screen::new(size(20, 2));
        viewer.feed(b"\x1b[?1003h\x1b[?1006h\x1b[?1004h");
        for sequences in ["\x1b[?1h\x1b[?2004h\x1b[?1002h\x1b[?1006h", "\x1b[?1004h", ""] {
            let mut screen = Screen::new(size(20, 2));
            screen.feed(sequences.as_bytes());
            viewer.feed(&whole(&screen.frame(), size(20, 2)));
            assert_eq!(viewer.input_modes(), screen.input_modes(), "{sequences:?}");
        }
    }

    #[test]
    fn colours_survive() {
        let mut screen = Screen::new(size(20, 2));
        screen.feed(b"\x1b[1;38;5;208mhot\x1b[0m \x1b[44;4mblue\x1b[0m");
        let mut again = Screen::new(size(20, 2));
        again.feed(ansi_rows(&screen.frame().rows[..1]).as_bytes());
        assert_eq!(again.frame().rows, screen.frame().rows);
    }
}

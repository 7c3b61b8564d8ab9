//! Text that may reach a terminal: nothing in it can move the cursor, hide or turn other text, or
//! begin a line.
//!
//! In: text of anybody (manifests, plugins, programs, file names). Out: the same, with what a
//! terminal would obey or not show written as an escape. Everything the verbs say to people goes
//! through here ([`crate::output`]); colours of our own travel as marks that only [`terminal`]
//! turns into sequences. Absent on purpose: recordings and screens, which are shown as they are
//! because somebody asked for them.

use std::fmt::Write as _;

/// Marks of our own colours: no text has these characters, which are for use inside a program.
const PAINT: char = '\u{fdd0}';
const PLAIN: char = '\u{fdd1}';

/// Colours that may be marked, by number; 0 is none.
const SGR: [&str; 7] = ["", "1", "32", "34", "1;33", "31", "2"];

/// Whether a terminal would obey a character, or show nothing for it.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fdd0}'..='\u{fdef}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
            | '\u{13430}'..='\u{1345f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// A text within a line: without line ends, and harmless.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_control() => out.push(' '),
            c if is_hostile(c) => escape(&mut out, c),
            c => out.push(c),
        }
    }
    out
}

/// A text of several lines for a terminal, with our own colours.
pub fn terminal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let colour = chars.peek().and_then(|c| c.to_digit(10)).and_then(|n| SGR.get(n as usize));
        match (c, colour) {
            ('\n' | '\t', _) => out.push(c),
            (PAINT, Some(sgr)) => {
                chars.next();
                write!(out, "\x1b[{sgr}m").expect("writing to a string");
            }
            (PLAIN, _) => out.push_str("\x1b[0m"),
            (c, _) if is_hostile(c) => escape(&mut out, c),
            (c, _) => out.push(c),
        }
    }
    out
}

/// Marks `text` with a colour of [`SGR`].
pub fn painted(colour: usize, text: &str) -> String {
    if colour == 0 { text.to_owned() } else { format!("{PAINT}{colour}{text}{PLAIN}") }
}

/// JSON with nothing in it that a terminal would obey or not show; the same value.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hostile(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("writing to a string");
            }
        } else {
            out.push(c);
        }
    }
    out
}

fn escape(out: &mut String, c: char) {
    write!(out, "{}", c.escape_unicode()).expect("writing to a string");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_turns_or_hides() {
        let hostile = "a\x1b[2Kb\r\u{9b}1mc\u{202e}d\u{200b}\u{2066}\u{61c}\u{feff}\u{e0041}\u{7f}";
        for safe in [one_line(hostile), terminal(hostile)] {
            assert!(!safe.chars().any(is_hostile), "{safe:?}");
            assert!(safe.contains("\\u{202e}d\\u{200b}"), "{safe}");
        }
        assert_eq!(terminal("a\n\tb \x1b"), "a\n\tb \\u{1b}");
        assert_eq!(one_line("a\nb\u{2028}c"), "a b\\u{2028}c");
        assert_eq!(one_line("日本語 é ❤️"), "日本語 é ❤️");
    }

    #[test]
    fn only_our_own_colours_are_colours() {
        assert_eq!(terminal(&painted(5, "x\x1b[0m")), "\x1b[31mx\\u{1b}[0m\x1b[0m");
        assert_eq!(painted(0, "x"), "x");
        // A mark in somebody's text does not survive being put into a line.
        assert_eq!(one_line(&painted(5, "x")), "\\u{fdd0}5x\\u{fdd1}");
    }

    #[test]
    fn json_is_the_same_value() {
        let value = serde_json::json!({ "a\u{202e}": "b\u{9b}c\u{e0041}\u{1b}\n" });
        let text = json(&value.to_string());
        assert!(text.is_ascii(), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}

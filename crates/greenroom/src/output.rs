//! What reaches the user: the answer on stdout, everything else on stderr.
//!
//! In: values, tables, lines. Out: text for people, or with `--json` one document or JSON lines.
//! Colours mean something (state, failure) and never stand alone: a glyph and a word carry the same.
//! Absent on purpose: progress bars, logs.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::error::Failure;
use crate::safe;
pub use crate::safe::one_line;

/// Columns when nobody says otherwise.
const DEFAULT_COLUMNS: usize = 80;
/// A column that may shrink keeps at least this much, or its content says nothing.
const SHRINK_TO: usize = 8;

/// Where a verb speaks.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// `--json`.
    pub json: bool,
    color: bool,
    columns: usize,
}

/// What a piece of text means; colours follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// A heading.
    Head,
    /// Works, or worked.
    Good,
    /// In motion.
    Busy,
    /// Look here.
    Warn,
    /// Went wrong.
    Bad,
    /// Over, or beside the point.
    Dim,
}

impl Tone {
    fn sgr(self) -> &'static str {
        match self {
            Tone::Plain => "",
            Tone::Head => "1",
            Tone::Good => "32",
            Tone::Busy => "34",
            Tone::Warn => "1;33",
            Tone::Bad => "31",
            Tone::Dim => "2",
        }
    }
}

/// One cell of a table.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell with a meaning.
    pub fn toned(tone: Tone, text: impl Into<String>) -> Cell {
        Cell { text: one_line(&text.into()), tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell::toned(Tone::Plain, text)
    }
}

impl Output {
    /// For this process: `--json`, the environment and the terminal decide.
    pub fn detect(json: bool) -> Output {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let forced =
            set("CLICOLOR_FORCE") && std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| v != "0");
        let tty = io::stdout().is_terminal()
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let color = !json && !set("NO_COLOR") && (forced || tty);
        Output { json, color, columns: columns() }
    }

    /// `text` in the colour of its tone, if colours are on.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.color || tone == Tone::Plain || text.is_empty() {
            return text.to_owned();
        }
        safe::painted(tone.sgr(), text)
    }

    /// The answer of a verb: `value` with `--json`, else `text`.
    pub fn answer(
        &self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if self.json { self.json_line(value) } else { self.line(&text()) }
    }

    /// One JSON value on its line.
    pub fn json_line(&self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(|error| {
            Failure::failed(format!("cannot write the answer as JSON: {error}"))
        })?;
        self.whole_line(&safe::json(&text))
    }

    /// One line on stdout; nothing at all for an empty text. What a terminal would obey is escaped.
    pub fn line(&self, text: &str) -> Result<(), Failure> {
        self.whole_line(&safe::terminal(text))
    }

    /// The same as it is: for what a program showed, which somebody asked to see.
    pub fn shown(&self, text: &str) -> Result<(), Failure> {
        self.whole_line(text)
    }

    fn whole_line(&self, text: &str) -> Result<(), Failure> {
        if text.is_empty() {
            return Ok(());
        }
        let end = if text.ends_with('\n') { "" } else { "\n" };
        self.bytes(format!("{text}{end}").as_bytes())
    }

    /// Bytes on stdout as they are.
    pub fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)
            .and_then(|()| out.flush())
            .map_err(|error| Failure::io("cannot write to stdout", &error))
    }

    /// A remark on stderr that is not part of the answer. Silent with `--json`.
    pub fn note(&self, text: &str) {
        if !self.json {
            tell(text);
        }
    }

    /// `text` cut to the window.
    pub fn fitted(&self, text: &str) -> String {
        elide(text, self.columns.saturating_sub(1))
    }

    /// A table that fits the window: columns named in `shrink` give way, the last of them first.
    pub fn table(&self, head: &[&str], rows: &[Vec<Cell>], shrink: &[&str]) -> String {
        let mut widths: Vec<usize> = (0..head.len())
            .map(|column| {
                let cells = rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.text.width()).chain([head[column].width()]).max().unwrap_or(0)
            })
            .collect();
        let gaps = 2 * head.len().saturating_sub(1);
        for name in shrink.iter().rev() {
            let total: usize = widths.iter().sum::<usize>() + gaps;
            let over = total.saturating_sub(self.columns);
            if let Some(column) = head.iter().position(|other| other == name) {
                let least = SHRINK_TO.max(head[column].width()).min(widths[column]);
                widths[column] = widths[column].saturating_sub(over).max(least);
            }
        }
        let heads: Vec<Cell> = head.iter().map(|name| Cell::toned(Tone::Head, *name)).collect();
        let mut text = String::new();
        for row in std::iter::once(&heads).chain(rows) {
            self.row(&mut text, row, &widths);
        }
        text
    }

    fn row(&self, text: &mut String, row: &[Cell], widths: &[usize]) {
        for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
            let shown = elide(&cell.text, *width);
            let last = column + 1 == row.len();
            let pad = if last { 0 } else { width - shown.width() + 2 };
            let painted = self.paint(cell.tone, &shown);
            write!(text, "{painted}{:pad$}", "").expect("writing to a string");
        }
        while text.ends_with(' ') {
            text.pop();
        }
        text.push('\n');
    }
}

/// A line on stderr. A stderr that is gone is not worth dying for.
pub fn tell(text: &str) {
    drop(writeln!(io::stderr().lock(), "{}", safe::terminal(text)));
}

/// A JSON value on stderr.
pub fn tell_json(value: &serde_json::Value) {
    drop(writeln!(io::stderr().lock(), "{}", safe::json(&value.to_string())));
}

/// The beginning of a line on stderr that goes on.
pub fn begin(text: &str) {
    let mut err = io::stderr().lock();
    drop(write!(err, "{}", safe::terminal(text)).and_then(|()| err.flush()));
}

/// Takes back a line that [`begin`] began.
pub fn take_back() {
    drop(write!(io::stderr().lock(), "\r\x1b[K"));
}

/// Columns of the window: `COLUMNS`, the terminal, or 80.
fn columns() -> usize {
    let named = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let asked =
        || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    named.or_else(asked).filter(|columns| *columns >= 20).unwrap_or(DEFAULT_COLUMNS)
}

/// `text` in at most `width` columns, with an ellipsis where something is left out.
fn elide(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + 1 > width {
            break;
        }
        kept.push(c);
    }
    kept.push('…');
    kept
}

/// A span of time in one or two units: `4 s`, `3 m`, `2 h 5 m`, `3 d`.
pub fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..60 => format!("{seconds} s"),
        60..3600 => format!("{} m", seconds / 60),
        3600..86_400 if (seconds / 60).is_multiple_of(60) => format!("{} h", seconds / 3600),
        3600..86_400 => format!("{} h {} m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// A size in bytes as people read it.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let (mut value, mut unit) = (count as f64 / 1024.0, 0);
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(columns: usize) -> Output {
        Output { json: false, color: false, columns }
    }

    #[test]
    fn tables_fit_and_say_what_they_left_out() {
        let rows = vec![vec![Cell::from("s1"), Cell::from("x".repeat(100)), Cell::from("running")]];
        let text = plain(40).table(&["ID", "CWD", "STATE"], &rows, &["CWD"]);
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
        assert!(text.contains('…') && text.contains("running"), "{text}");
    }

    #[test]
    fn wide_characters_are_counted_by_cell() {
        assert_eq!(elide("日本語", 4), "日…");
        assert_eq!(elide("abc", 3), "abc");
    }

    #[test]
    fn a_session_cannot_paint_the_list() {
        assert_eq!(Cell::from("a\x1b[31mb\n").text, "a [31mb ");
    }

    #[test]
    fn colours_only_when_on() {
        assert_eq!(plain(80).paint(Tone::Bad, "x"), "x");
        let color = Output { color: true, ..plain(80) };
        assert_eq!(safe::terminal(&color.paint(Tone::Bad, "x")), "\x1b[31mx\x1b[0m");
    }

    #[test]
    fn spans_and_sizes() {
        assert_eq!(span(4_200), "4 s");
        assert_eq!(span(7_500_000), "2 h 5 m");
        assert_eq!(bytes(1536), "1.5 KiB");
    }
}

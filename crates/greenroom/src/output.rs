//! What reaches the user: the answer on stdout, everything else on stderr.
//!
//! In: values, tables, lines. Out: text for people, or with `--json` one document or JSON lines.
//! Colours mean something (state, failure) and never stand alone: a glyph and a word carry the
//! same. Where the locale knows no UTF-8 the glyphs are ASCII. Absent on purpose: progress bars,
//! logs.

mod table;

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use greenroom_protocol::Timestamp;
use greenroom_protocol::fault::exit;
use serde::Serialize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::error::{ExitResult, Failure};
use crate::safe;
pub use crate::safe::one_line;
pub use table::Cell;

/// Columns of a terminal that does not say how many it has.
const DEFAULT_COLUMNS: usize = 80;

/// Our signs, and what stands for them where the locale knows no UTF-8. Of equal width.
const SIGNS: [(char, char); 8] = [
    ('▶', '>'),
    ('●', '*'),
    ('◐', '~'),
    ('○', '-'),
    ('✗', 'x'),
    ('✓', '+'),
    ('◌', '.'),
    ('·', '?'),
];

/// Where a verb speaks.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// `--json`.
    pub json: bool,
    /// A person reads stdout.
    pub terminal: bool,
    color: bool,
    ascii: bool,
    /// The width of the window; without one nothing is cut.
    columns: Option<usize>,
}

/// What a piece of text means; the colours of [`safe`] follow, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    #[default]
    Plain,
    /// The head of a table or a part.
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

impl Output {
    /// For this process: `--json`, the environment and the terminal decide.
    pub fn detect(json: bool) -> Output {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let forced =
            set("CLICOLOR_FORCE") && std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| v != "0");
        let terminal = io::stdout().is_terminal();
        let paints = terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let color = !json && !set("NO_COLOR") && (forced || paints);
        let columns = terminal.then(columns);
        Output { json, terminal, color, ascii: !is_utf8(locale().as_deref()), columns }
    }

    /// The same, with tables as narrow as on a terminal.
    pub fn like_a_terminal(self) -> Output {
        Output { columns: self.columns.or(Some(DEFAULT_COLUMNS)), ..self }
    }

    /// `text` in the colour of its tone, if colours are on.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        let text = self.signs(text);
        if !self.color || text.is_empty() {
            return text;
        }
        safe::painted(tone as usize, &text)
    }

    /// `text` with signs that the locale knows.
    fn signs(&self, text: &str) -> String {
        let sign =
            |c: char| SIGNS.iter().find(|(ours, _)| *ours == c).map_or(c, |(_, ascii)| *ascii);
        if self.ascii { text.chars().map(sign).collect() } else { text.to_owned() }
    }

    /// The sign for text that was left out.
    fn ellipsis(&self) -> &'static str {
        if self.ascii { "..." } else { "…" }
    }

    /// The answer of a verb that worked: `value` with `--json`, else `text`.
    pub fn answer(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> ExitResult {
        if self.json {
            self.json_line(value)?
        } else {
            self.line(&text())?
        }
        Ok(exit::OK)
    }

    /// The same for a list: where a person would see none of it, a remark says so.
    pub fn list<T>(
        &self,
        value: &impl Serialize,
        list: &[T],
        none: &str,
        text: impl FnOnce() -> String,
    ) -> ExitResult {
        if list.is_empty() && !self.json {
            self.note(none);
            return Ok(exit::OK);
        }
        self.answer(value, text)
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
        write(format!("{text}{end}").as_bytes())
    }

    /// What went wrong, on stderr.
    pub fn failure(&self, failure: &Failure) {
        if self.json {
            tell_json(&failure.to_json());
        } else {
            tell(&format!("greenroom: {failure}"));
        }
    }

    /// Remarks of the host beside an answer.
    pub fn notes(&self, notes: &[String]) {
        notes.iter().for_each(|note| self.note(&format!("note: {note}")));
    }

    /// A remark on stderr that is not part of the answer. Silent with `--json`.
    pub fn note(&self, text: &str) {
        if !self.json {
            tell(text);
        }
    }

    /// Warnings on stderr, whoever reads them: one JSON object with `--json`.
    pub fn warn(&self, warnings: &[&str]) {
        if self.json {
            return tell_json(
                &serde_json::json!({ "warning": { "message": warnings.join("; ") } }),
            );
        }
        warnings.iter().for_each(|warning| tell(&format!("warning: {warning}")));
    }

    /// A remark on stderr for a person who looks at this terminal: what to do next.
    pub fn hint(&self, text: &str) {
        if !self.json && self.terminal && io::stderr().is_terminal() {
            tell(&format!("hint: {text}"));
        }
    }

    /// `text` cut to the window.
    pub fn fitted(&self, text: &str) -> String {
        let columns = self.columns.unwrap_or(DEFAULT_COLUMNS);
        elide(text, columns.saturating_sub(1), self.ellipsis())
    }
}

/// Bytes on stdout as they are.
pub fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(|error| Failure::io("cannot write to stdout", &error))
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

/// The locale's name, which says how programs write characters.
pub fn locale() -> Option<String> {
    let variables = ["LC_ALL", "LC_CTYPE", "LANG"];
    variables.iter().find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

/// Whether programs write UTF-8 there; without a word they do not.
pub fn is_utf8(locale: Option<&str>) -> bool {
    locale.is_some_and(|name| name.to_ascii_lowercase().replace('-', "").contains("utf8"))
}

/// Milliseconds from then until now.
pub fn since(time: Timestamp) -> u64 {
    Timestamp::from_system(std::time::SystemTime::now()).0.saturating_sub(time.0)
}

/// A time as the wire has it.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// `1 session`, `2 sessions`.
pub fn count(number: u64, noun: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{end}")
}

/// `text` in at most `width` columns, with an ellipsis where its end is left out.
fn elide(text: &str, width: usize, ellipsis: &str) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used + ellipsis.width() > width {
            break;
        }
        kept.push(c);
    }
    kept + ellipsis
}

/// The same from the other side: the end of a path says more than its beginning.
fn elide_start(text: &str, width: usize, ellipsis: &str) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let back: String = text.chars().rev().collect();
    let kept = elide(&back, width.saturating_sub(ellipsis.width()), "");
    ellipsis.chars().chain(kept.chars().rev()).collect()
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

    pub fn plain(columns: impl Into<Option<usize>>) -> Output {
        let columns = columns.into();
        Output { json: false, terminal: columns.is_some(), color: false, ascii: false, columns }
    }

    #[test]
    fn wide_characters_are_counted_by_cell() {
        assert_eq!(elide("日本語", 4, "…"), "日…");
        assert_eq!(elide("abc", 3, "…"), "abc");
        assert_eq!(elide("abcdef", 5, "..."), "ab...");
        assert_eq!(elide_start("/home/a/trees/feat-1", 10, "…"), "…es/feat-1");
        assert_eq!(elide_start("/a/日本語", 6, "…"), "…本語");
    }

    #[test]
    fn signs_are_ascii_where_the_locale_is() {
        let ascii = Output { ascii: true, ..plain(80) };
        assert_eq!(ascii.paint(Tone::Good, "▶ running"), "> running");
        for (ours, other) in SIGNS {
            assert_eq!((ours.width(), other.is_ascii()), (Some(1), true), "{ours}");
        }
        assert!(is_utf8(Some("de_DE.UTF-8")) && is_utf8(Some("C.utf8")));
        assert!(!is_utf8(Some("C")) && !is_utf8(Some("de_DE@euro")) && !is_utf8(None));
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(count(1, "session"), "1 session");
        assert_eq!(
            (count(0, "plugin"), count(2, "plugin")),
            ("0 plugins".into(), "2 plugins".into())
        );
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

//! Screens and transcripts: what a reader of a session gets.
//!
//! A [`Snapshot`] without `format` has every cell, in the shape existing clients expect; the other
//! formats carry the same screen in a hundredth of the bytes.
//! Absent on purpose: how cells come to be; redaction rules.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Base64, is_false, words, yes};

/// A terminal size in cells, and in pixels where somebody knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
    /// 0 = unknown.
    pub pixel_width: u16,
    /// 0 = unknown.
    pub pixel_height: u16,
}

impl Size {
    /// A size in cells.
    pub const fn new(cols: u16, rows: u16) -> Size {
        Size { rows, cols, pixel_width: 0, pixel_height: 0 }
    }

    /// Reads `120x40` (columns by rows).
    pub fn parse(text: &str) -> Option<Size> {
        let (cols, rows) = text.split_once(['x', 'X'])?;
        Some(Size::new(cols.trim().parse().ok()?, rows.trim().parse().ok()?))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.cols, self.rows)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        #[derive(Deserialize)]
        struct Fields {
            rows: u16,
            cols: u16,
            #[serde(default)]
            pixel_width: u16,
            #[serde(default)]
            pixel_height: u16,
        }
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Size;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as {\"rows\": 40, \"cols\": 120} or \"120x40\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Size, E> {
                Size::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Size, A::Error> {
                let Fields { rows, cols, pixel_width, pixel_height } =
                    Fields::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(Size { rows, cols, pixel_width, pixel_height })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A part of the screen, in cells from 0 at the top left. What is left out reaches to the edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Region {
    /// First row.
    #[serde(default, alias = "top")]
    #[schemars(extend("x-aliases" = ["top"]))]
    pub row: u16,
    /// First column.
    #[serde(default, alias = "left")]
    #[schemars(extend("x-aliases" = ["left"]))]
    pub col: u16,
    /// How many rows.
    #[schemars(extend("x-aliases" = ["height"]))]
    #[serde(default, alias = "height", skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// How many columns.
    #[schemars(extend("x-aliases" = ["width"]))]
    #[serde(default, alias = "width", skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
}

words! {
    /// The form of a snapshot.
    #[derive(Default)]
    SnapshotFormat {
        /// `text`: the rows joined by newlines.
        Text "text",
        /// `rows`: a list of texts.
        Rows "rows",
        /// `runs`: rows as runs of one style.
        Runs "runs",
        /// `plain_text` and `cells`: every cell.
        #[default]
        Cells "cells",
        /// `ansi`: an escape stream that paints the screen.
        Ansi "ansi",
    }
}

/// How to redact what is returned, beyond the host's own rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Redaction {
    /// Off needs the right to see raw output.
    pub enabled: bool,
    /// What stands in place of a secret: `*`, as wide as what it hides. ptywright's `[REDACTED]`
    /// means the same; another text is refused.
    pub replacement: String,
    /// More texts to hide in this answer, 64 with the patterns.
    #[serde(default)]
    pub extra_literals: Vec<String>,
    /// More patterns to hide in this answer. What they find must not be empty.
    #[serde(default)]
    pub extra_regexes: Vec<String>,
}

impl Redaction {
    /// What ptywright puts in place of a secret by default.
    pub const DEFAULT: &str = "[REDACTED]";
}

/// Lines above the screen: `from` counts back from the newest (0), `count` is how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScrollbackParams {
    /// How many of the newest to skip.
    #[serde(default)]
    pub from: u64,
    /// How many lines.
    #[serde(default = "ScrollbackParams::default_count")]
    pub count: u64,
}

impl ScrollbackParams {
    /// Most lines of one answer.
    pub const COUNT_MAX: u64 = 10_000;

    fn default_count() -> u64 {
        100
    }
}

/// Params of `session.snapshot`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SnapshotParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// Form of the answer.
    #[serde(default)]
    pub format: SnapshotFormat,
    /// A part of the screen only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// Only rows that changed after this sequence number, if the host still knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Lines above the screen, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrollback: Option<ScrollbackParams>,
    /// Hide secrets.
    #[serde(default = "yes")]
    pub redact: bool,
    /// How.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redaction: Option<Redaction>,
    /// How long to wait for filters that are behind: 30000 if left out, 100000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl SnapshotParams {
    /// The whole screen of `session` in this form.
    pub fn new(session: impl Into<String>, format: SnapshotFormat) -> SnapshotParams {
        let session = session.into();
        SnapshotParams {
            session,
            format,
            region: None,
            since: None,
            scrollback: None,
            redact: true,
            redaction: None,
            timeout_ms: None,
        }
    }
}

/// How long a reader waits for filters that are behind, in milliseconds.
pub const PATIENCE_MS: u64 = 30_000;
/// At most: every client still waits for the answer then.
pub const PATIENCE_MAX_MS: u64 = 100_000;

/// A screen at one sequence number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// The terminal's size, also when a region was asked for.
    pub size: Size,
    /// Where the cursor is.
    pub cursor: Cursor,
    /// The screen is as after this much output.
    pub sequence: u64,
    /// `cells`: the rows joined by newlines, each without trailing blanks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain_text: Option<String>,
    /// `cells`: every cell, row by row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cells: Option<Vec<Cell>>,
    /// `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// `rows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Vec<RowText>>,
    /// `runs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<Vec<RowRuns>>,
    /// `ansi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ansi: Option<String>,
    /// The program shows its alternate screen.
    #[serde(default)]
    pub alternate_screen: bool,
    /// Cursor keys are in application mode.
    #[serde(default)]
    pub application_cursor: bool,
    /// The keypad is in application mode.
    #[serde(default)]
    pub application_keypad: bool,
    /// The window title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Why text is masked that would be shown if all were well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// Only rows changed after this are here; absent = the whole screen (or region).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// The part that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<Region>,
    /// The lines above that were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrollback: Option<Scrollback>,
    /// The program wants pastes bracketed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bracketed_paste: bool,
    /// The program listens to the mouse.
    #[serde(default, skip_serializing_if = "is_false")]
    pub mouse: bool,
}

impl Default for Size {
    fn default() -> Size {
        Size::new(80, 24)
    }
}

/// The cursor, cells from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cursor {
    /// From 0.
    pub row: u16,
    /// From 0.
    pub col: u16,
    /// Shown at all.
    pub visible: bool,
    /// `block`, `underline` or `bar`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<String>,
}

/// One row as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RowText {
    /// From 0.
    pub row: u16,
    /// Without trailing blanks.
    pub text: String,
    /// The line goes on in the next row.
    #[serde(default, skip_serializing_if = "is_false")]
    pub wrapped: bool,
}

/// One row as runs of one style.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RowRuns {
    /// From 0.
    pub row: u16,
    /// From left to right; blanks in the default style at the end are left out.
    pub runs: Vec<Run>,
    /// The line goes on in the next row.
    #[serde(default, skip_serializing_if = "is_false")]
    pub wrapped: bool,
}

/// Cells of one style beside each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// First cell.
    pub col: u16,
    /// How many cells.
    pub width: u16,
    /// The text of the cells.
    pub text: String,
    /// Their style; absent = default.
    #[serde(default, skip_serializing_if = "Style::is_default")]
    pub style: Style,
}

/// The style of a run; what is off is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Style {
    /// Foreground.
    #[serde(default, skip_serializing_if = "Color::is_default")]
    pub fg: Color,
    /// Background.
    #[serde(default, skip_serializing_if = "Color::is_default")]
    pub bg: Color,
    /// Bold.
    #[serde(default, skip_serializing_if = "is_false")]
    pub bold: bool,
    /// Dim.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dim: bool,
    /// Italic.
    #[serde(default, skip_serializing_if = "is_false")]
    pub italic: bool,
    /// `single`, `double`, `curly`, `dotted` or `dashed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub underline: Option<String>,
    /// Foreground and background swapped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub inverse: bool,
    /// Not shown.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
    /// Struck through.
    #[serde(default, skip_serializing_if = "is_false")]
    pub strike: bool,
    /// Target of a hyperlink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

impl Style {
    /// Nothing special.
    pub fn is_default(&self) -> bool {
        *self == Style::default()
    }
}

/// One cell of a screen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// From 0.
    pub row: u16,
    /// From 0.
    pub col: u16,
    /// Empty for a blank.
    pub text: String,
    /// Two cells wide.
    pub wide: bool,
    /// The second half of a wide one.
    pub wide_continuation: bool,
    /// How it looks.
    pub style: CellStyle,
}

/// The style of a cell, every flag written out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(missing_docs, reason = "the names say it")]
pub struct CellStyle {
    pub foreground: Color,
    pub background: Color,
    pub bold: bool,
    pub dim: bool,
    pub italic: bool,
    pub underline: bool,
    pub inverse: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub hidden: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub strike: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

/// A colour: `default`, `idx:N` or `rgb:R:G:B` in decimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Color {
    /// The terminal's own.
    #[default]
    Default,
    /// A colour of the palette.
    Indexed(u8),
    /// True colour.
    Rgb(u8, u8, u8),
}

impl Color {
    /// Is it the terminal's own?
    pub fn is_default(&self) -> bool {
        *self == Color::Default
    }

    /// Reads the wire form.
    pub fn parse(text: &str) -> Option<Color> {
        if let Some(index) = text.strip_prefix("idx:") {
            return Some(Color::Indexed(index.parse().ok()?));
        }
        let Some(parts) = text.strip_prefix("rgb:") else {
            return (text == "default").then_some(Color::Default);
        };
        let mut parts = parts.split(':').map(|part| part.parse().ok());
        let color = Color::Rgb(parts.next()??, parts.next()??, parts.next()??);
        parts.next().is_none().then_some(color)
    }
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Color::Default => f.write_str("default"),
            Color::Indexed(index) => write!(f, "idx:{index}"),
            Color::Rgb(r, g, b) => write!(f, "rgb:{r}:{g}:{b}"),
        }
    }
}

impl Serialize for Color {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Color::Default => serializer.serialize_str("default"),
            _ => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for Color {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Color, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Color::parse(&text).ok_or_else(|| de::Error::custom(format!("not a colour: {text}")))
    }
}

impl JsonSchema for Color {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Color".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let pattern = r"^(default|idx:\d{1,3}|rgb:\d{1,3}:\d{1,3}:\d{1,3})$";
        schemars::json_schema!({ "type": "string", "pattern": pattern })
    }
}

/// Lines above the screen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scrollback {
    /// As asked.
    pub from: u64,
    /// How many there are in all.
    pub total: u64,
    /// Oldest first.
    pub lines: Vec<String>,
}

words! {
    /// The form of a transcript.
    #[derive(Default)]
    TranscriptFormat {
        /// Escape sequences removed.
        Text "text",
        /// As it was written, invalid UTF-8 replaced.
        #[default]
        Ansi "ansi",
        /// As it was written, in `data`.
        Raw "raw",
    }
}

/// Params of `session.transcript`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TranscriptParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// From this sequence number on; without it the newest `max_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// At most this much output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Form of the answer.
    #[serde(default)]
    pub format: TranscriptFormat,
    /// Hide secrets.
    #[serde(default = "yes")]
    pub redact: bool,
    /// How.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redaction: Option<Redaction>,
    /// How long to wait for filters that are behind: 30000 if left out, 100000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl TranscriptParams {
    /// Output of one answer when `max_bytes` is not given.
    pub const DEFAULT_BYTES: u64 = 128 * 1024;
    /// Most output of one answer: as JSON it can grow sixfold and must stay below the frame cap.
    pub const MAX_BYTES: u64 = 2 * 1024 * 1024;
}

/// Result of `session.transcript`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TranscriptResult {
    /// The output as text; empty with `raw`.
    pub text: String,
    /// The output as bytes, with `raw`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Base64>,
    /// The sequence number of the first byte here.
    #[serde(default)]
    pub seq: u64,
    /// Ask `since` this for what follows.
    #[serde(default)]
    pub next_seq: u64,
    /// There is more already.
    #[serde(default)]
    pub has_more: bool,
    /// Bytes that were asked for and are no longer kept.
    #[serde(default)]
    pub dropped: u64,
    /// Bytes printed that are missing here because filters had not answered for them in time: ask
    /// again.
    #[serde(default)]
    pub behind: u64,
    /// Why text is masked that would be shown if all were well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_in_both_forms() {
        let size: Size = serde_json::from_value(json!("120x40")).unwrap();
        assert_eq!(size, Size::new(120, 40));
        let size: Size =
            serde_json::from_value(json!({"rows": 40, "cols": 120, "more": 1})).unwrap();
        assert_eq!(size, Size::new(120, 40));
        let size = serde_json::to_value(size).unwrap();
        assert_eq!(size, json!({"rows": 40, "cols": 120, "pixel_width": 0, "pixel_height": 0}));
        for bad in [
            json!("120"),
            json!("x"),
            json!("-1x5"),
            json!({"rows": 1}),
            json!({"rows": 70000, "cols": 1}),
            json!(5),
        ] {
            assert!(serde_json::from_value::<Size>(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn colours_survive() {
        for color in [Color::Default, Color::Indexed(255), Color::Rgb(0, 128, 255)] {
            assert_eq!(Color::parse(&color.to_string()), Some(color));
        }
        for bad in ["", "idx:256", "rgb:1:2", "rgb:1:2:3:4", "Default"] {
            assert_eq!(Color::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_cell_has_exactly_the_known_members() {
        let cell = serde_json::to_value(Cell { text: "a".into(), ..Cell::default() }).unwrap();
        assert_eq!(
            cell,
            json!({"row": 0, "col": 0, "text": "a", "wide": false, "wide_continuation": false, "style": {
                "foreground": "default", "background": "default", "bold": false, "dim": false,
                "italic": false, "underline": false, "inverse": false}})
        );
    }

    #[test]
    fn a_cells_snapshot_has_exactly_the_known_members() {
        let snapshot = Snapshot {
            plain_text: Some(String::new()),
            cells: Some(vec![]),
            ..Snapshot::default()
        };
        let value = serde_json::to_value(snapshot).unwrap();
        let names: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
        let mut expected = vec![
            "size",
            "cursor",
            "sequence",
            "plain_text",
            "cells",
            "alternate_screen",
            "application_cursor",
            "application_keypad",
        ];
        expected.sort_unstable();
        assert_eq!(names, expected);
    }
}

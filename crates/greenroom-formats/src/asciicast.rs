//! Recordings as asciicast files: version 3 out, versions 2 and 3 in, line by line.
//!
//! In: events with absolute times. Out: lines with the times since the event before. Times are
//! whole microseconds inside, so that a long recording does not drift. Output may be cut anywhere,
//! also within a character: the writer keeps the cut bytes back for the next event.
//! Absent on purpose: files, clocks, playing.

use std::collections::BTreeMap;
use std::time::Duration;

use greenroom_protocol::Timestamp;
use greenroom_protocol::api::screen::Size;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

/// Longest line to accept: far beyond what recorders write.
pub const LINE_CAP: usize = 16 * 1024 * 1024;

/// What a recording says about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Header {
    /// The terminal's size at the start.
    pub size: Size,
    /// Start, in seconds since 1970.
    pub timestamp: Option<u64>,
    /// What was recorded.
    pub command: Option<String>,
    pub title: Option<String>,
    /// The type, such as `xterm-256color`.
    pub term: Option<String>,
    /// Pauses are shortened to this when played.
    pub idle_time_limit: Option<f64>,
    /// Environment worth keeping.
    pub env: BTreeMap<String, String>,
    /// What only our own recordings say.
    pub origin: Option<Origin>,
}

/// What the format has no place for, in a member `greenroom` of the header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The moment the times of all events count from, to the microsecond: `timestamp` has whole
    /// seconds.
    pub started_at: String,
    /// The program and its arguments, each as it was.
    pub argv: Vec<String>,
}

impl Origin {
    /// The moment that is so long after 1970.
    pub fn new(start: Duration, argv: Vec<String>) -> Origin {
        let ms = u64::try_from(start.as_millis()).unwrap_or(u64::MAX);
        let text = Timestamp(ms).to_string();
        let micros = start.subsec_micros() % 1000;
        let started_at = format!("{}{micros:03}Z", text.trim_end_matches('Z'));
        Origin { started_at, argv }
    }
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// `o`: the program wrote.
    Output(String),
    /// `i`: the user typed.
    Input(String),
    /// `r`: another size.
    Resize(Size),
    /// `m`: a label.
    Marker(String),
    /// `x`: the program ended with this status.
    Exit(i32),
    /// Another code: ignore it.
    Other { code: String, data: String },
}

/// A line, read.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// The first line.
    Header(Header),
    /// A line after it, with its time since the start.
    Event(Duration, Event),
}

/// What is wrong with a recording, and where.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {fault}")]
pub struct CastError {
    /// From 1.
    pub line: u64,
    pub fault: CastFault,
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum CastFault {
    #[error("not an asciicast header: {0}")]
    Header(serde_json::Error),
    #[error("asciicast version {0} is not supported (2 and 3 are)")]
    Version(u64),
    #[error("not an asciicast event: {0}")]
    Event(serde_json::Error),
    /// The time is negative or beyond all reason.
    #[error("not a time: {seconds}")]
    Time { seconds: f64 },
    /// The data do not fit the code.
    #[error("bad data of event {code}: {data}")]
    Data { code: String, data: String },
    #[error("longer than {LINE_CAP} bytes")]
    Long,
}

/// Writes version 3.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writer {
    last_us: u64,
    /// The start of a character whose rest has not come yet.
    cut: Vec<u8>,
}

/// The first line of both versions, as it is written.
#[derive(Default, Serialize, Deserialize)]
struct FirstLine {
    version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    term: Option<Term>,
    /// Version 2 has the size here.
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u16>,
    /// Whole seconds in the specification; some recorders write fractions.
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idle_time_limit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    env: Option<BTreeMap<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    greenroom: Option<Value>,
}

#[derive(Serialize, Deserialize)]
struct Term {
    cols: u16,
    rows: u16,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
}

impl Writer {
    /// At the start of a recording.
    pub fn new() -> Writer {
        Writer::default()
    }

    /// In the middle of one, after an event at `last` with nothing kept back.
    pub fn resume(last: Duration) -> Writer {
        Writer { last_us: micros(last), cut: Vec::new() }
    }

    /// The time of the last line written.
    pub fn last(&self) -> Duration {
        Duration::from_micros(self.last_us)
    }

    /// How many bytes of output are kept back; at most 3.
    pub fn kept_back(&self) -> usize {
        self.cut.len()
    }

    /// The first line, with its newline.
    pub fn header(&self, header: &Header) -> String {
        let Header { size, term, env, .. } = header.clone();
        let env: BTreeMap<_, _> = env.into_iter().map(|(name, text)| (name, text.into())).collect();
        let line = FirstLine {
            version: 3,
            term: Some(Term { cols: size.cols, rows: size.rows, kind: term }),
            timestamp: header.timestamp.map(Number::from),
            idle_time_limit: header.idle_time_limit.filter(|limit| limit.is_finite()),
            command: header.command.clone(),
            title: header.title.clone(),
            env: Some(env).filter(|env| !env.is_empty()),
            greenroom: header.origin.as_ref().map(|origin| json!(origin)),
            ..FirstLine::default()
        };
        let line = serde_json::to_string(&line).expect("string keys and finite numbers are JSON");
        format!("{line}\n")
    }

    /// Appends the line of some output, if there is a whole character in it. Invalid bytes become
    /// U+FFFD.
    pub fn output(&mut self, at: Duration, bytes: &[u8], out: &mut String) {
        let joined;
        let bytes = if self.cut.is_empty() {
            bytes
        } else {
            joined = [&self.cut, bytes].concat();
            &joined
        };
        let whole = bytes.len() - cut_at_end(bytes);
        let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
        self.cut = bytes[whole..].to_vec();
        if !text.is_empty() {
            self.line(at, "o", &text, out);
        }
    }

    /// Appends the line of any event. Output that was kept back and will not be completed comes
    /// before an exit.
    pub fn event(&mut self, at: Duration, event: &Event, out: &mut String) {
        match event {
            Event::Output(text) => self.output(at, text.as_bytes(), out),
            Event::Input(text) => self.line(at, "i", text, out),
            Event::Resize(size) => self.line(at, "r", &size.to_string(), out),
            Event::Marker(label) => self.line(at, "m", label, out),
            Event::Exit(status) => {
                self.finish(at, out);
                self.line(at, "x", &status.to_string(), out);
            }
            Event::Other { code, data } => self.line(at, code, data, out),
        }
    }

    /// Appends what was kept back, as U+FFFD.
    pub fn finish(&mut self, at: Duration, out: &mut String) {
        let cut = std::mem::take(&mut self.cut);
        if !cut.is_empty() {
            self.line(at, "o", &String::from_utf8_lossy(&cut), out);
        }
    }

    fn line(&mut self, at: Duration, code: &str, data: &str, out: &mut String) {
        // A clock that went back must not make a negative interval.
        let at = micros(at).max(self.last_us);
        let interval = at - self.last_us;
        self.last_us = at;
        let text = |value: &str| serde_json::to_string(value).expect("a string is JSON");
        let (seconds, micros) = (interval / 1_000_000, interval % 1_000_000);
        out.push_str(&format!("[{seconds}.{micros:06}, {}, {}]\n", text(code), text(data)));
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// How many bytes at the end are the start of a character that may still be completed.
fn cut_at_end(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let tail = &bytes[bytes.len() - back..];
        if tail[0] & 0b1100_0000 == 0b1000_0000 {
            continue;
        }
        // A leading byte: incomplete if the decoder says that only the end is missing.
        let cut = std::str::from_utf8(tail).is_err_and(|error| error.error_len().is_none());
        return if cut { back } else { 0 };
    }
    0
}

/// Reads versions 2 and 3, line by line.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    line: u64,
    version: Option<u64>,
    at: Duration,
}

impl Reader {
    /// Before the first line.
    pub fn new() -> Reader {
        Reader::default()
    }

    /// Reads one line; `None` for blanks and comments.
    pub fn line(&mut self, text: &str) -> Result<Option<Line>, CastError> {
        self.line += 1;
        let line = self.line;
        self.read(text).map_err(|fault| CastError { line, fault })
    }

    fn read(&mut self, text: &str) -> Result<Option<Line>, CastFault> {
        if text.len() > LINE_CAP {
            return Err(CastFault::Long);
        }
        let text = text.trim();
        // Comments exist in version 3 only; before the header nobody knows yet.
        if text.is_empty() || (text.starts_with('#') && self.version != Some(2)) {
            return Ok(None);
        }
        Ok(Some(match self.version {
            None => Line::Header(self.header(text)?),
            Some(version) => {
                let event = self.event(text, version)?;
                Line::Event(self.at, event)
            }
        }))
    }

    fn header(&mut self, text: &str) -> Result<Header, CastFault> {
        let header: FirstLine = serde_json::from_str(text).map_err(CastFault::Header)?;
        let missing = |what| CastFault::Header(serde::de::Error::missing_field(what));
        let (size, term) = match (header.version, header.term) {
            (2, _) => {
                let cols = header.width.ok_or_else(|| missing("width"))?;
                (Size::new(cols, header.height.ok_or_else(|| missing("height"))?), None)
            }
            (3, Some(term)) => (Size::new(term.cols, term.rows), term.kind),
            (3, None) => return Err(missing("term")),
            (version, _) => return Err(CastFault::Version(version)),
        };
        self.version = Some(header.version);
        let env: BTreeMap<String, String> = header
            .env
            .unwrap_or_default()
            .into_iter()
            .filter_map(|(key, value)| Some((key, value.as_str()?.to_owned())))
            .collect();
        Ok(Header {
            size,
            timestamp: header
                .timestamp
                .and_then(|time| time.as_f64())
                .filter(|time| *time >= 0.0)
                .map(|time| time as u64),
            command: header.command,
            title: header.title,
            term: term.or_else(|| env.get("TERM").cloned()),
            idle_time_limit: header.idle_time_limit,
            env,
            // Another program's member of that name is none of ours.
            origin: header.greenroom.and_then(|value| serde_json::from_value(value).ok()),
        })
    }

    fn event(&mut self, text: &str, version: u64) -> Result<Event, CastFault> {
        let (seconds, code, data): (f64, String, Value) =
            serde_json::from_str(text).map_err(CastFault::Event)?;
        // Rounded: 0.1 as a float is a little more than a tenth.
        let time = Duration::try_from_secs_f64((seconds * 1e6).round() / 1e6)
            .map_err(|_| CastFault::Time { seconds })?;
        let time = Duration::from_micros(micros(time + Duration::from_nanos(500)));
        self.at = match version {
            2 => time.max(self.at),
            _ => self.at.checked_add(time).ok_or(CastFault::Time { seconds })?,
        };
        let data = match data {
            Value::String(data) => data,
            other => other.to_string(),
        };
        let bad = |data: &str| CastFault::Data { code: code.clone(), data: data.to_owned() };
        Ok(match code.as_str() {
            "o" => Event::Output(data),
            "i" => Event::Input(data),
            "r" => Event::Resize(Size::parse(&data).ok_or_else(|| bad(&data))?),
            "m" => Event::Marker(data),
            "x" => Event::Exit(data.trim().parse().map_err(|_| bad(&data))?),
            _ => Event::Other { code, data },
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<Line> {
        let mut reader = Reader::new();
        text.lines().filter_map(|line| reader.line(line).unwrap()).collect()
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_start_is_exact_and_reads_back() {
        let origin = Origin::new(Duration::new(1_504_467_315, 6_043_999), vec!["a b".to_owned()]);
        assert_eq!(origin.started_at, "2017-09-03T19:35:15.006043Z");
        let header = Header { origin: Some(origin), size: Size::new(80, 24), ..Header::default() };
        let line = Writer::new().header(&header);
        assert_eq!(read(&line), [Line::Header(header)]);
        // What another program calls by that name is not taken for ours.
        let foreign = line.replace("\"argv\"", "\"args\"");
        let Line::Header(header) = &read(&foreign)[0] else { panic!("{foreign}") };
        assert_eq!(header.origin, None);
    }

    #[test]
    fn version_3_as_its_specification_shows() {
        let text = r##"{"version": 3, "term": {"cols": 80, "rows": 24, "type": "xterm-256color"}, "timestamp": 1504467315, "command": "/bin/bash", "title": "Demo", "env": {"SHELL": "/bin/zsh"}}
# a comment
[0.248848, "o", "\u001b[1;31mHello"]
[1.001376, "m", "there"]

[0.143733, "r", "90x30"]
[1.500000, "x", "0"]
"##;
        let lines = read(text);
        let Line::Header(header) = &lines[0] else { panic!("{lines:?}") };
        assert_eq!((header.size, header.timestamp), (Size::new(80, 24), Some(1_504_467_315)));
        assert_eq!(header.term.as_deref(), Some("xterm-256color"));
        assert_eq!(
            lines[1],
            Line::Event(Duration::from_micros(248_848), Event::Output("\u{1b}[1;31mHello".into()))
        );
        assert_eq!(
            lines[2],
            Line::Event(Duration::from_micros(1_250_224), Event::Marker("there".into()))
        );
        assert_eq!(
            lines[3],
            Line::Event(Duration::from_micros(1_393_957), Event::Resize(Size::new(90, 30)))
        );
        assert_eq!(lines[4], Line::Event(Duration::from_micros(2_893_957), Event::Exit(0)));
    }

    #[test]
    fn version_2_has_absolute_times() {
        let text = r#"{"version": 2, "width": 80, "height": 24, "timestamp": 1504467315.5, "env": {"TERM": "xterm", "N": 1}}
[0.1, "o", "a"]
[0.2, "i", "b"]
[0.15, "z", "late"]"#;
        let lines = read(text);
        assert_eq!(lines[1], Line::Event(ms(100), Event::Output("a".into())));
        assert_eq!(lines[2], Line::Event(ms(200), Event::Input("b".into())));
        assert_eq!(
            lines[3],
            Line::Event(ms(200), Event::Other { code: "z".into(), data: "late".into() })
        );
        let Line::Header(header) = &lines[0] else { panic!("{lines:?}") };
        assert_eq!(header.term.as_deref(), Some("xterm"));
    }

    #[test]
    fn errors_name_their_line() {
        let check = |text: &str, expected: &str| {
            let mut reader = Reader::new();
            let error = text.lines().find_map(|line| reader.line(line).err()).unwrap().to_string();
            assert!(error.starts_with(expected), "{error}");
        };
        check("nonsense", "line 1: not an asciicast header");
        check(r#"{"version": 1, "width": 1, "height": 1}"#, "line 1: asciicast version 1");
        check(
            r#"{"version": 2, "width": 1}"#,
            "line 1: not an asciicast header: missing field `height`",
        );
        let v3 = r#"{"version": 3, "term": {"cols": 1, "rows": 1}}"#;
        check(&format!("{v3}\n[1]"), "line 2: not an asciicast event");
        check(&format!("{v3}\n\n[-1, \"o\", \"\"]"), "line 3: not a time");
        check(&format!("{v3}\n[1e300, \"o\", \"\"]"), "line 2: not a time");
        check(&format!("{v3}\n[0, \"r\", \"big\"]"), "line 2: bad data of event r: big");
    }

    #[test]
    fn characters_are_never_cut() {
        let text = "aé€😀z";
        for split in 0..=text.len() {
            let (mut writer, mut out) = (Writer::new(), String::new());
            writer.output(ms(1), &text.as_bytes()[..split], &mut out);
            writer.output(ms(2), &text.as_bytes()[split..], &mut out);
            assert_eq!(writer.kept_back(), 0);
            assert_eq!(output_of(&out), text, "split at {split}");
        }
    }

    #[test]
    fn a_cut_character_at_the_end_is_marked() {
        let (mut writer, mut out) = (Writer::new(), String::new());
        writer.output(ms(1), b"a\xf0\x9f", &mut out);
        assert_eq!(writer.kept_back(), 2);
        writer.event(ms(2), &Event::Exit(0), &mut out);
        assert_eq!(output_of(&out), "a\u{fffd}");
        assert!(out.ends_with("\"x\", \"0\"]\n"));
    }

    fn output_of(lines: &str) -> String {
        let mut reader = Reader { version: Some(3), ..Reader::new() };
        let text = |line: &str| match reader.line(line).unwrap() {
            Some(Line::Event(_, Event::Output(text))) => text,
            _ => String::new(),
        };
        lines.lines().map(text).collect()
    }

    fn any_event() -> impl Strategy<Value = Event> {
        prop_oneof![
            "[^\u{0}]{1,20}".prop_map(Event::Output),
            ".{0,8}".prop_map(Event::Input),
            (1..2000u16, 1..2000u16).prop_map(|(cols, rows)| Event::Resize(Size::new(cols, rows))),
            ".{0,8}".prop_map(Event::Marker),
            any::<i32>().prop_map(Event::Exit),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(events in prop::collection::vec((0..10_000_000_000u64, any_event()), 0..40)) {
            let mut writer = Writer::new();
            let header = Header { size: Size::new(80, 24), title: Some("t\n\"".into()), ..Header::default() };
            let mut out = writer.header(&header);
            let (mut at, mut expected) = (Duration::ZERO, vec![Line::Header(header)]);
            for (gap_us, event) in events {
                at += Duration::from_micros(gap_us);
                writer.event(at, &event, &mut out);
                expected.push(Line::Event(at, event));
            }
            prop_assert_eq!(writer.last(), at);
            prop_assert_eq!(read(&out), expected);
        }

        #[test]
        fn pieces_of_any_bytes_add_up(bytes in prop::collection::vec(any::<u8>(), 0..60), cuts in prop::collection::vec(0..60usize, 0..8)) {
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut <= bytes.len()).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let (mut writer, mut out) = (Writer::new(), String::new());
            for pair in cuts.windows(2) {
                writer.output(ms(1), &bytes[pair[0]..pair[1]], &mut out);
                prop_assert!(writer.kept_back() <= 3);
            }
            writer.finish(ms(1), &mut out);
            prop_assert_eq!(output_of(&out), String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn reading_never_panics(lines in prop::collection::vec(".{0,40}", 0..6)) {
            let mut reader = Reader::new();
            for line in &lines {
                let _ = reader.line(line);
            }
        }
    }
}

//! `session.export` and `session.replay`: the journal as a recording.
//!
//! An export comes in pages. Its cursor says where the last page stopped: the recording's start,
//! the sequence number, how many things without length at that number were told already, the time
//! of the last line, and where the output ended at the first page: a session that goes on printing
//! does not make its recording endless. A page waits for filters that are behind, but not for ever.

use std::fmt;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};

use greenroom_engine::egress::Sink;
use greenroom_engine::journal::{Item, Note};
use greenroom_engine::session::{Recording, SessionInfo};
use greenroom_engine::term::Screen;
use greenroom_engine::transcript::Plain;
use greenroom_engine::{EngineError, Seq};
use greenroom_formats::asciicast::{Event, Header, Origin, Writer};
use greenroom_protocol::Fault;
use greenroom_protocol::api::session::{
    ExportFormat, ExportParams, ExportResult, ReplayParams, ReplayResult,
};
use tokio::time::Instant;

use crate::call::Call;
use crate::call::fault;
use crate::convert;
use crate::methods::redact;
use crate::sync::blocking;

/// Text of a page when the caller does not say.
const PAGE_BYTES: u64 = 1024 * 1024;
/// As JSON within JSON a page can grow tenfold and must stay below the frame cap.
const PAGE_MAX: u64 = 1024 * 1024;

/// Where a page stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Cursor {
    start_ns: u64,
    seq: u64,
    shown: u64,
    last_us: u64,
    until: u64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cursor { start_ns, seq, shown, last_us, until } = self;
        write!(f, "{start_ns}.{seq}.{shown}.{last_us}.{until}")
    }
}

impl FromStr for Cursor {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Cursor, Fault> {
        let numbers: Option<Vec<u64>> = text.split('.').map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[start_ns, seq, shown, last_us, until]) => {
                Ok(Cursor { start_ns, seq, shown, last_us, until })
            }
            _ => Err(Fault::invalid_params("the cursor is not one of ours")),
        }
    }
}

pub(crate) async fn export(call: Call, params: ExportParams) -> Result<ExportResult, Fault> {
    let handle = call.session(&params.session)?;
    let cursor: Option<Cursor> = params.cursor.as_deref().map(str::parse).transpose()?;
    let max = params.max_bytes.unwrap_or(PAGE_BYTES).clamp(1, PAGE_MAX);
    let until = match cursor {
        Some(cursor) => Seq(cursor.until),
        None => handle.tail().await.map_err(fault::engine)?,
    };
    let wanted = until.min(Seq(cursor.unwrap_or_default().seq.saturating_add(max)));
    let deadline = Instant::now() + redact::patience(params.timeout_ms);
    let late = handle.caught_up(Sink::Recording, wanted, deadline).await > 0;
    let recording = handle.recording().await.map_err(fault::engine)?;
    let info = handle.info();
    let term = call.host.settings.now().sessions.term.clone();
    let mut page = blocking(move || {
        let from = cursor.unwrap_or(Cursor { until: until.0, ..Cursor::default() });
        match params.format {
            ExportFormat::AsciicastV3 => {
                Casting::new(cursor.is_none(), from, max as usize).run(&recording, &info, &term)
            }
            ExportFormat::Text => text(&recording, from, max as usize),
        }
    })
    .await?
    .map_err(fault::engine)?;
    if late && page.cursor.is_some() {
        page.behind = handle.unanswered(Sink::Recording, until);
    }
    Ok(page)
}

/// One page of an asciicast.
struct Casting {
    first: bool,
    from: Cursor,
    max: usize,
    writer: Writer,
    out: String,
    at: Cursor,
    dropped: u64,
    full: bool,
}

impl Casting {
    fn new(first: bool, from: Cursor, max: usize) -> Casting {
        let writer = Writer::resume(Duration::from_micros(from.last_us));
        let out = String::new();
        Casting { first, from, max, writer, out, at: from, dropped: 0, full: false }
    }

    fn run(
        mut self,
        recording: &Recording,
        info: &SessionInfo,
        term: &str,
    ) -> Result<ExportResult, EngineError> {
        let mut header = self.first.then(|| header(info, term));
        let mut here = (self.at.seq, 0);
        let withheld = recording.replay(&mut |item, bytes| {
            let (seq, time_ns) = item.place();
            if matches!(item, Item::Output { .. }) && seq.0 >= self.from.until {
                return ControlFlow::Break(());
            }
            if let (Some(header), Item::Keyframe { size, .. }) = (&mut header, &item) {
                header.size = convert::size(*size);
            }
            if let Some(mut header) = header.take() {
                self.at.start_ns = time_ns;
                let start = Duration::from_nanos(time_ns);
                header.timestamp = Some(start.as_secs());
                header.origin = Some(Origin::new(start, words(info)));
                self.out.push_str(&self.writer.header(&header));
            }
            if seq.0 != here.0 {
                here = (seq.0, 0);
            }
            self.item(item, bytes.map(|bytes| bytes.into_inner()), &mut here.1);
            if self.full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(header) = header {
            self.out.push_str(&self.writer.header(&header));
        }
        self.at.seq -= self.writer.kept_back() as u64;
        self.at.last_us = u64::try_from(self.writer.last().as_micros()).unwrap_or(u64::MAX);
        let more = self.full || (withheld && self.at.seq < self.at.until);
        let cursor = more.then(|| self.at.to_string());
        Ok(ExportResult { data: self.out, cursor, dropped: self.dropped, behind: 0 })
    }

    /// `passed` counts the things without length at this sequence number.
    fn item(&mut self, item: Item<'_>, bytes: Option<&[u8]>, passed: &mut u64) {
        let (seq, time_ns) = item.place();
        let at = Duration::from_nanos(time_ns.saturating_sub(self.at.start_ns));
        if let Item::Output { .. } = item {
            return self.output(seq, at, bytes.unwrap_or_default());
        }
        *passed += 1;
        let Cursor { seq: from, shown, .. } = self.from;
        if !self.first && (seq.0 < from || (seq.0 == from && *passed <= shown)) {
            return;
        }
        let event = match item {
            // The screen at the start of an empty recording says nothing.
            Item::Keyframe { seq, size, .. } if seq.0 > 0 => {
                let picture = Screen::restore(size, bytes.unwrap_or_default()).viewer_keyframe();
                self.writer.output(at, &picture, &mut self.out);
                None
            }
            Item::Note { note, .. } => match note {
                Note::Resize(size) if seq.0 > 0 || *passed > 2 => {
                    Some(Event::Resize(convert::size(*size)))
                }
                Note::Mark(text) => Some(Event::Marker(text.clone())),
                Note::Exit { code, signal } => {
                    Some(Event::Exit(code.unwrap_or(signal.map_or(-1, |signal| 128 + signal))))
                }
                _ => None,
            },
            Item::Gap { from, to } => {
                self.dropped += to.since(from);
                Some(Event::Marker(format!("{} bytes are missing here", to.since(from))))
            }
            _ => None,
        };
        if let Some(event) = event {
            self.writer.event(at, &event, &mut self.out);
        }
        self.at.seq = self.at.seq.max(seq.0);
        self.at.shown = *passed;
        self.full = self.out.len() >= self.max;
    }

    fn output(&mut self, seq: Seq, at: Duration, bytes: &[u8]) {
        let end = seq.0 + bytes.len() as u64;
        let from = self.from.seq;
        if end <= from {
            return;
        }
        let skip = usize::try_from(from.saturating_sub(seq.0)).unwrap_or(usize::MAX);
        let room = self.max.saturating_sub(self.out.len()).max(1024);
        let bytes = &bytes[skip.min(bytes.len())..];
        let taken = &bytes[..bytes.len().min(room)];
        self.writer.output(at, taken, &mut self.out);
        self.at.seq = seq.0 + (skip + taken.len()) as u64;
        self.at.shown = 0;
        self.full = taken.len() < bytes.len() || self.out.len() >= self.max;
    }
}

fn header(info: &SessionInfo, term: &str) -> Header {
    let start = info.record.created.duration_since(UNIX_EPOCH).unwrap_or_default();
    Header {
        size: convert::size(info.record.size),
        timestamp: Some(start.as_secs()),
        command: Some(quoted(&words(info))),
        title: info.title.as_ref().map(|title| title.get().clone()),
        term: Some(term.to_owned()),
        ..Header::default()
    }
}

fn words(info: &SessionInfo) -> Vec<String> {
    info.record.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// As a shell would read it back. A word with a NUL byte was never started.
fn quoted(words: &[String]) -> String {
    let quote = |word: &String| shlex::try_quote(word).unwrap_or_default().into_owned();
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

/// Output without escape sequences. Pages end at line ends, where no sequence is open.
fn text(recording: &Recording, cursor: Cursor, max: usize) -> Result<ExportResult, EngineError> {
    let Cursor { seq: from, until, .. } = cursor;
    let mut plain = Plain::new();
    let mut data = String::new();
    let mut end = from;
    let mut dropped = 0;
    let mut full = false;
    // The last line end, in the text and in the output.
    let mut line_end = (0, from);
    let withheld = recording.replay(&mut |item, bytes| {
        match (item, bytes) {
            (Item::Output { seq, .. }, Some(_)) if seq.0 >= until => {
                return ControlFlow::Break(());
            }
            (Item::Output { seq, bytes: raw, .. }, Some(bytes)) => {
                let skip = usize::try_from(from.saturating_sub(seq.0)).unwrap_or(usize::MAX);
                let bytes = bytes.into_inner().get(skip..).unwrap_or_default();
                let room = max.saturating_sub(data.len());
                let stop = (bytes.len() > room)
                    .then(|| bytes[room..].iter().position(|byte| *byte == b'\n'))
                    .flatten()
                    .map(|line| room + line + 1);
                let taken = &bytes[..stop.unwrap_or(bytes.len())];
                let lines = taken.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
                plain.feed(&taken[..lines], &mut data);
                if lines > 0 {
                    line_end = (data.len(), seq.0 + (skip + lines) as u64);
                }
                plain.feed(&taken[lines..], &mut data);
                full = stop.is_some();
                if skip < raw.len() {
                    end = seq.0 + (skip + stop.unwrap_or(bytes.len())) as u64;
                }
            }
            (Item::Gap { from: first, to }, _) if to.0 > from => {
                dropped += to.since(first.max(Seq(from)));
                end = end.max(to.0);
                line_end = (data.len(), end);
            }
            _ => {}
        }
        if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let more = full || (withheld && end < until);
    if more && !full {
        // Where filters stopped for now a sequence may be open.
        data.truncate(line_end.0);
        end = line_end.1;
    }
    let cursor = more.then(|| Cursor { seq: end, until, ..Cursor::default() }.to_string());
    Ok(ExportResult { data, cursor, dropped, behind: 0 })
}

pub(crate) async fn replay(call: Call, params: ReplayParams) -> Result<ReplayResult, Fault> {
    let handle = call.session(&params.session)?;
    if params.at_ms.is_some() && params.at_seq.is_some() {
        return Err(Fault::invalid_params("at_ms and at_seq cannot be given together"));
    }
    let tail = handle.tail().await.map_err(fault::engine)?;
    let wanted = params.at_seq.map_or(tail, |at| tail.min(Seq(at)));
    let patience = redact::patience(params.timeout_ms);
    let behind = handle.caught_up(Sink::Recording, wanted, Instant::now() + patience).await;
    let recording = handle.recording().await.map_err(fault::engine)?;
    let size = handle.info().record.size;
    let (found, arrived) = blocking(move || {
        let mut seeking = Seeking::start(size, &params);
        recording.replay(&mut |item, bytes| {
            seeking.item(&item, bytes.map(|bytes| bytes.into_inner()));
            ControlFlow::Continue(())
        })?;
        let arrived = seeking.arrived;
        Ok((seeking.result(&recording), arrived))
    })
    .await?
    .map_err(fault::engine)?;
    if behind > 0 && !arrived {
        return Err(fault::behind("that moment of the recording", patience, behind));
    }
    Ok(found)
}

/// A screen on its way to a moment of the past.
struct Seeking<'a> {
    params: &'a ReplayParams,
    screen: Screen,
    start_ns: Option<u64>,
    at_ns: u64,
    last_ns: u64,
    seq: Seq,
    arrived: bool,
}

impl Seeking<'_> {
    fn start(size: greenroom_engine::term::Size, params: &ReplayParams) -> Seeking<'_> {
        Seeking {
            params,
            screen: Screen::new(size),
            start_ns: None,
            at_ns: 0,
            last_ns: 0,
            seq: Seq(0),
            arrived: false,
        }
    }

    fn item(&mut self, item: &Item<'_>, bytes: Option<&[u8]>) {
        let (seq, time_ns) = item.place();
        if time_ns > 0 {
            self.start_ns.get_or_insert(time_ns);
            self.last_ns = time_ns;
        }
        let start_ns = self.start_ns.unwrap_or(time_ns);
        let late = self
            .params
            .at_ms
            .is_some_and(|at| time_ns > start_ns.saturating_add(at.saturating_mul(1_000_000)));
        let far = self.params.at_seq.is_some_and(|at| seq.0 >= at);
        let first = matches!(item, Item::Keyframe { .. }) && self.seq.0 == 0;
        self.arrived |= (late || far) && !first;
        if self.arrived {
            return;
        }
        match (item, bytes) {
            (Item::Keyframe { size, .. }, Some(bytes)) => {
                self.screen = Screen::restore(*size, bytes)
            }
            (Item::Output { .. }, Some(bytes)) => {
                let room = self.params.at_seq.map_or(u64::MAX, |at| at - seq.0);
                let taken = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
                self.screen.feed(&bytes[..taken]);
                self.seq = seq.plus(taken as u64);
            }
            (Item::Note { note: Note::Resize(size), .. }, _) => self.screen.resize(*size),
            _ => {}
        }
        self.seq = self.seq.max(seq);
        self.at_ns = time_ns.max(self.at_ns);
    }

    fn result(self, recording: &Recording) -> ReplayResult {
        let start = self.start_ns.unwrap_or(0);
        let ms = |ns: u64| ns.saturating_sub(start) / 1_000_000;
        // Painted from filtered bytes; the picture shows what no stream can.
        let frame = recording.frame(self.screen.frame());
        ReplayResult {
            snapshot: convert::screen::snapshot(&frame, self.seq, self.params.format, None),
            at_ms: ms(self.at_ns),
            duration_ms: ms(self.last_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_read_back_as_written() {
        let cursor = Cursor { start_ns: 1, seq: 2, shown: 3, last_us: 4, until: 5 };
        assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
        for wrong in ["", "1.2.3.4", "1.2.3.4.x", "1.2.3.4.5.6", "-1.2.3.4.5"] {
            assert!(wrong.parse::<Cursor>().is_err(), "{wrong}");
        }
    }
}

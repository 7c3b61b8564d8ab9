//! What a program says beside its picture: bell, title, directory, notification, prompt.
//!
//! In: finished OSC strings and bells. Out: a bounded list of [`Mark`]s.
//! Deliberately absent: any reaction. A clipboard *read* is not a mark and is never answered: it
//! would hand the operator's clipboard to the program.

use std::collections::VecDeque;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

/// One fact a program told its terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// BEL. Bells without another mark between them are one mark.
    Bell,
    /// OSC 0 or 2, or a title popped from the stack; empty when the title was taken away.
    Title(String),
    /// OSC 7: the working directory, as a path where the program sent a `file:` URL.
    Cwd(String),
    /// OSC 9 or 777.
    Notify { title: Option<String>, body: String },
    /// OSC 9;4: 0 none, 1 normal, 2 error, 3 indeterminate, 4 paused.
    Progress { state: u8, percent: Option<u8> },
    /// OSC 52 store.
    Clipboard { selection: String, data: Vec<u8> },
    /// OSC 133;A
    PromptStart,
    /// OSC 133;B
    PromptEnd,
    /// OSC 133;C
    CommandStart,
    /// OSC 133;D
    CommandEnd { exit: Option<i32> },
}

/// Marks that nobody has taken yet; past it the oldest go.
const MAX_MARKS: usize = 256;
/// Their bytes together; a clipboard text alone may be 96 KiB.
const MAX_BYTES: usize = 512 * 1024;

/// Marks in order, bounded.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    waiting: VecDeque<Mark>,
    bytes: usize,
}

impl Marks {
    pub(crate) fn push(&mut self, mark: Mark) {
        if mark == Mark::Bell && self.waiting.back() == Some(&Mark::Bell) {
            return;
        }
        self.bytes += weight(&mark);
        self.waiting.push_back(mark);
        while self.waiting.len() > MAX_MARKS || self.bytes > MAX_BYTES {
            let Some(oldest) = self.waiting.pop_front() else { break };
            self.bytes -= weight(&oldest);
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Mark> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting).into()
    }
}

fn weight(mark: &Mark) -> usize {
    match mark {
        Mark::Title(text) | Mark::Cwd(text) => text.len(),
        Mark::Notify { title, body } => title.as_ref().map_or(0, String::len) + body.len(),
        Mark::Clipboard { selection, data } => selection.len() + data.len(),
        _ => 0,
    }
}

/// What an OSC string is to us.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Osc {
    Mark(Mark),
    /// Ours, but malformed or not granted.
    Ignored,
    /// Not ours: vte reads it.
    Other,
}

/// Reads an OSC string without its introducer and terminator.
pub(crate) fn from_osc(body: &[u8]) -> Osc {
    let (number, rest) = split(body);
    let mark = match number {
        b"7" => Some(path(rest)).filter(|path| !path.is_empty()).map(Mark::Cwd),
        b"9" => notification(rest),
        b"52" => clipboard(rest),
        b"133" => prompt(rest),
        b"777" => desktop_notification(rest),
        _ => return Osc::Other,
    };
    mark.map_or(Osc::Ignored, Osc::Mark)
}

/// Up to the first semicolon, and what follows it.
fn split(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|&b| b == b';') {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, b""),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `file://host/path` as a path; anything else as it is.
fn path(url: &[u8]) -> String {
    let Some(rest) = url.strip_prefix(b"file://") else { return text(url) };
    let start = rest.iter().position(|&b| b == b'/').unwrap_or(rest.len());
    text(&percent_decoded(&rest[start..]))
}

fn percent_decoded(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        let code = match (byte, tail) {
            (b'%', [high, low, ..]) => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        match code {
            Some((high, low)) => {
                decoded.push(high << 4 | low);
                rest = &tail[2..];
            }
            None => decoded.push(*byte),
        }
    }
    decoded
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn notification(rest: &[u8]) -> Option<Mark> {
    match split(rest) {
        (b"4", progress) => {
            let (state, percent) = split(progress);
            let state = decimal(state).filter(|state| (0..=4).contains(state))?;
            let percent = decimal(percent).map(|percent| percent.clamp(0, 100) as u8);
            Some(Mark::Progress { state: state as u8, percent })
        }
        _ if rest.is_empty() => None,
        _ => Some(Mark::Notify { title: None, body: text(rest) }),
    }
}

fn desktop_notification(rest: &[u8]) -> Option<Mark> {
    let (b"notify", rest) = split(rest) else { return None };
    let (title, body) = split(rest);
    let title = (!title.is_empty()).then(|| text(title));
    Some(Mark::Notify { title, body: text(body) })
}

fn clipboard(rest: &[u8]) -> Option<Mark> {
    let (selection, data) = split(rest);
    if data == b"?" {
        return None;
    }
    let data = STANDARD.decode(data).or_else(|_| STANDARD_NO_PAD.decode(data)).ok()?;
    let selection = if selection.is_empty() { b"c" } else { selection };
    Some(Mark::Clipboard { selection: text(selection), data })
}

fn prompt(rest: &[u8]) -> Option<Mark> {
    match split(rest) {
        (b"A", _) => Some(Mark::PromptStart),
        (b"B", _) => Some(Mark::PromptEnd),
        (b"C", _) => Some(Mark::CommandStart),
        (b"D", rest) => Some(Mark::CommandEnd { exit: decimal(split(rest).0) }),
        _ => None,
    }
}

fn decimal(digits: &[u8]) -> Option<i32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: Mark) {
        assert_eq!(from_osc(body.as_bytes()), Osc::Mark(expected), "{body}");
    }

    #[test]
    fn each_string_becomes_its_mark() {
        let notify = |title: Option<&str>, body: &str| Mark::Notify {
            title: title.map(str::to_owned),
            body: body.to_owned(),
        };
        check("7;file://host/home/a%20b/%zz%c3%a9", Mark::Cwd("/home/a b/%zzé".into()));
        check("7;/plain", Mark::Cwd("/plain".into()));
        check("9;done; really", notify(None, "done; really"));
        check("777;notify;Build;failed;badly", notify(Some("Build"), "failed;badly"));
        check("9;4;1;40", Mark::Progress { state: 1, percent: Some(40) });
        check("9;4;3", Mark::Progress { state: 3, percent: None });
        check("9;4;1;400", Mark::Progress { state: 1, percent: Some(100) });
        check("52;;aGk=", Mark::Clipboard { selection: "c".into(), data: b"hi".to_vec() });
        check("52;p;aGk", Mark::Clipboard { selection: "p".into(), data: b"hi".to_vec() });
        check("133;A;cl=m", Mark::PromptStart);
        check("133;B", Mark::PromptEnd);
        check("133;C", Mark::CommandStart);
        check("133;D;130;aid=7", Mark::CommandEnd { exit: Some(130) });
        check("133;D", Mark::CommandEnd { exit: None });
    }

    #[test]
    fn what_is_ours_but_wrong_goes_nowhere() {
        for body in
            ["7;", "7;file://host", "52;c;?", "52;c;***", "9;4;9;1", "9;", "133;Z", "777;other;x"]
        {
            assert_eq!(from_osc(body.as_bytes()), Osc::Ignored, "{body}");
        }
        assert_eq!(from_osc(b"0;title"), Osc::Other);
    }

    #[test]
    fn a_flood_keeps_the_newest() {
        let mut marks = Marks::default();
        for n in 0..1000 {
            marks.push(Mark::Bell);
            marks.push(Mark::Bell);
            marks.push(Mark::Title(n.to_string()));
        }
        let kept = marks.take();
        assert_eq!(kept.len(), MAX_MARKS);
        assert_eq!(kept.last(), Some(&Mark::Title("999".into())));
        for _ in 0..1000 {
            marks.push(Mark::Clipboard { selection: "c".into(), data: vec![0; 100_000] });
        }
        assert!(marks.bytes <= MAX_BYTES && marks.take().len() == 5);
    }
}

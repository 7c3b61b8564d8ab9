//! Bytes from the terminal to key events.
//!
//! In: reads of any size; a sequence may be cut anywhere. Out: the few events the agent knows.
//! An ESC with nothing behind it waits for [`Decoder::flush`]: only time tells the Escape key from
//! the start of a sequence. Sequences it does not know are dropped, as terminals may send reports.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Text(String),
    Paste(String),
    Enter,
    NewLine,
    Backspace,
    Escape,
    Up,
    Down,
    CtrlC,
    CtrlD,
    CtrlU,
}

/// A paste longer than this is cut: the prompt box is no file store.
pub(crate) const MAX_PASTE: usize = 256 * 1024;
/// An unfinished sequence longer than this is no sequence.
const MAX_SEQUENCE: usize = 64;
const PASTE_END: &[u8] = b"\x1b[201~";

#[derive(Default)]
pub(crate) struct Decoder {
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
}

impl Decoder {
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Input> {
        self.pending.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(used) = self.step(&mut events) {
            self.pending.drain(..used);
        }
        events
    }

    /// Whether bytes wait that only time can explain.
    pub(crate) fn is_waiting(&self) -> bool {
        self.paste.is_none() && !self.pending.is_empty()
    }

    /// No more bytes came: an ESC was the Escape key, anything else unfinished is dropped.
    pub(crate) fn flush(&mut self) -> Vec<Input> {
        let pending = std::mem::take(&mut self.pending);
        if pending.first() == Some(&0x1b) && pending.len() <= 2 {
            return vec![Input::Escape];
        }
        Vec::new()
    }

    /// Reads one event from the front; the number of bytes used, or none to wait for more.
    fn step(&mut self, events: &mut Vec<Input>) -> Option<usize> {
        if self.paste.is_some() {
            return self.step_paste(events);
        }
        match *self.pending.first()? {
            0x1b => self.step_escape(events),
            byte @ (0x00..=0x1f | 0x7f) => {
                events.extend(control(byte));
                Some(1)
            }
            _ => self.step_text(events),
        }
    }

    fn step_text(&self, events: &mut Vec<Input>) -> Option<usize> {
        let controls = |byte: &u8| *byte < 0x20 || *byte == 0x7f;
        let end = self.pending.iter().position(controls).unwrap_or(self.pending.len());
        let bytes = &self.pending[..end];
        let (text, used) = match std::str::from_utf8(bytes) {
            Ok(text) => (text.to_owned(), end),
            // A character that is cut at the end of the read: wait for the rest.
            Err(e) if e.error_len().is_none() && end == self.pending.len() => {
                let whole = e.valid_up_to();
                if whole == 0 {
                    return None;
                }
                (String::from_utf8_lossy(&bytes[..whole]).into_owned(), whole)
            }
            Err(_) => (String::from_utf8_lossy(bytes).into_owned(), end),
        };
        events.push(Input::Text(text));
        Some(used)
    }

    fn step_escape(&mut self, events: &mut Vec<Input>) -> Option<usize> {
        match *self.pending.get(1)? {
            b'[' => {
                let body = &self.pending[2..];
                let Some(end) = body.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
                    // Too long to be a sequence: drop the ESC and read the rest as text.
                    return (body.len() > MAX_SEQUENCE).then_some(1);
                };
                let parameters = String::from_utf8_lossy(&body[..end]).into_owned();
                match (parameters.as_str(), body[end]) {
                    ("200", b'~') => self.paste = Some(Vec::new()),
                    (parameters, last) => events.extend(sequence(parameters, last)),
                }
                Some(end + 3)
            }
            b'O' => {
                events.extend(sequence("", *self.pending.get(2)?));
                Some(3)
            }
            b'\r' | b'\n' => {
                events.push(Input::NewLine);
                Some(2)
            }
            0x1b => {
                events.push(Input::Escape);
                Some(1)
            }
            // alt with a letter: no command of ours.
            _ => Some(2),
        }
    }

    fn step_paste(&mut self, events: &mut Vec<Input>) -> Option<usize> {
        let paste = self.paste.as_mut()?;
        let end = self.pending.windows(PASTE_END.len()).position(|window| window == PASTE_END);
        // The marker may be cut at the end of the read: keep what could be its beginning.
        let used = end.unwrap_or_else(|| {
            let len = self.pending.len();
            let kept = (1..PASTE_END.len().min(len + 1))
                .rev()
                .find(|n| self.pending[len - n..] == PASTE_END[..*n]);
            len - kept.unwrap_or(0)
        });
        let room = MAX_PASTE.saturating_sub(paste.len());
        paste.extend_from_slice(&self.pending[..used.min(room)]);
        if end.is_none() {
            return (used > 0).then_some(used);
        }
        let text = String::from_utf8_lossy(&self.paste.take().unwrap_or_default())
            .replace("\r\n", "\n")
            .replace('\r', "\n");
        events.push(Input::Paste(text));
        Some(used + PASTE_END.len())
    }
}

fn control(byte: u8) -> Option<Input> {
    Some(match byte {
        b'\r' => Input::Enter,
        b'\n' => Input::NewLine,
        0x08 | 0x7f => Input::Backspace,
        0x03 => Input::CtrlC,
        0x04 => Input::CtrlD,
        0x15 => Input::CtrlU,
        _ => return None,
    })
}

/// Cursor keys in both forms, and what the kitty protocol and modifyOtherKeys say of our keys.
fn sequence(parameters: &str, last: u8) -> Option<Input> {
    let mut fields = parameters.split(';').map(|field| field.split(':').next().unwrap_or(""));
    match last {
        b'A' => Some(Input::Up),
        b'B' => Some(Input::Down),
        b'u' => {
            let code = fields.next()?.parse().ok()?;
            coded(code, fields.next().unwrap_or("").parse().unwrap_or(1))
        }
        b'~' if parameters.starts_with("27;") => {
            let modifier = fields.nth(1)?.parse().ok()?;
            coded(fields.next()?.parse().ok()?, modifier)
        }
        _ => None,
    }
}

fn coded(code: u32, modifier: u32) -> Option<Input> {
    let modified = modifier > 1;
    let ctrl = modifier.checked_sub(1)? & 4 != 0;
    Some(match (code, char::from_u32(code)?) {
        (13, _) if modified => Input::NewLine,
        (13 | 57_414, _) => Input::Enter,
        (27, _) => Input::Escape,
        (127, _) => Input::Backspace,
        (_, 'c') if ctrl => Input::CtrlC,
        (_, 'd') if ctrl => Input::CtrlD,
        (_, 'u') if ctrl => Input::CtrlU,
        (_, 'j') if ctrl => Input::NewLine,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<Input> {
        let mut decoder = Decoder::default();
        let mut events = decoder.feed(bytes);
        events.extend(decoder.flush());
        events
    }

    #[test]
    fn keys_in_every_form() {
        let table: &[(&[u8], &[Input])] = &[
            ("hé".as_bytes(), &[Input::Text("hé".into())]),
            (b"a\r", &[Input::Text("a".into()), Input::Enter]),
            (b"\x1b", &[Input::Escape]),
            (b"\x1b\x1b", &[Input::Escape, Input::Escape]),
            (b"\x1b[A\x1bOB", &[Input::Up, Input::Down]),
            (b"\x1b\r\n\x1b[13;2u\x1b[27;2;13~", &[const { Input::NewLine }; 4]),
            (b"\x03\x1b[99;5u", &[Input::CtrlC, Input::CtrlC]),
            (b"\x1b[27u\x1b[13u", &[Input::Escape, Input::Enter]),
            (b"\x1b[I\x1b[?1;2c\x1b[5~\x1bx", &[]),
            (
                b"\x1b[200~a\r\nb\x1b[A\x1b[201~c",
                &[Input::Paste("a\nb\x1b[A".into()), Input::Text("c".into())],
            ),
        ];
        for (bytes, expected) in table {
            assert_eq!(all(bytes), *expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn a_huge_paste_is_cut() {
        let mut bytes = b"\x1b[200~".to_vec();
        bytes.resize(MAX_PASTE * 2, b'x');
        bytes.extend_from_slice(PASTE_END);
        let [Input::Paste(text)] = &all(&bytes)[..] else { panic!("one paste") };
        assert_eq!(text.len(), MAX_PASTE);
    }

    proptest::proptest! {
        /// Where the reads are cut does not matter.
        #[test]
        fn cuts_do_not_matter(
            parts in proptest::collection::vec(
                proptest::sample::select(vec![
                    "a", "é世", "\r", "\x1b[A", "\x1b[200~", "\x1b[201~", "\x1b[13;2u", "\x1bOA",
                    "\x7f", "\x1b[20",
                ]),
                0..8,
            ),
            cuts in proptest::collection::vec(1usize..6, 0..20),
        ) {
            let bytes = parts.concat().into_bytes();
            let mut decoder = Decoder::default();
            let mut events = Vec::new();
            let mut rest = &bytes[..];
            for cut in cuts {
                let (head, tail) = rest.split_at(cut.min(rest.len()));
                events.extend(decoder.feed(head));
                rest = tail;
            }
            events.extend(decoder.feed(rest));
            events.extend(decoder.flush());
            proptest::prop_assert_eq!(joined(events), joined(all(&bytes)));
        }
    }

    /// Neighbouring texts are one: how text is cut into events is not promised.
    fn joined(events: Vec<Input>) -> Vec<Input> {
        let mut out: Vec<Input> = Vec::new();
        for event in events {
            match (out.last_mut(), event) {
                (Some(Input::Text(before)), Input::Text(more)) => before.push_str(&more),
                (_, event) => out.push(event),
            }
        }
        out
    }
}

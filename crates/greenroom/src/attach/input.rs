//! What was read from the outer terminal, sorted: keys for the session, commands for us, and
//! answers to queries, which go nowhere.
//!
//! In: bytes in any pieces. Out: [`Act`]s. The session's output is written to the outer terminal as
//! it is, queries included, so that terminal answers them; the host has answered already, and a
//! second answer would be typed into the program as text. Bytes within a bracketed paste are never
//! looked at. The result does not depend on how the bytes were cut, except that an escape which
//! stays alone for [`InputFilter::hold`] counts as the Escape key.
//! Absent on purpose: reading, time.

use std::time::Duration;

use super::keys::{Prefix, parse_press};

/// How long a lone escape may be the start of a sequence: long enough for two reads of one burst,
/// short enough that nobody feels it on the Escape key.
const HOLD_ESCAPE: Duration = Duration::from_millis(20);
/// How long the rest of a begun sequence may take, as over a slow line.
const HOLD_SEQUENCE: Duration = Duration::from_millis(100);
/// How long the rest of an answer that is a string may take.
const HOLD_STRING: Duration = Duration::from_millis(500);
/// Longest control sequence; what is longer is not one.
const SEQUENCE_MAX: usize = 256;
const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Type this into the session.
    Input(Vec<u8>),
    /// Leave.
    Detach,
    /// The prefix was followed by a key that means nothing.
    Unknown,
}

/// Sorts what was read from the outer terminal.
#[derive(Debug)]
pub struct InputFilter {
    prefix: Prefix,
    pending: Vec<u8>,
    /// The prefix was pressed; the next key is for us.
    armed: bool,
    in_paste: bool,
    /// The last key was swallowed and is longer than one byte: the rest of it follows.
    in_char: bool,
    /// Within an answer that is a string: dropped up to its end.
    in_string: bool,
    /// Cursor reports that are on their way. Without this count Shift-F3 would be one.
    cursor_reports: u32,
}

/// What stands at the front of the pending bytes.
enum Token {
    /// So many bytes without meaning for us.
    Plain(usize),
    /// A whole control sequence of this length.
    Sequence(usize),
    /// The introducer of an answer that is a string.
    String,
    /// More is needed.
    Partial,
}

impl InputFilter {
    /// Before the first byte.
    pub fn new(prefix: Prefix) -> InputFilter {
        let pending = Vec::new();
        InputFilter {
            prefix,
            pending,
            armed: false,
            in_paste: false,
            in_char: false,
            in_string: false,
            cursor_reports: 0,
        }
    }

    /// The session's output asked for the cursor's position this often.
    pub fn expect_cursor_reports(&mut self, count: u32) {
        self.cursor_reports = self.cursor_reports.saturating_add(count);
    }

    /// Sorts `bytes`.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Act> {
        self.pending.extend_from_slice(bytes);
        let mut acts = Acts::default();
        while self.step(&mut acts) {}
        acts.0
    }

    /// Call [`InputFilter::flush`] if nothing comes for this long.
    pub fn hold(&self) -> Option<Duration> {
        if self.in_string {
            return Some(HOLD_STRING);
        }
        match self.pending.len() {
            0 => None,
            1 => Some(HOLD_ESCAPE),
            _ => Some(HOLD_SEQUENCE),
        }
    }

    /// Nothing came: what looked like the start of something was a key.
    pub fn flush(&mut self) -> Vec<Act> {
        self.in_string = false;
        let mut acts = Acts::default();
        let rest = std::mem::take(&mut self.pending);
        if !rest.is_empty() {
            self.key(&rest, &mut acts);
        }
        acts.0
    }

    /// One step; false when more bytes are needed.
    fn step(&mut self, acts: &mut Acts) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        if self.in_string {
            return self.skip_string();
        }
        if self.in_paste {
            return self.pass_paste(acts);
        }
        match next_token(&self.pending) {
            Token::Partial => false,
            Token::String => {
                self.pending.drain(..2);
                self.in_string = true;
                true
            }
            Token::Plain(len) => {
                let text: Vec<u8> = self.pending.drain(..len).collect();
                self.plain(&text, acts);
                true
            }
            Token::Sequence(len) => {
                let sequence: Vec<u8> = self.pending.drain(..len).collect();
                self.sequence(&sequence, acts);
                true
            }
        }
    }

    fn skip_string(&mut self) -> bool {
        let end = self.pending.iter().position(|byte| matches!(byte, 0x07 | 0x1b));
        match end {
            None => {
                self.pending.clear();
                false
            }
            Some(at) if self.pending[at] == 0x07 => {
                self.pending.drain(..=at);
                self.in_string = false;
                true
            }
            Some(at) => {
                self.pending.drain(..at);
                if self.pending.len() < 2 {
                    return false;
                }
                // ST ends it; any other escape is a new sequence that cut it off.
                self.in_string = false;
                if self.pending[1] == b'\\' {
                    self.pending.drain(..2);
                }
                true
            }
        }
    }

    fn pass_paste(&mut self, acts: &mut Acts) -> bool {
        let found = self.pending.windows(PASTE_END.len()).position(|window| window == PASTE_END);
        let len = match found {
            Some(at) => {
                self.in_paste = false;
                at + PASTE_END.len()
            }
            // Bytes that could still be the beginning of the end stay.
            None => {
                let kept =
                    (1..PASTE_END.len()).rev().find(|n| self.pending.ends_with(&PASTE_END[..*n]));
                self.pending.len() - kept.unwrap_or(0)
            }
        };
        acts.input(&self.pending[..len]);
        self.pending.drain(..len);
        len > 0
    }

    /// Bytes without an escape: the prefix may be among them.
    fn plain(&mut self, text: &[u8], acts: &mut Acts) {
        let prefix = self.prefix.byte();
        let mut rest = text;
        while let Some(first) = rest.first() {
            if self.in_char && first & 0xc0 == 0x80 {
                rest = &rest[1..];
                continue;
            }
            self.in_char = false;
            if self.armed {
                self.in_char = *first >= 0xc0;
                self.command(&rest[..1], acts);
                rest = &rest[1..];
                continue;
            }
            let len = rest.iter().position(|byte| Some(*byte) == prefix).unwrap_or(rest.len());
            acts.input(&rest[..len]);
            self.armed = len < rest.len();
            rest = &rest[(len + 1).min(rest.len())..];
        }
    }

    fn sequence(&mut self, sequence: &[u8], acts: &mut Acts) {
        self.in_char = false;
        if sequence == PASTE_START {
            self.in_paste = true;
            self.armed = false;
            return acts.input(sequence);
        }
        if self.is_answer(sequence) {
            return;
        }
        self.key(sequence, acts);
    }

    /// A key that is an escape sequence, or an escape alone.
    fn key(&mut self, bytes: &[u8], acts: &mut Acts) {
        let press = parse_press(bytes);
        if !self.armed {
            match press {
                Some(press) if press.is(self.prefix) && !press.release => self.armed = true,
                _ => acts.input(bytes),
            }
            return;
        }
        match press {
            // Letting go of the prefix is not the next key.
            Some(press) if press.release || press.modifier => {}
            Some(press) if press.is(self.prefix) => {
                self.armed = false;
                acts.input(bytes);
            }
            Some(press) if !press.ctrl && !press.alt => {
                self.command(press.key.encode_utf8(&mut [0; 4]).as_bytes(), acts);
            }
            None if is_report(bytes) => acts.input(bytes),
            _ => self.command(b"\x1b", acts),
        }
    }

    /// The key after the prefix.
    fn command(&mut self, key: &[u8], acts: &mut Acts) {
        self.armed = false;
        match key {
            b"d" | b"D" | b"q" | b"Q" => acts.0.push(Act::Detach),
            [byte] if Some(*byte) == self.prefix.byte() => acts.input(key),
            _ => acts.0.push(Act::Unknown),
        }
    }

    /// An answer of the terminal that nobody types.
    fn is_answer(&mut self, sequence: &[u8]) -> bool {
        let Some(body) = sequence.strip_prefix(b"\x1b[") else { return false };
        let Some((last, params)) = body.split_last() else { return false };
        let private = params.first().copied().filter(|byte| matches!(byte, b'?' | b'>' | b'='));
        match (last, private) {
            // Cursor position; with the same bytes some terminals say F3 with a modifier.
            (b'R', None) if self.cursor_reports > 0 => {
                self.cursor_reports -= 1;
                true
            }
            (b'R', Some(b'?')) => true,
            // Device attributes; kitty keyboard flags; graphics; modes.
            (b'c' | b'u' | b'S', Some(_)) => true,
            (b'y', _) => params.ends_with(b"$"),
            // Status. 997 tells of a change of colours, and only who asked is told.
            (b'n', Some(b'?')) => !params.starts_with(b"?997;"),
            (b'n', None) => true,
            // Window reports.
            (b't', _) => true,
            _ => false,
        }
    }
}

/// Mouse and focus: not keys, so they do not disturb a command.
fn is_report(sequence: &[u8]) -> bool {
    let body = sequence.strip_prefix(b"\x1b[").unwrap_or_default();
    matches!(body, [b'<', ..] | [b'M', ..] | [b'I'] | [b'O'])
}

fn next_token(bytes: &[u8]) -> Token {
    if bytes[0] != 0x1b {
        let len = bytes.iter().position(|byte| *byte == 0x1b).unwrap_or(bytes.len());
        return Token::Plain(len);
    }
    let Some(second) = bytes.get(1) else { return Token::Partial };
    match second {
        b'[' => control_sequence(bytes),
        b'O' if bytes.len() < 3 => Token::Partial,
        b'O' => Token::Sequence(3),
        // Alt with these keys looks the same; an answer goes on with one of a few bytes.
        b'P' | b']' | b'_' => match (second, bytes.get(2)) {
            (_, None) => Token::Partial,
            (b'P', Some(b'0'..=b'9' | b'>' | b'!' | b'$' | b'+' | b'|')) => Token::String,
            (b']', Some(b'0'..=b'9' | b'l' | b'L')) => Token::String,
            (b'_', Some(b'G')) => Token::String,
            _ => Token::Sequence(2),
        },
        0x1b => Token::Sequence(1),
        _ => Token::Sequence(2),
    }
}

fn control_sequence(bytes: &[u8]) -> Token {
    match bytes.get(2) {
        None => return Token::Partial,
        // The old mouse report: three bytes of any value follow.
        Some(b'M') if bytes.len() < 6 => return Token::Partial,
        Some(b'M') => return Token::Sequence(6),
        // Function keys of the Linux console.
        Some(b'[') if bytes.len() < 4 => return Token::Partial,
        Some(b'[') => return Token::Sequence(4),
        Some(_) => {}
    }
    let end = bytes[2..].iter().position(|byte| !(0x20..=0x3f).contains(byte));
    match end {
        Some(at) if (0x40..=0x7e).contains(&bytes[2 + at]) => Token::Sequence(at + 3),
        // A byte that cannot be here: what came so far was something else.
        Some(at) => Token::Sequence(at + 2),
        None if bytes.len() > SEQUENCE_MAX => Token::Sequence(bytes.len()),
        None => Token::Partial,
    }
}

/// Acts in order; neighbouring input is one.
#[derive(Default)]
struct Acts(Vec<Act>);

impl Acts {
    fn input(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(Act::Input(last)) => last.extend_from_slice(bytes),
            _ => self.0.push(Act::Input(bytes.to_vec())),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filter() -> InputFilter {
        InputFilter::new("ctrl-b".parse().unwrap())
    }

    fn typed(bytes: &[u8]) -> Vec<Act> {
        let mut filter = filter();
        let mut acts = filter.feed(bytes);
        acts.extend(filter.flush());
        acts
    }

    fn input(bytes: &[u8]) -> Vec<Act> {
        vec![Act::Input(bytes.to_vec())]
    }

    #[test]
    fn keys_pass_as_they_are() {
        for bytes in [
            &b"hello \xe4\xb8\x96 \x03\x1a\r"[..],
            b"\x1b",
            b"\x1b[A\x1b[1;5C\x1b[3~\x1bOP\x1b[15;2~",
            b"\x1b[[A",
            b"\x1bx\x1b\x1b[A",
            b"\x1bP",
            b"\x1b]",
            b"\x1b_",
            b"\x1b[97;5u\x1b[13;2u",
            b"\x1b[<0;10;5M\x1b[<0;10;5m\x1b[M !!\x1b[M\x1b\x02\x02",
            b"\x1b[I\x1b[O",
            b"\x1b[1;2R",
            b"\x1b[?997;1n",
        ] {
            assert_eq!(typed(bytes), input(bytes), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn answers_of_the_terminal_go_nowhere() {
        for bytes in [
            &b"\x1b[?62;22c"[..],
            b"\x1b[>1;4000;20c",
            b"\x1bP!|00000000\x1b\\",
            b"\x1bP>|kitty(0.35)\x1b\\",
            b"\x1bP1+r544e=78\x1b\\",
            b"\x1bP1$r0m\x1b\\",
            b"\x1b[?2026;2$y",
            b"\x1b[4;2$y",
            b"\x1b[?5u",
            b"\x1b[0n",
            b"\x1b[?13n",
            b"\x1b[?12;40R",
            b"\x1b]11;rgb:1c1c/1c1c/1c1c\x07",
            b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
            b"\x1b]52;c;aGk=\x1b\\",
            b"\x1b]ltitle\x1b\\",
            b"\x1b_Gi=1;OK\x1b\\",
            b"\x1b[8;24;80t",
            b"\x1b[?1;0;256S",
        ] {
            assert_eq!(typed(bytes), [], "{}", bytes.escape_ascii());
            let mut around = b"a".to_vec();
            around.extend_from_slice(bytes);
            around.push(b'b');
            assert_eq!(typed(&around), input(b"ab"), "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_cursor_report_is_one_only_when_expected() {
        let mut filter = filter();
        filter.expect_cursor_reports(1);
        assert_eq!(filter.feed(b"\x1b[24;1R"), []);
        assert_eq!(filter.feed(b"\x1b[1;5R"), input(b"\x1b[1;5R"));
    }

    #[test]
    fn the_prefix_commands() {
        assert_eq!(typed(b"a\x02d"), [Act::Input(b"a".to_vec()), Act::Detach]);
        assert_eq!(typed(b"\x02q"), [Act::Detach]);
        assert_eq!(typed(b"\x02\x02"), input(b"\x02"));
        assert_eq!(typed(b"\x02x y"), [Act::Unknown, Act::Input(b" y".to_vec())]);
        assert_eq!(typed(b"\x02\xc3\xa9z"), [Act::Unknown, Act::Input(b"z".to_vec())]);
        assert_eq!(typed(b"\x02\x1b[Az"), [Act::Unknown, Act::Input(b"z".to_vec())]);
        assert_eq!(typed(b"\x02\x1b[Id"), [Act::Input(b"\x1b[I".to_vec()), Act::Detach]);
    }

    #[test]
    fn the_prefix_under_the_kitty_protocol() {
        assert_eq!(typed(b"\x1b[98;5u\x1b[98;5:3u\x1b[57442;1:3ud"), [Act::Detach]);
        assert_eq!(typed(b"\x1b[98;5u\x1b[100u"), [Act::Detach]);
        assert_eq!(typed(b"\x1b[98;5u\x1b[98;5u"), input(b"\x1b[98;5u"));
        assert_eq!(typed(b"\x1b[27;5;98~d"), [Act::Detach]);
    }

    #[test]
    fn a_paste_is_not_looked_at() {
        let paste = b"\x1b[200~\x02d \x1b[?6c \x1b[201~";
        assert_eq!(typed(paste), input(paste));
        let mut after = paste.to_vec();
        after.extend_from_slice(b"\x02d");
        assert_eq!(typed(&after), [Act::Input(paste.to_vec()), Act::Detach]);
    }

    #[test]
    fn a_string_that_never_ends_does_not_swallow_the_keyboard() {
        let mut filter = filter();
        assert_eq!(filter.feed(b"\x1b]11;rgb:"), []);
        assert_eq!(filter.hold(), Some(HOLD_STRING));
        assert_eq!(filter.flush(), []);
        assert_eq!(filter.feed(b"ls"), input(b"ls"));
    }

    #[test]
    fn without_a_prefix_nothing_is_taken() {
        let mut filter = InputFilter::new("none".parse().unwrap());
        assert_eq!(filter.feed(b"\x02d"), input(b"\x02d"));
    }

    fn joined(acts: Vec<Act>) -> Vec<Act> {
        let mut all = Acts::default();
        for act in acts {
            match act {
                Act::Input(bytes) => all.input(&bytes),
                other => all.0.push(other),
            }
        }
        all.0
    }

    fn pieces() -> impl Strategy<Value = Vec<u8>> {
        let known: Vec<&'static [u8]> = vec![
            b"\x02",
            b"d",
            b"\x1b",
            b"\x1b[A",
            b"\x1b[98;5u",
            b"\x1b[?62;22c",
            b"\x1b[200~",
            b"\x1b[201~",
            b"\x1b]11;rgb:0/0/0\x07",
            b"\x1bP>|x\x1b\\",
            b"\x1b[M !!",
            b"\x1b[",
            b"\x1bO",
            b"abc",
            b"\xc3\xa9",
        ];
        let piece = prop_oneof![
            8 => prop::sample::select(known).prop_map(<[u8]>::to_vec),
            1 => prop::collection::vec(any::<u8>(), 0..4),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        /// However the bytes are cut, the same keys reach the session.
        #[test]
        fn cutting_does_not_matter(bytes in pieces(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
            let mut whole = filter();
            let mut expected = whole.feed(&bytes);
            expected.extend(whole.flush());

            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let mut split = filter();
            let mut acts = Vec::new();
            for pair in at.windows(2) {
                acts.extend(split.feed(&bytes[pair[0]..pair[1]]));
            }
            acts.extend(split.flush());
            prop_assert_eq!(joined(acts), joined(expected));
        }

        /// Plain text without the prefix or an escape is never changed.
        #[test]
        fn text_is_text(text in "[ -~\u{a0}-\u{2fff}]{0,40}") {
            prop_assert_eq!(typed(text.as_bytes()), if text.is_empty() { vec![] } else { input(text.as_bytes()) });
        }
    }
}

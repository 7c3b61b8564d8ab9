//! Output as text: what was printed, without the escape sequences.
//!
//! [`Plain`] is a streaming stripper: bytes in any split, text out. It keeps
//! line feeds and tabs, drops other controls, and turns a carriage return that
//! is not part of CR LF into a line break, so that a progress bar reads as
//! lines instead of one smear. It knows nothing of the grid.

/// A string sequence (OSC, DCS…) longer than this is taken to be broken off,
/// so that one stray introducer cannot swallow a whole transcript.
const STRING_CAP: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ground,
    Escape,
    EscapeIntermediate,
    Csi,
    String,
    StringEscape,
}

#[derive(Clone, Debug)]
pub struct Plain {
    state: State,
    string_len: usize,
    utf8: [u8; 4],
    utf8_len: usize,
    carriage: bool,
}

impl Default for Plain {
    fn default() -> Plain {
        Plain { state: State::Ground, string_len: 0, utf8: [0; 4], utf8_len: 0, carriage: false }
    }
}

impl Plain {
    #[must_use]
    pub fn new() -> Plain {
        Plain::default()
    }

    pub fn feed(&mut self, bytes: &[u8], out: &mut String) {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            if self.state == State::Ground && self.utf8_len == 0 && !self.carriage {
                let run = rest.iter().take_while(|b| (0x20..0x7f).contains(*b)).count();
                if run > 0 {
                    out.extend(rest[..run].iter().map(|b| char::from(*b)));
                    rest = &rest[run..];
                    continue;
                }
            }
            self.byte(byte, out);
            rest = after;
        }
    }

    fn byte(&mut self, byte: u8, out: &mut String) {
        match self.state {
            State::Ground => self.ground(byte, out),
            State::Escape => {
                self.state = match byte {
                    b'[' => State::Csi,
                    b']' | b'P' | b'X' | b'^' | b'_' => {
                        self.string_len = 0;
                        State::String
                    }
                    0x20..=0x2f => State::EscapeIntermediate,
                    0x1b => State::Escape,
                    _ => State::Ground,
                }
            }
            State::EscapeIntermediate => match byte {
                0x20..=0x2f => {}
                0x1b => self.state = State::Escape,
                _ => self.state = State::Ground,
            },
            State::Csi => match byte {
                0x40..=0x7e | 0x18 | 0x1a => self.state = State::Ground,
                0x1b => self.state = State::Escape,
                b'\n' | b'\r' | b'\t' => self.control(byte, out),
                _ => {}
            },
            State::String => {
                self.string_len += 1;
                match byte {
                    0x07 | 0x18 | 0x1a => self.state = State::Ground,
                    0x1b => self.state = State::StringEscape,
                    _ if self.string_len > STRING_CAP => self.state = State::Ground,
                    _ => {}
                }
            }
            State::StringEscape => {
                self.state = State::Ground;
                if byte != b'\\' {
                    self.state = State::Escape;
                    self.byte(byte, out);
                }
            }
        }
    }

    fn ground(&mut self, byte: u8, out: &mut String) {
        if self.utf8_len > 0 {
            if byte & 0xc0 == 0x80 {
                self.continue_utf8(byte, out);
                return;
            }
            self.utf8_len = 0;
            out.push(char::REPLACEMENT_CHARACTER);
        }
        match byte {
            0x1b => {
                self.state = State::Escape;
            }
            0x00..=0x1f | 0x7f => self.control(byte, out),
            0x20..=0x7e => {
                self.flush_carriage(out);
                out.push(char::from(byte));
            }
            0xc2..=0xf4 => {
                self.flush_carriage(out);
                self.utf8[0] = byte;
                self.utf8_len = 1;
            }
            _ => out.push(char::REPLACEMENT_CHARACTER),
        }
    }

    fn continue_utf8(&mut self, byte: u8, out: &mut String) {
        self.utf8[self.utf8_len] = byte;
        self.utf8_len += 1;
        let wanted = match self.utf8[0] {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            _ => 4,
        };
        if self.utf8_len == wanted {
            match std::str::from_utf8(&self.utf8[..wanted]) {
                Ok(text) => out.push_str(text),
                Err(_) => out.push(char::REPLACEMENT_CHARACTER),
            }
            self.utf8_len = 0;
        }
    }

    fn control(&mut self, byte: u8, out: &mut String) {
        match byte {
            b'\n' => {
                self.carriage = false;
                out.push('\n');
            }
            b'\r' => self.carriage = true,
            b'\t' => {
                self.flush_carriage(out);
                out.push('\t');
            }
            _ => {}
        }
    }

    fn flush_carriage(&mut self, out: &mut String) {
        if std::mem::take(&mut self.carriage) && !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
    }
}

/// Strips one whole piece of output.
#[must_use]
pub fn plain(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    Plain::new().feed(bytes, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(input: &str, expected: &str) {
        assert_eq!(plain(input.as_bytes()), expected, "{input:?}");
    }

    #[test]
    fn escapes_go_and_text_stays() {
        check("a\x1b[1;31mb\x1b[0mc", "abc");
        check("\x1b]0;title\x07x\x1b]8;;u\x1b\\y", "xy");
        check("\x1bP1$r0m\x1b\\z", "z");
        check("\x1b(0q\x1b(B", "q");
        check("é漢\u{1F600}", "é漢\u{1F600}");
        check("one\r\ntwo\r\n", "one\ntwo\n");
        check("10%\r20%\r\n", "10%\n20%\n");
        check("a\x1b[31\nmb", "a\nb");
    }

    #[test]
    fn an_unfinished_string_cannot_swallow_everything() {
        let mut bytes = b"\x1b]0;".to_vec();
        bytes.extend(std::iter::repeat_n(b'x', STRING_CAP + 10));
        bytes.extend(b"\nhello");
        assert!(plain(&bytes).ends_with("\nhello"));
    }

    proptest! {
        #[test]
        fn the_split_does_not_matter(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let cut = cut.min(bytes.len());
            let mut split = String::new();
            let mut stripper = Plain::new();
            stripper.feed(&bytes[..cut], &mut split);
            stripper.feed(&bytes[cut..], &mut split);
            prop_assert_eq!(split, plain(&bytes));
        }
    }
}

//! Output as text: what was printed, without the escape sequences.
//!
//! [`Plain`] is a streaming stripper: bytes in any split, text out. It keeps line feeds and tabs,
//! drops other controls, and turns a carriage return that is not part of CR LF into a line break,
//! so that a progress bar reads as lines instead of one smear. It knows nothing of the grid.

use greenroom_term::{Tokenizer, Tokens};

#[derive(Clone, Debug, Default)]
pub struct Plain {
    tokenizer: Tokenizer,
    text: Text,
}

/// What the next byte of text depends on.
#[derive(Clone, Debug, Default)]
struct Text {
    /// The beginning of a character.
    cut: Vec<u8>,
    /// A carriage return that may belong to a line feed.
    carriage: bool,
}

impl Plain {
    pub fn new() -> Plain {
        Plain::default()
    }

    pub fn feed(&mut self, bytes: &[u8], out: &mut String) {
        self.tokenizer.feed(bytes, &mut Stripping { text: &mut self.text, bytes, out });
    }
}

struct Stripping<'a> {
    text: &'a mut Text,
    bytes: &'a [u8],
    out: &'a mut String,
}

impl Tokens for Stripping<'_> {
    fn text(&mut self, len: usize) {
        let (mut text, rest) = self.bytes.split_at(len);
        self.bytes = rest;
        while !self.text.cut.is_empty() && !text.is_empty() {
            self.text.cut.push(text[0]);
            let joined = std::mem::take(&mut self.text.cut);
            match std::str::from_utf8(&joined) {
                Ok(character) => self.push(character),
                Err(error) if error.error_len().is_none() => self.text.cut = joined,
                Err(_) => {
                    // The last byte is no part of the character; it is looked at by itself.
                    self.push("\u{fffd}");
                    break;
                }
            }
            text = &text[1..];
        }
        while !text.is_empty() {
            let (valid, invalid) = match std::str::from_utf8(text) {
                Ok(all) => return self.push(all),
                Err(error) => (error.valid_up_to(), error.error_len()),
            };
            self.push(std::str::from_utf8(&text[..valid]).expect("it was checked"));
            let Some(invalid) = invalid else { return self.text.cut.extend(&text[valid..]) };
            self.push("\u{fffd}");
            text = &text[valid + invalid..];
        }
    }

    fn quiet(&mut self, len: usize) {
        self.bytes = &self.bytes[len..];
        if !std::mem::take(&mut self.text.cut).is_empty() {
            self.push("\u{fffd}");
        }
    }

    fn control(&mut self, byte: u8) {
        match byte {
            b'\n' => self.push("\n"),
            b'\r' => self.push("\r"),
            b'\t' => self.push("\t"),
            _ => {}
        }
    }
}

impl Stripping<'_> {
    fn push(&mut self, text: &str) {
        for piece in text.split_inclusive(['\r', '\n']) {
            let shown = piece.trim_end_matches(['\r', '\n']);
            if !shown.is_empty() {
                self.end_drawing();
                self.out.push_str(shown);
            }
            match piece.as_bytes().last() {
                Some(b'\n') => {
                    self.text.carriage = false;
                    self.out.push('\n');
                }
                Some(b'\r') => self.text.carriage = true,
                _ => {}
            }
        }
    }

    /// A carriage return that no line feed followed is a line break.
    fn end_drawing(&mut self) {
        let carriage = std::mem::take(&mut self.text.carriage);
        if carriage && !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }
}

/// Strips one whole piece of output.
pub fn plain(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    Plain::new().feed(bytes, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use greenroom_term::STRING_MAX;
    use proptest::prelude::*;

    use super::*;

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
        bytes.extend(std::iter::repeat_n(b'x', STRING_MAX + 10));
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

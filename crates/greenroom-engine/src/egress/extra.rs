//! What one caller wants hidden besides what is hidden anyway: texts and patterns for one answer.
//!
//! In: an answer that may leave. Out: the same with more masks, as wide as what they hide. Colours
//! and rows that the terminal wrapped do not part a text. Deliberately absent: state. A text that
//! lies half in this answer and half in the next is not found; what must never be seen is a value
//! of the session.

use std::sync::Arc;

use greenroom_term::{Frame, Row};
use regex::bytes::{Regex, RegexBuilder};

use crate::egress::{Filtered, grid, redactor};

/// Texts and patterns of one caller, each no longer than [`LENGTH_MAX`] bytes: they are looked for
/// in every answer.
pub const EXTRAS_MAX: usize = 64;
pub const LENGTH_MAX: usize = 4096;

/// A compiled pattern takes no more than this.
const COMPILED_MAX: usize = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum ExtraError {
    #[error("{0} texts and patterns, at most {EXTRAS_MAX} are looked for")]
    TooMany(usize),
    #[error("{kind} {index} is longer than {LENGTH_MAX} bytes")]
    TooLong { kind: &'static str, index: usize },
    #[error("{kind} {index} is empty or finds what is empty: it would hide nothing")]
    Empty { kind: &'static str, index: usize },
    #[error("extra_regexes {index}: {why}")]
    Pattern { index: usize, why: String },
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Extra(Vec<Regex>);

impl Extra {
    pub fn new(literals: &[String], regexes: &[String]) -> Result<Extra, ExtraError> {
        let count = literals.len() + regexes.len();
        if count > EXTRAS_MAX {
            return Err(ExtraError::TooMany(count));
        }
        let literals = literals.iter().enumerate().map(|(at, text)| ("extra_literals", at, text));
        let regexes = regexes.iter().enumerate().map(|(at, text)| ("extra_regexes", at, text));
        let compile = |(kind, index, text): (&'static str, usize, &String)| {
            if text.len() > LENGTH_MAX {
                return Err(ExtraError::TooLong { kind, index });
            }
            let pattern = match kind {
                "extra_literals" => regex::escape(text),
                _ => text.clone(),
            };
            let built = RegexBuilder::new(&pattern).size_limit(COMPILED_MAX).build();
            let regex =
                built.map_err(|error| ExtraError::Pattern { index, why: error.to_string() })?;
            if regex.is_match(b"") { Err(ExtraError::Empty { kind, index }) } else { Ok(regex) }
        };
        Ok(Extra(literals.chain(regexes).map(compile).collect::<Result<_, _>>()?))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A screen, and its title.
    #[must_use]
    pub fn frame(&self, frame: Filtered<Arc<Frame>>) -> Filtered<Arc<Frame>> {
        if self.is_empty() {
            return frame;
        }
        frame.map(|frame| {
            let mut frame = Arc::unwrap_or_clone(frame);
            let cols = frame.size.cols();
            self.mask_rows(&mut frame.rows, cols);
            frame.title = frame.title.map(|title| {
                let mut bytes = title.into_bytes();
                self.mask(&mut bytes);
                bytes.retain(|byte| *byte != 0);
                String::from_utf8_lossy(&bytes).into_owned()
            });
            Arc::new(frame)
        })
    }

    /// Rows of scrollback, `cols` wide.
    #[must_use]
    pub fn rows(&self, rows: Filtered<Vec<Row>>, cols: u16) -> Filtered<Vec<Row>> {
        rows.map(|mut rows| {
            self.mask_rows(&mut rows, cols);
            rows
        })
    }

    /// Output, as many bytes as there were.
    #[must_use]
    pub fn bytes(&self, bytes: Filtered<Vec<u8>>) -> Filtered<Vec<u8>> {
        bytes.map(|mut bytes| {
            self.mask(&mut bytes);
            bytes
        })
    }

    fn mask_rows(&self, rows: &mut [Row], cols: u16) {
        if !self.is_empty() {
            grid::mask_where(rows, usize::from(cols), |text| self.found(text));
        }
    }

    fn mask(&self, bytes: &mut [u8]) {
        if !self.is_empty() {
            redactor::mask_where(bytes, |text| self.found(text));
        }
    }

    fn found(&self, text: &[u8]) -> Vec<std::ops::Range<usize>> {
        self.0.iter().flat_map(|regex| regex.find_iter(text)).map(|found| found.range()).collect()
    }
}

#[cfg(test)]
mod tests {
    use greenroom_term::{Screen, Size};

    use super::*;

    fn extra(literals: &[&str], regexes: &[&str]) -> Result<Extra, ExtraError> {
        let owned =
            |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Extra::new(&owned(literals), &owned(regexes))
    }

    #[test]
    fn texts_and_patterns_are_hidden_at_their_width() {
        let extra = extra(&["ab", "日本", "a.c"], &["id-[0-9]+"]).unwrap();
        let check = |input: &str, expected: &str| {
            let out = extra.bytes(Filtered(input.as_bytes().to_vec())).into_inner();
            assert_eq!(out.len(), input.len());
            let seen: Vec<u8> = out.into_iter().filter(|byte| *byte != 0).collect();
            assert_eq!(String::from_utf8_lossy(&seen), expected);
        };
        check("x ab id-77y abc a.c", "x ** *****y **c ***");
        check("a\x1b[31mb\x1b[0m id-\x1b[1m9", "*\x1b[31m*\x1b[0m ***\x1b[1m*");
        check("日本語", "****語");
        check("nothing", "nothing");
    }

    #[test]
    fn rows_that_were_wrapped_are_one_text() {
        let mut screen = Screen::new(Size::new(10, 4).unwrap());
        screen.feed(b"\x1b]0;my id-5\x07 see id-1234567 x\r\nab");
        let extra = extra(&["ab"], &["id-[0-9]+"]).unwrap();
        let frame = extra.frame(Filtered(Arc::new(screen.frame()))).into_inner();
        let rows: Vec<String> = frame.rows.iter().map(Row::text).collect();
        assert_eq!(rows, [" see *****", "***** x", "**", ""]);
        assert_eq!(frame.title.as_deref(), Some("my ****"));
    }

    #[test]
    fn what_cannot_be_looked_for_is_told() {
        let said = |literals: &[&str], regexes: &[&str]| {
            extra(literals, regexes).map(|_| ()).unwrap_err().to_string()
        };
        assert!(said(&[], &["(", "x"]).starts_with("extra_regexes 0: "));
        assert!(said(&["a", ""], &[]).contains("extra_literals 1 is empty"));
        assert!(said(&[], &["a*"]).contains("extra_regexes 0 is empty"));
        assert!(said(&[&"x".repeat(LENGTH_MAX + 1)], &[]).contains("longer than"));
        assert!(said(&["a"; EXTRAS_MAX + 1], &[]).contains("at most"));
        // Nor may a pattern take the host's memory.
        assert!(said(&[], &["(a{1000}){1000}"]).contains("size limit"));
    }
}

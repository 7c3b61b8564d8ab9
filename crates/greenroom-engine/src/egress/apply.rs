//! Output with the answers of filters applied: bytes in, edited bytes out.
//!
//! Escape sequences always pass, so that colours and the place of the cursor are what they would
//! be; only text is masked, dropped or replaced.

use greenroom_term::{Tokenizer, Tokens};

use crate::egress::Edit;
use crate::egress::ledger::Edits;
use crate::id::Seq;

pub(crate) struct Applying {
    edits: Edits,
    tokenizer: Tokenizer,
    /// Replacements are cut and filled to the length of what they replace.
    same_length: bool,
    /// The edit that holds now or next.
    next: usize,
}

impl Applying {
    pub(crate) fn new(edits: Edits, same_length: bool) -> Applying {
        Applying { edits, tokenizer: Tokenizer::default(), same_length, next: 0 }
    }

    /// Takes bytes from `at` on. What lies before `from` only sets the scene.
    pub(crate) fn feed(&mut self, at: Seq, bytes: &[u8], from: Seq, out: &mut Vec<u8>) {
        let mut tokenizer = std::mem::take(&mut self.tokenizer);
        tokenizer.feed(bytes, &mut Writing { applying: self, bytes, at: at.0, from: from.0, out });
        self.tokenizer = tokenizer;
    }
}

struct Writing<'a> {
    applying: &'a mut Applying,
    bytes: &'a [u8],
    at: u64,
    from: u64,
    out: &'a mut Vec<u8>,
}

impl Writing<'_> {
    /// One byte; `text` says that it is seen.
    fn byte(&mut self, text: bool) {
        let (byte, at) = (self.bytes[0], self.at);
        (self.bytes, self.at) = (&self.bytes[1..], at + 1);
        let edits = &self.applying.edits;
        while edits.list.get(self.applying.next).is_some_and(|(_, to, _)| *to <= at) {
            self.applying.next += 1;
        }
        let edit = edits.list.get(self.applying.next).filter(|(from, _, _)| *from <= at);
        let is_end = matches!(byte, b'\n' | b'\r');
        let shown = match edit {
            _ if at < self.from => None,
            None if at < edits.floor && text && !is_end => mask(byte),
            None | Some((_, _, Edit::Pass)) => Some(byte),
            Some((_, _, Edit::Mask)) if text && !is_end => mask(byte),
            Some((_, _, Edit::Mask)) => Some(byte),
            Some((from, _, Edit::Replace(replacement))) => {
                if self.applying.same_length {
                    let filled = replacement.as_bytes().get((at - from) as usize).copied();
                    Some(if text { filled.unwrap_or(b' ') } else { byte })
                } else {
                    if at == *from {
                        self.out.extend_from_slice(replacement.as_bytes());
                    }
                    (!text).then_some(byte)
                }
            }
            Some((_, _, Edit::Drop)) if text && self.applying.same_length => Some(0),
            Some((_, _, Edit::Drop)) => (!text).then_some(byte),
        };
        self.out.extend(shown);
    }

    fn bytes(&mut self, len: usize, text: bool) {
        for _ in 0..len {
            self.byte(text);
        }
    }

    /// Whether no edit touches the next `len` bytes.
    fn is_plain(&self, len: usize) -> bool {
        let end = self.at + len as u64;
        let edits = &self.applying.edits;
        let rest = &edits.list[self.applying.next.min(edits.list.len())..];
        self.at >= self.from
            && self.at >= edits.floor
            && rest.iter().find(|(_, to, _)| *to > self.at).is_none_or(|(from, _, _)| *from >= end)
    }
}

fn mask(byte: u8) -> Option<u8> {
    match byte {
        b'\t' => Some(b'\t'),
        // One mask per character; the bytes that continue it are ignored by terminals.
        0x80..=0xbf => Some(0),
        _ => Some(b'*'),
    }
}

impl Tokens for Writing<'_> {
    fn text(&mut self, len: usize) {
        if self.is_plain(len) {
            self.out.extend_from_slice(&self.bytes[..len]);
            (self.bytes, self.at) = (&self.bytes[len..], self.at + len as u64);
        } else {
            self.bytes(len, true);
        }
    }

    fn quiet(&mut self, len: usize) {
        self.bytes(len, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(edits: Vec<(u64, u64, Edit)>, input: &str, expected: &str) {
        for cut in 0..=input.len() {
            let list = edits.clone();
            let mut applying = Applying::new(Edits { floor: 0, list }, false);
            let mut out = Vec::new();
            let (first, second) = input.as_bytes().split_at(cut);
            applying.feed(Seq(0), first, Seq(0), &mut out);
            applying.feed(Seq(cut as u64), second, Seq(0), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected, "cut at {cut}");
        }
    }

    #[test]
    fn text_is_edited_and_sequences_stay() {
        let input = "one\r\n\x1b[31mtwo\x1b[m x\r\nthree\r\n";
        check(vec![(5, 18, Edit::Mask)], input, "one\r\n\x1b[31m***\x1b[m**\r\nthree\r\n");
        check(vec![(5, 20, Edit::Drop)], input, "one\r\n\x1b[31m\x1b[mthree\r\n");
        let replaced = Edit::Replace("[hidden by guard]".to_owned());
        check(
            vec![(5, 18, replaced)],
            input,
            "one\r\n[hidden by guard]\x1b[31m\x1b[m\r\nthree\r\n",
        );
        check(vec![], input, input);
    }
}

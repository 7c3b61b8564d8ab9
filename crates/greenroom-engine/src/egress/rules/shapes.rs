//! Secrets that are told by their form: private keys, web tokens, passwords in URLs.

use super::{HOLD_MAX, Look, Open};
use crate::egress::charset::{ALNUM, BASE64, BLANK, Charset, DOTTED, WORD};

/// Base64 in a row that makes the lines after a `BEGIN … PRIVATE KEY` a key and not a sentence.
const PEM_RUN: usize = 16;

/// Longest label between the dashes.
const PEM_LABEL: usize = 48;

const PEM_BODY: Charset = BASE64.and(BLANK).and(Charset::of("\\:,-"));

/// `-----BEGIN RSA PRIVATE KEY-----` and what follows it. `end` is behind `BEGIN `.
pub(super) fn pem(text: &[u8], _: usize, end: usize, ended: bool) -> Look {
    let label = &text[end..text.len().min(end + PEM_LABEL)];
    let Some(dashes) = label.windows(5).position(|five| five == b"-----") else {
        return Look::Nothing;
    };
    let is_private = label[..dashes].windows(11).any(|word| word == b"PRIVATE KEY");
    if !is_private {
        return Look::Nothing;
    }
    let from = end + dashes + 5;
    // Line ends as they are, or as `\n` in JSON, and indentation.
    let mut at = from;
    while at < text.len() {
        match &text[at..] {
            [b'\\', b'n' | b'r' | b't', ..] => at += 2,
            [b'\\'] if !ended => return Look::Undecided { from, whole: PEM_RUN },
            [byte, ..] if BLANK.has(*byte) => at += 1,
            _ => break,
        }
        if at - from > HOLD_MAX / 2 {
            return Look::Nothing;
        }
    }
    let run = BASE64.run(&text[at..]);
    let header = [&b"Proc-Type:"[..], b"Version:", b"Comment:"]
        .into_iter()
        .any(|header| text[at..].starts_with(header));
    if run >= PEM_RUN || header {
        let to = from + pem_extent(b' ', &text[from..]);
        return Look::Secret { from, to, open: Open::Pem };
    }
    let begins = [&b"Proc-Type:"[..], b"Version:", b"Comment:"]
        .into_iter()
        .any(|header| header.starts_with(&text[at..]));
    if !ended && (at + run == text.len() || begins) {
        return Look::Undecided { from, whole: PEM_RUN };
    }
    Look::Nothing
}

/// Up to the line of dashes, or to what no key has.
pub(super) fn pem_extent(before: u8, text: &[u8]) -> usize {
    let mut previous = before;
    for (at, &byte) in text.iter().enumerate() {
        if !PEM_BODY.has(byte) || (byte == b'-' && previous == b'-') {
            return at;
        }
        previous = byte;
    }
    text.len()
}

/// `.eyJ` between two parts of a JSON web token: the first, which says how it is signed, stays.
pub(super) fn jwt(text: &[u8], at: usize, _: usize, ended: bool) -> Look {
    const HEADER_MIN: usize = 10;
    const MIN: usize = 16;
    let header = &text[at.saturating_sub(HEADER_MIN)..at];
    if header.len() < HEADER_MIN || WORD.run(header) < HEADER_MIN {
        return Look::Nothing;
    }
    super::run_of(text, at + 4, WORD, MIN, DOTTED, ended)
}

/// `scheme://user:password@`. `end` is behind `://`.
pub(super) fn url(text: &[u8], _: usize, end: usize, ended: bool) -> Look {
    const USER_MAX: usize = 64;
    const USER: Charset = ALNUM.and(Charset::of("._-+%~"));
    const PASSWORD: Charset = ALNUM.and(Charset::of("._-+%~!*&=^#$;,?"));
    /// What stands for a password in examples and templates.
    const TEMPLATE: &[u8] = b"$%*<{[";
    let user = USER.run(&text[end..text.len().min(end + USER_MAX)]);
    let Some(b':') = text.get(end + user) else { return Look::Nothing };
    let from = end + user + 1;
    let Some(first) = text.get(from) else { return Look::Nothing };
    if TEMPLATE.contains(first) {
        return Look::Nothing;
    }
    let run = PASSWORD.run(&text[from..]);
    match text.get(from + run) {
        _ if run >= HOLD_MAX => Look::Nothing,
        Some(b'@') if run >= 3 => Look::Secret { from, to: from + run, open: Open::Closed },
        None if !ended && run > 0 => Look::Undecided { from, whole: 8 },
        _ => Look::Nothing,
    }
}

/// `:AA` in a bot's token: eight to ten digits before, 33 characters after.
pub(super) fn telegram(text: &[u8], at: usize, _: usize, ended: bool) -> Look {
    let digits = text[at.saturating_sub(11)..at].iter().rev().take_while(|b| b.is_ascii_digit());
    match digits.count() {
        8..=10 => super::run_of(text, at + 3, WORD, 30, WORD, ended),
        _ => Look::Nothing,
    }
}

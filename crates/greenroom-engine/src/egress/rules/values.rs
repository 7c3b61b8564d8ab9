//! Values told by the name in front of them: `API_KEY=…`, `"password": "…"`,
//! `Authorization: Bearer …`.
//!
//! Names like these are common in source and documents, where what follows is a variable, a type or
//! an example. So a value must look like one: long enough, letters and digits, not called, not a
//! template.

use super::table::NO_VALUES;
use super::{Look, Open};
use crate::egress::charset::{BARE_VALUE, Charset, DIGIT, KEY, QUOTED_VALUE, TOKEN68, UPPER_DIGIT};

/// Blanks around a separator.
const BLANKS_MAX: usize = 4;

/// A name with what it is part of.
const NAME_MAX: usize = 64;

/// Longest value that is looked at before it is decided.
const DECIDE: usize = 32;

/// How a value is written, which says how sure we can be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `NAME=value` as an environment has it.
    Env,
    Quoted,
    Plain,
}

/// `at..end` is a word that ends a name.
pub(super) fn key(text: &[u8], at: usize, end: usize, ended: bool) -> Look {
    let Some((from, style)) = value_after(text, at, end) else { return Look::Nothing };
    value(text, from, style, ended)
}

/// Where the value begins, if the text is far enough to tell.
fn value_after(text: &[u8], at: usize, end: usize) -> Option<(usize, Style)> {
    let mut here = end;
    // The end of a quoted name, maybe itself in quotes.
    let quoted_name = quote(text, here);
    here += quoted_name;
    let spaces = blanks(text, here);
    here += spaces;
    let separator = *text.get(here)?;
    match separator {
        b'=' | b':' => {}
        // `<password>value</password>`
        b'>' if spaces == 0 && quoted_name == 0 => {}
        // `--password value`
        _ if spaces > 0 && name(text, at).starts_with(b"--") => {
            let quotes = quote(text, here);
            let style = if quotes > 0 { Style::Quoted } else { Style::Plain };
            return Some((here + quotes, style));
        }
        _ => return None,
    }
    here += 1;
    let next = *text.get(here)?;
    match (separator, next) {
        // Comparisons and paths of modules.
        (b'=', b'=' | b'~') | (b':', b':') => return None,
        (b'=', b'>') | (b':', b'=') => here += 1,
        _ => {}
    }
    let more = blanks(text, here);
    here += more;
    text.get(here)?;
    let quotes = quote(text, here);
    let is_env = separator == b'=' && spaces + more == 0 && quoted_name == 0;
    let style = match quotes {
        0 if is_env && UPPER_DIGIT.and(Charset::of("_")).run(&text[at..end]) == end - at => {
            Style::Env
        }
        0 => Style::Plain,
        _ => Style::Quoted,
    };
    Some((here + quotes, style))
}

/// The name that ends with the word at `at`, up to there.
fn name(text: &[u8], at: usize) -> &[u8] {
    let from = at.saturating_sub(NAME_MAX);
    let len = text[from..at].iter().rev().take_while(|&&byte| KEY.has(byte)).count();
    &text[at - len..]
}

/// Bytes of a quote: `"`, `'`, and `\"` as within JSON.
fn quote(text: &[u8], at: usize) -> usize {
    match text.get(at..).unwrap_or_default() {
        [b'\\', b'"' | b'\'', ..] => 2,
        [b'"' | b'\'' | b'`', ..] => 1,
        _ => 0,
    }
}

fn blanks(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.iter().take(BLANKS_MAX).take_while(|&&byte| byte == b' ' || byte == b'\t').count()
}

fn value(text: &[u8], from: usize, style: Style, ended: bool) -> Look {
    let charset = if style == Style::Quoted { QUOTED_VALUE } else { BARE_VALUE };
    let run = charset.run(&text[from..]);
    let seen = &text[from..from + run];
    let is_open = from + run == text.len() && !ended;
    let (least, decides) = match style {
        Style::Env => (6, 12),
        Style::Quoted | Style::Plain => (8, DECIDE),
    };
    if is_open && run < decides {
        let whole = least;
        return if run > 0 { Look::Undecided { from, whole } } else { Look::Nothing };
    }
    // Only as much as decided it may count: the answer must not depend on what else is there
    // already.
    let seen = &seen[..run.min(decides)];
    let after = text.get(from + run).copied().filter(|_| run < decides);
    let is_value = run >= least
        && !is_stand_in(seen)
        && match style {
            Style::Env => true,
            Style::Quoted => is_mixed(seen, 1),
            Style::Plain => is_mixed(seen, 2) && !matches!(after, Some(b'(' | b'[' | b'{' | b'$')),
        };
    if is_value {
        return Look::Secret { from, to: from + run, open: Open::Run(charset) };
    }
    Look::Nothing
}

/// Letters and so many digits, and not always the same.
fn is_mixed(value: &[u8], digits: usize) -> bool {
    let mut distinct = 0u128;
    for byte in value {
        distinct |= 1 << (byte & 127);
    }
    value.iter().filter(|&&byte| DIGIT.has(byte)).count() >= digits
        && value.iter().any(u8::is_ascii_alphabetic)
        && distinct.count_ones() >= 5
}

/// What stands where a value would: a template, an address, a row of stars, a word that says there
/// is none.
fn is_stand_in(value: &[u8]) -> bool {
    let templates: [&[u8]; 8] = [b"$", b"{", b"<", b"%(", b"%{", b"http://", b"https://", b"./"];
    templates.iter().any(|template| value.starts_with(template))
        || value.iter().all(|byte| Some(byte) == value.first())
        || NO_VALUES.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()))
}

/// Behind `authorization`: a separator, maybe a scheme, then credentials.
pub(super) fn authorization(text: &[u8], at: usize, end: usize, ended: bool) -> Look {
    const SCHEMES: [&[u8]; 5] = [b"basic ", b"bearer ", b"token ", b"digest ", b"apikey "];
    let mut here = end + quote(text, end);
    here += blanks(text, here);
    if !matches!(text.get(here), Some(b':' | b'=')) {
        return Look::Nothing;
    }
    here += 1;
    here += blanks(text, here);
    here += quote(text, here);
    let rest = text.get(here..).unwrap_or_default();
    let scheme = SCHEMES.iter().find(|scheme| {
        rest.get(..scheme.len()).is_some_and(|there| there.eq_ignore_ascii_case(scheme))
    });
    match scheme {
        Some(scheme) => credentials(text, at, here + scheme.len(), ended),
        None => value(text, here, Style::Plain, ended),
    }
}

/// Behind a scheme: a word with a digit, or one too long to be a word.
pub(super) fn credentials(text: &[u8], _: usize, from: usize, ended: bool) -> Look {
    const LEAST: usize = 8;
    const LONG: usize = 24;
    let run = TOKEN68.run(&text[from..]);
    if from + run == text.len() && !ended && run < LONG {
        return if run > 0 { Look::Undecided { from, whole: LEAST } } else { Look::Nothing };
    }
    let seen = &text[from..from + run.min(LONG)];
    let is_secret = run >= LONG || (run >= LEAST && is_mixed(seen, 1));
    if is_secret && !is_stand_in(seen) {
        return Look::Secret { from, to: from + run, open: Open::Run(TOKEN68) };
    }
    Look::Nothing
}

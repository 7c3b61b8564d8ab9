//! How one setting is read, whatever the file's format.
//!
//! Each reader says what it expected, so that the sentence in the error fits the key.

use std::time::Duration;

/// A value as it stood in the file.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    Text(String),
    Number(i64),
    Flag(bool),
    /// A list of texts.
    List(Vec<String>),
    /// Names and texts.
    Pairs(Vec<(String, String)>),
    /// Something no key takes; what it is.
    Other(&'static str),
}

impl Given {
    fn shown(&self) -> String {
        match self {
            Given::Text(text) => format!("\"{text}\""),
            Given::Number(number) => number.to_string(),
            Given::Flag(flag) => flag.to_string(),
            Given::List(_) => "a list".to_owned(),
            Given::Pairs(_) => "a table".to_owned(),
            Given::Other(what) => (*what).to_owned(),
        }
    }

    fn unlike(&self, expected: &str) -> String {
        format!("must be {expected}, not {}", self.shown())
    }
}

/// A terminal has at most this many rows or columns.
const SIDE_MAX: u16 = 1000;

pub(super) fn text(given: &Given) -> Result<String, String> {
    match given {
        Given::Text(text) if !text.is_empty() => Ok(text.clone()),
        other => Err(other.unlike("a text")),
    }
}

pub(super) fn word(given: &Given) -> Result<String, String> {
    let text = text(given)?;
    if text.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(given.unlike("one word"));
    }
    Ok(text)
}

pub(super) fn level(given: &Given) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    match given {
        Given::Text(text) if LEVELS.contains(&text.as_str()) => Ok(text.clone()),
        other => Err(other.unlike("off, error, warn, info, debug or trace")),
    }
}

pub(super) fn size(given: &Given) -> Result<(u16, u16), String> {
    let read = || {
        let Given::Text(text) = given else { return None };
        let (cols, rows) = text.split_once('x')?;
        let side = |text: &str| text.parse().ok().filter(|side| (1..=SIDE_MAX).contains(side));
        Some((side(cols)?, side(rows)?))
    };
    read().ok_or_else(|| given.unlike("a size such as \"120x40\", at most 1000x1000"))
}

pub(super) fn count(given: &Given, min: u64, max: u64) -> Result<u64, String> {
    let number = match given {
        Given::Number(number) => u64::try_from(*number).ok(),
        Given::Text(text) => text.parse().ok(),
        _ => None,
    };
    number
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| given.unlike(&format!("a number from {min} to {max}")))
}

pub(super) fn bytes(given: &Given, min: u64) -> Result<u64, String> {
    const UNITS: [(&str, u64); 6] = [
        ("GiB", 1 << 30),
        ("MiB", 1 << 20),
        ("KiB", 1 << 10),
        ("G", 1 << 30),
        ("M", 1 << 20),
        ("K", 1 << 10),
    ];
    let number = match given {
        Given::Number(number) => u64::try_from(*number).ok(),
        Given::Text(text) => {
            let (digits, factor) = UNITS
                .iter()
                .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
                .unwrap_or((text, 1));
            digits.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(factor))
        }
        _ => None,
    };
    number.filter(|number| *number >= min).ok_or_else(|| {
        given.unlike(&format!("a number of bytes such as \"64MiB\", at least {min}"))
    })
}

pub(super) fn duration(given: &Given) -> Result<Duration, String> {
    const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];
    let ms = match given {
        Given::Number(seconds) => u64::try_from(*seconds).ok().and_then(|s| s.checked_mul(1000)),
        Given::Text(text) => UNITS.iter().find_map(|(unit, factor)| {
            text.strip_suffix(unit)?.trim().parse::<u64>().ok()?.checked_mul(*factor)
        }),
        _ => None,
    };
    ms.map(Duration::from_millis).ok_or_else(|| given.unlike("a time such as \"5s\" or \"500ms\""))
}

pub(super) fn flag(given: &Given) -> Result<bool, String> {
    match given {
        Given::Flag(flag) => Ok(*flag),
        Given::Text(text) if text == "true" => Ok(true),
        Given::Text(text) if text == "false" => Ok(false),
        other => Err(other.unlike("true or false")),
    }
}

/// A list, or one text alone.
pub(super) fn texts(given: &Given) -> Result<Vec<String>, String> {
    match given {
        Given::List(texts) if texts.iter().all(|text| !text.is_empty()) => Ok(texts.clone()),
        Given::Text(text) if !text.is_empty() => Ok(vec![text.clone()]),
        other => Err(other.unlike("a list of texts such as [\"a\", \"b\"]")),
    }
}

pub(super) fn pairs(given: &Given) -> Result<Vec<(String, String)>, String> {
    match given {
        Given::Pairs(pairs) => Ok(pairs.clone()),
        other => Err(other.unlike("a table such as { target = \"reflink\" }")),
    }
}

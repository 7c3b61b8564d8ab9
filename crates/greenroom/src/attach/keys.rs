//! The prefix key: how it is named, and how it looks in each keyboard protocol.
//!
//! In: a text such as `ctrl-b`; escape sequences that encode a key. Out: [`Prefix`], and the
//! [`Press`] a sequence stands for. Under the kitty protocol or modifyOtherKeys the outer terminal
//! no longer sends 0x02 for Ctrl-b, so the byte alone is not enough to find the prefix.
//! Absent on purpose: every other key; those are forwarded as they are.

use std::fmt;
use std::str::FromStr;

/// The key that starts a command while attached; `None` turns commands off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix(Option<char>);

impl Prefix {
    /// The byte a terminal without a keyboard protocol sends for it.
    pub fn byte(self) -> Option<u8> {
        self.0.map(|key| if key == ' ' { 0 } else { (key as u8).to_ascii_uppercase() & 0x1f })
    }

    /// Is it this key with Ctrl?
    pub fn is(self, press: Press) -> bool {
        press.ctrl && !press.alt && self.0 == Some(press.key.to_ascii_lowercase())
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let lower = text.to_ascii_lowercase();
        if lower == "none" {
            return Ok(Prefix(None));
        }
        let names = ["ctrl-", "ctrl+", "ctrl_", "c-", "^"];
        let key =
            names.iter().find_map(|name| lower.strip_prefix(name)).filter(|key| !key.is_empty());
        let key = key.map(|key| if key == "space" { " " } else { key });
        let mut chars = key.unwrap_or_default().chars();
        // Ctrl-[ is Escape itself, and the sequences we look for begin with it.
        match (chars.next(), chars.next()) {
            (Some(key @ ('a'..='z' | '@' | '\\' | ']' | '^' | '_' | ' ')), None) => {
                Ok(Prefix(Some(key)))
            }
            _ => Err("a key with ctrl is wanted, such as ctrl-b, or none".to_owned()),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("none"),
            Some(' ') => f.write_str("Ctrl-space"),
            Some(key) => write!(f, "Ctrl-{key}"),
        }
    }
}

/// A key as the kitty protocol or modifyOtherKeys tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Press {
    pub key: char,
    pub ctrl: bool,
    pub alt: bool,
    /// The key came up again: only the kitty protocol tells.
    pub release: bool,
    /// Shift, Ctrl and such alone.
    pub modifier: bool,
}

/// Codes of the modifier keys in the kitty protocol.
const MODIFIER_KEYS: std::ops::RangeInclusive<u32> = 57441..=57454;
/// Caps lock, scroll lock and num lock.
const LOCKS: std::ops::RangeInclusive<u32> = 57358..=57360;

/// Reads `CSI code ; mods u` and `CSI 27 ; mods ; code ~`, with everything kitty adds by colons.
pub fn parse_press(sequence: &[u8]) -> Option<Press> {
    let body = sequence.strip_prefix(b"\x1b[")?;
    let (last, params) = body.split_last()?;
    let params = std::str::from_utf8(params).ok()?;
    let mut fields = params.split(';').map(|field| field.split(':'));
    let mut next = || -> Option<(u32, u32)> {
        let mut parts = fields.next()?;
        let first = parts
            .next()
            .filter(|part| !part.is_empty())
            .map_or(Some(1), |part| part.parse().ok())?;
        let second = parts
            .next()
            .filter(|part| !part.is_empty())
            .map_or(Some(1), |part| part.parse().ok())?;
        Some((first, second))
    };
    let (code, mods, event) = match last {
        b'u' => {
            let (code, _) = next()?;
            let (mods, event) = next().unwrap_or((1, 1));
            (code, mods, event)
        }
        b'~' => {
            let (27, _) = next()? else { return None };
            let (mods, _) = next()?;
            (next()?.0, mods, 1)
        }
        _ => return None,
    };
    let held = mods.saturating_sub(1);
    Some(Press {
        key: char::from_u32(code)?,
        ctrl: held & 4 != 0,
        alt: held & 2 != 0,
        release: event == 3,
        modifier: MODIFIER_KEYS.contains(&code) || LOCKS.contains(&code),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_prefix() {
        for text in ["ctrl-b", "C-b", "^B", "Ctrl+b"] {
            assert_eq!(text.parse::<Prefix>().unwrap().byte(), Some(2), "{text}");
        }
        assert_eq!("ctrl-space".parse::<Prefix>().unwrap().byte(), Some(0));
        assert_eq!("ctrl-\\".parse::<Prefix>().unwrap().byte(), Some(0x1c));
        assert_eq!("none".parse::<Prefix>().unwrap().byte(), None);
        for bad in ["", "b", "ctrl-", "ctrl-[", "ctrl-bb", "alt-b"] {
            assert!(bad.parse::<Prefix>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_prefix_in_each_protocol() {
        let prefix: Prefix = "ctrl-b".parse().unwrap();
        let is = |text: &str| parse_press(text.as_bytes()).is_some_and(|press| prefix.is(press));
        assert!(is("\x1b[98;5u"));
        assert!(is("\x1b[98;5:1u"));
        assert!(is("\x1b[98;69u"), "with caps lock");
        assert!(is("\x1b[98:66;5;98u"), "with alternate keys and text");
        assert!(is("\x1b[27;5;98~"));
        assert!(!is("\x1b[98;7u"), "with alt");
        assert!(!is("\x1b[98u"));
        assert!(parse_press(b"\x1b[98;5:3u").unwrap().release);
        assert!(parse_press(b"\x1b[57442;5u").unwrap().modifier);
        assert_eq!(parse_press(b"\x1b[5~"), None);
        assert_eq!(parse_press(b"\x1b[A"), None);
    }
}

//! The prefix key: how it is named, and how it looks in each keyboard protocol.
//!
//! In: a text such as `ctrl-b`; escape sequences that encode a key. Out: [`Prefix`], and the
//! [`Press`] a sequence stands for. Under the kitty protocol or modifyOtherKeys the outer terminal
//! no longer sends 0x02 for Ctrl-b, so the byte alone is not enough to find the prefix.
//! Absent on purpose: every other key; those are forwarded as they are.

pub use greenroom_config::Prefix;

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

impl Press {
    /// Is it the prefix?
    pub fn is(self, prefix: Prefix) -> bool {
        self.ctrl && !self.alt && prefix.key() == Some(self.key.to_ascii_lowercase())
    }
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
    let number = |part: Option<&str>| -> Option<u32> {
        part.filter(|part| !part.is_empty()).map_or(Some(1), |part| part.parse().ok())
    };
    let mut next = || {
        let mut parts = fields.next()?;
        Some((number(parts.next())?, number(parts.next())?))
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
        let is = |text: &str| parse_press(text.as_bytes()).is_some_and(|press| press.is(prefix));
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

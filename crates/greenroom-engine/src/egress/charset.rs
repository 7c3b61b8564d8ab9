//! Sets of ASCII characters, as the bodies of secrets are made of.

/// A bit per ASCII character; nothing else is ever in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charset(u128);

impl Charset {
    pub(crate) const fn of(chars: &str) -> Charset {
        let bytes = chars.as_bytes();
        let (mut bits, mut at) = (0, 0);
        while at < bytes.len() {
            bits |= 1 << bytes[at];
            at += 1;
        }
        Charset(bits)
    }

    const fn range(from: u8, to: u8) -> Charset {
        let (mut bits, mut at) = (0, from);
        while at <= to {
            bits |= 1 << at;
            at += 1;
        }
        Charset(bits)
    }

    pub(crate) const fn and(self, other: Charset) -> Charset {
        Charset(self.0 | other.0)
    }

    pub(crate) const fn without(self, chars: &str) -> Charset {
        Charset(self.0 & !Charset::of(chars).0)
    }

    pub(crate) const fn has(self, byte: u8) -> bool {
        byte < 128 && self.0 >> byte & 1 == 1
    }

    /// How many bytes at the start are in the set.
    pub(crate) fn run(self, text: &[u8]) -> usize {
        text.iter().position(|&byte| !self.has(byte)).unwrap_or(text.len())
    }
}

pub(crate) const UPPER: Charset = Charset::range(b'A', b'Z');
pub(crate) const LOWER: Charset = Charset::range(b'a', b'z');
pub(crate) const DIGIT: Charset = Charset::range(b'0', b'9');
pub(crate) const ALNUM: Charset = UPPER.and(LOWER).and(DIGIT);
pub(crate) const UPPER_DIGIT: Charset = UPPER.and(DIGIT);
pub(crate) const HEX: Charset = DIGIT.and(Charset::of("abcdefABCDEF"));
/// base64url without padding, which is also what most tokens are made of.
pub(crate) const WORD: Charset = ALNUM.and(Charset::of("_-"));
/// A token with parts.
pub(crate) const DOTTED: Charset = WORD.and(Charset::of("."));
/// What may follow an authentication scheme.
pub(crate) const TOKEN68: Charset = DOTTED.and(Charset::of("~+/=%:"));
pub(crate) const BASE64: Charset = ALNUM.and(Charset::of("+/="));
pub(crate) const BLANK: Charset = Charset::of(" \t\r\n");
/// Everything that can be seen.
pub(crate) const VISIBLE: Charset = Charset::range(0x21, 0x7e);
/// A value without quotes around it ends at what ends a word in shells, logs and source.
pub(crate) const BARE_VALUE: Charset = VISIBLE.without("\"'`,;<>(){}[]|&$\\");
pub(crate) const QUOTED_VALUE: Charset = VISIBLE.without("\"'`\\");
/// A key, with what it is part of.
pub(crate) const KEY: Charset = ALNUM.and(Charset::of("_-."));

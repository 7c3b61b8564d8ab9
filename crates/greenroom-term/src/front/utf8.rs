//! UTF-8, one character at a time, split anywhere.
//!
//! In: bytes of which the first is not ASCII. Out: what stands there. The rules are those of
//! `str::from_utf8` (maximal subparts), which vte applies to a whole stream: the result does not
//! depend on where reads cut. (vte itself loses characters at such cuts.)
//! Deliberately absent: state. The caller keeps the at most three bytes of a cut character.

/// What the first bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// A character of `len` bytes.
    Char(char, usize),
    /// Not a character: one U+FFFD, or a control if it is a lone byte of the C1 range.
    Invalid(usize),
    /// The bytes end inside a character.
    Cut,
}

/// Decodes at the start of `bytes`, whose first byte is `>= 0x80`.
#[inline]
pub(crate) fn decode(bytes: &[u8]) -> Decoded {
    let lead = bytes[0];
    let (len, second, mut code) = match lead {
        0xc2..=0xdf => (2, 0x80..=0xbf, u32::from(lead & 0x1f)),
        0xe0 => (3, 0xa0..=0xbf, 0),
        0xed => (3, 0x80..=0x9f, 0x0d),
        0xe1..=0xef => (3, 0x80..=0xbf, u32::from(lead & 0x0f)),
        0xf0 => (4, 0x90..=0xbf, 0),
        0xf4 => (4, 0x80..=0x8f, 4),
        0xf1..=0xf3 => (4, 0x80..=0xbf, u32::from(lead & 0x07)),
        _ => return Decoded::Invalid(1),
    };
    for at in 1..len {
        match bytes.get(at) {
            None => return Decoded::Cut,
            Some(&byte) if at == 1 && !second.contains(&byte) => return Decoded::Invalid(1),
            Some(&byte) if !(0x80..=0xbf).contains(&byte) => return Decoded::Invalid(at),
            Some(&byte) => code = code << 6 | u32::from(byte & 0x3f),
        }
    }
    match char::from_u32(code) {
        Some(c) => Decoded::Char(c, len),
        None => Decoded::Invalid(1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_std(bytes: &[u8]) -> Decoded {
        match std::str::from_utf8(bytes) {
            Ok(text) => first(text),
            Err(err) if err.valid_up_to() > 0 => {
                first(std::str::from_utf8(&bytes[..err.valid_up_to()]).unwrap())
            }
            Err(err) => err.error_len().map_or(Decoded::Cut, Decoded::Invalid),
        }
    }

    fn first(text: &str) -> Decoded {
        let c = text.chars().next().unwrap();
        Decoded::Char(c, c.len_utf8())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn agrees_with_std(lead in 0x80u8.., rest in prop::collection::vec(prop_oneof![3 => 0x80u8..0xc0, 1 => any::<u8>()], 0..5)) {
            let bytes: Vec<u8> = std::iter::once(lead).chain(rest).collect();
            prop_assert_eq!(decode(&bytes), by_std(&bytes));
        }
    }
}

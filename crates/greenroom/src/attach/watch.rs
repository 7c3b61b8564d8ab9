//! Looks at the session's output on its way to the terminal for the few things that change what we
//! do later: questions the terminal will answer, and colours that must be put back.
//!
//! In: output in any pieces. Out: a count of cursor queries, and a flag. Nothing is changed.

/// Bytes kept of the last piece: the longest thing we look for, less one.
const CARRY: usize = 10;

/// What the output asked of the terminal.
#[derive(Debug, Default)]
pub struct OutputWatch {
    carry: Vec<u8>,
    colors: bool,
}

impl OutputWatch {
    /// Looks at a piece; answers how many cursor reports it asks for.
    pub fn see(&mut self, bytes: &[u8]) -> u32 {
        let old = self.carry.len();
        self.carry.extend_from_slice(&bytes[..bytes.len().min(CARRY)]);
        let joint = std::mem::take(&mut self.carry);
        // Sequences that begin in the old piece and end in this one.
        let mut queries = self.scan(&joint, 0..old, old);
        queries += self.scan(bytes, 0..bytes.len(), 0);
        let tail = if bytes.len() >= CARRY { &bytes[bytes.len() - CARRY..] } else { &[] };
        self.carry = if tail.is_empty() {
            joint[joint.len().saturating_sub(CARRY)..].to_vec()
        } else {
            tail.to_vec()
        };
        queries
    }

    /// Has a colour of the terminal been changed?
    pub fn changed_colors(&self) -> bool {
        self.colors
    }

    /// Finds sequences that begin within `starts` and end after `after`.
    fn scan(&mut self, bytes: &[u8], starts: std::ops::Range<usize>, after: usize) -> u32 {
        let mut queries = 0;
        for at in starts {
            if bytes[at] != 0x1b {
                continue;
            }
            let rest = &bytes[at + 1..];
            for query in [&b"[6n"[..], b"[?6n"] {
                queries += u32::from(rest.starts_with(query) && at + 1 + query.len() > after);
            }
            self.colors |= sets_color(rest);
        }
        queries
    }
}

/// Is this the rest of an escape that changes a colour, as opposed to asking for one?
fn sets_color(rest: &[u8]) -> bool {
    let value = [&b"]10;"[..], b"]11;", b"]12;"].iter().find_map(|color| rest.strip_prefix(*color));
    let value = value.or_else(|| {
        let entry = rest.strip_prefix(b"]4;")?;
        let digits = entry.iter().take_while(|byte| byte.is_ascii_digit()).count();
        entry[digits..].strip_prefix(b";")
    });
    value.and_then(<[u8]>::first).is_some_and(|first| *first != b'?')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_counted_once_wherever_they_are_cut() {
        let text = b"ab\x1b[6ncd\x1b[?6n\x1b[6n";
        for size in 1..text.len() {
            let mut watch = OutputWatch::default();
            let count: u32 = text.chunks(size).map(|piece| watch.see(piece)).sum();
            assert_eq!(count, 3, "in pieces of {size}");
        }
    }

    #[test]
    fn asking_for_a_colour_is_not_changing_it() {
        let mut watch = OutputWatch::default();
        watch.see(b"\x1b]11;?\x07\x1b]4;255;?\x07");
        assert!(!watch.changed_colors());
        watch.see(b"\x1b]1");
        watch.see(b"1;#000000\x07");
        assert!(watch.changed_colors());
    }
}

//! A stream as text, sequences that change nothing about what stands beside what, and boundaries.
//!
//! In: bytes in any split. Out: calls to a [`Tokens`]. Text that a program prints piecewise, with
//! colours between, is one text; a movement of the cursor ends it. The payloads of OSC and other
//! strings are texts of their own. Deliberately absent: the grid. What is painted out of order only
//! the screen can tell.

use super::{Grammar, Kind, Place, Step};

/// A string longer than this is taken to be broken off, and what follows is text again: one stray
/// introducer must not hide a whole transcript, and whoever looks for secrets must see all of it as
/// text. A reader that begins in the middle of a stream looks back further than this, and so agrees
/// with one that began earlier; each reader pays for that distance.
pub const STRING_MAX: usize = 16 * 1024;

/// Takes what the tokenizer found. `len` counts raw bytes, and every byte is in exactly one call
/// that has a `len`.
pub trait Tokens {
    /// Printed bytes, with tabs and line ends.
    fn text(&mut self, len: usize);
    /// Bytes of a sequence or control that leaves neighbours neighbours.
    fn quiet(&mut self, len: usize);
    /// What follows does not stand beside what was before; comes after the bytes that say so.
    fn boundary(&mut self) {}
    /// A control that moves the cursor in the midst of a sequence; its byte was quiet, a boundary
    /// follows.
    fn control(&mut self, _byte: u8) {}
    /// The last character is taken back; its byte follows as quiet.
    fn backspace(&mut self) {}
    /// A string begins; its introducer was quiet.
    fn string_begins(&mut self) {}
    fn string_text(&mut self, len: usize) {
        self.quiet(len);
    }
    /// The string is one that sets the clipboard: nothing of it shall be seen.
    fn string_is_clipboard(&mut self) {}
    /// What the string is, is known: it may be seen.
    fn string_is_known(&mut self) {}
    fn string_ends(&mut self) {}
}

#[derive(Clone, Debug, Default)]
pub struct Tokenizer {
    grammar: Grammar,
    /// `?`, `>`, `=`, `<` of a CSI, or 0.
    marker: u8,
    number: u32,
    /// A private mode of this CSI switches screens or moves the cursor.
    moves: bool,
    /// Number of an OSC while it is read; then what it came to.
    osc: Osc,
    string_len: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Osc {
    Number(u32),
    #[default]
    Known,
}

impl Tokenizer {
    pub fn feed(&mut self, bytes: &[u8], out: &mut impl Tokens) {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            at += match self.grammar.place() {
                Place::Ground => match text_run(rest) {
                    0 => self.control(rest[0], out),
                    run => {
                        out.text(run);
                        run
                    }
                },
                _ if self.grammar.in_string() => self.string(rest, out),
                _ => self.sequence(rest, out),
            };
        }
    }

    fn control(&mut self, byte: u8, out: &mut impl Tokens) -> usize {
        self.grammar.step(byte);
        if byte == 0x08 {
            out.backspace();
        }
        out.quiet(1);
        if matches!(byte, 0x0b | 0x0c) {
            out.boundary();
        }
        1
    }

    /// As much of a sequence as is there.
    fn sequence(&mut self, bytes: &[u8], out: &mut impl Tokens) -> usize {
        for (at, &byte) in bytes.iter().enumerate() {
            let before = self.grammar.place();
            match self.grammar.step(byte) {
                Step::Part if self.grammar.in_string() => {
                    out.quiet(at + 1);
                    self.string_begins(byte, out);
                    return at + 1;
                }
                Step::Part => self.part(byte),
                Step::Begin | Step::Nothing | Step::Ignore => {}
                Step::Execute => {
                    out.quiet(at + 1);
                    if matches!(byte, b'\n' | b'\r' | b'\t' | 0x08 | 0x0b | 0x0c) {
                        out.control(byte);
                        out.boundary();
                    }
                    return at + 1;
                }
                Step::Drop | Step::StringEnd(_) => {
                    out.quiet(at + 1);
                    return at + 1;
                }
                Step::Last(kind) => {
                    out.quiet(at + 1);
                    let moves = match kind {
                        Kind::Csi => self.csi_moves(byte),
                        // Restore, index, next line, reverse index, reset.
                        _ => {
                            before == Place::Escape
                                && matches!(byte, b'8' | b'D' | b'E' | b'M' | b'c')
                        }
                    };
                    if moves {
                        out.boundary();
                    }
                    return at + 1;
                }
            }
        }
        out.quiet(bytes.len());
        bytes.len()
    }

    fn part(&mut self, byte: u8) {
        match byte {
            b'[' if self.grammar.place() == Place::CsiEntry => {
                (self.marker, self.number, self.moves) = (0, 0, false);
            }
            b'0'..=b'9' => {
                let digit = u32::from(byte - b'0');
                self.number = self.number.saturating_mul(10).saturating_add(digit);
            }
            b'<'..=b'?' => self.marker = byte,
            b':' | b';' => self.parameter(),
            _ => {}
        }
    }

    fn parameter(&mut self) {
        // Alternate screens, origin mode, column mode.
        self.moves |= matches!(self.number, 3 | 6 | 47 | 1047 | 1048 | 1049);
        self.number = 0;
    }

    /// Whether the CSI that ends with `last` moves, scrolls, inserts or removes. Erasing moves
    /// nothing, and `grep` erases between letters.
    fn csi_moves(&mut self, last: u8) -> bool {
        self.parameter();
        match (self.marker, last) {
            (b'?', b'h' | b'l') => self.moves,
            (0, b'A'..=b'I' | b'Z' | b'`' | b'a' | b'b' | b'd'..=b'f' | b'r' | b'u') => true,
            (0, b'L' | b'M' | b'P' | b'S' | b'T' | b'@') => true,
            _ => false,
        }
    }

    fn string_begins(&mut self, introducer: u8, out: &mut impl Tokens) {
        self.osc = if introducer == b']' { Osc::Number(0) } else { Osc::Known };
        self.string_len = 0;
        out.string_begins();
        if self.osc == Osc::Known {
            out.string_is_known();
        }
    }

    fn string(&mut self, bytes: &[u8], out: &mut impl Tokens) -> usize {
        let room = STRING_MAX - self.string_len;
        if let Osc::Number(number) = self.osc
            && room > 0
        {
            return self.osc_number(number, bytes[0], out);
        }
        // The grammar is not asked about payload: whatever it is, it is looked at. Where the screen
        // ends a DCS at the byte 9C, which in UTF-8 is the middle of a character, a secret would be
        // cut in two.
        let run = string_run(&bytes[..bytes.len().min(room)]);
        if run > 0 {
            out.string_text(run);
            self.string_len += run;
            return run;
        }
        if room == 0 {
            out.string_ends();
            self.grammar.abandon();
            return 0;
        }
        let ends = match bytes[0] {
            // For the screen only an OSC ends here. Other terminals end any string, and show what
            // follows.
            0x07 => {
                self.grammar.abandon();
                true
            }
            byte => {
                matches!(self.grammar.step(byte), Step::StringEnd(_) | Step::Begin | Step::Drop)
            }
        };
        if ends {
            out.string_ends();
        } else {
            self.string_len += 1;
        }
        out.quiet(1);
        1
    }

    fn osc_number(&mut self, number: u32, byte: u8, out: &mut impl Tokens) -> usize {
        match byte {
            b'0'..=b'9' if number < 1_000_000 => {
                self.osc = Osc::Number(number * 10 + u32::from(byte - b'0'));
                out.quiet(1);
                self.string_len += 1;
                return 1;
            }
            b';' if number == 52 => out.string_is_clipboard(),
            _ => out.string_is_known(),
        }
        self.osc = Osc::Known;
        // The byte itself is looked at again, as part of the payload.
        0
    }
}

/// Bytes at the start that are text: everything but controls, with tab and line ends.
fn text_run(bytes: &[u8]) -> usize {
    let is_text =
        |byte: u8| (byte >= 0x20 && byte != 0x7f) || matches!(byte, b'\t' | b'\n' | b'\r');
    let mut run = 0;
    for block in bytes.chunks(32) {
        // Without a branch per byte this becomes a few wide instructions.
        let all = block.iter().fold(true, |all, &byte| all & is_text(byte));
        if !all {
            return run + block.iter().position(|&byte| !is_text(byte)).unwrap_or(block.len());
        }
        run += block.len();
    }
    run
}

fn string_run(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| byte < 0x20 || byte == 0x7f).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lexer::collect::Collector;

    /// Each byte with what it is, and what is said between bytes. Neighbouring calls of one kind
    /// are one.
    #[derive(Debug, Default, PartialEq, Eq)]
    struct Log {
        said: Vec<(char, usize)>,
    }

    impl Log {
        fn add(&mut self, what: char, len: usize) {
            match self.said.last_mut() {
                Some((last, total)) if *last == what && len > 0 => *total += len,
                _ => self.said.push((what, len)),
            }
        }
    }

    impl Tokens for Log {
        fn text(&mut self, len: usize) {
            self.add('t', len);
        }
        fn quiet(&mut self, len: usize) {
            self.add('q', len);
        }
        fn boundary(&mut self) {
            self.add('|', 0);
        }
        fn control(&mut self, byte: u8) {
            self.add('c', byte.into());
        }
        fn backspace(&mut self) {
            self.add('<', 0);
        }
        fn string_begins(&mut self) {
            self.add('[', 0);
        }
        fn string_text(&mut self, len: usize) {
            self.add('s', len);
        }
        fn string_is_clipboard(&mut self) {
            self.add('!', 0);
        }
        fn string_is_known(&mut self) {
            self.add('?', 0);
        }
        fn string_ends(&mut self) {
            self.add(']', 0);
        }
    }

    fn tokens<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Log {
        let mut tokenizer = Tokenizer::default();
        let mut log = Log::default();
        pieces.into_iter().for_each(|piece| tokenizer.feed(piece, &mut log));
        log
    }

    fn check(input: &[u8], expected: &[(char, usize)]) {
        let log = tokens([input]);
        assert_eq!(log.said, expected, "{:?}", String::from_utf8_lossy(input));
        for cut in 0..=input.len() {
            assert_eq!(tokens([&input[..cut], &input[cut..]]), log, "cut at {cut}");
        }
    }

    #[test]
    fn bytes_are_sorted() {
        check(b"a\x1b[1;31mb", &[('t', 1), ('q', 7), ('t', 1)]);
        check(b"a\x1b[2;3Hb", &[('t', 1), ('q', 6), ('|', 0), ('t', 1)]);
        check(b"\x1b[?1049h\x1b[?25h", &[('q', 8), ('|', 0), ('q', 6)]);
        check(b"\x1b#8\x1b8", &[('q', 5), ('|', 0)]);
        check(b"\x1b[3\n1mx", &[('q', 4), ('c', 10), ('|', 0), ('q', 2), ('t', 1)]);
        check(
            b"\x1b]0;ti\x1b\\x",
            &[('q', 2), ('[', 0), ('q', 1), ('?', 0), ('s', 3), (']', 0), ('q', 2), ('t', 1)],
        );
        check(
            b"\x1b]52;c;\x07",
            &[('q', 2), ('[', 0), ('q', 2), ('!', 0), ('s', 3), (']', 0), ('q', 1)],
        );
        // The end of a character within a DCS does not end it, and BEL does.
        check(
            "\x1bPÜ\x07x".as_bytes(),
            &[('q', 2), ('[', 0), ('?', 0), ('s', 2), (']', 0), ('q', 1), ('t', 1)],
        );
    }

    #[test]
    fn a_string_without_an_end_is_broken_off() {
        for introducer in ["\x1b]0;", "\x1bP", "\x1b_"] {
            let stream = [introducer.as_bytes(), &[b'x'; STRING_MAX], b"secret"].concat();
            let said = tokens([&stream[..]]).said;
            let [.., (']', 0), ('t', text)] = said[..] else { panic!("{said:?}") };
            assert!(text >= 6, "{introducer:?}: {text}");
            assert_eq!(tokens(stream.chunks(1000)).said, said);
        }
    }

    /// Bytes that matter to the grammar, and text.
    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let special = proptest::sample::select(
            b"\x1b\x1b\x1b[]P_X^\\;:?<0152 $mHh8c\n\r\x08\x18\x07\x7f".to_vec(),
        );
        proptest::collection::vec(prop_oneof![4 => special, 1 => any::<u8>()], 0..120)
    }

    proptest! {
        #[test]
        fn the_split_does_not_matter(bytes in stream(), cuts in proptest::collection::vec(0..120_usize, 0..6)) {
            let whole = tokens([&bytes[..]]);
            prop_assert_eq!(&tokens(bytes.chunks(1)), &whole);
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < bytes.len()).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(&tokens(pieces), &whole);
            let bytes_told = |(what, len): &(char, usize)| if "tqs".contains(*what) { *len } else { 0 };
            prop_assert_eq!(whole.said.iter().map(bytes_told).sum::<usize>(), bytes.len());
        }

        /// Text is what the screen takes for text, but for the two ends of strings on which
        /// terminals differ.
        #[test]
        fn the_screen_agrees_on_what_is_text(mut bytes in stream()) {
            bytes.retain(|byte| !matches!(byte, 0x07 | 0x9c));
            let (mut tokenizer, mut collector) = (Tokenizer::default(), Collector::default());
            for (at, &byte) in bytes.iter().enumerate() {
                tokenizer.feed(&[byte], &mut Log::default());
                if byte == 0x1b || !collector.in_ground() {
                    collector.step(byte);
                }
                let in_ground = tokenizer.grammar.place() == Place::Ground;
                prop_assert_eq!(in_ground, collector.in_ground(), "after byte {}", at);
            }
        }
    }
}

//! L0: bytes of a terminal as text, sequences that change nothing about what stands beside what, and boundaries.
//!
//! In: bytes in any split. Out: calls to a [`Tokens`]. Text that a program prints piecewise, with colours between, is
//! one text; a movement of the cursor ends it. The payloads of OSC and other strings are texts of their own.
//! Deliberately absent: the grid. What is painted out of order only the screen can tell.

/// A string longer than this is taken to be broken off. Below what a reader looks back, so that two readers who
/// begin at different places agree.
pub(crate) const STRING_CAP: usize = 16 * 1024;

/// Takes what the lexer found. `len` counts raw bytes.
pub(crate) trait Tokens {
    fn text(&mut self, len: usize);
    /// Of a sequence or control that leaves neighbours neighbours.
    fn quiet(&mut self, len: usize);
    /// What follows does not stand beside what was before; comes after the bytes that say so.
    fn boundary(&mut self);
    /// The last character is taken back; its byte follows as quiet.
    fn backspace(&mut self);
    /// A string begins; its introducer was quiet.
    fn string_begins(&mut self);
    fn string_text(&mut self, len: usize);
    /// The string is one that sets the clipboard: nothing of it shall be seen.
    fn string_is_clipboard(&mut self);
    /// What the string is, is known: it may be seen.
    fn string_is_known(&mut self);
    fn string_ends(&mut self);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ground,
    Escape,
    EscapeMore,
    Csi,
    String,
    StringEscape,
}

#[derive(Clone, Debug)]
pub(crate) struct Lexer {
    state: State,
    /// `?`, `>`, `=`, `<` of a CSI, or 0.
    marker: u8,
    number: u32,
    /// A private mode of this CSI switches screens or moves the cursor.
    moves: bool,
    /// Number of an OSC while it is read; then what it came to.
    osc: Osc,
    string_len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Osc {
    Number(u32),
    Known,
}

impl Default for Lexer {
    fn default() -> Lexer {
        Lexer {
            state: State::Ground,
            marker: 0,
            number: 0,
            moves: false,
            osc: Osc::Known,
            string_len: 0,
        }
    }
}

impl Lexer {
    pub fn feed(&mut self, bytes: &[u8], out: &mut impl Tokens) {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            at += match self.state {
                State::Ground => match plain_run(rest) {
                    0 => self.control(rest[0], out),
                    run => {
                        out.text(run);
                        run
                    }
                },
                State::String => self.string(rest, out),
                State::Csi => self.csi(rest, out),
                _ => self.sequence(rest[0], out),
            };
        }
    }

    fn control(&mut self, byte: u8, out: &mut impl Tokens) -> usize {
        match byte {
            0x1b => {
                out.quiet(1);
                self.state = State::Escape;
            }
            0x08 => {
                out.backspace();
                out.quiet(1);
            }
            0x0b | 0x0c => {
                out.quiet(1);
                out.boundary();
            }
            _ => out.quiet(1),
        }
        1
    }

    fn sequence(&mut self, byte: u8, out: &mut impl Tokens) -> usize {
        if self.state == State::StringEscape && byte != b'\\' {
            // The string was ended by another sequence.
            self.state = State::Escape;
        }
        match (self.state, byte) {
            // Cancelled, or begun anew.
            (_, 0x18 | 0x1a) => self.ground(out),
            (_, 0x1b) => {
                out.quiet(1);
                self.state = State::Escape;
            }
            // Controls act in the midst of a sequence.
            (State::Csi, b'\n' | b'\r' | b'\t' | 0x08 | 0x0b | 0x0c) => {
                out.quiet(1);
                out.boundary();
            }
            (State::Escape, _) => self.escape(byte, out),
            (State::EscapeMore, 0x20..=0x2f) => out.quiet(1),
            (State::Csi, _) => out.quiet(1),
            _ => self.ground(out),
        }
        1
    }

    fn ground(&mut self, out: &mut impl Tokens) {
        out.quiet(1);
        self.state = State::Ground;
    }

    fn escape(&mut self, byte: u8, out: &mut impl Tokens) {
        out.quiet(1);
        self.state = match byte {
            b'[' => {
                (self.marker, self.number, self.moves) = (0, 0, false);
                State::Csi
            }
            b']' | b'P' | b'X' | b'^' | b'_' => {
                self.osc = if byte == b']' { Osc::Number(0) } else { Osc::Known };
                self.string_len = 0;
                out.string_begins();
                if byte != b']' {
                    out.string_is_known();
                }
                State::String
            }
            0x20..=0x2f => State::EscapeMore,
            // Restore, index, next line, reverse index, reset.
            b'8' | b'D' | b'E' | b'M' | b'c' => {
                out.boundary();
                State::Ground
            }
            _ => State::Ground,
        };
    }

    /// As much of a CSI sequence as is there.
    fn csi(&mut self, bytes: &[u8], out: &mut impl Tokens) -> usize {
        for (at, &byte) in bytes.iter().enumerate() {
            match byte {
                b'0'..=b'9' => {
                    let digit = u32::from(byte - b'0');
                    self.number = self.number.saturating_mul(10).saturating_add(digit);
                }
                b'<'..=b'?' => self.marker = byte,
                b':' | b';' => self.parameter(),
                0x40..=0x7e => {
                    self.parameter();
                    self.state = State::Ground;
                    out.quiet(at + 1);
                    if self.is_boundary(byte) {
                        out.boundary();
                    }
                    return at + 1;
                }
                0x00..0x20 if at > 0 => {
                    out.quiet(at);
                    return at;
                }
                0x00..0x20 => return self.sequence(byte, out),
                _ => {}
            }
        }
        out.quiet(bytes.len());
        bytes.len()
    }

    fn parameter(&mut self) {
        // Alternate screens, origin mode, column mode.
        self.moves |= matches!(self.number, 3 | 6 | 47 | 1047 | 1048 | 1049);
        self.number = 0;
    }

    /// Movements, scrolling and what inserts or removes. Erasing moves nothing, and `grep` erases between letters.
    fn is_boundary(&self, last: u8) -> bool {
        match (self.marker, last) {
            (b'?', b'h' | b'l') => self.moves,
            (0, b'A'..=b'I' | b'Z' | b'`' | b'a' | b'b' | b'd'..=b'f' | b'r' | b'u') => true,
            (0, b'L' | b'M' | b'P' | b'S' | b'T' | b'@') => true,
            _ => false,
        }
    }

    fn string(&mut self, bytes: &[u8], out: &mut impl Tokens) -> usize {
        let room = STRING_CAP - self.string_len;
        if let Osc::Number(number) = self.osc
            && room > 0
        {
            return self.osc_number(number, bytes[0], out);
        }
        let run = string_run(&bytes[..bytes.len().min(room)]);
        if run > 0 {
            out.string_text(run);
            self.string_len += run;
            return run;
        }
        if room == 0 {
            out.string_ends();
            self.state = State::Ground;
            return 0;
        }
        match bytes[0] {
            0x07 | 0x18 | 0x1a => self.string_over(State::Ground, out),
            0x1b => self.string_over(State::StringEscape, out),
            _ => {
                self.string_len += 1;
                out.quiet(1);
                1
            }
        }
    }

    fn string_over(&mut self, state: State, out: &mut impl Tokens) -> usize {
        out.string_ends();
        out.quiet(1);
        self.state = state;
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
fn plain_run(bytes: &[u8]) -> usize {
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

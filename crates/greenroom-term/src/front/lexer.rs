//! Where an escape sequence ends.
//!
//! In: bytes from an ESC on, in any pieces. Out: whole sequences, each kept until its last byte
//! came, and controls that act in the middle of one.
//!
//! This mirrors the states of vte's parser, so that vte is only ever handed whole sequences and
//! is in ground state between them: one parser then serves every screen of a thread, and an
//! unfinished sequence is a few bytes that a keyframe can end with. Controls that vte executes at
//! once inside a sequence are executed at once here and left out of the kept bytes.
//! Deliberately absent: meaning. Lengths are bounded: what outgrows its limit is swallowed to its
//! end, because a program may never end it.

/// A CSI or plain escape; 32 parameters of 5 digits fit several times.
const MAX_CSI: usize = 1024;
/// An OSC string. Room for a clipboard text; tmux's own limit for what it forwards is near.
const MAX_OSC: usize = 128 * 1024;
/// A DCS string; we only answer requests, which are short.
const MAX_DCS: usize = 4096;
/// An APC string while a keyframe is restored; its writer keeps to this.
pub(crate) const MAX_APC: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum LexState {
    #[default]
    Ground,
    Escape,
    EscapeIntermediate,
    CsiEntry,
    CsiParam,
    CsiIntermediate,
    CsiIgnore,
    DcsEntry,
    DcsParam,
    DcsIntermediate,
    DcsIgnore,
    DcsPassthrough,
    Osc,
    /// SOS, PM or APC.
    Text,
}

/// What one byte did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Kept or swallowed.
    More,
    /// A control to execute now.
    Execute,
    /// The sequence is whole: [`Lexer::take`] it; call [`Lexer::done`] after using it.
    Whole(Kind),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Escape,
    Csi,
    /// Without its terminator; `bell`: ended by BEL.
    Osc {
        bell: bool,
    },
    /// Without its terminator.
    Dcs,
    /// Without its terminator; only while a keyframe is restored.
    Apc,
}

#[derive(Debug, Default)]
pub(crate) struct Lexer {
    state: LexState,
    kept: Vec<u8>,
    /// The state after [`done`](Lexer::done): a string ended by ESC has already begun the next.
    next: LexState,
    /// The string outgrew its limit: swallow to its end.
    overlong: bool,
    /// Keep APC strings: set only while a keyframe is restored.
    pub keep_apc: bool,
}

impl Lexer {
    #[inline]
    pub fn in_ground(&self) -> bool {
        self.state == LexState::Ground
    }

    /// ESC was seen in ground state.
    pub fn begin(&mut self) {
        self.restart();
    }

    /// Takes the sequence out, so that it can be used while the lexer is not borrowed.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.kept)
    }

    /// After a whole sequence was used; `buffer` may be what [`take`](Lexer::take) gave.
    pub fn done(&mut self, mut buffer: Vec<u8>) {
        const SPARE: usize = 256;
        buffer.clear();
        if buffer.capacity() > SPARE {
            buffer = Vec::new();
        }
        self.kept = buffer;
        self.overlong = false;
        self.state = self.next;
        if self.state == LexState::Escape {
            self.kept.push(0x1b);
        }
    }

    /// Bytes that put a new lexer into the same state; empty in ground.
    pub fn unfinished(&self) -> &[u8] {
        match self.state {
            LexState::CsiIgnore => b"\x1b[0<",
            LexState::DcsIgnore => b"\x1bP0<",
            LexState::DcsPassthrough if self.overlong => b"\x1bPz",
            LexState::Osc if self.overlong => b"\x1b]!",
            LexState::Text if !self.keep_apc => b"\x1b_",
            _ => &self.kept,
        }
    }

    /// Strings: swallows or keeps bytes up to the next one that may end them.
    pub fn bulk(&mut self, bytes: &[u8]) -> usize {
        match self.state {
            LexState::Osc => {
                let end = bytes.iter().position(|&b| b < 0x20).unwrap_or(bytes.len());
                self.keep_all(&bytes[..end], MAX_OSC);
                end
            }
            LexState::Text => {
                let end = bytes.iter().position(|&b| b < 0x20).unwrap_or(bytes.len());
                if self.keep_apc {
                    self.keep_all(&bytes[..end], MAX_APC);
                }
                end
            }
            _ => 0,
        }
    }

    pub fn step(&mut self, byte: u8) -> Step {
        match self.state {
            LexState::Ground => Step::More,
            LexState::Escape => self.escape(byte),
            LexState::EscapeIntermediate => match byte {
                0x20..=0x2f => self.keep(byte, MAX_CSI, LexState::EscapeIntermediate),
                0x30..=0x7e => self.whole(byte, Kind::Escape),
                _ => self.control(byte),
            },
            LexState::CsiEntry | LexState::CsiParam => self.csi(byte),
            LexState::CsiIntermediate => match byte {
                0x20..=0x2f => self.keep(byte, MAX_CSI, LexState::CsiIntermediate),
                0x30..=0x3f => self.ignore(LexState::CsiIgnore),
                0x40..=0x7e => self.whole(byte, Kind::Csi),
                _ => self.control(byte),
            },
            LexState::CsiIgnore => match byte {
                0x40..=0x7e => self.drop_sequence(),
                _ => self.control(byte),
            },
            LexState::DcsEntry | LexState::DcsParam => self.dcs(byte),
            LexState::DcsIntermediate => match byte {
                0x20..=0x2f => self.keep(byte, MAX_CSI, LexState::DcsIntermediate),
                0x30..=0x3f => self.ignore(LexState::DcsIgnore),
                0x40..=0x7e => self.keep(byte, MAX_CSI, LexState::DcsPassthrough),
                _ => self.anywhere(byte),
            },
            LexState::DcsIgnore => self.anywhere(byte),
            LexState::DcsPassthrough => self.passthrough(byte),
            LexState::Osc => self.osc(byte),
            LexState::Text => self.text(byte),
        }
    }

    fn escape(&mut self, byte: u8) -> Step {
        match byte {
            0x20..=0x2f => self.keep(byte, MAX_CSI, LexState::EscapeIntermediate),
            b'P' => self.keep(byte, MAX_CSI, LexState::DcsEntry),
            b'[' => self.keep(byte, MAX_CSI, LexState::CsiEntry),
            b']' => self.keep(byte, MAX_CSI, LexState::Osc),
            b'X' | b'^' | b'_' => self.keep(byte, MAX_CSI, LexState::Text),
            0x30..=0x7e => self.whole(byte, Kind::Escape),
            _ => self.control(byte),
        }
    }

    fn csi(&mut self, byte: u8) -> Step {
        match byte {
            0x20..=0x2f => self.keep(byte, MAX_CSI, LexState::CsiIntermediate),
            0x30..=0x3b => self.keep(byte, MAX_CSI, LexState::CsiParam),
            0x3c..=0x3f if self.state == LexState::CsiEntry => {
                self.keep(byte, MAX_CSI, LexState::CsiParam)
            }
            0x3c..=0x3f => self.ignore(LexState::CsiIgnore),
            0x40..=0x7e => self.whole(byte, Kind::Csi),
            _ => self.control(byte),
        }
    }

    fn dcs(&mut self, byte: u8) -> Step {
        match byte {
            0x20..=0x2f => self.keep(byte, MAX_CSI, LexState::DcsIntermediate),
            0x30..=0x3b => self.keep(byte, MAX_CSI, LexState::DcsParam),
            0x3c..=0x3f if self.state == LexState::DcsEntry => {
                self.keep(byte, MAX_CSI, LexState::DcsParam)
            }
            0x3c..=0x3f => self.ignore(LexState::DcsIgnore),
            0x40..=0x7e => self.keep(byte, MAX_CSI, LexState::DcsPassthrough),
            _ => self.anywhere(byte),
        }
    }

    fn passthrough(&mut self, byte: u8) -> Step {
        match byte {
            0x18 | 0x1a | 0x9c => self.string_end(Kind::Dcs, LexState::Ground),
            0x1b => self.string_end(Kind::Dcs, LexState::Escape),
            0x7f.. => Step::More,
            _ => {
                self.keep_all(&[byte], MAX_DCS);
                Step::More
            }
        }
    }

    fn osc(&mut self, byte: u8) -> Step {
        match byte {
            0x07 => self.string_end(Kind::Osc { bell: true }, LexState::Ground),
            0x18 | 0x1a => self.string_end(Kind::Osc { bell: false }, LexState::Ground),
            0x1b => self.string_end(Kind::Osc { bell: false }, LexState::Escape),
            0x00..=0x1f => Step::More,
            _ => {
                self.keep_all(&[byte], MAX_OSC);
                Step::More
            }
        }
    }

    fn text(&mut self, byte: u8) -> Step {
        match byte {
            0x1b if self.keep_apc => self.string_end(Kind::Apc, LexState::Escape),
            0x18 | 0x1a | 0x1b => self.anywhere(byte),
            _ => {
                if self.keep_apc {
                    self.keep_all(&[byte], MAX_APC);
                }
                Step::More
            }
        }
    }

    /// States in which controls act: everything outside strings.
    fn control(&mut self, byte: u8) -> Step {
        match byte {
            0x00..=0x17 | 0x19 | 0x1c..=0x1f => Step::Execute,
            _ => self.anywhere(byte),
        }
    }

    fn anywhere(&mut self, byte: u8) -> Step {
        match byte {
            0x18 | 0x1a => self.drop_sequence(),
            0x1b => {
                self.restart();
                Step::More
            }
            _ => Step::More,
        }
    }

    fn keep(&mut self, byte: u8, limit: usize, state: LexState) -> Step {
        if self.kept.len() >= limit {
            let dcs = matches!(state, LexState::DcsParam | LexState::DcsIntermediate);
            return self.ignore(if dcs { LexState::DcsIgnore } else { LexState::CsiIgnore });
        }
        self.kept.push(byte);
        self.state = state;
        Step::More
    }

    fn keep_all(&mut self, bytes: &[u8], limit: usize) {
        if self.overlong || self.kept.len() + bytes.len() > limit {
            self.overlong = true;
            self.kept = Vec::new();
        } else {
            self.kept.extend_from_slice(bytes);
        }
    }

    fn whole(&mut self, byte: u8, kind: Kind) -> Step {
        self.kept.push(byte);
        self.next = LexState::Ground;
        Step::Whole(kind)
    }

    fn string_end(&mut self, kind: Kind, next: LexState) -> Step {
        self.next = next;
        if self.overlong {
            self.done(Vec::new());
            return Step::More;
        }
        Step::Whole(kind)
    }

    fn ignore(&mut self, state: LexState) -> Step {
        self.kept.clear();
        self.state = state;
        Step::More
    }

    fn drop_sequence(&mut self) -> Step {
        self.next = LexState::Ground;
        let buffer = self.take();
        self.done(buffer);
        Step::More
    }

    fn restart(&mut self) {
        self.next = LexState::Escape;
        let buffer = self.take();
        self.done(buffer);
    }
}

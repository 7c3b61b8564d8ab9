//! Whole sequences: what we answer or note ourselves, and what vte reads.
//!
//! In: whole sequences from the collector. Out: answers to queries, marks, or a call to vte.
//!
//! Every query a program is known to wait for gets an answer, if only "I do not know that", so
//! that nobody stalls. Deliberately absent: reports that would let a program put text of its choice
//! on its own input (title, icon name, answerback) and clipboard reads.

use vte::ansi::{CursorShape, Rgb};

use super::Front;
use crate::lexer::Kind;
use crate::mark;
use crate::palette;
use crate::sgr;

/// Cell size in pixels that size reports assume: a host has no font, but programs divide by it.
const CELL_WIDTH: usize = 8;
const CELL_HEIGHT: usize = 16;

/// DA1: VT220, ANSI colour, clipboard writes.
pub(super) const DA1: &[u8] = b"\x1b[?62;22;52c";
/// DA2: as the guest says it; editors read the middle number as "newer than xterm 277".
pub(super) const DA2: &[u8] = b"\x1b[>0;2600;1c";
/// DA3: unit id "GRM1" in hex.
pub(super) const DA3: &[u8] = b"\x1bP!|47524D31\x1b\\";
const XTVERSION: &[u8] =
    concat!("\x1bP>|greenroom ", env!("CARGO_PKG_VERSION"), "\x1b\\").as_bytes();

impl Front {
    pub(super) fn dispatch(&mut self, kind: Kind, sequence: &[u8]) {
        let touches_cells = match kind {
            // Private modes that do (another screen, DECCOLM) say so themselves.
            Kind::Csi => !sequence.get(2).is_some_and(|b| (b'<'..=b'?').contains(b)),
            Kind::Escape | Kind::Text => true,
            Kind::Osc { .. } | Kind::Dcs => false,
        };
        if touches_cells {
            self.forget_blank_ends();
        }
        match kind {
            Kind::Escape => match sequence {
                b"\x1b\\" => {}
                b"\x1bZ" => self.reply(DA1),
                _ => self.hand_over(sequence, b""),
            },
            Kind::Csi => {
                if !self.csi_query(sequence) && self.csi_repeat(sequence).is_none() {
                    self.hand_over(sequence, b"");
                }
            }
            Kind::Osc { bell } => match mark::from_osc(&sequence[2..]) {
                mark::Osc::Mark(mark) => self.marks.push(mark),
                mark::Osc::Ignored => {}
                mark::Osc::Other => {
                    self.hand_over(sequence, if bell { b"\x07" } else { b"\x1b\\" });
                }
            },
            Kind::Dcs => self.dcs(&sequence[2..]),
            Kind::Text => self.patch(sequence),
        }
    }

    /// REP in an unusual spelling: vte must not repeat what it did not print.
    fn csi_repeat(&mut self, sequence: &[u8]) -> Option<()> {
        let params = sequence.strip_prefix(b"\x1b[")?.strip_suffix(b"b")?;
        if params.iter().any(|b| !matches!(b, b'0'..=b'9' | b';' | b':')) {
            return None;
        }
        let separators = params.iter().filter(|b| matches!(b, b';' | b':')).count();
        // vte ignores a sequence with more parameters than it has room for.
        if separators < 32 {
            let count = number(params.split(|b| matches!(b, b';' | b':')).next()?);
            self.touched = true;
            self.repeat(usize::from(count.max(1)));
        }
        Some(())
    }

    /// Answers a query; false when it is none of ours.
    fn csi_query(&mut self, sequence: &[u8]) -> bool {
        let Some((&last, params)) = sequence[2..].split_last() else { return false };
        let (prefix, params) = match params.split_first() {
            Some((&prefix @ b'<'..=b'?', rest)) => (prefix, rest),
            _ => (0, params),
        };
        if params.iter().any(|b| !matches!(b, b'0'..=b'9' | b';')) {
            return false;
        }
        let first = number(params.split(|&b| b == b';').next().unwrap_or_default());
        match (prefix, last) {
            (0, b'c') if first == 0 => self.reply(DA1),
            (b'>', b'c') if first == 0 => self.reply(DA2),
            (b'=', b'c') if first == 0 => self.reply(DA3),
            (b'>', b'q') if first == 0 => self.reply(XTVERSION),
            (0, b'n') => self.report_status(first),
            (b'?', b'n') => self.dec_device_status(first),
            (0, b'x') if first <= 1 => {
                self.reply(format!("\x1b[{};1;1;128;128;1;0x", first + 2).as_bytes());
            }
            (0, b't') => return self.window_report(first),
            _ => return false,
        }
        true
    }

    pub(super) fn report_status(&mut self, what: u16) {
        match what {
            5 => self.reply(b"\x1b[0n"),
            6 => self.report_cursor(""),
            _ => {}
        }
    }

    fn dec_device_status(&mut self, what: u16) {
        match what {
            6 => self.report_cursor("?"),
            // Printer: none. User-defined keys: locked. Keyboard: North American. Locator: none.
            15 => self.reply(b"\x1b[?13n"),
            25 => self.reply(b"\x1b[?21n"),
            26 => self.reply(b"\x1b[?27;1;0;0n"),
            53 | 55 => self.reply(b"\x1b[?53n"),
            // Colour scheme: the palette we report is dark.
            996 => self.reply(b"\x1b[?997;1n"),
            _ => {}
        }
    }

    fn report_cursor(&mut self, prefix: &str) {
        let point = self.guest.grid().cursor.point;
        let (row, col) = (point.line.0 + 1, point.column.0 + 1);
        self.reply(format!("\x1b[{prefix}{row};{col}R").as_bytes());
    }

    pub(super) fn window_report(&mut self, what: u16) -> bool {
        let (cols, rows) = (self.guest.cols(), self.guest.rows());
        let (width, height) = (cols * CELL_WIDTH, rows * CELL_HEIGHT);
        let answer = match what {
            11 => "\x1b[1t".to_owned(),
            13 => "\x1b[3;0;0t".to_owned(),
            14 => format!("\x1b[4;{height};{width}t"),
            15 => format!("\x1b[5;{height};{width}t"),
            16 => format!("\x1b[6;{CELL_HEIGHT};{CELL_WIDTH}t"),
            18 => format!("\x1b[8;{rows};{cols}t"),
            19 => format!("\x1b[9;{rows};{cols}t"),
            // Names are never told back.
            20 => "\x1b]L\x1b\\".to_owned(),
            21 => "\x1b]l\x1b\\".to_owned(),
            _ => return false,
        };
        self.reply(answer.as_bytes());
        true
    }

    /// OSC 4, 10, 11, 12 with `?`.
    pub(super) fn report_color(&mut self, prefix: &str, index: usize, terminator: &str) {
        let Rgb { r, g, b } =
            self.state.colors.get(&index).copied().unwrap_or_else(|| palette::default_color(index));
        let answer =
            format!("\x1b]{prefix};rgb:{r:02x}{r:02x}/{g:02x}{g:02x}/{b:02x}{b:02x}{terminator}");
        self.reply(answer.as_bytes());
    }

    fn dcs(&mut self, body: &[u8]) {
        if let Some(request) = body.strip_prefix(b"$q") {
            let answer = self.setting(request);
            let answer = match answer {
                Some(value) => format!("\x1bP1$r{value}\x1b\\"),
                None => "\x1bP0$r\x1b\\".to_owned(),
            };
            self.reply(answer.as_bytes());
        } else if let Some(names) = body.strip_prefix(b"+q") {
            for name in names.split(|&b| b == b';') {
                self.report_capability(name);
            }
        }
    }

    /// DECRQSS.
    fn setting(&self, request: &[u8]) -> Option<String> {
        match request {
            b"m" => Some(format!("{}m", sgr::of_cell(&self.guest.grid().cursor.template))),
            b"r" => Some(format!("{};{}r", self.state.region.start + 1, self.state.region.end)),
            b" q" => {
                let style = self.state.cursor_style.map_or(0, cursor_style_number);
                Some(format!("{style} q"))
            }
            b"\"p" => Some("62;1\"p".to_owned()),
            b"t" => Some(format!("{}t", self.guest.rows())),
            _ => None,
        }
    }

    /// XTGETTCAP, one name in hex.
    fn report_capability(&mut self, name: &[u8]) {
        let known: &[(&str, &str)] = &[
            ("TN", "xterm-256color"),
            ("name", "xterm-256color"),
            ("Co", "256"),
            ("colors", "256"),
            ("RGB", "8/8/8"),
            ("Tc", ""),
            ("Su", ""),
            ("Ms", "\x1b]52;%p1%s;%p2%s\x07"),
        ];
        // Only what could have been hex is echoed.
        if !name.len().is_multiple_of(2) || !name.iter().all(u8::is_ascii_hexdigit) {
            return self.reply(b"\x1bP0+r\x1b\\");
        }
        let text = String::from_utf8_lossy(name);
        let found = known.iter().find(|(key, _)| hex(key).eq_ignore_ascii_case(&text));
        let answer = match found {
            Some((_, "")) => format!("\x1bP1+r{text}\x1b\\"),
            Some((_, value)) => format!("\x1bP1+r{text}={}\x1b\\", hex(value)),
            None => format!("\x1bP0+r{text}\x1b\\"),
        };
        self.reply(answer.as_bytes());
    }
}

fn hex(text: &str) -> String {
    text.bytes().map(|b| format!("{b:02X}")).collect()
}

/// vte's reading of a number: saturating.
fn number(digits: &[u8]) -> u16 {
    digits
        .iter()
        .fold(0u16, |n, d| n.saturating_mul(10).saturating_add(u16::from(d.wrapping_sub(b'0'))))
}

/// DECSCUSR's parameter.
pub(crate) fn cursor_style_number(style: vte::ansi::CursorStyle) -> u8 {
    let steady = match style.shape {
        CursorShape::Underline => 4,
        CursorShape::Beam => 6,
        CursorShape::Block | CursorShape::HollowBlock | CursorShape::Hidden => 2,
    };
    steady - u8::from(style.blinking)
}

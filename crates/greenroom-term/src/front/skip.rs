//! Fast-forward: text that scrolls off within the batch is not written.
//!
//! In: a batch of bytes, nothing open. Out: the same screen as a full reading.
//!
//! Take a stretch without *barriers*, a point P in it just after CR LF that leaves a whole screen
//! of line feeds after it, and enough line feeds before it to stand on the bottom row. Then at P
//! the cursor is at the bottom left, and every cell that is on the screen at P is gone at the end
//! of the stretch. So the text before P need not be written; what it *sets* (colours, modes,
//! titles, charsets) is applied, and reading goes on at P.
//!
//! A whitelist decides: sequences that only touch cells or the column are ignored, listed ones are
//! applied, everything else is a barrier: unknown stops. A barrier is read in full and the search
//! goes on behind it.
//! Conditions: whole-screen scroll region, no history. Autowrap, insert mode, charsets and the
//! alternate screen do not matter.

use alacritty_terminal::index::{Column, Line};
use memchr::{memchr, memchr_iter, memrchr, memrchr_iter};

use super::Front;
use super::classify::{Class, classify, is_plain, sequence_len};
use super::csi;
use super::rules::{Rule, Rules};
use super::scan::Specials;
use super::utf8::{self, Decoded};

/// Stretches too short to skip in one batch before the batch is read plainly: each costs a scan.
pub(super) const MAX_SHORT: usize = 8;
/// Sequences to apply in one stretch; more means it is not the kind of text this is for.
const MAX_APPLIED: usize = 1024;
/// CR LF is looked for at so many line feeds before giving up.
const MAX_TRIES: usize = 16;

/// A stretch without barriers.
#[derive(Default)]
pub(super) struct Stretch {
    /// Where it ends: a barrier or the end of the batch.
    pub end: usize,
    /// Sequences and shifts to apply, as ranges.
    pub applied: Vec<(usize, usize)>,
}

/// Why the text of a stretch need not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unseen {
    /// It scrolls off: where the cursor stands matters.
    ScrolledOff,
    /// It is painted over, and the cursor is put somewhere.
    PaintedOver,
}

impl Front {
    /// Reads a batch, skipping what it can.
    pub(super) fn skim(&mut self, bytes: &[u8]) {
        let mut at = self.skip_pictures(bytes);
        let mut short = 0;
        while at < bytes.len() {
            if short > MAX_SHORT {
                return self.parse(&bytes[at..]);
            }
            let rest = &bytes[at..];
            let stretch = Stretch::find(rest, self.rules, Unseen::ScrolledOff);
            match self.point_to_skip_to(rest, stretch.end) {
                Some(point) => {
                    self.skip(rest, point, &stretch.applied);
                    self.parse(&rest[point..stretch.end]);
                }
                None => {
                    short += 1;
                    self.parse(&rest[..stretch.end]);
                }
            }
            at += stretch.end;
            // The barrier itself.
            if at < bytes.len() && self.in_ground() {
                at += self.ground(&bytes[at..]);
            }
            at += self.finish(&bytes[at..]);
        }
    }

    /// P, if skipping is allowed.
    fn point_to_skip_to(&self, bytes: &[u8], end: usize) -> Option<usize> {
        let rows = self.guest.rows();
        if !self.state.region_is_full(rows) && self.rules.hold(Rule::RegionFull) {
            return None;
        }
        let follow =
            if self.rules.hold(Rule::ScreenFollows) { rows } else { rows.saturating_sub(1) };
        let ends_line =
            |&lf: &usize| !self.rules.hold(Rule::AfterCrLf) || lf > 0 && bytes[lf - 1] == b'\r';
        let lf = memrchr_iter(b'\n', &bytes[..end]).skip(follow).take(MAX_TRIES).find(ends_line)?;
        let line = self.guest.grid().cursor.point.line.0 as usize;
        let needed = (rows - 1).saturating_sub(line);
        let reached = memchr_iter(b'\n', &bytes[..=lf]).take(needed).count() == needed;
        (reached || !self.rules.hold(Rule::ReachBottom)).then_some(lf + 1)
    }

    /// Does to the state what the bytes before `point`, after a line feed, would have done.
    fn skip(&mut self, bytes: &[u8], point: usize, applied: &[(usize, usize)]) {
        self.apply(bytes, point, applied);
        let bottom = self.guest.rows() as i32 - 1;
        let cursor = &mut self.guest.term.grid_mut().cursor;
        cursor.point.line = Line(bottom);
        if self.rules.hold(Rule::CursorHome) {
            cursor.point.column = Column(0);
            cursor.input_needs_wrap = false;
        }
    }

    /// Does to all state but cells and the cursor's place what the bytes before `point` would have
    /// done.
    pub(super) fn apply(&mut self, bytes: &[u8], point: usize, applied: &[(usize, usize)]) {
        self.touched = true;
        if self.rules.hold(Rule::LastChar)
            && let Some(c) = last_printed(&bytes[..point], applied)
        {
            self.state.last_char = Some(c);
        }
        let mut from = 0;
        for &(start, end) in applied.iter().take_while(|&&(start, _)| start < point) {
            self.ring(&bytes[from..start]);
            self.parse(&bytes[start..end]);
            from = end;
        }
        self.ring(&bytes[from..point]);
        if self.rules.hold(Rule::ApplySgr) {
            self.apply_sgr(&bytes[..point]);
        }
    }

    fn ring(&mut self, text: &[u8]) {
        if self.rules.hold(Rule::ApplyBell) && memchr(0x07, text).is_some() {
            self.execute(0x07);
        }
    }

    /// Only what follows the last full reset counts.
    fn apply_sgr(&mut self, bytes: &[u8]) {
        let mut start = bytes.len();
        while let Some(esc) = memrchr(0x1b, &bytes[..start]) {
            start = esc;
            if sgr_resets(&bytes[esc..]) || !self.rules.hold(Rule::SgrSinceReset) {
                break;
            }
        }
        let mut at = start;
        while let Some(esc) = memchr(0x1b, &bytes[at..]) {
            at += esc;
            let len = sequence_len(&bytes[at..]).unwrap_or(1);
            if is_sgr(&bytes[at..at + len]) {
                self.parse(&bytes[at..at + len]);
            }
            at += len;
        }
    }
}

impl Stretch {
    pub(super) fn find(bytes: &[u8], rules: Rules, unseen: Unseen) -> Stretch {
        let mut applied = Vec::new();
        let mut specials = Specials::new(bytes);
        let mut at = 0;
        while let Some(start) = specials.next_from(at) {
            let common = plain_csi(&bytes[start..]);
            if let Some((last, len)) = common
                && (last == b'm' || unseen == Unseen::PaintedOver && only_cells(last))
            {
                at = start + len;
                continue;
            }
            let (class, len) = classify(&bytes[start..], rules);
            match class {
                Class::Ignore | Class::Sgr => {}
                Class::Apply
                    if unseen == Unseen::PaintedOver && inserts(&bytes[start..start + len]) =>
                {
                    return Stretch { end: start, applied };
                }
                Class::Barrier
                    if unseen == Unseen::PaintedOver && only_cells_escape(&bytes[start..]) =>
                {
                    at = start + 2;
                    continue;
                }
                Class::Apply if applied.len() < MAX_APPLIED => applied.push((start, start + len)),
                Class::Apply | Class::Barrier => return Stretch { end: start, applied },
            }
            at = start + len;
        }
        Stretch { end: bytes.len(), applied }
    }
}

/// `ESC [ digits and semicolons final`: the final byte and the length.
#[inline]
pub(super) fn plain_csi(bytes: &[u8]) -> Option<(u8, usize)> {
    let [0x1b, b'[', rest @ ..] = bytes else { return None };
    for (at, &byte) in rest.iter().enumerate() {
        match byte {
            b'0'..=b';' if byte != b':' => {}
            0x40..=0x7e => return Some((byte, at + 3)),
            _ => return None,
        }
    }
    None
}

/// Final bytes of sequences that only change cells or move the cursor.
#[inline]
fn only_cells(last: u8) -> bool {
    matches!(last, b'@'..=b'H' | b'J'..=b'M' | b'P' | b'S' | b'T' | b'X' | b'`' | b'a' | b'd'..=b'f')
}

/// Insert mode, on or off: text then moves what is painted over.
pub(super) fn inserts(sequence: &[u8]) -> bool {
    matches!(sequence, [0x1b, b'[', b'4', b'h' | b'l'])
}

/// IND, NEL and RI.
fn only_cells_escape(bytes: &[u8]) -> bool {
    matches!(bytes, [0x1b, b'D' | b'E' | b'M', ..])
}

fn is_sgr(sequence: &[u8]) -> bool {
    matches!(sequence, [0x1b, b'[', params @ .., b'm'] if is_plain(params))
}

/// An SGR sequence whose first parameter is 0.
fn sgr_resets(bytes: &[u8]) -> bool {
    let mut params = csi::Params::new();
    csi::simple(bytes, &mut params)
        .is_some_and(|(last, _)| last == b'm' && params.starts_with_reset())
}

/// The last character that the text would have printed: what REP repeats.
fn last_printed(bytes: &[u8], applied: &[(usize, usize)]) -> Option<char> {
    // Backwards over stretches of text between sequences.
    let mut end = bytes.len();
    loop {
        let start = memrchr(0x1b, &bytes[..end]).unwrap_or(0);
        let text = match bytes.get(start) {
            Some(0x1b) => start + whole_len(&bytes[start..], start, applied),
            _ => start,
        };
        if let Some(c) = last_of_text(&bytes[text.min(end)..end]) {
            return Some(c);
        }
        if start == 0 {
            return None;
        }
        end = start;
    }
}

/// The length of the well-formed sequence at `bytes`, which starts at `offset`.
fn whole_len(bytes: &[u8], offset: usize, applied: &[(usize, usize)]) -> usize {
    if let Some(len) = sequence_len(bytes) {
        return len;
    }
    match applied.binary_search_by_key(&offset, |&(start, _)| start) {
        Ok(found) => applied[found].1 - offset,
        // The ST that ends an OSC string.
        Err(_) => 2,
    }
}

fn last_of_text(text: &[u8]) -> Option<char> {
    let printable = text.iter().rposition(|&b| b >= 0x20)?;
    let last = text[printable];
    if last < 0x80 {
        return Some(char::from(last));
    }
    // Read the run of bytes beyond ASCII as the full reading would.
    let run_start = text[..printable].iter().rposition(|&b| b < 0x80).map_or(0, |at| at + 1);
    let run = &text[run_start..=printable];
    let mut printed = None;
    let mut at = 0;
    while at < run.len() {
        // The byte after the run is ASCII: a character cut by it is one error.
        at += match utf8::decode(&run[at..]) {
            Decoded::Char(c, len) => {
                if !('\u{80}'..='\u{9f}').contains(&c) {
                    printed = Some(c);
                }
                len
            }
            Decoded::Invalid(len) => {
                if len > 1 || run[at] > 0x9f {
                    printed = Some(char::REPLACEMENT_CHARACTER);
                }
                len
            }
            Decoded::Cut => {
                printed = Some(char::REPLACEMENT_CHARACTER);
                run.len() - at
            }
        };
    }
    printed.or_else(|| last_of_text(&text[..run_start]))
}

//! The values a session was given and must not show: as they are, and as they look when something
//! wrote them down.
//!
//! In: values. Out: pieces to look for. A value is also looked for as JSON, in a URL, and in base64
//! at each of its three alignments. A long value is looked for in pieces, so that little has to be
//! held back and half of a key is hidden, too. Deliberately absent: anything that shows a value.
//! `Debug` does not.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::egress::finder::{Heads, head};

/// Shorter values are too common to be hidden.
pub const VALUE_MIN: usize = 6;

/// Pieces are no longer than this: well below what may be held back.
pub(crate) const PIECE_MAX: usize = 48;

/// Pieces of one session: some hundred values in all their forms. More would cost every reader.
const PIECES_MAX: usize = 8192;

/// A line of a longer value that is looked for by itself.
const LINE_MIN: usize = 16;

/// Encoded forms shorter than this would be found by chance.
const ENCODED_MIN: usize = 8;

/// A piece with fewer different bytes (a row of dashes) says nothing.
const DISTINCT_MIN: u32 = 4;

#[derive(Clone, Default)]
pub struct Literals {
    /// Sorted, without doubles.
    pieces: Vec<Box<[u8]>>,
    /// The bytes a literal may begin with.
    first: [u64; 4],
}

impl std::fmt::Debug for Literals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Literals({} hidden)", self.pieces.len())
    }
}

impl Literals {
    /// Values shorter than [`VALUE_MIN`] are left out, and those beyond [`PIECES_MAX`].
    pub fn new<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> Literals {
        let mut literals = Literals::default();
        for value in values {
            if value.len() < VALUE_MIN || literals.pieces.len() >= PIECES_MAX {
                continue;
            }
            for form in forms(value) {
                literals.add(&form);
            }
        }
        literals.pieces.sort_unstable();
        literals.pieces.dedup();
        for piece in &literals.pieces {
            literals.first[usize::from(piece[0] / 64)] |= 1 << (piece[0] % 64);
        }
        literals
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn heads(&self) -> Heads {
        let mut heads = Heads::default();
        for piece in &self.pieces {
            heads.add(head(piece).expect("a piece has three bytes or more"));
        }
        heads
    }

    /// Length of the longest piece that stands at the start of `text`; 0 if none does.
    pub(crate) fn at(&self, text: &[u8]) -> usize {
        let Some(key) = text.get(..3) else { return 0 };
        let from = self.pieces.partition_point(|piece| piece[..3] < *key);
        self.pieces[from..]
            .iter()
            .take_while(|piece| piece[..3] == *key)
            .filter(|piece| text.starts_with(piece))
            .map(|piece| piece.len())
            .max()
            .unwrap_or(0)
    }

    /// Where the end of `text` begins that may become a piece, and how long the shortest such piece
    /// is.
    pub(crate) fn pending(&self, text: &[u8]) -> Option<(usize, usize)> {
        let from = text.len().saturating_sub(PIECE_MAX - 1);
        (from..text.len()).find_map(|at| {
            let end = &text[at..];
            if self.first[usize::from(end[0] / 64)] >> (end[0] % 64) & 1 == 0 {
                return None;
            }
            let first = self.pieces.partition_point(|piece| **piece < *end);
            let whole = self.pieces[first..]
                .iter()
                .take_while(|piece| piece.starts_with(end))
                .filter(|piece| piece.len() > end.len())
                .map(|piece| piece.len())
                .min()?;
            Some((at, whole))
        })
    }

    fn add(&mut self, form: &[u8]) {
        let mut rest = form;
        while rest.len() > PIECE_MAX {
            let cut = char_boundary(rest, PIECE_MAX);
            self.push(&rest[..cut]);
            rest = &rest[cut..];
        }
        // The last piece reaches back into the one before: a short rest would be found everywhere.
        let from = char_boundary(form, form.len().saturating_sub(PIECE_MAX));
        if form.len() > PIECE_MAX && rest.len() < PIECE_MAX / 2 {
            rest = &form[from..];
        }
        self.push(&rest[..rest.len().min(PIECE_MAX)]);
    }

    fn push(&mut self, piece: &[u8]) {
        let long_enough = piece.len() >= VALUE_MIN;
        let whole_value = piece.len() < PIECE_MAX;
        if long_enough && (whole_value || distinct(piece) >= DISTINCT_MIN) {
            self.pieces.push(piece.into());
        }
    }
}

fn distinct(bytes: &[u8]) -> u32 {
    let mut seen = [0u64; 4];
    for byte in bytes {
        seen[usize::from(byte / 64)] |= 1 << (byte % 64);
    }
    seen.iter().map(|bits| bits.count_ones()).sum()
}

/// The last boundary of characters at or before `at`.
fn char_boundary(bytes: &[u8], at: usize) -> usize {
    (0..4)
        .filter_map(|back| at.checked_sub(back))
        .find(|&at| at == bytes.len() || bytes[at] & 0xc0 != 0x80)
        .unwrap_or(at)
}

/// Every way the value may be written.
fn forms(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms =
        vec![value.to_vec(), with_crlf(value), json(value), url(value, false), url(value, true)];
    for line in value.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() >= LINE_MIN && line.len() < value.len() && distinct(line) >= DISTINCT_MIN {
            forms.push(line.to_vec());
        }
    }
    for shift in 0..3 {
        forms.extend(base64(value, shift).into_iter().filter(|form| form.len() >= ENCODED_MIN));
    }
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// A terminal ends lines with CR LF.
fn with_crlf(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for (at, byte) in value.iter().enumerate() {
        if *byte == b'\n' && (at == 0 || value[at - 1] != b'\r') {
            out.push(b'\r');
        }
        out.push(*byte);
    }
    out
}

fn json(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for byte in value {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0..0x20 => out.extend(format!("\\u{byte:04x}").bytes()),
            _ => out.push(*byte),
        }
    }
    out
}

fn url(value: &[u8], form: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for byte in value {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            b' ' if form => out.push(b'+'),
            _ => out.extend(format!("%{byte:02X}").bytes()),
        }
    }
    out
}

/// The characters of base64 that depend on nothing but the value, if it stands `shift` bytes after
/// a group's start.
fn base64(value: &[u8], shift: usize) -> [Vec<u8>; 2] {
    let mut shifted = vec![0; shift];
    shifted.extend_from_slice(value);
    let from = (shift * 8).div_ceil(6);
    let to = shifted.len() * 8 / 6;
    [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)]
        .map(|text| text.as_bytes().get(from..to).unwrap_or_default().to_vec())
}

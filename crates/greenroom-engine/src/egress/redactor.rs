//! A stream with its secrets masked: bytes in, as many bytes out, in the same order.
//!
//! A mask is as long and as wide as what it hides, so a byte has the same number before and after,
//! and a screen painted from the masked stream is laid out as the other. What is not decided yet is
//! held back: at most [`HOLD_MAX`] bytes of text, with the escape sequences between them. The
//! result does not depend on how the bytes came. Deliberately absent: time. The reader says when a
//! pause was long enough.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use greenroom_term::{STRING_MAX, Tokenizer, Tokens};
use unicode_width::UnicodeWidthChar;

use crate::egress::finder::Heads;
use crate::egress::literals::Literals;
use crate::egress::rules::Rules;
use crate::egress::scanner::{Finding, Pending, SPAN_MAX, Scanner, Sought};
use crate::id::Seq;

pub use crate::egress::rules::HOLD_MAX;

/// What a reader must feed before the place it begins at, to see what one sees who read from the
/// start: the longest secret, behind the longest string.
pub const LOOK_BACK: u64 = SPAN_MAX + STRING_MAX as u64 + 4096;

/// What a reader must feed after the place it ends at, for nothing there to be undecided: all that
/// may be held back, with many sequences between.
pub const LOOK_AHEAD: u64 = 4096;

/// Output pauses this long: a few characters of an undecided end are let out, so that a prompt is
/// not stuck.
pub const PAUSE: Duration = Duration::from_millis(40);

/// Output pauses this long: what is still undecided is masked and let out.
pub const EXPIRE: Duration = Duration::from_secs(1);

/// Characters of an undecided end that a pause lets out: enough that a prompt is not stuck on its
/// last letter, too few to tell a secret.
pub(crate) const PAUSE_CHARS: usize = 3;

/// What is looked for in the texts of one session.
#[derive(Debug)]
pub struct Shield {
    rules: Arc<Rules>,
    literals: Literals,
    heads: Heads,
    /// What is hidden is not known: everything is.
    all: bool,
}

impl std::fmt::Debug for Heads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Heads")
    }
}

impl Shield {
    pub fn new(rules: Arc<Rules>, literals: Literals) -> Shield {
        let mut heads = rules.heads().clone();
        heads.merge(&literals.heads());
        Shield { rules, literals, heads, all: false }
    }

    /// The same rules for a session with values of its own.
    pub(crate) fn with(&self, literals: Literals) -> Shield {
        Shield::new(self.rules.clone(), literals)
    }

    /// For a session of which nothing may be shown.
    pub(crate) fn opaque(&self) -> Shield {
        Shield { all: true, ..self.with(Literals::default()) }
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    pub fn literals(&self) -> &Literals {
        &self.literals
    }

    pub(crate) fn sought(&self) -> Sought<'_> {
        let Shield { rules, literals, heads, all } = self;
        Sought { rules, literals, heads, all: *all }
    }
}

/// Something masked, as a range of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Masked {
    pub from: Seq,
    pub to: Seq,
    /// What [`Rules::name`] names.
    pub rule: u16,
}

#[derive(Debug)]
pub struct Redactor {
    shield: Arc<Shield>,
    tokenizer: Tokenizer,
    /// Bytes not given out yet.
    raw: Vec<u8>,
    /// Number of the first of them.
    base: u64,
    main: Scanner,
    string: Scanner,
    strings: Strings,
    /// Line ends between rows that are one text: where they begin, in order.
    joins: VecDeque<u64>,
    /// Up to here it was decided before a character was taken back.
    frozen: u64,
    pending: [Option<Pending>; 2],
    found: Vec<Finding>,
    told: Option<Vec<Masked>>,
}

/// Where we are with an OSC or another string.
#[derive(Clone, Copy, Debug, Default)]
struct Strings {
    /// It begins here and is not known yet.
    unknown: Option<u64>,
    clipboard: bool,
}

impl Redactor {
    /// For a stream whose next byte is `at`.
    pub fn new(shield: Arc<Shield>, at: Seq) -> Redactor {
        Redactor {
            shield,
            tokenizer: Tokenizer::default(),
            raw: Vec::new(),
            base: at.0,
            main: Scanner::default(),
            string: Scanner::default(),
            strings: Strings::default(),
            joins: VecDeque::new(),
            frozen: 0,
            pending: [None; 2],
            found: Vec::new(),
            told: None,
        }
    }

    /// For a painted screen: at these places of the stream a row goes on in the next.
    pub(crate) fn joining(mut self, wraps: Vec<usize>) -> Redactor {
        self.joins = wraps.into_iter().map(|at| at as u64).collect();
        self
    }

    /// Remembers everything it masks.
    pub(crate) fn telling(mut self) -> Redactor {
        self.told = Some(Vec::new());
        self
    }

    /// What was masked, if it was to be remembered.
    pub fn told(&self) -> &[Masked] {
        self.told.as_deref().unwrap_or_default()
    }

    /// All of `bytes`, masked.
    pub fn whole(shield: Arc<Shield>, bytes: &[u8]) -> Vec<u8> {
        let mut redactor = Redactor::new(shield, Seq(0));
        let mut out = Vec::with_capacity(bytes.len());
        redactor.feed(bytes, &mut out);
        redactor.finish(&mut out);
        out
    }

    /// The number of the next byte that is given out.
    pub fn at(&self) -> Seq {
        Seq(self.base)
    }

    /// Bytes held back, with the sequences between them.
    pub fn held(&self) -> usize {
        self.raw.len()
    }

    /// Bytes of text held back: at most [`HOLD_MAX`].
    #[cfg(test)]
    pub fn held_text(&self) -> usize {
        let of = |scanner: &Scanner| scanner.end().saturating_sub(scanner.text_at(self.base));
        match self.pending {
            [None, None] => 0,
            [Some(_), None] => of(&self.main) as usize,
            [None, Some(_)] => of(&self.string) as usize,
            _ => of(&self.main).max(of(&self.string)) as usize,
        }
    }

    /// How many characters that are seen at the end of the text may become a secret, but for the
    /// few that a pause lets out. Also of what was let out since: whoever paints the screen paints
    /// them again.
    pub(crate) fn undecided(&self) -> usize {
        let Some(pending) = self.pending[0] else { return 0 };
        let from = self.main.after(pending.from, PAUSE_CHARS.min(pending.whole / 4));
        let mut count = 0;
        self.main.each_run(from, self.main.end(), |_, text| {
            count += text.iter().filter(|byte| begins_seen(**byte)).count();
        });
        count
    }

    /// Takes bytes and gives out what is decided.
    pub fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let at = self.base + self.raw.len() as u64;
        self.raw.extend_from_slice(bytes);
        let mut tokenizer = std::mem::take(&mut self.tokenizer);
        tokenizer.feed(bytes, &mut Sorting { redactor: self, bytes, at });
        self.tokenizer = tokenizer;
        self.scan(false);
        self.give(self.decided(), out);
    }

    /// Like [`Redactor::feed`] for bytes that nobody wants: they were before the place a reader
    /// begins at.
    pub fn prime(&mut self, bytes: &[u8]) {
        let mut nowhere = Vec::new();
        for bytes in bytes.chunks(16 * 1024) {
            nowhere.clear();
            self.feed(bytes, &mut nowhere);
        }
    }

    /// Output paused: a few characters of what is undecided may be seen.
    pub fn paused(&mut self, out: &mut Vec<u8>) {
        let few = |scanner: &Scanner, pending: Option<Pending>| {
            pending.map_or(u64::MAX, |pending| {
                let chars = PAUSE_CHARS.min(pending.whole / 4);
                let to = scanner.after(pending.from, chars);
                if to == scanner.end() { u64::MAX } else { scanner.raw(to) }
            })
        };
        let [main, string] = self.pending;
        let to = few(&self.main, main).min(few(&self.string, string));
        self.give(to.min(self.strings.unknown.unwrap_or(u64::MAX)), out);
    }

    /// Output paused for long: what is still undecided is masked and let out.
    pub fn expire(&mut self, out: &mut Vec<u8>) {
        self.paused(out);
        let [main, string] = [&self.main, &self.string].map(|scanner| {
            let from = scanner.text_at(self.base);
            Finding { from, to: scanner.end(), rule: 0 }
        });
        if self.pending[0].is_some() {
            mask(&self.main, main, self.base, 0, &mut self.raw);
        }
        if self.pending[1].is_some() {
            mask(&self.string, string, self.base, 0, &mut self.raw);
        }
        self.give(u64::MAX, out);
    }

    /// Nothing more comes: what is undecided is no secret.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.scan(true);
        self.give(u64::MAX, out);
    }

    /// Bytes are missing here: the next one is `at`, and nothing before it counts.
    pub fn skip_to(&mut self, at: Seq, out: &mut Vec<u8>) {
        self.finish(out);
        let told = self.told.take();
        *self = Redactor { told, ..Redactor::new(self.shield.clone(), at) };
    }

    fn scan(&mut self, ended: bool) {
        let sought = self.shield.sought();
        self.pending[0] = self.main.scan(&sought, ended, &mut self.found);
        for finding in self.found.drain(..) {
            apply(&self.main, finding, self.base, self.frozen, &mut self.raw, &mut self.told);
        }
        self.scan_string(ended);
    }

    fn scan_string(&mut self, ended: bool) {
        let sought = self.shield.sought();
        self.pending[1] = self.string.scan(&sought, ended, &mut self.found);
        for finding in self.found.drain(..) {
            apply(&self.string, finding, self.base, 0, &mut self.raw, &mut self.told);
        }
    }

    /// Up to where nothing can change any more.
    fn decided(&self) -> u64 {
        let of = |scanner: &Scanner, pending: Option<Pending>| {
            pending.map_or(u64::MAX, |pending| scanner.raw(pending.from))
        };
        of(&self.main, self.pending[0])
            .min(of(&self.string, self.pending[1]))
            .min(self.strings.unknown.unwrap_or(u64::MAX))
    }

    fn give(&mut self, to: u64, out: &mut Vec<u8>) {
        let len = (to.saturating_sub(self.base)).min(self.raw.len() as u64) as usize;
        out.extend_from_slice(&self.raw[..len]);
        self.raw.drain(..len);
        self.base += len as u64;
    }
}

/// Puts what the tokenizer finds where it belongs.
struct Sorting<'a> {
    redactor: &'a mut Redactor,
    bytes: &'a [u8],
    /// Number of the first of `bytes`.
    at: u64,
}

impl Sorting<'_> {
    fn take(&mut self, len: usize) -> (&[u8], u64) {
        let (now, rest) = self.bytes.split_at(len);
        let at = self.at;
        (self.bytes, self.at) = (rest, at + len as u64);
        (now, at)
    }

    fn hide(&mut self, from: u64) {
        let base = self.redactor.base;
        let range = (from.max(base) - base) as usize..(self.at.max(base) - base) as usize;
        self.redactor.raw[range].fill(b'*');
    }
}

impl Tokens for Sorting<'_> {
    fn text(&mut self, len: usize) {
        let (mut bytes, mut at) = (&self.bytes[..len], self.at);
        self.take(len);
        let redactor = &mut *self.redactor;
        while let Some(join) =
            redactor.joins.front().filter(|join| **join < at + bytes.len() as u64)
        {
            let run = usize::try_from(join.saturating_sub(at)).unwrap_or(usize::MAX);
            let ends = bytes[run..].iter().take_while(|byte| b"\r\n".contains(byte)).count();
            if run > 0 {
                redactor.main.push(&bytes[..run], at);
            }
            (bytes, at) = (&bytes[run + ends..], at + (run + ends) as u64);
            redactor.joins.pop_front();
        }
        if !bytes.is_empty() {
            redactor.main.push(bytes, at);
        }
    }

    fn quiet(&mut self, len: usize) {
        let (_, at) = self.take(len);
        self.redactor.main.quiet(len, at);
    }

    fn boundary(&mut self) {
        self.redactor.main.boundary(self.at.saturating_sub(1));
    }

    fn backspace(&mut self) {
        self.redactor.scan(false);
        self.redactor.frozen = self.redactor.decided().min(self.at).max(self.redactor.frozen);
        self.redactor.main.pop();
    }

    fn string_begins(&mut self) {
        self.redactor.string.clear();
        self.redactor.strings = Strings { unknown: Some(self.at), clipboard: false };
    }

    fn string_text(&mut self, len: usize) {
        let from = self.at;
        let bytes = &self.bytes[..len];
        if self.redactor.strings.clipboard {
            self.take(len);
            self.hide(from);
        } else {
            self.redactor.string.push(bytes, from);
            self.take(len);
        }
        self.redactor.main.quiet(len, from);
    }

    fn string_is_clipboard(&mut self) {
        // Its number too: a terminal then knows no such string, instead of being told to empty its
        // clipboard.
        if let Some(from) = self.redactor.strings.unknown.take() {
            self.hide(from);
        }
        self.redactor.strings.clipboard = true;
    }

    fn string_is_known(&mut self) {
        self.redactor.strings.unknown = None;
    }

    fn string_ends(&mut self) {
        self.redactor.strings = Strings::default();
        self.redactor.scan_string(true);
        self.redactor.string.clear();
    }
}

fn apply(
    scanner: &Scanner,
    finding: Finding,
    base: u64,
    frozen: u64,
    raw: &mut [u8],
    told: &mut Option<Vec<Masked>>,
) {
    mask(scanner, finding, base, frozen, raw);
    if let Some(told) = told
        && finding.to > finding.from
    {
        let (from, to) = (Seq(scanner.raw(finding.from)), Seq(scanner.raw(finding.to - 1) + 1));
        match told
            .iter_mut()
            .rev()
            .take(8)
            .find(|seen| seen.rule == finding.rule && seen.to >= from && seen.from <= from)
        {
            Some(seen) => seen.to = seen.to.max(to),
            None => told.push(Masked { from, to, rule: finding.rule }),
        }
    }
}

/// Masks what lies in `raw`, whose first byte is number `base`, from `frozen` on. Line ends and
/// tabs stay: they are layout.
fn mask(scanner: &Scanner, finding: Finding, base: u64, frozen: u64, raw: &mut [u8]) {
    scanner.each_run(finding.from, finding.to, |start, text| {
        let mut at = 0;
        while at < text.len() {
            let (len, width) = char_at(&text[at..]);
            for n in 0..len {
                let place = start + (at + n) as u64;
                let place = place.checked_sub(base).filter(|_| place >= frozen);
                let Some(byte) = place.and_then(|place| raw.get_mut(place as usize)) else {
                    continue;
                };
                *byte = match text[at] {
                    b'\n' | b'\r' | b'\t' | 0 => *byte,
                    _ if n < width => b'*',
                    _ => 0,
                };
            }
            at += len;
        }
    });
}

/// Whether a character that is seen begins with this byte.
fn begins_seen(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f && byte & 0xc0 != 0x80
}

/// Masks the last `count` characters that are seen in `painted`, which begins at no sequence's
/// middle.
pub(crate) fn mask_last(painted: &mut [u8], count: usize) {
    if count == 0 {
        return;
    }
    let places = text_in(painted);
    let last = places.into_iter().rev().filter(|at| begins_seen(painted[*at])).take(count);
    for at in last.collect::<Vec<_>>() {
        mask_char(painted, at);
    }
}

/// Masks what `found` finds in the text of a stream, whatever sequences lie between.
pub(crate) fn mask_where(bytes: &mut [u8], found: impl Fn(&[u8]) -> Vec<std::ops::Range<usize>>) {
    let places = text_in(bytes);
    let text: Vec<u8> = places.iter().map(|at| bytes[*at]).collect();
    for range in found(&text) {
        for at in &places[range] {
            // A character that is masked already begins with a star.
            if begins_seen(bytes[*at]) && bytes[*at] != b'*' {
                mask_char(bytes, *at);
            }
        }
    }
}

/// The places of all bytes that are text.
fn text_in(bytes: &[u8]) -> Vec<usize> {
    let mut texts = Texts::default();
    Tokenizer::default().feed(bytes, &mut texts);
    texts.ranges.into_iter().flatten().collect()
}

fn mask_char(bytes: &mut [u8], at: usize) {
    let (len, width) = char_at(&bytes[at..]);
    for (n, byte) in bytes[at..at + len].iter_mut().enumerate() {
        *byte = if n < width { b'*' } else { 0 };
    }
}

/// Where the text is in a stream.
#[derive(Default)]
struct Texts {
    at: usize,
    ranges: Vec<std::ops::Range<usize>>,
}

impl Tokens for Texts {
    fn text(&mut self, len: usize) {
        self.ranges.push(self.at..self.at + len);
        self.at += len;
    }

    fn quiet(&mut self, len: usize) {
        self.at += len;
    }
}

/// Bytes and columns of the character at the start.
fn char_at(text: &[u8]) -> (usize, usize) {
    if text[0] < 0x80 {
        return (1, 1);
    }
    let four = &text[..text.len().min(4)];
    let first = match std::str::from_utf8(four) {
        Ok(text) => text.chars().next(),
        Err(error) => std::str::from_utf8(&four[..error.valid_up_to()])
            .ok()
            .and_then(|text| text.chars().next()),
    };
    // What is no character is one column per byte.
    first.map_or((1, 1), |c| (c.len_utf8(), c.width().unwrap_or(1)))
}

//! What the flooding program prints: three kinds of terminal output, the same bytes for every
//! contender.
//!
//! In: kind and length. Out: the exact bytes, and how many the reader must see behind the line
//! discipline.

use std::fmt::Write as _;

use clap::ValueEnum;

/// A line every contender must have received before the round counts.
pub const END: &str = "flood-end";

/// "Are you well?" (DSR 5), the last thing in a flood: a host answers it once it has parsed all
/// that came before, and only then does the program end. Without it tmux may close a pane whose
/// last bytes it has not read.
pub const QUESTION: &str = "\x1b[5n";
pub const ANSWER: &[u8] = b"\x1b[0n";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Log lines without escapes.
    Plain,
    /// Log lines with colours per word.
    Coloured,
    /// A program that repaints 80 × 24 by cursor addressing.
    FullScreen,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Plain, Kind::Coloured, Kind::FullScreen];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Plain => "plain",
            Kind::Coloured => "coloured",
            Kind::FullScreen => "full-screen",
        }
    }
}

/// The bytes of one flood: `bytes` of the kind, repeated from one block, then the end line.
pub struct Payload {
    block: Vec<u8>,
    bytes: usize,
    trailer: Vec<u8>,
}

impl Payload {
    /// A program on a raw terminal ends its lines with CR LF itself.
    pub fn new(kind: Kind, bytes: usize, raw: bool) -> Payload {
        let mut block = match kind {
            Kind::Plain => plain_block(),
            Kind::Coloured => coloured_block(),
            Kind::FullScreen => full_screen_block(),
        };
        if raw {
            block = with_carriage_returns(&block);
        }
        // The cut may fall inside an escape sequence: ESC ends it, and the colour is reset.
        let trailer = format!("\x1b[0m\r\n{END} {bytes}\r\n{QUESTION}").into_bytes();
        Payload { block, bytes, trailer }
    }

    /// The pieces in order.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let whole = self.bytes / self.block.len();
        let rest = self.bytes % self.block.len();
        std::iter::repeat_n(self.block.as_slice(), whole)
            .chain([&self.block[..rest], self.trailer.as_slice()])
    }

    /// How many bytes come out of the terminal: an ordinary one (OPOST, ONLCR) makes two of each
    /// newline.
    pub fn received(&self, raw: bool) -> u64 {
        self.chunks()
            .map(|chunk| {
                let newlines = chunk.iter().filter(|byte| **byte == b'\n').count();
                (chunk.len() + if raw { 0 } else { newlines }) as u64
            })
            .sum()
    }
}

/// Enough different lines that nothing can be cached, small enough to stay in the CPU's cache.
const BLOCK_LINES: usize = 700;

const WORDS: [&str; 8] =
    ["accept", "session", "resize", "journal", "keeper", "screen", "cursor", "output"];

fn with_carriage_returns(block: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(block.len() + BLOCK_LINES);
    for line in block.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(line) => {
                out.extend_from_slice(line);
                out.extend_from_slice(b"\r\n");
            }
            None => out.extend_from_slice(line),
        }
    }
    out
}

fn plain_block() -> Vec<u8> {
    let mut text = String::new();
    for n in 0..BLOCK_LINES {
        let (a, b) = (WORDS[n % 8], WORDS[(n / 8) % 8]);
        let _ = writeln!(
            text,
            "{n:06} {a:<10} {b:<10} took {:>5} us, queue {:>3}, ok",
            n * 37 % 9973,
            n % 211
        );
    }
    text.into_bytes()
}

fn coloured_block() -> Vec<u8> {
    let mut text = String::new();
    for n in 0..BLOCK_LINES {
        let (a, b) = (WORDS[n % 8], WORDS[(n / 8) % 8]);
        let _ = writeln!(
            text,
            "\x1b[2m{n:06}\x1b[0m \x1b[1;3{}m{a:<10}\x1b[0m \x1b[38;5;{}m{b:<10}\x1b[39m took \x1b[33m{:>5}\x1b[0m us",
            n % 8,
            n % 256,
            n * 37 % 9973
        );
    }
    text.into_bytes()
}

fn full_screen_block() -> Vec<u8> {
    let mut text = String::new();
    for frame in 0..24 {
        text.push_str("\x1b[?25l\x1b[H");
        for row in 1..=24 {
            let word = WORDS[(frame + row) % 8];
            let _ = write!(
                text,
                "\x1b[{row};1H\x1b[4{}m {word:<12}\x1b[0m \x1b[1m{:>6}\x1b[22m {:-<40}\x1b[K",
                row % 8,
                frame * 31 + row,
                ""
            );
        }
        let _ = write!(text, "\x1b[24;{}H\x1b[?25h", frame + 1);
    }
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_and_newlines_are_exact() {
        for kind in Kind::ALL {
            for bytes in [0, 1, 63, 65_536, 1_000_003] {
                let payload = Payload::new(kind, bytes, false);
                let all: Vec<u8> = payload.chunks().flatten().copied().collect();
                let newlines = all.iter().filter(|byte| **byte == b'\n').count();
                let end = format!("{END} {bytes}\r\n{QUESTION}");
                assert!(all.ends_with(end.as_bytes()), "{kind:?} {bytes}");
                assert_eq!(all.len(), bytes + end.len() + "\x1b[0m\r\n".len());
                assert_eq!(payload.received(true), all.len() as u64);
                assert_eq!(payload.received(false), (all.len() + newlines) as u64);
            }
        }
    }

    #[test]
    fn lines_fit_the_screen() {
        let text = String::from_utf8(plain_block()).unwrap();
        assert!(text.lines().all(|line| line.len() < 80));
    }
}

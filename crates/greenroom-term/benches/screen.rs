//! The screen beside the stock guest: bytes per second by kind of output and size of a batch.
//!
//! `cargo bench -p greenroom-term`. Trust the ratios within one run.

use std::hint::black_box;
use std::time::Duration;

use alacritty_terminal::Term;
use alacritty_terminal::event::VoidListener;
use alacritty_terminal::term::Config;
use alacritty_terminal::term::test::TermSize;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use greenroom_term::{Screen, Size};
use vte::ansi::Processor;

const COLS: u16 = 120;
const ROWS: u16 = 40;
const BYTES: usize = 4 << 20;

fn size() -> Size {
    Size::new(COLS, ROWS).expect("a size within limits")
}

/// The same numbers every time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn fill(mut line: impl FnMut(&mut String, &mut Random)) -> Vec<u8> {
    let mut random = Random(7);
    let mut text = String::with_capacity(BYTES + 1000);
    while text.len() < BYTES {
        line(&mut text, &mut random);
    }
    text.into_bytes()
}

const WORDS: [&str; 8] =
    ["Compiling", "the", "crate", "warning:", "src/main.rs:12:7", "unused", "import", "0.42s"];

fn words(text: &mut String, random: &mut Random, most: u64) {
    for _ in 0..1 + random.below(most) {
        text.push_str(WORDS[random.below(8) as usize]);
        text.push(' ');
    }
}

/// A build log.
fn plain() -> Vec<u8> {
    fill(|text, random| {
        words(text, random, 14);
        text.push_str("\r\n");
    })
}

/// A coloured log: a sequence every ten bytes or so.
fn coloured() -> Vec<u8> {
    fill(|text, random| {
        for _ in 0..1 + random.below(8) {
            let (a, b) = (random.below(8), random.below(256));
            match random.below(3) {
                0 => text.push_str(&format!("\x1b[1;3{a}m")),
                1 => text.push_str(&format!("\x1b[38;5;{b}m")),
                _ => text.push_str(&format!("\x1b[38;2;{b};{a};{b}m")),
            }
            words(text, random, 2);
            text.push_str("\x1b[0m");
        }
        text.push_str("\r\n");
    })
}

/// A full-screen program repainting rows.
fn full_screen() -> Vec<u8> {
    fill(|text, random| {
        text.push_str("\x1b[?25l");
        for row in 1..=u64::from(ROWS) {
            text.push_str(&format!("\x1b[{row};1H\x1b[48;5;{}m", random.below(16)));
            words(text, random, 9);
            text.push_str("\x1b[0m\x1b[K");
        }
        text.push_str("\x1b[?25h");
    })
}

/// Text beyond ASCII: accents, box drawing, wide characters.
fn utf8() -> Vec<u8> {
    let words = ["größer", "日本語", "─────", "naïve", "текст", "émoji 😀", "│", "plain"];
    fill(|text, random| {
        for _ in 0..1 + random.below(9) {
            text.push_str(words[random.below(8) as usize]);
            text.push(' ');
        }
        text.push_str("\r\n");
    })
}

fn feed(c: &mut Criterion) {
    let data = [
        ("plain", plain()),
        ("coloured", coloured()),
        ("full-screen", full_screen()),
        ("utf-8", utf8()),
    ];
    for (kind, bytes) in &data {
        let mut group = c.benchmark_group(*kind);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.sample_size(10).warm_up_time(Duration::from_millis(300));
        group.measurement_time(Duration::from_secs(2));
        for batch in [4 << 10, 64 << 10] {
            let name = format!("{} KiB", batch >> 10);
            group.bench_with_input(BenchmarkId::new("screen", &name), &batch, |b, &batch| {
                let mut screen = Screen::new(size());
                b.iter(|| bytes.chunks(batch).for_each(|read| screen.feed(black_box(read))));
            });
            group.bench_with_input(BenchmarkId::new("stock", &name), &batch, |b, &batch| {
                let config = Config { scrolling_history: 0, ..Config::default() };
                let size = TermSize::new(COLS.into(), ROWS.into());
                let mut term = Term::new(config, &size, VoidListener);
                let mut processor: Processor = Processor::new();
                b.iter(|| {
                    bytes
                        .chunks(batch)
                        .for_each(|read| processor.advance(&mut term, black_box(read)));
                });
            });
        }
        group.finish();
    }
}

fn keyframe(c: &mut Criterion) {
    let mut screen = Screen::new(size());
    screen.feed(&coloured());
    let key = screen.keyframe();
    let mut group = c.benchmark_group("keyframe");
    group.sample_size(20).measurement_time(Duration::from_secs(1));
    group.bench_function("write", |b| b.iter(|| black_box(&screen).keyframe()));
    group.bench_function("restore", |b| b.iter(|| Screen::restore(size(), black_box(&key))));
    group.bench_function("text", |b| b.iter(|| black_box(&screen).text()));
    group.bench_function("frame", |b| b.iter(|| black_box(&screen).frame()));
    group.finish();
}

criterion_group!(benches, feed, keyframe);
criterion_main!(benches);

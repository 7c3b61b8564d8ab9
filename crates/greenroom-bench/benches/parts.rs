//! The parts by themselves: the screen fed in the sizes a PTY gives, its views, the frame decoder,
//! and the redactor.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use greenroom_bench::payload::{Kind, Payload};
use greenroom_engine::Seq;
use greenroom_engine::egress::{Literals, Redactor, Rules, Shield};
use greenroom_protocol::frame::FrameDecoder;
use greenroom_term::{Screen, Size};

/// Enough that the first screenful, which is slower, does not show.
const BYTES: usize = 1 << 20;

fn size() -> Size {
    Size::new(80, 24).expect("80 x 24 is a size")
}

fn flood(kind: Kind) -> Vec<u8> {
    Payload::new(kind, BYTES, true).chunks().flatten().copied().collect()
}

/// A read of a PTY gives some KiB; the engine feeds up to 64 KiB in one turn.
fn feed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("screen feed");
    for kind in Kind::ALL {
        let bytes = flood(kind);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        for turn in [4096, 65536] {
            group.bench_function(BenchmarkId::new(kind.name(), turn), |bencher| {
                let mut screen = Screen::new(size());
                bencher.iter(|| {
                    for piece in bytes.chunks(turn) {
                        screen.feed(black_box(piece));
                    }
                    black_box(screen.take_replies());
                });
            });
        }
    }
    group.finish();
}

fn views(criterion: &mut Criterion) {
    let mut screen = Screen::new(size());
    screen.feed(&flood(Kind::FullScreen));
    criterion.bench_function("screen text", |bencher| bencher.iter(|| black_box(screen.text())));
    criterion.bench_function("screen frame", |bencher| bencher.iter(|| black_box(screen.frame())));
    criterion
        .bench_function("screen keyframe", |bencher| bencher.iter(|| black_box(screen.keyframe())));
    let keyframe = screen.keyframe();
    criterion.bench_function("screen restore", |bencher| {
        bencher.iter(|| black_box(Screen::restore(size(), black_box(&keyframe))));
    });
}

fn frames(criterion: &mut Criterion) {
    let request = br#"{"jsonrpc":"2.0","id":7,"method":"session.snapshot","params":{"session":"s1","format":"text"}}"#;
    let mut lines = request.to_vec();
    lines.push(b'\n');
    let lines = lines.repeat(1000);
    let mut group = criterion.benchmark_group("frame decode");
    group.throughput(Throughput::Elements(1000));
    group.bench_function("1000 requests", |bencher| {
        bencher.iter(|| {
            let mut decoder = FrameDecoder::new();
            let mut count = 0;
            for piece in lines.chunks(8192) {
                decoder.push(black_box(piece));
                while let Some(frame) = decoder.next() {
                    black_box(frame.is_ok());
                    count += 1;
                }
            }
            assert_eq!(count, 1000);
        });
    });
    group.finish();
}

/// What a filtered reader pays: the built-in rules, and the same with the values of a session.
fn redact(criterion: &mut Criterion) {
    let values: Vec<String> = (0..20u64).map(|n| format!("value-{}-of-many", n * 7919)).collect();
    let literals = Literals::new(values.iter().map(String::as_bytes));
    let shields = [("rules", Literals::default()), ("rules and 20 values", literals)];
    let mut group = criterion.benchmark_group("redact");
    for (name, literals) in shields {
        let shield = Arc::new(Shield::new(Rules::built_in(), literals));
        for kind in Kind::ALL {
            let bytes = flood(kind);
            group.throughput(Throughput::Bytes(bytes.len() as u64));
            group.bench_function(BenchmarkId::new(name, kind.name()), |bencher| {
                let mut out = Vec::with_capacity(bytes.len());
                bencher.iter(|| {
                    out.clear();
                    let mut redactor = Redactor::new(shield.clone(), Seq(0));
                    for piece in bytes.chunks(65536) {
                        redactor.feed(black_box(piece), &mut out);
                    }
                    redactor.finish(&mut out);
                    black_box(&out);
                });
            });
        }
    }
    group.finish();
}

criterion_group!(parts, feed, views, frames, redact);
criterion_main!(parts);

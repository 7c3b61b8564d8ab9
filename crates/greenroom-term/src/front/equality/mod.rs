//! The front equals a full reading by the stock guest.
//!
//! Random streams, cut into random batches with skipping allowed from one byte on, against one
//! reading of the whole by vte's `Processor` into a stock `Term`. Everything readable is compared;
//! then probe strings make hidden state visible and it is compared again. The same streams show
//! that a keyframe plus the bytes after it gives the live screen. Mutants of the front, each
//! without one rule, must be caught.
//!
//! A series: `make soak` runs more cases; a failing case prints a small stream.

mod compare;
mod stock;
mod stream;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Front;
use super::rules::Rule;
use crate::keyframe;
use crate::size::Size;
use compare::{Picture, differences};
use stock::Stock;
use stream::{Random, Stream};
use test_kit::series::Series;

/// Each makes some hidden state visible.
const PROBES: &[&[u8]] = &[
    b"",
    b"\x1b[2b",
    b"\r\tA\tB\x1b[ZC",
    b"\x1b[99;1H\n\nX\x1bMY",
    b"\x1b[1;2H\x1bMZ\n",
    b"\x0fqx\x0eqx\x0f",
    b"\x1b8S\x1b[23t",
    b"\x1b[<1u\x1b[?u",
    b"\x1b[?1049hL\x1b8l\x1b[?u",
    b"\x1b[?1049lM\x1b8m\x1b[?u",
    b"\x1b[<9u\x1b[?u\x1b[23t\x1b[23t",
    b"\x1bcR\tT\x1b[9b",
];

/// A mutant that survives so many cases is not caught; most fall within a few hundred.
const MUTANT_CASES: u64 = 6000;

/// Feeds the stream in the batches of `seed`.
fn feed_cut(front: &mut Front, bytes: &[u8], seed: u64) {
    let mut random = Random::new(seed);
    let mut rest = bytes;
    let longest = [1, 3, 40, 4000, 10_000, 10_000][random.below(6)];
    while !rest.is_empty() {
        let (batch, tail) = rest.split_at(rest.len().min(1 + random.below(longest)));
        front.feed(batch);
        rest = tail;
    }
}

fn front(stream: &Stream, without: Option<Rule>) -> Front {
    let mut front = Front::new(stream.size, 0);
    front.skip_from = Some(1);
    front.window = Some(1 + stream.cuts as usize % 200);
    front.rules.without = without;
    front
}

/// What differs after the stream or one of the probes.
fn disagreement(stream: &Stream, without: Option<Rule>) -> Option<String> {
    let bytes = stream.bytes();
    let mut stock = Stock::new(stream.size);
    // The guest may panic on its own; then there is nothing to agree with.
    catch_unwind(AssertUnwindSafe(|| stock.feed(&bytes))).ok()?;
    let mut front = front(stream, without);
    let fed = catch_unwind(AssertUnwindSafe(|| feed_cut(&mut front, &bytes, stream.cuts)));
    if fed.is_err() {
        return Some("only the front panicked".to_owned());
    }
    for (number, probe) in PROBES.iter().enumerate() {
        stock.feed(probe);
        front.feed(probe);
        let found = differences(&stock.picture(), &Picture::of(&mut front));
        if !found.is_empty() {
            return Some(format!("probe {number}: {found}"));
        }
    }
    None
}

/// Runs cases until one fails; makes it small.
fn first_failure(
    Series { cases, seed }: Series,
    fails: impl Fn(&Stream) -> Option<String>,
) -> Option<String> {
    for case in 0..cases {
        let stream = Stream::random(seed.wrapping_add(case));
        if fails(&stream).is_some() {
            let small = stream.shrunk(|candidate| fails(candidate).is_some());
            let why = fails(&small).unwrap_or_default();
            return Some(format!(
                "case {case} of seed {seed}: {why}\n{} cuts {}\n{}",
                small.size,
                small.cuts,
                small.bytes().escape_ascii()
            ));
        }
    }
    None
}

#[test]
fn the_front_equals_a_full_reading() {
    let series = test_kit::series::series("the front and a full reading", 1500, 120_000);
    let failure = first_failure(series, |stream| disagreement(stream, None));
    assert_eq!(failure, None, "{}", failure.clone().unwrap_or_default());
}

#[test]
fn every_mutant_is_caught() {
    let caught = |rule| {
        (0..MUTANT_CASES).any(|case| disagreement(&Stream::random(case), Some(rule)).is_some())
    };
    let series = test_kit::series::series("mutants of the front", 4, Rule::ALL.len() as u64);
    let first = series.seed as usize % Rule::ALL.len();
    let tried = Rule::ALL.iter().cycle().skip(first).take(series.cases as usize);
    let survivors: Vec<_> = tried.filter(|&&rule| !caught(rule)).collect();
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}

/// Splits the stream in two, restores a keyframe at the split, feeds both the rest.
fn keyframe_differs(stream: &Stream) -> Option<String> {
    let bytes = stream.bytes();
    let mut random = Random::new(stream.cuts ^ 0x5eed);
    let split = random.below(bytes.len() + 1);
    let resized =
        Size::new(2 + random.below(20) as u16, 1 + random.below(8) as u16).expect("within limits");
    let (resize_before, resize_after) = (random.below(3) == 0, random.below(3) == 0);
    let mut live = front(stream, None);
    let run = catch_unwind(AssertUnwindSafe(|| {
        if resize_before {
            let half = split / 2;
            live.feed(&bytes[..half]);
            live.resize(resized);
            live.feed(&bytes[half..split]);
        } else {
            live.feed(&bytes[..split]);
        }
    }));
    // A panic of the guest breaks the screen; a broken screen has no keyframe to compare.
    run.ok()?;
    let key = keyframe::write(&live);
    let size = Size::new(live.guest.cols() as u16, live.guest.rows() as u16).expect("a size");
    let mut restored = Front::new(size, 0);
    restored.skip_from = Some(1);
    restored.set_restoring(true);
    restored.feed(&key);
    restored.set_restoring(false);
    let compare = |live: &mut Front, restored: &mut Front, when: &str| {
        let found = differences(&Picture::of(live), &Picture::of(restored));
        let parked = compare::parked_differences(live, restored);
        let open = if live.unfinished() == restored.unfinished() { "" } else { "open sequence" };
        let all = format!("{found}{parked}{open}");
        (!all.is_empty()).then(|| format!("{when}: {all}\nkeyframe {}", key.escape_ascii()))
    };
    Picture::of(&mut live);
    Picture::of(&mut restored);
    let first = compare(&mut live, &mut restored, "restored");
    if first.is_some() {
        return first;
    }
    if resize_after {
        let both = catch_unwind(AssertUnwindSafe(|| {
            live.resize(resized);
            restored.resize(resized);
        }));
        both.ok()?;
    }
    let tail = catch_unwind(AssertUnwindSafe(|| {
        live.feed(&bytes[split..]);
        feed_cut(&mut restored, &bytes[split..], stream.cuts);
    }));
    tail.ok()?;
    for (number, probe) in PROBES.iter().enumerate() {
        live.feed(probe);
        restored.feed(probe);
        let found = compare(&mut live, &mut restored, &format!("probe {number}"));
        if found.is_some() {
            return found;
        }
    }
    None
}

#[test]
fn a_keyframe_and_the_tail_equal_the_live_screen() {
    let series = test_kit::series::series("keyframes", 1500, 120_000);
    let failure = first_failure(series, keyframe_differs);
    assert_eq!(failure, None, "{}", failure.clone().unwrap_or_default());
}

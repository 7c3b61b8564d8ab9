//! How many cases a long series of a test runs, and from which seed.
//!
//! In: two numbers of the test and the environment. Out: a [`Series`], printed so that a failure
//! can be repeated. `make test` takes the sample of each series from a fixed seed, so that a red
//! run is red again; `make soak` sets `GREENROOM_SOAK` and runs all of it from a new seed.
//! `GREENROOM_SOAK=500` asks for that many cases, `GREENROOM_SEED=7` for the same again.
//! Absent on purpose: what a case is.

use std::ffi::OsString;
use std::time::{SystemTime, UNIX_EPOCH};

/// The number of cases; set and empty means all.
const CASES: &str = "GREENROOM_SOAK";
/// Where the randomness begins.
const SEED: &str = "GREENROOM_SEED";
/// The seed of a sample, so that two runs of `make test` run the same cases.
const FIXED_SEED: u64 = 1;

/// Which cases to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Series {
    pub cases: u64,
    pub seed: u64,
}

/// As the environment says: `sample` cases, or `full` when soaking.
pub fn series(name: &str, sample: u64, full: u64) -> Series {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let series = choose(sample, full, &|name| std::env::var_os(name), now.as_nanos() as u64);
    eprintln!("{name}: {CASES}={} {SEED}={}", series.cases, series.seed);
    series
}

fn choose(sample: u64, full: u64, set: &dyn Fn(&str) -> Option<OsString>, now: u64) -> Series {
    let soak = set(CASES);
    let cases = match &soak {
        None => sample,
        Some(text) if text.is_empty() => full,
        Some(_) => number(CASES, set).unwrap_or(sample),
    };
    let seed = number(SEED, set).unwrap_or(if soak.is_some() { now } else { FIXED_SEED });
    Series { cases, seed }
}

/// A number that cannot be read is a typing mistake, not a wish for the default.
fn number(name: &str, set: &dyn Fn(&str) -> Option<OsString>) -> Option<u64> {
    let text = set(name)?;
    let read = text.to_str().and_then(|text| text.parse().ok());
    Some(read.unwrap_or_else(|| panic!("{name}={} is not a number", text.display())))
}

impl Series {
    /// Random numbers for one case: the same for the same seed, whatever ran before.
    pub fn dice(&self, case: u64) -> Dice {
        Dice(self.seed ^ case.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// Random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to below `sides`.
    pub fn below(&mut self, sides: u64) -> u64 {
        self.roll() % sides
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    pub fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(variables: &[(&str, &str)]) -> Series {
        let set =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, v)| (*v).into());
        choose(3, 200, &set, 42)
    }

    #[test]
    fn a_sample_by_default_and_all_when_soaking() {
        assert_eq!(chosen(&[]), Series { cases: 3, seed: FIXED_SEED });
        assert_eq!(chosen(&[(CASES, "")]), Series { cases: 200, seed: 42 });
        assert_eq!(chosen(&[(CASES, "17")]), Series { cases: 17, seed: 42 });
        assert_eq!(chosen(&[(CASES, "17"), (SEED, "9")]), Series { cases: 17, seed: 9 });
        assert_eq!(chosen(&[(SEED, "9")]), Series { cases: 3, seed: 9 });
    }

    #[test]
    #[should_panic(expected = "GREENROOM_SOAK=many is not a number")]
    fn a_wrong_number_is_not_passed_over() {
        chosen(&[(CASES, "many")]);
    }

    #[test]
    fn a_case_is_the_same_again_and_differs_from_its_neighbour() {
        let series = Series { cases: 1, seed: 5 };
        let rolls = |case| {
            let mut dice = series.dice(case);
            [dice.roll(), dice.below(6), u64::from(dice.coin()), *dice.pick(&[1, 2, 3])]
        };
        assert_eq!(rolls(1), rolls(1));
        assert_ne!(rolls(1), rolls(2));
    }
}

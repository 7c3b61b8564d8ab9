//! When to stop asking a plugin that does not answer.
//!
//! In: how calls went and what time it is. Out: whether the next call may be made. After three
//! failures in a row, or a fifth of the last fifty, the breaker opens: the hook's policy is applied
//! at once, nobody waits. One probe is let through after a second, then after two, four, up to a
//! minute; one that succeeds closes the breaker. A plugin that has not answered since it last
//! failed is asked no more calls at once than failures are left to it, so that a dead one costs a
//! handful of time-outs, not one for each line. Deliberately absent: clocks (the caller brings the
//! time), and what a failure is.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Failures in a row that open the breaker: one slow answer is not death.
const IN_A_ROW: usize = 3;
/// Calls that are looked back at.
const WINDOW: usize = 50;
/// Failures among them that open the breaker.
const OF_WINDOW: usize = WINDOW / 5;
/// Until the first probe; doubles with each that fails.
const PROBE_FIRST: Duration = Duration::from_secs(1);
/// Between probes at most.
const PROBE_LAST: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Breaker {
    /// `true` is a failure; the newest last.
    window: VecDeque<bool>,
    in_a_row: usize,
    under_way: usize,
    /// It has answered since it last failed.
    proven: bool,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    probe_at: Instant,
    wait: Duration,
    probing: bool,
}

/// Whether a call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// Make it, and tell how it went.
    Go,
    /// Others are under way whose outcome decides; ask again when one is known.
    Wait,
    /// Do not ask: apply the policy.
    Open,
}

/// What an outcome changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    None,
    Opened,
    Closed,
}

impl Breaker {
    /// May a call be made now? After `Go` the caller owes one [`Breaker::succeeded`] or
    /// [`Breaker::failed`].
    pub(super) fn admit(&mut self, now: Instant) -> Admission {
        let admission = match &mut self.open {
            Some(open) if open.probing || now < open.probe_at => Admission::Open,
            Some(open) => {
                open.probing = true;
                Admission::Go
            }
            None if !self.proven && self.under_way + self.in_a_row >= IN_A_ROW => Admission::Wait,
            None => Admission::Go,
        };
        if admission == Admission::Go {
            self.under_way += 1;
        }
        admission
    }

    pub(super) fn succeeded(&mut self) -> Change {
        self.under_way = self.under_way.saturating_sub(1);
        self.in_a_row = 0;
        self.proven = true;
        match self.open.take_if(|open| open.probing) {
            Some(_) => {
                self.window.clear();
                Change::Closed
            }
            None => {
                self.remember(false);
                Change::None
            }
        }
    }

    pub(super) fn failed(&mut self, now: Instant) -> Change {
        self.under_way = self.under_way.saturating_sub(1);
        self.in_a_row += 1;
        self.proven = false;
        if let Some(open) = &mut self.open {
            if open.probing {
                open.probing = false;
                open.wait = (open.wait * 2).min(PROBE_LAST);
                open.probe_at = now + open.wait;
            }
            return Change::None;
        }
        self.remember(true);
        let failures = self.window.iter().filter(|failed| **failed).count();
        let often = self.window.len() == WINDOW && failures >= OF_WINDOW;
        if self.in_a_row < IN_A_ROW && !often {
            return Change::None;
        }
        self.window.clear();
        let open = Open { probe_at: now + PROBE_FIRST, wait: PROBE_FIRST, probing: false };
        self.open = Some(open);
        Change::Opened
    }

    /// A call that was admitted was not made after all.
    pub(super) fn withdrawn(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
        if let Some(open) = &mut self.open {
            open.probing = false;
        }
    }

    /// Whether a call would not be made now; asking this counts for nothing.
    pub(super) fn refuses(&self, now: Instant) -> bool {
        self.open.as_ref().is_some_and(|open| open.probing || now < open.probe_at)
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    fn remember(&mut self, failed: bool) {
        if self.window.len() == WINDOW {
            self.window.pop_front();
        }
        self.window.push_back(failed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn three_in_a_row_open_and_probes_double() {
        let mut now = Instant::now();
        let mut breaker = Breaker::default();
        for left in [Change::None, Change::None, Change::Opened] {
            assert_eq!(breaker.admit(now), Admission::Go);
            assert_eq!(breaker.failed(now), left);
        }
        let mut wait = 1;
        for _ in 0..8 {
            assert_eq!(breaker.admit(now), Admission::Open);
            now += Duration::from_secs(wait) - Duration::from_millis(1);
            assert!(breaker.refuses(now));
            assert_eq!(breaker.admit(now), Admission::Open);
            now += Duration::from_millis(1);
            assert!(!breaker.refuses(now));
            assert_eq!(breaker.admit(now), Admission::Go);
            assert!(breaker.refuses(now));
            // One probe at a time.
            assert_eq!(breaker.admit(now), Admission::Open);
            assert_eq!(breaker.failed(now), Change::None);
            wait = (wait * 2).min(60);
        }
        now += Duration::from_secs(60);
        assert_eq!(breaker.admit(now), Admission::Go);
        assert_eq!(breaker.succeeded(), Change::Closed);
        assert_eq!(breaker.admit(now), Admission::Go);
        assert!(!breaker.is_open());
    }

    #[test]
    fn a_fifth_of_fifty_opens() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        let mut opened = None;
        for call in 0..200 {
            assert_eq!(breaker.admit(now), Admission::Go);
            let change = match call % 5 {
                0 => breaker.failed(now),
                _ => breaker.succeeded(),
            };
            if change == Change::Opened {
                opened = Some(call);
                break;
            }
        }
        // Not before there are fifty to judge by.
        assert_eq!(opened, Some(50));
    }

    #[test]
    fn rare_failures_do_not_open() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for call in 0..1000 {
            assert_eq!(breaker.admit(now), Admission::Go);
            let change = if call % 6 == 0 { breaker.failed(now) } else { breaker.succeeded() };
            assert_eq!(change, Change::None, "{call}");
        }
    }

    #[test]
    fn one_that_fails_is_not_asked_more_than_it_may_fail() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        for _ in 0..3 {
            assert_eq!(breaker.admit(now), Admission::Go);
        }
        assert_eq!(breaker.admit(now), Admission::Wait);
        assert_eq!(breaker.succeeded(), Change::None);
        for _ in 0..2 {
            assert_eq!(breaker.admit(now), Admission::Go);
        }
        assert_eq!(breaker.failed(now), Change::None);
        assert_eq!(breaker.admit(now), Admission::Wait);
        assert_eq!(breaker.failed(now), Change::None);
        assert_eq!(breaker.admit(now), Admission::Wait);
        assert_eq!(breaker.failed(now), Change::Opened);
        assert_eq!(breaker.failed(now), Change::None);
        assert_eq!(breaker.admit(now), Admission::Open);
    }

    proptest! {
        /// A dead plugin costs three calls and one for each probe, for any number of calls at once
        /// and any pace.
        #[test]
        fn a_dead_one_costs_few_calls(at_once in 1usize..9, pace_ms in 0u64..40) {
            let began = Instant::now();
            let mut now = began;
            let mut breaker = Breaker::default();
            let (mut made, mut under_way) = (0, 0);
            for line in 0..10_000 {
                let admission = breaker.admit(now);
                if admission == Admission::Go {
                    made += 1;
                    under_way += 1;
                }
                prop_assert!(admission != Admission::Wait || under_way > 0, "{line}: nobody decides");
                if under_way == at_once || admission == Admission::Wait {
                    now += Duration::from_millis(250);
                    for _ in 0..std::mem::take(&mut under_way) {
                        breaker.failed(now);
                    }
                }
                now += Duration::from_millis(pace_ms);
            }
            let seconds = now.duration_since(began).as_secs();
            // After 1, 3, 7, 15, 31, 63 seconds and each minute from there.
            let probes = [1, 3, 7, 15, 31, 63].iter().filter(|at| **at <= seconds).count() as u64
                + seconds.saturating_sub(63) / 60;
            prop_assert!(made <= 3 + probes + 1, "{made} calls in {seconds} s");
        }
    }
}

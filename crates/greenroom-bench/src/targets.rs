//! What greenroom promises: one row per target, with the first mark and the goal.
//!
//! A row is a figure of each contender and one value that is judged: a ratio within the same run,
//! or the figure itself where the target is absolute.

/// A bound on the judged value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

impl Bound {
    pub fn holds(self, value: f64) -> bool {
        match self {
            Bound::AtLeast(bound) => value >= bound,
            Bound::AtMost(bound) => value <= bound,
            Bound::Below(bound) => value < bound,
        }
    }

    pub fn text(self) -> String {
        match self {
            Bound::AtLeast(bound) => format!("≥{bound}"),
            Bound::AtMost(bound) => format!("≤{bound}"),
            Bound::Below(bound) => format!("<{bound}"),
        }
    }
}

/// What the judged value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    PerBare,
    PerTmux,
    Itself,
}

impl Judged {
    pub fn text(self) -> &'static str {
        match self {
            Judged::PerBare => "÷bare",
            Judged::PerTmux => "÷tmux",
            Judged::Itself => "",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    pub unit: &'static str,
    pub judged: Judged,
    pub first: Option<Bound>,
    pub goal: Option<Bound>,
}

const fn target(
    name: &'static str,
    unit: &'static str,
    judged: Judged,
    first: Bound,
    goal: Bound,
) -> Target {
    Target { name, unit, judged, first: Some(first), goal: Some(goal) }
}

const fn only(name: &'static str, unit: &'static str, first: Bound) -> Target {
    Target { name, unit, judged: Judged::Itself, first: Some(first), goal: None }
}

use Bound::{AtLeast, AtMost, Below};
use Judged::{Itself, PerBare, PerTmux};

pub const DRAIN_BARE: [Target; 3] = [
    target("drain plain", "MB/s", PerBare, AtLeast(0.8), AtLeast(0.95)),
    target("drain coloured", "MB/s", PerBare, AtLeast(0.8), AtLeast(0.95)),
    target("drain full-screen", "MB/s", PerBare, AtLeast(0.8), AtLeast(0.95)),
];
pub const DRAIN_TMUX: [Target; 3] = [
    target("drain plain", "MB/s", PerTmux, AtLeast(1.5), AtLeast(2.0)),
    target("drain coloured", "MB/s", PerTmux, AtLeast(1.5), AtLeast(2.0)),
    target("drain full-screen", "MB/s", PerTmux, AtLeast(1.5), AtLeast(2.0)),
];
pub const RAW_CPU: [Target; 3] = [
    target("raw plain", "MB/cpu-s", PerBare, AtLeast(0.65), AtLeast(0.85)),
    target("raw coloured", "MB/cpu-s", PerBare, AtLeast(0.65), AtLeast(0.85)),
    target("raw full-screen", "MB/cpu-s", PerBare, AtLeast(0.65), AtLeast(0.85)),
];
pub const ECHO_P50: Target = target("echo p50", "µs", PerTmux, AtMost(1.0), AtMost(0.7));
/// No target, but a median alone hides stalls.
pub const ECHO_P99: Target =
    Target { name: "echo p99", unit: "µs", judged: PerTmux, first: None, goal: None };
pub const CREATE: Target = target("create p50", "ms", PerBare, AtMost(2.0), AtMost(1.3));
pub const MEMORY: Target = target("memory/session", "KiB", Itself, AtMost(64.0), AtMost(8.0));
pub const IDLE_CPU: Target =
    Target { name: "idle CPU", unit: "%", judged: Itself, first: Some(Below(1.0)), goal: None };
pub const IDLE_WAKEUPS: Target = Target {
    name: "idle wake-ups",
    unit: "/s",
    judged: Itself,
    first: None,
    goal: Some(AtMost(0.0)),
};
pub const FLOOD_50: Target = target("50 floods", "MB/s", PerBare, AtLeast(0.7), AtLeast(0.9));
pub const SNAPSHOTS: Target = target("snapshots", "/s", PerTmux, AtLeast(1.0), AtLeast(3.0));
pub const PUSHED: Target = target("pushed p99", "ms", Itself, Below(5.0), Below(1.0));
pub const RECOVERY: Target = target("back after kill", "ms", Itself, Below(1000.0), Below(100.0));
pub const EGRESS: Target =
    target("egress, lost throughput", "%", Itself, AtMost(15.0), AtMost(5.0));
pub const SANDBOXED: Target = target("sandbox adds", "ms", Itself, AtMost(3.0), AtMost(1.5));
pub const JSONL: Target = target("jsonl ÷ oneshot", "×", Itself, AtLeast(100.0), AtLeast(5000.0));
pub const PREFILTERED: Target =
    target("prefiltered rate", "×", Itself, AtLeast(0.9), AtLeast(0.95));
pub const SLEEPING_DRAIN: Target = only("drain ÷ unfiltered", "×", AtLeast(0.95));
pub const SLEEPING_ECHO: Target = only("echo ÷ unfiltered", "×", AtLeast(0.95));
pub const HOSTILE_ECHO: Target = only("echo beside hostile", "×", AtMost(1.1));
/// "Flat" needs a number: 5 % is what two equal rounds differ by here.
pub const GROWTH: Target = target("growth 1→500", "×", Itself, AtMost(1.2), AtMost(1.05));

/// Targets whose subject is not built yet; printed, so that nobody takes their absence for a pass.
pub const NOT_YET: &[(&str, &str)] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_at_their_edge_as_they_say() {
        assert!(AtLeast(0.8).holds(0.8) && !AtLeast(0.8).holds(0.79));
        assert!(AtMost(2.0).holds(2.0) && !AtMost(2.0).holds(2.01));
        assert!(Below(1.0).holds(0.99) && !Below(1.0).holds(1.0));
        assert!(!AtLeast(0.8).holds(f64::NAN) && !AtMost(2.0).holds(f64::NAN));
    }
}

//! The rounds: each row measures its contenders interleaved, in an order that rotates, and takes
//! medians.
//!
//! In: the contenders and how much to measure. Out: rows. A row that fails is a row that says so.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::bare::Bare;
use crate::contender::{Contender, Drained, Host};
use crate::filters::{Filtering, Form};
use crate::greenroom::Greenroom;
use crate::hostile::{Hostile, Sleeping};
use crate::spin::Spinners;
use crate::stats::{median, percentile};
use crate::table::{Figures, Row};
use crate::targets::{self, Judged, Target};
use crate::tmux::Tmux;
use greenroom_bench::payload::Kind;

/// How much of everything.
#[derive(Clone, Copy)]
pub struct Plan {
    pub rounds: usize,
    /// How many rounds of floods. The kernel's worker between a program and its reader is on
    /// either's core by chance, for seconds at a time, and that chance doubles or halves the rate
    /// of everybody alike: many short rounds see all of its sides.
    pub drains: usize,
    pub drain_bytes: usize,
    pub keys: usize,
    pub creates: usize,
    pub held: usize,
    pub idle: Duration,
    pub floods: usize,
    pub flood_bytes: usize,
    pub snapshots: usize,
    pub ticks: usize,
    pub recovered: usize,
    pub grown: usize,
    pub filtered: usize,
}

impl Plan {
    pub const FULL: Plan = Plan {
        rounds: 5,
        drains: 21,
        drain_bytes: 32_000_000,
        keys: 2000,
        creates: 40,
        held: 100,
        idle: Duration::from_secs(10),
        floods: 50,
        flood_bytes: 2_000_000,
        snapshots: 3000,
        ticks: 600,
        recovered: 50,
        grown: 500,
        filtered: 50_000,
    };

    pub const QUICK: Plan = Plan {
        rounds: 3,
        drains: 3,
        drain_bytes: 2_000_000,
        keys: 100,
        creates: 5,
        held: 10,
        idle: Duration::from_secs(1),
        floods: 8,
        flood_bytes: 200_000,
        snapshots: 100,
        ticks: 50,
        recovered: 5,
        grown: 40,
        filtered: 5_000,
    };
}

// A median of fewer is a coin toss.
const _: () = assert!(Plan::FULL.rounds >= 3 && Plan::QUICK.rounds >= 3);

/// Everybody who is measured.
pub struct Lab {
    pub bare: Bare,
    pub tmux: Tmux,
    pub greenroom: Greenroom,
    /// The binary that is measured, for hosts of a row's own.
    pub bin: std::path::PathBuf,
    pub plan: Plan,
}

/// A figure per contender from one round.
#[derive(Clone, Copy)]
struct Round {
    bare: Option<f64>,
    tmux: Option<f64>,
    greenroom: f64,
}

type Rows = fn(&mut Lab) -> Vec<Row>;

/// Groups of rows by name, as `--only` selects them.
pub const GROUPS: &[(&str, Rows)] = &[
    // First, while both servers are young: memory and idleness of what has just been started.
    ("memory", memory),
    ("drain", drain),
    ("raw", raw),
    ("echo", echo),
    ("create", create),
    ("sandbox", sandbox),
    ("egress", egress),
    ("filters", filters),
    ("sleeping", sleeping),
    ("hostile", hostile),
    ("floods", floods),
    ("snapshots", snapshots),
    ("pushed", pushed),
    ("recovery", recovery),
    ("growth", growth),
];

impl Lab {
    /// One value of each contender per round; who begins rotates.
    fn rounds(
        &mut self,
        measure: impl FnMut(&mut dyn Contender, Plan) -> Result<f64>,
    ) -> Result<Vec<Round>> {
        self.so_many_rounds(self.plan.rounds, measure)
    }

    fn so_many_rounds(
        &mut self,
        count: usize,
        mut measure: impl FnMut(&mut dyn Contender, Plan) -> Result<f64>,
    ) -> Result<Vec<Round>> {
        let plan = self.plan;
        let mut rounds = Vec::with_capacity(count);
        for n in 0..count {
            let mut values = [0.0; 3];
            for turn in 0..3 {
                let who = (n + turn) % 3;
                let contender: &mut dyn Contender = match who {
                    0 => &mut self.bare,
                    1 => &mut self.tmux,
                    _ => &mut self.greenroom,
                };
                let name = contender.name();
                values[who] = measure(contender, plan).with_context(|| name.to_owned())?;
            }
            let [bare, tmux, greenroom] = values;
            rounds.push(Round { bare: Some(bare), tmux: Some(tmux), greenroom });
        }
        Ok(rounds)
    }

    /// The same for what only servers can do.
    fn host_rounds(
        &mut self,
        mut measure: impl FnMut(&mut dyn Host, Plan) -> Result<f64>,
    ) -> Result<Vec<Round>> {
        let plan = self.plan;
        let mut rounds = Vec::with_capacity(plan.rounds);
        for n in 0..plan.rounds {
            let mut values = [0.0; 2];
            for turn in 0..2 {
                let who = (n + turn) % 2;
                let host: &mut dyn Host =
                    if who == 0 { &mut self.tmux } else { &mut self.greenroom };
                let name = host.name();
                values[who] = measure(host, plan).with_context(|| name.to_owned())?;
            }
            rounds.push(Round { bare: None, tmux: Some(values[0]), greenroom: values[1] });
        }
        Ok(rounds)
    }
}

/// Medians of the figures; a judged ratio is the median of the ratios within each round.
fn judge(target: Target, rounds: &Result<Vec<Round>>) -> Row {
    let outcome = match rounds {
        Ok(rounds) => figures(target.judged, rounds).ok_or_else(|| "nothing measured".to_owned()),
        Err(error) => Err(format!("{error:#}")),
    };
    Row { target, outcome }
}

fn figures(judged: Judged, rounds: &[Round]) -> Option<Figures> {
    let of = |pick: &dyn Fn(&Round) -> Option<f64>| {
        median(&rounds.iter().filter_map(pick).collect::<Vec<_>>())
    };
    let value = of(&|round| match judged {
        Judged::PerBare => round.bare.map(|bare| round.greenroom / bare),
        Judged::PerTmux => round.tmux.map(|tmux| round.greenroom / tmux),
        Judged::Itself => Some(round.greenroom),
    })?;
    Some(Figures {
        bare: of(&|round| round.bare),
        tmux: of(&|round| round.tmux),
        greenroom: of(&|round| Some(round.greenroom))?,
        value,
        rounds: rounds.len(),
    })
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn point(times: &[Duration], percent: usize) -> Result<Duration> {
    percentile(times, percent).context("nothing was timed")
}

fn drain(lab: &mut Lab) -> Vec<Row> {
    let mut rows = Vec::new();
    for (n, kind) in Kind::ALL.into_iter().enumerate() {
        let rounds = drained(lab, kind, false, Drained::mb_per_s);
        rows.push(judge(targets::DRAIN_BARE[n], &rounds));
        rows.push(judge(targets::DRAIN_TMUX[n], &rounds));
    }
    rows
}

fn raw(lab: &mut Lab) -> Vec<Row> {
    Kind::ALL
        .into_iter()
        .zip(targets::RAW_CPU)
        .map(|(kind, target)| judge(target, &drained(lab, kind, true, Drained::mb_per_cpu_s)))
        .collect()
}

fn drained(lab: &mut Lab, kind: Kind, raw: bool, rate: fn(&Drained) -> f64) -> Result<Vec<Round>> {
    let _awake = Spinners::if_needed()?;
    lab.so_many_rounds(lab.plan.drains, |contender, plan| {
        Ok(rate(&contender.drain(kind, plan.drain_bytes, raw)?))
    })
}

fn floods(lab: &mut Lab) -> Vec<Row> {
    let rounds = Spinners::if_needed().and_then(|_awake| {
        lab.rounds(|contender, plan| {
            Ok(contender.drain_many(plan.floods, plan.flood_bytes)?.mb_per_s())
        })
    });
    vec![judge(targets::FLOOD_50, &rounds)]
}

fn echo(lab: &mut Lab) -> Vec<Row> {
    let mut slow = Vec::new();
    let rounds = lab.rounds(|contender, plan| {
        let times = contender.echo(plan.keys)?;
        slow.push((contender.name(), micros(point(&times, 99)?)));
        Ok(micros(point(&times, 50)?))
    });
    let p99 = rounds.as_ref().map_err(|error| anyhow::anyhow!("{error:#}")).map(|_| {
        let of = |name| slow.iter().filter(move |(who, _)| *who == name).map(|(_, value)| *value);
        of("bare")
            .zip(of("tmux"))
            .zip(of("greenroom"))
            .map(|((bare, tmux), greenroom)| Round {
                bare: Some(bare),
                tmux: Some(tmux),
                greenroom,
            })
            .collect()
    });
    vec![judge(targets::ECHO_P50, &rounds), judge(targets::ECHO_P99, &p99)]
}

fn create(lab: &mut Lab) -> Vec<Row> {
    let rounds =
        lab.rounds(|contender, plan| Ok(millis(point(&contender.create(plan.creates)?, 50)?)));
    vec![judge(targets::CREATE, &rounds)]
}

/// Median start of a session at level full minus that of one without a sandbox, interleaved.
fn sandbox(lab: &mut Lab) -> Vec<Row> {
    let plan = lab.plan;
    let mut measure = || -> Result<Vec<Round>> {
        (0..plan.rounds)
            .map(|_| {
                let (open, confined) = lab.greenroom.create_confined(plan.creates)?;
                let added = millis(point(&confined, 50)?) - millis(point(&open, 50)?);
                Ok(Round { bare: None, tmux: None, greenroom: added })
            })
            .collect()
    };
    vec![judge(targets::SANDBOXED, &measure())]
}

/// Lines for a filter that is started for each: a hundredth of what one that stays gets.
const ONESHOT_LINES: usize = 100;

/// The same filter kept and started for each line; then a session whose lines a prefilter keeps
/// inside.
fn filters(lab: &mut Lab) -> Vec<Row> {
    let plan = lab.plan;
    let measure = || -> Result<(Vec<Round>, Vec<Round>)> {
        let mut host = Filtering::start(&lab.bin, lab.greenroom.programs())?;
        let (mut ratios, mut rates) = (Vec::new(), Vec::new());
        for _ in 0..plan.rounds {
            let oneshot = host.answered(Form::Oneshot, ONESHOT_LINES)?;
            let jsonl = host.answered(Form::Jsonl, plan.filtered)?;
            let ratio = jsonl / oneshot;
            ratios.push(Round { bare: None, tmux: None, greenroom: ratio });
            let plain = host.runs(None, plan.filtered * 10)?;
            let filtered = host.runs(Some(Form::Prefiltered), plan.filtered * 10)?;
            let rate = plain.as_secs_f64() / filtered.as_secs_f64();
            rates.push(Round { bare: None, tmux: None, greenroom: rate });
        }
        Ok((ratios, rates))
    };
    let (ratios, rates) = match measure() {
        Ok((ratios, rates)) => (Ok(ratios), Ok(rates)),
        Err(error) => {
            let text = format!("{error:#}");
            (Err(anyhow::anyhow!(text.clone())), Err(anyhow::anyhow!(text)))
        }
    };
    vec![judge(targets::JSONL, &ratios), judge(targets::PREFILTERED, &rates)]
}

/// A filter that sleeps over every line: the session must not notice.
fn sleeping(lab: &mut Lab) -> Vec<Row> {
    let plan = lab.plan;
    let row = |value| Round { bare: None, tmux: None, greenroom: value };
    let measure = |what: fn(&mut Sleeping, Plan, usize) -> Result<f64>| -> Result<Vec<Round>> {
        let mut host = Sleeping::start(&lab.bin, lab.greenroom.programs())?;
        (0..plan.drains).map(|n| what(&mut host, plan, n).map(row)).collect()
    };
    let drains = measure(|host, plan, n| host.drain(plan.drain_bytes, n));
    let echoes = measure(|host, plan, n| host.echo(plan.keys, n));
    vec![judge(targets::SLEEPING_DRAIN, &drains), judge(targets::SLEEPING_ECHO, &echoes)]
}

/// Somebody types while plugins misbehave.
fn hostile(lab: &mut Lab) -> Vec<Row> {
    let plan = lab.plan;
    let measure = || -> Result<Vec<Round>> {
        let mut host = Hostile::start(&lab.bin, lab.greenroom.programs())?;
        (0..plan.rounds)
            .map(|n| {
                let value = host.echo(plan.keys, n)?;
                Ok(Round { bare: None, tmux: None, greenroom: value })
            })
            .collect()
    };
    vec![judge(targets::HOSTILE_ECHO, &measure())]
}

/// How much slower a watched flood is when its watcher's stream is masked; the two hosts take
/// turns.
fn egress(lab: &mut Lab) -> Vec<Row> {
    let plan = lab.plan;
    let mut measure = || -> Result<Vec<Round>> {
        let _awake = Spinners::if_needed()?;
        let mut masking = lab.greenroom.masking()?;
        (0..plan.drains)
            .map(|n| {
                let bytes = plan.drain_bytes;
                let mut open = || lab.greenroom.drain_watched(Kind::Plain, bytes);
                let (masked, open) = match n % 2 {
                    0 => (masking.drain_watched(Kind::Plain, bytes)?, open()?),
                    _ => {
                        let open = open()?;
                        (masking.drain_watched(Kind::Plain, bytes)?, open)
                    }
                };
                Ok(Round { bare: None, tmux: None, greenroom: 100.0 * (1.0 - masked / open) })
            })
            .collect()
    };
    vec![judge(targets::EGRESS, &measure())]
}

fn snapshots(lab: &mut Lab) -> Vec<Row> {
    let rounds = lab.host_rounds(|host, plan| {
        Ok(plan.snapshots as f64 / host.snapshots(plan.snapshots)?.as_secs_f64())
    });
    vec![judge(targets::SNAPSHOTS, &rounds)]
}

/// A line every 2 ms: often enough for a percentile, rare enough that each is a wake-up of its own.
const TICK_US: u64 = 2000;

fn pushed(lab: &mut Lab) -> Vec<Row> {
    let rounds =
        lab.host_rounds(|host, plan| Ok(millis(point(&host.pushed(plan.ticks, TICK_US)?, 99)?)));
    vec![judge(targets::PUSHED, &rounds)]
}

/// Memory per session, then what the same sessions cost while nothing happens. One round: the
/// second would find the pages of the first already there and flatter everybody.
fn memory(lab: &mut Lab) -> Vec<Row> {
    let plan = lab.plan;
    let tmux = held_cost(&mut lab.tmux, plan).context("tmux");
    let greenroom = held_cost(&mut lab.greenroom, plan).context("greenroom");
    let rounds = |pick: fn(&Held) -> f64| -> Result<Vec<Round>> {
        match (&tmux, &greenroom) {
            (Ok(tmux), Ok(greenroom)) => {
                Ok(vec![Round { bare: None, tmux: Some(pick(tmux)), greenroom: pick(greenroom) }])
            }
            (Err(error), _) | (_, Err(error)) => Err(anyhow::anyhow!("{error:#}")),
        }
    };
    vec![
        judge(targets::MEMORY, &rounds(|held| held.kib_each)),
        judge(targets::IDLE_CPU, &rounds(|held| held.cpu_percent)),
        judge(targets::IDLE_WAKEUPS, &rounds(|held| held.wakeups_per_s)),
    ]
}

struct Held {
    kib_each: f64,
    cpu_percent: f64,
    wakeups_per_s: f64,
}

fn held_cost(host: &mut dyn Host, plan: Plan) -> Result<Held> {
    // One session before: code that is loaded once is not a cost per session.
    host.hold(1)?;
    let pids = host.pids()?;
    let before = settled_pss(&pids)?;
    host.hold(plan.held)?;
    let after = settled_pss(&pids)?;
    let (cpu, wakeups) = (crate::process::cpu(&pids)?, all_wakeups(&pids)?);
    let start = Instant::now();
    pause(plan.idle);
    let seconds = start.elapsed().as_secs_f64();
    let cpu = crate::process::cpu(&pids)?.saturating_sub(cpu);
    let wakeups = all_wakeups(&pids)?.saturating_sub(wakeups);
    host.let_go()?;
    Ok(Held {
        kib_each: (after as f64 - before as f64) / plan.held as f64,
        cpu_percent: cpu.as_secs_f64() / seconds * 100.0,
        wakeups_per_s: wakeups as f64 / seconds,
    })
}

fn all_wakeups(pids: &[u32]) -> Result<u64> {
    pids.iter().map(|pid| crate::process::wakeups(*pid)).sum()
}

/// Memory once it has stopped moving: a host may give pages back when a session falls idle.
fn settled_pss(pids: &[u32]) -> Result<u64> {
    let read = || pids.iter().map(|pid| crate::process::pss_kib(*pid)).sum::<Result<u64>>();
    let mut last = read()?;
    let mut same = 0;
    for _ in 0..60 {
        pause(Duration::from_millis(500));
        let now = read()?;
        same = if now.abs_diff(last) * 200 <= last { same + 1 } else { 0 };
        last = now;
        // Five seconds at rest: longer than any "idle for a moment" rule a host has.
        if same == 10 {
            break;
        }
    }
    Ok(last)
}

/// Time that must pass because time is what is measured.
fn pause(time: Duration) {
    let end = Instant::now() + time;
    while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    {
        std::thread::park_timeout(left);
    }
}

fn recovery(lab: &mut Lab) -> Vec<Row> {
    let plan = lab.plan;
    let mut measure = || -> Result<Vec<Round>> {
        lab.greenroom.hold(plan.recovered)?;
        let rounds = (0..plan.rounds)
            .map(|_| {
                let took = millis(lab.greenroom.recover()?);
                // Restarts in a row are held back on purpose; a lone crash is what is asked for
                // here.
                pause(CALM);
                Ok(Round { bare: None, tmux: None, greenroom: took })
            })
            .collect::<Result<Vec<_>>>();
        lab.greenroom.let_go()?;
        rounds
    };
    vec![judge(targets::RECOVERY, &measure())]
}

/// A daemon that lived this long does not count as crashing in a row.
const CALM: Duration = Duration::from_millis(10_500);

/// Cost of a start among few sessions and among many, each beside a bare start at the same moment:
/// the kernel's own growth is not ours.
fn growth(lab: &mut Lab) -> Vec<Row> {
    let plan = lab.plan;
    let tenth = plan.grown / 10;
    let mut measure = || -> Result<Vec<Round>> {
        let few = relative_cost(lab, tenth)?;
        lab.greenroom.hold_timed(plan.grown - 2 * tenth)?;
        let many = relative_cost(lab, tenth)?;
        lab.greenroom.let_go()?;
        Ok(vec![Round { bare: None, tmux: None, greenroom: many / few }])
    };
    vec![judge(targets::GROWTH, &measure())]
}

/// Median start in greenroom ÷ median bare start, interleaved.
fn relative_cost(lab: &mut Lab, count: usize) -> Result<f64> {
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..count {
        ours.extend(lab.greenroom.hold_timed(1)?);
        bare.extend(lab.bare.create(1)?);
    }
    Ok(micros(point(&ours, 50)?) / micros(point(&bare, 50)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_median_of_the_ratios_within_rounds() {
        let round = |bare, greenroom| Round { bare: Some(bare), tmux: None, greenroom };
        // A slow moment of the machine halves both figures of a round and must not change the
        // verdict.
        let rounds = [round(100.0, 90.0), round(50.0, 45.0), round(100.0, 91.0)];
        let figures = figures(Judged::PerBare, &rounds).unwrap();
        assert!((figures.value - 0.9).abs() < 1e-9, "{figures:?}");
        assert_eq!(figures.bare, Some(100.0));
        assert_eq!(figures.tmux, None);
        assert_eq!(figures.rounds, 3);
    }

    #[test]
    fn nothing_measured_is_not_a_pass() {
        let row = judge(targets::MEMORY, &Ok(Vec::new()));
        assert!(row.outcome.is_err());
    }
}

//! The machine against a world that does as it likes and may forget everything but what was written
//! down.

use std::collections::{BTreeMap, BTreeSet};

use greenroom_formats::connector::models::Candidate;
use greenroom_formats::connector::plan::{PlannedPhase, PlannedWorker};
use proptest::prelude::*;

use super::*;

const NOW: Timestamp = Timestamp(1);

fn phase(name: &str, needs: &[usize], workers: usize) -> PlannedPhase {
    PlannedPhase {
        name: name.to_owned(),
        needs: needs.to_vec(),
        at_once: workers,
        workers: vec![worker(1); workers],
        ..PlannedPhase::default()
    }
}

fn worker(candidates: usize) -> PlannedWorker {
    let candidate = Candidate {
        model: "m".into(),
        command: vec!["x".into()],
        prompt_via: Default::default(),
        adapter: None,
    };
    PlannedWorker { candidates: vec![candidate; candidates], ..PlannedWorker::default() }
}

fn plan(phases: Vec<PlannedPhase>) -> Plan {
    Plan { phases, ..Plan::default() }
}

fn job(phase: usize, worker: usize) -> Job {
    Job { phase, worker }
}

fn started(at: Job) -> Event {
    Event::Started { job: at, session: format!("s{}{}", at.phase, at.worker), branch: None }
}

fn ended(at: Job, ok: bool) -> Event {
    let why = (!ok).then(|| "it exited 1".to_owned());
    Event::Ended { job: at, ending: Ending { ok, exit: None, why } }
}

/// Starts and ends one worker.
fn work(machine: &mut Machine, at: Job, ok: bool) -> Vec<Order> {
    assert_eq!(machine.step(started(at), NOW), [Order::Watch(at)]);
    machine.step(ended(at, ok), NOW)
}

fn states(machine: &Machine) -> Vec<&'static str> {
    machine.progress.phases.iter().map(|phase| phase.state.word()).collect()
}

#[test]
fn phases_one_after_another_workers_at_once() {
    let mut machine = Machine::new(&plan(vec![phase("a", &[], 2), phase("b", &[0], 1)]), NOW);
    assert_eq!(machine.begin(NOW), [Order::Start(job(0, 0)), Order::Start(job(0, 1))]);
    assert_eq!(work(&mut machine, job(0, 1), true), []);
    assert_eq!(work(&mut machine, job(0, 0), true), [Order::PhaseOver(0), Order::Start(job(1, 0))]);
    assert_eq!(
        work(&mut machine, job(1, 0), true),
        [Order::PhaseOver(1), Order::RunOver(RunState::Done)]
    );
}

#[test]
fn a_limit_on_workers_at_once() {
    let limited = PlannedPhase { at_once: 1, ..phase("a", &[], 3) };
    let mut machine = Machine::new(&plan(vec![limited]), NOW);
    assert_eq!(machine.begin(NOW), [Order::Start(job(0, 0))]);
    assert_eq!(work(&mut machine, job(0, 0), true), [Order::Start(job(0, 1))]);
}

#[test]
fn retries_then_the_policy() {
    let policies = [
        (OnFailure::Stop, ["failed", "skipped", "skipped"]),
        (OnFailure::Continue, ["failed", "running", "running"]),
        (OnFailure::SkipDependents, ["failed", "skipped", "running"]),
    ];
    for (on_failure, expected) in policies {
        let first = PlannedPhase { retries: 1, on_failure, ..phase("a", &[], 1) };
        let phases =
            vec![first, phase("b", &[0], 1), PlannedPhase { needs: vec![], ..phase("c", &[], 1) }];
        let mut machine = Machine::new(&plan(phases), NOW);
        assert_eq!(machine.begin(NOW), [Order::Start(job(0, 0)), Order::Start(job(2, 0))]);
        assert_eq!(work(&mut machine, job(0, 0), false), [Order::Start(job(0, 0))], "once more");
        assert_eq!(machine.worker(job(0, 0)).attempt, 2);
        work(&mut machine, job(0, 0), false);
        // What was started may finish; only then is it known to be over.
        let mut expected = expected;
        if on_failure == OnFailure::Stop {
            assert_eq!(states(&machine), ["failed", "skipped", "running"]);
            work(&mut machine, job(2, 0), true);
            expected[2] = "done";
        }
        assert_eq!(states(&machine), expected, "{on_failure:?}");
    }
}

#[test]
fn a_missing_program_gives_way_to_the_next() {
    let mut first = phase("a", &[], 1);
    first.workers = vec![worker(2)];
    let mut machine = Machine::new(&plan(vec![first]), NOW);
    machine.begin(NOW);
    let missing = |why: &str| Event::NotStarted { job: job(0, 0), why: why.into(), missing: true };
    assert_eq!(machine.step(missing("no x"), NOW), [Order::Start(job(0, 0))]);
    assert_eq!((machine.worker(job(0, 0)).candidate, machine.worker(job(0, 0)).attempt), (1, 1));
    let orders = machine.step(missing("no y"), NOW);
    assert_eq!(orders, [Order::PhaseOver(0), Order::RunOver(RunState::Failed)]);
    assert_eq!(machine.worker(job(0, 0)).why.as_deref(), Some("no y"));
}

#[test]
fn a_cancel_stops_what_runs_and_starts_nothing() {
    let limited = PlannedPhase { at_once: 2, ..phase("a", &[], 3) };
    let mut machine = Machine::new(&plan(vec![limited, phase("b", &[0], 1)]), NOW);
    machine.begin(NOW);
    machine.step(started(job(0, 0)), NOW);
    let cancel = Event::Cancelled { why: "enough".into() };
    assert_eq!(machine.step(cancel, NOW), [Order::Stop(job(0, 0))]);
    // A session that was being made is stopped as soon as it is there.
    assert_eq!(
        machine.step(started(job(0, 1)), NOW),
        [Order::Watch(job(0, 1)), Order::Stop(job(0, 1))]
    );
    assert_eq!(machine.step(ended(job(0, 0), false), NOW), []);
    let orders = machine.step(ended(job(0, 1), false), NOW);
    assert_eq!(orders, [Order::PhaseOver(0), Order::RunOver(RunState::Cancelled)]);
    assert_eq!(states(&machine), ["cancelled", "cancelled"]);
}

#[test]
fn a_dialogue_ends_with_the_first_turn_that_fails() {
    let mut talk =
        PlannedPhase { at_once: 1, on_failure: OnFailure::Continue, ..phase("a", &[], 3) };
    for turn in &mut talk.workers {
        turn.turn = Some(greenroom_formats::connector::plan::Turn {
            speaker: "x".into(),
            role: None,
            round: 1,
            rounds: 1,
            speakers: vec![],
        });
    }
    let mut machine = Machine::new(&plan(vec![talk]), NOW);
    machine.begin(NOW);
    assert_eq!(
        work(&mut machine, job(0, 0), false),
        [Order::PhaseOver(0), Order::RunOver(RunState::Failed)]
    );
    assert_eq!(machine.worker(job(0, 1)).state, StepState::Skipped);
}

#[test]
fn what_was_written_down_of_another_plan_is_refused() {
    let one = plan(vec![phase("a", &[], 1)]);
    let two = plan(vec![phase("a", &[], 2)]);
    let progress = Machine::new(&one, NOW).progress;
    assert!(Machine::resumed(&two, progress.clone()).is_none());
    assert!(Machine::resumed(&one, progress).is_some());
}

/// Any plan of up to five phases, needs backwards only.
fn any_plan() -> impl Strategy<Value = Plan> {
    let policy =
        prop::sample::select(vec![OnFailure::Stop, OnFailure::Continue, OnFailure::SkipDependents]);
    let phase =
        (prop::collection::vec(1usize..3, 1..4), 1usize..4, 0u32..3, policy, any::<[bool; 5]>());
    prop::collection::vec(phase, 1..5).prop_map(|phases| {
        let made = phases.into_iter().enumerate().map(
            |(at, (workers, at_once, retries, on_failure, needs))| PlannedPhase {
                name: format!("p{at}"),
                needs: (0..at).filter(|need| needs[*need]).collect(),
                at_once,
                retries,
                on_failure,
                workers: workers.into_iter().map(worker).collect(),
                source: at,
            },
        );
        plan(made.collect())
    })
}

/// The world: sessions that exist, by job and try. A session is made at most once per try.
#[derive(Default)]
struct World {
    sessions: BTreeMap<(usize, usize, u32), bool>,
    starts: BTreeMap<(usize, usize), u32>,
    starting: BTreeSet<Job>,
    watched: BTreeSet<Job>,
    stopping: BTreeSet<Job>,
    over: Option<RunState>,
}

impl World {
    fn take(&mut self, orders: &[Order]) {
        for order in orders {
            match order {
                Order::Start(job) => drop(self.starting.insert(*job)),
                Order::Watch(job) => drop(self.watched.insert(*job)),
                Order::Stop(job) => drop(self.stopping.insert(*job)),
                Order::PhaseOver(_) => {}
                Order::RunOver(state) => {
                    assert!(self.over.is_none(), "it ended twice");
                    self.over = Some(*state);
                }
            }
        }
    }

    /// One of the things that can happen next, chosen by `dice`.
    fn happen(&mut self, machine: &Machine, dice: u32) -> Option<Event> {
        let choices: Vec<Job> = self.starting.iter().chain(&self.watched).copied().collect();
        let job = *choices.get(dice as usize % choices.len().max(1))?;
        let worker = machine.worker(job);
        let ok = (dice >> 8).is_multiple_of(3);
        if self.starting.remove(&job) {
            let key = (job.phase, job.worker, worker.attempt);
            if !self.sessions.contains_key(&key) && (dice >> 4).is_multiple_of(4) {
                let missing = (dice >> 6).is_multiple_of(2);
                return Some(Event::NotStarted { job, why: "no".into(), missing });
            }
            if self.sessions.insert(key, true).is_none() {
                *self.starts.entry((job.phase, job.worker)).or_default() += 1;
            }
            return Some(started(job));
        }
        self.watched.remove(&job);
        self.stopping.remove(&job);
        self.sessions.insert((job.phase, job.worker, worker.attempt), false);
        Some(ended(job, ok && !machine.progress.cancelled))
    }

    /// The daemon dies: orders are forgotten, sessions live on.
    fn forget(&mut self) {
        self.starting.clear();
        self.watched.clear();
        self.stopping.clear();
    }
}

fn check(plan: &Plan, machine: &Machine, world: &World) -> Result<(), TestCaseError> {
    for (at, phase) in machine.progress.phases.iter().enumerate() {
        let busy = phase
            .workers
            .iter()
            .filter(|worker| matches!(worker.state, StepState::Starting | StepState::Running));
        prop_assert!(busy.count() <= plan.phases[at].at_once, "too many at once");
        let begun = phase.workers.iter().any(|worker| worker.attempt > 0);
        for need in &plan.phases[at].needs {
            let need = machine.progress.phases[*need].state;
            prop_assert!(!begun || need.is_over(), "began before what it needs was over");
        }
        for (index, worker) in phase.workers.iter().enumerate() {
            prop_assert!(worker.attempt <= 1 + plan.phases[at].retries);
            let starts = world.starts.get(&(at, index)).copied().unwrap_or(0);
            prop_assert!(
                starts <= worker.attempt,
                "{starts} sessions for {} tries",
                worker.attempt
            );
        }
    }
    Ok(())
}

proptest! {
    /// A run always ends and keeps its rules, also with deaths of the daemon anywhere.
    #[test]
    fn it_always_ends(plan in any_plan(), dice in prop::collection::vec(any::<u32>(), 0..200), cancel_at in prop::option::of(0usize..60)) {
        let mut machine = Machine::new(&plan, NOW);
        let mut world = World::default();
        // A world that is out of dice goes on in a dull way.
        let dull = (0u32..2000).map(|n| n.wrapping_mul(2_654_435_761));
        let mut written = machine.progress.clone();
        world.take(&machine.begin(NOW));
        for (turn, dice) in dice.into_iter().chain(dull).enumerate() {
            if world.over.is_some() {
                break;
            }
            if dice.is_multiple_of(11) {
                // Dies: before the last step was written down, or after.
                if dice.is_multiple_of(2) {
                    written = machine.progress.clone();
                }
                let text = serde_json::to_string(&written).unwrap();
                machine = Machine::resumed(&plan, serde_json::from_str(&text).unwrap()).unwrap();
                // A step is only acted upon once it is written down, so what was not written down
                // did not happen to the world either.
                world.forget();
                world.take(&machine.begin(NOW));
                written = machine.progress.clone();
                check(&plan, &machine, &world)?;
                continue;
            }
            written = machine.progress.clone();
            let event = if cancel_at == Some(turn) {
                Some(Event::Cancelled { why: "enough".into() })
            } else {
                world.happen(&machine, dice)
            };
            let Some(event) = event else { continue };
            let orders = machine.step(event, NOW);
            written.clone_from(&machine.progress);
            if machine.progress.cancelled {
                prop_assert!(!orders.iter().any(|order| matches!(order, Order::Start(_))), "started after a cancel");
            }
            world.take(&orders);
            check(&plan, &machine, &world)?;
        }
        prop_assert!(world.over.is_some(), "stuck: {:?}", machine.progress);
        prop_assert!(machine.progress.phases.iter().all(|phase| phase.state.is_over()));
        prop_assert!(machine.progress.phases.iter().flat_map(|phase| &phase.workers).all(|worker| worker.state.is_over()));
        let failed = machine.progress.phases.iter().any(|phase| phase.state == StepState::Failed);
        prop_assert_eq!(world.over == Some(RunState::Done), machine.progress.phases.iter().all(|phase| phase.state == StepState::Done));
        prop_assert!(world.over != Some(RunState::Done) || !failed);
    }
}

/// From where it failed: what succeeded stays, tries are counted on, and as many are allowed as
/// before.
#[test]
fn a_run_that_failed_goes_on_from_there() {
    let mut phases = vec![phase("a", &[], 2), phase("b", &[0], 1)];
    phases[0].retries = 1;
    let plan = plan(phases);
    let mut machine = Machine::new(&plan, NOW);
    machine.begin(NOW);
    work(&mut machine, job(0, 0), true);
    assert_eq!(work(&mut machine, job(0, 1), false), [Order::Start(job(0, 1))]);
    work(&mut machine, job(0, 1), false);
    assert_eq!(
        (states(&machine), machine.progress.state),
        (vec!["failed", "skipped"], RunState::Failed)
    );
    let first = machine.worker(job(0, 0)).clone();
    let mut machine = Machine::again(&plan, machine.progress).unwrap();
    assert_eq!(machine.begin(NOW), [Order::Start(job(0, 1))]);
    assert_eq!((machine.worker(job(0, 0)), machine.worker(job(0, 1)).attempt), (&first, 3));
    assert_eq!(work(&mut machine, job(0, 1), false), [Order::Start(job(0, 1))]);
    assert_eq!(machine.worker(job(0, 1)).attempt, 4);
    let orders = work(&mut machine, job(0, 1), true);
    assert_eq!(orders, [Order::PhaseOver(0), Order::Start(job(1, 0))]);
    work(&mut machine, job(1, 0), true);
    assert_eq!(machine.progress.state, RunState::Done);
}

//! What happens next in a run: facts in, orders out. No clock, no process, no disk.
//!
//! The whole state is [`Progress`], which is written down after every step; [`Machine::resumed`]
//! goes on from one that was read again. Orders may be carried out twice by a daemon that died in
//! between, so whoever carries them out looks first whether it was done.
//!
//! A failed worker is tried again as often as its phase says. When that is used up, the phase's
//! policy decides: `stop` starts nothing more anywhere, `skip_dependents` leaves out what needs the
//! phase, `continue` goes on. What runs may always finish, except after a cancel.

use greenroom_formats::connector::Plan;
use greenroom_formats::connector::file::OnFailure;
use greenroom_formats::connector::plan::PlannedPhase;
use greenroom_protocol::Timestamp;
use greenroom_protocol::api::run::{RunState, StepState};
use greenroom_protocol::api::session::ExitStatus;
use serde::{Deserialize, Serialize};

/// A worker, by its place in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Job {
    pub phase: usize,
    pub worker: usize,
}

/// Something that the driver or a worker saw.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// The worker's session runs.
    Started { job: Job, session: String, branch: Option<String> },
    /// The worker got no session. `missing`: the program cannot be started here, another one might.
    NotStarted { job: Job, why: String, missing: bool },
    /// The worker is through with this attempt.
    Ended { job: Job, ending: Ending },
    /// Somebody wants it all to stop.
    Cancelled { why: String },
}

/// How an attempt ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ending {
    pub ok: bool,
    pub exit: Option<ExitStatus>,
    pub why: Option<String>,
}

/// Something that the driver is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Make a session for it, unless this attempt has one.
    Start(Job),
    /// Wait for the end of the session it has.
    Watch(Job),
    /// End its session.
    Stop(Job),
    /// Nothing of this phase will run again.
    PhaseOver(usize),
    /// Nothing will run again.
    RunOver(RunState),
}

/// The state of a run, as it is written down.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub phases: Vec<PhaseProgress>,
    pub state: RunState,
    /// Why nothing more is started.
    pub why: Option<String>,
    pub stopped: bool,
    pub cancelled: bool,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PhaseProgress {
    pub state: StepState,
    pub why: Option<String>,
    pub workers: Vec<WorkerProgress>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkerProgress {
    pub state: StepState,
    /// From 1; 0 before the first.
    pub attempt: u32,
    /// Attempts that were made before somebody asked to go on with a run that had ended.
    #[serde(default)]
    pub earlier: u32,
    /// Which of its programs.
    pub candidate: usize,
    pub session: Option<String>,
    pub branch: Option<String>,
    pub exit: Option<ExitStatus>,
    pub why: Option<String>,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

pub(crate) struct Machine {
    plan: Vec<PlannedPhase>,
    pub progress: Progress,
}

impl Machine {
    /// A run that begins now.
    pub(crate) fn new(plan: &Plan, now: Timestamp) -> Machine {
        let phases = plan.phases.iter().map(|phase| PhaseProgress {
            workers: vec![WorkerProgress::default(); phase.workers.len()],
            ..PhaseProgress::default()
        });
        let progress =
            Progress { phases: phases.collect(), started_at: now, ..Progress::default() };
        Machine::with(plan, progress)
    }

    /// A run of which this was written down. `None`: of another plan.
    pub(crate) fn resumed(plan: &Plan, progress: Progress) -> Option<Machine> {
        let fits =
            plan.phases.len() == progress.phases.len()
                && plan.phases.iter().zip(&progress.phases).all(|(planned, phase)| {
                    planned.workers.len() == phase.workers.len()
                        && planned.workers.iter().zip(&phase.workers).all(|(planned, worker)| {
                            worker.candidate < planned.candidates.len().max(1)
                        })
                });
        fits.then(|| Machine::with(plan, progress))
    }

    /// A run that has ended, from where it failed: what succeeded stays as it is, all else waits
    /// again. Its attempts are counted on, so that no session of an earlier one is taken for a new
    /// one's.
    pub(crate) fn again(plan: &Plan, mut progress: Progress) -> Option<Machine> {
        for (planned, phase) in plan.phases.iter().zip(&mut progress.phases) {
            if phase.state == StepState::Done {
                continue;
            }
            // A dialogue begins again from its first turn: the sessions of its speakers have ended.
            let in_turn = in_turn(planned);
            (phase.state, phase.why) = (StepState::Waiting, None);
            for worker in &mut phase.workers {
                if in_turn || worker.state != StepState::Done {
                    let (attempt, earlier) = (worker.attempt, worker.attempt);
                    *worker = WorkerProgress { attempt, earlier, ..WorkerProgress::default() };
                }
            }
        }
        let Progress { phases, started_at, .. } = progress;
        Machine::resumed(plan, Progress { phases, started_at, ..Progress::default() })
    }

    fn with(plan: &Plan, progress: Progress) -> Machine {
        Machine { plan: plan.phases.clone(), progress }
    }

    /// The first orders, or after a restart those that may not have been carried out.
    pub(crate) fn begin(&mut self, now: Timestamp) -> Vec<Order> {
        let mut orders = Vec::new();
        if self.progress.state != RunState::Running {
            return orders;
        }
        for job in self.jobs() {
            match self.worker(job).state {
                StepState::Starting => orders.push(Order::Start(job)),
                StepState::Running => {
                    orders.push(Order::Watch(job));
                    if self.progress.cancelled {
                        orders.push(Order::Stop(job));
                    }
                }
                _ => {}
            }
        }
        self.advance(now, &mut orders);
        orders
    }

    /// What follows from a fact. Facts about attempts that are over change nothing.
    pub(crate) fn step(&mut self, event: Event, now: Timestamp) -> Vec<Order> {
        let mut orders = Vec::new();
        if self.progress.state != RunState::Running {
            return orders;
        }
        match event {
            Event::Started { job, session, branch } => {
                if self.is(job, StepState::Starting) {
                    let cancelled = self.progress.cancelled;
                    let worker = self.worker_mut(job);
                    worker.state = StepState::Running;
                    worker.session = Some(session);
                    worker.branch = branch;
                    worker.started_at = Some(now);
                    orders.push(Order::Watch(job));
                    orders.extend(cancelled.then_some(Order::Stop(job)));
                }
            }
            Event::NotStarted { job, why, missing } => {
                if self.is(job, StepState::Starting) {
                    self.not_started(job, why, missing, now, &mut orders);
                }
            }
            Event::Ended { job, ending } => {
                if self.is(job, StepState::Running) {
                    self.ended(job, ending, now, &mut orders);
                }
            }
            Event::Cancelled { why } => self.cancel(why, &mut orders),
        }
        self.advance(now, &mut orders);
        orders
    }

    fn not_started(
        &mut self,
        job: Job,
        why: String,
        missing: bool,
        now: Timestamp,
        orders: &mut Vec<Order>,
    ) {
        let programs = self.plan[job.phase].workers[job.worker].candidates.len();
        let worker = self.worker_mut(job);
        if missing && worker.candidate + 1 < programs {
            worker.candidate += 1;
            worker.why = Some(why);
            if self.progress.cancelled {
                self.worker_mut(job).state = StepState::Cancelled;
            } else {
                orders.push(Order::Start(job));
            }
            return;
        }
        let ending = Ending { ok: false, exit: None, why: Some(why) };
        self.ended(job, ending, now, orders);
    }

    fn ended(&mut self, job: Job, ending: Ending, now: Timestamp, orders: &mut Vec<Order>) {
        let (cancelled, stopped) = (self.progress.cancelled, self.progress.stopped);
        let retries = self.plan[job.phase].retries;
        let worker = self.worker_mut(job);
        worker.exit = ending.exit;
        worker.ended_at = Some(now);
        if ending.ok {
            worker.state = StepState::Done;
            worker.why = None;
            return;
        }
        worker.why = ending.why;
        if cancelled {
            worker.state = StepState::Cancelled;
        } else if worker.attempt.saturating_sub(worker.earlier) <= retries && !stopped {
            worker.attempt += 1;
            worker.candidate = 0;
            worker.state = StepState::Starting;
            worker.session = None;
            worker.exit = None;
            worker.ended_at = None;
            orders.push(Order::Start(job));
        } else {
            worker.state = StepState::Failed;
            let why = worker.why.clone().unwrap_or_else(|| "it failed".to_owned());
            self.failed(job, &why);
        }
    }

    fn failed(&mut self, job: Job, why: &str) {
        let phase = &self.plan[job.phase];
        if phase.on_failure == OnFailure::Stop && !self.progress.stopped {
            self.progress.stopped = true;
            self.progress.why = Some(format!("a worker of {:?} failed: {why}", phase.name));
        }
    }

    fn cancel(&mut self, why: String, orders: &mut Vec<Order>) {
        if self.progress.cancelled {
            return;
        }
        self.progress.cancelled = true;
        self.progress.why = Some(why);
        let running = self.jobs().filter(|job| self.is(*job, StepState::Running));
        orders.extend(running.map(Order::Stop));
    }

    /// Everything that can go on goes on. Phases stand in an order that respects their needs, so
    /// one pass is enough.
    fn advance(&mut self, now: Timestamp, orders: &mut Vec<Order>) {
        for at in 0..self.plan.len() {
            if self.progress.phases[at].state == StepState::Waiting {
                self.enter(at);
            }
            if self.progress.phases[at].state == StepState::Running {
                self.start_workers(at, orders);
                self.leave(at, orders);
            }
        }
        let over = self.progress.phases.iter().all(|phase| phase.state.is_over());
        if over && self.progress.state == RunState::Running {
            self.progress.state = self.outcome();
            self.progress.ended_at = Some(now);
            orders.push(Order::RunOver(self.progress.state));
        }
    }

    fn enter(&mut self, at: usize) {
        let needs = &self.plan[at].needs;
        let state = |need: &usize| self.progress.phases[*need].state;
        let left_out = needs.iter().find(|need| {
            let dependents_too = self.plan[**need].on_failure == OnFailure::SkipDependents;
            match state(need) {
                StepState::Skipped => true,
                StepState::Failed => dependents_too,
                _ => false,
            }
        });
        if self.progress.cancelled {
            self.close(at, StepState::Cancelled, None);
        } else if self.progress.stopped {
            self.close(at, StepState::Skipped, self.progress.why.clone());
        } else if let Some(need) = left_out {
            let word = if state(need) == StepState::Failed { "failed" } else { "was left out" };
            let why = format!("{:?} {word}", self.plan[*need].name);
            self.close(at, StepState::Skipped, Some(why));
        } else if needs.iter().all(|need| state(need).is_over()) {
            self.progress.phases[at].state = StepState::Running;
        }
    }

    /// Ends a phase that never began.
    fn close(&mut self, at: usize, state: StepState, why: Option<String>) {
        let phase = &mut self.progress.phases[at];
        phase.state = state;
        phase.why = why;
        phase.workers.iter_mut().for_each(|worker| worker.state = state);
    }

    fn start_workers(&mut self, at: usize, orders: &mut Vec<Order>) {
        let workers = &self.progress.phases[at].workers;
        let broken = in_turn(&self.plan[at])
            && workers.iter().any(|worker| worker.state == StepState::Failed);
        let instead = if self.progress.cancelled {
            Some(StepState::Cancelled)
        } else {
            (self.progress.stopped || broken).then_some(StepState::Skipped)
        };
        let at_work = |worker: &WorkerProgress| {
            matches!(worker.state, StepState::Starting | StepState::Running)
        };
        let mut busy = workers.iter().filter(|worker| at_work(worker)).count();
        let at_once = self.plan[at].at_once;
        for (index, worker) in self.progress.phases[at].workers.iter_mut().enumerate() {
            if worker.state != StepState::Waiting {
                continue;
            }
            match instead {
                Some(state) => worker.state = state,
                None if busy < at_once => {
                    busy += 1;
                    worker.state = StepState::Starting;
                    worker.attempt += 1;
                    orders.push(Order::Start(Job { phase: at, worker: index }));
                }
                None => break,
            }
        }
    }

    fn leave(&mut self, at: usize, orders: &mut Vec<Order>) {
        let phase = &mut self.progress.phases[at];
        if !phase.workers.iter().all(|worker| worker.state.is_over()) {
            return;
        }
        let any = |state: &StepState| phase.workers.iter().any(|worker| worker.state == *state);
        let worst = [StepState::Failed, StepState::Cancelled, StepState::Skipped];
        phase.state = worst.into_iter().find(any).unwrap_or(StepState::Done);
        orders.push(Order::PhaseOver(at));
    }

    fn outcome(&self) -> RunState {
        let any = |state: StepState| self.progress.phases.iter().any(|phase| phase.state == state);
        // A cancel that came when all was done changed nothing.
        if self.progress.cancelled && any(StepState::Cancelled) {
            RunState::Cancelled
        } else if any(StepState::Failed) || any(StepState::Skipped) {
            RunState::Failed
        } else {
            RunState::Done
        }
    }

    fn jobs(&self) -> impl Iterator<Item = Job> + use<> {
        let counts: Vec<usize> = self.plan.iter().map(|phase| phase.workers.len()).collect();
        let job =
            |(phase, count): (usize, usize)| (0..count).map(move |worker| Job { phase, worker });
        counts.into_iter().enumerate().flat_map(job)
    }

    pub(crate) fn worker(&self, job: Job) -> &WorkerProgress {
        &self.progress.phases[job.phase].workers[job.worker]
    }

    pub(crate) fn worker_mut(&mut self, job: Job) -> &mut WorkerProgress {
        &mut self.progress.phases[job.phase].workers[job.worker]
    }

    fn is(&self, job: Job, state: StepState) -> bool {
        self.worker(job).state == state
    }
}

/// A dialogue: a turn makes no sense without the ones before it.
fn in_turn(phase: &PlannedPhase) -> bool {
    phase.workers.iter().any(|worker| worker.turn.is_some())
}

#[cfg(test)]
mod tests;

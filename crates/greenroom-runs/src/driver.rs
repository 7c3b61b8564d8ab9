//! One run at work: takes events from its workers, asks the machine, carries out orders.
//!
//! A step is written down before it is acted upon; see `machine` for why that is enough. The driver
//! ends with its run, or with the daemon: then the next one goes on from what is written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use greenroom_protocol::api::run::{RunInfo, RunState, StepState};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::attempt::Attempt;
use crate::files::{RunDir, RunRequest, write_json};
use crate::machine::{Event, Job, Machine, Order, Progress};
use crate::{HostEnd, Runs, Terminals, now, report};

/// Events waiting for the driver: workers wait when it is full.
const QUEUE: usize = 64;

/// The copy in the scratchpad.
const RUN_JSON: &str = "run.json";

/// A run goes on after this time, even if plugins of dead sessions still clean up.
const CLEAN_UP: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A run at work, for others.
#[derive(Clone)]
pub(crate) struct Handle {
    events: mpsc::Sender<Event>,
    progress: watch::Receiver<Arc<Progress>>,
    request: Arc<RunRequest>,
}

impl Handle {
    pub(crate) fn info(&self, detail: bool) -> RunInfo {
        report::info(&self.request, &self.progress.borrow(), now(), detail)
    }

    pub(crate) async fn tell(&self, event: Event) {
        // A driver that is gone has nothing left to hear.
        let _ = self.events.send(event).await;
    }

    pub(crate) async fn over(&self) -> RunState {
        let mut progress = self.progress.clone();
        let over = progress.wait_for(|progress| progress.state != RunState::Running).await;
        over.map_or(RunState::Running, |progress| progress.state)
    }
}

/// Sets a run going. `restarted`: an earlier daemon began it.
pub(crate) fn spawn(
    runs: &Arc<Runs>,
    dir: RunDir,
    request: RunRequest,
    machine: Machine,
    restarted: bool,
) {
    let (events, incoming) = mpsc::channel(QUEUE);
    let request = Arc::new(request);
    let shown = watch::Sender::new(Arc::new(machine.progress.clone()));
    let handle =
        Handle { events: events.clone(), progress: shown.subscribe(), request: request.clone() };
    runs.active().insert(request.run.clone(), handle);
    let (runs, ending) = (runs.clone(), BTreeMap::new());
    let driver = Driver { runs, dir, request, machine, events, shown, ending };
    tokio::spawn(driver.run(incoming, restarted));
}

struct Driver {
    runs: Arc<Runs>,
    dir: RunDir,
    request: Arc<RunRequest>,
    machine: Machine,
    events: mpsc::Sender<Event>,
    shown: watch::Sender<Arc<Progress>>,
    /// Ends that were ordered. Until one is through, its worker is at work.
    ending: BTreeMap<Job, JoinHandle<()>>,
}

impl Driver {
    async fn run(mut self, mut incoming: mpsc::Receiver<Event>, restarted: bool) {
        let terminals = self.runs.terminals.clone();
        let before = restarted.then(|| self.machine.progress.clone());
        if restarted {
            cleaned_up(&*terminals).await;
        }
        let orders = self.machine.begin(now());
        self.settle(before.as_ref(), orders).await;
        let mut leaving = false;
        while self.machine.progress.state == RunState::Running {
            let event = tokio::select! {
                // First: sessions that the host ends must not be taken for failures.
                biased;
                end = terminals.stopping(), if !leaving => match end {
                    // Sessions end with the host, for good: so does the run.
                    HostEnd::Shutdown => {
                        leaving = true;
                        Some(Event::Cancelled { why: "the host was shut down".to_owned() })
                    }
                    HostEnd::Handover => return,
                },
                event = incoming.recv() => event,
            };
            let Some(event) = event else { return };
            if let Event::Ended { job, .. } = event
                && let Some(end) = self.ending.remove(&job)
            {
                let events = self.events.clone();
                tokio::spawn(async move {
                    // However it went, nothing more can be done.
                    let _ = end.await;
                    events.send(event).await
                });
                continue;
            }
            let before = self.machine.progress.clone();
            let orders = self.machine.step(event, now());
            self.settle(Some(&before), orders).await;
        }
        self.runs.active().remove(&self.request.run);
    }

    /// Writes a step down, acts upon it, tells of it.
    async fn settle(&mut self, before: Option<&Progress>, orders: Vec<Order>) {
        let changed = before != Some(&self.machine.progress);
        if changed {
            self.leave_phases(&orders).await;
            self.keep(&self.machine.progress).await;
        }
        for order in orders {
            self.carry_out(order).await;
        }
        self.shown.send_replace(Arc::new(self.machine.progress.clone()));
        // Last: whoever hears of the end of the run finds everything done.
        if changed {
            report::tell(&*self.runs.terminals, &self.request, before, &self.machine.progress);
        }
    }

    async fn keep(&self, progress: &Progress) {
        let (dir, progress) = (self.dir.clone(), progress.clone());
        let info = report::info(&self.request, &progress, now(), true);
        let scratchpad = self.request.scratchpad.clone();
        let over = progress.state != RunState::Running;
        let bare = over.then(|| self.without_secrets());
        let kept = tokio::task::spawn_blocking(move || {
            let copy = write_json(&scratchpad.join(RUN_JSON), &info);
            bare.map_or(Ok(()), |bare| dir.write_request(&bare))?;
            dir.write_progress(&progress)?;
            copy
        });
        match kept.await {
            Ok(Ok(())) => {}
            // The run goes on; only its resumption suffers.
            Ok(Err(error)) => tracing::warn!(run = %self.request.run, %error, "writing a run down"),
            Err(error) => tracing::error!(run = %self.request.run, %error, "writing a run down"),
        }
    }

    /// What may stay on disk when nothing will be started any more.
    fn without_secrets(&self) -> RunRequest {
        let mut bare = RunRequest { inherit_env: None, ..(*self.request).clone() };
        for worker in bare.plan.phases.iter_mut().flat_map(|phase| &mut phase.workers) {
            worker.session.ask.env.0.values_mut().for_each(String::clear);
        }
        bare
    }

    async fn carry_out(&mut self, order: Order) {
        match order {
            Order::Start(job) => {
                let (attempt, events) = (self.attempt(job), self.events.clone());
                tokio::spawn(async move { events.send(attempt.start().await).await });
            }
            Order::Watch(job) => {
                let (attempt, events) = (self.attempt(job), self.events.clone());
                tokio::spawn(async move { events.send(attempt.watch().await).await });
            }
            Order::Stop(job) => {
                let session = self.machine.worker(job).session.clone();
                let terminals = self.runs.terminals.clone();
                if let Some(handle) = session.and_then(|id| terminals.find(&id)) {
                    let end = tokio::spawn(async move { terminals.end(&handle).await });
                    self.ending.insert(job, end);
                }
            }
            // The speakers of the phase were ended before its end was written down.
            Order::PhaseOver(_) => {}
            Order::RunOver(state) => {
                tracing::info!(run = %self.request.run, state = state.word(), "a run is over");
            }
        }
    }

    /// Ends the speakers that stayed until the end of their dialogue. Meanwhile their phase is
    /// written down as at work: a daemon that dies here leaves the rest to the next one.
    async fn leave_phases(&self, orders: &[Order]) {
        let mut meanwhile = self.machine.progress.clone();
        let mut stayed = Vec::new();
        for order in orders {
            let Order::PhaseOver(phase) = *order else { continue };
            let jobs =
                (0..meanwhile.phases[phase].workers.len()).map(|worker| Job { phase, worker });
            let attempts = jobs.map(|job| self.attempt(job)).filter(Attempt::stays);
            let sessions: BTreeSet<String> =
                attempts.filter_map(|attempt| attempt.session).collect();
            if !sessions.is_empty() {
                meanwhile.phases[phase].state = StepState::Running;
                stayed.extend(sessions);
            }
        }
        if stayed.is_empty() {
            return;
        }
        (meanwhile.state, meanwhile.ended_at) = (RunState::Running, None);
        self.keep(&meanwhile).await;
        for handle in stayed.iter().filter_map(|id| self.runs.terminals.find(id)) {
            self.runs.terminals.end(&handle).await;
        }
    }

    fn attempt(&self, job: Job) -> Attempt {
        let worker = self.machine.worker(job);
        Attempt {
            terminals: self.runs.terminals.clone(),
            request: self.request.clone(),
            dir: self.dir.clone(),
            job,
            number: worker.attempt,
            candidate: worker.candidate,
            session: worker.session.clone(),
            before: self.spoke_in(job),
            cancelled: self.machine.progress.cancelled,
        }
    }

    /// The session of this speaker's last turn.
    fn spoke_in(&self, job: Job) -> Option<String> {
        let planned = &self.request.plan.phases[job.phase].workers;
        let speaker = &planned[job.worker].turn.as_ref()?.speaker;
        let earlier = (0..job.worker).rev().find(|index| {
            let same = planned[*index].turn.as_ref().is_some_and(|turn| turn.speaker == *speaker);
            same && self.machine.worker(Job { worker: *index, ..job }).state == StepState::Done
        })?;
        self.machine.worker(Job { worker: earlier, ..job }).session.clone()
    }
}

/// Worktrees of sessions that died with the daemon are free once their plugins have cleaned up.
async fn cleaned_up(terminals: &dyn Terminals) {
    let deadline = tokio::time::Instant::now() + CLEAN_UP;
    while terminals.are_cleaning_up() && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

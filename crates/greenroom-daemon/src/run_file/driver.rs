//! One run at work: takes facts from its workers, asks the machine, carries out orders.
//!
//! A step is written down before it is acted upon; see `machine` for why that is enough. The driver
//! ends with its run, or with the daemon: then the next one goes on from what is written.

use std::sync::Arc;

use greenroom_protocol::api::run::{RunInfo, RunState, StepState};
use tokio::sync::{mpsc, watch};

use super::files::{RunDir, Written, write_json};
use super::machine::{Event, Job, Machine, Order, Progress};
use super::worker::Try;
use super::{cleaned_up, now, report, sessions};
use crate::host::Host;
use crate::lifecycle::Ending;

/// Facts waiting for the driver: workers wait when it is full.
const QUEUE: usize = 64;

/// The copy in the scratchpad.
const RUN_JSON: &str = "run.json";

/// Where a driver comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Start,
    Restart,
}

/// A run at work, for others.
#[derive(Clone)]
pub struct Handle {
    facts: mpsc::Sender<Event>,
    progress: watch::Receiver<Arc<Progress>>,
    written: Arc<Written>,
}

impl Handle {
    pub fn info(&self, detail: bool) -> RunInfo {
        report::info(&self.written, &self.progress.borrow(), now(), detail)
    }

    pub async fn tell(&self, event: Event) {
        // A driver that is gone has nothing left to hear.
        let _ = self.facts.send(event).await;
    }

    pub async fn over(&self) -> RunState {
        let mut progress = self.progress.clone();
        let over = progress.wait_for(|progress| progress.state != RunState::Running).await;
        over.map_or(RunState::Running, |progress| progress.state)
    }
}

pub fn spawn(host: &Arc<Host>, dir: RunDir, written: Written, machine: Machine, from: From) {
    let (facts, incoming) = mpsc::channel(QUEUE);
    let written = Arc::new(written);
    let shown = watch::Sender::new(Arc::new(machine.progress.clone()));
    let handle =
        Handle { facts: facts.clone(), progress: shown.subscribe(), written: written.clone() };
    host.runs.active().insert(written.run.clone(), handle);
    let driver = Driver { host: host.clone(), dir, written, machine, facts, shown };
    tokio::spawn(driver.run(incoming, from));
}

struct Driver {
    host: Arc<Host>,
    dir: RunDir,
    written: Arc<Written>,
    machine: Machine,
    facts: mpsc::Sender<Event>,
    shown: watch::Sender<Arc<Progress>>,
}

impl Driver {
    async fn run(mut self, mut incoming: mpsc::Receiver<Event>, from: From) {
        let mut stopping = self.host.life.stopping();
        let before = match from {
            From::Start => None,
            From::Restart => {
                cleaned_up(&self.host).await;
                Some(self.machine.progress.clone())
            }
        };
        let orders = self.machine.begin(now());
        self.settle(before.as_ref(), orders).await;
        let mut leaving = false;
        while self.machine.progress.state == RunState::Running {
            let event = tokio::select! {
                // First: sessions that the host ends must not be taken for failures.
                biased;
                why = stopping.reason(), if !leaving => match why {
                    // Sessions end with the host, for good: so does the run.
                    Ending::Shutdown { .. } => {
                        leaving = true;
                        Some(Event::Cancelled { why: "the host was shut down".to_owned() })
                    }
                    Ending::Stop | Ending::Upgrade | Ending::Orphaned => return,
                },
                event = incoming.recv() => event,
            };
            let Some(event) = event else { return };
            let before = self.machine.progress.clone();
            let orders = self.machine.step(event, now());
            self.settle(Some(&before), orders).await;
        }
        self.host.runs.active().remove(&self.written.run);
    }

    /// Writes a step down, acts upon it, tells of it.
    async fn settle(&mut self, before: Option<&Progress>, orders: Vec<Order>) {
        let changed = before != Some(&self.machine.progress);
        if changed {
            self.keep().await;
        }
        for order in orders {
            self.carry_out(order).await;
        }
        self.shown.send_replace(Arc::new(self.machine.progress.clone()));
        // Last: whoever hears of the end of the run finds everything done.
        if changed {
            report::tell(&self.host.storage, &self.written, before, &self.machine.progress);
        }
    }

    async fn keep(&self) {
        let (dir, progress) = (self.dir.clone(), self.machine.progress.clone());
        let info = report::info(&self.written, &progress, now(), true);
        let scratchpad = self.written.scratchpad.clone();
        let over = progress.state != RunState::Running;
        let bare = over.then(|| self.without_secrets());
        let kept = tokio::task::spawn_blocking(move || {
            let copy = write_json(&scratchpad, RUN_JSON, &info);
            bare.map_or(Ok(()), |bare| dir.write_plan(&bare))?;
            dir.write_progress(&progress)?;
            copy
        });
        match kept.await {
            Ok(Ok(())) => {}
            // The run goes on; only its resumption suffers.
            Ok(Err(error)) => tracing::warn!(run = %self.written.run, %error, "writing a run down"),
            Err(error) => tracing::error!(run = %self.written.run, %error, "writing a run down"),
        }
    }

    /// What may stay on disk when nothing will be started any more.
    fn without_secrets(&self) -> Written {
        let mut bare = Written { inherit_env: None, ..(*self.written).clone() };
        for worker in bare.plan.phases.iter_mut().flat_map(|phase| &mut phase.workers) {
            worker.session.env.0.values_mut().for_each(String::clear);
        }
        bare
    }

    async fn carry_out(&self, order: Order) {
        match order {
            Order::Start(job) => {
                let (this, facts) = (self.one_try(job), self.facts.clone());
                tokio::spawn(async move { facts.send(this.start().await).await });
            }
            Order::Watch(job) => {
                let (this, facts) = (self.one_try(job), self.facts.clone());
                tokio::spawn(async move { facts.send(this.watch().await).await });
            }
            Order::Stop(job) => {
                let session = self.machine.worker(job).session.clone();
                let handle = session.and_then(|id| self.host.engine.find(&id).ok());
                if let Some(handle) = handle {
                    let host = self.host.clone();
                    tokio::spawn(async move { sessions::end(&host, &handle).await });
                }
            }
            Order::PhaseOver(phase) => self.end_phase(phase).await,
            Order::RunOver(state) => {
                tracing::info!(run = %self.written.run, state = state.word(), "a run is over");
            }
        }
    }

    /// Speakers that stayed until the end of their dialogue.
    async fn end_phase(&self, phase: usize) {
        let workers = &self.machine.progress.phases[phase].workers;
        let sessions = workers.iter().filter_map(|worker| worker.session.as_ref());
        for id in sessions {
            if let Ok(handle) = self.host.engine.find(id)
                && handle.change().ended.is_none()
            {
                sessions::end(&self.host, &handle).await;
            }
        }
    }

    fn one_try(&self, job: Job) -> Try {
        let worker = self.machine.worker(job);
        Try {
            host: self.host.clone(),
            written: self.written.clone(),
            dir: self.dir.clone(),
            job,
            attempt: worker.attempt,
            candidate: worker.candidate,
            session: worker.session.clone(),
            before: self.spoke_in(job),
            cancelled: self.machine.progress.cancelled,
        }
    }

    /// The session of this speaker's last turn.
    fn spoke_in(&self, job: Job) -> Option<String> {
        let planned = &self.written.plan.phases[job.phase].workers;
        let speaker = &planned[job.worker].turn.as_ref()?.speaker;
        let earlier = (0..job.worker).rev().find(|index| {
            let same = planned[*index].turn.as_ref().is_some_and(|turn| turn.speaker == *speaker);
            same && self.machine.worker(Job { worker: *index, ..job }).state == StepState::Done
        })?;
        self.machine.worker(Job { worker: earlier, ..job }).session.clone()
    }
}

//! Workers: programs of plugins on pipes. They end with the daemon that asked for them.
//!
//! In: a sealed plan and three fds; stages that say something; exits; a daemon that is gone. Out: processes started and ended,
//! and a message for each of both. A worker is forgotten when it is reaped: nobody takes one over. Its pipes are never held
//! here, so the keeper keeps nobody's stdout open. Absent on purpose: what a worker is for, and any restart.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::handover::HeldWorker;
use crate::keeper::Keeper;
use crate::launch::Fault;
use crate::message::{ExitStatus, SpawnStep, ToDaemon, WorkerId};
use crate::replace::Replacement;
use crate::signals::{kill_group, kill_process, signal_pidfd};
use crate::staging::{Inside, Staged, Staging};

/// Far above what the daemon starts at once (8 calls and some persistent ones); each is a few processes.
pub(crate) const MAX_WORKERS: usize = 256;
/// For a worker in a pid namespace that was ended in order; a few milliseconds are usual.
const END_PATIENCE: Duration = Duration::from_millis(1500);

#[derive(Debug)]
struct Worker {
    pid: i32,
    /// Its stage has not become the program yet.
    staging: Option<Staging>,
    watched: bool,
    /// The program inside of a pid namespace.
    inner: Option<OwnedFd>,
    /// Where it looks for the proxy, until the daemon has it.
    listener: Option<OwnedFd>,
    /// Asked to end; killed at this time.
    kill_at: Option<Instant>,
    ending: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Workers {
    held: BTreeMap<WorkerId, Worker>,
    /// Not reaped yet.
    by_pid: HashMap<i32, WorkerId>,
    /// Of a daemon that is gone: only to be reaped. The next daemon may use their numbers again.
    leaving: HashMap<i32, Worker>,
}

impl Workers {
    fn insert(&mut self, id: WorkerId, worker: Worker) {
        self.by_pid.insert(worker.pid, id);
        self.held.insert(id, worker);
    }

    /// Taken over from the keeper's previous image.
    pub(crate) fn adopt(held: Vec<HeldWorker>) -> Workers {
        let mut workers = Workers::default();
        for HeldWorker { id, pid, watched } in held {
            workers.insert(id, Worker::new(pid, None, watched));
        }
        workers
    }

    pub(crate) fn held(&self) -> Vec<HeldWorker> {
        let held = |(id, worker): (&WorkerId, &Worker)| HeldWorker {
            id: *id,
            pid: worker.pid,
            watched: worker.watched,
        };
        self.held.iter().map(held).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.leaving.is_empty()
    }

    pub(crate) fn is_staging(&self) -> bool {
        self.held.values().any(|worker| worker.staging.is_some())
    }

    pub(crate) fn staging(&self) -> impl Iterator<Item = (WorkerId, BorrowedFd<'_>)> {
        self.held.iter().filter_map(|(id, worker)| Some((*id, worker.staging.as_ref()?.as_fd())))
    }

    pub(crate) fn listener(&self, id: WorkerId) -> Option<BorrowedFd<'_>> {
        self.held.get(&id)?.listener.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn holds(&self, id: WorkerId) -> bool {
        self.held.contains_key(&id)
    }

    pub(crate) fn by_pid(&self, pid: i32) -> Option<WorkerId> {
        self.by_pid.get(&pid).copied()
    }

    pub(crate) fn knows(&self, pid: i32) -> bool {
        self.by_pid.contains_key(&pid) || self.leaving.contains_key(&pid)
    }

    /// When the next one that takes too long must be killed.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let due = |worker: &Worker| {
            let staging = worker.staging.as_ref().and_then(|staging| staging.kill_at);
            [worker.kill_at, staging].into_iter().flatten().min()
        };
        self.held.values().chain(self.leaving.values()).filter_map(due).min()
    }

    /// Ends everybody, and forgets who they were.
    fn abandon(&mut self) {
        self.by_pid.clear();
        for mut worker in std::mem::take(&mut self.held).into_values() {
            worker.end();
            self.leaving.insert(worker.pid, worker);
        }
    }

    fn forget(&mut self, id: WorkerId) -> Option<Worker> {
        let worker = self.held.remove(&id)?;
        self.by_pid.remove(&worker.pid);
        Some(worker)
    }
}

impl Worker {
    fn new(pid: i32, staging: Option<Staging>, watched: bool) -> Worker {
        let (inner, listener, kill_at) = (None, None, None);
        Worker { pid, staging, watched, inner, listener, kill_at, ending: false }
    }

    /// The end of `pid` must come last, so that it means the end of everything. A watcher is asked: with it gone, nobody would
    /// find the rest. In a pid namespace the program is killed: the first process there takes all others along, and the stage
    /// waits for it. What is not that far yet has started nothing.
    fn end(&mut self) {
        if self.ending {
            return;
        }
        self.ending = true;
        match &self.inner {
            // Without a deadline: it never gives up, and killed it would set everybody free.
            _ if self.watched => {
                let _ = kill_process(self.pid, libc::SIGTERM);
                // Whoever stopped it must not save itself by that.
                let _ = kill_process(self.pid, libc::SIGCONT);
            }
            Some(program) => {
                self.kill_at = Some(Instant::now() + END_PATIENCE);
                let _ = signal_pidfd(program.as_fd(), libc::SIGKILL, false);
            }
            None => {
                let _ = kill_group(self.pid, libc::SIGKILL);
            }
        }
    }

    fn kill_if_late(&mut self, now: Instant) -> bool {
        let late = |at: &mut Option<Instant>| match *at {
            Some(due) if due <= now => at.take().is_some(),
            _ => false,
        };
        // A stage that is late has no program yet, whoever would watch over it.
        let stage = self.staging.as_mut().is_some_and(|staging| late(&mut staging.kill_at));
        let late = late(&mut self.kill_at) || stage;
        if late {
            let _ = kill_group(self.pid, libc::SIGKILL);
        }
        late
    }
}

impl Keeper {
    pub(crate) fn work(&mut self, id: WorkerId, watched: bool, fds: Vec<OwnedFd>) {
        if let Err(Fault { step, errno }) = self.try_work(id, watched, &fds) {
            self.work_failed(id, step, errno, String::new());
        }
    }

    fn try_work(&mut self, id: WorkerId, watched: bool, fds: &[OwnedFd]) -> Result<(), Fault> {
        let fault = |step, errno| Fault { step, errno };
        if self.ending.is_some() {
            return Err(fault(SpawnStep::Id, libc::ESHUTDOWN));
        }
        if self.workers.holds(id) {
            return Err(fault(SpawnStep::Id, libc::EEXIST));
        }
        if self.workers.held.len() >= MAX_WORKERS {
            return Err(fault(SpawnStep::Id, libc::ENOSPC));
        }
        // The image that is about to go cannot hand a stage over.
        if matches!(self.replacement, Some(Replacement::Telling { .. })) {
            return Err(fault(SpawnStep::Id, libc::EAGAIN));
        }
        let [plan, stdin, stdout, stderr] = fds else {
            return Err(fault(SpawnStep::Spec, libc::EBADF));
        };
        let stdio = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let staging = Staging::start_worker(plan.as_fd(), stdio, &self.starter())?;
        self.workers.insert(id, Worker::new(staging.pid, Some(staging), watched));
        Ok(())
    }

    fn work_failed(&mut self, id: WorkerId, step: SpawnStep, errno: i32, why: String) {
        self.outbox.push(ToDaemon::WorkFailed { id, step, errno, why });
    }

    /// Hears what a worker's stage has to say. `reaped`: it will say no more.
    pub(crate) fn settle_worker(&mut self, id: WorkerId, reaped: bool) {
        let Some(worker) = self.workers.held.get_mut(&id) else { return };
        let Some(staging) = &mut worker.staging else { return };
        let staged = match staging.look() {
            Staged::NotYet if reaped => staging.died(),
            staged => staged,
        };
        match staged {
            Staged::NotYet => {}
            Staged::Running(Inside { inner, listener, .. }) => {
                worker.staging = None;
                worker.inner = inner;
                let message =
                    ToDaemon::Working { id, pid: worker.pid, listener: listener.is_some() };
                worker.listener = listener;
                self.outbox.push(message);
            }
            Staged::Failed(Fault { step, errno }, why) => {
                worker.staging = None;
                // Told once: what is left of it is reaped in silence. It has no program, so there is nobody to ask.
                if !reaped {
                    let _ = kill_group(worker.pid, libc::SIGKILL);
                }
                self.workers.forget(id);
                self.work_failed(id, step, errno, why);
            }
        }
    }

    /// A reaped process that was a worker's. `false` if it was not.
    pub(crate) fn worker_ended(&mut self, pid: i32, status: ExitStatus) -> bool {
        if self.workers.knows(pid) {
            // It may have been killed with others below it.
            self.look_for_strays();
        }
        if self.workers.leaving.remove(&pid).is_some() {
            return true;
        }
        let Some(id) = self.workers.by_pid(pid) else {
            return false;
        };
        self.settle_worker(id, true);
        if self.workers.forget(id).is_some() {
            self.outbox.push(ToDaemon::WorkEnded { id, status });
        }
        true
    }

    pub(crate) fn end_work(&mut self, id: WorkerId) {
        if let Some(worker) = self.workers.held.get_mut(&id) {
            worker.end();
        }
    }

    /// Nobody is there who could use them.
    pub(crate) fn end_all_work(&mut self) {
        if !self.workers.held.is_empty() {
            self.log.say(format_args!("ending {} workers", self.workers.held.len()));
        }
        self.workers.abandon();
    }

    pub(crate) fn kill_late_workers(&mut self, now: Instant) {
        let (held, leaving) = (&mut self.workers.held, &mut self.workers.leaving);
        for worker in held.values_mut().chain(leaving.values_mut()) {
            if worker.kill_if_late(now) {
                self.log.say(format_args!("worker {} does not end: killed", worker.pid));
            }
        }
    }
}

//! Piped programs: programs of plugins on pipes. They end with the daemon that asked for them.
//!
//! In: a sealed plan and three fds; stages that say something; exits; a daemon that is gone. Out:
//! processes started and ended, and a message for each of both. A piped program is forgotten when
//! it is reaped: nobody takes one over. Its pipes are never held here, so the keeper keeps nobody's
//! stdout open. Absent on purpose: what a piped program is for, and any restart.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use greenroom_sandbox::layout;

use crate::keeper::Keeper;
use crate::launch::SpawnError;
use crate::message::{ExitStatus, PipedId, SpawnStep, ToDaemon, reason};
use crate::replace::Replacement;
use crate::signals::{kill_group, kill_process, signal_pidfd};
use crate::staging::{Inside, Staged, Staging};

/// Far above what the daemon starts at once (8 calls and some persistent ones); each is a few
/// processes.
pub(crate) const MAX_PIPED: usize = 256;
/// For a piped program in a pid namespace that was ended in order; a few milliseconds are usual.
const END_PATIENCE: Duration = Duration::from_millis(1500);

/// A piped program of the old daemon, to be ended with that daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HeldPiped {
    pub(crate) id: PipedId,
    pub(crate) pid: i32,
    pub(crate) watched: bool,
}

layout!(struct HeldPiped { id, pid, watched });

#[derive(Debug)]
struct PipedProgram {
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
pub(crate) struct PipedPrograms {
    held: BTreeMap<PipedId, PipedProgram>,
    /// Not reaped yet.
    by_pid: HashMap<i32, PipedId>,
    /// Programs of a daemon that is gone: only to be reaped. The next daemon may use their numbers
    /// again.
    leaving: HashMap<i32, PipedProgram>,
}

impl PipedPrograms {
    fn insert(&mut self, id: PipedId, piped: PipedProgram) {
        self.by_pid.insert(piped.pid, id);
        self.held.insert(id, piped);
    }

    /// Taken over from the keeper's previous image.
    pub(crate) fn adopt(held: Vec<HeldPiped>) -> PipedPrograms {
        let mut piped = PipedPrograms::default();
        for HeldPiped { id, pid, watched } in held {
            piped.insert(id, PipedProgram::new(pid, None, watched));
        }
        piped
    }

    pub(crate) fn held(&self) -> Vec<HeldPiped> {
        let held = |(id, piped): (&PipedId, &PipedProgram)| HeldPiped {
            id: *id,
            pid: piped.pid,
            watched: piped.watched,
        };
        self.held.iter().map(held).collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.leaving.is_empty()
    }

    pub(crate) fn is_staging(&self) -> bool {
        self.held.values().any(|piped| piped.staging.is_some())
    }

    pub(crate) fn staging(&self) -> impl Iterator<Item = (PipedId, BorrowedFd<'_>)> {
        self.held.iter().filter_map(|(id, piped)| Some((*id, piped.staging.as_ref()?.as_fd())))
    }

    pub(crate) fn listener(&self, id: PipedId) -> Option<BorrowedFd<'_>> {
        self.held.get(&id)?.listener.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn holds(&self, id: PipedId) -> bool {
        self.held.contains_key(&id)
    }

    pub(crate) fn by_pid(&self, pid: i32) -> Option<PipedId> {
        self.by_pid.get(&pid).copied()
    }

    pub(crate) fn knows(&self, pid: i32) -> bool {
        self.by_pid.contains_key(&pid) || self.leaving.contains_key(&pid)
    }

    /// When the next one that takes too long must be killed.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let due = |piped: &PipedProgram| {
            let staging = piped.staging.as_ref().and_then(|staging| staging.kill_at);
            [piped.kill_at, staging].into_iter().flatten().min()
        };
        self.held.values().chain(self.leaving.values()).filter_map(due).min()
    }

    /// Ends everybody, and forgets who they were.
    fn abandon(&mut self) {
        self.by_pid.clear();
        for mut piped in std::mem::take(&mut self.held).into_values() {
            piped.end();
            self.leaving.insert(piped.pid, piped);
        }
    }

    fn forget(&mut self, id: PipedId) -> Option<PipedProgram> {
        let piped = self.held.remove(&id)?;
        self.by_pid.remove(&piped.pid);
        Some(piped)
    }
}

impl PipedProgram {
    fn new(pid: i32, staging: Option<Staging>, watched: bool) -> PipedProgram {
        let (inner, listener, kill_at) = (None, None, None);
        PipedProgram { pid, staging, watched, inner, listener, kill_at, ending: false }
    }

    /// The end of `pid` must come last, so that it means the end of everything. A watcher is asked:
    /// with it gone, nobody would find the rest. In a pid namespace the program is killed: the
    /// first process there takes all others along, and the stage waits for it. What is not that far
    /// yet has started nothing.
    fn end(&mut self) {
        if self.ending {
            return;
        }
        self.ending = true;
        match &self.inner {
            // Without a deadline: it never gives up, and killed it would set everybody free.
            _ if self.watched => {
                let _ = kill_process(self.pid, libc::SIGTERM);
                // A program that stopped its watcher must not save itself by that.
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
    pub(crate) fn start_piped(&mut self, id: PipedId, watched: bool, fds: Vec<OwnedFd>) {
        if let Err(SpawnError { step, errno }) = self.try_start_piped(id, watched, &fds) {
            self.piped_failed(id, step, errno, String::new());
        }
    }

    fn try_start_piped(
        &mut self,
        id: PipedId,
        watched: bool,
        fds: &[OwnedFd],
    ) -> Result<(), SpawnError> {
        let fault = |step, errno| SpawnError { step, errno };
        if self.ending.is_some() {
            return Err(fault(SpawnStep::Id, libc::ESHUTDOWN));
        }
        if self.piped.holds(id) {
            return Err(fault(SpawnStep::Id, libc::EEXIST));
        }
        if self.piped.held.len() >= MAX_PIPED {
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
        let staging = Staging::start_piped(plan.as_fd(), stdio, &self.starter())?;
        self.piped.insert(id, PipedProgram::new(staging.pid, Some(staging), watched));
        Ok(())
    }

    fn piped_failed(&mut self, id: PipedId, step: SpawnStep, errno: i32, why: String) {
        self.outbox.push(ToDaemon::PipedFailed { id, step, errno, why: reason(why) });
    }

    /// Hears what a piped program's stage has to say. `reaped`: it will say no more.
    pub(crate) fn settle_piped(&mut self, id: PipedId, reaped: bool) {
        let Some(piped) = self.piped.held.get_mut(&id) else { return };
        let Some(staging) = &mut piped.staging else { return };
        let staged = match staging.look() {
            Staged::NotYet if reaped => staging.died(),
            staged => staged,
        };
        match staged {
            Staged::NotYet => {}
            Staged::Running(Inside { inner, listener, .. }) => {
                piped.staging = None;
                piped.inner = inner;
                piped.listener = listener;
                let listener = piped.listener.as_ref().map(drop);
                self.outbox.push(ToDaemon::PipedStarted { id, pid: piped.pid, listener });
            }
            Staged::Failed(SpawnError { step, errno }, why) => {
                piped.staging = None;
                // The daemon is told once: the stage is reaped later without a message. It has no
                // program that could be asked to end.
                if !reaped {
                    let _ = kill_group(piped.pid, libc::SIGKILL);
                }
                self.piped.forget(id);
                self.piped_failed(id, step, errno, why);
            }
        }
    }

    /// A reaped process that was a piped program's. `false` if it was not.
    pub(crate) fn piped_ended(&mut self, pid: i32, status: ExitStatus) -> bool {
        if self.piped.knows(pid) {
            // If it was killed, what was below it has become the keeper's children.
            self.look_for_strays();
        }
        if self.piped.leaving.remove(&pid).is_some() {
            return true;
        }
        let Some(id) = self.piped.by_pid(pid) else {
            return false;
        };
        self.settle_piped(id, true);
        if self.piped.forget(id).is_some() {
            self.outbox.push(ToDaemon::PipedEnded { id, status });
        }
        true
    }

    pub(crate) fn end_piped(&mut self, id: PipedId) {
        if let Some(piped) = self.piped.held.get_mut(&id) {
            piped.end();
        }
    }

    /// Without their daemon nobody can use them.
    pub(crate) fn end_all_piped(&mut self) {
        if !self.piped.held.is_empty() {
            self.log.say(format_args!("ending {} piped programs", self.piped.held.len()));
        }
        self.piped.abandon();
    }

    pub(crate) fn kill_late_piped(&mut self, now: Instant) {
        let (held, leaving) = (&mut self.piped.held, &mut self.piped.leaving);
        for piped in held.values_mut().chain(leaving.values_mut()) {
            if piped.kill_if_late(now) {
                self.log.say(format_args!("piped program {} does not end: killed", piped.pid));
            }
        }
    }
}

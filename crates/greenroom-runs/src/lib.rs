//! Connector files being carried out: `greenroom run`.
//!
//! In: a connector file. Out: sessions, one after another and beside each other as the file says,
//! events, and `run.json`. The run belongs to the daemon: whoever started it may go away.
//!
//! | room | what it is |
//! |---|---|
//! | `start` | from a file to a run that begins, is resumed, or is only shown |
//! | `machine` | decides what happens next |
//! | `driver` | carries out what the machine decided |
//! | `attempt` | one attempt of one worker: its session, its prompt, its end |
//! | `worktrees` | keeps runs out of each other's worktrees |
//! | `files` | what is on disk, so that a daemon that dies does not take a run along |
//! | `report` | what others see of a run |
//! | `terminals` | the role that the host plays for runs |
//!
//! Deliberately absent: reading the file (`greenroom_formats`), and what a session is
//! (`greenroom_engine`).
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod attempt;
mod driver;
mod files;
mod machine;
mod report;
mod start;
mod terminals;
mod worktrees;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use greenroom_protocol::api::run::{RunInfo, RunState};
use greenroom_protocol::{Fault, FaultKind, Timestamp};

use driver::Handle;
use files::{FilesError, RunDir, RunsDir};
use machine::{Event, Machine};
pub use terminals::{Ended, HostEnd, Later, Terminals};

/// Stands for the newest run.
const LAST: &str = "last";

/// Runs at work at the same time.
const RUNNING_MAX: usize = 32;

/// The last steps of runs when the host goes down.
const LAST_NOTES: Duration = Duration::from_secs(5);

pub struct Runs {
    terminals: Arc<dyn Terminals>,
    dir: RunsDir,
    active: Mutex<BTreeMap<String, Handle>>,
    /// Held while a run is resumed: nobody else may resume the same one.
    resuming: Mutex<()>,
}

impl Runs {
    pub fn new(state: &Path, terminals: Arc<dyn Terminals>) -> Runs {
        let (active, resuming) = (Mutex::default(), Mutex::default());
        Runs { terminals, dir: RunsDir::new(state), active, resuming }
    }

    pub fn list(&self, detail: bool) -> Vec<RunInfo> {
        self.dir.all().iter().filter_map(|dir| self.look(dir, detail)).collect()
    }

    pub fn info(&self, run: &str) -> Result<RunInfo, Fault> {
        let dir = self.find(run)?;
        self.look(&dir, true).ok_or_else(|| unknown(&dir.run))
    }

    /// Stops a run and answers when nothing of it runs any more: its state, and whether it had
    /// ended before.
    pub async fn cancel(&self, run: &str, why: &str) -> Result<(RunState, bool), Fault> {
        let RunDir { run, .. } = self.find(run)?;
        let handle = self.active().get(&run).cloned();
        let Some(handle) = handle else { return Ok((self.info(&run)?.state, true)) };
        handle.tell(Event::Cancelled { why: why.to_owned() }).await;
        Ok((handle.over().await, false))
    }

    /// After the daemon's start: goes on with the runs that an earlier one left.
    pub fn recover(self: &Arc<Runs>) {
        let mut left = Vec::new();
        for dir in self.dir.all() {
            let run = &dir.run;
            match (dir.request(), dir.progress()) {
                (Ok(request), Ok(progress)) if progress.state == RunState::Running => {
                    match Machine::resumed(&request.plan, progress) {
                        Some(machine) => left.push((dir, request, machine)),
                        None => tracing::error!(%run, "its files are of two different runs"),
                    }
                }
                (Ok(_), Ok(_)) => {}
                // The daemon died between taking an id and writing the plan: nothing was started.
                (Err(error), _) | (_, Err(error)) => {
                    tracing::debug!(%run, %error, "no run to resume");
                }
            }
        }
        for (dir, request, machine) in left {
            tracing::info!(run = %request.run, "going on with a run");
            driver::spawn(self, dir, request, machine, true);
        }
    }

    /// When the host goes down and its sessions have ended: until the runs have noted that, too.
    pub async fn settled(&self) {
        let active: Vec<Handle> = self.active().values().cloned().collect();
        let all = async {
            for handle in active {
                handle.over().await;
            }
        };
        if tokio::time::timeout(LAST_NOTES, all).await.is_err() {
            tracing::warn!("a run did not end with its sessions; the next host finishes it");
        }
    }

    fn look(&self, dir: &RunDir, detail: bool) -> Option<RunInfo> {
        if let Some(handle) = self.active().get(&dir.run) {
            return Some(handle.info(detail));
        }
        let (request, progress) = (dir.request().ok()?, dir.progress().ok()?);
        Some(report::info(&request, &progress, now(), detail))
    }

    fn find(&self, asked: &str) -> Result<RunDir, Fault> {
        let found = if asked == LAST { self.dir.all().pop() } else { self.dir.find(asked) };
        found.ok_or_else(|| unknown(asked))
    }

    fn room(&self) -> Result<(), Fault> {
        if self.active().len() >= RUNNING_MAX {
            let message = format!("cannot start a run: {RUNNING_MAX} runs are at work already");
            return Err(Fault::new(FaultKind::Busy, message));
        }
        Ok(())
    }

    /// Takes an id for a run that is about to begin.
    fn reserve(&self) -> Result<RunDir, Fault> {
        self.room()?;
        let mut ended = self.dir.all();
        ended.retain(|dir| !self.active().contains_key(&dir.run));
        self.dir.forget_old(&ended);
        self.dir.create().map_err(|error| refused(&error))
    }

    fn active(&self) -> MutexGuard<'_, BTreeMap<String, Handle>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

fn unknown(run: &str) -> Fault {
    Fault::new(FaultKind::NotFound, format!("no run has the id {run}"))
        .hint("greenroom run ls names them")
}

fn refused(error: &FilesError) -> Fault {
    Fault::new(FaultKind::Disk, error.to_string())
        .hint("check the space and rights of the state directory")
}

//! Connector files being carried out: `greenroom run`.
//!
//! In: a plan. Out: sessions, one after another and beside each other as the plan says, events, and
//! `run.json`. [`machine`] decides, [`driver`] acts, [`names`] keeps runs out of each other's worktrees, [`worker`] is one try of one worker, [`files`] is
//! what survives a daemon, [`report`] what others see. The run belongs to the daemon: whoever
//! started it may go away.
//! Deliberately absent: reading the file (the protocol's) and what a session is (everybody's).

mod dialogue;
mod driver;
mod files;
mod machine;
mod names;
mod report;
mod sessions;
mod typing;
mod worker;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use greenroom_protocol::api::run::{RunInfo, RunState};
use greenroom_protocol::{Fault, FaultKind, Timestamp};

use driver::Handle;
pub use files::RunDir;
pub use files::Written;
use files::{FilesError, RunsDir};
use machine::{Event, Machine};
pub use names::{fresh, rename};
pub use sessions::would_be;
pub use worker::Try;

use crate::host::Host;

/// Stands for the newest run.
const LAST: &str = "last";

/// Runs at work at the same time.
const RUNNING_MAX: usize = 32;

/// What plugins of dead sessions still clean up is waited for this long before a run goes on.
const CLEAN_UP: Duration = Duration::from_secs(30);
/// The last steps of runs when the host goes down.
const LAST_NOTES: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// All runs of the host.
pub struct Runs {
    dir: RunsDir,
    active: Mutex<BTreeMap<String, Handle>>,
    /// Held while one is begun again: nobody else may begin the same.
    again: Mutex<()>,
}

impl Runs {
    pub fn new(state: &Path) -> Runs {
        Runs { dir: RunsDir::new(state), active: Mutex::default(), again: Mutex::default() }
    }

    fn active(&self) -> MutexGuard<'_, BTreeMap<String, Handle>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room(&self) -> Result<(), Fault> {
        if self.active().len() >= RUNNING_MAX {
            let message = format!("cannot start a run: {RUNNING_MAX} runs are at work already");
            return Err(Fault::new(FaultKind::Busy, message));
        }
        Ok(())
    }

    /// The place of a run that was begun before, and what was asked then.
    pub fn earlier(&self, asked: &str) -> Result<(Place, Written), Fault> {
        let (run, dir) = self.find(asked)?;
        let written = dir.plan().map_err(|_| unknown(asked))?;
        let scratchpad = self.dir.scratchpad(&run);
        Ok((Place { run, dir, scratchpad }, written))
    }

    fn find(&self, asked: &str) -> Result<(String, RunDir), Fault> {
        let found = match asked {
            LAST => self.dir.all().pop(),
            id => self.dir.find(id).map(|dir| (id.to_owned(), dir)),
        };
        found.ok_or_else(|| unknown(asked))
    }

    /// Takes an id for a run that is about to begin.
    pub fn reserve(&self) -> Result<Place, Fault> {
        self.room()?;
        self.dir.forget_old(&self.ended());
        let (run, dir) = self.dir.create().map_err(|error| refused(&error))?;
        let scratchpad = self.dir.scratchpad(&run);
        files::private_dir(&scratchpad).map_err(|error| refused(&error))?;
        Ok(Place { run, dir, scratchpad })
    }

    fn ended(&self) -> Vec<String> {
        let active = self.active();
        let ended = |(run, _): &(String, RunDir)| !active.contains_key(run);
        self.dir.all().into_iter().filter(ended).map(|(run, _)| run).collect()
    }

    pub fn list(&self, detail: bool) -> Vec<RunInfo> {
        self.dir.all().iter().filter_map(|(run, dir)| self.look(run, dir, detail)).collect()
    }

    pub fn info(&self, run: &str) -> Result<RunInfo, Fault> {
        let (run, dir) = self.find(run)?;
        self.look(&run, &dir, true).ok_or_else(|| unknown(&run))
    }

    fn look(&self, run: &str, dir: &RunDir, detail: bool) -> Option<RunInfo> {
        if let Some(handle) = self.active().get(run) {
            return Some(handle.info(detail));
        }
        let (written, progress) = (dir.plan().ok()?, dir.progress().ok()?);
        Some(report::info(&written, &progress, now(), detail))
    }

    /// Stops a run and answers when nothing of it runs any more.
    pub async fn cancel(&self, run: &str, why: &str) -> Result<(RunState, bool), Fault> {
        let (run, _) = self.find(run)?;
        let handle = self.active().get(&run).cloned();
        let Some(handle) = handle else { return Ok((self.info(&run)?.state, true)) };
        handle.tell(Event::Cancelled { why: why.to_owned() }).await;
        Ok((handle.over().await, false))
    }
}

/// A run's id and directories.
pub struct Place {
    pub run: String,
    pub scratchpad: std::path::PathBuf,
    dir: RunDir,
}

impl Place {
    /// For a dry run: a try that is never made.
    pub fn none(runs: &Runs) -> Place {
        let run = runs.dir.next_id();
        let scratchpad = runs.dir.scratchpad(&run);
        Place { dir: RunDir::nowhere(), scratchpad, run }
    }

    pub fn dir(&self) -> &RunDir {
        &self.dir
    }

    /// Nothing came of it.
    pub fn give_back(self) {
        let _ = std::fs::remove_dir(&self.scratchpad);
        self.dir.remove();
    }
}

/// Begins a run. When this returns it goes on without us.
pub fn begin(host: &Arc<Host>, place: Place, written: Written) -> Result<(), Fault> {
    let machine = Machine::new(&written.plan, now());
    let noted =
        place.dir.write_plan(&written).and_then(|()| place.dir.write_progress(&machine.progress));
    if let Err(error) = noted {
        let fault = refused(&error);
        place.give_back();
        return Err(fault);
    }
    driver::spawn(host, place.dir, written, machine, driver::From::Start);
    Ok(())
}

/// Goes on with a run that has ended, from where it failed.
pub fn again(host: &Arc<Host>, place: Place, written: Written) -> Result<(), Fault> {
    let runs = &host.runs;
    let _one = runs.again.lock().unwrap_or_else(PoisonError::into_inner);
    runs.room()?;
    let run = &place.run;
    let progress = place.dir.progress().map_err(|error| refused(&error))?;
    if runs.active().contains_key(run) || progress.state == RunState::Running {
        return Err(Fault::new(FaultKind::Conflict, format!("run {run} is still at work")));
    }
    if progress.state == RunState::Done {
        let message = format!("run {run} went well: nothing of it is left to do");
        return Err(Fault::new(FaultKind::Conflict, message));
    }
    let machine = Machine::again(&written.plan, progress).ok_or_else(|| another(run))?;
    files::private_dir(&place.scratchpad)
        .and_then(|()| place.dir.write_plan(&written))
        .and_then(|()| place.dir.write_progress(&machine.progress))
        .map_err(|error| refused(&error))?;
    driver::spawn(host, place.dir, written, machine, driver::From::Start);
    Ok(())
}

/// The file is not that of the run.
pub fn another(run: &str) -> Fault {
    let message = format!("cannot go on with run {run}: the file has other phases or workers");
    Fault::new(FaultKind::InvalidParams, message).hint("start it anew, without resume")
}

/// After the daemon's start: goes on with the runs that an earlier one left.
pub fn resume(host: &Arc<Host>) {
    let mut left = Vec::new();
    for (run, dir) in host.runs.dir.all() {
        match (dir.plan(), dir.progress()) {
            (Ok(written), Ok(progress)) if progress.state == RunState::Running => {
                match Machine::resumed(&written.plan, progress) {
                    Some(machine) => left.push((dir, written, machine)),
                    None => tracing::error!(%run, "its files are of two different runs"),
                }
            }
            (Ok(_), Ok(_)) => {}
            // It died between taking an id and writing the plan: nothing was started.
            (Err(error), _) | (_, Err(error)) => tracing::debug!(%run, %error, "no run to resume"),
        }
    }
    for (dir, written, machine) in left {
        tracing::info!(run = %written.run, "going on with a run");
        driver::spawn(host, dir, written, machine, driver::From::Restart);
    }
}

/// When the host goes down and its sessions have ended: the runs note that too.
pub async fn settled(host: &Arc<Host>) {
    let active: Vec<Handle> = host.runs.active().values().cloned().collect();
    let all = async {
        for handle in active {
            handle.over().await;
        }
    };
    if tokio::time::timeout(LAST_NOTES, all).await.is_err() {
        tracing::warn!("a run did not end with its sessions; the next host finishes it");
    }
}

/// Worktrees of sessions that died with the daemon are free once their plugins have cleaned up.
async fn cleaned_up(host: &Arc<Host>) {
    let busy = || {
        host.chains.open_ids().into_iter().any(|id| {
            let handle = host.engine.find(&id.to_string());
            handle.is_ok_and(|handle| handle.change().ended.is_some())
                || host.engine.find(&id.to_string()).is_err()
        })
    };
    let deadline = tokio::time::Instant::now() + CLEAN_UP;
    while busy() && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn now() -> Timestamp {
    Timestamp::from_system(SystemTime::now())
}

pub fn unknown(run: &str) -> Fault {
    Fault::new(FaultKind::NotFound, format!("no run has the id {run}"))
        .hint("greenroom run ls names them")
}

fn refused(error: &FilesError) -> Fault {
    Fault::new(FaultKind::Disk, error.to_string())
        .hint("check the space and rights of the state directory")
}

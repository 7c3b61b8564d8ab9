//! Programs of plugins through the keeper: the launcher the plugins' runtimes use.
//!
//! In: a launch with its plan. Out: our ends of three pipes and a hold on everything behind them.
//! The keeper gets the other ends and keeps none, starts the program through the stage, tells its
//! end, and ends all of it when asked, or when this daemon dies. A program that may reach some
//! hosts gets a proxy for as long as it lives. Deliberately absent: what is said on the pipes.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use greenroom_engine::process::{BoxFuture, ExitStatus};
use greenroom_keeper::tree::{Process, Tree};
use greenroom_keeper::{PipedId, SpawnStep};
use greenroom_plugins::runtime::{Hold, Launch, LaunchError, Launcher, RunningProgram};
use greenroom_proxy::{Decisions, Outside, Rules};
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;

use super::{Keeper, Refusal, SIGKILL, answered, with_sources};

/// In the environment of each worker: finds what escaped from a watcher that was killed.
const MARKER: &str = "GREENROOM_WORKER";

/// Programs of plugins, started by the keeper.
pub struct KeeperLauncher {
    keeper: Arc<Keeper>,
    /// Where decisions of their proxies are written.
    log: PathBuf,
}

impl KeeperLauncher {
    pub fn new(keeper: Arc<Keeper>, log: PathBuf) -> KeeperLauncher {
        KeeperLauncher { keeper, log }
    }
}

/// What is known of workers under way.
#[derive(Default)]
pub(super) struct Table {
    last: u64,
    held: HashMap<u64, Held>,
}

struct Held {
    /// Until it runs.
    starting: Option<oneshot::Sender<Result<Started, Refusal>>>,
    ended: watch::Sender<Option<ExitStatus>>,
    /// A process watches over it; the mark of what it started, and who it is.
    watched: Option<Vec<u8>>,
    leader: Option<Process>,
}

struct Started {
    listener: Option<OwnedFd>,
}

impl Keeper {
    fn enter(&self, watched: bool) -> Option<(u64, Entered)> {
        let (reply, answer) = oneshot::channel();
        let (ended, end) = watch::channel(None);
        let mut state = self.state();
        if state.gone {
            return None;
        }
        state.workers.last += 1;
        let id = state.workers.last;
        let watched = watched.then(|| format!("{MARKER}={}", mark(id)).into_bytes());
        let held = Held { starting: Some(reply), ended, watched, leader: None };
        state.workers.held.insert(id, held);
        Some((id, Entered { answer, end }))
    }

    pub(super) fn working(&self, id: PipedId, pid: i32, listener: Option<OwnedFd>) {
        // Looked up before anybody hears of it: the keeper may reap it any time after.
        let leader = Process::of(pid);
        let reply = self.state().workers.held.get_mut(&id.0).and_then(|held| {
            held.leader = leader;
            held.starting.take()
        });
        if reply.is_none_or(|reply| reply.send(Ok(Started { listener })).is_err()) {
            self.end_work(id.0);
        }
    }

    pub(super) fn work_failed(&self, id: PipedId, step: SpawnStep, errno: i32, why: String) {
        let held = self.state().workers.held.remove(&id.0);
        if let Some(reply) = held.and_then(|held| held.starting) {
            let _ = reply.send(Err(Refusal { step: step.name(), errno, why }));
        }
    }

    pub(super) fn work_ended(&self, id: PipedId, status: ExitStatus) {
        let Some(held) = self.state().workers.held.remove(&id.0) else { return };
        held.ended.send_replace(Some(status));
        if let (Some(marker), Some(leader), ExitStatus::Signal(SIGKILL)) =
            (held.watched, held.leader, status)
        {
            // Usually its own doing, after everything else was gone. If it was not, this finds what
            // still has the mark.
            let search = move || {
                let (program, marker) = (Some(leader), Some(marker));
                let _ = Tree { program, marker, ..Tree::default() }.signal(SIGKILL);
            };
            let _ = std::thread::Builder::new().name("worker-strays".to_owned()).spawn(search);
        }
    }

    fn end_work(&self, id: u64) {
        if let Err(error) = self.link.end_piped(PipedId(id)) {
            tracing::warn!(worker = id, %error, "ending a worker");
        }
    }
}

/// A place in the table.
struct Entered {
    answer: oneshot::Receiver<Result<Started, Refusal>>,
    end: watch::Receiver<Option<ExitStatus>>,
}

/// With our own pid: the numbers begin again with each daemon.
fn mark(id: u64) -> String {
    format!("{}-{id}", std::process::id())
}

/// Ends a worker nobody waits for any more.
struct Starting {
    keeper: Arc<Keeper>,
    id: u64,
    over: bool,
}

impl Drop for Starting {
    fn drop(&mut self) {
        if !self.over {
            self.keeper.end_work(self.id);
        }
    }
}

/// The three pipes: our ends, and the program's.
struct Pipes {
    ours: [OwnedFd; 3],
    theirs: [OwnedFd; 3],
}

impl Pipes {
    fn open() -> io::Result<Pipes> {
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
        let (stdin, to) = pipe()?;
        let (from, stdout) = pipe()?;
        let (said, stderr) = pipe()?;
        Ok(Pipes { ours: [to, from, said], theirs: [stdin, stdout, stderr] })
    }
}

impl Launcher for KeeperLauncher {
    fn launch<'a>(
        &'a self,
        launch: &'a Launch,
    ) -> BoxFuture<'a, Result<RunningProgram, LaunchError>> {
        Box::pin(self.start(launch))
    }
}

impl KeeperLauncher {
    async fn start(&self, launch: &Launch) -> Result<RunningProgram, LaunchError> {
        let keeper = |why: String| LaunchError::Keeper { plugin: launch.plugin.clone(), why };
        if !self.keeper.workers {
            return Err(keeper("it is older and knows no plugins: run greenroom upgrade".into()));
        }
        let watched = launch.watched();
        let (id, Entered { answer, end }) =
            self.keeper.enter(watched).ok_or_else(|| keeper("it has gone".to_owned()))?;
        let mut starting = Starting { keeper: self.keeper.clone(), id, over: false };
        let ours = self.ask(launch, id, watched).inspect_err(|_| {
            starting.over = true;
            self.keeper.state().workers.held.remove(&id);
        })?;
        let answer = answered(answer).await.map_err(|error| keeper(error.to_string()))?;
        starting.over = true;
        let started = answer.map_err(|refusal| launch.refused(refusal.step, refusal.source()))?;
        let proxy = started.listener.and_then(|listener| self.proxy(launch, listener));
        let [stdin, stdout, stderr] = ours;
        let hold = Arc::new(Running { keeper: self.keeper.clone(), id, end, proxy });
        Ok(RunningProgram { stdin, stdout, stderr, hold })
    }

    /// Sends the request; the program's ends of the pipes are closed here with it.
    fn ask(&self, launch: &Launch, id: u64, watched: bool) -> Result<[OwnedFd; 3], LaunchError> {
        let pipes = Pipes::open()
            .map_err(|source| LaunchError::Pipes { plugin: launch.plugin.clone(), source })?;
        let plan = launch.seal((MARKER, &mark(id)))?;
        let [stdin, stdout, stderr] = &pipes.theirs;
        let stdio = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let sent = self.keeper.link.start_piped(PipedId(id), watched, plan.as_fd(), stdio);
        sent.map_err(|error| LaunchError::Keeper {
            plugin: launch.plugin.clone(),
            why: with_sources(&error),
        })?;
        Ok(pipes.ours)
    }

    fn proxy(&self, launch: &Launch, listener: OwnedFd) -> Option<AbortHandle> {
        let reach = launch.reach.clone()?;
        let plugin = launch.plugin.clone();
        let tell = Arc::new(move |what: &str, why: &str| {
            tracing::warn!(%plugin, what, why, "a plugin was denied a connection");
        });
        let rules = Rules { hosts: reach.hosts, http: reach.http };
        let decisions = Decisions::new(&self.log, tell);
        let who = format!("plugin {}", launch.plugin);
        match greenroom_proxy::serve(who, listener, rules, Outside::real(), decisions) {
            Ok(proxy) => Some(proxy),
            Err(error) => {
                tracing::error!(plugin = %launch.plugin, %error, "serving a plugin's proxy");
                None
            }
        }
    }
}

/// A running worker.
struct Running {
    keeper: Arc<Keeper>,
    id: u64,
    end: watch::Receiver<Option<ExitStatus>>,
    proxy: Option<AbortHandle>,
}

impl Hold for Running {
    fn exited(&self) -> BoxFuture<'_, ExitStatus> {
        let mut end = self.end.clone();
        Box::pin(async move {
            let ended = end.wait_for(Option::is_some).await;
            ended.ok().and_then(|status| *status).unwrap_or(ExitStatus::Unknown)
        })
    }

    fn kill_tree(&self) {
        if self.end.borrow().is_none() && self.end.has_changed().is_ok() {
            self.keeper.end_work(self.id);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_tree();
        if let Some(proxy) = &self.proxy {
            proxy.abort();
        }
    }
}

//! The daemon's end of the keeper link.
//!
//! In: what the engine wants done to processes. Out: requests on the link, and their answers
//! matched to whoever asked. One thread, `keeper-link`, does nothing but receive: the keeper stops
//! listening to a daemon that does not. Deliberately absent: what a session is.

mod launcher;
mod left;
mod notes;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use greenroom_engine::SessionId;
use greenroom_engine::journal::{RING_BYTES, RingFds};
use greenroom_engine::process::{
    BoxFuture, ExitStatus, Held, Member, ProcessError, Processes, Target,
};
use greenroom_engine::spec::SessionSpec;
use greenroom_keeper as keeper;
use greenroom_keeper::tree::{Process, Tree};
use greenroom_keeper::{KeeperEvent, KeeperHello, KeeperLink, LinkError, SessionEntry, SpawnSpec};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::sync::lock;
pub use launcher::KeeperLauncher;
pub use notes::{Confined, Note, Notes};

/// The keeper is one thread that never blocks: when it has not answered after this long it never
/// will.
const PATIENCE: Duration = Duration::from_secs(20);

/// A keeper that has not answered for this long is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Exits on their way to the engine. The link's thread waits when it is full; the keeper then
/// queues, and the engine drains this without waiting for anybody.
const EXITS: usize = 256;

const SIGKILL: i32 = 9;

/// A session whose program ended, and how.
pub type Exit = (SessionId, ExitStatus);

#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error("cannot talk to the keeper: {0}")]
    Link(#[from] LinkError),
    #[error("the keeper has gone")]
    Gone,
    #[error("the keeper did not answer within {} s", PATIENCE.as_secs())]
    Silent,
    #[error("the keeper (pid {0}) is stopped; kill -CONT {0} lets it go on")]
    Stopped(u32),
    #[error("the keeper speaks version {found} of our language, this daemon version {known}")]
    Version { found: u16, known: u16 },
    #[error("the keeper cannot replace itself: {0}")]
    Replace(String),
    #[error("cannot start the thread of the keeper link: {0}")]
    Thread(io::Error),
}

/// What the keeper held when this daemon started.
pub struct Inheritance {
    pub hello: KeeperHello,
    pub sessions: Vec<(SessionEntry, Option<Held>)>,
}

/// The keeper, as the daemon sees it. Shared by reference.
pub struct Keeper {
    link: KeeperLink,
    state: Mutex<State>,
    /// This keeper starts programs of plugins.
    workers: bool,
    /// This keeper has wardens, names them, and ends whole sessions.
    wardens: bool,
    notes: Notes,
    confined: Mutex<Confined>,
    /// Notified when no process is left of some session.
    over: Notify,
}

#[derive(Default)]
struct State {
    spawning: HashMap<u64, oneshot::Sender<Result<Held, Refusal>>>,
    signalling: HashMap<u64, VecDeque<oneshot::Sender<i32>>>,
    replacing: Option<oneshot::Sender<Result<(), String>>>,
    exited: HashMap<u64, ExitStatus>,
    /// Where programs in a sandbox look for the proxy, until somebody serves them there.
    listeners: HashMap<u64, OwnedFd>,
    /// The process tree of every session that has processes, ended or not.
    trees: HashMap<u64, Tree>,
    /// Released while their program still lived: to be released again when it has ended.
    unwanted: HashSet<u64>,
    workers: launcher::Table,
    gone: bool,
}

struct Refusal {
    step: &'static str,
    errno: i32,
    /// In words, if the number does not tell.
    why: String,
}

impl Refusal {
    fn source(self) -> io::Error {
        let error = io::Error::from_raw_os_error(self.errno);
        if self.why.is_empty() { error } else { io::Error::new(error.kind(), self.why) }
    }
}

impl Keeper {
    /// Greets the keeper and takes over what it holds. Blocks; runs before anything else does.
    pub fn meet(link: KeeperLink, notes: Notes) -> Result<(Keeper, Inheritance), KeeperError> {
        link.hello()?;
        let hello = loop {
            match link.recv()?.ok_or(KeeperError::Gone)? {
                KeeperEvent::Hello(hello) => break hello,
                other => tracing::debug!(?other, "before the keeper's greeting"),
            }
        };
        if hello.version != keeper::PROTOCOL_VERSION {
            let known = keeper::PROTOCOL_VERSION;
            return Err(KeeperError::Version { found: hello.version, known });
        }
        let keeper = Keeper {
            link,
            state: Mutex::default(),
            workers: hello.piped,
            wardens: hello.wardens,
            confined: Mutex::new(notes.confined()),
            notes,
            over: Notify::new(),
        };
        let sessions = keeper.take_all()?;
        keeper.ask_for_wardens()?;
        Ok((keeper, Inheritance { hello, sessions }))
    }

    fn take_all(&self) -> Result<Vec<(SessionEntry, Option<Held>)>, KeeperError> {
        self.link.list()?;
        let mut entries: Vec<SessionEntry> = Vec::new();
        loop {
            match self.link.recv()?.ok_or(KeeperError::Gone)? {
                KeeperEvent::Sessions { sessions, more } => {
                    entries.extend(sessions);
                    if !more {
                        break;
                    }
                }
                other => self.meanwhile(other),
            }
        }
        let mut held: HashMap<u64, Held> = HashMap::new();
        for ids in entries.chunks(keeper::MAX_TAKE) {
            self.link.take(&ids.iter().map(|entry| entry.id).collect::<Vec<_>>())?;
            loop {
                match self.link.recv()?.ok_or(KeeperError::Gone)? {
                    KeeperEvent::Taken { sessions } => {
                        held.extend(sessions.into_iter().map(|(id, fds)| (id.0, hold(0, fds))));
                        break;
                    }
                    other => self.meanwhile(other),
                }
            }
        }
        Ok(entries.into_iter().map(|entry| (entry, self.entered(entry, &mut held))).collect())
    }

    fn entered(&self, entry: SessionEntry, held: &mut HashMap<u64, Held>) -> Option<Held> {
        let pid = u32::try_from(entry.pid).unwrap_or(0);
        let mut state = self.state();
        if let keeper::SessionState::Exited(status) = entry.state {
            state.exited.insert(entry.id.0, exit_status(status));
        } else {
            let tree = Tree { program: Process::of(entry.pid), ..Tree::default() };
            state.trees.insert(entry.id.0, tree);
        }
        held.remove(&entry.id.0).map(|held| Held { pid, ..held })
    }

    /// Answers to an earlier daemon's requests, and exits, that come between ours.
    fn meanwhile(&self, event: KeeperEvent) {
        match event {
            KeeperEvent::Exited { id, status } => {
                self.state().exited.insert(id.0, exit_status(status));
            }
            KeeperEvent::Listener { id, listener } => {
                self.state().listeners.insert(id.0, listener);
            }
            KeeperEvent::Over { id } => self.nothing_left(id.0),
            other => tracing::debug!(?other, "while taking sessions over"),
        }
    }

    /// Starts the receiving thread. Exits come out of the receiver; it closes with the keeper.
    pub fn listen(self: &Arc<Self>) -> Result<mpsc::Receiver<Exit>, KeeperError> {
        let (exits, out) = mpsc::channel(EXITS);
        let keeper = self.clone();
        std::thread::Builder::new()
            .name("keeper-link".to_owned())
            .spawn(move || keeper.receive(&exits))
            .map_err(KeeperError::Thread)?;
        Ok(out)
    }

    fn receive(&self, exits: &mpsc::Sender<Exit>) {
        loop {
            match self.link.recv() {
                Ok(Some(event)) => self.route(event, exits),
                Ok(None) => break,
                // One bad message says nothing about the next; a broken socket ends with `None`.
                Err(LinkError::Io { step, source }) => {
                    tracing::error!(step, error = %source, "the keeper link");
                    break;
                }
                Err(error) => tracing::error!(%error, "a message from the keeper"),
            }
        }
        let mut state = self.state();
        // Requests that wait are answered by the drop of their senders.
        *state = State { gone: true, ..State::default() };
    }

    fn route(&self, event: KeeperEvent, exits: &mpsc::Sender<Exit>) {
        match event {
            KeeperEvent::Spawned { id, pid, warden, fds } => self.spawned(id.0, pid, warden, fds),
            KeeperEvent::SpawnFailed { id, step, errno, why } => {
                let asked = self.state().spawning.remove(&id.0);
                if let Some(reply) = asked {
                    let _ = reply.send(Err(Refusal { step: step.name(), errno, why }));
                }
            }
            KeeperEvent::Listener { id, listener } => {
                self.state().listeners.insert(id.0, listener);
            }
            KeeperEvent::Exited { id, status } => {
                let status = exit_status(status);
                let unwanted = self.state().unwanted.remove(&id.0);
                self.state().exited.insert(id.0, status);
                self.note_what_is_left(id.0);
                if unwanted {
                    self.release_now(id.0);
                } else {
                    let _ = exits.blocking_send((SessionId(id.0), status));
                }
            }
            KeeperEvent::Signalled { id, errno } => {
                let asked = self.state().signalling.get_mut(&id.0).and_then(VecDeque::pop_front);
                if let Some(reply) = asked {
                    let _ = reply.send(errno);
                }
            }
            KeeperEvent::Replaced { result } => {
                let asked = self.state().replacing.take();
                match asked {
                    Some(reply) => drop(reply.send(result)),
                    None => tracing::warn!(?result, "the keeper's replacement"),
                }
            }
            KeeperEvent::PipedStarted { id, pid, listener } => self.working(id, pid, listener),
            KeeperEvent::PipedFailed { id, step, errno, why } => {
                self.work_failed(id, step, errno, why);
            }
            KeeperEvent::PipedEnded { id, status } => self.work_ended(id, exit_status(status)),
            KeeperEvent::Over { id } => self.nothing_left(id.0),
            KeeperEvent::Unknown { kind } => tracing::debug!(kind, "a message of a newer keeper"),
            other => tracing::debug!(?other, "unasked for"),
        }
    }

    fn spawned(&self, id: u64, pid: i32, warden: i32, fds: keeper::SessionFds) {
        // Looked up before anybody hears of the program: while its warden lives nobody else gets
        // its pid.
        let tree = Tree {
            warden: Process::of(warden).filter(|_| warden > 0),
            program: Process::of(pid),
            ..Tree::default()
        };
        let mut state = self.state();
        let asked = state.spawning.remove(&id);
        state.trees.insert(id, tree.clone());
        drop(state);
        let held = hold(u32::try_from(pid).unwrap_or(0), fds);
        let unheard = match asked {
            Some(reply) => reply.send(Ok(held)).is_err(),
            None => true,
        };
        if unheard {
            // The request was cancelled: nobody would ever look after this program.
            tracing::warn!(session = id, pid, "a program started for nobody");
            self.end(id);
            let _ = tree.signal(SIGKILL);
            self.release_now(id);
        }
        let Tree { warden, program, .. } = tree;
        self.notes.write(id, &Note { warden, program, others: Vec::new() });
    }

    /// About to serve.
    pub fn ready(&self) -> Result<(), KeeperError> {
        Ok(self.link.ready()?)
    }

    /// The keeper will end everything that is left once this process is gone.
    pub fn shutdown(&self) -> Result<(), KeeperError> {
        Ok(self.link.shutdown()?)
    }

    /// Asks the keeper to become the program at `path`.
    pub async fn replace(&self, path: &Path) -> Result<(), KeeperError> {
        let (reply, answer) = oneshot::channel();
        self.state().replacing = Some(reply);
        self.link.replace(path)?;
        match answered(answer).await? {
            Ok(()) => Ok(()),
            Err(why) => Err(KeeperError::Replace(why)),
        }
    }

    /// One signal through the keeper, which knows that the process is still the same.
    pub async fn signal_one(
        &self,
        id: SessionId,
        signal: i32,
        to: keeper::SignalTarget,
    ) -> Result<(), ProcessError> {
        let (reply, answer) = oneshot::channel();
        {
            // Under the lock, so that answers come in the order of the queue.
            let mut state = self.state();
            state.signalling.entry(id.0).or_default().push_back(reply);
            let sent = self.link.signal(keeper::SessionId(id.0), signal, to);
            sent.map_err(|error| ProcessError::Keeper(error.to_string()))?;
        }
        match answered(answer).await {
            Ok(0) => Ok(()),
            Ok(errno) => {
                Err(ProcessError::Signal { id, source: io::Error::from_raw_os_error(errno) })
            }
            Err(error) => Err(ProcessError::Keeper(error.to_string())),
        }
    }

    /// The socket on which a session's sandbox expects the proxy. Given once.
    pub fn listener(&self, id: SessionId) -> Option<OwnedFd> {
        self.state().listeners.remove(&id.0)
    }

    async fn signal_tree(&self, member: &Member, signal: i32) -> Result<(), ProcessError> {
        let Some(tree) = self.tree(member) else { return Ok(()) };
        let id = member.id;
        if signal == SIGKILL {
            // A warden never gives up, however fast they fork. Beside it, in case it is stopped or
            // gone.
            self.end(id.0);
        }
        let done = tokio::task::spawn_blocking(move || tree.signal(signal));
        match done.await {
            Ok(Ok(told)) => {
                if !told.denied.is_empty() {
                    tracing::warn!(session = %id, signal, denied = ?told.denied, "may not signal");
                }
                Ok(())
            }
            Ok(Err(source)) => Err(ProcessError::Signal { id, source }),
            Err(error) => Err(ProcessError::Signal { id, source: io::Error::other(error) }),
        }
    }

    fn release_now(&self, id: u64) {
        {
            let mut state = self.state();
            if state.exited.remove(&id).is_none() {
                state.unwanted.insert(id);
            }
            // The warden still holds what the program left, until it says that nothing is left.
            if state.trees.get(&id).is_some_and(|tree| tree.warden.is_none()) {
                state.trees.remove(&id);
                self.over.notify_waiters();
            }
            state.signalling.remove(&id);
            state.listeners.remove(&id);
        }
        if let Err(error) = self.link.release(keeper::SessionId(id)) {
            tracing::warn!(session = id, %error, "releasing a session");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Processes for Keeper {
    fn spawn<'a>(
        &'a self,
        id: SessionId,
        spec: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<Held, ProcessError>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            {
                let mut state = self.state();
                if state.gone {
                    return Err(ProcessError::Keeper(KeeperError::Gone.to_string()));
                }
                state.spawning.insert(id.0, reply);
            }
            let sent = match &spec.confinement {
                None => {
                    let launch = greenroom_workspace::spec::launch(spec);
                    let spec = SpawnSpec { launch, ring_bytes: ring_bytes(), flags: 0 };
                    self.link.spawn(keeper::SessionId(id.0), &spec)
                }
                Some(fence) => match fence.plan(spec) {
                    Ok(plan) => {
                        // Before it can start anything.
                        self.was_confined(Confined { ever: true, lost: false });
                        let id = keeper::SessionId(id.0);
                        self.link.spawn_sandboxed(id, ring_bytes(), plan.as_fd())
                    }
                    Err(source) => {
                        self.state().spawning.remove(&id.0);
                        let step = "sandbox plan";
                        return Err(ProcessError::Spawn { program: program(spec), step, source });
                    }
                },
            };
            if let Err(error) = sent {
                self.state().spawning.remove(&id.0);
                return Err(ProcessError::Keeper(with_sources(&error)));
            }
            match answered(answer).await {
                Ok(Ok(held)) => Ok(held),
                Ok(Err(refusal)) => Err(ProcessError::Spawn {
                    program: program(spec),
                    step: refusal.step,
                    source: refusal.source(),
                }),
                Err(error) => Err(ProcessError::Keeper(error.to_string())),
            }
        })
    }

    fn signal<'a>(
        &'a self,
        member: &'a Member,
        target: Target,
        signal: i32,
    ) -> BoxFuture<'a, Result<(), ProcessError>> {
        Box::pin(async move {
            match target {
                Target::Leader => {
                    self.signal_one(member.id, signal, keeper::SignalTarget::Leader).await
                }
                Target::Foreground => {
                    self.signal_one(member.id, signal, keeper::SignalTarget::Foreground).await
                }
                Target::Tree => self.signal_tree(member, signal).await,
            }
        })
    }

    fn early_exit(&self, id: SessionId) -> Option<ExitStatus> {
        self.state().exited.get(&id.0).copied()
    }

    fn alive<'a>(&'a self, member: &'a Member) -> BoxFuture<'a, usize> {
        Box::pin(async move {
            let Some(tree) = self.tree(member) else { return 0 };
            let count = tokio::task::spawn_blocking(move || tree.members().len());
            count.await.unwrap_or(0)
        })
    }

    fn left<'a>(&'a self, member: &'a Member) -> BoxFuture<'a, Vec<String>> {
        Box::pin(async move {
            let Some(tree) = self.tree(member) else { return Vec::new() };
            let name = |it: &Process| Some(format!("{} (pid {})", it.name()?, it.pid));
            let names = move || tree.members().iter().filter_map(name).collect();
            tokio::task::spawn_blocking(names).await.unwrap_or_default()
        })
    }

    fn release(&self, id: SessionId) {
        self.release_now(id.0);
    }
}

async fn answered<T>(answer: oneshot::Receiver<T>) -> Result<T, KeeperError> {
    tokio::select! {
        answer = answer => answer.map_err(|_| KeeperError::Gone),
        error = silent() => Err(error),
    }
}

/// Ends when no answer can be hoped for any more.
async fn silent() -> KeeperError {
    tokio::time::timeout(PATIENCE, stopped()).await.unwrap_or(KeeperError::Silent)
}

/// Ends only if the keeper is stopped: nobody would tell us of anything that ends.
pub async fn stopped() -> KeeperError {
    loop {
        tokio::time::sleep(LOOK).await;
        // We are its child, whatever program it has become.
        let keeper = std::os::unix::process::parent_id();
        if is_stopped(keeper) {
            return KeeperError::Stopped(keeper);
        }
    }
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

fn hold(pid: u32, fds: keeper::SessionFds) -> Held {
    let ring = RingFds { pipe_read: fds.pipe_read, pipe_write: fds.pipe_write, ring: fds.ring };
    Held { pid, master: fds.master, ring }
}

pub fn exit_status(status: keeper::ExitStatus) -> ExitStatus {
    match status {
        keeper::ExitStatus::Code(code) => ExitStatus::Code(code),
        keeper::ExitStatus::Signal { signo, .. } => ExitStatus::Signal(signo),
    }
}

fn program(spec: &SessionSpec) -> String {
    spec.argv.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default()
}

fn ring_bytes() -> u32 {
    u32::try_from(RING_BYTES).expect("a ring is less than 4 GiB")
}

/// The whole chain in one line: the link's errors keep the reason as their source.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        source = inner.source();
    }
    text
}

//! A host for tests: real PTYs and children, the keeper's part played here.
//!
//! `FakeProcesses` holds dups of every fd as the keeper would, so a test can
//! drop an engine (a daemon that died) and give the sessions to the next.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use greenroom_engine::egress::{Filters, HostKey, Redaction, Rules};
use greenroom_engine::engine::Known;
use greenroom_engine::events::{Event, Events};
use greenroom_engine::journal::{Budget, Limits, PIPE_BYTES, RING_BYTES, RingFds, Spiller};
use greenroom_engine::process::{
    BoxFuture, ExitStatus, Held, Member, ProcessError, Processes, Target,
};
use greenroom_engine::store::{SessionRecord, Store, StoreError};
use greenroom_engine::threads::SessionThreads;
use greenroom_engine::{Engine, EngineParts, SessionHandle, SessionId, SessionSpec};
use greenroom_term::Size;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
pub use test_kit::wait::PATIENCE;

pub struct Stage {
    pub engine: Engine,
    pub processes: Arc<FakeProcesses>,
    pub store: Arc<FakeStore>,
    pub events: Arc<FakeEvents>,
    pub dir: Arc<tempfile::TempDir>,
    limits: Limits,
    budget: Budget,
    pub filters: Option<Arc<dyn Filters>>,
    threads: SessionThreads,
    spiller: Spiller,
}

impl Stage {
    pub fn new() -> Stage {
        Stage::with_limits(Limits::default())
    }

    pub fn with_limits(limits: Limits) -> Stage {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let more = (limits, Budget::default(), None);
        Stage::build(Arc::default(), Arc::default(), Arc::default(), dir, more)
    }

    /// Where all journals together have this much room.
    pub fn with_budget(limits: Limits, total_bytes: u64) -> Stage {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let more = (limits, Budget { total_bytes }, None);
        Stage::build(Arc::default(), Arc::default(), Arc::default(), dir, more)
    }

    /// With somebody who filters its sessions from the start.
    pub fn with_filters(filters: Arc<dyn Filters>) -> Stage {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let more = (Limits::default(), Budget::default(), Some(filters));
        Stage::build(Arc::default(), Arc::default(), Arc::default(), dir, more)
    }

    fn build(
        processes: Arc<FakeProcesses>,
        store: Arc<FakeStore>,
        events: Arc<FakeEvents>,
        dir: Arc<tempfile::TempDir>,
        (limits, budget, filters): (Limits, Budget, Option<Arc<dyn Filters>>),
    ) -> Stage {
        let threads = SessionThreads::start(2).unwrap();
        let spiller = Spiller::start(budget).unwrap();
        let engine = Engine::new(EngineParts {
            threads: threads.threads(),
            processes: processes.clone(),
            store: store.clone(),
            events: events.clone(),
            dir: dir.path().to_owned(),
            limits,
            spiller: spiller.clone(),
            redaction: Redaction::new(
                Rules::built_in(),
                false,
                HostKey::load(&dir.path().join("key")).unwrap().key,
            ),
            filters: filters.clone(),
            max_running: 1000,
        });
        *processes.engine.lock().unwrap() = Some(engine.clone());
        Stage { engine, processes, store, events, dir, limits, budget, filters, threads, spiller }
    }

    pub async fn sh(&self, script: &str) -> SessionHandle {
        self.engine.create(spec(script)).await.unwrap()
    }

    /// This daemon dies, with all tasks of its sessions; another takes over.
    pub fn next_daemon(self) -> Stage {
        self.next_daemon_of(true)
    }

    /// The same; `noted` says whether the sessions began when their terms were noted.
    pub fn next_daemon_of(self, noted: bool) -> Stage {
        drop(self.threads);
        // A process takes its helper thread along when it dies; here it must come to rest, or two
        // daemons would write the same files. `journal_kill` has the real thing.
        assert!(self.spiller.flush_all(PATIENCE), "the helper rests");
        let known = {
            let records = self.store.records.lock().unwrap();
            records
                .values()
                .map(|record| {
                    let held = self.processes.take(record.id);
                    let status = self.processes.early_exit(record.id);
                    Known { record: record.clone(), held, status, noted }
                })
                .collect()
        };
        let Stage { processes, store, events, dir, limits, budget, filters, .. } = self;
        let next = Stage::build(processes, store, events, dir, (limits, budget, filters));
        next.engine.adopt(known);
        next
    }
}

pub fn spec(script: &str) -> SessionSpec {
    let argv = vec!["/bin/sh".into(), "-c".into(), script.into()];
    let env = [("PATH".into(), "/usr/bin:/bin".into()), ("TERM".into(), "xterm".into())].into();
    SessionSpec { env, ..SessionSpec::new(argv, "/".into(), Size::new(80, 24).unwrap()) }
}

struct Kept {
    pid: u32,
    master: OwnedFd,
    pipe_read: OwnedFd,
    pipe_write: OwnedFd,
    ring: OwnedFd,
}

#[derive(Default)]
pub struct FakeProcesses {
    engine: Arc<Mutex<Option<Engine>>>,
    kept: Mutex<HashMap<SessionId, Kept>>,
    exits: Arc<Mutex<HashMap<SessionId, ExitStatus>>>,
    releases: tokio::sync::watch::Sender<()>,
}

impl FakeProcesses {
    pub fn take(&self, id: SessionId) -> Option<Held> {
        let kept = self.kept.lock().unwrap();
        let kept = kept.get(&id)?;
        Some(Held {
            pid: kept.pid,
            master: kept.master.try_clone().unwrap(),
            ring: RingFds {
                pipe_read: kept.pipe_read.try_clone().unwrap(),
                pipe_write: kept.pipe_write.try_clone().unwrap(),
                ring: kept.ring.try_clone().unwrap(),
            },
        })
    }

    pub fn holds(&self, id: SessionId) -> bool {
        self.kept.lock().unwrap().contains_key(&id)
    }

    /// Until an ended session was let go, which is the last that is done for it.
    pub async fn released(&self, id: SessionId) {
        let mut releases = self.releases.subscribe();
        let released = releases.wait_for(|()| !self.holds(id));
        tokio::time::timeout(PATIENCE, released).await.expect("it is let go").unwrap();
    }

    fn start(&self, id: SessionId, spec: &SessionSpec) -> std::io::Result<Held> {
        let (master, slave) = test_kit::terminal::open(spec.size.cols(), spec.size.rows());
        let mut command = Command::new("setsid");
        command.arg("--ctty").args(&spec.argv).env_clear().envs(&spec.env);
        command.current_dir(&spec.cwd);
        command.stdin(Stdio::from(slave.try_clone()?));
        command.stdout(Stdio::from(slave.try_clone()?)).stderr(Stdio::from(slave));
        let mut child = command.spawn()?;
        drop(command);
        rustix::io::ioctl_fionbio(&master, true)?;
        let (pipe_read, pipe_write) = rustix::pipe::pipe_with(
            rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK,
        )?;
        rustix::pipe::fcntl_setpipe_size(&pipe_write, PIPE_BYTES)?;
        let ring = rustix::fs::memfd_create("ring", rustix::fs::MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&ring, RING_BYTES as u64)?;
        let pid = child.id();
        let kept = Kept { pid, master, pipe_read, pipe_write, ring };
        self.kept.lock().unwrap().insert(id, kept);
        let engine = self.engine.clone();
        let runtime = tokio::runtime::Handle::current();
        let exits = self.exits.clone();
        std::thread::spawn(move || {
            use std::os::unix::process::ExitStatusExt;
            let status = child.wait().unwrap();
            let status = match (status.code(), status.signal()) {
                (Some(code), _) => ExitStatus::Code(code),
                (None, Some(signal)) => ExitStatus::Signal(signal),
                (None, None) => ExitStatus::Unknown,
            };
            exits.lock().unwrap().insert(id, status);
            // Told to whichever daemon lives by now.
            let engine = engine.lock().unwrap().clone().unwrap();
            runtime.block_on(engine.exited(id, status));
        });
        Ok(self.take(id).unwrap())
    }
}

impl Processes for FakeProcesses {
    fn spawn<'a>(
        &'a self,
        id: SessionId,
        spec: &'a SessionSpec,
    ) -> BoxFuture<'a, Result<Held, ProcessError>> {
        Box::pin(async move {
            self.start(id, spec).map_err(|source| ProcessError::Spawn {
                program: spec.argv[0].to_string_lossy().into_owned(),
                step: "exec",
                source,
            })
        })
    }

    fn signal<'a>(
        &'a self,
        member: &'a Member,
        target: Target,
        signal: i32,
    ) -> BoxFuture<'a, Result<(), ProcessError>> {
        Box::pin(async move {
            let pid = Pid::from_raw(i32::try_from(member.pid).unwrap()).unwrap();
            let signal = Signal::from_named_raw(signal).unwrap();
            let sent = match target {
                Target::Leader => kill_process(pid, signal),
                Target::Foreground | Target::Tree => kill_process_group(pid, signal),
            };
            sent.map_err(|error| ProcessError::Signal { id: member.id, source: error.into() })
        })
    }

    fn early_exit(&self, id: SessionId) -> Option<ExitStatus> {
        self.exits.lock().unwrap().get(&id).copied()
    }

    fn alive<'a>(&'a self, member: &'a Member) -> BoxFuture<'a, usize> {
        Box::pin(async move { usize::from(!self.exits.lock().unwrap().contains_key(&member.id)) })
    }

    fn release(&self, id: SessionId) {
        self.kept.lock().unwrap().remove(&id);
        self.releases.send_replace(());
    }
}

#[derive(Default)]
pub struct FakeStore {
    next: Mutex<u64>,
    pub records: Mutex<HashMap<SessionId, SessionRecord>>,
    /// Records are refused.
    pub full: std::sync::atomic::AtomicBool,
}

impl Store for FakeStore {
    fn next_id(&self) -> BoxFuture<'_, Result<SessionId, StoreError>> {
        let mut next = self.next.lock().unwrap();
        *next += 1;
        let id = SessionId(*next);
        Box::pin(async move { Ok(id) })
    }

    fn save(&self, record: SessionRecord) -> BoxFuture<'_, Result<(), StoreError>> {
        if self.full.load(std::sync::atomic::Ordering::Relaxed) {
            let source = "the disk is full".into();
            let refused = StoreError { id: record.id, step: "save", source };
            return Box::pin(async { Err(refused) });
        }
        self.records.lock().unwrap().insert(record.id, record);
        Box::pin(async { Ok(()) })
    }

    fn remove(&self, id: SessionId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.records.lock().unwrap().remove(&id);
        Box::pin(async { Ok(()) })
    }
}

#[derive(Default)]
pub struct FakeEvents {
    pub seen: Mutex<Vec<Event>>,
}

impl FakeEvents {
    pub fn facts(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|event| format!("{:?}", event.fact)).collect()
    }
}

impl Events for FakeEvents {
    fn emit(&self, event: Event) {
        self.seen.lock().unwrap().push(event);
    }
}

/// Runs a test on real time with two workers, as the daemon does. Tasks that
/// are left when it returns die like those of a killed daemon.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let result = runtime.block_on(test);
    runtime.shutdown_timeout(PATIENCE);
    result
}

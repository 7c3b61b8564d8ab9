//! The one helper thread (`journal`) that writes the rings of all sessions.
//!
//! In come sessions, each queued at most once, as lazy (a few bytes: wait up to
//! 20 ms for company) or urgent (64 KiB, a flush, the end); out go calls of
//! [`Files::turn`]. A session whose disk fails is tried again every second.
//! One thread, because a disk is one disk and wake-ups cost more than bytes; a
//! disk that hangs therefore stalls every session's spill, and each of them
//! then goes on with a gap (`Journal::pump`).
//! Deliberately absent: waiting for clients or for the actor.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime};

use super::error::JournalError;
use super::evict::{Begins, Evictor};
use super::files::SpillEnd;
use super::intake::{Mode, probe_splice};
use super::limits::{Budget, CLOSE_PATIENCE, LAZY_SPILL, RETRY};
use super::ring::Word;
use super::shared::{PauseReason, Session};
use crate::id::Seq;
use crate::lock::lock;

const LAZY: u8 = 1;
const URGENT: u8 = 2;

/// A step at which a disk may fail: what a fault hook is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp {
    WriteData,
    WriteIndex,
    BeginSegment,
    /// Between two steps: a place to die at. The answer does not matter.
    Step,
}

pub(super) type FaultHook = Arc<dyn Fn(DiskOp) -> io::Result<()> + Send + Sync>;

/// How to run the helper. The default is right except in tests.
#[derive(Clone, Default)]
pub struct SpillerOptions {
    pub budget: Budget,
    /// Asked before each write; an error is taken for the disk's, and a hook
    /// that blocks is a disk that hangs. For tests.
    pub faults: Option<FaultHook>,
    /// Read as on a kernel without splice from a tty. For tests.
    pub no_splice: bool,
}

/// The disk as the helper sees it.
pub(super) struct Disk(pub Option<FaultHook>);

impl Disk {
    pub(super) fn check(&self, op: DiskOp) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |hook| hook(op))
    }

    pub(super) fn step(&self) {
        let _ = self.check(DiskOp::Step);
    }
}

#[derive(Default)]
struct Queue {
    urgent: VecDeque<Arc<Session>>,
    lazy: Vec<Arc<Session>>,
    lazy_due: Option<Instant>,
    retry: Vec<(Instant, Arc<Session>)>,
    sessions: HashMap<u64, Arc<Session>>,
    closing_since: HashMap<u64, Instant>,
    /// Directories of ended sessions to count in.
    ended: VecDeque<(PathBuf, SystemTime)>,
    /// Directories that count no more, before anything else is dropped for them.
    forgotten: Vec<PathBuf>,
    stop: bool,
}

struct Inner {
    queue: Mutex<Queue>,
    wake: Condvar,
    turned: Condvar,
    next_id: AtomicU64,
    no_splice: bool,
    begins: Begins,
}

/// Stops the thread when the last handle goes.
struct Owner(Arc<Inner>);

impl Drop for Owner {
    fn drop(&mut self) {
        lock(&self.0.queue).stop = true;
        self.0.wake.notify_one();
    }
}

/// Handle of the helper thread; cheap to clone. The thread finishes what is
/// queued and ends when the last handle and the last journal are gone.
#[derive(Clone)]
pub struct Spiller {
    owner: Arc<Owner>,
}

impl Spiller {
    pub fn start(budget: Budget) -> Result<Spiller, JournalError> {
        Self::start_with(SpillerOptions { budget, ..SpillerOptions::default() })
    }

    pub fn start_with(options: SpillerOptions) -> Result<Spiller, JournalError> {
        let inner = Arc::new(Inner {
            queue: Mutex::new(Queue::default()),
            wake: Condvar::new(),
            turned: Condvar::new(),
            next_id: AtomicU64::new(1),
            no_splice: options.no_splice || !probe_splice(),
            begins: Begins::default(),
        });
        let thread = SpillThread {
            inner: Arc::clone(&inner),
            disk: Disk(options.faults),
            evictor: Evictor::new(options.budget, Arc::clone(&inner.begins)),
        };
        std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || thread.run())
            .map_err(|source| JournalError::Thread { source })?;
        Ok(Spiller { owner: Arc::new(Owner(inner)) })
    }

    /// A helper without a thread: nothing happens but what the test does.
    #[cfg(test)]
    pub(super) fn by_hand(no_splice: bool) -> Spiller {
        let inner = Inner {
            queue: Mutex::new(Queue::default()),
            wake: Condvar::new(),
            turned: Condvar::new(),
            next_id: AtomicU64::new(1),
            no_splice,
            begins: Begins::default(),
        };
        Spiller { owner: Arc::new(Owner(Arc::new(inner))) }
    }

    fn inner(&self) -> &Inner {
        &self.owner.0
    }

    pub(super) fn next_id(&self) -> u64 {
        self.inner().next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn mode(&self) -> Mode {
        if self.inner().no_splice { Mode::Scan } else { Mode::Pipe }
    }

    pub(super) fn register(&self, session: &Arc<Session>) {
        lock(&self.inner().queue).sessions.insert(session.id, Arc::clone(session));
    }

    /// Queues the session, once. The caller has published what there is to do.
    pub(super) fn schedule(&self, session: &Arc<Session>, urgent: bool) {
        let level = if urgent { URGENT } else { LAZY };
        // Pairs with the fence in `SpillThread::turn`: either we see the session
        // taken off the queue, or the helper sees what we published.
        fence(Ordering::SeqCst);
        if session.queued.load(Ordering::Relaxed) >= level {
            return;
        }
        self.inner().enqueue(session, level);
    }

    /// Counts the journal of an ended session in the total budget, from which
    /// its older segments may be dropped. Scanned by the helper.
    pub fn adopt_ended(&self, dir: PathBuf, ended: SystemTime) {
        lock(&self.inner().queue).ended.push_back((dir, ended));
        self.inner().wake.notify_one();
    }

    /// The oldest byte kept of an ended session's journal, if it had to give some of it.
    pub fn begin_of_ended(&self, dir: &Path) -> Option<Seq> {
        lock(&self.inner().begins).get(dir).copied()
    }

    /// The journal of an ended session is being deleted: no other session gives output for it.
    pub fn forget_ended(&self, dir: PathBuf) {
        let mut queue = lock(&self.inner().queue);
        queue.ended.retain(|(other, _)| *other != dir);
        queue.forgotten.push(dir);
        drop(queue);
        self.inner().wake.notify_one();
    }

    /// Blocks until everything pumped so far is in files. `false`: some disk did not take it in
    /// time. For an orderly shutdown; a kill loses nothing either, as long as the keeper lives.
    #[must_use]
    pub fn flush_all(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let inner = self.inner();
        let wanted: Vec<(Arc<Session>, Goal)> = lock(&inner.queue)
            .sessions
            .values()
            .map(|session| (Arc::clone(session), session.goal()))
            .collect();
        for (session, _) in &wanted {
            self.schedule(session, true);
        }
        let mut queue = lock(&inner.queue);
        loop {
            let mut left = wanted.iter().filter(|(session, goal)| !session.is_flushed(*goal));
            let hopeless = left.clone().all(|(s, _)| s.shared.paused.load(Ordering::Acquire));
            if left.next().is_none() {
                return true;
            }
            let now = Instant::now();
            if hopeless || now >= deadline {
                return false;
            }
            queue = match inner.turned.wait_timeout(queue, deadline - now) {
                Ok((queue, _)) => queue,
                Err(_) => return false,
            };
        }
    }
}

/// How far a flush must come: bytes, and the offset of the last note.
#[derive(Clone, Copy)]
pub(super) struct Goal {
    pub seq: u64,
    notes: u64,
}

impl Session {
    /// Everything there is now.
    pub(super) fn goal(&self) -> Goal {
        let seq = self.shared.tail.load(Ordering::Acquire);
        Goal { seq, notes: self.ring.load(Word::NoteHead) }
    }

    pub(super) fn is_flushed(&self, goal: Goal) -> bool {
        self.shared.readable.load(Ordering::Acquire) >= goal.seq
            && self.ring.load(Word::NoteTail) >= goal.notes
    }
}

impl Inner {
    fn enqueue(&self, session: &Arc<Session>, level: u8) {
        let wakes = lock(&self.queue).enqueue(session, level);
        if wakes {
            self.wake.notify_one();
        }
    }
}

struct SpillThread {
    inner: Arc<Inner>,
    disk: Disk,
    evictor: Evictor,
}

enum Job {
    Spill(Arc<Session>),
    Ended(PathBuf, SystemTime),
    Forget,
    Stop,
}

impl SpillThread {
    fn run(mut self) {
        loop {
            match self.next_job() {
                Job::Spill(session) => self.turn(&session),
                Job::Ended(dir, ended) => {
                    self.evictor.adopt(dir, ended);
                    // Many come at once when a daemon takes over: the last of them settles the
                    // account.
                    if lock(&self.inner.queue).ended.is_empty() {
                        self.evict();
                    }
                }
                Job::Forget => self.forget(),
                Job::Stop => return,
            }
        }
    }

    fn next_job(&self) -> Job {
        let mut queue = lock(&self.inner.queue);
        loop {
            let now = Instant::now();
            queue.promote_due(now);
            if let Some(session) = queue.urgent.pop_front() {
                return Job::Spill(session);
            }
            if !queue.forgotten.is_empty() {
                return Job::Forget;
            }
            if let Some((dir, ended)) = queue.ended.pop_front() {
                return Job::Ended(dir, ended);
            }
            if queue.stop && queue.lazy.is_empty() {
                return Job::Stop;
            }
            let wait = queue.next_due().map(|due| due.saturating_duration_since(now));
            queue = match wait {
                Some(wait) => match self.inner.wake.wait_timeout(queue, wait) {
                    Ok((queue, _)) => queue,
                    Err(poisoned) => poisoned.into_inner().0,
                },
                None => self.inner.wake.wait(queue).unwrap_or_else(|p| p.into_inner()),
            };
        }
    }

    fn turn(&mut self, session: &Arc<Session>) {
        session.queued.store(0, Ordering::Relaxed);
        // See `Spiller::schedule`.
        fence(Ordering::SeqCst);
        let outcome = guarded_turn(session, &self.disk);
        match outcome {
            Ok(turn) => {
                if session.shared.paused.load(Ordering::Acquire) {
                    session.shared.set_paused(None);
                    // What a pump published meanwhile it left to us.
                    self.inner.enqueue(session, LAZY);
                }
                if turn == SpillEnd::Rolled {
                    self.evict();
                }
                if turn != SpillEnd::Done {
                    self.inner.enqueue(session, URGENT);
                }
            }
            Err(why) => {
                session.shared.set_paused(Some(why));
                lock(&self.inner.queue).retry_later(session);
            }
        }
        self.close_if_done(session, outcome == Ok(SpillEnd::Done));
        // Under the lock, or `flush_all` could look before and wait after.
        drop(lock(&self.inner.queue));
        self.inner.turned.notify_all();
        session.shared.progress.notify_waiters();
    }

    fn forget(&mut self) {
        let forgotten = std::mem::take(&mut lock(&self.inner.queue).forgotten);
        forgotten.iter().for_each(|dir| self.evictor.forget(dir));
    }

    fn evict(&mut self) {
        self.forget();
        let live: Vec<_> = lock(&self.inner.queue).sessions.values().cloned().collect();
        self.evictor.enforce(&live);
    }

    fn close_if_done(&mut self, session: &Arc<Session>, done: bool) {
        if !session.closing.load(Ordering::Acquire) {
            return;
        }
        let mut queue = lock(&self.inner.queue);
        let since = *queue.closing_since.entry(session.id).or_insert_with(Instant::now);
        let flushed = done && session.is_flushed(session.goal());
        if !flushed && since.elapsed() < CLOSE_PATIENCE {
            return;
        }
        queue.closing_since.remove(&session.id);
        queue.sessions.remove(&session.id);
        queue.retry.retain(|(_, other)| other.id != session.id);
        drop(queue);
        if !flushed {
            tracing::warn!(dir = %session.shared.dir.display(), "the last output is not on disk");
        }
        if session.shared.ended.load(Ordering::Acquire) {
            self.evictor.adopt(session.shared.dir.clone(), SystemTime::now());
        }
    }
}

/// A panic over one session's files must not end the recording of all.
fn guarded_turn(session: &Session, disk: &Disk) -> Result<SpillEnd, PauseReason> {
    let turn = || lock(&session.files).turn(session, disk);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(turn)).unwrap_or_else(|_| {
        tracing::error!(dir = %session.shared.dir.display(), "the journal thread met a bug");
        Err(PauseReason::Io { errno: 0 })
    })
}

impl Queue {
    fn promote_due(&mut self, now: Instant) {
        if self.stop || self.lazy_due.is_some_and(|due| due <= now) {
            self.lazy_due = None;
            for session in self.lazy.drain(..) {
                session.queued.store(URGENT, Ordering::Relaxed);
                self.urgent.push_back(session);
            }
        }
        while let Some(at) = self.retry.iter().position(|(due, _)| *due <= now) {
            let (_, session) = self.retry.swap_remove(at);
            self.enqueue(&session, URGENT);
        }
    }

    /// Whether the thread has to be woken for it.
    fn enqueue(&mut self, session: &Arc<Session>, level: u8) -> bool {
        let old = session.queued.load(Ordering::Relaxed);
        if old >= level {
            return false;
        }
        session.queued.store(level, Ordering::Relaxed);
        if level == LAZY {
            self.lazy.push(Arc::clone(session));
            // Where the timer runs already it wakes the thread.
            let first = self.lazy_due.is_none();
            self.lazy_due.get_or_insert_with(|| Instant::now() + LAZY_SPILL);
            return first;
        }
        if old == LAZY {
            self.lazy.retain(|other| other.id != session.id);
        }
        self.urgent.push_back(Arc::clone(session));
        true
    }

    fn next_due(&self) -> Option<Instant> {
        self.retry.iter().map(|(due, _)| *due).chain(self.lazy_due).min()
    }

    fn retry_later(&mut self, session: &Arc<Session>) {
        if !self.retry.iter().any(|(_, other)| other.id == session.id) {
            self.retry.push((Instant::now() + RETRY, Arc::clone(session)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment;
    use super::*;

    #[test]
    fn nobody_gives_output_for_what_was_removed() {
        let top = tempfile::tempdir().unwrap();
        let [removed, kept] = ["removed", "kept"].map(|name| top.path().join(name));
        let spiller = Spiller::by_hand(true);
        let budget = Budget { total_bytes: 10_000 };
        let mut evictor = Evictor::new(budget, Arc::clone(&spiller.inner().begins));
        for dir in [&removed, &kept] {
            segment::make_dir(dir).unwrap();
            for start in [0, 4096] {
                std::fs::write(segment::path(dir, start, segment::SEG), [0; 4096]).unwrap();
            }
            evictor.adopt(dir.clone(), SystemTime::UNIX_EPOCH);
        }
        let mut thread =
            SpillThread { inner: Arc::clone(&spiller.owner.0), disk: Disk(None), evictor };
        spiller.adopt_ended(removed.clone(), SystemTime::UNIX_EPOCH);
        spiller.forget_ended(removed);
        thread.evict();
        assert_eq!(segment::list(&kept).unwrap().segments.len(), 2, "its 8 KiB fit");
        assert!(lock(&spiller.inner().queue).ended.is_empty());
    }
}

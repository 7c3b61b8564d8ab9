//! What the actor publishes and handles read.
//!
//! One short lock, never held across an await, never leaves this file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use greenroom_term::{InputModes, Size};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::egress::{Egress, Filtered, Raw};
use crate::engine::EngineParts;
use crate::events::{Event, Fact};
use crate::id::{ClientId, Seq, SessionId};
use crate::journal::{RecordingState, Summary};
use crate::lock::lock;
use crate::names;
use crate::process::{BoxFuture, ExitStatus, Member};
use crate::session::actor::{Msg, Source};
use crate::session::facts::FactQueue;
use crate::session::input::Input;
use crate::store::{RecordState, SessionRecord, StoreError};

/// The record of an ended session is saved again this often until it is.
const SAVE_RETRY: std::time::Duration = std::time::Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq)]
pub enum SessionState {
    Starting,
    Running,
    Exited { at: SystemTime, status: ExitStatus },
    Failed { why: String },
}

#[derive(Clone, Debug)]
pub struct SessionInfo {
    pub record: SessionRecord,
    pub state: SessionState,
    pub pid: Option<u32>,
    pub title: Option<Filtered<String>>,
    pub first_seq: Seq,
    pub seq: Seq,
    pub recording: RecordingState,
    pub clients: usize,
    pub size_owner: Option<ClientId>,
    pub last_output: Option<SystemTime>,
    pub last_input: Option<SystemTime>,
    pub dropped_marks: u64,
    /// Why readers see masks where they would see text if all were well.
    pub withheld: Option<String>,
}

/// The state of the output, as waiters watch it.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub seq: Seq,
    /// When something visible last changed.
    pub visible_at: Instant,
    pub ended: Option<ExitStatus>,
    /// The actor is gone: nothing more will happen.
    pub closed: bool,
}

pub(crate) struct Shared {
    pub id: SessionId,
    pub egress: Egress,
    pub input: Option<Input>,
    pub tx: mpsc::Sender<Msg>,
    pub facts: FactQueue,
    pub parts: Arc<EngineParts>,
    change: watch::Sender<Change>,
    /// The session ended or was closed. Apart from `change`, so that whoever waits for nothing
    /// else is not woken by output.
    over: watch::Sender<bool>,
    /// True once the end of the session is on record.
    settled: watch::Sender<bool>,
    live: Mutex<Live>,
    clients: AtomicU64,
    dropped_marks: AtomicU64,
}

struct Live {
    record: SessionRecord,
    title: Option<Filtered<String>>,
    modes: InputModes,
    span: (Seq, Seq),
    viewers: usize,
    owner: Option<ClientId>,
    recording: RecordingState,
    last_output: Option<SystemTime>,
    last_input: Option<SystemTime>,
}

impl Shared {
    pub(crate) fn new(
        record: SessionRecord,
        parts: Arc<EngineParts>,
        input: Option<Input>,
        tx: mpsc::Sender<Msg>,
        egress: Egress,
    ) -> Shared {
        let ended = match record.state {
            RecordState::Ended { status, .. } => Some(status),
            _ => None,
        };
        let change = Change { seq: Seq(0), visible_at: Instant::now(), ended, closed: false };
        Shared {
            id: record.id,
            egress,
            input,
            tx,
            facts: FactQueue::default(),
            parts,
            change: watch::Sender::new(change),
            over: watch::Sender::new(ended.is_some()),
            settled: watch::Sender::new(ended.is_some()),
            live: Mutex::new(Live {
                record,
                title: None,
                modes: InputModes::default(),
                span: (Seq(0), Seq(0)),
                viewers: 0,
                owner: None,
                recording: RecordingState::Recording,
                last_output: None,
                last_input: None,
            }),
            clients: AtomicU64::new(1),
            dropped_marks: AtomicU64::new(0),
        }
    }

    pub(crate) fn emit(&self, fact: Fact) {
        self.parts.events.emit(Event { session: self.id, fact });
    }

    pub(crate) fn changes(&self) -> watch::Receiver<Change> {
        self.change.subscribe()
    }

    pub(crate) fn change(&self) -> Change {
        *self.change.borrow()
    }

    pub(crate) fn next_client(&self) -> ClientId {
        ClientId(self.clients.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn modes(&self) -> InputModes {
        self.live().modes
    }

    pub(crate) fn state(&self) -> SessionState {
        state_of(&self.live().record.state)
    }

    pub(crate) fn record(&self) -> SessionRecord {
        self.live().record.clone()
    }

    pub(crate) fn member(&self) -> Option<Member> {
        let live = self.live();
        let pid = match live.record.state {
            RecordState::Running { pid } | RecordState::Ended { pid, .. } => pid,
            RecordState::Starting | RecordState::Failed { .. } => return None,
        };
        Some(Member { id: self.id, pid, key: live.record.key.clone() })
    }

    pub(crate) fn info(&self) -> SessionInfo {
        // Others may have pushed its beginning out since it was last read.
        let begin = self.parts.spiller.begin_of_ended(&self.parts.dir.join(self.id.to_string()));
        let live = self.live();
        let pid = match live.record.state {
            RecordState::Running { pid } => Some(pid),
            _ => None,
        };
        SessionInfo {
            state: state_of(&live.record.state),
            pid,
            record: live.record.clone(),
            title: live.title.clone(),
            first_seq: begin.map_or(live.span.0, |begin| begin.max(live.span.0)),
            seq: live.span.1,
            recording: live.recording.clone(),
            clients: live.viewers,
            size_owner: live.owner,
            last_output: live.last_output,
            last_input: live.last_input,
            dropped_marks: self.dropped_marks.load(Ordering::Relaxed),
            withheld: self.egress.trouble(),
        }
    }

    /// Changes what is kept of it; whoever does saves it then.
    pub(crate) fn change_record(&self, change: impl FnOnce(&mut SessionRecord)) {
        change(&mut self.live().record);
    }

    /// Goes by its id from now on, if it has ended and has this name.
    pub(crate) fn gave_up(&self, name: &str) -> bool {
        let mut live = self.live();
        let gives = live.record.name == name && names::is_over(&live.record.state);
        if gives {
            let id = self.id.to_string();
            live.record.former = Some(std::mem::replace(&mut live.record.name, id));
            live.record.chosen = false;
        }
        gives
    }

    /// Saves the record as it is now. The store takes it up under the lock, so
    /// that of two saves the later one wins.
    pub(crate) fn save(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        let live = self.live();
        self.parts.store.save(live.record.clone())
    }

    pub(crate) fn input_seen(&self) {
        self.live().last_input = Some(SystemTime::now());
    }

    pub(crate) fn output_seen(&self, seq: Seq, modes: InputModes, visibly: bool, now: Instant) {
        {
            let mut live = self.live();
            live.modes = modes;
            live.last_output = Some(SystemTime::now());
        }
        self.change.send_modify(|change| {
            change.seq = seq;
            if visibly {
                change.visible_at = now;
            }
        });
    }

    /// What can be known of its output before anybody has read it.
    pub(crate) fn left(&self, before: Summary) {
        let mut live = self.live();
        live.span = before.span;
        live.last_output = before.last_output;
    }

    /// The actor starts (again) with a screen at this point.
    pub(crate) fn resumed(self: &Arc<Self>, seq: Seq, modes: InputModes, title: Option<String>) {
        {
            let mut live = self.live();
            live.modes = modes;
            if live.span.1 < seq {
                // It came while no daemon was there, and was taken just now.
                live.last_output = Some(SystemTime::now());
            }
            live.span.1 = seq;
        }
        self.change.send_modify(|change| change.seq = seq);
        if let Some(title) = title {
            self.had_title(self.egress.text(Raw::new(title)));
        }
    }

    pub(crate) fn resized(&self, size: Size) {
        self.live().record.size = size;
        self.changed_visibly();
    }

    pub(crate) fn changed_visibly(&self) {
        self.change.send_modify(|change| change.visible_at = Instant::now());
    }

    pub(crate) fn has_title(&self, title: &Filtered<String>) -> bool {
        self.live().title.as_ref() == Some(title)
    }

    pub(crate) fn set_title(&self, title: Filtered<String>) {
        self.live().title = Some(title);
        // Filters may have answered long after the output that said it: whoever waits looks again.
        self.change.send_modify(|_| {});
    }

    pub(crate) fn count_dropped_mark(&self) {
        self.dropped_marks.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn publish(
        &self,
        span: (Seq, Seq),
        viewers: usize,
        owner: Option<ClientId>,
        recording: RecordingState,
    ) {
        let mut live = self.live();
        live.span = span;
        live.viewers = viewers;
        live.owner = owner;
        live.recording = recording;
    }

    pub(crate) fn ended(&self, status: ExitStatus) {
        {
            let mut live = self.live();
            let pid = match live.record.state {
                RecordState::Running { pid } => pid,
                _ => 0,
            };
            live.record.state = RecordState::Ended { pid, at: SystemTime::now(), status };
        }
        self.change.send_modify(|change| change.ended = Some(status));
        self.over.send_replace(true);
    }

    pub(crate) fn closed(&self) {
        self.change.send_modify(|change| change.closed = true);
        self.over.send_replace(true);
    }

    /// The session is over: get its last bytes to disk, remember how it ended,
    /// and only then let the keeper forget it.
    pub(crate) fn settle(self: Arc<Self>, source: Source, status: ExitStatus, seq: Seq) {
        self.emit(Fact::Exited { status, seq });
        tokio::spawn(async move {
            source.journal.reader().flush(seq).await;
            // A session that was removed meanwhile must not come back.
            while !self.change().closed
                && let Err(error) = self.save().await
            {
                tracing::warn!(session = %self.id, %error, "saving the end of a session");
                tokio::time::sleep(SAVE_RETRY).await;
            }
            self.parts.processes.release(self.id);
            drop(source);
            self.settled.send_replace(true);
        });
    }

    /// Waits until the session has ended or was closed.
    pub(crate) async fn over(&self) {
        let mut over = self.over.subscribe();
        // The sender lives in `self`: it cannot be gone.
        let _ = over.wait_for(|over| *over).await;
    }

    /// Waits until an ended session's files and record are complete.
    pub(crate) async fn settled(&self) {
        let mut settled = self.settled.subscribe();
        // The sender lives in `self`: it cannot be gone.
        let _ = settled.wait_for(|done| *done).await;
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        lock(&self.live)
    }
}

fn state_of(state: &RecordState) -> SessionState {
    match state {
        RecordState::Starting => SessionState::Starting,
        RecordState::Running { .. } => SessionState::Running,
        RecordState::Failed { why } => SessionState::Failed { why: why.clone() },
        RecordState::Ended { at, status, .. } => SessionState::Exited { at: *at, status: *status },
    }
}

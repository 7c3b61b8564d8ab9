//! What the actor publishes and handles read.
//!
//! One short lock, never held across an await, never leaves this file.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use greenroom_term::{InputModes, Size};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::egress::{Egress, Filtered, Raw, Sink};
use crate::engine::EngineParts;
use crate::events::{Event, Fact};
use crate::id::{ClientId, Seq, SessionId};
use crate::journal::{Glance, RecordingState};
use crate::names;
use crate::process::{ExitStatus, Member, Wait};
use crate::session::actor::{Msg, Source};
use crate::session::input::Input;
use crate::session::telling::Telling;
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
    pub telling: Telling,
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
    pub fn new(
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
            telling: Telling::default(),
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

    pub fn emit(&self, fact: Fact) {
        self.parts.events.emit(Event { session: self.id, fact });
    }

    pub fn changes(&self) -> watch::Receiver<Change> {
        self.change.subscribe()
    }

    pub fn change(&self) -> Change {
        *self.change.borrow()
    }

    pub fn next_client(&self) -> ClientId {
        ClientId(self.clients.fetch_add(1, Ordering::Relaxed))
    }

    pub fn modes(&self) -> InputModes {
        self.live().modes
    }

    pub fn state(&self) -> SessionState {
        state_of(&self.live().record.state)
    }

    pub fn record(&self) -> SessionRecord {
        self.live().record.clone()
    }

    pub fn member(&self) -> Option<Member> {
        let live = self.live();
        let pid = match live.record.state {
            RecordState::Running { pid } | RecordState::Ended { pid, .. } => pid,
            RecordState::Starting | RecordState::Failed { .. } => return None,
        };
        Some(Member { id: self.id, pid, key: live.record.key.clone() })
    }

    pub fn info(&self) -> SessionInfo {
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
            first_seq: live.span.0,
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

    pub fn renamed(&self, name: &str) {
        let mut live = self.live();
        name.clone_into(&mut live.record.name);
        live.record.chosen = true;
        live.record.former = None;
    }

    /// Goes by its id from now on, if it has ended and has this name.
    pub fn gave_up(&self, name: &str) -> bool {
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
    pub fn save(&self) -> Wait<'_, Result<(), StoreError>> {
        let live = self.live();
        self.parts.store.save(live.record.clone())
    }

    pub fn input_seen(&self) {
        self.live().last_input = Some(SystemTime::now());
    }

    pub fn output_seen(&self, seq: Seq, modes: InputModes, visibly: bool, now: Instant) {
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
    pub fn left(&self, before: Glance) {
        let mut live = self.live();
        live.span = before.span;
        live.last_output = before.last_output;
    }

    /// The actor starts (again) with a screen at this point.
    pub fn resumed(self: &Arc<Self>, seq: Seq, modes: InputModes, title: Option<String>) {
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
            self.had_title(self.egress.text(Sink::Event, Raw::new(title)));
        }
    }

    pub fn resized(&self, size: Size) {
        self.live().record.size = size;
        self.changed_visibly();
    }

    pub fn changed_visibly(&self) {
        self.change.send_modify(|change| change.visible_at = Instant::now());
    }

    /// True when the title is new.
    pub fn titled(&self, title: &Filtered<String>) -> bool {
        let mut live = self.live();
        let new = live.title.as_ref() != Some(title);
        live.title = Some(title.clone());
        new
    }

    pub fn count_dropped_mark(&self) {
        self.dropped_marks.fetch_add(1, Ordering::Relaxed);
    }

    pub fn publish(
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

    pub fn ended(&self, status: ExitStatus) {
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

    pub fn closed(&self) {
        self.change.send_modify(|change| change.closed = true);
        self.over.send_replace(true);
    }

    /// The session is over: get its last bytes to disk, remember how it ended,
    /// and only then let the keeper forget it.
    pub fn settle(self: Arc<Self>, source: Source, status: ExitStatus, seq: Seq) {
        self.emit(Fact::Exited { status, seq });
        tokio::spawn(async move {
            source.journal.reader().flush(seq).await;
            // One that was removed meanwhile must not come back.
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
    pub async fn over(&self) {
        let mut over = self.over.subscribe();
        // The sender lives in `self`: it cannot be gone.
        let _ = over.wait_for(|over| *over).await;
    }

    /// Waits until an ended session's files and record are complete.
    pub async fn settled(&self) {
        let mut settled = self.settled.subscribe();
        // The sender lives in `self`: it cannot be gone.
        let _ = settled.wait_for(|done| *done).await;
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
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

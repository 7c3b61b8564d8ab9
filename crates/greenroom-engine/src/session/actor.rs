//! The one task that owns a session.
//!
//! One turn: take what the kernel has (numbered into the journal), offer it to
//! the subscribers, feed the screen, answer the program's terminal queries. It
//! never waits for a subscriber, a plugin or the disk: sends are tries, the
//! journal's helper thread writes. Everything that can wake it is in `run`.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use greenroom_term::{Frame, Screen, Size};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::egress::{Raw, Sink};
use crate::events::Fact;
use crate::id::{ClientId, Seq};
use crate::journal::{DATA_BYTES, Journal, JournalReader, Note, PumpEnd, RecordingState};
use crate::process::ExitStatus;
use crate::session::Shared;
use crate::session::delivery::{Push, RawPush, Subscriber, SubscriberKind, Subscription};
use crate::session::heap;
use crate::session::marks::MarkGate;
use crate::session::screen::{Fed, SessionScreen};
use crate::session::size::SizePolicy;
use crate::session::terminal::Master;
use crate::session::timers::{Timers, due};

/// Most bytes of one turn; the loop then looks at its messages again.
const TURN_BYTES: usize = 64 * 1024;

/// A session that printed nothing for this long is shown at once.
const CALM: Duration = Duration::from_millis(1);

/// In a flood the screen is at most this far behind in time…
const FEED_WITHIN: Duration = Duration::from_millis(4);

/// …and is fed batches of this size, off the thread that reads: reading is a race
/// of wake-ups between kernel threads, which parsing would lose.
const BATCH_BYTES: u64 = 64 * 1024;

/// Reading stops while the screen is this far behind: the ring has what it has
/// not seen yet, and must not be written over.
const BEHIND_MAX: u64 = DATA_BYTES as u64 / 2;

/// A reader of the screen waits at most this long for a synchronized update
/// to end: a program that forgets to end it must not hide its screen.
const SYNC_PATIENCE: Duration = Duration::from_millis(150);

/// A screen nobody touched for this long is kept as a keyframe.
const SLEEP_AFTER: Duration = Duration::from_secs(3);

/// After the leader's exit, output of what it left behind is still taken until
/// it pauses this long, and at most [`LINGER`] in all.
const LAST_WORDS: Duration = Duration::from_millis(100);
const LINGER: Duration = Duration::from_secs(2);

/// The terminal has no program on it but the session lives (it closed its
/// standard streams): look again this often.
const CLOSED_RETRY: Duration = Duration::from_secs(1);

/// The kernel refused to hand output over (no memory): try again so soon.
const FAILED_RETRY: Duration = Duration::from_millis(100);

/// Snapshot requests held back by one synchronized update.
const DEFERRED_MAX: usize = 256;

pub(crate) enum Msg {
    Frame {
        reply: oneshot::Sender<(Arc<Frame>, Seq)>,
    },
    Reader {
        reply: oneshot::Sender<JournalReader>,
    },
    Subscribe {
        kind: SubscriberKind,
        /// `None`: unfiltered, for one who may see secrets.
        sink: Option<Sink>,
        reply: oneshot::Sender<Subscription>,
    },
    Resync {
        client: ClientId,
    },
    Unsubscribe {
        client: ClientId,
    },
    Typed {
        client: Option<ClientId>,
        len: u32,
    },
    Window {
        client: ClientId,
        size: Size,
    },
    Resize {
        size: Size,
        reply: oneshot::Sender<()>,
    },
    Mark {
        label: String,
        reply: oneshot::Sender<Seq>,
    },
    /// The screen of `Resize`, with lines from above, as it was at `seq`.
    Regrown {
        screen: Box<Screen>,
        seq: Seq,
    },
    Exited(ExitStatus),
    Close {
        reply: oneshot::Sender<()>,
    },
}

/// Where a running session's bytes come from.
pub(crate) struct Source {
    pub master: Master,
    pub journal: Journal,
}

pub(crate) struct Actor {
    pub(crate) shared: Arc<Shared>,
    pub(super) rx: mpsc::Receiver<Msg>,
    pub(super) source: Option<Source>,
    pub(super) reader: JournalReader,
    pub(super) screen: SessionScreen,
    pub(super) subscribers: Vec<Subscriber>,
    pub(super) sizes: SizePolicy,
    pub(super) marks: MarkGate,
    pub(super) deferred: Vec<oneshot::Sender<(Arc<Frame>, Seq)>>,
    pub(super) ring_full: bool,
    pub(super) paused: bool,
    exiting: Option<Exiting>,
    pub(super) timers: Timers,
    fed_at: Option<Instant>,
    /// The screen is on another thread, being fed; until it is back only reading goes on.
    feeding: Option<JoinHandle<Batch>>,
    /// Bytes of the last batch, kept for their capacity.
    spare: Vec<u8>,
}

/// A screen that was fed on another thread, and what it was fed.
struct Batch {
    screen: SessionScreen,
    bytes: Vec<u8>,
    fed: Fed,
}

struct Exiting {
    status: ExitStatus,
    give_up: Instant,
}

impl Actor {
    pub(crate) fn new(
        shared: Arc<Shared>,
        rx: mpsc::Receiver<Msg>,
        source: Option<Source>,
        reader: JournalReader,
        screen: SessionScreen,
    ) -> Actor {
        Actor {
            shared,
            rx,
            source,
            reader,
            screen,
            subscribers: Vec::new(),
            sizes: SizePolicy::default(),
            marks: MarkGate::default(),
            deferred: Vec::new(),
            ring_full: false,
            paused: false,
            exiting: None,
            timers: Timers { sleep: Some(Instant::now() + SLEEP_AFTER), ..Timers::default() },
            fed_at: None,
            feeding: None,
            spare: Vec::new(),
        }
    }

    pub(crate) async fn run(mut self) {
        self.publish();
        loop {
            // What the branches below wait on is taken out of `self` first: their handlers need all
            // of it.
            let master = self.source.as_ref().map(|source| source.master.clone());
            let progress = self.source.as_ref().map(|source| source.journal.progress());
            let room =
                self.source.as_ref().filter(|_| self.ring_full).map(|source| source.journal.room());
            let input = self.shared.input.clone();
            // Where the ring is full or the screen too far behind, the kernel's buffer fills and
            // the program waits.
            let reading = master.is_some()
                && !self.ring_full
                && self.timers.reopen.is_none()
                && self.behind() < BEHIND_MAX;
            let flushing = self.source.is_some() && input.as_ref().is_some_and(|i| i.has_waiting());
            // While the screen is fed elsewhere only bytes move. Messages and timers need it and
            // wait for the few milliseconds; output does not, or a flood would be read in the
            // pauses of its own parsing.
            let here = self.feeding.is_none();
            let deadline = self.timers.next().filter(|_| here);
            // Not biased: a flood of output must not starve keys, nor many requests the output.
            // Every branch may be dropped at its await without loss: what was read is in the
            // journal, what was not sent is still queued.
            tokio::select! {
                batch = async { self.feeding.as_mut().expect("guarded by `here`").await }, if !here => {
                    self.take_back(batch.ok());
                }
                msg = self.rx.recv(), if here => match msg {
                    Some(Msg::Close { reply }) => {
                        self.close();
                        let _ = reply.send(());
                        return;
                    }
                    Some(msg) => self.handle(msg),
                    None => return self.close(),
                },
                ready = async { master.as_ref().expect("guarded by `reading`").readable().await }, if reading => {
                    let end = self.turn();
                    match (ready, end) {
                        // Only then: readiness that is cleared while bytes are left would never
                        // come back.
                        (Ok(mut ready), PumpEnd::WouldBlock) => ready.clear_ready(),
                        (Ok(_), _) => {}
                        (Err(_), _) => self.timers.reopen = Some(Instant::now() + CLOSED_RETRY),
                    }
                }
                // The helper wrote something to disk, or the disk hangs: then the next pump gives
                // the oldest bytes up.
                () = async { room.expect("guarded by `ring_full`").await }, if self.ring_full && self.source.is_some() => {
                    self.ring_full = false;
                }
                // Only a paused recording is watched: the helper makes progress all the time, and
                // each would be a wake-up.
                () = async { progress.as_ref().expect("guarded by `source`").notified().await },
                    if progress.is_some() && self.paused && here => self.recording_changed(),
                // Handles write to the terminal themselves; what did not fit is written from here…
                () = async { input.as_ref().expect("guarded by `flushing`").flush().await }, if flushing => {}
                // …after a handle said that there is some, which brings the loop round to
                // `flushing`.
                () = async { input.as_ref().expect("guarded by `source`").wanted.notified().await },
                    if self.source.is_some() && input.is_some() && !flushing => {}
                () = async { sleep_until(deadline.expect("guarded by `is_some`")).await }, if deadline.is_some() => {
                    self.tick(Instant::now());
                }
            }
            // Outside the select: it reads files and must not be dropped half-way.
            if self.feeding.is_none() && self.screen.is_broken() {
                self.rebuild().await;
            }
        }
    }

    pub(crate) fn handle(&mut self, msg: Msg) {
        self.catch_up(Instant::now());
        match msg {
            Msg::Frame { reply } => self.frame(reply),
            Msg::Reader { reply } => {
                let _ = reply.send(self.reader.clone());
            }
            Msg::Subscribe { kind, sink, reply } => self.subscribe(kind, sink, reply),
            Msg::Resync { client } => self.resync(client),
            Msg::Unsubscribe { client } => self.unsubscribe(client),
            Msg::Typed { client, len } => self.typed(client, len),
            Msg::Window { client, size } => self.window(client, size),
            Msg::Resize { size, reply } => {
                self.resize(size);
                let _ = reply.send(());
            }
            Msg::Mark { label, reply } => {
                self.note(Note::Mark(label.clone()));
                self.shared.emit(Fact::Marked { label, seq: self.screen.seq() });
                let _ = reply.send(self.screen.seq());
            }
            Msg::Regrown { screen, seq } => self.regrown(*screen, seq),
            Msg::Exited(status) => self.leader_exited(status),
            Msg::Close { .. } => unreachable!("ends the loop in `run`"),
        }
    }

    /// Takes what the kernel has, up to [`TURN_BYTES`].
    fn turn(&mut self) -> PumpEnd {
        let Some(source) = &mut self.source else { return PumpEnd::Closed };
        let pumped = source.journal.pump(source.master.as_fd(), TURN_BYTES);
        if pumped.to > pumped.from {
            let (first, second) = source.journal.bytes(pumped.from, pumped.to);
            if self.subscribers.iter().any(|subscriber| !subscriber.painted) {
                // One copy for all.
                let bytes: Arc<[u8]> =
                    if second.is_empty() { first.into() } else { [first, second].concat().into() };
                let seq = pumped.from;
                for subscriber in self.subscribers.iter_mut().filter(|one| !one.painted) {
                    let bytes = Raw::new(bytes.clone());
                    subscriber.push(seq, RawPush::Output { seq, bytes });
                }
            }
            self.feed_if_due(pumped.from, pumped.to);
        }
        match &pumped.end {
            PumpEnd::RingFull => self.ring_full = true,
            PumpEnd::Closed => self.closed(),
            PumpEnd::Failed(error) => {
                // Nothing is lost: what was taken is still in the pipe.
                tracing::warn!(session = %self.shared.id, %error, "reading a terminal");
                self.timers.reopen = Some(Instant::now() + FAILED_RETRY);
            }
            PumpEnd::WouldBlock | PumpEnd::Short | PumpEnd::Budget => {}
        }
        pumped.end
    }

    /// In calm the screen follows every read; in a flood it is fed large batches,
    /// most of which it can skip.
    fn feed_if_due(&mut self, from: Seq, to: Seq) {
        if self.feeding.is_some() {
            return;
        }
        let now = Instant::now();
        let rested = self.fed_at.is_none_or(|at| now.duration_since(at) >= CALM);
        if rested && from == self.screen.seq() && to.since(from) < BATCH_BYTES / 4 {
            self.catch_up(now);
        } else if to.since(self.screen.seq()) >= BATCH_BYTES {
            self.feed_elsewhere(to, now);
        } else {
            self.timers.feed.get_or_insert(now + FEED_WITHIN);
        }
    }

    /// Has the screen fed on another thread while this one reads on.
    fn feed_elsewhere(&mut self, to: Seq, now: Instant) {
        let Some(source) = &mut self.source else { return };
        self.timers.feed = None;
        self.fed_at = Some(now);
        let (first, second) = source.journal.bytes(self.screen.seq(), to);
        let mut bytes = std::mem::take(&mut self.spare);
        bytes.clear();
        bytes.extend_from_slice(first);
        bytes.extend_from_slice(second);
        let mut screen = self.screen.take();
        self.feeding = Some(tokio::task::spawn_blocking(move || {
            let fed = screen.feed(&bytes, &[]);
            Batch { screen, bytes, fed }
        }));
    }

    /// The screen is back. `None`: its thread died, which no screen does.
    fn take_back(&mut self, batch: Option<Batch>) {
        self.feeding = None;
        let now = Instant::now();
        let Some(batch) = batch else {
            self.screen = SessionScreen::lost(self.screen.size(), self.screen.seq());
            return;
        };
        self.screen = batch.screen;
        self.spare = batch.bytes;
        self.follow(batch.fed, now);
        let tail = self.source.as_ref().map(|source| source.journal.span().1);
        match tail {
            Some(tail) if tail.since(self.screen.seq()) >= BATCH_BYTES => {
                self.feed_elsewhere(tail, now)
            }
            Some(tail) if tail != self.screen.seq() => {
                self.timers.feed.get_or_insert(now + FEED_WITHIN);
            }
            _ => {}
        }
    }

    /// Brings the screen up to the journal's end, here and now.
    pub(super) fn catch_up(&mut self, now: Instant) {
        self.timers.feed = None;
        let Some(source) = &mut self.source else { return };
        let (_, tail) = source.journal.span();
        if tail == self.screen.seq() {
            return;
        }
        self.fed_at = Some(now);
        let (first, second) = source.journal.bytes(self.screen.seq(), tail);
        if (first.len() + second.len()) as u64 != tail.since(self.screen.seq()) {
            // Cannot be while reading stops at `BEHIND_MAX`. The files have what the ring lost.
            self.screen = SessionScreen::lost(self.screen.size(), tail);
            return;
        }
        let fed = self.screen.feed(first, second);
        self.follow(fed, now);
    }

    /// How much output the screen has not seen.
    fn behind(&self) -> u64 {
        self.source.as_ref().map_or(0, |source| source.journal.span().1.since(self.screen.seq()))
    }

    /// Everything that follows from new output on the screen.
    fn follow(&mut self, fed: Fed, now: Instant) {
        if !fed.replies.is_empty()
            && let Some(input) = &self.shared.input
        {
            input.reply(&fed.replies);
        }
        let Some(source) = &self.source else { return };
        let paused = matches!(source.journal.state(), RecordingState::Paused { .. });
        if paused != self.paused {
            self.recording_changed();
        }
        self.roll_if_due();
        if !fed.marks.is_empty() {
            self.timers.marks = self.marks.take(&self.shared, fed.marks, now);
        }
        self.subscribers.retain(|subscriber| !subscriber.is_gone());
        self.timers.sleep = Some(now + SLEEP_AFTER);
        if self.exiting.is_some() {
            self.timers.exit = Some(now + LAST_WORDS);
        }
        if !self.deferred.is_empty() && !self.screen.in_sync_update() {
            self.answer_frames();
        }
        if self.subscribers.iter().any(|subscriber| subscriber.painted) {
            self.paint_soon(now);
        }
        self.shared.output_seen(self.screen.seq(), self.screen.input_modes(), fed.visibly, now);
        self.publish();
    }

    fn frame(&mut self, reply: oneshot::Sender<(Arc<Frame>, Seq)>) {
        self.timers.sleep = Some(Instant::now() + SLEEP_AFTER);
        if self.screen.in_sync_update() && self.deferred.len() < DEFERRED_MAX {
            self.deferred.push(reply);
            self.timers.sync.get_or_insert_with(|| Instant::now() + SYNC_PATIENCE);
            return;
        }
        let _ = reply.send((self.screen.frame(), self.screen.seq()));
    }

    fn answer_frames(&mut self) {
        self.timers.sync = None;
        for reply in std::mem::take(&mut self.deferred) {
            let _ = reply.send((self.screen.frame(), self.screen.seq()));
        }
    }

    fn typed(&mut self, client: Option<ClientId>, len: u32) {
        self.note(Note::Input { len });
        if let Some(client) = client {
            let size = self.sizes.typed(client);
            self.take_size(size);
        }
    }

    pub(super) fn note(&mut self, note: Note) {
        if let Some(source) = &mut self.source {
            source.journal.note(note);
        }
    }

    fn leader_exited(&mut self, status: ExitStatus) {
        if self.exiting.is_some() || self.source.is_none() {
            return;
        }
        let now = Instant::now();
        self.exiting = Some(Exiting { status, give_up: now + LINGER });
        self.timers.exit = Some(now + LAST_WORDS);
        // The kernel may hold last words already: read before any timer.
        self.timers.reopen = None;
        while self.behind() < BEHIND_MAX && matches!(self.turn(), PumpEnd::Budget | PumpEnd::Short)
        {
        }
    }

    /// Nobody has the terminal open any more.
    fn closed(&mut self) {
        if self.feeding.is_some() {
            // Looked at again as soon as the screen is back.
            self.timers.reopen = Some(Instant::now());
        } else if self.exiting.is_some() {
            self.finish();
        } else {
            self.timers.reopen = Some(Instant::now() + CLOSED_RETRY);
        }
    }

    fn finish(&mut self) {
        self.catch_up(Instant::now());
        let Some(exiting) = self.exiting.take() else { return };
        let Some(mut source) = self.source.take() else { return };
        let seq = self.screen.seq();
        source.journal.note(exit_note(exiting.status));
        if let Some(input) = &self.shared.input {
            input.close();
        }
        self.timers = Timers { sleep: self.timers.sleep, ..Timers::default() };
        self.marks.flush(&self.shared);
        self.answer_frames();
        // Viewers that are painted to have not seen the last output yet.
        self.paint(Instant::now());
        self.shared.ended(exiting.status);
        for subscriber in &mut self.subscribers {
            subscriber.push(seq, RawPush::Plain(Push::Exited { status: exiting.status, seq }));
        }
        self.publish();
        self.shared.clone().settle(source, exiting.status, seq);
    }

    fn recording_changed(&mut self) {
        self.catch_up(Instant::now());
        let Some(source) = &self.source else { return };
        match source.journal.state() {
            RecordingState::Paused { why, .. } => {
                if !self.paused {
                    self.shared.emit(Fact::RecordingPaused { why: why.to_string() });
                }
                self.paused = true;
            }
            RecordingState::Recording => {
                if self.paused {
                    self.shared.emit(Fact::RecordingResumed);
                }
                self.paused = false;
            }
        }
        self.roll_if_due();
        self.publish();
    }

    /// A new segment starts with a keyframe, so that a restart replays little.
    fn roll_if_due(&mut self) {
        if !self.source.as_ref().is_some_and(|source| source.journal.roll_due()) {
            return;
        }
        // The keyframe is of the journal's end.
        self.catch_up(Instant::now());
        let Some(source) = &mut self.source else { return };
        if source.journal.roll_due() {
            let size = self.screen.size();
            source.journal.roll(self.screen.keyframe(), size);
        }
    }

    fn tick(&mut self, now: Instant) {
        self.catch_up(now);
        if due(&mut self.timers.sync, now) {
            self.answer_frames();
        }
        if due(&mut self.timers.paint, now) {
            self.paint(now);
        }
        if due(&mut self.timers.marks, now) {
            self.marks.flush(&self.shared);
        }
        if due(&mut self.timers.reopen, now) {
            self.turn();
        }
        if due(&mut self.timers.exit, now) {
            self.finish();
        }
        if self.exiting.as_ref().is_some_and(|exiting| exiting.give_up <= now) {
            self.finish();
        }
        if due(&mut self.timers.sleep, now) {
            self.sleep();
        }
    }

    fn sleep(&mut self) {
        if self.screen.in_sync_update() {
            self.timers.sleep = Some(Instant::now() + SLEEP_AFTER);
            return;
        }
        self.screen.sleep();
        heap::trim_soon();
        if let Some(source) = &mut self.source {
            source.journal.trim_idle();
        }
    }

    /// The guest engine failed on this session's bytes: paint it anew from the
    /// journal, and if that fails too, go on with an empty screen.
    async fn rebuild(&mut self) {
        self.shared.emit(Fact::ScreenRebuilt { why: "the screen engine failed" });
        let size = self.screen.size();
        self.reader.flush(self.screen.seq()).await;
        let reader = self.reader.clone();
        let rebuilt =
            tokio::task::spawn_blocking(move || super::rebuild::screen(&reader, size)).await;
        let seq = self.screen.seq();
        match rebuilt {
            // The files may be ahead of the old screen, never behind the flush.
            Ok(Ok((screen, end))) if !screen.is_broken() && end >= seq => {
                self.screen.replace(screen, end);
            }
            _ => self.screen.replace(Screen::new(size), seq),
        }
        self.resync_viewers();
    }

    fn close(&mut self) {
        let seq = self.screen.seq();
        for subscriber in &mut self.subscribers {
            subscriber.push(seq, RawPush::Plain(Push::Closed));
        }
        if let Some(input) = &self.shared.input {
            input.close();
        }
    }

    pub(super) fn publish(&self) {
        let span = self.source.as_ref().map_or_else(|| self.reader.span(), |s| s.journal.span());
        let recording = match &self.source {
            Some(source) => source.journal.state(),
            None => RecordingState::Recording,
        };
        self.shared.publish(span, self.sizes.count(), self.sizes.owner(), recording);
    }
}

fn exit_note(status: ExitStatus) -> Note {
    match status {
        ExitStatus::Code(code) => Note::Exit { code: Some(code), signal: None },
        ExitStatus::Signal(signal) => Note::Exit { code: None, signal: Some(signal) },
        ExitStatus::Unknown => Note::Exit { code: None, signal: None },
    }
}

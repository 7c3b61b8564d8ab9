//! Those who follow a session, each behind a queue of its own.
//!
//! The actor only ever tries to send. A follower that does not keep up is cut:
//! nothing more is queued for it until it has read what it has, and then it
//! asks for a fresh start (a keyframe for viewers, a `Lagged` for streams). So
//! one that stops reading costs a bounded queue and nobody's time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use greenroom_term::Size;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;

use crate::egress::flow::{Flow, Picture, Shown};
use crate::egress::{Egress, Filtered, Raw, Sink};
use crate::id::{ClientId, Seq};
use crate::process::ExitStatus;
use crate::session::actor::Msg;
use crate::session::painter::{Grid, Painter};

/// Pushes queued per follower. Small bursts (echoes) are many and tiny.
const QUEUE_PUSHES: usize = 256;

/// Bytes queued per follower: a good part of a second of a flood.
const QUEUE_BYTES: usize = 1024 * 1024;

#[derive(Clone, Debug)]
pub enum Push {
    Output {
        seq: Seq,
        bytes: Filtered<Arc<[u8]>>,
    },
    Keyframe {
        seq: Seq,
        size: Size,
        bytes: Filtered<Vec<u8>>,
    },
    /// Output from `from` to `to` was not sent: the follower was too slow.
    Lagged {
        from: Seq,
        to: Seq,
    },
    Resized {
        size: Size,
    },
    Exited {
        status: ExitStatus,
        seq: Seq,
    },
    /// The session was removed, or the host is going down.
    Closed,
}

/// A push on its way, as the actor made it. What it says becomes fit for its reader on the reader's task.
pub(crate) enum Sent {
    Output {
        seq: Seq,
        bytes: Raw<Arc<[u8]>>,
    },
    Keyframe {
        seq: Seq,
        size: Size,
        weight: usize,
        picture: Raw<Picture>,
    },
    /// With the output before `to`.
    Lagged {
        from: Seq,
        to: Seq,
        before: Raw<Vec<u8>>,
    },
    Resized {
        size: Size,
    },
    Exited {
        status: ExitStatus,
        seq: Seq,
    },
    Closed,
}

impl Sent {
    fn weight(&self) -> usize {
        match self {
            Sent::Output { bytes, .. } => bytes.len(),
            Sent::Keyframe { weight, .. } => *weight,
            Sent::Lagged { before, .. } => before.len(),
            _ => 0,
        }
    }
}

/// What a follower wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Following {
    /// A viewer with a window: keyframes first and after every cut.
    Viewer { size: Size, read_only: bool },
    /// A reader of bytes: only what comes, with gaps told.
    Stream,
}

pub(crate) struct Subscriber {
    pub client: ClientId,
    pub following: Following,
    /// What it is sent is filtered, and the filter wants to know what was before.
    pub filtered: bool,
    /// Filters decide about its rows: it is always painted to.
    pub governed: bool,
    tx: mpsc::Sender<Sent>,
    gauge: Arc<Gauge>,
    /// First byte that was not queued, while cut.
    cut_at: Option<Seq>,
    /// Viewers whose window differs from the session's are painted to.
    pub painted: bool,
    pub stale: bool,
}

#[derive(Default)]
struct Gauge {
    bytes: AtomicUsize,
    cut: AtomicBool,
}

/// The follower's end.
pub struct Subscription {
    pub client: ClientId,
    /// The first byte that will be pushed, unless a keyframe says later.
    pub start: Seq,
    rx: mpsc::Receiver<Sent>,
    gauge: Arc<Gauge>,
    actor: mpsc::Sender<Msg>,
    resyncing: bool,
    flow: Flow,
    /// Output before the start, if the ring still had it.
    before: Option<Raw<Vec<u8>>>,
    /// Makes pictures for a viewer that filters govern.
    painter: Option<Painter>,
    /// Made fit, not given out yet.
    ready: VecDeque<Push>,
}

pub(crate) fn subscribe(
    client: ClientId,
    following: Following,
    start: Seq,
    actor: mpsc::Sender<Msg>,
    (egress, sink, painter): (&Egress, Option<Sink>, Option<Painter>),
) -> (Subscriber, Subscription) {
    let flow = Flow::new(egress, sink, start);
    let (tx, rx) = mpsc::channel(QUEUE_PUSHES);
    let gauge = Arc::new(Gauge::default());
    let subscriber = Subscriber {
        client,
        following,
        filtered: flow.is_filtered() && painter.is_none(),
        governed: painter.is_some(),
        tx,
        gauge: gauge.clone(),
        cut_at: None,
        painted: false,
        stale: false,
    };
    let ready = VecDeque::new();
    (
        subscriber,
        Subscription {
            client,
            start,
            rx,
            gauge,
            actor,
            resyncing: false,
            flow,
            before: None,
            painter,
            ready,
        },
    )
}

impl Subscriber {
    /// Queues `push`, or cuts the follower. False when it is gone.
    pub fn push(&mut self, seq: Seq, push: Sent) -> bool {
        if self.cut_at.is_some() {
            return !self.tx.is_closed();
        }
        let weight = push.weight();
        let queued = self.gauge.bytes.load(Ordering::Relaxed);
        // A keyframe alone may weigh more than the queue; an empty queue takes it.
        if queued > 0 && queued + weight > QUEUE_BYTES {
            self.cut(seq);
            return true;
        }
        self.gauge.bytes.fetch_add(weight, Ordering::Relaxed);
        match self.tx.try_send(push) {
            Ok(()) => true,
            Err(TrySendError::Full(push)) => {
                self.gauge.bytes.fetch_sub(push.weight(), Ordering::Relaxed);
                self.cut(seq);
                true
            }
            Err(TrySendError::Closed(_)) => false,
        }
    }

    /// The follower caught up: where it was cut, if it was.
    pub fn resume(&mut self) -> Option<Seq> {
        self.cut_at.take()
    }

    pub fn is_gone(&self) -> bool {
        self.tx.is_closed()
    }

    fn cut(&mut self, seq: Seq) {
        self.cut_at = Some(seq);
        self.gauge.cut.store(true, Ordering::Release);
    }
}

impl Subscription {
    /// The next push; `None` once the session's actor is gone.
    ///
    /// Cancel-safe: a push is either returned or still queued.
    pub async fn next(&mut self) -> Option<Push> {
        if self.painter.is_some() {
            return self.next_painted().await;
        }
        loop {
            if let Some(push) = self.ready.pop_front() {
                return Some(push);
            }
            match self.rx.try_recv() {
                Ok(sent) => {
                    self.take(sent);
                    continue;
                }
                Err(mpsc::error::TryRecvError::Disconnected) => return self.last(),
                Err(mpsc::error::TryRecvError::Empty) => {}
            }
            self.catch_up().await?;
            let sent = match self.flow.due() {
                None => self.rx.recv().await,
                Some(due) => match tokio::time::timeout_at(due, self.rx.recv()).await {
                    Ok(sent) => sent,
                    Err(_) => {
                        self.tick();
                        continue;
                    }
                },
            };
            match sent {
                Some(sent) => self.take(sent),
                None => return self.last(),
            }
        }
    }

    /// A cut leaves something queued, so whoever was cut comes by here after reading it.
    async fn catch_up(&mut self) -> Option<()> {
        if self.is_cut() {
            // Room first: once the flag is down nothing may be awaited, or a
            // caller that gives up in between would never be caught up.
            let room = self.actor.reserve().await.ok()?;
            if self.gauge.cut.swap(false, Ordering::AcqRel) {
                room.send(Msg::Resync { client: self.client });
            }
        }
        Some(())
    }

    /// [`Subscription::next`] for a viewer that filters govern.
    async fn next_painted(&mut self) -> Option<Push> {
        loop {
            while let Ok(sent) = self.rx.try_recv() {
                self.take(sent);
            }
            if let Some(push) = self.ready.pop_front() {
                return Some(push);
            }
            if let Some(push) = self.painter.as_mut().and_then(Painter::try_next) {
                return Some(push);
            }
            let gone = self.rx.is_closed() && self.rx.is_empty();
            if !gone {
                self.catch_up().await?;
            }
            let painter = self.painter.as_mut()?;
            if gone && !painter.is_busy() {
                return None;
            }
            tokio::select! {
                () = painter.ready() => {}
                sent = self.rx.recv(), if !gone => {
                    if let Some(sent) = sent {
                        self.take(sent);
                    }
                }
            }
        }
    }

    /// What is already queued, without waiting.
    pub fn try_next(&mut self) -> Option<Push> {
        loop {
            if let Some(push) = self.ready.pop_front() {
                return Some(push);
            }
            match self.rx.try_recv() {
                Ok(sent) => self.take(sent),
                Err(_) if self.is_cut() => {
                    if let Ok(room) = self.actor.try_reserve()
                        && self.gauge.cut.swap(false, Ordering::AcqRel)
                    {
                        room.send(Msg::Resync { client: self.client });
                        self.resyncing = true;
                    }
                    return None;
                }
                Err(_) => {
                    if let Some(painter) = &mut self.painter {
                        return painter.try_next();
                    }
                    self.tick();
                    return self.ready.pop_front();
                }
            }
        }
    }

    /// Whether something is held back that a pause will let out.
    pub fn holds_back(&self) -> bool {
        self.flow.due().is_some()
    }

    pub(crate) fn is_filtered(&self) -> bool {
        self.flow.is_filtered()
    }

    pub(crate) fn knows_before(&mut self, before: Vec<u8>) {
        self.before = Some(Raw::new(before));
    }

    /// What was before the start, once, if the ring still had it.
    pub(crate) fn take_before(&mut self) -> Option<Raw<Vec<u8>>> {
        self.before.take()
    }

    /// Tells the filter what was before the start.
    pub(crate) fn prime(&mut self, before: &Raw<Vec<u8>>) {
        self.flow.restart(self.start, before);
    }

    fn tick(&mut self) {
        let passed = self.flow.tick(Instant::now());
        self.ready.extend(passed.map(|(seq, bytes)| Push::Output { seq, bytes }));
    }

    /// The actor is gone: what is held back will not be decided any more.
    fn last(&mut self) -> Option<Push> {
        self.flow.finish().map(|(seq, bytes)| Push::Output { seq, bytes })
    }

    /// Whether a cut was met since the last call: what was missed is on its way.
    pub fn was_cut(&mut self) -> bool {
        std::mem::take(&mut self.resyncing) || self.is_cut()
    }

    fn is_cut(&self) -> bool {
        self.gauge.cut.load(Ordering::Acquire)
    }

    fn take(&mut self, sent: Sent) {
        self.gauge.bytes.fetch_sub(sent.weight(), Ordering::Relaxed);
        if self.painter.is_some() {
            return self.take_painted(sent);
        }
        let push = match sent {
            Sent::Output { seq, bytes } => match self.flow.output(seq, bytes) {
                Some((seq, bytes)) => Push::Output { seq, bytes },
                None => return,
            },
            Sent::Keyframe { seq, size, picture, .. } => {
                Push::Keyframe { seq, size, bytes: self.flow.keyframe(seq, picture) }
            }
            Sent::Lagged { from, to, before } => {
                self.flow.restart(to, &before);
                Push::Lagged { from, to }
            }
            Sent::Resized { size } => Push::Resized { size },
            Sent::Exited { status, seq } => {
                let rest = self.flow.finish();
                self.ready.extend(rest.map(|(seq, bytes)| Push::Output { seq, bytes }));
                Push::Exited { status, seq }
            }
            Sent::Closed => Push::Closed,
        };
        self.ready.push_back(push);
    }
}

impl Subscription {
    /// Bytes are not for this viewer: what they say comes with the next picture.
    fn take_painted(&mut self, sent: Sent) {
        let Some(painter) = &mut self.painter else { return };
        match sent {
            Sent::Keyframe { seq, size, picture, .. } => {
                if let Shown::Grid { frame, window } = picture.inside().shown {
                    painter.show(Grid { seq, size, frame, window });
                }
            }
            Sent::Resized { size } if painter.is_new(size) => {
                self.ready.push_back(Push::Resized { size });
            }
            Sent::Exited { status, seq } => painter.end(Push::Exited { status, seq }),
            Sent::Closed => painter.end(Push::Closed),
            Sent::Output { .. } | Sent::Lagged { .. } | Sent::Resized { .. } => {}
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // A full mailbox is fine: the actor notices the closed queue itself.
        let _ = self.actor.try_send(Msg::Unsubscribe { client: self.client });
    }
}

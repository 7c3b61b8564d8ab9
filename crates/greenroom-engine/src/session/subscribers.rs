//! Those who follow a session, each behind a queue of its own.
//!
//! The actor only ever tries to send. A follower that does not keep up is cut:
//! nothing more is queued for it until it has read what it has, and then it
//! asks for a fresh start (a keyframe for viewers, a `Lagged` for streams). So
//! one that stops reading costs a bounded queue and nobody's time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use greenroom_term::Size;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::egress::Filtered;
use crate::id::{ClientId, Seq};
use crate::process::ExitStatus;
use crate::session::actor::Msg;

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

impl Push {
    fn weight(&self) -> usize {
        match self {
            Push::Output { bytes, .. } => bytes.get().len(),
            Push::Keyframe { bytes, .. } => bytes.get().len(),
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
    tx: mpsc::Sender<Push>,
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
    rx: mpsc::Receiver<Push>,
    gauge: Arc<Gauge>,
    actor: mpsc::Sender<Msg>,
    resyncing: bool,
}

pub(crate) fn subscribe(
    client: ClientId,
    following: Following,
    start: Seq,
    actor: mpsc::Sender<Msg>,
) -> (Subscriber, Subscription) {
    let (tx, rx) = mpsc::channel(QUEUE_PUSHES);
    let gauge = Arc::new(Gauge::default());
    let subscriber = Subscriber {
        client,
        following,
        tx,
        gauge: gauge.clone(),
        cut_at: None,
        painted: false,
        stale: false,
    };
    (subscriber, Subscription { client, start, rx, gauge, actor, resyncing: false })
}

impl Subscriber {
    /// Queues `push`, or cuts the follower. False when it is gone.
    pub fn push(&mut self, seq: Seq, push: Push) -> bool {
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
        match self.rx.try_recv() {
            Ok(push) => return Some(self.take(push)),
            Err(mpsc::error::TryRecvError::Disconnected) => return None,
            Err(mpsc::error::TryRecvError::Empty) => {}
        }
        // A cut leaves something queued, so whoever was cut comes by here
        // after reading it.
        if self.is_cut() {
            // Room first: once the flag is down nothing may be awaited, or a
            // caller that gives up in between would never be caught up.
            let room = self.actor.reserve().await.ok()?;
            if self.gauge.cut.swap(false, Ordering::AcqRel) {
                room.send(Msg::Resync { client: self.client });
            }
        }
        let push = self.rx.recv().await?;
        Some(self.take(push))
    }

    /// What is already queued, without waiting.
    pub fn try_next(&mut self) -> Option<Push> {
        let Ok(push) = self.rx.try_recv() else {
            if self.is_cut()
                && let Ok(room) = self.actor.try_reserve()
                && self.gauge.cut.swap(false, Ordering::AcqRel)
            {
                room.send(Msg::Resync { client: self.client });
                self.resyncing = true;
            }
            return None;
        };
        Some(self.take(push))
    }

    /// Whether a cut was met since the last call: what was missed is on its way.
    pub fn was_cut(&mut self) -> bool {
        std::mem::take(&mut self.resyncing) || self.is_cut()
    }

    fn is_cut(&self) -> bool {
        self.gauge.cut.load(Ordering::Acquire)
    }

    fn take(&self, push: Push) -> Push {
        self.gauge.bytes.fetch_sub(push.weight(), Ordering::Relaxed);
        push
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // A full mailbox is fine: the actor notices the closed queue itself.
        let _ = self.actor.try_send(Msg::Unsubscribe { client: self.client });
    }
}

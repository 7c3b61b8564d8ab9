//! The actor's end of a subscription: a queue that is only ever tried.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::{RawPush, SubscriberKind};
use crate::id::{ClientId, Seq};

/// Pushes queued per subscriber. Small bursts (echoes) are many and tiny.
pub(super) const QUEUE_PUSHES: usize = 256;

/// Bytes queued per subscriber: a good part of a second of a flood.
const QUEUE_BYTES: usize = 1024 * 1024;

pub(crate) struct Subscriber {
    pub client: ClientId,
    pub kind: SubscriberKind,
    /// What it is sent is masked, and whoever masks wants to know what was before.
    pub(super) masked: bool,
    /// Filters decide about its rows: it is always painted to.
    pub(super) governed: bool,
    pub(super) tx: mpsc::Sender<RawPush>,
    pub(super) gauge: Arc<Gauge>,
    /// First byte that was not queued, while cut.
    pub(super) cut_at: Option<Seq>,
    /// It is sent pictures instead of bytes, as also viewers are whose window differs from the
    /// session's.
    pub painted: bool,
    /// There was output since its last picture.
    pub stale: bool,
}

/// What both ends of a subscription look at.
#[derive(Default)]
pub(super) struct Gauge {
    pub bytes: AtomicUsize,
    pub cut: AtomicBool,
}

impl Subscriber {
    /// Queues `push`, or cuts the subscriber.
    pub(crate) fn push(&mut self, seq: Seq, push: RawPush) {
        if self.cut_at.is_some() {
            return;
        }
        let weight = push.weight();
        let queued = self.gauge.bytes.load(Ordering::Relaxed);
        // A keyframe alone may weigh more than the queue; an empty queue takes it.
        if queued > 0 && queued + weight > QUEUE_BYTES {
            return self.cut(seq);
        }
        self.gauge.bytes.fetch_add(weight, Ordering::Relaxed);
        // `is_gone` notices a reader that is gone.
        if let Err(TrySendError::Full(_)) = self.tx.try_send(push) {
            self.gauge.bytes.fetch_sub(weight, Ordering::Relaxed);
            self.cut(seq);
        }
    }

    /// The subscriber caught up: where it was cut, if it was.
    pub(crate) fn resume(&mut self) -> Option<Seq> {
        self.cut_at.take()
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.tx.is_closed()
    }

    pub(crate) fn is_viewer(&self) -> bool {
        matches!(self.kind, SubscriberKind::Viewer { .. })
    }

    fn cut(&mut self, seq: Seq) {
        self.cut_at = Some(seq);
        self.gauge.cut.store(true, Ordering::Release);
    }
}

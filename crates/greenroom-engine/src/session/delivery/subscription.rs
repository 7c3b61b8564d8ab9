//! The reader's end of a subscription: what the actor sent, made fit for this reader on its own
//! task.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use greenroom_term::paint;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::time::Instant;

use super::masking::Masking;
use super::painter::{Grid, Painter};
use super::subscriber::{Gauge, QUEUE_PUSHES};
use super::{Picture, Push, RawPush, Subscriber, SubscriberKind};
use crate::egress::{Egress, Raw};
use crate::id::{ClientId, Seq};
use crate::session::actor::Msg;

pub struct Subscription {
    pub client: ClientId,
    /// The first byte that will be pushed, unless a keyframe says later.
    pub start: Seq,
    rx: mpsc::Receiver<RawPush>,
    gauge: Arc<Gauge>,
    actor: mpsc::Sender<Msg>,
    resyncing: bool,
    egress: Egress,
    treatment: Treatment,
    /// Output before the start, if the ring still had it.
    before: Option<Raw<Vec<u8>>>,
    /// The end of the session, while what was held back goes out before it.
    held_end: Option<Push>,
}

/// How what the actor sends becomes fit for its reader.
pub(super) enum Treatment {
    /// The reader sees everything: nothing is looked at and nothing is copied.
    Unmasked,
    Masked(Box<Masking>),
    /// A viewer that filters govern is sent pictures.
    Painted(Box<Painter>),
}

/// Both ends of a new subscription.
pub(super) fn subscribe(
    client: ClientId,
    kind: SubscriberKind,
    start: Seq,
    actor: mpsc::Sender<Msg>,
    egress: Egress,
    treatment: Treatment,
) -> (Subscriber, Subscription) {
    let (tx, rx) = mpsc::channel(QUEUE_PUSHES);
    let gauge = Arc::new(Gauge::default());
    let subscriber = Subscriber {
        client,
        kind,
        masked: matches!(treatment, Treatment::Masked(_)),
        governed: matches!(treatment, Treatment::Painted(_)),
        tx,
        gauge: gauge.clone(),
        cut_at: None,
        painted: false,
        stale: false,
    };
    let subscription = Subscription {
        client,
        start,
        rx,
        gauge,
        actor,
        resyncing: false,
        egress,
        treatment,
        before: None,
        held_end: None,
    };
    (subscriber, subscription)
}

impl Subscription {
    /// The next push; `None` once the session's actor is gone.
    ///
    /// Cancel-safe: a push is either returned or still queued.
    pub async fn next(&mut self) -> Option<Push> {
        if matches!(self.treatment, Treatment::Painted(_)) {
            return self.next_painted().await;
        }
        loop {
            if let Some(end) = self.held_end.take() {
                return Some(end);
            }
            let sent = match self.rx.try_recv() {
                Ok(sent) => Some(sent),
                Err(TryRecvError::Disconnected) => None,
                Err(TryRecvError::Empty) => {
                    self.catch_up().await?;
                    let due = self.due();
                    match due {
                        None => self.rx.recv().await,
                        Some(due) => match tokio::time::timeout_at(due, self.rx.recv()).await {
                            Ok(sent) => sent,
                            Err(_) => match self.tick() {
                                Some(push) => return Some(push),
                                None => continue,
                            },
                        },
                    }
                }
            };
            // The actor is gone: what is held back will not be decided any more.
            let Some(sent) = sent else { return self.masking()?.finish() };
            if let Some(push) = self.fit(sent) {
                return Some(push);
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
                if let Some(push) = self.fit(sent) {
                    return Some(push);
                }
            }
            let gone = self.rx.is_closed() && self.rx.is_empty();
            let Treatment::Painted(painter) = &mut self.treatment else { return None };
            if let Some(push) = painter.try_next() {
                return Some(push);
            }
            if !gone {
                self.catch_up().await?;
            }
            let Treatment::Painted(painter) = &mut self.treatment else { return None };
            if gone && !painter.is_busy() {
                return None;
            }
            tokio::select! {
                () = painter.ready() => {}
                sent = self.rx.recv(), if !gone => {
                    if let Some(push) = sent.and_then(|sent| self.fit(sent)) {
                        return Some(push);
                    }
                }
            }
        }
    }

    /// What is already queued, without waiting.
    pub fn try_next(&mut self) -> Option<Push> {
        loop {
            if let Some(end) = self.held_end.take() {
                return Some(end);
            }
            match self.rx.try_recv() {
                Ok(sent) => {
                    if let Some(push) = self.fit(sent) {
                        return Some(push);
                    }
                }
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
                    return match &mut self.treatment {
                        Treatment::Painted(painter) => painter.try_next(),
                        Treatment::Masked(_) | Treatment::Unmasked => self.tick(),
                    };
                }
            }
        }
    }

    pub(crate) fn is_masked(&self) -> bool {
        matches!(self.treatment, Treatment::Masked(_))
    }

    pub(super) fn knows_before(&mut self, before: Vec<u8>) {
        self.before = Some(Raw::new(before));
    }

    /// What was before the start, once, if the ring still had it.
    pub(crate) fn take_before(&mut self) -> Option<Raw<Vec<u8>>> {
        self.before.take()
    }

    /// Tells whoever masks what was before the start.
    pub(crate) fn prime(&mut self, before: Raw<Vec<u8>>) {
        let start = self.start;
        if let Some(masking) = self.masking() {
            masking.restart(start, &before.inside());
        }
    }

    /// Whether more comes by itself: what a cut left out is on its way, or a pause will let out
    /// what is held back.
    pub(crate) fn more_comes(&mut self) -> bool {
        std::mem::take(&mut self.resyncing) || self.is_cut() || self.due().is_some()
    }

    fn is_cut(&self) -> bool {
        self.gauge.cut.load(Ordering::Acquire)
    }

    fn masking(&mut self) -> Option<&mut Masking> {
        match &mut self.treatment {
            Treatment::Masked(masking) => Some(masking),
            Treatment::Painted(_) | Treatment::Unmasked => None,
        }
    }

    /// When what is held back should be looked at again.
    fn due(&self) -> Option<Instant> {
        match &self.treatment {
            Treatment::Masked(masking) => masking.due(),
            Treatment::Painted(_) | Treatment::Unmasked => None,
        }
    }

    fn tick(&mut self) -> Option<Push> {
        self.masking()?.tick(Instant::now())
    }

    /// Makes a push fit for this reader. `None` where it has nothing to see yet.
    fn fit(&mut self, sent: RawPush) -> Option<Push> {
        self.gauge.bytes.fetch_sub(sent.weight(), Ordering::Relaxed);
        match (sent, &mut self.treatment) {
            (RawPush::Output { seq, bytes }, Treatment::Unmasked) => {
                Some(Push::Output { seq, bytes: self.egress.unmasked(bytes) })
            }
            (RawPush::Output { seq, bytes }, Treatment::Masked(masking)) => {
                masking.output(seq, bytes)
            }
            (RawPush::Keyframe { seq, size, picture, .. }, Treatment::Unmasked) => {
                let bytes = self.egress.unmasked(picture).map(finished);
                Some(Push::Keyframe { seq, size, bytes })
            }
            (RawPush::Keyframe { seq, size, picture, .. }, Treatment::Masked(masking)) => {
                Some(Push::Keyframe { seq, size, bytes: masking.picture(seq, picture) })
            }
            (RawPush::Keyframe { seq, size, picture, .. }, Treatment::Painted(painter)) => {
                if let Picture::Grid { frame, window, .. } = picture.inside() {
                    painter.show(Grid { seq, size, frame, window });
                }
                None
            }
            (RawPush::Lagged { from, to, before }, Treatment::Masked(masking)) => {
                masking.restart(to, &before.inside());
                Some(Push::Lagged { from, to })
            }
            (RawPush::Lagged { from, to, .. }, Treatment::Unmasked) => {
                Some(Push::Lagged { from, to })
            }
            // What bytes say comes with the next picture.
            (RawPush::Output { .. } | RawPush::Lagged { .. }, Treatment::Painted(_)) => None,
            (RawPush::Plain(Push::Resized { size }), Treatment::Painted(painter)) => {
                painter.is_new(size).then_some(Push::Resized { size })
            }
            (RawPush::Plain(end @ (Push::Exited { .. } | Push::Closed)), _) => self.end(end),
            (RawPush::Plain(push), _) => Some(push),
        }
    }

    /// The end comes after everything that is not told yet.
    fn end(&mut self, end: Push) -> Option<Push> {
        match &mut self.treatment {
            Treatment::Unmasked => Some(end),
            Treatment::Masked(_) if matches!(end, Push::Closed) => Some(end),
            Treatment::Masked(masking) => match masking.finish() {
                Some(rest) => {
                    self.held_end = Some(end);
                    Some(rest)
                }
                None => Some(end),
            },
            Treatment::Painted(painter) => {
                painter.end(end);
                None
            }
        }
    }
}

/// For a viewer who sees everything.
fn finished(picture: Picture) -> Vec<u8> {
    match picture {
        Picture::Finished(bytes) => bytes,
        Picture::Keyframe { keyframe, size, .. } => {
            super::masking::for_viewers(size, &keyframe.bytes)
        }
        Picture::Grid { frame, window, .. } => paint::letterbox(&frame, window),
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // A full mailbox is fine: the actor notices the closed queue itself.
        let _ = self.actor.try_send(Msg::Unsubscribe { client: self.client });
    }
}

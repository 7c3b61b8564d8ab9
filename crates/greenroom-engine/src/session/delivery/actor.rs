//! What the actor does for its subscribers: takes them in, resyncs them, paints to those who are
//! sent pictures.

use std::time::Duration;

use greenroom_term::Size;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::masking::Masking;
use super::painter::Painter;
use super::subscription::{Treatment, subscribe};
use super::{Picture, Push, RawPush, SubscriberKind, Subscription};
use crate::egress::{LOOK_BACK, Raw, Sink};
use crate::events::Fact;
use crate::id::{ClientId, Seq};
use crate::session::SessionState;
use crate::session::actor::Actor;

/// Letterboxed viewers are repainted at most this often.
const PAINT_EVERY: Duration = Duration::from_millis(33);

impl Actor {
    pub(in crate::session) fn subscribe(
        &mut self,
        kind: SubscriberKind,
        sink: Option<Sink>,
        reply: oneshot::Sender<Subscription>,
    ) {
        let client = self.shared.next_client();
        // The size first: those who are here already are told of it.
        if let SubscriberKind::Viewer { size, read_only } = kind {
            let wanted = self.sizes.joined(client, size, read_only);
            self.take_size(wanted);
            self.shared.emit(Fact::ClientAttached { client, read_only });
        }
        let start = self.screen.seq();
        let treatment = self.treatment(kind, sink, start);
        let (actor, egress) = (self.shared.tx.clone(), self.shared.egress.clone());
        let (subscriber, mut subscription) =
            subscribe(client, kind, start, actor, egress, treatment);
        if let Some(source) = self.source.as_ref().filter(|_| subscriber.masked) {
            // A copy in memory; where the ring has less, the subscriber reads the files itself.
            let before = source.journal.recent(start, LOOK_BACK);
            if before.len() as u64 == LOOK_BACK.min(start.0) {
                subscription.knows_before(before);
            }
        }
        self.subscribers.push(subscriber);
        self.resync(client);
        self.publish();
        // The reader may be gone; dropping the subscription unsubscribes.
        let _ = reply.send(subscription);
    }

    fn treatment(&self, kind: SubscriberKind, sink: Option<Sink>, start: Seq) -> Treatment {
        let egress = &self.shared.egress;
        let Some(sink) = sink else { return Treatment::Unmasked };
        if egress.is_governed(sink) && matches!(kind, SubscriberKind::Viewer { .. }) {
            let filters = self.shared.parts.filters.clone();
            let painter = Painter::new(egress.clone(), sink, self.shared.id, filters);
            return Treatment::Painted(Box::new(painter));
        }
        match egress.redactor(sink, start) {
            Some(redactor) => {
                Treatment::Masked(Box::new(Masking::new(egress.clone(), redactor, start)))
            }
            None => Treatment::Unmasked,
        }
    }

    /// Puts a subscriber on firm ground: a picture of now, or where its gap is.
    pub(in crate::session) fn resync(&mut self, client: ClientId) {
        let seq = self.screen.seq();
        let Some(index) = self.subscribers.iter().position(|s| s.client == client) else { return };
        let cut_at = self.subscribers[index].resume();
        let before = match &self.source {
            Some(source) if self.subscribers[index].masked => source.journal.recent(seq, LOOK_BACK),
            _ => Vec::new(),
        };
        if self.subscribers[index].is_viewer() {
            self.push_picture(index, before);
        } else if let Some(from) = cut_at {
            let before = Raw::new(before);
            self.subscribers[index].push(seq, RawPush::Lagged { from, to: seq, before });
        }
        if let SessionState::Exited { status, .. } = self.shared.state() {
            self.subscribers[index].push(seq, RawPush::Plain(Push::Exited { status, seq }));
        }
    }

    fn push_picture(&mut self, index: usize, before: Vec<u8>) {
        let (seq, size) = (self.screen.seq(), self.screen.size());
        let subscriber = &mut self.subscribers[index];
        let window = self.sizes.viewer_size(subscriber.client).unwrap_or(size);
        subscriber.painted = subscriber.governed || window != size;
        subscriber.stale = false;
        let picture = if subscriber.painted {
            Picture::Grid { frame: self.screen.frame(), window, before }
        } else if subscriber.masked {
            Picture::Keyframe { keyframe: self.screen.annotated_keyframe(), size, before }
        } else {
            Picture::Finished(self.screen.viewer_keyframe())
        };
        let weight = picture.weight();
        subscriber.push(seq, RawPush::Plain(Push::Resized { size }));
        let picture = Raw::new(picture);
        subscriber.push(seq, RawPush::Keyframe { seq, size, weight, picture });
    }

    pub(in crate::session) fn unsubscribe(&mut self, client: ClientId) {
        let Some(index) = self.subscribers.iter().position(|s| s.client == client) else { return };
        let subscriber = self.subscribers.swap_remove(index);
        if subscriber.is_viewer() {
            let size = self.sizes.left(client);
            self.take_size(size);
            self.shared.emit(Fact::ClientDetached { client });
        }
        self.publish();
    }

    pub(in crate::session) fn window(&mut self, client: ClientId, size: Size) {
        let wanted = self.sizes.resized(client, size);
        if wanted.is_some() {
            self.take_size(wanted);
        } else {
            self.resync(client);
        }
    }

    pub(in crate::session) fn paint_soon(&mut self, now: Instant) {
        for subscriber in self.subscribers.iter_mut().filter(|s| s.painted) {
            subscriber.stale = true;
        }
        let earliest = self.timers.painted.map_or(now, |last| last + PAINT_EVERY);
        self.timers.paint.get_or_insert(earliest.max(now));
    }

    pub(in crate::session) fn paint(&mut self, now: Instant) {
        self.timers.painted = Some(now);
        let stale: Vec<ClientId> =
            self.subscribers.iter().filter(|s| s.stale).map(|s| s.client).collect();
        for client in stale {
            self.resync(client);
        }
    }

    pub(in crate::session) fn resync_viewers(&mut self) {
        for client in self.viewers() {
            self.resync(client);
        }
    }

    pub(in crate::session) fn viewers(&self) -> Vec<ClientId> {
        self.subscribers
            .iter()
            .filter(|subscriber| subscriber.is_viewer())
            .map(|subscriber| subscriber.client)
            .collect()
    }
}

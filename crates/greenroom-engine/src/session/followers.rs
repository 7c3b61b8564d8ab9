//! The actor's dealings with those who follow it.

use std::sync::Arc;
use std::time::Duration;

use greenroom_term::Size;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::egress::flow::{Picture, Shown};
use crate::egress::{LOOK_BACK, Raw, Sink};
use crate::events::Fact;
use crate::id::{ClientId, Seq};
use crate::session::SessionState;
use crate::session::actor::Actor;
use crate::session::painter::Painter;
use crate::session::subscribers::{Following, Sent, Subscriber, Subscription, subscribe};

/// Letterboxed viewers are repainted at most this often.
const PAINT_EVERY: Duration = Duration::from_millis(33);

impl Actor {
    pub(super) fn subscribe(
        &mut self,
        following: Following,
        sink: Option<Sink>,
        reply: oneshot::Sender<Subscription>,
    ) {
        let client = self.shared.next_client();
        // The size first: those who are here already are told of it.
        if let Following::Viewer { size, read_only } = following {
            let wanted = self.sizes.joined(client, size, read_only);
            self.take_size(wanted);
            self.shared.emit(Fact::ClientAttached { client, read_only });
        }
        let start = self.view.seq();
        let painter = self.painter(following, sink);
        let (subscriber, mut subscription) = subscribe(
            client,
            following,
            start,
            self.shared.tx.clone(),
            (&self.shared.egress, sink, painter),
        );
        if let Some(source) = self.source.as_ref().filter(|_| subscriber.filtered) {
            // A copy in memory; where the ring has less, the follower reads the files itself.
            let before = source.journal.recent(start, LOOK_BACK);
            if before.len() as u64 == LOOK_BACK.min(start.0) {
                subscription.knows_before(before);
            }
        }
        self.subscribers.push(subscriber);
        self.greet(client);
        self.publish();
        // Whoever asked may be gone; dropping the subscription unsubscribes.
        let _ = reply.send(subscription);
    }

    /// A viewer that filters govern is sent pictures.
    fn painter(&self, following: Following, sink: Option<Sink>) -> Option<Painter> {
        let egress = &self.shared.egress;
        let sink = sink.filter(|sink| egress.is_governed(*sink))?;
        let place = self.shared.parts.filters.as_ref().and_then(|filters| filters.place());
        let is_viewer = matches!(following, Following::Viewer { .. });
        is_viewer.then(|| Painter::new((egress, sink), self.shared.id, place))
    }

    /// Puts a follower on firm ground: a picture of now, or where its gap is.
    pub(super) fn greet(&mut self, client: ClientId) {
        let seq = self.view.seq();
        let session_size = self.view.size();
        let Some(index) = self.subscribers.iter().position(|s| s.client == client) else { return };
        let cut_at = self.subscribers[index].resume();
        let before = match &self.source {
            Some(source) if self.subscribers[index].filtered => {
                source.journal.recent(seq, LOOK_BACK)
            }
            _ => Vec::new(),
        };
        match self.subscribers[index].following {
            Following::Stream => {
                if let Some(from) = cut_at {
                    let before = Raw::new(before);
                    self.subscribers[index].push(seq, Sent::Lagged { from, to: seq, before });
                }
            }
            Following::Viewer { .. } => {
                let window = self.sizes.viewer_size(client).unwrap_or(session_size);
                let painted = self.subscribers[index].governed || window != session_size;
                let shown = if painted {
                    Shown::Grid { frame: self.view.frame(), window }
                } else {
                    // Only a filter wants to know more.
                    match self.subscribers[index].filtered {
                        true => Shown::Keyframe(self.view.marked_keyframe(), session_size),
                        false => Shown::Bare(self.view.viewer_keyframe()),
                    }
                };
                let picture = Picture { shown, before };
                let weight = picture.weight();
                let subscriber = &mut self.subscribers[index];
                subscriber.painted = painted;
                subscriber.stale = false;
                subscriber.push(seq, Sent::Resized { size: session_size });
                let (size, picture) = (session_size, Raw::new(picture));
                subscriber.push(seq, Sent::Keyframe { seq, size, weight, picture });
            }
        }
        if let SessionState::Exited { status, .. } = self.shared.state() {
            self.subscribers[index].push(seq, Sent::Exited { status, seq });
        }
    }

    pub(super) fn forget(&mut self, client: ClientId) {
        let Some(index) = self.subscribers.iter().position(|s| s.client == client) else { return };
        let subscriber = self.subscribers.swap_remove(index);
        if matches!(subscriber.following, Following::Viewer { .. }) {
            let size = self.sizes.left(client);
            self.take_size(size);
            self.shared.emit(Fact::ClientDetached { client });
        }
        self.publish();
    }

    pub(super) fn window(&mut self, client: ClientId, size: Size) {
        let wanted = self.sizes.resized(client, size);
        if wanted.is_some() {
            self.take_size(wanted);
        } else {
            self.greet(client);
        }
    }

    pub(super) fn paint_soon(&mut self, now: Instant) {
        for subscriber in self.subscribers.iter_mut().filter(|s| s.painted) {
            subscriber.stale = true;
        }
        let earliest = self.timers.painted.map_or(now, |last| last + PAINT_EVERY);
        self.timers.paint.get_or_insert(earliest.max(now));
    }

    pub(super) fn paint(&mut self, now: Instant) {
        self.timers.painted = Some(now);
        let stale: Vec<ClientId> =
            self.subscribers.iter().filter(|s| s.stale).map(|s| s.client).collect();
        for client in stale {
            self.greet(client);
        }
    }

    pub(super) fn greet_viewers(&mut self) {
        for client in self.viewers() {
            self.greet(client);
        }
    }

    pub(super) fn viewers(&self) -> Vec<ClientId> {
        self.subscribers
            .iter()
            .filter(|subscriber| matches!(subscriber.following, Following::Viewer { .. }))
            .map(|subscriber| subscriber.client)
            .collect()
    }
}

/// Offers a turn's bytes to everybody who follows them raw: one copy for all.
pub(super) fn offer(subscribers: &mut [Subscriber], seq: Seq, first: &[u8], second: &[u8]) {
    if !subscribers.iter().any(|subscriber| !subscriber.painted) {
        return;
    }
    let bytes: Arc<[u8]> =
        if second.is_empty() { first.into() } else { [first, second].concat().into() };
    for subscriber in subscribers.iter_mut().filter(|subscriber| !subscriber.painted) {
        subscriber.push(seq, Sent::Output { seq, bytes: Raw::new(bytes.clone()) });
    }
}

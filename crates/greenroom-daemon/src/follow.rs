//! A session's output from a point on, without a hole.
//!
//! What is past comes from the journal, what is new from the actor, and a reader that was too slow
//! for the actor reads the journal until it is up to date. Only what the journal itself has lost
//! is missing, and counted. For readers of bytes; a viewer wants keyframes instead.

use std::collections::VecDeque;
use std::sync::Arc;

use greenroom_engine::egress::Sink;
use greenroom_engine::process::ExitStatus;
use greenroom_engine::session::{Push, SubscriberKind, Subscription};
use greenroom_engine::{EngineError, Seq, SessionHandle};

/// Output of one piece: as JSON it can grow sixfold and must stay far below the frame cap.
const PIECE_BYTES: usize = 256 * 1024;

pub(crate) struct Follow {
    handle: SessionHandle,
    subscription: Subscription,
    cursor: Seq,
    /// Up to here the journal has to be read.
    behind: Seq,
    /// New output, in order; may begin before `cursor`.
    waiting: VecDeque<(Seq, Arc<[u8]>)>,
    waiting_bytes: usize,
    exited: Option<ExitStatus>,
    over: bool,
}

/// Some output in order.
pub(crate) struct Piece {
    /// The sequence number after it.
    pub end: Seq,
    pub bytes: Vec<u8>,
    /// Bytes missing before it.
    pub dropped: u64,
}

impl Follow {
    /// From `since` on, or only what is new.
    pub(crate) async fn from(
        handle: &SessionHandle,
        since: Option<u64>,
    ) -> Result<Follow, EngineError> {
        let subscription = handle.subscribe(SubscriberKind::Stream).await?;
        let start = subscription.start;
        Ok(Follow {
            handle: handle.clone(),
            subscription,
            cursor: since.map_or(start, |since| Seq(since).min(start)),
            behind: start,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            exited: None,
            over: false,
        })
    }

    /// The next piece begins here.
    pub(crate) fn cursor(&self) -> Seq {
        self.cursor
    }

    /// How the session ended, once it has and everything before was given out.
    pub(crate) fn exited(&self) -> Option<ExitStatus> {
        self.exited
    }

    /// The next piece; `None` after the session has ended or gone.
    pub(crate) async fn next(&mut self) -> Option<Piece> {
        loop {
            if self.handle.is_governed(Sink::Stream) {
                return self.next_answered().await;
            }
            if self.cursor < self.behind {
                return self.read_journal().await;
            }
            if let Some(piece) = self.take_waiting() {
                return Some(piece);
            }
            if self.over {
                return None;
            }
            let push = self.subscription.next().await;
            self.absorb(push);
            while !self.over && self.waiting_bytes < PIECE_BYTES {
                match self.subscription.try_next() {
                    Some(push) => self.absorb(Some(push)),
                    None => break,
                }
            }
        }
    }

    /// The same where filters decide what may be seen: pushes only say that there is something, and
    /// the journal is read as far as they have answered for it.
    async fn next_answered(&mut self) -> Option<Piece> {
        loop {
            self.waiting.clear();
            self.waiting_bytes = 0;
            let page = self.handle.output_pushed(self.cursor, PIECE_BYTES).await.ok()?;
            if page.next > self.cursor {
                (self.cursor, self.behind) = (page.next, page.next);
                let bytes = page.bytes.into_inner();
                return Some(Piece { end: page.next, bytes, dropped: page.dropped });
            }
            if self.over && self.handle.change().seq <= self.cursor {
                return None;
            }
            let answered = self.handle.answered_beyond(self.cursor);
            tokio::select! {
                push = self.subscription.next(), if !self.over => self.absorb(push),
                () = answered => {}
            }
        }
    }

    fn absorb(&mut self, push: Option<Push>) {
        match push {
            Some(Push::Output { seq, bytes }) => self.queue(seq, bytes.into_inner()),
            Some(Push::Lagged { to, .. }) => self.behind = self.behind.max(to),
            Some(Push::Exited { status, seq }) => {
                self.exited = Some(status);
                self.behind = self.behind.max(self.end_of_waiting().max(seq));
                self.over = true;
            }
            Some(Push::Closed) | None => self.over = true,
            Some(Push::Keyframe { .. } | Push::Resized { .. }) => {}
        }
    }

    fn queue(&mut self, seq: Seq, bytes: Arc<[u8]>) {
        if seq > self.end_of_waiting() {
            // A hole: the journal has what lies in it, and everything queued before.
            self.behind = self.behind.max(seq);
        }
        self.waiting_bytes += bytes.len();
        self.waiting.push_back((seq, bytes));
    }

    fn end_of_waiting(&self) -> Seq {
        let end = self.waiting.back().map(|(seq, bytes)| seq.plus(bytes.len() as u64));
        end.unwrap_or(self.cursor).max(self.cursor)
    }

    fn take_waiting(&mut self) -> Option<Piece> {
        let mut out = Vec::new();
        while let Some((seq, bytes)) = self.waiting.pop_front() {
            let skip = usize::try_from(self.cursor.since(seq)).unwrap_or(usize::MAX);
            if skip < bytes.len() {
                out.extend_from_slice(&bytes[skip..]);
                self.cursor = seq.plus(bytes.len() as u64);
            }
        }
        self.waiting_bytes = 0;
        (!out.is_empty()).then_some(Piece { end: self.cursor, bytes: out, dropped: 0 })
    }

    async fn read_journal(&mut self) -> Option<Piece> {
        let page = self.handle.output(self.cursor, PIECE_BYTES).await.ok()?;
        let bytes = page.bytes.into_inner();
        if page.next <= self.cursor {
            if page.tail <= self.cursor && self.exited.is_none() {
                // Printed but not decided yet: it comes with what is new.
                self.behind = self.cursor;
                return Some(Piece { end: self.cursor, bytes, dropped: page.dropped });
            }
            // The journal has nothing more to give up to there; go on with what is new.
            let dropped = self.behind.since(self.cursor);
            self.cursor = self.behind;
            return Some(Piece { end: self.cursor, bytes, dropped });
        }
        self.cursor = page.next;
        Some(Piece { end: page.next, bytes, dropped: page.dropped })
    }
}

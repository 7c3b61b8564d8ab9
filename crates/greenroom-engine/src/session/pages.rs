//! Pages of output: what a program printed from some point on, masked as every other reader sees
//! it.
//!
//! A page begins anywhere. The reader looks back far enough to know what is hidden at its start,
//! and ahead far enough to know at its end; only at the end of what was printed so far something
//! can be undecided. That is left for the next page, unless the program has paused.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::egress::{
    Applying, EXPIRE, Egress, Filtered, Governed, LOOK_AHEAD, LOOK_BACK, PAUSE, Raw, Redactor,
    Secrets, Sink,
};
use crate::error::EngineError;
use crate::id::Seq;
use crate::journal::{Item, JournalReader, ReplayFrom};
use crate::session::SessionHandle;
use crate::session::handle::blocking;

/// Bytes edited at once; an edit is found for each.
const EDITED_AT_ONCE: usize = 256;

/// A page of output.
pub struct Page {
    pub from: Seq,
    pub next: Seq,
    /// The end of what can be read now.
    pub tail: Seq,
    /// Bytes asked for that are no longer (or were never) in the journal.
    pub dropped: u64,
    pub bytes: Filtered<Vec<u8>>,
}

/// How long ago the program printed something.
#[derive(Clone, Copy)]
enum Rest {
    Ended,
    For(Duration),
}

impl SessionHandle {
    /// Output from `since` (or the oldest kept), at most `max_bytes` of it.
    pub async fn output(&self, since: Seq, max_bytes: usize) -> Result<Page, EngineError> {
        self.output_as(Secrets::Masked, since, max_bytes).await
    }

    /// The same, as much of it as the caller may see.
    pub async fn output_as(
        &self,
        secrets: Secrets,
        since: Seq,
        max_bytes: usize,
    ) -> Result<Page, EngineError> {
        let governed = self.egress().governed();
        self.page(secrets, Sink::Transcript, since, max_bytes, governed).await
    }

    /// The same as pushes, for a reader who follows.
    pub async fn output_pushed(&self, since: Seq, max_bytes: usize) -> Result<Page, EngineError> {
        let governed = self.egress().governed();
        self.page(Secrets::Masked, Sink::Stream, since, max_bytes, governed).await
    }

    /// A page for `sink`. Only filters themselves see what is not `governed`: what they have not
    /// answered for, too.
    pub(super) async fn page(
        &self,
        secrets: Secrets,
        sink: Sink,
        since: Seq,
        max_bytes: usize,
        governed: Option<Arc<Governed>>,
    ) -> Result<Page, EngineError> {
        let governed = governed.filter(|governed| governed.concerns(sink));
        let limit = governed.as_ref().and_then(|governed| governed.limit(sink));
        let reader = self.settled_reader().await?;
        let egress = self.egress().clone();
        let rest = self.rest();
        blocking(move || match secrets {
            Secrets::Masked => masked(&reader, &egress, since, max_bytes, rest, governed, limit),
            Secrets::Unmasked => unmasked(&reader, &egress, since, max_bytes),
        })
        .await
    }

    /// Whether readers of `sink` see only what a filter has answered for.
    pub fn is_governed(&self, sink: Sink) -> bool {
        self.egress().is_governed(sink)
    }

    /// Until more of the output may be shown than up to `beyond`, or nobody decides about that.
    pub async fn answered_beyond(&self, beyond: Seq) {
        self.answers(|governed| !governed.has_filter() || governed.ledger().answered() > beyond)
            .await;
    }

    /// Where the output ends now. Wakes a session that ended under an earlier daemon.
    pub async fn tail(&self) -> Result<Seq, EngineError> {
        self.settled_reader().await?;
        Ok(self.change().seq)
    }

    /// Waits until filters have answered for what `sink` shows up to `to`, but not beyond
    /// `deadline`. Says how many of these bytes are still unanswered then.
    pub async fn caught_up(&self, sink: Sink, to: Seq, deadline: Instant) -> u64 {
        let caught_up = self.answers(|governed| to.since(governed.limit(sink).unwrap_or(to)) == 0);
        let _ = tokio::time::timeout_at(deadline, caught_up).await;
        self.unanswered(sink, to)
    }

    /// Bytes before `to` that `sink` may not show yet, because filters have not answered for them.
    pub fn unanswered(&self, sink: Sink, to: Seq) -> u64 {
        let limit = self.egress().governed().and_then(|governed| governed.limit(sink));
        to.since(limit.unwrap_or(to))
    }

    /// Until `enough` is true of whoever answers, or nobody does.
    async fn answers(&self, enough: impl Fn(&Governed) -> bool) {
        while let Some(governed) = self.egress().governed() {
            // Listening before looking, so that no answer falls between.
            let mut changes = governed.ledger().changes();
            if enough(&governed) {
                return;
            }
            // The ledger lives in `governed`: its sender cannot be gone.
            let _ = changes.changed().await;
        }
    }

    fn rest(&self) -> Rest {
        let info = self.info();
        match info.last_output {
            _ if self.change().ended.is_some() => Rest::Ended,
            Some(at) => Rest::For(at.elapsed().unwrap_or_default()),
            // Printed before this daemon was there.
            None => Rest::For(EXPIRE),
        }
    }

    /// What was printed before `to`, for a filter that begins there.
    pub(crate) async fn before(&self, to: Seq) -> Result<Raw<Vec<u8>>, EngineError> {
        let reader = self.settled_reader().await?;
        blocking(move || {
            let mut before = Vec::new();
            let from = Seq(to.0.saturating_sub(LOOK_BACK)).max(reader.span().0);
            reader.replay(ReplayFrom::Seq(from), &mut |item| match item {
                Item::Output { seq, bytes, .. } => {
                    let room = usize::try_from(to.since(seq)).unwrap_or(usize::MAX);
                    before.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    going(seq.plus(bytes.len() as u64) < to)
                }
                Item::Gap { .. } => {
                    before.clear();
                    ControlFlow::Continue(())
                }
                _ => ControlFlow::Continue(()),
            })?;
            Ok(Raw::new(before))
        })
        .await
    }
}

fn going(on: bool) -> ControlFlow<()> {
    if on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// A page being made.
struct PageBuilder {
    redactor: Redactor,
    from: Seq,
    max: usize,
    page: Vec<u8>,
    next: Seq,
    dropped: u64,
    /// Nothing from here on may be shown yet.
    limit: Seq,
    /// What filters answered.
    applying: Option<Applying>,
}

impl PageBuilder {
    /// Lets the redactor act and takes what it gives out.
    fn take(&mut self, act: impl FnOnce(&mut Redactor, &mut Vec<u8>)) {
        let at = self.redactor.at();
        let mut out = Vec::new();
        act(&mut self.redactor, &mut out);
        out.truncate(usize::try_from(self.limit.since(at)).unwrap_or(usize::MAX));
        if self.applying.is_some() {
            return self.edit(at, &out);
        }
        let skip = usize::try_from(self.from.since(at)).unwrap_or(usize::MAX).min(out.len());
        let wanted = &out[skip..];
        let taken = &wanted[..wanted.len().min(self.max - self.page.len())];
        if !taken.is_empty() {
            self.page.extend_from_slice(taken);
            self.next = at.plus((skip + taken.len()) as u64);
        }
    }

    /// Takes bytes as filters want them shown: maybe more of them, maybe fewer.
    fn edit(&mut self, at: Seq, bytes: &[u8]) {
        let mut at = at;
        // In small pieces: an edit may make a page full at any place.
        for piece in bytes.chunks(EDITED_AT_ONCE) {
            let full = self.is_full();
            let Some(applying) = self.applying.as_mut().filter(|_| !full) else { return };
            applying.feed(at, piece, self.from, &mut self.page);
            at = at.plus(piece.len() as u64);
            self.next = self.next.max(at);
        }
    }

    fn is_full(&self) -> bool {
        self.page.len() >= self.max
    }

    fn item(&mut self, item: Item<'_>) -> ControlFlow<()> {
        match item {
            Item::Output { bytes, .. } => self.take(|redactor, out| redactor.feed(bytes, out)),
            Item::Gap { from, to } => {
                self.take(|redactor, out| redactor.skip_to(to, out));
                if !self.is_full() {
                    self.dropped += to.since(from.max(self.from));
                    self.next = self.next.max(to);
                }
            }
            _ => {}
        }
        // What is undecided at the page's end is decided by what follows, up to a point.
        let end = self.from.plus(self.max as u64 + LOOK_AHEAD);
        let end = end.min(self.limit.plus(LOOK_AHEAD));
        let far = self.redactor.at().plus(self.redactor.held() as u64) >= end;
        going(!self.is_full() && !far)
    }
}

fn masked(
    reader: &JournalReader,
    egress: &Egress,
    since: Seq,
    max: usize,
    rest: Rest,
    governed: Option<Arc<Governed>>,
    limit: Option<Seq>,
) -> Result<Page, EngineError> {
    let (oldest, tail) = reader.span();
    let from = since.max(oldest).min(tail).min(limit.unwrap_or(tail).max(oldest));
    let limit = limit.unwrap_or(Seq(u64::MAX / 2));
    let applying = governed.map(|governed| {
        let to = from.plus(max as u64 + LOOK_AHEAD);
        Applying::new(governed.edits(from, to), false)
    });
    let back = Seq(from.0.saturating_sub(LOOK_BACK)).max(oldest);
    let redactor = egress.redactor_at(back);
    let dropped = oldest.since(since);
    let page = Vec::new();
    let mut builder =
        PageBuilder { redactor, from, max, page, next: from, dropped, limit, applying };
    let end = reader.replay(ReplayFrom::Seq(back), &mut |item| builder.item(item))?;
    let mut tail = tail.max(end).min(limit.max(builder.next));
    if !builder.is_full() && builder.redactor.held() > 0 && builder.redactor.at() < limit {
        match rest {
            Rest::Ended => builder.take(Redactor::finish),
            Rest::For(time) if time >= EXPIRE => builder.take(Redactor::expire),
            Rest::For(time) if time >= PAUSE => builder.take(Redactor::paused),
            Rest::For(_) => {}
        }
        // What is left cannot be read yet: for this page the output ends before it.
        if !builder.is_full() && builder.redactor.held() > 0 {
            tail = builder.next;
        }
    }
    let PageBuilder { next, dropped, page, .. } = builder;
    Ok(Page { from, next, tail, dropped, bytes: egress.made_of_filtered(page) })
}

fn unmasked(
    reader: &JournalReader,
    egress: &Egress,
    since: Seq,
    max: usize,
) -> Result<Page, EngineError> {
    let (oldest, tail) = reader.span();
    let from = since.max(oldest).min(tail);
    let mut page = Vec::new();
    let mut dropped = oldest.since(since);
    let mut next = from;
    reader.replay(ReplayFrom::Seq(from), &mut |item| {
        match item {
            Item::Output { seq, bytes, .. } => {
                let taken = &bytes[..bytes.len().min(max - page.len())];
                page.extend_from_slice(taken);
                next = seq.plus(taken.len() as u64);
            }
            Item::Gap { from, to } => {
                dropped += to.since(from);
                next = to;
            }
            _ => {}
        }
        going(page.len() < max)
    })?;
    Ok(Page { from, next, tail, dropped, bytes: egress.unmasked(Raw::new(page)) })
}

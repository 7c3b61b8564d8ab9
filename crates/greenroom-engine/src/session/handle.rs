//! The verbs of a session.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use greenroom_term::{Frame, InputModes, KeyPress, Row, Size, encode_key, encode_paste};
use tokio::sync::{mpsc, oneshot, watch};

use crate::egress::{Egress, Filtered, Raw, Sink};
use crate::error::EngineError;
use crate::id::{ClientId, Seq, SessionId};
use crate::journal::{Item, JournalReader, ReplayFrom};
use crate::process::Target;
use crate::session::actor::Msg;
use crate::session::subscribers::{Following, Subscription};
use crate::session::{Change, SessionInfo, SessionState, Shared, rebuild};
use crate::store::RecordState;

/// A write is answered when the kernel has it all, or after this long with
/// what is still waiting.
const INPUT_PATIENCE: Duration = Duration::from_secs(5);

/// Scrollback lines made available to one reader.
pub const SCROLLBACK_LINES: usize = 10_000;

#[derive(Clone)]
pub struct SessionHandle {
    pub(crate) shared: Arc<Shared>,
}

/// A page of output.
pub struct Page {
    pub from: Seq,
    pub next: Seq,
    pub tail: Seq,
    /// Bytes asked for that are no longer (or were never) in the journal.
    pub dropped: u64,
    pub bytes: Filtered<Vec<u8>>,
}

impl SessionHandle {
    pub fn id(&self) -> SessionId {
        self.shared.id
    }

    pub fn info(&self) -> SessionInfo {
        self.shared.info()
    }

    pub fn change(&self) -> Change {
        self.shared.change()
    }

    /// Until the session has ended or was closed.
    pub async fn over(&self) {
        self.shared.over().await;
    }

    pub fn changes(&self) -> watch::Receiver<Change> {
        self.shared.changes()
    }

    pub fn modes(&self) -> InputModes {
        self.shared.modes()
    }

    /// The session's own thread: a task spawned here shares it with the actor,
    /// and output reaches it without waking another.
    pub fn thread(&self) -> &tokio::runtime::Handle {
        self.shared.parts.threads.of(self.id())
    }

    /// Types `bytes`. Returns when the kernel has them.
    pub async fn write(&self, client: Option<ClientId>, bytes: &[u8]) -> Result<(), EngineError> {
        let position = self.write_now(client, bytes)?;
        let Some(input) = &self.shared.input else { return Err(self.ended_error("write to")) };
        match tokio::time::timeout(INPUT_PATIENCE, input.reached(position)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.ended_error("write to")),
            Err(_) => Err(EngineError::NotReading { id: self.id() }),
        }
    }

    /// Types `bytes` without waiting for a program that does not read.
    pub fn write_now(&self, client: Option<ClientId>, bytes: &[u8]) -> Result<u64, EngineError> {
        let input = match (&self.shared.input, self.shared.state()) {
            (Some(input), SessionState::Running | SessionState::Starting) => input,
            _ => return Err(self.ended_error("write to")),
        };
        let position =
            input.write(bytes).map_err(|source| EngineError::Input { id: self.id(), source })?;
        self.shared.input_seen();
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        // A full mailbox loses a mark, not a key.
        let _ = self.shared.tx.try_send(Msg::Typed { client, len });
        Ok(position)
    }

    pub async fn press(
        &self,
        client: Option<ClientId>,
        keys: &[KeyPress],
    ) -> Result<(), EngineError> {
        let modes = self.modes();
        let bytes: Vec<u8> = keys.iter().flat_map(|key| encode_key(key, &modes)).collect();
        self.write(client, &bytes).await
    }

    pub async fn paste(&self, client: Option<ClientId>, text: &str) -> Result<(), EngineError> {
        let bytes = encode_paste(text, &self.modes());
        self.write(client, &bytes).await
    }

    /// The screen now; never half of a synchronized update.
    pub async fn frame(&self) -> Result<(Filtered<Arc<Frame>>, Seq), EngineError> {
        let (frame, seq) = self.ask(|reply| Msg::Frame { reply }).await?;
        Ok((self.egress().pass(Sink::Snapshot, Raw::new(frame)), seq))
    }

    /// Snapshot and subscription in one act: what comes through the
    /// subscription starts exactly where its first push leaves off.
    pub async fn subscribe(&self, following: Following) -> Result<Subscription, EngineError> {
        self.ask(|reply| Msg::Subscribe { following, reply }).await
    }

    pub async fn window(&self, client: ClientId, size: Size) -> Result<(), EngineError> {
        self.tell(Msg::Window { client, size }).await
    }

    pub async fn shown(&self, client: ClientId, visible: bool) -> Result<(), EngineError> {
        self.tell(Msg::Shown { client, visible }).await
    }

    pub async fn resize(&self, size: Size) -> Result<(), EngineError> {
        self.running("resize")?;
        self.ask(|reply| Msg::Resize { size, reply }).await
    }

    pub async fn mark(&self, label: String) -> Result<Seq, EngineError> {
        self.running("mark")?;
        self.ask(|reply| Msg::Mark { label, reply }).await
    }

    pub async fn signal(&self, target: Target, signal: i32) -> Result<(), EngineError> {
        self.running("signal")?;
        let member = self.shared.member().ok_or_else(|| self.ended_error("signal"))?;
        Ok(self.shared.parts.processes.signal(&member, target, signal).await?)
    }

    /// Output from `since` (or the oldest kept), at most `max_bytes` of it.
    pub async fn output(&self, since: Seq, max_bytes: usize) -> Result<Page, EngineError> {
        let reader = self.settled_reader().await?;
        let egress = self.egress().clone();
        blocking(move || {
            let (oldest, tail) = reader.span();
            let from = since.max(oldest).min(tail);
            let mut page = Vec::new();
            let mut dropped = oldest.since(since);
            let mut next = from;
            reader.replay(ReplayFrom::Seq(from), &mut |item| {
                match item {
                    Item::Output { seq, bytes, .. } => {
                        let room = max_bytes - page.len();
                        let taken = &bytes[..bytes.len().min(room)];
                        page.extend_from_slice(taken);
                        next = seq.plus(taken.len() as u64);
                    }
                    Item::Gap { from, to } => {
                        dropped += to.since(from);
                        next = to;
                    }
                    _ => {}
                }
                if page.len() >= max_bytes {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
            let bytes = egress.pass(Sink::Transcript, Raw::new(page));
            Ok(Page { from, next, tail, dropped, bytes })
        })
        .await
    }

    /// Rows that scrolled off the top, oldest first, and how many there are.
    pub async fn scrollback(
        &self,
        from: usize,
        count: usize,
    ) -> Result<(Filtered<Vec<Row>>, usize), EngineError> {
        let reader = self.settled_reader().await?;
        let size = self.info().record.size;
        let egress = self.egress().clone();
        blocking(move || {
            let (screen, _) = rebuild::history(&reader, size, SCROLLBACK_LINES)?;
            let rows = screen.history(from, count);
            Ok((egress.pass(Sink::Transcript, Raw::new(rows)), screen.history_len()))
        })
        .await
    }

    /// The session's journal as a recording.
    pub async fn recording(&self) -> Result<Recording, EngineError> {
        let reader = self.settled_reader().await?;
        Ok(Recording { reader, egress: self.egress().clone() })
    }

    pub(crate) fn egress(&self) -> &Egress {
        &self.shared.egress
    }

    pub(crate) fn sender(&self) -> &mpsc::Sender<Msg> {
        &self.shared.tx
    }

    async fn settled_reader(&self) -> Result<JournalReader, EngineError> {
        let reader = self.ask(|reply| Msg::Reader { reply }).await?;
        reader.flush(self.change().seq).await;
        Ok(reader)
    }

    fn running(&self, verb: &'static str) -> Result<(), EngineError> {
        match self.shared.record().state {
            RecordState::Running { .. } | RecordState::Starting => Ok(()),
            RecordState::Ended { .. } | RecordState::Failed { .. } => Err(self.ended_error(verb)),
        }
    }

    pub(crate) fn ended_error(&self, verb: &'static str) -> EngineError {
        match self.shared.state() {
            SessionState::Exited { at, status } => {
                EngineError::Ended { verb, id: self.id(), status, at }
            }
            _ => EngineError::Gone { id: self.id() },
        }
    }

    async fn tell(&self, msg: Msg) -> Result<(), EngineError> {
        self.sender().send(msg).await.map_err(|_| EngineError::Gone { id: self.id() })
    }

    pub(crate) async fn ask<T>(
        &self,
        msg: impl FnOnce(oneshot::Sender<T>) -> Msg,
    ) -> Result<T, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.tell(msg(reply)).await?;
        answer.await.map_err(|_| EngineError::Gone { id: self.id() })
    }
}

/// Takes items in order; output and keyframes come with their filtered bytes.
pub type RecordingSink<'a> = dyn FnMut(Item<'_>, Option<Filtered<&[u8]>>) -> ControlFlow<()> + 'a;

/// A view of the journal for exports and replays.
pub struct Recording {
    reader: JournalReader,
    egress: Egress,
}

impl Recording {
    pub fn span(&self) -> (Seq, Seq) {
        self.reader.span()
    }

    /// Hands every item in order to `sink`; output comes filtered. Blocks.
    pub fn replay(&self, sink: &mut RecordingSink<'_>) -> Result<Seq, EngineError> {
        let egress = &self.egress;
        Ok(self.reader.replay(ReplayFrom::Oldest, &mut |item| {
            let bytes = match &item {
                Item::Output { bytes, .. } | Item::Keyframe { bytes, .. } => {
                    Some(egress.pass(Sink::Recording, Raw::new(*bytes)))
                }
                _ => None,
            };
            sink(item, bytes)
        })?)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(EngineError::Panicked(error.to_string())),
    }
}

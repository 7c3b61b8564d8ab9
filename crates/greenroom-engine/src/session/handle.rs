//! The verbs of a session.

use std::sync::Arc;
use std::time::Duration;

use greenroom_term::{Frame, InputModes, KeyPress, Row, Size, encode_key, encode_paste};
use tokio::sync::{mpsc, oneshot, watch};

use crate::egress::{Egress, Filtered, Origin, Raw, RowAnswers, Secrets, Sink};
use crate::error::EngineError;
use crate::id::{ClientId, Seq, SessionId};
use crate::journal::JournalReader;
use crate::process::Target;
use crate::session::actor::Msg;
use crate::session::{
    Change, SessionInfo, SessionState, Shared, SubscriberKind, Subscription, rebuild,
};
use crate::store::RecordState;

/// A write is answered when the kernel has it all, or after this long with what is still waiting.
const INPUT_PATIENCE: Duration = Duration::from_secs(5);

/// Scrollback lines made available to one reader.
pub const SCROLLBACK_LINES: usize = 10_000;

#[derive(Clone)]
pub struct SessionHandle {
    pub(crate) shared: Arc<Shared>,
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
        self.frame_as(Secrets::Masked).await
    }

    /// The same, as much of it as the caller may see.
    pub async fn frame_as(
        &self,
        secrets: Secrets,
    ) -> Result<(Filtered<Arc<Frame>>, Seq), EngineError> {
        self.frame_again(secrets, &mut RowAnswers::default()).await
    }

    /// The same for somebody who looks again and again: filters are asked only about rows that are
    /// not `known`.
    pub(crate) async fn frame_again(
        &self,
        secrets: Secrets,
        known: &mut RowAnswers,
    ) -> Result<(Filtered<Arc<Frame>>, Seq), EngineError> {
        let (frame, seq) = self.ask(|reply| Msg::Frame { reply }).await?;
        let frame = Raw::new(frame);
        let frame = match secrets {
            Secrets::Masked => {
                let frame = self.egress().frame(frame);
                let origin = Origin { session: self.id(), seq };
                self.egress().governed_frame(Sink::Snapshot, origin, frame, known).await
            }
            Secrets::Unmasked => self.egress().unmasked(frame),
        };
        Ok((frame, seq))
    }

    /// Snapshot and subscription in one act: what comes through the
    /// subscription starts exactly where its first push leaves off.
    pub async fn subscribe(&self, kind: SubscriberKind) -> Result<Subscription, EngineError> {
        let sink = match kind {
            SubscriberKind::Viewer { .. } => Sink::AttachLocal,
            SubscriberKind::Stream => Sink::Stream,
        };
        self.subscribe_to(kind, Some(sink)).await
    }

    /// The same for a subscriber who sits elsewhere, such as [`Sink::AttachRemote`]; `None` for one
    /// who may see secrets.
    pub async fn subscribe_to(
        &self,
        kind: SubscriberKind,
        sink: Option<Sink>,
    ) -> Result<Subscription, EngineError> {
        let mut subscription = self.ask(|reply| Msg::Subscribe { kind, sink, reply }).await?;
        if subscription.is_masked() && subscription.start > Seq(0) {
            let before = match subscription.take_before() {
                Some(before) => before,
                None => self.before(subscription.start).await?,
            };
            subscription.prime(before);
        }
        Ok(subscription)
    }

    pub async fn window(&self, client: ClientId, size: Size) -> Result<(), EngineError> {
        self.tell(Msg::Window { client, size }).await
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

    /// Rows that scrolled off the top, oldest first, and how many there are.
    pub async fn scrollback(
        &self,
        secrets: Secrets,
        from: usize,
        count: usize,
    ) -> Result<(Filtered<Vec<Row>>, usize), EngineError> {
        let reader = self.settled_reader().await?;
        let size = self.info().record.size;
        let egress = self.egress().clone();
        let (mut rows, total, seq) = blocking(move || {
            let (screen, seq) = rebuild::history(&reader, size, SCROLLBACK_LINES)?;
            let rows = Raw::new(screen.history(from, count));
            let rows = match secrets {
                Secrets::Masked => egress.rows(rows, size.cols()),
                Secrets::Unmasked => egress.unmasked(rows),
            };
            Ok((rows, screen.history_len(), seq))
        })
        .await?;
        if secrets == Secrets::Masked {
            let origin = Origin { session: self.id(), seq };
            rows = self.egress().governed_history(origin, rows, size.cols()).await;
        }
        Ok((rows, total))
    }

    /// A text about this session, as it may leave.
    pub fn filtered(&self, text: String) -> Filtered<String> {
        self.egress().text(Raw::new(text))
    }

    pub(crate) fn egress(&self) -> &Egress {
        &self.shared.egress
    }

    pub(crate) fn sender(&self) -> &mpsc::Sender<Msg> {
        &self.shared.tx
    }

    pub(super) async fn settled_reader(&self) -> Result<JournalReader, EngineError> {
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

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(EngineError::Panicked(error.to_string())),
    }
}

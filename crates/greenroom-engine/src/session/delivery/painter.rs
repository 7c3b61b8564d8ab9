//! The screen for a viewer whose filters decide what may be seen.
//!
//! A stream of bytes cannot be taken back and says nothing about rows, so such a viewer is sent
//! pictures: the screen is masked on its grid, filters are asked about the rows that are new, and
//! what they leave is painted. In: frames of the actor, of which only the latest counts. Out:
//! keyframes, one after the other, and whatever else the viewer is told in its place between them.
//! A filter that is slow makes this viewer late, and nobody else.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use greenroom_term::{Frame, Size, paint};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::Push;
use crate::egress::{Egress, Filters, Origin, Raw, RowAnswers, Sink, spawn_beside};
use crate::id::{Seq, SessionId};

/// The session is over: its last picture is waited for this long.
const LAST_PICTURE: Duration = Duration::from_secs(2);

pub(super) struct Painter {
    egress: Egress,
    session: SessionId,
    sink: Sink,
    filters: Option<Arc<dyn Filters>>,
    latest: Option<Grid>,
    under_way: Option<UnderWay>,
    /// Painted, not told yet.
    done: Option<Push>,
    /// What filters said about the rows of the last picture.
    known: RowAnswers,
    told_size: Option<Size>,
    /// To be told after the last picture, and when it is waited for no longer.
    last: VecDeque<Push>,
    give_up: Option<Instant>,
}

/// A screen that is not painted yet.
pub(super) struct Grid {
    pub seq: Seq,
    pub size: Size,
    pub frame: Arc<Frame>,
    pub window: Size,
}

struct UnderWay {
    answer: oneshot::Receiver<(Push, RowAnswers)>,
    task: AbortHandle,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Painter {
    /// `filters` say where they are asked.
    pub(super) fn new(
        egress: Egress,
        sink: Sink,
        session: SessionId,
        filters: Option<Arc<dyn Filters>>,
    ) -> Painter {
        Painter {
            egress,
            session,
            sink,
            filters,
            latest: None,
            under_way: None,
            done: None,
            known: RowAnswers::default(),
            told_size: None,
            last: VecDeque::new(),
            give_up: None,
        }
    }

    /// A newer screen; one that waits is not painted any more.
    pub(super) fn show(&mut self, grid: Grid) {
        self.latest = Some(grid);
    }

    /// Whether the size is news to the viewer.
    pub(super) fn is_new(&mut self, size: Size) -> bool {
        self.told_size.replace(size) != Some(size)
    }

    /// The end: it comes after the last picture.
    pub(super) fn end(&mut self, push: Push) {
        self.last.push_back(push);
        self.give_up.get_or_insert_with(|| Instant::now() + LAST_PICTURE);
    }

    /// What can be told now: a picture, or the end when there is none to come.
    pub(super) fn try_next(&mut self) -> Option<Push> {
        let answer = self.under_way.as_mut().map(|under_way| under_way.answer.try_recv());
        match answer {
            Some(Ok(answer)) => self.painted(Some(answer)),
            Some(Err(TryRecvError::Closed)) => self.painted(None),
            Some(Err(TryRecvError::Empty)) | None => {}
        }
        if let Some(push) = self.done.take() {
            return Some(push);
        }
        if self.give_up.is_some_and(|at| at <= Instant::now()) {
            (self.latest, self.under_way) = (None, None);
        }
        self.begin();
        if self.is_busy() { None } else { self.last.pop_front() }
    }

    /// Whether a picture is on its way.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    /// Until [`Painter::try_next`] may have something. Never, if nothing is on its way.
    pub(super) async fn ready(&mut self) {
        let Some(under_way) = &mut self.under_way else { return std::future::pending().await };
        let far = Instant::now() + Duration::from_secs(3600);
        let at = self.give_up.unwrap_or(far);
        if let Ok(answer) = tokio::time::timeout_at(at, &mut under_way.answer).await {
            self.painted(answer.ok());
        }
    }

    /// Without an answer if a filter broke down: nothing is shown then.
    fn painted(&mut self, answer: Option<(Push, RowAnswers)>) {
        self.under_way = None;
        if let Some((push, known)) = answer {
            (self.done, self.known) = (Some(push), known);
        }
    }

    fn begin(&mut self) {
        if self.under_way.is_some() {
            return;
        }
        let Some(Grid { seq, size, frame, window }) = self.latest.take() else { return };
        let (egress, sink, session) = (self.egress.clone(), self.sink, self.session);
        let mut known = std::mem::take(&mut self.known);
        let (tx, answer) = oneshot::channel();
        let work = async move {
            let frame = egress.frame(Raw::new(frame));
            let origin = Origin { session, seq };
            let frame = egress.governed_frame(sink, origin, frame, &mut known).await;
            let bytes = frame.map(|frame| paint::whole(&frame, window));
            // The viewer may be gone.
            let _ = tx.send((Push::Keyframe { seq, size, bytes }, known));
        };
        let task = spawn_beside(self.filters.as_ref(), work);
        self.under_way = Some(UnderWay { answer, task: task.abort_handle() });
    }
}

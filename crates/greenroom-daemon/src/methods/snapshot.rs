//! `session.snapshot`, and the texts of screens that were asked for lately.
//!
//! A text is made and written as JSON once per change of its screen; who asks again gets the same
//! bytes without asking the session's actor.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use greenroom_engine::egress::{Extra, Filtered, Sight};
use greenroom_engine::session::{Change, SCROLLBACK_LINES};
use greenroom_engine::term::Frame;
use greenroom_engine::{EngineError, Seq, SessionHandle, SessionId};
use greenroom_protocol::Fault;
use greenroom_protocol::api::screen::{
    Scrollback, ScrollbackParams, Snapshot, SnapshotFormat, SnapshotParams,
};
use tokio::time::Instant;

use crate::convert;
use crate::methods::redact;
use crate::rpc::fault;
use crate::rpc::router::{Body, Call};

/// Frames kept per session so that `since` can be answered with a difference.
const FRAMES_KEPT: usize = 4;

#[derive(Default)]
pub struct Screens(Mutex<HashMap<SessionId, Recent>>);

#[derive(Default)]
struct Recent {
    text: Option<Text>,
    frames: VecDeque<(Seq, Filtered<Arc<Frame>>)>,
}

struct Text {
    seq: Seq,
    visible_at: Instant,
    body: Body,
}

impl Screens {
    pub fn forget(&self, id: SessionId) {
        self.open().remove(&id);
    }

    fn text(&self, id: SessionId, now: Change) -> Option<Body> {
        let screens = self.open();
        let text = screens.get(&id)?.text.as_ref()?;
        (text.seq == now.seq && text.visible_at == now.visible_at).then(|| text.body.clone())
    }

    fn keep_text(&self, id: SessionId, text: Text) {
        self.open().entry(id).or_default().text = Some(text);
    }

    fn frame(&self, id: SessionId, seq: Seq) -> Option<Filtered<Arc<Frame>>> {
        let screens = self.open();
        let frames = &screens.get(&id)?.frames;
        frames.iter().find(|(at, _)| *at == seq).map(|(_, frame)| frame.clone())
    }

    fn keep_frame(&self, id: SessionId, seq: Seq, frame: &Filtered<Arc<Frame>>) {
        let mut screens = self.open();
        let frames = &mut screens.entry(id).or_default().frames;
        frames.retain(|(at, _)| *at != seq);
        frames.push_back((seq, frame.clone()));
        if frames.len() > FRAMES_KEPT {
            frames.pop_front();
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, Recent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub async fn snapshot(call: Call, params: SnapshotParams) -> Result<Body, Fault> {
    let handle = call.session(&params.session)?;
    let sight = redact::sight(&call, params.redact, params.redaction.as_ref())?;
    let extra = redact::extra(params.redaction.as_ref())?;
    let plain = sight == Sight::Masked
        && extra.is_empty()
        && params.region.is_none()
        && params.scrollback.is_none()
        && params.since.is_none();
    let patience = redact::patience(params.timeout_ms);
    if plain && params.format == SnapshotFormat::Text {
        return text(&call, &handle, patience).await;
    }
    let (frame, seq) = in_time(patience, handle.frame_as(sight)).await?;
    let frame = extra.frame(frame);
    let mut shot = convert::screen::snapshot(&frame, seq, params.format, params.region);
    if sight == Sight::Masked {
        shot.withheld = handle.info().withheld;
    }
    // Frames of one sight must not be compared with, or kept for, those of another.
    let keeps = sight == Sight::Masked && extra.is_empty();
    if keeps && matches!(params.format, SnapshotFormat::Rows | SnapshotFormat::Runs) {
        if let Some(since) = params.since.filter(|_| params.region.is_none()) {
            reduce(&call, &handle, since, &frame, &mut shot);
        }
        call.host.screens.keep_frame(handle.id(), seq, &frame);
    }
    if let Some(wanted) = params.scrollback {
        shot.scrollback = Some(scrollback(&handle, (sight, &extra), wanted, patience).await?);
    }
    Body::of(&shot)
}

/// A picture is what filters leave of it, and they may be slow.
async fn in_time<T>(
    patience: Duration,
    picture: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, Fault> {
    match tokio::time::timeout(patience, picture).await {
        Ok(picture) => picture.map_err(fault::engine),
        Err(_) => Err(fault::behind("the screen", patience, 0)),
    }
}

async fn text(call: &Call, handle: &SessionHandle, patience: Duration) -> Result<Body, Fault> {
    // Read before the frame is: a change in between makes the text look old, never new.
    let change = handle.change();
    if let Some(body) = call.host.screens.text(handle.id(), change) {
        return Ok(body);
    }
    let (frame, seq) = in_time(patience, handle.frame()).await?;
    let mut shot = convert::screen::snapshot(&frame, seq, SnapshotFormat::Text, None);
    shot.withheld = handle.info().withheld;
    let body = Body::of(&shot)?;
    let text = Text { seq, visible_at: change.visible_at, body: body.clone() };
    call.host.screens.keep_text(handle.id(), text);
    Ok(body)
}

/// Leaves only rows that changed, if the screen at `since` is still known.
fn reduce(
    call: &Call,
    handle: &SessionHandle,
    since: u64,
    frame: &Filtered<Arc<Frame>>,
    shot: &mut Snapshot,
) {
    let Some(old) = call.host.screens.frame(handle.id(), Seq(since)) else { return };
    if old.get().size != frame.get().size {
        return;
    }
    let changed = convert::screen::changed_rows(old.get(), frame.get());
    if let Some(rows) = &mut shot.rows {
        rows.retain(|row| changed.contains(&row.row));
    }
    if let Some(rows) = &mut shot.runs {
        rows.retain(|row| changed.contains(&row.row));
    }
    shot.since = Some(since);
}

async fn scrollback(
    handle: &SessionHandle,
    (sight, extra): (Sight, &Extra),
    wanted: ScrollbackParams,
    patience: Duration,
) -> Result<Scrollback, Fault> {
    let (rows, total) = in_time(patience, handle.scrollback(sight, 0, SCROLLBACK_LINES)).await?;
    let rows = extra.rows(rows, handle.info().record.size.cols());
    let count = wanted.count.min(ScrollbackParams::COUNT_MAX) as usize;
    let skip = usize::try_from(wanted.from).unwrap_or(usize::MAX);
    let rows = rows.get();
    let end = rows.len().saturating_sub(skip);
    let start = end.saturating_sub(count);
    let lines = rows[start..end].iter().map(greenroom_engine::term::Row::text).collect();
    Ok(Scrollback { from: wanted.from, total: total as u64, lines })
}

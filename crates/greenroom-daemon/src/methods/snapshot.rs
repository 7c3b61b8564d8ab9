//! `session.snapshot`.

use std::sync::Arc;
use std::time::Duration;

use greenroom_engine::egress::{Extra, Filtered, Secrets};
use greenroom_engine::session::SCROLLBACK_LINES;
use greenroom_engine::term::Frame;
use greenroom_engine::{EngineError, Seq, SessionHandle};
use greenroom_protocol::Fault;
use greenroom_protocol::api::screen::{
    Scrollback, ScrollbackParams, Snapshot, SnapshotFormat, SnapshotParams,
};

use crate::call::fault;
use crate::call::{Body, Call};
use crate::convert;
use crate::methods::redact;

pub(crate) async fn snapshot(call: Call, params: SnapshotParams) -> Result<Body, Fault> {
    let handle = call.session(&params.session)?;
    let secrets = redact::secrets(&call, params.redact, params.redaction.as_ref())?;
    let extra = redact::extra(params.redaction.as_ref())?;
    let plain = secrets == Secrets::Masked
        && extra.is_empty()
        && params.region.is_none()
        && params.scrollback.is_none()
        && params.since.is_none();
    let patience = redact::patience(params.timeout_ms);
    if plain && params.format == SnapshotFormat::Text {
        return text(&call, &handle, patience).await;
    }
    let (frame, seq) = in_time(patience, handle.frame_as(secrets)).await?;
    let frame = extra.frame(frame);
    let mut shot = convert::screen::snapshot(&frame, seq, params.format, params.region);
    if secrets == Secrets::Masked {
        shot.withheld = handle.info().withheld;
    }
    // A masked frame must not be compared with, or kept for, one that shows secrets.
    let keeps = secrets == Secrets::Masked && extra.is_empty();
    if keeps && matches!(params.format, SnapshotFormat::Rows | SnapshotFormat::Runs) {
        if let Some(since) = params.since.filter(|_| params.region.is_none()) {
            reduce(&call, &handle, since, &frame, &mut shot);
        }
        call.host.edge.screens.keep_frame(handle.id(), seq, &frame);
    }
    if let Some(wanted) = params.scrollback {
        shot.scrollback = Some(scrollback(&handle, secrets, &extra, wanted, patience).await?);
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
    if let Some(body) = call.host.edge.screens.text(handle.id(), change) {
        return Ok(Body(body));
    }
    let (frame, seq) = in_time(patience, handle.frame()).await?;
    let mut shot = convert::screen::snapshot(&frame, seq, SnapshotFormat::Text, None);
    shot.withheld = handle.info().withheld;
    let body = Body::of(&shot)?;
    call.host.edge.screens.keep_text(handle.id(), seq, change, body.0.clone());
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
    let Some(old) = call.host.edge.screens.frame(handle.id(), Seq(since)) else { return };
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
    secrets: Secrets,
    extra: &Extra,
    wanted: ScrollbackParams,
    patience: Duration,
) -> Result<Scrollback, Fault> {
    let (rows, total) = in_time(patience, handle.scrollback(secrets, 0, SCROLLBACK_LINES)).await?;
    let rows = extra.rows(rows, handle.info().record.size.cols());
    let count = wanted.count.min(ScrollbackParams::COUNT_MAX) as usize;
    let skip = usize::try_from(wanted.from).unwrap_or(usize::MAX);
    let rows = rows.get();
    let end = rows.len().saturating_sub(skip);
    let start = end.saturating_sub(count);
    let lines = rows[start..end].iter().map(greenroom_engine::term::Row::text).collect();
    Ok(Scrollback { from: wanted.from, total: total as u64, lines })
}

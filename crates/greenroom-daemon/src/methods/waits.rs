//! `session.wait` and `session.cancel_wait`.

use std::time::{Duration, Instant};

use futures_util::future::OptionFuture;
use greenroom_engine::wait::{Matched, WaitError, WaitFor};
use greenroom_engine::{Seq, SessionHandle};
use greenroom_protocol::api::session::{
    CancelWaitParams, CancelWaitResult, WaitParams, WaitResult,
};
use greenroom_protocol::{Fault, FaultKind};

use crate::call::Call;
use crate::call::fault;
use crate::convert;
use crate::methods::redact;

pub(crate) async fn wait(call: Call, params: WaitParams) -> Result<WaitResult, Fault> {
    let handle = call.session(&params.session)?;
    let secrets = redact::secrets(&call, params.redact, None)?;
    let matcher = convert::matcher::matcher(&params.matcher)?;
    convert::matcher::reachable(&params.matcher, convert::state(&handle.info().record.state))?;
    let since = params.since.or_else(|| convert::matcher::since(&params.matcher));
    let timeout = Duration::from_millis(params.timeout_ms.min(WaitParams::MAX_TIMEOUT_MS));
    let (listed, cancelled) = call.host.edge.waits.list(handle.id(), params.wait_id.clone())?;
    let began = Instant::now();
    // Only a scope of the whole wait: one branch's must not hold the others back.
    let scope = params.since.or(params.matcher.since);
    let waiting = async {
        let left = after(&handle, scope, timeout).await;
        let wait = WaitFor { matcher, since: since.map(Seq), timeout: left, secrets };
        handle.wait(wait).await
    };
    let matched = tokio::select! {
        matched = waiting => matched,
        Some(Ok(())) = OptionFuture::from(cancelled) => {
            return Err(Fault::new(FaultKind::Cancelled, "the wait was cancelled by its wait_id"));
        }
    };
    drop(listed);
    let elapsed_ms = convert::millis(began.elapsed());
    let matched = matched.map_err(|mut error| {
        if let WaitError::Timeout(evidence) = &mut error {
            evidence.timeout = timeout;
        }
        fault::wait(error, elapsed_ms)
    })?;
    Ok(result(&handle, &params, matched, elapsed_ms))
}

/// With a scope the screen of before does not count: waits for output past it, and says how much
/// time is left.
async fn after(handle: &SessionHandle, since: Option<u64>, timeout: Duration) -> Duration {
    let Some(since) = since else { return timeout };
    let began = tokio::time::Instant::now();
    let mut changes = handle.changes();
    let past =
        changes.wait_for(|change| change.seq.0 > since || change.ended.is_some() || change.closed);
    // Time that runs out here runs out in the wait itself, which has the evidence.
    let _ = tokio::time::timeout(timeout, past).await;
    timeout.saturating_sub(began.elapsed())
}

fn result(
    handle: &SessionHandle,
    params: &WaitParams,
    matched: Matched,
    elapsed_ms: u64,
) -> WaitResult {
    let change = handle.change();
    let snapshot = params
        .snapshot_format()
        .zip(matched.frame)
        .map(|(format, frame)| convert::screen::snapshot(&frame, matched.seq, format, None));
    let stable = tokio::time::Instant::now().saturating_duration_since(change.visible_at);
    WaitResult {
        matched: true,
        sequence: matched.seq.0,
        elapsed_ms,
        snapshot,
        transcript_tail: matched.transcript_tail.into_inner(),
        outcome: Some(convert::matcher::outcome(&params.matcher, matched.outcome.into_inner())),
        stable_for_ms: Some(convert::millis(stable)),
        exit: change.ended.map(convert::exit),
        wait_id: params.wait_id.clone(),
    }
}

pub(crate) async fn cancel_wait(
    call: Call,
    params: CancelWaitParams,
) -> Result<CancelWaitResult, Fault> {
    Ok(match call.host.edge.waits.cancel(&params.wait_id) {
        None => CancelWaitResult { cancelled: false, session: None, wait_id: None },
        Some((session, cancelled)) => {
            CancelWaitResult { cancelled, session: Some(session), wait_id: Some(params.wait_id) }
        }
    })
}

//! `session.wait` and `session.cancel_wait`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use greenroom_engine::wait::{Matched, WaitError, WaitFor};
use greenroom_engine::{Seq, SessionHandle};
use greenroom_protocol::api::session::{
    CancelWaitParams, CancelWaitResult, WaitParams, WaitResult,
};
use greenroom_protocol::{Fault, FaultKind};
use tokio::sync::oneshot;

use crate::convert;
use crate::host::Host;
use crate::methods::redact;
use crate::rpc::fault;
use crate::rpc::router::Call;

/// Longest name of a wait.
const NAME_BYTES: usize = 256;

/// Waits in flight: those with a name can be cancelled from any connection.
#[derive(Default)]
pub struct Waits {
    named: Mutex<HashMap<String, Waiting>>,
    count: AtomicUsize,
}

struct Waiting {
    session: String,
    cancel: oneshot::Sender<()>,
}

impl Waits {
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn named(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait is listed as long as this lives.
struct Listed {
    host: Arc<Host>,
    name: Option<String>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.host.waits.count.fetch_sub(1, Ordering::Relaxed);
        if let Some(name) = &self.name {
            self.host.waits.named().remove(name);
        }
    }
}

fn list(
    host: &Arc<Host>,
    session: &SessionHandle,
    name: Option<String>,
) -> Result<(Listed, Option<oneshot::Receiver<()>>), Fault> {
    let cancelled = match &name {
        None => None,
        Some(name) if name.is_empty() || name.len() > NAME_BYTES => {
            return Err(fault::invalid(format!("wait_id has 1 to {NAME_BYTES} bytes")));
        }
        Some(name) => {
            let mut named = host.waits.named();
            if named.contains_key(name) {
                return Err(fault::invalid(format!("wait_id {name} is in use")));
            }
            let (cancel, cancelled) = oneshot::channel();
            let session = session.id().to_string();
            named.insert(name.clone(), Waiting { session, cancel });
            Some(cancelled)
        }
    };
    host.waits.count.fetch_add(1, Ordering::Relaxed);
    Ok((Listed { host: host.clone(), name }, cancelled))
}

pub async fn wait(call: Call, params: WaitParams) -> Result<WaitResult, Fault> {
    let handle = call.session(&params.session)?;
    let sight = redact::sight(&call, params.redact, None)?;
    let matcher = convert::matcher::matcher(&params.matcher)?;
    convert::matcher::reachable(&params.matcher, convert::state(&handle.info().state))?;
    let since = params.since.or_else(|| convert::matcher::since(&params.matcher));
    let timeout = Duration::from_millis(params.timeout_ms.min(WaitParams::MAX_TIMEOUT_MS));
    let (listed, cancelled) = list(&call.host, &handle, params.wait_id.clone())?;
    let began = Instant::now();
    // Only a scope of the whole wait: one branch's must not hold the others back.
    let scope = params.since.or(params.matcher.since);
    let waiting = async {
        let left = after(&handle, scope, timeout).await;
        let wait = WaitFor { matcher, since: since.map(Seq), timeout: left, sight };
        handle.wait(wait).await
    };
    let matched = tokio::select! {
        matched = waiting => matched,
        () = told(cancelled) => {
            return Err(Fault::new(FaultKind::Cancelled, "the wait was cancelled by its wait_id"));
        }
    };
    drop(listed);
    let elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
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

async fn told(cancelled: Option<oneshot::Receiver<()>>) {
    let cancelled = match cancelled {
        Some(cancelled) => cancelled.await.is_ok(),
        None => false,
    };
    if !cancelled {
        std::future::pending::<()>().await;
    }
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
        stable_for_ms: Some(u64::try_from(stable.as_millis()).unwrap_or(u64::MAX)),
        exit: change.ended.map(convert::exit),
        wait_id: params.wait_id.clone(),
    }
}

pub async fn cancel_wait(call: Call, params: CancelWaitParams) -> Result<CancelWaitResult, Fault> {
    let waiting = call.host.waits.named().remove(&params.wait_id);
    Ok(match waiting {
        None => CancelWaitResult { cancelled: false, session: None, wait_id: None },
        Some(waiting) => CancelWaitResult {
            cancelled: waiting.cancel.send(()).is_ok(),
            session: Some(waiting.session),
            wait_id: Some(params.wait_id),
        },
    })
}

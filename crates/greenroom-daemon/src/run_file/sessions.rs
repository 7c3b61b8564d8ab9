//! Workers' sessions: started and ended as anybody's are.

use std::sync::Arc;

use greenroom_engine::SessionHandle;
use greenroom_protocol::Fault;
use greenroom_protocol::api::session::{CreateParams, DryRun};

use crate::chains;
use crate::host::Host;
use crate::methods::session::{ask, ladder, spec};

/// As `session.create` does.
pub async fn start(host: &Arc<Host>, params: CreateParams) -> Result<SessionHandle, Fault> {
    let ask = ask(&params);
    chains::start(host, spec(host, params)?, ask).await
}

/// What it would be.
pub async fn would_be(host: &Arc<Host>, params: CreateParams) -> Result<DryRun, Fault> {
    let ask = ask(&params);
    chains::would_be(host, spec(host, params)?, ask).await
}

/// Ends it with all it started; one that has ended is fine.
pub async fn end(host: &Arc<Host>, handle: &SessionHandle) {
    if let Err(error) = handle.kill(ladder(host, None, None)).await {
        tracing::debug!(session = %handle.id(), %error, "ending a worker");
    }
    chains::settled(host, handle).await;
}

//! `greenroom shutdown`: ends every session, then the host.

use std::time::{Duration, Instant};

use greenroom_client::is_listening;
use greenroom_protocol::FaultKind;
use greenroom_protocol::api::server::{ShutdownParams, ShutdownResult};
use serde_json::json;

use super::Context;
use crate::cli::ShutdownArgs;
use crate::error::{Failure, Outcome};
use crate::host::Host;
use crate::output::count;

/// How long the host may take to go after the sessions' own grace.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

pub async fn run(args: ShutdownArgs, context: &Context) -> Outcome {
    let Some(host) = Host::if_running().await? else {
        context.out.answer(&json!({ "stopped": false, "sessions": 0 }), || {
            "no host runs; there is nothing to stop".to_owned()
        })?;
        return Ok(0);
    };
    let grace_ms = args.grace.map(|grace| u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
    let sessions = stop(&host, &ShutdownParams { if_idle: args.if_idle, grace_ms }).await?;
    context.out.answer(&json!({ "stopped": true, "sessions": sessions }), || {
        format!("the host has stopped; {} ended", count(sessions, "session"))
    })?;
    Ok(0)
}

/// Stops the host and waits until nobody listens any more.
pub async fn stop(host: &Host, params: &ShutdownParams) -> Result<u64, Failure> {
    let answer: Result<ShutdownResult, Failure> =
        host.call("server.shutdown", params, "stop the host").await;
    let sessions = match answer {
        Ok(answer) => answer.sessions,
        // It went away before it had answered: that is what was asked.
        Err(failure) if failure.is(FaultKind::Unavailable) => 0,
        Err(failure) => return Err(failure),
    };
    let grace = Duration::from_millis(params.grace_ms.unwrap_or(0));
    let deadline = Instant::now() + PATIENCE + grace;
    while is_listening(host.client.path()).await {
        if Instant::now() >= deadline {
            let message = "cannot stop the host: it still listens";
            return Err(Failure::unavailable(message).hint("look into greenroom logs"));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(sessions)
}

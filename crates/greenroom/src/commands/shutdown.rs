//! `greenroom shutdown`: ends every session, then the host.

use std::time::{Duration, Instant};

use clap::Args;
use greenroom_client::{ClientError, is_listening, method};
use greenroom_protocol::api::server::ShutdownParams;
use serde_json::json;

use super::Context;
use crate::cli::parse_time;
use crate::error::{ExitResult, Failure};
use crate::host::{HostClient, called};
use crate::output::{count, millis};

/// End every session and stop the background host
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom shutdown\n  greenroom shutdown --if-idle\n\nWhere no host runs there is nothing to do: exit code 0."
)]
pub struct ShutdownArgs {
    /// Only if no session runs
    #[arg(long)]
    pub if_idle: bool,
    /// Time sessions get between TERM and KILL
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub grace: Option<Duration>,
}

/// How long the host may take to go after the sessions' own grace.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

pub async fn run(args: ShutdownArgs, context: &Context) -> ExitResult {
    let Some(host) = context.host_if_running().await? else {
        return context.out.answer(&json!({ "stopped": false, "sessions": 0 }), || {
            "no host runs; there is nothing to stop".to_owned()
        });
    };
    let params = ShutdownParams { if_idle: args.if_idle, grace_ms: args.grace.map(millis) };
    let sessions = stop(&host, &params).await?;
    context.out.answer(&json!({ "stopped": true, "sessions": sessions }), || {
        format!("the host has stopped; {} ended", count(sessions, "session"))
    })
}

/// Stops the host and waits until nobody listens any more.
pub async fn stop(host: &HostClient, params: &ShutdownParams) -> Result<u64, Failure> {
    let stopped = host.client.stopped();
    tokio::pin!(stopped);
    let sessions = match host.client.call::<method::ServerShutdown>(params).await {
        Ok(answer) => answer.sessions,
        // It went away before it had answered: that is what was asked.
        Err(
            ClientError::EffectUnknown { .. }
            | ClientError::KeepsFailing { .. }
            | ClientError::Unreachable { .. },
        ) => 0,
        Err(error) => return Err(called("stop the host", error)),
    };
    let grace = Duration::from_millis(params.grace_ms.unwrap_or(0));
    let deadline = Instant::now() + PATIENCE + grace;
    while is_listening(host.client.path()).await {
        if Instant::now() >= deadline {
            let message = "cannot stop the host: it still listens";
            return Err(Failure::unavailable(message).hint("look into greenroom logs"));
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_AGAIN) => {}
            error = &mut stopped => return Err(called("stop the host", error)),
        }
    }
    Ok(sessions)
}

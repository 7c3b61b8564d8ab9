//! `greenroom stats`: what the host says of itself, all of it or one value for a script.
//!
//! It never starts a host: one that was started to be asked would only tell of itself.

use clap::Args;
use greenroom_protocol::api::server::StatsResult;
use serde_json::Value;

use super::Context;
use crate::error::{ExitResult, Failure};
use crate::output::{bytes, span};

/// Process ids, uptime, counts and memory of the host
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom stats\n  greenroom stats daemon_pid\n  kill -9 \"$(greenroom stats daemon_pid)\"\n  greenroom stats --json"
)]
pub struct StatsArgs {
    /// Only this, such as daemon_pid, keeper_pid, uptime_ms or sessions.running
    pub field: Option<String>,
}

pub async fn run(args: StatsArgs, context: &Context) -> ExitResult {
    let stats = context.running_host().await?.stats().await?;
    let value = serde_json::to_value(&stats)
        .map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
    let Some(field) = args.field else {
        return context.out.answer(&stats, || text(&stats));
    };
    let pointer = format!("/{}", field.replace('.', "/"));
    let Some(found) = value.pointer(&pointer) else {
        let names: Vec<&str> =
            value.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        return Err(Failure::usage(format!("there is no {field} in the stats"))
            .hint(format!("one of {}", names.join(", "))));
    };
    context.out.answer(found, || match found {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    })
}

fn text(stats: &StatsResult) -> String {
    let rows = [
        ("version", stats.version.clone()),
        ("daemon_pid", stats.daemon_pid.to_string()),
        ("keeper_pid", stats.keeper_pid.to_string()),
        ("uptime", span(stats.uptime_ms)),
        ("memory", bytes(stats.daemon.rss_bytes.unwrap_or_default())),
        (
            "sessions",
            format!("{} running, {} in all", stats.sessions.running, stats.sessions.total),
        ),
        ("clients", format!("{}, {} attached", stats.clients, stats.attached)),
        ("recordings", bytes(stats.journal_bytes)),
    ];
    let lines = rows.iter().map(|(name, value)| format!("{name:<11} {value}"));
    lines.collect::<Vec<_>>().join("\n")
}

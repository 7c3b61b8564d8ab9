//! `greenroom upgrade`: replaces daemon and keeper; sessions go on.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueHint};
use greenroom_client::method;
use greenroom_protocol::api::server::{StatsResult, UpgradeParams};
use serde_json::json;

use super::Context;
use crate::error::{ExitResult, Failure};
use crate::host::{HostClient, program};
use crate::output::{count, millis};

/// Replace the running host with this or another binary; sessions go on
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom upgrade\n  greenroom upgrade --binary ./target/release/greenroom"
)]
pub struct UpgradeArgs {
    /// The new program [default: this one]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::ExecutablePath)]
    pub binary: Option<PathBuf>,
}

/// How long the new programs may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The old daemon may answer a last time: look again after this.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub async fn run(args: UpgradeArgs, context: &Context) -> ExitResult {
    let binary = args.binary.unwrap_or_else(program);
    let path = greenroom_at(&binary)?;
    let host = context.running_host().await?;
    let before = host.stats().await?;
    let params = UpgradeParams { path: Some(path.display().to_string()), daemon_only: false };
    let started = Instant::now();
    let agreed = host
        .call::<method::ServerUpgrade>(&params, &format!("upgrade to {}", path.display()))
        .await?;
    let after = wait_for_new(&host, &before, agreed.keeper).await?;
    let took = started.elapsed();
    let lost = before.sessions.running.saturating_sub(after.sessions.running);
    let value = json!({
        "from": before.version, "to": after.version,
        "daemon_pid": after.daemon_pid, "keeper_pid": after.keeper_pid,
        "generation": after.keeper.generation, "sessions": after.sessions.running,
        "took_ms": millis(took),
    });
    context.out.answer(&value, || {
        let keeper = if agreed.keeper { " and keeper" } else { "" };
        format!(
            "upgraded daemon{keeper} from {} to {} in {} ms; {} went on",
            before.version,
            after.version,
            took.as_millis(),
            count(after.sessions.running, "session")
        )
    })?;
    if lost > 0 {
        // They may have ended by themselves; saying nothing would be worse.
        let lost = count(lost, "session");
        context.out.note(&format!("note: {lost} ended meanwhile; see greenroom ls"));
    }
    Ok(0)
}

async fn wait_for_new(
    host: &HostClient,
    before: &StatsResult,
    keeper: bool,
) -> Result<StatsResult, Failure> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let now = host.stats().await?;
        let new_keeper = !keeper || now.keeper.generation > before.keeper.generation;
        if now.daemon_pid != before.daemon_pid && new_keeper {
            return Ok(now);
        }
        if Instant::now() >= deadline {
            let message = format!(
                "cannot upgrade: the old host still answers after {} s",
                PATIENCE.as_secs()
            );
            return Err(Failure::unavailable(message).hint("look into greenroom logs"));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Tries it first: a host that replaced itself with another program would take every session along.
fn greenroom_at(path: &Path) -> Result<PathBuf, Failure> {
    let refuse = |error| Failure::io(format!("cannot upgrade to {}", path.display()), &error);
    let path = path.canonicalize().map_err(refuse)?;
    let said =
        Command::new(&path).arg("--version").stdin(Stdio::null()).output().map_err(refuse)?;
    if !said.status.success() || !said.stdout.starts_with(b"greenroom ") {
        return Err(Failure::failed(format!(
            "cannot upgrade to {}: it is not greenroom",
            path.display()
        )));
    }
    Ok(path)
}

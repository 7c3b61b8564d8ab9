//! `greenroom reload`: the settings are read again, and said what became of it.

use clap::Args;
use greenroom_client::method;
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::server::ReloadResult;
use serde_json::json;

use super::Context;
use crate::error::ExitResult;
use crate::host::{HostClient, config};

/// Read the settings again; sessions and the host go on
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom reload\n  greenroom reload --json\n\nSays what changed, and what holds only after an upgrade. A file with mistakes\n  changes nothing: each is told with its line, and the exit code is 1.\nA SIGHUP to the host does the same."
)]
pub struct ReloadArgs {}

pub async fn run(_: ReloadArgs, context: &Context) -> ExitResult {
    let Some(host) = HostClient::if_running().await? else {
        // Nobody to tell; the file is looked at all the same.
        config()?;
        let text = "no host runs; it reads the settings when it starts";
        return context.out.answer(&json!({ "reloaded": false }), || text.to_owned());
    };
    let done = host.call::<method::ServerReload>(&Empty {}, "read the settings again").await?;
    context.out.answer(&done, || in_words(&done))?;
    done.plugins_failed.iter().for_each(|it| context.out.note(&format!("note: plugin {it}")));
    Ok(0)
}

fn in_words(done: &ReloadResult) -> String {
    let said = |(about, keys): (&str, &Vec<String>)| {
        (!keys.is_empty()).then(|| format!("{about}: {}", keys.join(", ")))
    };
    let settings = [
        ("holds from now on", &done.changed),
        ("holds after greenroom upgrade", &done.restart),
        ("holds after greenroom shutdown and the next start", &done.next_start),
    ];
    let mut lines: Vec<String> = settings.into_iter().filter_map(said).collect();
    if lines.is_empty() {
        lines.push(format!("nothing changed in {}", done.file));
    }
    lines.extend(said(("plugins looked at again", &done.plugins)));
    lines.join("\n")
}

//! `greenroom reload`: the settings are read again, and said what became of it.

use greenroom_daemon::config::Config;
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::server::ReloadResult;
use serde_json::json;

use super::Context;
use crate::cli::ReloadArgs;
use crate::error::{Failure, Outcome};
use crate::host::{Host, paths};

pub async fn run(_: ReloadArgs, context: &Context) -> Outcome {
    let Some(host) = Host::if_running().await? else {
        // Nobody to tell; the file is looked at all the same.
        Config::load(&paths()?.config_file())
            .map_err(|error| Failure::failed(error.to_string()).hint("greenroom doctor"))?;
        let text = "no host runs; it reads the settings when it starts";
        context.out.answer(&json!({ "reloaded": false }), || text.to_owned())?;
        return Ok(0);
    };
    let done: ReloadResult =
        host.call("server.reload", &Empty {}, "read the settings again").await?;
    context.out.answer(&done, || in_words(&done))?;
    for failed in &done.plugins_failed {
        context.out.note(&format!("note: plugin {failed}"));
    }
    Ok(0)
}

fn in_words(done: &ReloadResult) -> String {
    let mut lines = Vec::new();
    if !done.changed.is_empty() {
        lines.push(format!("holds from now on: {}", done.changed.join(", ")));
    }
    if !done.restart.is_empty() {
        lines.push(format!("holds after greenroom upgrade: {}", done.restart.join(", ")));
    }
    if !done.next_start.is_empty() {
        let keys = done.next_start.join(", ");
        lines.push(format!("holds after greenroom shutdown and the next start: {keys}"));
    }
    if lines.is_empty() {
        lines.push(format!("nothing changed in {}", done.file));
    }
    if !done.plugins.is_empty() {
        lines.push(format!("plugins looked at again: {}", done.plugins.join(", ")));
    }
    lines.join("\n")
}

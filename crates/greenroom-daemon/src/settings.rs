//! The settings in force, and reading them again while everything goes on.
//!
//! In: `server.reload` or a SIGHUP. Out: what changed and holds from now on, what holds only for the next daemon, or every
//! mistake in the file, and then the old settings stay. Reading a file is [`Config::settled`], here as at the start.

use std::path::PathBuf;
use std::sync::Arc;

use greenroom_plugins::live::Live;
use greenroom_protocol::api::server::ReloadResult;
use greenroom_protocol::{Fault, FaultKind};
use serde_json::json;

use crate::config::{Config, KEYS, Settled};
use crate::events::of_the_host;
use crate::host::Host;
use crate::methods::plugin;

/// Settings that are looked at each time they are needed. All others are taken up at the daemon's start.
const HOLD_AT_ONCE: &[&str] = &[
    "sessions.default_size",
    "sessions.shell",
    "sessions.term",
    "sessions.kill_grace",
    "worktree.prefix",
    "worktree.setup",
    "worktree.teardown",
    "worktree.command_timeout_s",
    "worktree.share",
    "worktree.disposable",
    "worktree.ports",
    "sandbox.hide",
    "sandbox.show",
    "sandbox.allow_hosts",
    "sandbox.allow_write",
    "sandbox.without_landlock",
    "attach.prefix",
    "plugins.idle",
    "plugins.approval_timeout",
];

/// The listener goes on across daemons: one that serves elsewhere stays there until the host is down.
const LISTEN: &str = "http.listen";

pub struct Settings {
    file: PathBuf,
    /// The copy of the last file without a mistake.
    good: PathBuf,
    now: Live<Config>,
}

impl Settings {
    pub fn new(file: PathBuf, good: PathBuf, config: Config) -> Settings {
        Settings { file, good, now: Live::new(config) }
    }

    /// As they are now.
    pub fn now(&self) -> Arc<Config> {
        self.now.now()
    }
}

/// Reads the settings again, and looks at the plugins' files again.
pub async fn reload(host: &Arc<Host>, by: &str) -> Result<ReloadResult, Fault> {
    let settings = &host.settings;
    let (file, good) = (settings.file.clone(), settings.good.clone());
    let loaded = tokio::task::spawn_blocking(move || Config::settled(&file, &good)).await;
    let new = match loaded {
        Ok(Settled { config, mistake: None, .. }) => config,
        Ok(Settled { mistake: Some(error), .. }) => {
            tracing::warn!(%error, by, "the settings stay as they are");
            let message = format!("cannot take the new settings, the old ones stay: {error}");
            let hint = format!("edit {} and try again", settings.file.display());
            return Err(Fault::new(FaultKind::Refused, message).hint(hint));
        }
        Err(error) => return Err(Fault::new(FaultKind::Internal, error.to_string())),
    };
    let mut result = compare(host, &new);
    corrected(host, &result);
    host.built_in.reconfigure(&new, &host.socket);
    let listen = new.http.listen;
    settings.now.set(new);
    if result.changed.iter().any(|key| key == LISTEN) {
        let serves = match listen {
            Some(address) => host.web.start(host, Some(address)).await.is_ok(),
            None => false,
        };
        if !serves {
            result.changed.retain(|key| key != LISTEN);
            result.next_start.push(LISTEN.to_owned());
        }
    }
    if let Some(done) = plugin::look_again(host, by).await {
        match done {
            Ok(done) => {
                result.plugins = [done.added, done.changed, done.removed].concat();
                result.plugins_failed = done.failed;
            }
            Err(fault) => result.plugins_failed = vec![fault.message],
        }
    }
    tracing::info!(changed = ?result.changed, restart = ?result.restart, by, "settings read again");
    let data = json!({ "changed": &result.changed, "restart": &result.restart, "by": by });
    host.storage.log(of_the_host("daemon.reloaded", data));
    Ok(result)
}

/// The file is right again. What protects sessions may still be what held instead of it, until the daemon is replaced.
fn corrected(host: &Host, result: &ReloadResult) {
    if host.troubles.config().is_none() {
        return;
    }
    let protects = |key: &&String| key.starts_with("plugins.") || key.starts_with("redact.");
    let waiting: Vec<&str> = result.restart.iter().filter(protects).map(String::as_str).collect();
    host.troubles.config_is((!waiting.is_empty()).then(|| {
        let (file, keys) = (&result.file, waiting.join(", "));
        format!(
            "{file} is right again, but {keys} hold only for the next daemon: greenroom upgrade"
        )
    }));
}

fn compare(host: &Host, new: &Config) -> ReloadResult {
    let now = host.settings.now();
    let (mut changed, mut restart) = (Vec::new(), Vec::new());
    for key in KEYS {
        let name = format!("{}.{}", key.section, key.name);
        match name == LISTEN || HOLD_AT_ONCE.contains(&name.as_str()) {
            true if !(key.same)(&now, new) => changed.push(name),
            // Against what this daemon began with: it does not matter how often the file was read since.
            false if !(key.same)(&host.config, new) => restart.push(name),
            _ => {}
        }
    }
    ReloadResult {
        reloaded: true,
        file: host.settings.file.display().to_string(),
        changed,
        restart,
        ..ReloadResult::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_key() {
        let known: Vec<String> =
            KEYS.iter().map(|key| format!("{}.{}", key.section, key.name)).collect();
        for name in HOLD_AT_ONCE.iter().chain([&LISTEN]) {
            assert!(known.iter().any(|key| key == name), "{name}");
        }
    }

    #[test]
    fn a_key_differs_only_where_its_value_does() {
        let old = Config::default();
        let new =
            Config::parse(std::path::Path::new("x.toml"), "[sessions]\nshell = \"/bin/zsh\"\n");
        let new = new.unwrap();
        let differ: Vec<&str> =
            KEYS.iter().filter(|key| !(key.same)(&old, &new)).map(|key| key.name).collect();
        assert_eq!(differ, ["shell"]);
    }
}

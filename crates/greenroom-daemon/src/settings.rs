//! The settings in force, and reading them again while everything goes on.
//!
//! In: `server.reload` or a SIGHUP. Out: what changed and holds from now on, what holds only for
//! the next daemon, or every mistake in the file, and then the old settings stay. Reading a file is
//! [`Config::settled`], here as at the start.

use std::path::PathBuf;
use std::sync::Arc;

use greenroom_config::{Config, KEYS, Settled};
use greenroom_protocol::api::server::ReloadResult;
use greenroom_protocol::{Fault, FaultKind};
use greenroom_workspace::live::Live;

use crate::sync::blocking;
use crate::trouble::Troubles;

/// The listener goes on across daemons: one that serves elsewhere stays there until the host is
/// down.
pub(crate) const LISTEN: &str = "http.listen";

pub(crate) struct Settings {
    file: PathBuf,
    /// The copy of the last file without a mistake.
    good: PathBuf,
    /// What this daemon began with.
    began: Config,
    /// What holds now, as far as it can change while the daemon runs.
    now: Live<Config>,
    troubles: Troubles,
}

impl Settings {
    pub(crate) fn new(
        file: PathBuf,
        good: PathBuf,
        config: Config,
        troubles: Troubles,
    ) -> Settings {
        Settings { file, good, began: config.clone(), now: Live::new(config), troubles }
    }

    pub(crate) fn now(&self) -> Arc<Config> {
        self.now.now()
    }

    /// Those this daemon began with.
    pub(crate) fn began(&self) -> &Config {
        &self.began
    }

    /// What is wrong with our own files.
    pub(crate) fn troubles(&self) -> &Troubles {
        &self.troubles
    }

    /// The file as it is now, or every mistake in it. Nothing of it holds yet.
    pub(crate) async fn read_again(&self, by: &str) -> Result<Config, Fault> {
        let (file, good) = (self.file.clone(), self.good.clone());
        let Settled { config, mistake, .. } =
            blocking(move || Config::settled(&file, &good)).await?;
        let Some(error) = mistake else { return Ok(config) };
        tracing::warn!(%error, by, "the settings stay as they are");
        let message = format!("cannot take the new settings, the old ones stay: {error}");
        let hint = format!("edit {} and try again", error.file().display());
        Err(Fault::new(FaultKind::Refused, message).hint(hint))
    }

    /// From now on `new` holds, as far as it can. Answers what changed, and what holds only for the
    /// next daemon.
    pub(crate) fn hold(&self, new: Config) -> ReloadResult {
        let result = self.compare(&new);
        self.corrected(&result);
        self.now.set(new);
        result
    }

    /// The file is right again. What protects sessions may still be what held instead of it, until
    /// the daemon is replaced.
    fn corrected(&self, result: &ReloadResult) {
        if self.troubles.config().is_none() {
            return;
        }
        let protects = |key: &&String| key.starts_with("plugins.") || key.starts_with("redact.");
        let waiting: Vec<&str> =
            result.restart.iter().filter(protects).map(String::as_str).collect();
        self.troubles.config_is((!waiting.is_empty()).then(|| {
            let (file, keys) = (&result.file, waiting.join(", "));
            format!(
                "{file} is right again, but {keys} hold only for the next daemon: greenroom upgrade"
            )
        }));
    }

    fn compare(&self, new: &Config) -> ReloadResult {
        let now = self.now();
        let (mut changed, mut restart) = (Vec::new(), Vec::new());
        for key in KEYS {
            let name = format!("{}.{}", key.section, key.name);
            if key.at_once && !(key.same)(&now, new) {
                changed.push(name);
            // Against what this daemon began with: it does not matter how often the file was read
            // since.
            } else if !key.at_once && !(key.same)(&self.began, new) {
                restart.push(name);
            }
        }
        ReloadResult {
            reloaded: true,
            file: self.file.display().to_string(),
            changed,
            restart,
            ..ReloadResult::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listener_is_a_key_that_is_looked_at_again() {
        let is_it =
            |key: &&greenroom_config::Key| format!("{}.{}", key.section, key.name) == LISTEN;
        assert!(KEYS.iter().find(is_it).is_some_and(|key| key.at_once));
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

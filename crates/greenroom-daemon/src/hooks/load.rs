//! The host of plugins: made of configuration, paths and the keeper.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use greenroom_config::{Config, Paths};
use greenroom_plugins::host::{HostConfig, HostParts, PluginHost};
use greenroom_plugins::runtime::Launcher;
use greenroom_plugins::runtime::profile::Profiles;
use greenroom_plugins::store::{CloneError, Places, Store};
use greenroom_workspace::git;
use greenroom_workspace::sandbox::LazyProbe;

use crate::events::Observations;

/// Finds the plugins. Nothing runs yet. Must be called inside the runtime on which plugins are
/// spoken to.
pub(crate) fn load(
    paths: &Paths,
    socket: &Path,
    config: &Config,
    launcher: Arc<dyn Launcher>,
    observations: &Observations,
) -> (PluginHost, Arc<Store>) {
    let home: PathBuf = std::env::var_os("HOME").map_or_else(|| "/".into(), Into::into);
    let plugins = &config.plugins;
    let places = Places {
        plugins: plugins.dir.as_deref().map_or_else(|| paths.plugins(), |dir| below(&home, dir)),
        store: paths.state().join("plugin-store"),
        lock: paths.state().join("plugins.lock"),
        secrets: paths.config().join("secrets"),
    };
    let store = Arc::new(Store::new(places, clone));
    let hidden = vec![
        paths.state().to_owned(),
        paths.runtime().to_owned(),
        paths.config().to_owned(),
        socket.to_owned(),
    ];
    let profiles = Profiles {
        home,
        state: paths.state().join("plugin-data"),
        hidden,
        least: plugins.min_enforcement,
        probe: LazyProbe::default(),
    };
    let host = PluginHost::load(HostParts {
        config: HostConfig {
            enabled: plugins.enabled,
            timeout: plugins.timeout_ms,
            disabled: plugins.disabled.clone(),
            policy: plugins.policy.clone(),
        },
        catalog: store.clone(),
        launcher,
        profiles: Arc::new(profiles),
        listener: Arc::new(observations.clone()),
        state: paths.state().to_owned(),
    });
    (host, store)
}

fn clone(url: &str, revision: Option<&str>, into: &Path) -> Result<String, CloneError> {
    Ok(git::clone(url, revision, into)?.to_string())
}

/// `~` is the user's home; a relative path is below it too, since a daemon has no directory of its
/// own.
fn below(home: &Path, dir: &str) -> PathBuf {
    match dir.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None if dir == "~" => home.to_owned(),
        None => home.join(dir),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_filled_in() {
        let home = Path::new("/h");
        assert_eq!(below(home, "~/plugins"), Path::new("/h/plugins"));
        assert_eq!(below(home, "/p"), Path::new("/p"));
        assert_eq!(below(home, "p"), Path::new("/h/p"));
    }
}

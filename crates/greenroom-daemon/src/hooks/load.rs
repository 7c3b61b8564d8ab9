//! The host of plugins: made of configuration, paths and the keeper.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use greenroom_engine::events::Event;
use greenroom_plugins::host::{HostConfig, HostParts, News, PluginHost, Witness};
use greenroom_plugins::runtime::Launcher;
use greenroom_plugins::runtime::profile::Profiles;
use greenroom_plugins::sandbox;
use greenroom_plugins::store::{Places, Store};
use tokio::sync::mpsc;

use super::Hooks;
use crate::config::Config;
use crate::paths::Paths;

/// What happened and waits to be told to observers: a burst of titles must not be waited for.
const QUEUE: usize = 4096;

/// Something observers may want to know.
#[derive(Debug)]
pub enum Happened {
    Fact(Event),
    News(News),
}

/// Where facts and news go in. Cheap to clone; never waits.
#[derive(Clone)]
pub struct Happenings {
    queue: mpsc::Sender<Happened>,
    lost: Arc<AtomicU64>,
}

impl Happenings {
    pub fn new() -> (Happenings, mpsc::Receiver<Happened>) {
        let (queue, happened) = mpsc::channel(QUEUE);
        (Happenings { queue, lost: Arc::default() }, happened)
    }

    pub fn tell(&self, happened: Happened) {
        if self.queue.try_send(happened).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many were lost since the last time this was asked.
    pub fn lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

impl Witness for Happenings {
    fn told(&self, news: News) {
        self.tell(Happened::News(news));
    }
}

/// Finds the plugins. Nothing runs yet. Must be called inside the runtime on which plugins are spoken to.
pub fn load(
    paths: &Paths,
    socket: &Path,
    config: &Config,
    launcher: Arc<dyn Launcher>,
    happenings: &Happenings,
) -> Hooks {
    let home: PathBuf = std::env::var_os("HOME").map_or_else(|| "/".into(), Into::into);
    let plugins = &config.plugins;
    let places = Places {
        plugins: plugins.dir.as_deref().map_or_else(|| paths.plugins(), |dir| below(&home, dir)),
        store: paths.state().join("plugin-store"),
        lock: paths.state().join("plugins.lock"),
        secrets: paths.config().join("secrets"),
    };
    let store = Arc::new(Store::new(places));
    let hidden = vec![
        paths.state().to_owned(),
        paths.runtime().to_owned(),
        paths.config().to_owned(),
        socket.to_owned(),
    ];
    let profiles = Profiles::new(
        home,
        paths.state().join("plugin-data"),
        hidden,
        plugins.min_enforcement,
        sandbox::by_trial(),
    );
    let host = PluginHost::load(HostParts {
        config: HostConfig {
            enabled: plugins.enabled,
            timeout: plugins.timeout_ms,
            disabled: plugins.disabled.clone(),
            policy: plugins.policy.clone(),
        },
        supply: store.clone(),
        launcher,
        profiles: Arc::new(profiles),
        witness: Arc::new(happenings.clone()),
        state: paths.state().to_owned(),
    });
    Hooks::new(host, store)
}

/// `~` is the user's home; a relative path is below it too, since a daemon has no directory of its own.
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

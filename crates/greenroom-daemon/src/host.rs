//! What every handler can reach: the engine, the store, the keeper, and the host's own registers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use greenroom_engine::Engine;
use greenroom_keeper::KeeperHello;
use greenroom_plugins::chain::Chains;
use tokio::sync::Notify;

use crate::attach::Viewers;
use crate::chains::{BuiltIn, Cleanups, Ends};
use crate::config::Config;
use crate::hooks::Hooks;
use crate::http::Web;
use crate::keeper::Keeper;
use crate::lifecycle::Life;
use crate::methods::snapshot::Screens;
use crate::methods::waits::Waits;
use crate::plugins::PluginsSlot;
use crate::run_file::Runs;
use crate::settings::Settings;
use crate::store::Storage;
use crate::trouble::Troubles;

pub struct Host {
    pub engine: Engine,
    /// What plugins prepared for sessions, and have to clean up.
    pub chains: Chains,
    pub ends: Arc<Ends>,
    /// What has to be tried again.
    pub cleanups: Cleanups,
    pub built_in: BuiltIn,
    /// What plugins from outside are asked and told.
    pub hooks: Hooks,
    /// Hook plugins.
    pub plugins: PluginsSlot,
    /// One directory per session below.
    pub sessions_dir: PathBuf,
    pub runs: Runs,
    pub storage: Storage,
    pub keeper: Arc<Keeper>,
    pub hello: KeeperHello,
    /// What this daemon began with.
    pub config: Config,
    /// What holds now, as far as it can change while the daemon runs.
    pub settings: Settings,
    /// What is wrong with our own files.
    pub troubles: Troubles,
    /// Where clients reach us.
    pub socket: PathBuf,
    pub started: SystemTime,
    pub life: Life,
    pub web: Web,
    pub waits: Waits,
    pub viewers: Viewers,
    pub screens: Screens,
    pub counters: Counters,
}

/// Plain counts for `server.stats`.
#[derive(Default)]
pub struct Counters {
    requests: AtomicU64,
    connections: AtomicU64,
    refused: AtomicU64,
    /// The last connection ended.
    alone: Notify,
}

impl Counters {
    pub fn answered(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Until there is no connection.
    pub async fn alone(&self) {
        loop {
            let alone = self.alone.notified();
            if self.connections() == 0 {
                return;
            }
            alone.await;
        }
    }

    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection as long as the guard lives.
    pub fn connected(host: &Arc<Host>) -> Connected {
        host.counters.connections.fetch_add(1, Ordering::Relaxed);
        Connected(host.clone())
    }
}

pub struct Connected(Arc<Host>);

impl Drop for Connected {
    fn drop(&mut self) {
        let counters = &self.0.counters;
        if counters.connections.fetch_sub(1, Ordering::Relaxed) == 1 {
            counters.alone.notify_waiters();
        }
    }
}

//! The parts of a running host, each with an owner of its own. A function takes the part it uses;
//! this list is for whoever is called by a client and may need any of them.

use std::sync::Arc;
use std::time::SystemTime;

use greenroom_keeper::KeeperHello;
use greenroom_runs::Runs;

use crate::attach::Viewers;
use crate::callers::Callers;
use crate::chains::Sessions;
use crate::counters::Counters;
use crate::hooks::Hooks;
use crate::http::Web;
use crate::keeper::Keeper;
use crate::lifecycle::Life;
use crate::screens::Screens;
use crate::settings::Settings;
use crate::store::Storage;
use crate::waits::Waits;

pub(crate) struct Host {
    /// Sessions, with what plugins prepared for them and have to clean up.
    pub sessions: Arc<Sessions>,
    /// What plugins from outside are asked and told.
    pub hooks: Arc<Hooks>,
    pub runs: Arc<Runs>,
    pub settings: Arc<Settings>,
    pub storage: Storage,
    pub edge: Edge,
    pub callers: Arc<Callers>,
    pub life: Arc<Life>,
    pub keeper: Arc<Keeper>,
    pub hello: KeeperHello,
    pub started: SystemTime,
}

/// What is known of clients.
pub(crate) struct Edge {
    pub web: Web,
    pub waits: Arc<Waits>,
    pub viewers: Arc<Viewers>,
    pub screens: Screens,
    pub counters: Arc<Counters>,
}

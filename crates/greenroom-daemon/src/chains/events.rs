//! How a chain goes, as events.
//!
//! Deliberately absent: values of variables. Lines of a change name a caller's variables and
//! nothing more.

use greenroom_engine::SessionId;
use greenroom_plugins::host::PluginHost;
use greenroom_protocol::events::{
    SessionCleaned, SessionPrepared, SessionPreparing, SessionRefused,
};
use greenroom_workspace::chain::{Moment, Watch};
use greenroom_workspace::spec::Refusal;

use super::Sessions;
use super::describe::left;
use crate::events::about;
use crate::hooks;
use crate::store::Storage;

pub(crate) struct ChainEvents {
    storage: Storage,
    plugins: PluginHost,
}

impl ChainEvents {
    pub(crate) fn new(storage: Storage, plugins: PluginHost) -> ChainEvents {
        ChainEvents { storage, plugins }
    }
}

impl Watch for ChainEvents {
    fn at(&self, id: SessionId, moment: Moment<'_>) {
        match moment {
            Moment::Preparing(plugin) => {
                self.storage.log(about(id, SessionPreparing { plugin: plugin.to_owned() }));
            }
            Moment::Ready => self.storage.log(about(id, SessionPrepared {})),
            Moment::Cleaned(plugin, outcome) => {
                let event = SessionCleaned { plugin: plugin.to_owned(), left: left(outcome) };
                self.storage.log(about(id, event));
                hooks::cleaned(&self.plugins, id, plugin, outcome);
                if let Some(left) = outcome.left_behind() {
                    tracing::info!(session = %id, plugin, left, "after a session");
                }
            }
            Moment::Noted(_) | Moment::Prepared(_) | Moment::Cleaning(_) | Moment::Finished => {}
        }
        die_at(&label(moment));
    }
}

pub(crate) fn refused(sessions: &Sessions, id: SessionId, refusal: &Refusal) {
    let (plugin, why) = (refusal.plugin.to_string(), refusal.what.to_string());
    sessions.storage.log(about(id, SessionRefused { plugin, why }));
}

fn label(moment: Moment<'_>) -> String {
    match moment {
        Moment::Preparing(plugin) => format!("preparing {plugin}"),
        Moment::Noted(plugin) => format!("noted {plugin}"),
        Moment::Prepared(plugin) => format!("prepared {plugin}"),
        Moment::Ready => "ready".to_owned(),
        Moment::Cleaning(plugin) => format!("cleaning {plugin}"),
        Moment::Cleaned(plugin, _) => format!("cleaned {plugin}"),
        Moment::Finished => "finished".to_owned(),
    }
}

/// A test may have this daemon killed between two steps: the file named in `GREENROOM_TEST_DIE_AT`
/// says where. It is taken away first, so that the next daemon lives. Not in release builds.
pub(crate) fn die_at(moment: &str) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Some(file) = std::env::var_os("GREENROOM_TEST_DIE_AT") else { return };
    if std::fs::read_to_string(&file).is_ok_and(|text| text.trim() == moment) {
        let _ = std::fs::remove_file(&file);
        let us = rustix::process::getpid();
        let _ = rustix::process::kill_process(us, rustix::process::Signal::KILL);
        loop {
            std::thread::park();
        }
    }
}

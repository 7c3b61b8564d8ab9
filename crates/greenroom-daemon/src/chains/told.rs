//! How a chain goes, as events.
//!
//! Deliberately absent: values of variables. Lines of a change name a caller's variables and nothing more.

use greenroom_engine::SessionId;
use greenroom_plugins::chain::{Moment, Watch};
use greenroom_plugins::host::PluginHost;
use greenroom_plugins::spec::Refusal;
use serde_json::json;

use super::describe::left;
use crate::events::about;
use crate::hooks;
use crate::host::Host;
use crate::store::Storage;

pub struct Told {
    storage: Storage,
    plugins: PluginHost,
}

impl Told {
    pub fn new(storage: Storage, plugins: PluginHost) -> Told {
        Told { storage, plugins }
    }
}

impl Watch for Told {
    fn at(&self, id: SessionId, moment: Moment<'_>) {
        match moment {
            Moment::Preparing(plugin) => {
                self.storage.log(about(id, "session.preparing", json!({ "plugin": plugin })));
            }
            Moment::Ready => self.storage.log(about(id, "session.prepared", json!({}))),
            Moment::Cleaned(plugin, outcome) => {
                let data = json!({ "plugin": plugin, "left": left(outcome) });
                self.storage.log(about(id, "session.cleaned", data));
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

pub fn refused(host: &Host, id: SessionId, refusal: &Refusal) {
    let data = json!({ "plugin": refusal.plugin, "why": refusal.what });
    host.storage.log(about(id, "session.refused", data));
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

/// A test may have this daemon killed between two steps: the file named in `GREENROOM_TEST_DIE_AT` says where. It is
/// taken away first, so that the next daemon lives. Not in release builds.
pub fn die_at(moment: &str) {
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

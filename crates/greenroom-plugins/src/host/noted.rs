//! Who filters a session, as it is noted with the session.
//!
//! A filter that was there when a session began and is not there now has failed, whatever the
//! reason: its files are gone or changed, nobody agrees to it any more, the lock or the
//! configuration cannot be read, plugins are turned off. What it would have seen gets its failure
//! policy, until it is back or the operator turns it off by name. In: the hooks of plugins as they
//! act. Out: bytes for the session's terms, and what of them is missed now.

use greenroom_formats::manifest::{Hook, HookEntry, OnFailure};
use greenroom_plugin_api::file::Unit as Wanted;
use regex::Regex;
use serde::{Deserialize, Serialize};

use super::core::Core;
use super::facts::HostConfig;
use super::filter::after_holding;
use super::plugin::{Entry, Plugin, prefilter};
use super::registry::Registry;

/// One filter of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Noted {
    pub plugin: String,
    #[serde(rename = "hook")]
    pub said: HookEntry,
    policy: OnFailure,
    /// Made from what the hook says.
    #[serde(skip)]
    pub prefilter: Option<Regex>,
}

impl Noted {
    pub(super) fn of(plugin: &Plugin, entry: &Entry) -> Noted {
        let (said, prefilter) = (entry.said.clone(), entry.prefilter.clone());
        Noted { plugin: plugin.name.clone(), said, policy: entry.policy, prefilter }
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Vec<Noted>, String> {
        let mut noted: Vec<Noted> = serde_json::from_slice(bytes)
            .map_err(|error| format!("who filters it cannot be read: {error}"))?;
        noted.iter_mut().for_each(|one| one.prefilter = prefilter(&one.said));
        Ok(noted)
    }

    pub(super) fn write(noted: &[Noted]) -> Vec<u8> {
        serde_json::to_vec(noted).expect("hooks were read from a file and can be written")
    }

    /// What its absence means for a line. The operator may have decided since.
    pub(super) fn policy(&self, config: &HostConfig) -> OnFailure {
        let names = [self.said.hook.name(), Hook::OutputFilter.name()];
        let own =
            names.iter().find_map(|name| config.policy.get(&format!("{}/{name}", self.plugin)));
        after_holding(own.copied().unwrap_or(self.policy), &self.said)
    }

    /// Whether it would have been asked about every line.
    pub(super) fn sees_all(&self) -> bool {
        self.said.unit != Wanted::Rows && self.prefilter.is_none()
    }

    /// Whether somebody is asked in its name. A plugin that the operator turned off is not missed.
    pub(super) fn is_there(&self, registry: &Registry) -> bool {
        let off = registry.plugins.get(&self.plugin).is_some_and(|plugin| !plugin.enabled());
        off || registry.asked(Hook::OutputFilter).any(|(plugin, _)| plugin.name == self.plugin)
    }

    /// Why it cannot be asked; `None` if it can.
    pub(super) fn trouble(&self, core: &Core, registry: &Registry) -> Option<String> {
        let name = &self.plugin;
        let why = match registry.plugins.get(name) {
            _ if !core.parts.config.enabled => "plugins are turned off".to_owned(),
            None => {
                let fault = core.troubles().faults.into_iter().next();
                fault.unwrap_or_else(|| "there is no such plugin any more".to_owned())
            }
            Some(plugin) if !plugin.enabled() || plugin.may_run() && self.is_there(registry) => {
                return None;
            }
            Some(plugin) => plugin.why_not(),
        };
        let then = match self.policy(&core.parts.config) {
            OnFailure::Pass => return None,
            OnFailure::Drop => "left out",
            _ => "masked",
        };
        Some(format!("what plugin {name} would have filtered is {then}: {why}"))
    }
}

//! Who filters a session, as it is noted with the session.
//!
//! A filter that was there when a session began and is not there now has failed, whatever the reason: its files are
//! gone or changed, nobody agrees to it any more, the lock or the configuration cannot be read, plugins are turned off.
//! What it would have seen gets its failure policy, until it is back or the operator turns it off by name. In: the hooks
//! of plugins as they act. Out: bytes for the session's terms, and what of them is missed now.

use greenroom_engine::egress::{Sink, Unit};
use greenroom_protocol::manifest::file::{Then, Unit as Wanted};
use greenroom_protocol::manifest::{Hook, HookEntry, OnFailure};
use regex::Regex;
use serde::{Deserialize, Serialize};

use super::core::Core;
use super::facts::HostConfig;
use super::plugin::{Entry, Plugin};
use super::registry::Registry;

/// One filter of a session.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    pub plugin: String,
    pub said: HookEntry,
    pub policy: OnFailure,
    prefilter: Option<Regex>,
}

/// The same in the file.
#[derive(Serialize, Deserialize)]
struct Written {
    plugin: String,
    hook: HookEntry,
    policy: OnFailure,
}

impl Noted {
    pub fn of(plugin: &Plugin, entry: &Entry) -> Noted {
        let prefilter = entry.prefilter.clone();
        Noted {
            plugin: plugin.name.clone(),
            said: entry.said.clone(),
            policy: entry.policy,
            prefilter,
        }
    }

    pub fn read(bytes: &[u8]) -> Result<Vec<Noted>, String> {
        let written: Vec<Written> = serde_json::from_slice(bytes)
            .map_err(|error| format!("who filters it cannot be read: {error}"))?;
        let noted = written.into_iter().map(|Written { plugin, hook, policy }| {
            // One that does not compile is asked about every line, which leaks nothing.
            let prefilter = hook.when.regex.as_deref().and_then(|regex| Regex::new(regex).ok());
            Noted { plugin, said: hook, policy, prefilter }
        });
        Ok(noted.collect())
    }

    pub fn write(noted: &[Noted]) -> Vec<u8> {
        let written: Vec<Written> = noted
            .iter()
            .map(|Noted { plugin, said, policy, .. }| Written {
                plugin: plugin.clone(),
                hook: said.clone(),
                policy: *policy,
            })
            .collect();
        serde_json::to_vec(&written).expect("hooks were read from a file and can be written")
    }

    /// What its absence means for a line. The operator may have decided since.
    pub fn policy(&self, config: &HostConfig) -> OnFailure {
        let names = [self.said.hook.name(), Hook::OutputFilter.name()];
        let own =
            names.iter().find_map(|name| config.policy.get(&format!("{}/{name}", self.plugin)));
        match (own.copied().unwrap_or(self.policy), self.said.hold.unwrap_or_default().then) {
            (OnFailure::Hold, Then::Mask) => OnFailure::Mask,
            (OnFailure::Hold, Then::Drop) => OnFailure::Drop,
            (OnFailure::Hold, Then::Seal) => OnFailure::Seal,
            (policy, _) => policy,
        }
    }

    pub fn governs(&self, sink: Sink) -> bool {
        super::filter::governs(&self.said, sink)
    }

    /// Whether it would have been asked about such a text.
    pub fn concerns(&self, unit: Unit, text: &str) -> bool {
        let rows_only = self.said.unit == Wanted::Rows && unit == Unit::Line;
        !rows_only && self.prefilter.as_ref().is_none_or(|regex| regex.is_match(text))
    }

    /// Whether it would have been asked about every line.
    pub fn sees_all(&self) -> bool {
        self.said.unit != Wanted::Rows && self.prefilter.is_none()
    }

    /// Whether somebody is asked in its name. One that the operator turned off is not missed.
    pub fn is_there(&self, registry: &Registry) -> bool {
        let off = registry.plugins.get(&self.plugin).is_some_and(|plugin| !plugin.enabled());
        off || registry.asked(Hook::OutputFilter).any(|(plugin, _)| plugin.name == self.plugin)
    }

    /// Why it cannot be asked; `None` if it can.
    pub fn trouble(&self, core: &Core, registry: &Registry) -> Option<String> {
        let name = &self.plugin;
        let why = match registry.plugins.get(name) {
            _ if !core.parts.config.enabled => "plugins are turned off".to_owned(),
            None => match core.blind() {
                Some(why) => why,
                None => "there is no such plugin any more".to_owned(),
            },
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

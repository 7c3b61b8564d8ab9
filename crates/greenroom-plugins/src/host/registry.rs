//! All plugins at one moment, and for each hook who is asked in which order. Never changed: a reload makes another.

use std::collections::BTreeMap;
use std::sync::Arc;

use greenroom_protocol::manifest::{HOOKS, Hook};

use super::facts::Turn;
use super::order::{self, Claim};
use super::plugin::{Entry, Plugin};

#[derive(Default)]
pub(super) struct Registry {
    pub plugins: BTreeMap<String, Arc<Plugin>>,
    /// By [`Hook`]; those who may not be asked too.
    places: Vec<Places>,
}

#[derive(Default)]
struct Places {
    order: Vec<(Arc<Plugin>, Arc<Entry>, String)>,
    remarks: Vec<String>,
}

impl Registry {
    pub fn new(plugins: BTreeMap<String, Arc<Plugin>>) -> Registry {
        let places = HOOKS.iter().map(|row| places(&plugins, row.hook)).collect();
        Registry { plugins, places }
    }

    /// Who is asked, in order. Those who are missed come too: whoever asks finds that they cannot answer.
    pub fn asked(&self, hook: Hook) -> impl Iterator<Item = (&Arc<Plugin>, &Arc<Entry>)> {
        let order = self.places.get(hook as usize).map_or(&[][..], |places| &places.order);
        order
            .iter()
            .filter(|(plugin, entry, _)| plugin.may_run() || plugin.missed(entry))
            .map(|(plugin, entry, _)| (plugin, entry))
    }

    pub fn turns(&self, hook: Hook) -> (Vec<Turn>, Vec<String>) {
        let Some(places) = self.places.get(hook as usize) else { return Default::default() };
        let turn = |(plugin, entry, why): &(Arc<Plugin>, Arc<Entry>, String)| Turn {
            plugin: plugin.name.clone(),
            hook: entry.hook,
            stage: entry.said.stage.word(),
            priority: entry.said.priority,
            deadline: entry.deadline,
            on_failure: entry.policy,
            asked: plugin.may_run(),
            why: why.clone(),
        };
        (places.order.iter().map(turn).collect(), places.remarks.clone())
    }
}

fn places(plugins: &BTreeMap<String, Arc<Plugin>>, hook: Hook) -> Places {
    let mut who: Vec<(Arc<Plugin>, Arc<Entry>)> = Vec::new();
    for plugin in plugins.values() {
        for entry in plugin.entries.iter().filter(|entry| entry.hook.hook == hook) {
            who.push((plugin.clone(), entry.clone()));
        }
    }
    let claims: Vec<Claim> = who
        .iter()
        .map(|(plugin, entry)| Claim::of(&plugin.name, entry.index, &entry.said))
        .collect();
    let (placed, remarks) = order::sort(&claims);
    let order = placed.into_iter().map(|placed| {
        let (plugin, entry) = who[placed.claim].clone();
        (plugin, entry, placed.why)
    });
    Places { order: order.collect(), remarks }
}

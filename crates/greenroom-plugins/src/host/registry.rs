//! All plugins at one moment, and for each hook who is asked in which order. Never changed: a
//! reload makes another.

use std::collections::BTreeMap;
use std::sync::Arc;

use greenroom_formats::manifest::{HOOKS, Hook};

use super::facts::OrderedHook;
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
    pub(super) fn new(plugins: BTreeMap<String, Arc<Plugin>>) -> Registry {
        let places = HOOKS.iter().map(|row| places(&plugins, row.hook)).collect();
        Registry { plugins, places }
    }

    /// Who is asked, in order. Missed plugins come too: the caller finds that they cannot answer.
    pub(super) fn asked(&self, hook: Hook) -> impl Iterator<Item = (&Arc<Plugin>, &Arc<Entry>)> {
        let order = self.places.get(hook as usize).map_or(&[][..], |places| &places.order);
        order
            .iter()
            .filter(|(plugin, entry, _)| plugin.may_run() || plugin.missed(entry))
            .map(|(plugin, entry, _)| (plugin, entry))
    }

    pub(super) fn order(&self, hook: Hook) -> (Vec<OrderedHook>, Vec<String>) {
        let Some(places) = self.places.get(hook as usize) else { return Default::default() };
        let ordered = |(plugin, entry, why): &(Arc<Plugin>, Arc<Entry>, String)| OrderedHook {
            plugin: plugin.name.clone(),
            hook: entry.info(),
            asked: plugin.may_run(),
            why: why.clone(),
        };
        (places.order.iter().map(ordered).collect(), places.remarks.clone())
    }
}

fn places(plugins: &BTreeMap<String, Arc<Plugin>>, hook: Hook) -> Places {
    let all = plugins
        .values()
        .flat_map(|plugin| plugin.entries.iter().map(move |entry| (plugin.clone(), entry.clone())));
    let who: Vec<_> = all.filter(|(_, entry)| entry.hook.hook == hook).collect();
    let claim = |(plugin, entry): &(Arc<Plugin>, Arc<Entry>)| Claim {
        plugin: plugin.name.clone(),
        index: entry.index,
        said: entry.said.clone(),
    };
    let claims: Vec<Claim> = who.iter().map(claim).collect();
    let (placed, remarks) = order::sort(&claims);
    let order = placed.into_iter().map(|placed| {
        let (plugin, entry) = who[placed.claim].clone();
        (plugin, entry, placed.why)
    });
    Places { order: order.collect(), remarks }
}

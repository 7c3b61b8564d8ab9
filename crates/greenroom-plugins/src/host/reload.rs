//! Finding plugins, at the start and again: generations.
//!
//! In: what the supply finds now. Out: another registry in the place of the old one. A plugin whose bytes, grants and
//! standing are the same goes on as it is; one that changed gets a new generation beside the old, which ends when its
//! calls have. A new form that is broken leaves the old one running.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::core::Core;
use super::facts::{HostError, PluginInfo, Reloaded};
use super::plugin::Plugin;
use super::registry::Registry;
use super::supply::{Found, Standing};

/// A name this similar was probably meant.
const SIMILAR: usize = 3;

impl Core {
    /// The first look. A directory that cannot be read costs the plugins, not the host.
    pub(super) fn begin(self: &Arc<Core>) {
        let found = match self.parts.supply.survey() {
            Ok(found) => found,
            Err(error) => {
                tracing::error!(%error, "looking for plugins");
                self.is_blind(Some(error.to_string()));
                Vec::new()
            }
        };
        let plugins: BTreeMap<String, Arc<Plugin>> =
            found.into_iter().map(|found| self.made(found, 1)).collect();
        let eager: Vec<Arc<Plugin>> = plugins.values().cloned().collect();
        self.swap(Registry::new(plugins));
        self.tasks.spawn(async move {
            for plugin in eager {
                if let Err(why) = plugin.wake().await {
                    tracing::warn!(plugin = %plugin.name, why, "starting a plugin");
                }
            }
        });
    }

    pub(super) fn find(&self, name: &str) -> Result<Arc<Plugin>, HostError> {
        if !self.parts.config.enabled {
            return Err(HostError::Disabled);
        }
        let registry = self.registry();
        registry.plugins.get(name).cloned().ok_or_else(|| HostError::Unknown {
            name: name.to_owned(),
            nearest: nearest(name, registry.plugins.keys()),
        })
    }

    /// On or off, for good.
    pub(super) async fn turn(&self, name: &str, enabled: bool) -> Result<PluginInfo, HostError> {
        let plugin = self.find(name)?;
        plugin.book.enable(enabled);
        plugin.set_enabled(enabled);
        self.changed();
        if !enabled {
            plugin.quiet().await;
        }
        let word = if enabled { "enabled" } else { "disabled" };
        self.audit.note(serde_json::json!({ "plugin": name, "state": word }));
        self.books
            .save()
            .map_err(|source| HostError::Keep { path: self.books.path().to_owned(), source })?;
        Ok(plugin.info())
    }

    pub(super) async fn reload(
        self: &Arc<Core>,
        only: Option<&str>,
    ) -> Result<Reloaded, HostError> {
        if !self.parts.config.enabled {
            return Err(HostError::Disabled);
        }
        if let Some(only) = only
            && !self.registry().plugins.contains_key(only)
        {
            // It may be new; it is unknown only if it is not there after the look.
            tracing::debug!(plugin = only, "reloading one that was not known");
        }
        let _one = self.reloading.lock().await;
        let core = self.clone();
        let survey = tokio::task::spawn_blocking(move || core.parts.supply.survey());
        let found = match survey.await {
            Ok(found) => found?,
            Err(error) => {
                let source = std::io::Error::other(error.to_string());
                let dir = self.parts.state.clone();
                return Err(HostError::Supply(super::SupplyError::Read { dir, source }));
            }
        };
        let old = self.registry();
        let mut plugins = BTreeMap::new();
        let mut told = Reloaded::default();
        for found in found {
            let before = old.plugins.get(&found.name);
            let (name, plugin) = self.next(found, before, only, &mut told).await;
            plugins.insert(name, plugin);
        }
        if let Some(only) = only
            && !plugins.contains_key(only)
        {
            let nearest = nearest(only, plugins.keys());
            return Err(HostError::Unknown { name: only.to_owned(), nearest });
        }
        told.count = plugins.len();
        told.removed =
            old.plugins.keys().filter(|name| !plugins.contains_key(*name)).cloned().collect();
        let old = self.swap(Registry::new(plugins));
        self.is_blind(None);
        self.retire(&old);
        self.audit.note(serde_json::json!({
            "reload": told.count, "added": told.added, "changed": told.changed,
            "removed": told.removed,
            "failed": told.failed.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        }));
        Ok(told)
    }

    /// The old one, if nothing changed or the new one is broken; else the new one.
    async fn next(
        &self,
        found: Found,
        before: Option<&Arc<Plugin>>,
        only: Option<&str>,
        told: &mut Reloaded,
    ) -> (String, Arc<Plugin>) {
        let name = found.name.clone();
        let Some(before) = before else {
            if let Standing::Invalid(problems) = &found.standing {
                told.failed.push((name.clone(), problems.join("; ")));
            }
            told.added.push(name);
            let (name, plugin) = self.made(found, 1);
            if let Err(why) = plugin.wake().await {
                told.failed.push((name.clone(), why));
            }
            return (name, plugin);
        };
        let asked_for = only == Some(&*name);
        if same(&before.found, &found) && !asked_for {
            return (name, before.clone());
        }
        if let Standing::Invalid(problems) = &found.standing
            && before.found.standing.may_run()
        {
            told.failed.push((name.clone(), problems.join("; ")));
            before.book.say("failure", &format!("the new form is broken: {}", problems.join("; ")));
            return (name, before.clone());
        }
        let (name, plugin) = self.made(found, before.generation + 1);
        if let Err(why) = plugin.wake().await {
            told.failed.push((name.clone(), why.clone()));
            before.book.say("failure", &format!("the new generation does not start: {why}"));
            plugin.retire().await;
            return (name, before.clone());
        }
        told.changed.push(name.clone());
        (name, plugin)
    }

    fn made(&self, found: Found, generation: u64) -> (String, Arc<Plugin>) {
        let name = found.name.clone();
        let book = self.books.of(&name);
        let (config, witness) = (&self.parts.config, self.parts.witness.clone());
        let plugin = Plugin::new(found, generation, config, book, &*self.voices, witness);
        (name, plugin)
    }

    /// Ends what is in `old` and not in the registry now.
    fn retire(self: &Arc<Core>, old: &Registry) {
        let now = self.registry();
        for plugin in old.plugins.values() {
            let kept = now.plugins.get(&plugin.name).is_some_and(|kept| Arc::ptr_eq(kept, plugin));
            if !kept {
                let plugin = plugin.clone();
                self.tasks.spawn(async move { plugin.retire().await });
            }
        }
    }
}

fn same(old: &Found, new: &Found) -> bool {
    let manifest = old.manifest == new.manifest;
    manifest
        && (&old.digest, &old.standing, &old.grants, &old.root)
            == (&new.digest, &new.standing, &new.grants, &new.root)
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> Option<String> {
    let distance = |known: &String| strsim::levenshtein(name, known);
    known.filter(|known| distance(known) <= SIMILAR).min_by_key(|known| distance(known)).cloned()
}

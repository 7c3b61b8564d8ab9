//! Finding plugins, at the start and again: generations.
//!
//! In: what the catalog finds now. Out: another registry in the place of the old one. A plugin
//! whose bytes, grants and standing are the same goes on as it is; one that changed gets a new
//! generation beside the old, which ends when its calls have. A new form that is broken leaves the
//! old one running.

use std::collections::BTreeMap;
use std::sync::Arc;

use greenroom_protocol::nearest;

use super::PluginHost;
use super::catalog::{CatalogError, Found, Standing, Survey};
use super::core::Core;
use super::facts::{HostError, PluginInfo, Reloaded};
use super::plugin::Plugin;
use super::registry::Registry;

impl Core {
    /// The first look. Files that cannot be read cost plugins, not the host; whoever is required is
    /// missed then.
    pub(super) fn begin(self: &Arc<Core>) {
        let Survey { found, faults, unguarded } = self.parts.catalog.survey();
        for error in &faults {
            tracing::error!(%error, "looking for plugins");
        }
        self.set_troubles(&faults, unguarded);
        let plugins: BTreeMap<String, Arc<Plugin>> = found
            .into_iter()
            .map(|found| (found.name.clone(), Plugin::new(self, found, 1)))
            .collect();
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
        registry.plugins.get(name).cloned().ok_or_else(|| unknown(name, &registry.plugins))
    }
}

impl PluginHost {
    /// Lasts: also after a restart.
    pub async fn enable(&self, name: &str) -> Result<PluginInfo, HostError> {
        self.set_enabled(name, true).await
    }

    pub async fn disable(&self, name: &str) -> Result<PluginInfo, HostError> {
        self.set_enabled(name, false).await
    }

    async fn set_enabled(&self, name: &str, enabled: bool) -> Result<PluginInfo, HostError> {
        let core = &self.core;
        let plugin = core.find(name)?;
        plugin.history.enable(enabled);
        plugin.set_enabled(enabled);
        core.changed();
        if !enabled {
            plugin.quiet().await;
        }
        let word = if enabled { "enabled" } else { "disabled" };
        core.audit.note(serde_json::json!({ "plugin": name, "state": word }));
        let path = || core.histories.path.clone();
        core.histories.save().map_err(|source| HostError::Keep { path: path(), source })?;
        Ok(plugin.info())
    }

    /// Looks at the files again. What did not change goes on; calls under way end on what they
    /// began with. With `only`, that plugin begins anew even if it did not change.
    pub async fn reload(&self, only: Option<&str>) -> Result<Reloaded, HostError> {
        let core = &self.core;
        if !core.parts.config.enabled {
            return Err(HostError::Disabled);
        }
        let _one = core.reloading.lock().await;
        let catalog = core.parts.catalog.clone();
        let survey = tokio::task::spawn_blocking(move || catalog.survey());
        let Survey { found, mut faults, unguarded } = match survey.await {
            Ok(survey) => survey,
            Err(error) => {
                let source = std::io::Error::other(error.to_string());
                let dir = core.parts.state.clone();
                return Err(HostError::Catalog(CatalogError::Read { dir, source }));
            }
        };
        // Who is there goes on: what is known of them is more than these files say now.
        let before = core.troubles();
        if before.faults.is_empty()
            && before.unguarded.is_none()
            && let Some(at) = faults.iter().position(CatalogError::hides_plugins)
        {
            return Err(HostError::Catalog(faults.swap_remove(at)));
        }
        let old = core.registry();
        let mut plugins = BTreeMap::new();
        let mut told = Reloaded::default();
        for found in found {
            let (name, before) = (found.name.clone(), old.plugins.get(&found.name));
            let again = only == Some(&*name);
            plugins.insert(name, core.next(found, before, again, &mut told).await);
        }
        // It may have been new; it is unknown only if it is not there after the look.
        if let Some(only) = only.filter(|only| !plugins.contains_key(*only)) {
            return Err(unknown(only, &plugins));
        }
        told.count = plugins.len();
        told.removed =
            old.plugins.keys().filter(|name| !plugins.contains_key(*name)).cloned().collect();
        let old = core.swap(Registry::new(plugins));
        core.set_troubles(&faults, unguarded);
        core.retire(&old);
        core.audit.note(serde_json::json!({
            "reload": told.count, "added": told.added, "changed": told.changed,
            "removed": told.removed,
            "failed": told.failed.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        }));
        Ok(told)
    }
}

impl Core {
    /// The old one, if nothing changed or the new one is broken; else the new one, also if it is
    /// wanted `again`.
    async fn next(
        &self,
        found: Found,
        before: Option<&Arc<Plugin>>,
        again: bool,
        told: &mut Reloaded,
    ) -> Arc<Plugin> {
        let name = found.name.clone();
        let problems = match &found.standing {
            Standing::Invalid(problems) => Some(problems.join("; ")),
            _ => None,
        };
        let Some(before) = before else {
            told.failed.extend(problems.map(|why| (name.clone(), why)));
            told.added.push(name.clone());
            let plugin = Plugin::new(self, found, 1);
            told.failed.extend(plugin.wake().await.err().map(|why| (name, why)));
            return plugin;
        };
        if same(&before.found, &found) && !again {
            return before.clone();
        }
        if let Some(why) = problems.filter(|_| before.found.standing.may_run()) {
            before.history.say("failure", &format!("the new form is broken: {why}"));
            told.failed.push((name, why));
            return before.clone();
        }
        let plugin = Plugin::new(self, found, before.generation + 1);
        if let Err(why) = plugin.wake().await {
            before.history.say("failure", &format!("the new generation does not start: {why}"));
            told.failed.push((name, why));
            plugin.retire().await;
            return before.clone();
        }
        told.changed.push(name);
        plugin
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
        && (&old.digest, &old.standing, &old.grants, &old.root, &old.claims)
            == (&new.digest, &new.standing, &new.grants, &new.root, &new.claims)
}

fn unknown(name: &str, plugins: &BTreeMap<String, Arc<Plugin>>) -> HostError {
    let nearest = nearest(name, plugins.keys().map(String::as_str)).map(str::to_owned);
    HostError::Unknown { name: name.to_owned(), nearest }
}

//! Which session plugins there are, in the order in which they run.

use std::sync::Arc;

use crate::spec::{Refusal, SessionPlugin, SessionSpec};

/// Names and their plugins, sorted by order, then by name.
#[derive(Clone, Default)]
pub struct Registry {
    plugins: Vec<Arc<dyn SessionPlugin>>,
}

impl Registry {
    /// A later plugin of the same name replaces an earlier one.
    pub fn new(plugins: impl IntoIterator<Item = Arc<dyn SessionPlugin>>) -> Registry {
        let mut registry = Registry::default();
        for plugin in plugins {
            registry.add(plugin);
        }
        registry
    }

    pub fn add(&mut self, plugin: Arc<dyn SessionPlugin>) {
        self.plugins.retain(|known| known.name() != plugin.name());
        self.plugins.push(plugin);
        self.plugins.sort_by(|a, b| (a.order(), a.name()).cmp(&(b.order(), b.name())));
    }

    pub fn get(&self, name: &str) -> Option<&Arc<dyn SessionPlugin>> {
        self.plugins.iter().find(|plugin| plugin.name() == name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.plugins.iter().map(|plugin| plugin.name())
    }

    /// The plugins this session needs, in order.
    pub fn wanted(&self, spec: &SessionSpec) -> Result<Vec<Arc<dyn SessionPlugin>>, Refusal> {
        if let Some(name) = spec.ask.with.iter().find(|name| self.get(name).is_none()) {
            let known: Vec<&str> = self.names().collect();
            return Err(Refusal {
                plugin: name.clone(),
                what: "there is no session plugin of this name".to_owned(),
                hint: Some(format!("there are: {}", known.join(", "))),
                denied: false,
            });
        }
        let asked = [
            ("worktree", spec.ask.worktree.is_some()),
            ("scratchpad", spec.ask.scratchpad.is_some()),
            ("sandbox", spec.ask.sandbox.is_some()),
        ];
        // A session without what was asked for would be a lie.
        if let Some((name, _)) =
            asked.iter().find(|(name, asked)| *asked && self.get(name).is_none())
        {
            return Err(Refusal {
                plugin: (*name).to_owned(),
                what: "this host does not have it".to_owned(),
                hint: None,
                denied: false,
            });
        }
        let named = |plugin: &Arc<dyn SessionPlugin>| {
            spec.ask.with.iter().any(|name| name == plugin.name())
        };
        Ok(self
            .plugins
            .iter()
            .filter(|plugin| plugin.wanted(spec) || named(plugin))
            .cloned()
            .collect())
    }
}

//! Which session plugins there are, in the order in which they run.

use std::sync::Arc;

use crate::spec::{Description, Refusal, SessionPlugin, SessionSpec};

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
        self.plugins.retain(|known| known.about().name != plugin.about().name);
        self.plugins.push(plugin);
        self.plugins.sort_by_key(|plugin| (plugin.about().order, plugin.about().name));
    }

    pub fn get(&self, name: &str) -> Option<&Arc<dyn SessionPlugin>> {
        self.plugins.iter().find(|plugin| plugin.about().name == name)
    }

    /// What the plugins say of themselves, in order.
    pub fn descriptions(&self) -> impl Iterator<Item = &Description> {
        self.plugins.iter().map(|plugin| plugin.about())
    }

    /// The plugins this session needs, in order.
    pub fn wanted(&self, spec: &SessionSpec) -> Result<Vec<Arc<dyn SessionPlugin>>, Refusal> {
        if let Some(name) = spec.with.iter().find(|name| self.get(name).is_none()) {
            let known: Vec<&str> = self.descriptions().map(|about| about.name).collect();
            return Err(Refusal {
                plugin: name.clone(),
                what: "there is no session plugin of this name".to_owned(),
                hint: Some(format!("there are: {}", known.join(", "))),
                denied: false,
            });
        }
        // A session without what was asked for would be a lie.
        let is_answered = |name| self.descriptions().any(|about| about.asks.contains(&name));
        if let Some(name) = spec.ask.asked().find(|name| !is_answered(name)) {
            return Err(Refusal {
                plugin: name.to_owned(),
                what: "this host does not have it".to_owned(),
                hint: None,
                denied: false,
            });
        }
        let named = |plugin: &Arc<dyn SessionPlugin>| {
            spec.with.iter().any(|name| name == plugin.about().name)
        };
        Ok(self
            .plugins
            .iter()
            .filter(|plugin| plugin.wanted(spec) || named(plugin))
            .cloned()
            .collect())
    }
}

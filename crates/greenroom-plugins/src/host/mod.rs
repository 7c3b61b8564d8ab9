//! The host of hook plugins: who is asked, in which order, how long, and what a failure means.
//!
//! | room | what it is |
//! |---|---|
//! | here | the handle the daemon holds |
//! | `facts` | what goes in and out, as plain types |
//! | `catalog` | the role of whoever finds plugins |
//! | `payload`, `request`, `shape` | what a hook tells, the JSON of it, which answers it knows |
//! | `order`, `registry` | the order of plugins at a hook |
//! | `plugin` | one generation of one plugin, its hooks and its state |
//! | `program`, `programs` | the role of a plugin's program, and the real ones |
//! | `ask`, `breaker` | one call, and when to stop asking one that does not answer |
//! | `gate`, `observe`, `filter` | the three classes of hooks |
//! | `noted` | who filters a session, kept with it |
//! | `starts` | what a plugin may change of a session that is about to start |
//! | `history`, `audit` | what is counted and kept, what is written down |
//!
//! In: events of the daemon as a [`Payload`]. Out: a [`GateOutcome`], a filter for lines, or
//! nothing (observers). Every call has a deadline and every failure a policy: nobody hangs, nobody
//! just passes. Deliberately absent: files and grants (`store`), programs and pipes (`runtime`),
//! and what an event is (the daemon).

mod ask;
mod audit;
mod breaker;
mod catalog;
mod core;
mod facts;
mod filter;
mod gate;
mod history;
mod noted;
mod observe;
mod order;
mod payload;
mod plugin;
mod program;
mod programs;
mod registry;
mod reload;
mod request;
mod shape;
pub mod starts;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use greenroom_engine::SessionId;
use greenroom_engine::egress::LineFilter;
use greenroom_formats::manifest::{Hook, HookName, OnFailure};
use serde_json::{Map, Value};

pub use catalog::{Catalog, CatalogError, Found, Standing, Survey, Unguarded};
pub use facts::{
    Changed, Failed, GateOutcome, HookInfo, HostConfig, HostError, HostParts, LogLine, News,
    NewsListener, OrderedHook, PluginInfo, Reloaded, SessionFacts, State, Statistics, Tested,
};
pub use payload::{Payload, Scalar};

use self::core::{Core, Troubles};
use self::filter::FilterPipeline;
use self::program::{Programs, Request};
use crate::lock;
use crate::runtime::CallFailure;

/// How often counts are written, while they change.
const SAVE_EVERY: Duration = Duration::from_secs(5);

/// Events that wait for observers when the host goes down may take this long.
const LAST_EVENTS: Duration = Duration::from_secs(2);

/// The handle. Cheap to clone.
#[derive(Clone)]
pub struct PluginHost {
    core: Arc<Core>,
}

impl PluginHost {
    /// Finds what there is. Nothing runs yet. Reads files, and must be called inside a runtime.
    pub fn load(parts: HostParts) -> PluginHost {
        let programs = Arc::new(programs::RealPrograms::new(&parts));
        PluginHost::with_programs(parts, programs)
    }

    pub(crate) fn with_programs(parts: HostParts, programs: Arc<dyn Programs>) -> PluginHost {
        let core = Arc::new(Core::new(parts, programs));
        if core.parts.config.enabled {
            core.begin();
            core.tasks.spawn(save_now_and_then(Arc::downgrade(&core)));
        }
        PluginHost { core }
    }

    pub fn enabled(&self) -> bool {
        self.core.parts.config.enabled
    }

    /// All plugins, by name.
    pub fn list(&self) -> Vec<PluginInfo> {
        self.core.registry().plugins.values().map(|plugin| plugin.info()).collect()
    }

    pub fn info(&self, name: &str) -> Result<PluginInfo, HostError> {
        Ok(self.core.find(name)?.info())
    }

    /// Asks one plugin by hand. Works for a plugin that is turned off, not for one that may not
    /// run.
    pub async fn test(
        &self,
        name: &str,
        hook: HookName,
        payload: Map<String, Value>,
    ) -> Result<Tested, HostError> {
        let plugin = self.core.find(name)?;
        let found = plugin.entries.iter().find(|entry| entry.hook == hook);
        let same = || plugin.entries.iter().find(|entry| entry.hook.hook == hook.hook);
        let Some(entry) = found.or_else(same) else {
            return Err(HostError::NoSuchHook { name: name.to_owned(), hook: hook.to_string() });
        };
        let program = plugin
            .program(entry)
            .map_err(|why| HostError::CannotRun { name: name.to_owned(), why })?;
        let _busy = plugin.busy();
        let began = Instant::now();
        let deadline = entry.deadline;
        let fields = request::by_hand(entry.hook, deadline, &payload);
        let result = program.ask(Request { session: None, fields, lines: None, deadline }).await;
        let took = began.elapsed();
        let (answer, stderr, decided) = match result {
            Ok(reply) => {
                let reply = reply.unwrap_or_default();
                let grants = &plugin.found.grants;
                let start = starts::Start { told: &payload, grants, confined: false };
                let decided = shape::decide(entry.hook, &reply)
                    .and_then(|decision| starts::checked(entry.hook, &start, decision));
                (reply.answer, reply.stderr, decided)
            }
            Err(failure) => {
                let said = match &failure {
                    CallFailure::Died { stderr, .. } | CallFailure::NoAnswer { stderr } => {
                        stderr.clone()
                    }
                    _ => String::new(),
                };
                (Map::new(), said, Err(failure))
            }
        };
        plugin.history.stderr(&stderr);
        let stderr = history::clean(&stderr);
        let failure = decided.as_ref().err().map(ToString::to_string);
        match &failure {
            None => plugin.history.succeeded(entry.hook.name(), took),
            Some(why) => plugin.history.failed(entry.hook.name(), took, false, why),
        }
        // What a policy comes to, in the words of a verdict.
        let instead = |_| match entry.policy {
            OnFailure::Drop => "pass",
            other => other.word(),
        };
        let action = decided.map_or_else(instead, |decision| decision.word()).to_owned();
        Ok(Tested { answer, action, failure, stderr, took })
    }

    /// The order in which a hook's plugins are asked, and remarks about wishes that could not be
    /// met.
    pub fn order(&self, hook: Hook) -> (Vec<OrderedHook>, Vec<String>) {
        self.core.registry().order(hook)
    }

    /// What a plugin said and what was noted about it, oldest first.
    pub fn logs(&self, name: &str, max: usize) -> Result<Vec<LogLine>, HostError> {
        Ok(self.core.find(name)?.history.lines(max))
    }

    /// Writes a line into the audit log, for others who decide about plugins (grants).
    pub fn audit(&self, record: Value) {
        self.core.audit.note(record);
    }

    /// Whether anybody would be asked.
    pub fn listens(&self, hook: Hook) -> bool {
        self.core.registry().asked(hook).next().is_some()
    }

    /// A session that hooks may be about; known by its labels until it is forgotten.
    pub fn meet(&self, facts: &SessionFacts) {
        lock(&self.core.sessions).insert(facts.id, Arc::new(facts.labels.clone()));
    }

    /// Who filters this session's lines, if anybody does; with `noted`, who did and is missed now.
    pub fn filter_for(
        &self,
        facts: &SessionFacts,
        noted: Option<&[u8]>,
    ) -> Result<Option<Arc<dyn LineFilter>>, String> {
        let noted = noted.map(noted::Noted::read).transpose()?.unwrap_or_default();
        Ok(FilterPipeline::of(&self.core, facts, noted)
            .map(|pipeline| pipeline as Arc<dyn LineFilter>))
    }

    /// What is wrong with the files that say which plugins there are, and who is missed, in
    /// sentences.
    pub fn troubles(&self) -> Vec<String> {
        let Troubles { faults, unguarded } = self.core.troubles();
        let registry = self.core.registry();
        let missed = registry.plugins.values().filter(|plugin| plugin.is_missed()).map(|plugin| {
            let hooks: Vec<String> =
                plugin.entries.iter().map(|entry| format!("{} ({})", entry.hook, entry.policy.word())).collect();
            let (name, hooks, why) = (&plugin.name, hooks.join(", "), plugin.why_not());
            format!("plugin {name} is required and cannot be asked, which counts as its failure at {hooks}: {why}")
        });
        let unguarded = unguarded.map(|unguarded| unguarded.why);
        faults.into_iter().chain(unguarded).chain(missed).collect()
    }

    /// Why no session may start: it is not known which plugins must see it.
    pub fn unguarded(&self) -> Option<Unguarded> {
        self.core.troubles().unguarded
    }

    /// The session has ended: what was kept for it can go.
    pub fn forget(&self, session: SessionId) {
        lock(&self.core.sessions).remove(&session);
        for plugin in self.core.registry().plugins.values() {
            plugin.forget(session);
        }
    }

    /// Tells observers what waits for them, as far as a short time allows, then ends all programs.
    pub async fn stop(&self) {
        let registry = self.core.registry();
        let told = async {
            for plugin in registry.plugins.values().filter(|plugin| plugin.may_run()) {
                plugin.queue.emptied().await;
            }
        };
        let _ = tokio::time::timeout(LAST_EVENTS, told).await;
        let mut ending = tokio::task::JoinSet::new();
        for plugin in registry.plugins.values() {
            let plugin = plugin.clone();
            ending.spawn(async move { plugin.quiet().await });
        }
        ending.join_all().await;
        self.keep().await;
    }

    /// Writes down what was counted; programs end with the host's process.
    pub async fn keep(&self) {
        let audit = self.core.audit.clone();
        let _ = tokio::task::spawn_blocking(move || audit.flush()).await;
        save(self.core.clone()).await;
    }
}

async fn save(core: Arc<Core>) {
    if let Ok(Err(error)) = tokio::task::spawn_blocking(move || core.histories.save()).await {
        tracing::warn!(%error, "keeping statistics of plugins");
    }
}

async fn save_now_and_then(core: std::sync::Weak<Core>) {
    let mut tick = tokio::time::interval(SAVE_EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(core) = core.upgrade() else { return };
        save(core).await;
    }
}

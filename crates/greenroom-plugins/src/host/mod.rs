//! The host of hook plugins: who is asked, in which order, how long, and what a failure means.
//!
//! | room | what it is |
//! |---|---|
//! | here | the handle the daemon holds |
//! | `facts` | what goes in and out, as plain types |
//! | `supply` | the role of whoever finds plugins |
//! | `payload`, `request`, `shape` | what a hook tells, the JSON of it, which answers it knows |
//! | `order`, `registry` | the order of plugins at a hook |
//! | `plugin` | one generation of one plugin, its hooks and its state |
//! | `voice` | the role of a plugin's program |
//! | `ask`, `breaker` | one call, and when to stop asking one that does not answer |
//! | `gate`, `observe`, `filter` | the three classes of hooks |
//! | `noted` | who filters a session, kept with it |
//! | `starts` | what a plugin may change of a session that is about to start |
//! | `book`, `audit` | what is counted and kept, what is written down |
//!
//! In: events of the daemon as a [`Payload`]. Out: a [`GateOutcome`], a filter for lines, or nothing (observers). Every call
//! has a deadline and every failure a policy: nobody hangs, nobody just passes. Deliberately absent: files and grants
//! (`store`), programs and pipes (`runtime`), and what an event is (the daemon).

mod ask;
mod audit;
mod book;
pub mod breaker;
mod core;
pub mod facts;
mod filter;
mod gate;
mod noted;
mod observe;
pub mod order;
pub mod payload;
mod plugin;
mod programs;
mod registry;
mod reload;
pub mod request;
pub mod shape;
pub mod starts;
pub mod supply;
#[cfg(test)]
mod tests;
pub(crate) mod voice;

use std::sync::Arc;
use std::time::{Duration, Instant};

use greenroom_engine::SessionId;
use greenroom_engine::egress::LineFilter;
use greenroom_protocol::manifest::{Hook, HookName, OnFailure};
use serde_json::{Map, Value};

pub use facts::{
    Changed, Failed, GateOutcome, HookInfo, HostConfig, HostError, HostParts, LogLine, News,
    PluginInfo, Reloaded, SessionFacts, State, Statistics, Tested, Turn, Witness,
};
pub use payload::Payload;
pub use supply::{Found, Standing, Supply, SupplyError};

use self::core::Core;
use self::filter::Chain;
use self::voice::Voices;

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
        let voices = Arc::new(programs::Programs::new(&parts));
        PluginHost::with_voices(parts, voices)
    }

    pub(crate) fn with_voices(parts: HostParts, voices: Arc<dyn Voices>) -> PluginHost {
        let core = Arc::new(Core::new(parts, voices));
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

    /// Lasts: also after a restart.
    pub async fn enable(&self, name: &str) -> Result<PluginInfo, HostError> {
        self.core.turn(name, true).await
    }

    pub async fn disable(&self, name: &str) -> Result<PluginInfo, HostError> {
        self.core.turn(name, false).await
    }

    /// Looks at the files again. What did not change goes on; calls under way end on what they began with. With `only`,
    /// that plugin begins anew even if it did not change.
    pub async fn reload(&self, only: Option<&str>) -> Result<Reloaded, HostError> {
        self.core.reload(only).await
    }

    /// Asks one plugin by hand. Works for a plugin that is turned off, not for one that may not run.
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
        let voice = plugin
            .voice(entry)
            .map_err(|why| HostError::CannotRun { name: name.to_owned(), why })?;
        let _busy = plugin.busy();
        let began = Instant::now();
        let request = request::by_hand(entry.hook, entry.deadline, &payload);
        let result = voice.call(None, request, entry.deadline).await;
        let took = began.elapsed();
        let (answer, stderr, decided) = match result {
            Ok(reply) => {
                let grants = &plugin.found.grants;
                let start = starts::Start { told: &payload, grants, confined: false };
                let decided = shape::decide(entry.hook, &reply)
                    .and_then(|decision| starts::checked(entry.hook, &start, decision));
                (reply.answer, reply.stderr, decided)
            }
            Err(failure) => {
                let said = match &failure {
                    crate::runtime::CallFailure::Died { stderr, .. }
                    | crate::runtime::CallFailure::NoAnswer { stderr } => stderr.clone(),
                    _ => String::new(),
                };
                (Map::new(), said, Err(failure))
            }
        };
        plugin.book.stderr(&stderr);
        let stderr = book::clean(&stderr);
        match decided {
            Ok(decision) => {
                plugin.book.succeeded(entry.hook.name(), took);
                let action = decision.word().to_owned();
                Ok(Tested { answer, action, failure: None, stderr, took })
            }
            Err(failure) => {
                let why = failure.to_string();
                plugin.book.failed(entry.hook.name(), took, false, &why);
                let action = instead(entry.policy).to_owned();
                Ok(Tested { answer, action, failure: Some(why), stderr, took })
            }
        }
    }

    /// The order in which a hook's plugins are asked, and remarks about wishes that could not be met.
    pub fn order(&self, hook: Hook) -> (Vec<Turn>, Vec<String>) {
        self.core.registry().turns(hook)
    }

    /// What a plugin said and what was noted about it, oldest first.
    pub fn logs(&self, name: &str, max: usize) -> Result<Vec<LogLine>, HostError> {
        Ok(self.core.find(name)?.book.lines(max))
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
        self.core.meet(facts);
    }

    /// Asks all plugins of a gate.
    pub async fn gate(
        &self,
        hook: Hook,
        session: Option<SessionId>,
        payload: Payload,
    ) -> GateOutcome {
        self.core.gate(hook, session, payload).await
    }

    /// Tells all observers. Never waits, and may be called from anywhere.
    pub fn observe(&self, hook: Hook, session: Option<SessionId>, payload: Payload) {
        self.core.observe(hook, session, payload);
    }

    /// Who filters this session's lines, if anybody does; with `noted`, who did and is missed now.
    pub fn filter_for(
        &self,
        facts: &SessionFacts,
        noted: Option<&[u8]>,
    ) -> Result<Option<Arc<dyn LineFilter>>, String> {
        let noted = noted.map(noted::Noted::read).transpose()?.unwrap_or_default();
        Ok(Chain::of(&self.core, facts, noted).map(|chain| chain as Arc<dyn LineFilter>))
    }

    /// Why it is not known which plugins there are, if it is not.
    pub fn blind(&self) -> Option<String> {
        self.core.blind()
    }

    /// The session has ended: what was kept for it can go.
    pub fn forget(&self, session: SessionId) {
        self.core.forget(session);
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
        let core = self.core.clone();
        let saved = tokio::task::spawn_blocking(move || {
            core.audit.flush();
            core.books.save()
        });
        if let Ok(Err(error)) = saved.await {
            tracing::warn!(%error, "keeping statistics of plugins");
        }
    }
}

/// What a policy comes to, in the words of a verdict.
fn instead(policy: OnFailure) -> &'static str {
    match policy {
        OnFailure::Drop => "pass",
        other => other.word(),
    }
}

async fn save_now_and_then(core: std::sync::Weak<Core>) {
    let mut tick = tokio::time::interval(SAVE_EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(core) = core.upgrade() else { return };
        let saved = tokio::task::spawn_blocking(move || core.books.save()).await;
        if let Ok(Err(error)) = saved {
            tracing::warn!(%error, "keeping statistics of plugins");
        }
    }
}

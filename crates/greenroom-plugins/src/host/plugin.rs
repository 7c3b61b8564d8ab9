//! One generation of one plugin: its hooks as they act, its programs, its state.
//!
//! A reload that changes something makes another one beside it; calls under way end here.
//! Deliberately absent: order among plugins, and what is done with answers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use greenroom_engine::SessionId;
use greenroom_formats::manifest::{HookEntry, HookName, OnFailure};
use greenroom_plugin_api::file::Spawn;
use regex::Regex;
use tokio::sync::{Notify, Semaphore};

use super::breaker::Breaker;
use super::catalog::{Found, Standing};
use super::core::Core;
use super::facts::{HookInfo, HostConfig, News, NewsListener, PluginInfo, State};
use super::history::History;
use super::observe::Queue;
use super::program::{Condition, Program, ProgramEvent, ProgramEvents, Programs};
use crate::lock;
use crate::runtime::oneshot::AT_ONCE_EACH;

/// Calls under way on an old generation may take this long to end.
const DRAIN: Duration = Duration::from_secs(10);

pub(super) struct Plugin {
    pub name: String,
    pub found: Arc<Found>,
    pub generation: u64,
    pub entries: Vec<Arc<Entry>>,
    pub history: Arc<History>,
    pub queue: Queue,
    enabled: AtomicBool,
    retired: AtomicBool,
    programs: Vec<Opened>,
    shown: Mutex<(State, Option<String>)>,
    listener: Arc<dyn NewsListener>,
    under_way: AtomicUsize,
    calm: Notify,
}

/// A runtime of the manifest, and who answers for it.
struct Opened {
    id: String,
    program: Result<Arc<dyn Program>, String>,
    eager: bool,
}

/// One hook of the plugin: manifest, table and operator together.
pub(super) struct Entry {
    pub index: usize,
    pub hook: HookName,
    pub said: HookEntry,
    pub deadline: Duration,
    pub policy: OnFailure,
    /// Lines in which it is not found are not asked about.
    pub prefilter: Option<Regex>,
    pub breaker: Mutex<Breaker>,
    /// The outcome of a call is known.
    pub decided: Notify,
    /// Batches unanswered at once.
    pub in_flight: Semaphore,
    /// Lines asked about one by one, at once: as many as a plugin may have programs.
    pub singles: Semaphore,
    program: usize,
}

/// Tells the plugin, as long as it is there.
fn events(plugin: Weak<Plugin>) -> ProgramEvents {
    Arc::new(move |event| {
        let Some(plugin) = plugin.upgrade() else { return };
        match event {
            ProgramEvent::Changed(why) => plugin.refresh(why),
            ProgramEvent::Stderr(text) => plugin.history.stderr(text),
            ProgramEvent::Restarted => plugin.history.restarted(),
        }
    })
}

impl Plugin {
    pub(super) fn new(core: &Core, found: Found, generation: u64) -> Arc<Plugin> {
        let found = Arc::new(found);
        let (config, history) = (&core.parts.config, core.histories.of(&found.name));
        let default = !config.disabled.contains(&found.name);
        let enabled = history.enabled().unwrap_or(default);
        let plugin = Arc::new_cyclic(|weak: &Weak<Plugin>| {
            let opened = opened(&found, &*core.programs, &events(weak.clone()));
            Plugin {
                name: found.name.clone(),
                generation,
                entries: entries(&found, config, &opened),
                history,
                queue: Queue::default(),
                enabled: AtomicBool::new(enabled),
                retired: AtomicBool::new(false),
                programs: opened,
                shown: Mutex::new((State::Idle, None)),
                listener: core.parts.listener.clone(),
                under_way: AtomicUsize::new(0),
                calm: Notify::new(),
                found,
            }
        });
        // The listener is told of changes, not of the state it begins with.
        *lock(&plugin.shown) = plugin.now();
        plugin
    }

    pub(super) fn enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    pub(super) fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Release);
        self.refresh(None);
    }

    /// May be asked: agreed to, and turned on.
    pub(super) fn may_run(&self) -> bool {
        self.enabled() && self.found.standing.may_run()
    }

    /// Whether this hook counts although the plugin may not run: a guard whose bytes were changed
    /// or are gone must not just be gone.
    pub(super) fn missed(&self, entry: &Entry) -> bool {
        entry.said.required && self.is_missed()
    }

    /// Agreed to, required, turned on, and cannot run.
    pub(super) fn is_missed(&self) -> bool {
        self.enabled() && !self.found.claims.is_empty() && !self.found.standing.may_run()
    }

    /// In words, why it cannot be asked.
    pub(super) fn why_not(&self) -> String {
        let (state, why) = self.now();
        why.unwrap_or_else(|| state.word().to_owned())
    }

    pub(super) fn program(&self, entry: &Entry) -> Result<&Arc<dyn Program>, String> {
        if !self.found.standing.may_run() {
            return Err(self.why_not());
        }
        match self.programs.get(entry.program) {
            Some(opened) => opened.program.as_ref().map_err(Clone::clone),
            None => Err("it has no runtime for this hook".to_owned()),
        }
    }

    /// Counts a call as long as the guard lives.
    pub(super) fn busy(self: &Arc<Plugin>) -> Busy {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        Busy(self.clone())
    }

    /// Looks at what its state is now and tells if it is another.
    pub(super) fn refresh(&self, why: Option<String>) {
        let (state, fixed) = self.now();
        let why = why.or(fixed);
        let (before, _) = std::mem::replace(&mut *lock(&self.shown), (state, why.clone()));
        if before == state {
            return;
        }
        let word = state.word();
        self.history
            .say("state", &why.as_ref().map_or(word.to_owned(), |why| format!("{word}: {why}")));
        self.listener.on_news(News::State { plugin: self.name.clone(), before, after: state, why });
    }

    fn now(&self) -> (State, Option<String>) {
        match &self.found.standing {
            Standing::Invalid(problems) => return (State::Invalid, Some(problems.join("; "))),
            Standing::NeedsConsent => {
                let why = format!("nobody has agreed to it: greenroom plugin grant {}", self.name);
                return (State::NeedsConsent, Some(why));
            }
            Standing::Modified => {
                let why = "its files are not those that were agreed to".to_owned();
                return (State::Modified, Some(why));
            }
            Standing::Granted | Standing::Linked => {}
        }
        let calm = self.under_way.load(Ordering::Acquire) == 0;
        if self.retired.load(Ordering::Acquire) {
            return (if calm { State::Stopped } else { State::Draining }, None);
        }
        if !self.enabled() {
            return (State::Disabled, None);
        }
        let broken = self.programs.iter().find_map(|opened| opened.program.as_ref().err());
        if let Some(why) = broken {
            return (State::Quarantined, Some(why.clone()));
        }
        let worst = self.programs().map(|program| program.condition()).max();
        match worst {
            Some(Condition::Quarantined) => (State::Quarantined, None),
            Some(Condition::Backoff) => (State::Backoff, None),
            _ if self.entries.iter().any(|entry| lock(&entry.breaker).is_open()) => {
                (State::Degraded, None)
            }
            Some(Condition::Spawning) => (State::Spawning, None),
            Some(Condition::Up) => (State::Running, None),
            Some(Condition::Down) | None => (State::Idle, None),
        }
    }

    fn programs(&self) -> impl Iterator<Item = &Arc<dyn Program>> {
        self.programs.iter().filter_map(|opened| opened.program.as_ref().ok())
    }

    /// Starts the programs that want to run from the beginning, and finds out whether the others
    /// could be.
    pub(super) async fn wake(&self) -> Result<(), String> {
        if !self.may_run() {
            return Ok(());
        }
        for opened in &self.programs {
            match &opened.program {
                Ok(program) => {
                    program.wake(opened.eager).await.map_err(|failure| failure.to_string())?;
                }
                Err(why) => return Err(format!("runtime {}: {why}", opened.id)),
            }
        }
        Ok(())
    }

    /// Ends its programs, after calls under way have ended.
    pub(super) async fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        let calm = async {
            loop {
                let calm = self.calm.notified();
                if self.under_way.load(Ordering::Acquire) == 0 && self.queue.is_empty() {
                    return;
                }
                calm.await;
            }
        };
        if tokio::time::timeout(DRAIN, calm).await.is_err() {
            tracing::warn!(plugin = %self.name, "calls of an old generation did not end");
        }
        self.quiet().await;
    }

    /// Something it was busy with is over.
    pub(super) fn calmer(&self) {
        self.calm.notify_waiters();
    }

    /// Ends its programs now.
    pub(super) async fn quiet(&self) {
        for program in self.programs() {
            program.stop().await;
        }
    }

    pub(super) fn retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    pub(super) fn forget(&self, session: SessionId) {
        for program in self.programs() {
            program.forget(session);
        }
    }

    pub(super) fn info(&self) -> PluginInfo {
        let (state, fixed) = self.now();
        let noted = lock(&self.shown).clone();
        PluginInfo {
            found: self.found.clone(),
            enabled: self.enabled(),
            state,
            why: fixed.or(noted.1.filter(|_| noted.0 == state)),
            level: self.programs().find_map(|program| program.level()),
            generation: self.generation,
            hooks: self.entries.iter().map(|entry| entry.info()).collect(),
            stats: self.history.statistics(),
        }
    }
}

impl Entry {
    pub(super) fn info(&self) -> HookInfo {
        HookInfo {
            hook: self.hook,
            stage: self.said.stage.word(),
            priority: self.said.priority,
            deadline: self.deadline,
            on_failure: self.policy,
        }
    }
}

/// A call under way.
pub(super) struct Busy(Arc<Plugin>);

impl Drop for Busy {
    fn drop(&mut self) {
        if self.0.under_way.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.calm.notify_waiters();
        }
    }
}

fn opened(found: &Arc<Found>, programs: &dyn Programs, events: &ProgramEvents) -> Vec<Opened> {
    let Some(manifest) = found.manifest.as_ref().filter(|_| found.standing.may_run()) else {
        return Vec::new();
    };
    let opened = manifest.runtime.iter().map(|runtime| {
        let program = programs.open(found, runtime, events.clone());
        Opened { id: runtime.id.clone(), program, eager: runtime.spawn == Spawn::Eager }
    });
    opened.collect()
}

fn entries(found: &Found, config: &HostConfig, opened: &[Opened]) -> Vec<Arc<Entry>> {
    let manifest = found.manifest.as_ref();
    // What was agreed to counts, not what lies there now.
    let hooks = match manifest {
        _ if !found.standing.may_run() && !found.claims.is_empty() => &found.claims[..],
        Some(manifest) => &manifest.hooks[..],
        None => &[],
    };
    let entry = |(index, said): (usize, &HookEntry)| {
        let runtime = manifest.and_then(|manifest| manifest.runtime_of(said));
        let deadline = match runtime {
            Some(runtime) => said.deadline(runtime, config.timeout),
            None => said.hook.hook.row().deadline,
        };
        let id = runtime.map(|runtime| runtime.id.as_str());
        Arc::new(Entry {
            index,
            hook: said.hook,
            deadline,
            policy: policy(found, said, config),
            prefilter: prefilter(said),
            breaker: Mutex::default(),
            decided: Notify::new(),
            in_flight: Semaphore::new(said.batch.unwrap_or_default().in_flight.max(1) as usize),
            singles: Semaphore::new(AT_ONCE_EACH),
            program: opened.iter().position(|s| Some(&*s.id) == id).unwrap_or(usize::MAX),
            said: said.clone(),
        })
    };
    hooks.iter().enumerate().map(entry).collect()
}

/// Checked with the manifest; one that does not compile asks about every line, which leaks nothing.
pub(super) fn prefilter(said: &HookEntry) -> Option<Regex> {
    Regex::new(said.when.regex.as_deref()?).ok()
}

/// The operator's word wins: for this plugin, for the hook under the name the manifest uses, for
/// the hook.
fn policy(found: &Found, said: &HookEntry, config: &HostConfig) -> OnFailure {
    let class = said.hook.hook.class();
    let names = [said.hook.name(), said.hook.hook.name()];
    let own = names.iter().map(|name| format!("{}/{name}", found.name));
    let all = own.chain(names.iter().map(|name| (*name).to_owned()));
    let chosen = all.filter_map(|name| config.policy.get(&name)).next();
    chosen.filter(|chosen| class.policies().contains(chosen)).copied().unwrap_or(said.policy())
}

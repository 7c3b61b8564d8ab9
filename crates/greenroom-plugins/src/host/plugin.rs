//! One generation of one plugin: its hooks as they act, its programs, its state.
//!
//! A reload that changes something makes another one beside it; calls under way end here. Deliberately absent: order
//! among plugins, and what is done with answers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use greenroom_engine::SessionId;
use greenroom_protocol::manifest::{HookEntry, HookName, OnFailure};
use regex::Regex;
use tokio::sync::{Notify, Semaphore};

use super::book::Book;
use super::breaker::Breaker;
use super::facts::{HookInfo, HostConfig, News, PluginInfo, State, Witness};
use super::observe::Queue;
use super::supply::{Found, Standing};
use super::voice::{Condition, Ear, Voice, Voices};
use crate::runtime::oneshot::AT_ONCE_EACH;

/// Calls under way on an old generation may take this long to end.
const DRAIN: Duration = Duration::from_secs(10);

pub(super) struct Plugin {
    pub name: String,
    pub found: Arc<Found>,
    pub generation: u64,
    pub entries: Vec<Arc<Entry>>,
    pub book: Arc<Book>,
    pub queue: Queue,
    enabled: AtomicBool,
    retired: AtomicBool,
    voices: Vec<Spoken>,
    shown: Mutex<(State, Option<String>)>,
    witness: Arc<dyn Witness>,
    under_way: AtomicUsize,
    calm: Notify,
}

/// A runtime of the manifest, and who answers for it.
struct Spoken {
    id: String,
    voice: Result<Arc<dyn Voice>, String>,
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
    voice: usize,
}

impl Entry {
    pub fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forwards to the plugin as long as it is there.
struct Ears(Weak<Plugin>);

impl Ear for Ears {
    fn changed(&self, why: Option<String>) {
        if let Some(plugin) = self.0.upgrade() {
            plugin.refresh(why);
        }
    }

    fn stderr(&self, text: &str) {
        if let Some(plugin) = self.0.upgrade() {
            plugin.book.stderr(text);
        }
    }

    fn restarted(&self) {
        if let Some(plugin) = self.0.upgrade() {
            plugin.book.restarted();
        }
    }
}

impl Plugin {
    pub fn new(
        found: Found,
        generation: u64,
        config: &HostConfig,
        book: Arc<Book>,
        voices: &dyn Voices,
        witness: Arc<dyn Witness>,
    ) -> Arc<Plugin> {
        let found = Arc::new(found);
        let default = !config.disabled.contains(&found.name);
        let enabled = book.enabled().unwrap_or(default);
        let plugin = Arc::new_cyclic(|weak: &Weak<Plugin>| {
            let ear: Arc<dyn Ear> = Arc::new(Ears(weak.clone()));
            let spoken = spoken(&found, voices, &ear);
            Plugin {
                name: found.name.clone(),
                generation,
                entries: entries(&found, config, &spoken),
                book,
                queue: Queue::default(),
                enabled: AtomicBool::new(enabled),
                retired: AtomicBool::new(false),
                voices: spoken,
                shown: Mutex::new((State::Idle, None)),
                witness,
                under_way: AtomicUsize::new(0),
                calm: Notify::new(),
                found,
            }
        });
        // Its first state is no news.
        *plugin.shown() = plugin.now();
        plugin
    }

    pub fn enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    pub fn set_enabled(&self, enabled: bool) {
        self.enabled.store(enabled, Ordering::Release);
        self.refresh(None);
    }

    /// May be asked: agreed to, and turned on.
    pub fn may_run(&self) -> bool {
        self.enabled() && self.found.standing.may_run()
    }

    /// Whether this hook counts although the plugin may not run: a guard whose bytes were changed must not just be gone.
    pub fn missed(&self, entry: &Entry) -> bool {
        self.enabled() && entry.said.required && self.found.standing == Standing::Modified
    }

    /// In words, why it cannot be asked.
    pub fn why_not(&self) -> String {
        let (state, why) = self.now();
        why.unwrap_or_else(|| state.word().to_owned())
    }

    pub fn voice(&self, entry: &Entry) -> Result<&Arc<dyn Voice>, String> {
        if !self.found.standing.may_run() {
            return Err(self.why_not());
        }
        match self.voices.get(entry.voice) {
            Some(spoken) => spoken.voice.as_ref().map_err(Clone::clone),
            None => Err("it has no runtime for this hook".to_owned()),
        }
    }

    /// Counts a call as long as the guard lives.
    pub fn busy(self: &Arc<Plugin>) -> Busy {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        Busy(self.clone())
    }

    /// Looks at what its state is now and tells if it is another.
    pub fn refresh(&self, why: Option<String>) {
        let (state, fixed) = self.now();
        let why = why.or(fixed);
        let before = {
            let mut shown = self.shown();
            let before = std::mem::replace(&mut *shown, (state, why.clone())).0;
            if before == state {
                return;
            }
            before
        };
        let word = state.word();
        self.book
            .say("state", &why.as_ref().map_or(word.to_owned(), |why| format!("{word}: {why}")));
        self.witness.told(News::State { plugin: self.name.clone(), before, after: state, why });
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
        let broken = self.voices.iter().find_map(|spoken| spoken.voice.as_ref().err());
        if let Some(why) = broken {
            return (State::Quarantined, Some(why.clone()));
        }
        let worst = self.voices().map(|voice| voice.condition()).max();
        match worst {
            Some(Condition::Quarantined) => (State::Quarantined, None),
            Some(Condition::Backoff) => (State::Backoff, None),
            _ if self.entries.iter().any(|entry| entry.breaker().is_open()) => {
                (State::Degraded, None)
            }
            Some(Condition::Spawning) => (State::Spawning, None),
            Some(Condition::Up) => (State::Running, None),
            Some(Condition::Down) | None => (State::Idle, None),
        }
    }

    fn voices(&self) -> impl Iterator<Item = &Arc<dyn Voice>> {
        self.voices.iter().filter_map(|spoken| spoken.voice.as_ref().ok())
    }

    /// Starts the programs that want to run from the beginning, and finds out whether the others could be.
    pub async fn wake(&self) -> Result<(), String> {
        if !self.may_run() {
            return Ok(());
        }
        for spoken in &self.voices {
            match &spoken.voice {
                Ok(voice) => {
                    voice.wake(spoken.eager).await.map_err(|failure| failure.to_string())?;
                }
                Err(why) => return Err(format!("runtime {}: {why}", spoken.id)),
            }
        }
        Ok(())
    }

    /// Ends its programs, after calls under way have ended.
    pub async fn retire(&self) {
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
    pub fn calmer(&self) {
        self.calm.notify_waiters();
    }

    /// Ends its programs now.
    pub async fn quiet(&self) {
        for voice in self.voices() {
            voice.stop().await;
        }
    }

    pub fn retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    pub fn forget(&self, session: SessionId) {
        for voice in self.voices() {
            voice.forget(session);
        }
    }

    pub fn info(&self) -> PluginInfo {
        let (state, fixed) = self.now();
        let noted = self.shown().clone();
        PluginInfo {
            name: self.name.clone(),
            dir: self.found.dir.clone(),
            root: self.found.root.clone(),
            digest: self.found.digest.clone(),
            standing: self.found.standing.clone(),
            manifest: self.found.manifest.clone(),
            grants: self.found.grants.clone(),
            warnings: self.found.warnings.clone(),
            enabled: self.enabled(),
            state,
            why: fixed.or(noted.1.filter(|_| noted.0 == state)),
            level: self.voices().find_map(|voice| voice.level()),
            generation: self.generation,
            hooks: self.entries.iter().map(|entry| entry.info()).collect(),
            stats: self.book.statistics(),
        }
    }

    fn shown(&self) -> MutexGuard<'_, (State, Option<String>)> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    pub fn info(&self) -> HookInfo {
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

fn spoken(found: &Arc<Found>, voices: &dyn Voices, ear: &Arc<dyn Ear>) -> Vec<Spoken> {
    use greenroom_protocol::manifest::file::Spawn;
    let Some(manifest) = found.manifest.as_ref().filter(|_| found.standing.may_run()) else {
        return Vec::new();
    };
    let spoken = manifest.runtime.iter().map(|runtime| {
        let voice = voices.open(found, runtime, ear.clone());
        Spoken { id: runtime.id.clone(), voice, eager: runtime.spawn == Spawn::Eager }
    });
    spoken.collect()
}

fn entries(found: &Found, config: &HostConfig, spoken: &[Spoken]) -> Vec<Arc<Entry>> {
    let Some(manifest) = &found.manifest else { return Vec::new() };
    let entry = |(index, said): (usize, &HookEntry)| {
        let runtime = manifest.runtime_of(said);
        let deadline = match runtime {
            Some(runtime) => said.deadline(runtime, config.timeout),
            None => said.hook.hook.row().deadline,
        };
        let prefilter = said.when.regex.as_deref().and_then(|regex| {
            // Checked with the manifest; one that does not compile asks about every line, which leaks nothing.
            Regex::new(regex).ok()
        });
        let id = runtime.map(|runtime| runtime.id.as_str());
        Arc::new(Entry {
            index,
            hook: said.hook,
            deadline,
            policy: policy(found, said, config),
            prefilter,
            breaker: Mutex::default(),
            decided: Notify::new(),
            in_flight: Semaphore::new(said.batch.unwrap_or_default().in_flight.max(1) as usize),
            singles: Semaphore::new(AT_ONCE_EACH),
            voice: spoken.iter().position(|s| Some(&*s.id) == id).unwrap_or(usize::MAX),
            said: said.clone(),
        })
    };
    manifest.hooks.iter().enumerate().map(entry).collect()
}

/// The operator's word wins: for this plugin, for the hook under the name the manifest uses, for the hook.
fn policy(found: &Found, said: &HookEntry, config: &HostConfig) -> OnFailure {
    let class = said.hook.hook.class();
    let names = [said.hook.name(), said.hook.hook.name()];
    let own = names.iter().map(|name| format!("{}/{name}", found.name));
    let all = own.chain(names.iter().map(|name| (*name).to_owned()));
    let chosen = all.filter_map(|name| config.policy.get(&name)).next();
    match chosen {
        Some(chosen) if class.policies().contains(chosen) => *chosen,
        _ => said.policy(),
    }
}

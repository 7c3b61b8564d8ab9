//! The transaction around session plugins.
//!
//! In: a spec that wants plugins. Out: the spec after all of them, or one refusal and nothing left
//! behind; after the session's end, what each plugin removed or kept. What a plugin is about to do
//! is in the chain's file before it does it, so whoever comes after a crash can finish:
//! [`Chains::finish`] may be called any number of times.
//!
//! Deliberately absent: what any plugin does, and who decides that a session is over (the daemon).

mod difference;
mod file;
mod registry;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

use greenroom_engine::SessionId;
use serde_json::Value;
use tokio::sync::Mutex as AsyncMutex;

pub use difference::Change;
pub use file::{ChainError, ChainFile, CleanupReport, Phase, Step};
pub use registry::Registry;

use crate::spec::{
    EndedHow, KeepState, Living, PluginState, Refusal, SessionEnd, SessionPlugin, SessionSpec,
    StateError,
};
use crate::threads::lock;

/// A moment in the life of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment<'a> {
    /// About to ask the plugin to prepare.
    Preparing(&'a str),
    /// The plugin has written down what it is about to do.
    Noted(&'a str),
    /// The plugin is done preparing.
    Prepared(&'a str),
    /// All plugins are done.
    Ready,
    /// About to ask the plugin to clean up.
    Cleaning(&'a str),
    /// The plugin has cleaned up.
    Cleaned(&'a str, &'a CleanupReport),
    /// Every plugin has had its turn.
    Finished,
}

/// Is told how a chain goes. Must not block.
pub trait Watch: Send + Sync {
    fn at(&self, id: SessionId, moment: Moment<'_>);
}

/// A spec that is ready to start, and how it became so.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub spec: SessionSpec,
    pub changes: Vec<Change>,
}

/// All chains of one host.
pub struct Chains {
    registry: Registry,
    inner: Arc<Inner>,
    /// Held while a chain is cleaned up, so that two who see the end do not do it at once.
    busy: Mutex<HashMap<SessionId, Arc<AsyncMutex<()>>>>,
}

struct Inner {
    dir: PathBuf,
    files: Mutex<HashMap<SessionId, ChainFile>>,
    open: Arc<Open>,
}

/// The sessions whose chain is not finished.
#[derive(Default)]
pub struct Open(Mutex<HashSet<SessionId>>);

impl Living for Open {
    fn is_alive(&self, id: SessionId) -> bool {
        self.set().contains(&id)
    }
}

impl Open {
    fn set(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        lock(&self.0)
    }
}

impl Chains {
    /// Reads what an earlier host left below `dir`. `open` is what the plugins were given to see
    /// who is alive.
    pub fn load(dir: PathBuf, registry: Registry, open: Arc<Open>) -> Result<Chains, ChainError> {
        let files = file::load_all(&dir)?;
        open.set().extend(files.values().filter(|file| file.is_open()).map(|file| file.session()));
        let inner = Arc::new(Inner { dir, files: Mutex::new(files), open });
        Ok(Chains { registry, inner, busy: Mutex::default() })
    }

    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The highest id that has a chain: it must not be given out again.
    pub fn last_id(&self) -> u64 {
        self.inner.files().keys().map(|id| id.0).max().unwrap_or(0)
    }

    /// Sessions whose chain is finished, and which are not forgotten.
    pub fn closed_ids(&self) -> Vec<SessionId> {
        let files = self.inner.files();
        files.iter().filter(|(_, file)| !file.is_open()).map(|(id, _)| *id).collect()
    }

    /// Sessions whose chain is not finished.
    pub fn open_ids(&self) -> Vec<SessionId> {
        let mut open: Vec<SessionId> = self.inner.open.set().iter().copied().collect();
        open.sort();
        open
    }

    /// Sessions that run, or may run, in a sandbox.
    pub fn confined(&self) -> Vec<SessionId> {
        let files = self.inner.files();
        let confined = files.values().filter(|file| file.is_open() && file.sandbox().is_some());
        confined.map(ChainFile::session).collect()
    }

    /// What is known of a session's chain.
    pub fn look(&self, id: SessionId) -> Option<ChainFile> {
        self.inner.files().get(&id).cloned()
    }

    /// Runs the chain. On a refusal everything that was done is undone.
    pub async fn prepare(
        &self,
        mut spec: SessionSpec,
        watch: &Arc<dyn Watch>,
    ) -> Result<Prepared, Refusal> {
        let plugins = self.registry.wanted(&spec)?;
        if plugins.is_empty() {
            return Ok(Prepared { spec, changes: Vec::new() });
        }
        let id = spec.id;
        self.inner.open.set().insert(id);
        self.inner.files().insert(id, ChainFile::new(id));
        let mut changes = Vec::new();
        for plugin in &plugins {
            let before = spec.clone();
            match self.prepare_one(plugin, &mut spec, watch).await {
                Ok(()) => changes.push(Change::between(plugin.about().name, &before, &spec)),
                Err(refusal) => {
                    return Err(self.undo(id, plugin.about().name, refusal, watch).await);
                }
            }
        }
        let durable = plugins.iter().any(|plugin| plugin.about().durable);
        let noted = self.inner.change(id, durable, |file| file.prepared(&spec, &changes));
        if let Err(error) = noted {
            return Err(self.undo(id, "chain", error.into(), watch).await);
        }
        watch.at(id, Moment::Ready);
        Ok(Prepared { spec, changes })
    }

    async fn prepare_one(
        &self,
        plugin: &Arc<dyn SessionPlugin>,
        spec: &mut SessionSpec,
        watch: &Arc<dyn Watch>,
    ) -> Result<(), Refusal> {
        let (id, name) = (spec.id, plugin.about().name);
        watch.at(id, Moment::Preparing(name));
        let begin = |file: &mut ChainFile| file.begin(name);
        if plugin.about().durable {
            self.inner.change(id, true, begin)?;
        } else {
            // In the file with the next note, or at the end: before the session starts.
            self.inner.files().entry(id).and_modify(begin);
        }
        let notes = Notes {
            inner: self.inner.clone(),
            id,
            plugin: name.to_owned(),
            durable: plugin.about().durable,
            watch: watch.clone(),
        };
        let mut state = PluginState::kept_by(Value::Null, Arc::new(notes));
        plugin.before_session(spec, &mut state).await?;
        tidy(spec);
        watch.at(id, Moment::Prepared(name));
        Ok(())
    }

    /// Takes back what was done, in reverse order, and makes one error of it.
    async fn undo(
        &self,
        id: SessionId,
        plugin: &str,
        mut refusal: Refusal,
        watch: &Arc<dyn Watch>,
    ) -> Refusal {
        if refusal.plugin.is_empty() {
            refusal.plugin = plugin.to_owned();
        }
        let end = SessionEnd { id, how: EndedHow::NeverStarted, at: SystemTime::now() };
        for outcome in self.finish(&end, watch).await {
            if let Some(left) = outcome.left_behind() {
                refusal.what.push_str(&format!("; {left}"));
            }
        }
        refusal
    }

    /// What the chain would do to `spec`; nothing is made, nothing is written.
    pub async fn dry_run(&self, mut spec: SessionSpec) -> Result<Prepared, Refusal> {
        let mut changes = Vec::new();
        for plugin in self.registry.wanted(&spec)? {
            let before = spec.clone();
            plugin.dry_run(&mut spec).await.map_err(|mut refusal| {
                refusal.plugin = plugin.about().name.to_owned();
                refusal
            })?;
            tidy(&mut spec);
            changes.push(Change::between(plugin.about().name, &before, &spec));
        }
        Ok(Prepared { spec, changes })
    }

    /// The program runs since now: limits of time count from here.
    pub fn started(&self, id: SessionId, at: SystemTime) {
        self.note(id, |file| file.started(at));
    }

    /// A limit of time was reached: the end that follows is ours.
    pub fn timed_out(&self, id: SessionId) {
        self.note(id, ChainFile::timed_out);
    }

    /// Something worth telling at the session's end, such as a host it was not let through to.
    pub fn remark(&self, id: SessionId, text: String) {
        self.note(id, |file| file.remark(text));
    }

    fn note(&self, id: SessionId, change: impl FnOnce(&mut ChainFile)) {
        if self.inner.files().contains_key(&id)
            && let Err(error) = self.inner.change(id, false, change)
        {
            tracing::warn!(session = %id, %error, "noting a chain's progress");
        }
    }

    /// Cleans up after a session, in reverse order. A plugin that an earlier call has finished is
    /// not asked again.
    pub async fn finish(&self, end: &SessionEnd, watch: &Arc<dyn Watch>) -> Vec<CleanupReport> {
        let id = end.id;
        let turn = self.turn(id);
        let _turn = turn.lock().await;
        let Some(mut file) = self.look(id).filter(ChainFile::is_open) else {
            return self.look(id).map(|file| file.outcomes()).unwrap_or_default();
        };
        let end = SessionEnd { how: file.how_it_ended(end.how), ..end.clone() };
        file.finishing();
        self.keep_or_warn(&file);
        for index in (0..file.steps().len()).rev() {
            if file.steps()[index].is_clean() {
                continue;
            }
            let outcome = self.clean_one(&end, &file.steps()[index], watch).await;
            file.cleaned(index, outcome.clone());
            self.keep_or_warn(&file);
            watch.at(id, Moment::Cleaned(&outcome.plugin, &outcome));
        }
        if file.finished() {
            self.keep_or_warn(&file);
            self.inner.open.set().remove(&id);
            watch.at(id, Moment::Finished);
            if end.how == EndedHow::NeverStarted {
                self.forget(id);
            }
        }
        file.outcomes()
    }

    async fn clean_one(
        &self,
        end: &SessionEnd,
        step: &Step,
        watch: &Arc<dyn Watch>,
    ) -> CleanupReport {
        let name = step.plugin();
        watch.at(end.id, Moment::Cleaning(name));
        let Some(plugin) = self.registry.get(name) else {
            return CleanupReport::failed(
                name,
                format!("there is no session plugin `{name}` any more"),
            );
        };
        let state = PluginState::of(step.state().clone());
        match plugin.after_session(end, &state).await {
            Ok(cleanup) => CleanupReport::done(name, cleanup),
            Err(error) => CleanupReport::failed(name, error.what),
        }
    }

    /// The session was removed: nothing needs to be known of its chain any more.
    pub fn forget(&self, id: SessionId) {
        let finished = self.inner.files().get(&id).is_some_and(|file| !file.is_open());
        if !finished {
            return;
        }
        self.inner.files().remove(&id);
        self.busy().remove(&id);
        if let Err(error) = file::remove(&self.inner.dir, id) {
            tracing::warn!(session = %id, %error, "forgetting a chain");
        }
    }

    fn keep_or_warn(&self, file: &ChainFile) {
        let durable = file.steps().iter().any(|step| {
            self.registry.get(step.plugin()).is_none_or(|plugin| plugin.about().durable)
        });
        let kept = self.inner.change(file.session(), durable, |known| *known = file.clone());
        if let Err(error) = kept {
            // The clean-up goes on: what is not noted is done once more by the next host.
            tracing::warn!(session = %file.session(), %error, "noting a chain's clean-up");
        }
    }

    fn turn(&self, id: SessionId) -> Arc<AsyncMutex<()>> {
        self.busy().entry(id).or_default().clone()
    }

    fn busy(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<AsyncMutex<()>>>> {
        lock(&self.busy)
    }
}

impl Inner {
    fn files(&self) -> MutexGuard<'_, HashMap<SessionId, ChainFile>> {
        lock(&self.files)
    }

    /// Changes a chain and writes its file. The change stands in memory even if the disk refuses.
    fn change(
        &self,
        id: SessionId,
        durable: bool,
        change: impl FnOnce(&mut ChainFile),
    ) -> Result<(), StateError> {
        let written = {
            let mut files = self.files();
            let file = files.entry(id).or_insert_with(|| ChainFile::new(id));
            change(file);
            // Not after the lock: lines must come in the order of the changes.
            file::write(&self.dir, file)?
        };
        if durable { written.keep() } else { Ok(()) }
    }
}

/// A directory is written in one way: paths are compared later.
fn tidy(spec: &mut SessionSpec) {
    spec.base.cwd = spec.base.cwd.components().collect();
}

/// Writes one plugin's notes into the file of its chain.
struct Notes {
    inner: Arc<Inner>,
    id: SessionId,
    plugin: String,
    durable: bool,
    watch: Arc<dyn Watch>,
}

impl KeepState for Notes {
    fn keep(&self, value: &Value) -> Result<(), StateError> {
        self.inner.change(self.id, self.durable, |file| file.noted(value.clone()))?;
        self.watch.at(self.id, Moment::Noted(&self.plugin));
        Ok(())
    }
}

//! What everything in the host shares.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use greenroom_engine::SessionId;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use super::audit::Audit;
use super::book::Books;
use super::facts::{HostParts, SessionFacts};
use super::plugin::Entry;
use super::registry::Registry;
use super::voice::Voices;

/// Gate calls under way at once: each is a request somebody waits for. More than this are refused a turn.
pub(super) const GATES_MAX: usize = 32;

pub(super) struct Core {
    pub parts: HostParts,
    pub voices: Arc<dyn Voices>,
    pub books: Books,
    pub audit: Audit,
    pub gates: Semaphore,
    /// Where plugins are spoken to: never on a session's own thread.
    pub tasks: tokio::runtime::Handle,
    /// One reload at a time.
    pub reloading: AsyncMutex<()>,
    registry: RwLock<Arc<Registry>>,
    /// How often who is asked may have changed.
    editions: AtomicU64,
    /// Why the last look found nothing.
    blind: Mutex<Option<String>>,
    sessions: Mutex<HashMap<SessionId, Arc<BTreeMap<String, String>>>>,
}

impl Core {
    pub fn new(parts: HostParts, voices: Arc<dyn Voices>) -> Core {
        Core {
            books: Books::open(parts.state.join("plugins.json")),
            audit: Audit::start(parts.state.join("audit.jsonl")),
            gates: Semaphore::new(GATES_MAX),
            tasks: tokio::runtime::Handle::current(),
            reloading: AsyncMutex::default(),
            registry: RwLock::default(),
            editions: AtomicU64::new(0),
            blind: Mutex::default(),
            sessions: Mutex::default(),
            parts,
            voices,
        }
    }

    pub fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another in its place; calls under way go on with the old one.
    pub fn swap(&self, registry: Registry) -> Arc<Registry> {
        let mut place = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *place, Arc::new(registry));
        drop(place);
        self.changed();
        old
    }

    /// Who is asked may be somebody else now.
    pub fn changed(&self) {
        self.editions.fetch_add(1, Ordering::AcqRel);
    }

    pub fn edition(&self) -> u64 {
        self.editions.load(Ordering::Acquire)
    }

    /// It is not known which plugins there are, or it is again.
    pub fn is_blind(&self, why: Option<String>) {
        *self.blind.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    pub fn blind(&self) -> Option<String> {
        self.blind.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn meet(&self, facts: &SessionFacts) {
        self.sessions().insert(facts.id, Arc::new(facts.labels.clone()));
    }

    pub fn forget(&self, session: SessionId) {
        self.sessions().remove(&session);
        for plugin in self.registry().plugins.values() {
            plugin.forget(session);
        }
    }

    /// Whether a hook wants to hear of this session.
    pub fn concerns(&self, entry: &Entry, session: Option<SessionId>) -> bool {
        if entry.said.when.labels.is_empty() {
            return true;
        }
        let labels = session.and_then(|session| self.sessions().get(&session).cloned());
        labels.is_some_and(|labels| entry.wants(&labels))
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<BTreeMap<String, String>>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    pub fn wants(&self, labels: &BTreeMap<String, String>) -> bool {
        let wanted = &self.said.when.labels;
        wanted
            .iter()
            .all(|(name, value)| labels.get(name).is_some_and(|own| value == "*" || value == own))
    }
}

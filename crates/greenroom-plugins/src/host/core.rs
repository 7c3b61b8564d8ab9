//! What everything in the host shares.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use greenroom_engine::SessionId;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use super::audit::Audit;
use super::catalog::{CatalogError, Unguarded};
use super::facts::HostParts;
use super::history::Histories;
use super::plugin::Entry;
use super::program::Programs;
use super::registry::Registry;
use crate::lock;

/// Gate calls under way at once: each is a request somebody waits for. More than this are refused a
/// turn.
pub(super) const GATES_MAX: usize = 32;

pub(super) struct Core {
    pub parts: HostParts,
    pub programs: Arc<dyn Programs>,
    pub histories: Histories,
    pub audit: Audit,
    pub gates: Semaphore,
    /// Where plugins are spoken to: never on a session's own thread.
    pub tasks: tokio::runtime::Handle,
    /// One reload at a time.
    pub reloading: AsyncMutex<()>,
    registry: RwLock<Arc<Registry>>,
    /// Counts changes of the plugins that may be asked.
    editions: AtomicU64,
    troubles: Mutex<Troubles>,
    /// The labels of each session that hooks may be about.
    pub sessions: Mutex<HashMap<SessionId, Arc<BTreeMap<String, String>>>>,
}

/// What was wrong when the catalog was last read: there may be plugins it did not find.
#[derive(Clone, Default)]
pub(super) struct Troubles {
    pub faults: Vec<String>,
    pub unguarded: Option<Unguarded>,
}

impl Core {
    pub(super) fn new(parts: HostParts, programs: Arc<dyn Programs>) -> Core {
        Core {
            histories: Histories::open(parts.state.join("plugins.json")),
            audit: Audit::start(parts.state.join("audit.jsonl")),
            gates: Semaphore::new(GATES_MAX),
            tasks: tokio::runtime::Handle::current(),
            reloading: AsyncMutex::default(),
            registry: RwLock::default(),
            editions: AtomicU64::new(0),
            troubles: Mutex::default(),
            sessions: Mutex::default(),
            parts,
            programs,
        }
    }

    pub(super) fn registry(&self) -> Arc<Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts another in its place; calls under way go on with the old one.
    pub(super) fn swap(&self, registry: Registry) -> Arc<Registry> {
        let mut place = self.registry.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *place, Arc::new(registry));
        drop(place);
        self.changed();
        old
    }

    /// The plugins that may be asked have changed: whoever keeps notes of them makes them anew.
    pub(super) fn changed(&self) {
        self.editions.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn edition(&self) -> u64 {
        self.editions.load(Ordering::Acquire)
    }

    pub(super) fn set_troubles(&self, faults: &[CatalogError], unguarded: Option<Unguarded>) {
        let faults = faults.iter().map(ToString::to_string).collect();
        *lock(&self.troubles) = Troubles { faults, unguarded };
    }

    pub(super) fn troubles(&self) -> Troubles {
        lock(&self.troubles).clone()
    }

    /// Whether a hook wants to hear of this session.
    pub(super) fn concerns(&self, entry: &Entry, session: Option<SessionId>) -> bool {
        if entry.said.when.labels.is_empty() {
            return true;
        }
        let labels = session.and_then(|session| lock(&self.sessions).get(&session).cloned());
        labels.is_some_and(|labels| entry.wants(&labels))
    }
}

impl Entry {
    pub(super) fn wants(&self, labels: &BTreeMap<String, String>) -> bool {
        let wanted = &self.said.when.labels;
        wanted
            .iter()
            .all(|(name, value)| labels.get(name).is_some_and(|own| value == "*" || value == own))
    }
}

//! The total budget: when all journals together are too large, whose oldest segment goes.
//!
//! First the largest ended session (the longest ended among equals), then the largest live one;
//! never the newest segment of a session. In come live sessions and directories of ended ones, out
//! go dropped segments. Deliberately absent: the bound per session (`files`) and deleting a journal
//! whole (whoever deletes the session does that).

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use super::limits::Budget;
use super::segment::{self, Segment};
use super::shared::Session;
use crate::id::Seq;
use crate::lock::lock;

/// The oldest byte kept of journals that ended and had to give: their readers look at the disk only
/// when they are asked.
pub(super) type Begins = Arc<Mutex<HashMap<PathBuf, Seq>>>;

struct Ended {
    segments: VecDeque<Segment>,
    at: SystemTime,
}

impl Ended {
    fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }
}

pub(super) struct Evictor {
    budget: Budget,
    ended: HashMap<PathBuf, Ended>,
    begins: Begins,
}

impl Evictor {
    pub(super) fn new(budget: Budget, begins: Begins) -> Evictor {
        Evictor { budget, ended: HashMap::new(), begins }
    }

    pub(super) fn adopt(&mut self, dir: PathBuf, at: SystemTime) {
        match segment::list(&dir) {
            Ok(listing) => {
                let segments = listing.segments.into();
                self.ended.insert(dir, Ended { segments, at });
            }
            // Removed meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, dir = %dir.display(), "cannot count the journal"),
        }
    }

    pub(super) fn forget(&mut self, dir: &Path) {
        self.ended.remove(dir);
        lock(&self.begins).remove(dir);
    }

    /// Drops segments until the budget holds or nothing droppable is left.
    pub(super) fn enforce(&mut self, live: &[Arc<Session>]) {
        let of_live: u64 = live.iter().map(|session| lock(&session.files).bytes()).sum();
        let of_ended: u64 = self.ended.values().map(Ended::bytes).sum();
        let mut total = of_live + of_ended;
        while total > self.budget.total_bytes {
            match self.drop_ended().or_else(|| drop_live(live)) {
                Some(freed) => total = total.saturating_sub(freed),
                None => return,
            }
        }
    }

    fn drop_ended(&mut self) -> Option<u64> {
        let droppable = self.ended.iter_mut().filter(|(_, ended)| ended.segments.len() > 1);
        let (dir, ended) =
            droppable.max_by_key(|(_, ended)| (ended.bytes(), std::cmp::Reverse(ended.at)))?;
        let dropped = ended.segments.pop_front()?;
        segment::remove(dir, dropped.start);
        if let Some(first) = ended.segments.front() {
            lock(&self.begins).insert(dir.clone(), Seq(first.start));
        }
        Some(dropped.bytes)
    }
}

fn drop_live(live: &[Arc<Session>]) -> Option<u64> {
    let droppable = live.iter().filter(|session| lock(&session.files).segments.len() > 1);
    let largest = droppable.max_by_key(|session| lock(&session.files).bytes())?;
    lock(&largest.files).drop_oldest(largest)
}

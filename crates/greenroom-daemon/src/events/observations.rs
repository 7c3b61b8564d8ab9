//! What observers are told later: facts of sessions and news of plugins, in one bounded queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use greenroom_engine::events::Event;
use greenroom_plugins::host::{News, NewsListener};
use tokio::sync::mpsc;

/// Observations that wait for the task that tells observers: a session must not wait when it prints
/// a burst of titles.
const QUEUE: usize = 4096;

/// Something observers may want to know.
#[derive(Debug)]
pub(crate) enum Observation {
    Fact(Event),
    News(News),
}

/// The sending end of the queue. Cheap to clone; never waits.
#[derive(Clone)]
pub(crate) struct Observations {
    queue: mpsc::Sender<Observation>,
    lost: Arc<AtomicU64>,
}

impl Observations {
    pub(crate) fn new() -> (Observations, mpsc::Receiver<Observation>) {
        let (queue, incoming) = mpsc::channel(QUEUE);
        (Observations { queue, lost: Arc::default() }, incoming)
    }

    pub(crate) fn push(&self, observation: Observation) {
        if self.queue.try_send(observation).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many were lost since the last time this was asked.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

impl NewsListener for Observations {
    fn on_news(&self, news: News) {
        self.push(Observation::News(news));
    }
}

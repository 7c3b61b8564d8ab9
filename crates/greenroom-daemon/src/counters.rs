//! How many connections there are, were refused, and were answered, and how many sessions are being
//! started.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::sync::until;

/// Plain counts for `server.stats`.
#[derive(Default)]
pub(crate) struct Counters {
    requests: AtomicU64,
    connections: AtomicU64,
    refused: AtomicU64,
    /// Sessions that are being started.
    starting: AtomicU64,
    /// The last connection ended.
    alone: Notify,
}

impl Counters {
    pub(crate) fn answered(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Until there is no connection.
    pub(crate) async fn alone(&self) {
        until(&self.alone, || self.connections() == 0).await;
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn starting(&self) -> u64 {
        self.starting.load(Ordering::Relaxed)
    }

    /// Counts a session that is being started as long as the guard lives.
    pub(crate) fn start(&self) -> Starting<'_> {
        self.starting.fetch_add(1, Ordering::Relaxed);
        Starting(self)
    }

    /// Counts a connection as long as the guard lives.
    pub(crate) fn connected(self: &Arc<Counters>) -> Connected {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connected(self.clone())
    }
}

pub(crate) struct Starting<'a>(&'a Counters);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.starting.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) struct Connected(Arc<Counters>);

impl Drop for Connected {
    fn drop(&mut self) {
        let counters = &self.0;
        if counters.connections.fetch_sub(1, Ordering::Relaxed) == 1 {
            counters.alone.notify_waiters();
        }
    }
}

//! Who is attached to what, for `session.info` and for a client that wants to be the only one.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use greenroom_engine::SessionId;
use greenroom_engine::id::ClientId;
use greenroom_protocol::api::session::ClientEntry;
use tokio::sync::Notify;

use crate::sync::lock;

#[derive(Default)]
pub(crate) struct Viewers(Mutex<HashMap<SessionId, BTreeMap<ClientId, Viewer>>>);

struct Viewer {
    entry: ClientEntry,
    replaced: Arc<Notify>,
}

/// A client is listed as long as this lives.
pub(crate) struct Viewing {
    viewers: Arc<Viewers>,
    session: SessionId,
    client: ClientId,
    replaced: Arc<Notify>,
}

impl Viewing {
    /// Until another client wants to be the only one.
    pub(crate) async fn replaced(&self) {
        self.replaced.notified().await;
    }
}

impl Drop for Viewing {
    fn drop(&mut self) {
        let mut viewers = lock(&self.viewers.0);
        if let Some(of_session) = viewers.get_mut(&self.session) {
            of_session.remove(&self.client);
            if of_session.is_empty() {
                viewers.remove(&self.session);
            }
        }
    }
}

impl Viewers {
    pub(crate) fn join(
        self: &Arc<Viewers>,
        session: SessionId,
        client: ClientId,
        entry: ClientEntry,
    ) -> Viewing {
        let replaced = Arc::new(Notify::new());
        let viewer = Viewer { entry, replaced: replaced.clone() };
        lock(&self.0).entry(session).or_default().insert(client, viewer);
        Viewing { viewers: self.clone(), session, client, replaced }
    }

    pub(crate) fn replace_others(&self, session: SessionId, but: ClientId) {
        for (client, viewer) in lock(&self.0).get(&session).into_iter().flatten() {
            if *client != but {
                viewer.replaced.notify_one();
            }
        }
    }

    pub(crate) fn of(&self, session: SessionId) -> Vec<ClientEntry> {
        let viewers = lock(&self.0);
        viewers
            .get(&session)
            .into_iter()
            .flatten()
            .map(|(_, viewer)| viewer.entry.clone())
            .collect()
    }

    pub(crate) fn count(&self) -> usize {
        lock(&self.0).values().map(BTreeMap::len).sum()
    }
}

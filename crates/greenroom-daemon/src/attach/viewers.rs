//! Who is attached to what, for `session.info` and for a client that wants to be the only one.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use greenroom_engine::SessionId;
use greenroom_engine::id::ClientId;
use greenroom_protocol::Timestamp;
use greenroom_protocol::api::screen::Size;
use greenroom_protocol::api::session::ClientEntry;
use tokio::sync::Notify;

use crate::convert;
use crate::host::Host;

#[derive(Default)]
pub struct Viewers(Mutex<HashMap<SessionId, BTreeMap<ClientId, Viewer>>>);

struct Viewer {
    entry: ClientEntry,
    replaced: Arc<Notify>,
}

/// A client is listed as long as this lives.
pub struct Viewing {
    host: Arc<Host>,
    session: SessionId,
    client: ClientId,
    replaced: Arc<Notify>,
}

impl Viewing {
    /// Somebody else wants to be alone.
    pub async fn replaced(&self) {
        self.replaced.notified().await;
    }
}

impl Drop for Viewing {
    fn drop(&mut self) {
        let mut viewers = self.host.viewers.open();
        if let Some(of_session) = viewers.get_mut(&self.session) {
            of_session.remove(&self.client);
            if of_session.is_empty() {
                viewers.remove(&self.session);
            }
        }
    }
}

pub fn entry(
    client: ClientId,
    name: Option<String>,
    pid: Option<u32>,
    read_only: bool,
    size: Option<Size>,
) -> ClientEntry {
    let attached_at = Timestamp::from_system(SystemTime::now());
    ClientEntry { id: convert::client(client), name, pid, read_only, size, attached_at }
}

impl Viewers {
    pub fn join(
        &self,
        host: &Arc<Host>,
        session: SessionId,
        client: ClientId,
        entry: ClientEntry,
    ) -> Viewing {
        let replaced = Arc::new(Notify::new());
        let viewer = Viewer { entry, replaced: replaced.clone() };
        self.open().entry(session).or_default().insert(client, viewer);
        Viewing { host: host.clone(), session, client, replaced }
    }

    pub fn replace_others(&self, session: SessionId, but: ClientId) {
        for (client, viewer) in self.open().get(&session).into_iter().flatten() {
            if *client != but {
                viewer.replaced.notify_one();
            }
        }
    }

    pub fn of(&self, session: SessionId) -> Vec<ClientEntry> {
        let viewers = self.open();
        viewers
            .get(&session)
            .into_iter()
            .flatten()
            .map(|(_, viewer)| viewer.entry.clone())
            .collect()
    }

    pub fn count(&self) -> usize {
        self.open().values().map(BTreeMap::len).sum()
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, BTreeMap<ClientId, Viewer>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

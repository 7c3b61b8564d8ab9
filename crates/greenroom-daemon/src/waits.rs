//! Waits in flight, of all connections.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use greenroom_engine::SessionId;
use greenroom_protocol::Fault;
use tokio::sync::oneshot;

use crate::sync::lock;

const NAME_BYTES: usize = 256;

/// Waits in flight: those with a name can be cancelled from any connection.
#[derive(Default)]
pub(crate) struct Waits {
    named: Mutex<HashMap<String, Waiting>>,
    count: AtomicUsize,
}

struct Waiting {
    session: String,
    cancel: oneshot::Sender<()>,
}

impl Waits {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Lists a wait; one with a name can be cancelled as long as the first part of the answer
    /// lives.
    pub(crate) fn list(
        self: &Arc<Waits>,
        session: SessionId,
        name: Option<String>,
    ) -> Result<(Listed, Option<oneshot::Receiver<()>>), Fault> {
        let cancelled = match &name {
            None => None,
            Some(name) if name.is_empty() || name.len() > NAME_BYTES => {
                return Err(Fault::invalid_params(format!("wait_id has 1 to {NAME_BYTES} bytes")));
            }
            Some(name) => {
                let mut named = lock(&self.named);
                if named.contains_key(name) {
                    return Err(Fault::invalid_params(format!("wait_id {name} is in use")));
                }
                let (cancel, cancelled) = oneshot::channel();
                let session = session.to_string();
                named.insert(name.clone(), Waiting { session, cancel });
                Some(cancelled)
            }
        };
        self.count.fetch_add(1, Ordering::Relaxed);
        Ok((Listed { waits: self.clone(), name }, cancelled))
    }

    /// Cancels the wait with this name: the session it was for, and whether it still waited.
    pub(crate) fn cancel(&self, name: &str) -> Option<(String, bool)> {
        let waiting = lock(&self.named).remove(name)?;
        Some((waiting.session, waiting.cancel.send(()).is_ok()))
    }
}

/// A wait is listed as long as this lives.
pub(crate) struct Listed {
    waits: Arc<Waits>,
    name: Option<String>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.waits.count.fetch_sub(1, Ordering::Relaxed);
        if let Some(name) = &self.name {
            lock(&self.waits.named).remove(name);
        }
    }
}

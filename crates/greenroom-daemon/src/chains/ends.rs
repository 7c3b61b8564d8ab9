//! Waiting for a session's end without being woken by its output.
//!
//! In: the engine's fact that a session exited. Out: whoever waited for that session goes on.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use greenroom_engine::{SessionHandle, SessionId};
use tokio::sync::oneshot;

#[derive(Default)]
pub struct Ends(Mutex<HashMap<SessionId, Vec<oneshot::Sender<()>>>>);

impl Ends {
    /// The engine says that this session has ended.
    pub fn ended(&self, id: SessionId) {
        for waiting in self.waiting().remove(&id).unwrap_or_default() {
            let _ = waiting.send(());
        }
    }

    /// Answers when the session has ended or was removed.
    pub async fn of(&self, handle: &SessionHandle) {
        let (tell, told) = oneshot::channel();
        self.waiting().entry(handle.id()).or_default().push(tell);
        let over = || {
            let change = handle.change();
            change.ended.is_some() || change.closed
        };
        // Looked at only after we are on the list: an end in between is seen here or told there.
        if !over() {
            let _ = told.await;
            let mut changes = handle.changes();
            let _ = changes.wait_for(|change| change.ended.is_some() || change.closed).await;
        }
        self.waiting().remove(&handle.id());
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<SessionId, Vec<oneshot::Sender<()>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

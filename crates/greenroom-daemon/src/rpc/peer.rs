//! What a handler knows of the connection it serves: who is calling, how to push to it, and what
//! it has subscribed to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use greenroom_engine::SessionHandle;
use greenroom_protocol::methods::Scope;
use greenroom_protocol::{Fault, FaultKind};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::rpc::outlet::Outlet;

/// Subscriptions of one connection: each is a task with a queue of its own.
const SUBSCRIPTIONS_MAX: usize = 1024;

/// Longest that pushes of a new session wait for the answer of a call that may have started it.
const ANSWER_FIRST: Duration = Duration::from_secs(1);

/// The door a caller came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The unix socket: the kernel says whose process it is.
    Socket,
    /// HTTP with the token: a browser, perhaps at the other end of a tunnel.
    Http,
}

/// Who is calling, and what that lets them do.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub pid: Option<u32>,
    pub via: Via,
    pub scope: Scope,
    /// Why it may do nothing at all.
    pub refused: Option<&'static str>,
}

impl Caller {
    /// A process of our own user: it could do everything by itself anyway.
    pub fn of_our_user(pid: Option<u32>) -> Caller {
        Caller { pid, via: Via::Socket, scope: Scope::Admin, refused: None }
    }

    /// Whoever shows the token. It may use sessions, but not stop or replace the host, see raw output or hand out
    /// rights: a token that leaked is not the whole host.
    pub fn with_the_token() -> Caller {
        Caller { pid: None, via: Via::Http, scope: Scope::Control, refused: None }
    }

    pub fn may(&self, scope: Scope) -> bool {
        self.refused.is_none() && self.scope >= scope
    }
}

pub struct Peer {
    pub caller: Caller,
    pub outlet: Arc<Outlet>,
    state: Mutex<State>,
    names: AtomicU64,
    /// Sessions being started for this connection, not yet answered.
    creating: watch::Sender<usize>,
}

/// A session is being started, until this is dropped.
pub struct Creating(Arc<Peer>);

impl Drop for Creating {
    fn drop(&mut self) {
        self.0.creating.send_modify(|count| *count -= 1);
    }
}

#[derive(Default)]
struct State {
    subscriptions: HashMap<String, AbortHandle>,
    notifications: Option<AbortHandle>,
    client: Option<String>,
    /// The session asked for last by its id: ids are never used again.
    recent: Option<(String, SessionHandle)>,
    closed: bool,
}

impl Peer {
    pub fn new(caller: Caller, outlet: Arc<Outlet>) -> Peer {
        Peer {
            caller,
            outlet,
            state: Mutex::default(),
            names: AtomicU64::new(1),
            creating: watch::Sender::new(0),
        }
    }

    pub fn creating(self: &Arc<Peer>) -> Creating {
        self.creating.send_modify(|count| *count += 1);
        Creating(self.clone())
    }

    /// Until every session being started for this connection has its answer, within a bound: others' sessions are
    /// told of, too.
    pub async fn created(&self) {
        let mut creating = self.creating.subscribe();
        let _ = tokio::time::timeout(ANSWER_FIRST, creating.wait_for(|count| *count == 0)).await;
    }

    /// A name for a new subscription, unique on this connection.
    pub fn next_name(&self, kind: char) -> String {
        format!("{kind}{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    pub fn room_for_subscription(&self) -> Result<(), Fault> {
        let state = self.state();
        if state.subscriptions.len() >= SUBSCRIPTIONS_MAX {
            let message = format!(
                "cannot subscribe: this connection has {SUBSCRIPTIONS_MAX} subscriptions already"
            );
            return Err(Fault::new(FaultKind::Busy, message));
        }
        Ok(())
    }

    /// Keeps a subscription's task until it is ended or the connection is.
    pub fn subscribed(&self, name: String, task: AbortHandle) {
        let mut state = self.state();
        if state.closed {
            task.abort();
            return;
        }
        state.subscriptions.retain(|_, task| !task.is_finished());
        state.subscriptions.insert(name, task);
    }

    pub fn unsubscribe(&self, name: &str) -> bool {
        let removed = self.state().subscriptions.remove(name);
        removed.is_some_and(|task| {
            let lived = !task.is_finished();
            task.abort();
            lived
        })
    }

    /// Replaces what pushes `session.changed` and so on, or turns it off.
    pub fn notify_by(&self, task: Option<AbortHandle>) {
        let mut state = self.state();
        let task = match (state.closed, task) {
            (true, Some(task)) => {
                task.abort();
                None
            }
            (_, task) => task,
        };
        if let Some(old) = std::mem::replace(&mut state.notifications, task) {
            old.abort();
        }
    }

    pub fn client(&self) -> Option<String> {
        self.state().client.clone()
    }

    pub fn calls_itself(&self, client: &str) {
        self.state().client = Some(client.chars().take(100).collect());
    }

    pub fn recent(&self, text: &str) -> Option<SessionHandle> {
        let mut state = self.state();
        // One that is gone must not be kept open by whoever looked at it last.
        state.recent.take_if(|(_, handle)| handle.change().closed);
        let (name, handle) = state.recent.as_ref()?;
        (name == text).then(|| handle.clone())
    }

    pub fn remember(&self, handle: &SessionHandle) {
        self.state().recent = Some((handle.id().to_string(), handle.clone()));
    }

    /// The connection is over, or becomes something else: nothing more is pushed.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        for task in state.subscriptions.drain().map(|(_, task)| task).collect::<Vec<_>>() {
            task.abort();
        }
        if let Some(task) = state.notifications.take() {
            task.abort();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

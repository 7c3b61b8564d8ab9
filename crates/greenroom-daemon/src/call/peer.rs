//! What a handler knows of the connection it serves: who is calling, how to push to it, and what
//! it has subscribed to.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use greenroom_engine::SessionHandle;
use greenroom_protocol::events::Push;
use greenroom_protocol::{Fault, FaultKind, rpc};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::call::caller::Caller;
use crate::call::outlet::Outlet;
use crate::sync::lock;

/// Subscriptions of one connection: each is a task with a queue of its own.
const SUBSCRIPTIONS_MAX: usize = 1024;

/// Longest that pushes of a new session wait for the answer of a call that may have started it.
const ANSWER_FIRST: Duration = Duration::from_secs(1);

pub(crate) struct Peer {
    pub caller: Caller,
    pub outlet: Arc<Outlet>,
    state: Mutex<State>,
    names: AtomicU64,
    /// Sessions being started for this connection, not yet answered.
    creating: watch::Sender<usize>,
}

/// A session is being started, until this is dropped.
pub(crate) struct Creating(Arc<Peer>);

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
    pub(crate) fn new(caller: Caller, outlet: Arc<Outlet>) -> Peer {
        Peer {
            caller,
            outlet,
            state: Mutex::default(),
            names: AtomicU64::new(1),
            creating: watch::Sender::new(0),
        }
    }

    pub(crate) fn creating(self: &Arc<Peer>) -> Creating {
        self.creating.send_modify(|count| *count += 1);
        Creating(self.clone())
    }

    /// Until every session being started for this connection has its answer, within a bound:
    /// others' sessions are told of, too.
    pub(crate) async fn created(&self) {
        let mut creating = self.creating.subscribe();
        let _ = tokio::time::timeout(ANSWER_FIRST, creating.wait_for(|count| *count == 0)).await;
    }

    /// Sends a notification, once there is room for it. False when the client is gone.
    pub(crate) async fn push(&self, push: &impl Push) -> bool {
        match rpc::encode_push(push) {
            Ok(text) => self.outlet.push(&text).await,
            Err(_) => true,
        }
    }

    /// A name for a new subscription, unique on this connection.
    pub(crate) fn next_name(&self, kind: char) -> String {
        format!("{kind}{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn room_for_subscription(&self) -> Result<(), Fault> {
        if lock(&self.state).subscriptions.len() < SUBSCRIPTIONS_MAX {
            return Ok(());
        }
        let most = SUBSCRIPTIONS_MAX;
        let message = format!("cannot subscribe: this connection has {most} subscriptions already");
        Err(Fault::new(FaultKind::Busy, message))
    }

    /// Keeps a subscription's task until it is ended or the connection is.
    pub(crate) fn subscribed(&self, name: String, task: AbortHandle) {
        let mut state = lock(&self.state);
        if state.closed {
            task.abort();
            return;
        }
        state.subscriptions.retain(|_, task| !task.is_finished());
        state.subscriptions.insert(name, task);
    }

    pub(crate) fn unsubscribe(&self, name: &str) -> bool {
        let removed = lock(&self.state).subscriptions.remove(name);
        removed.is_some_and(|task| {
            let lived = !task.is_finished();
            task.abort();
            lived
        })
    }

    /// Replaces what pushes `session.changed` and so on, or turns it off.
    pub(crate) fn notify_by(&self, task: Option<AbortHandle>) {
        let mut state = lock(&self.state);
        let old = std::mem::replace(&mut state.notifications, task);
        let ended = if state.closed { state.notifications.take() } else { None };
        old.into_iter().chain(ended).for_each(|task| task.abort());
    }

    pub(crate) fn client(&self) -> Option<String> {
        lock(&self.state).client.clone()
    }

    pub(crate) fn calls_itself(&self, client: &str) {
        lock(&self.state).client = Some(client.chars().take(100).collect());
    }

    pub(crate) fn recent(&self, text: &str) -> Option<SessionHandle> {
        let mut state = lock(&self.state);
        // A removed session must not be kept open by the connection that looked at it last.
        state.recent.take_if(|(_, handle)| handle.change().closed);
        let (name, handle) = state.recent.as_ref()?;
        (name == text).then(|| handle.clone())
    }

    pub(crate) fn remember(&self, handle: &SessionHandle) {
        lock(&self.state).recent = Some((handle.id().to_string(), handle.clone()));
    }

    /// The connection is over, or becomes something else: nothing more is pushed.
    pub(crate) fn close(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        let State { subscriptions, notifications, .. } = &mut *state;
        let tasks = subscriptions.drain().map(|(_, task)| task).chain(notifications.take());
        tasks.for_each(|task| task.abort());
    }
}

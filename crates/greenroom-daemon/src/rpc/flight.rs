//! The requests of one connection that have no answer yet: each id is answered once, by the task
//! that takes it out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use greenroom_protocol::rpc;
use greenroom_protocol::{Fault, FaultKind, Id};
use tokio::sync::{Notify, oneshot, watch};

use crate::call::peer::Creating;
use crate::call::{Body, Call};
use crate::sync::{lock, until};

/// Requests in flight. The task that takes an id out of the table answers that id, so each is
/// answered once.
#[derive(Default)]
pub(crate) struct Flight {
    open: Mutex<HashMap<Id, Work>>,
    /// Answers that are being written: their ids are free again, but a connection must not end
    /// between the two.
    writing: AtomicUsize,
    landed: Notify,
    /// Requests without an answer are given up: a task that answers a whole batch sends what it has
    /// now.
    pub given_up: watch::Sender<bool>,
}

pub(crate) enum Work {
    /// Goes on without its caller, such as an upgrade; also one that has not had to wait yet.
    Detached,
    /// Ends when told to, and answers that itself. `None`: it was told already.
    Cancellable(Option<oneshot::Sender<()>>),
}

impl Flight {
    pub(crate) fn open(&self) -> MutexGuard<'_, HashMap<Id, Work>> {
        lock(&self.open)
    }

    /// Takes an id out; whoever gets true has to answer it.
    pub(crate) fn land(&self, id: &Id) -> bool {
        let taken = self.open().remove(id).is_some();
        self.landed.notify_waiters();
        taken
    }

    /// Until no request is left that goes on without its caller.
    pub(crate) async fn detached_landed(&self) {
        self.none(|work| matches!(work, Work::Detached)).await;
    }

    /// Until no request is left.
    pub(crate) async fn all_landed(&self) {
        self.none(|_| true).await;
    }

    async fn none(&self, of: impl Fn(&Work) -> bool) {
        let written = || self.writing.load(Ordering::Acquire) == 0;
        until(&self.landed, || !self.open().values().any(&of) && written()).await;
    }

    fn writing(&self) -> Writing<'_> {
        self.writing.fetch_add(1, Ordering::AcqRel);
        Writing(self)
    }
}

/// An answer is being written, until this is dropped.
struct Writing<'a>(&'a Flight);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.writing.fetch_sub(1, Ordering::AcqRel);
        self.0.landed.notify_waiters();
    }
}

/// The duty to answer one request. Dropped without an answer (a handler that panicked) it answers
/// for itself.
pub(crate) struct Answering {
    pub flight: Arc<Flight>,
    pub call: Call,
    pub id: Id,
    /// After that the client may use the id for another request.
    pub answered: bool,
    /// Kept until the answer is written: what a new session prints is pushed after it.
    pub _creating: Option<Creating>,
}

impl Answering {
    pub(crate) fn with(&mut self, outcome: Result<Body, Fault>) {
        self.answered = true;
        let _writing = self.flight.writing();
        if self.flight.land(&self.id) {
            self.call.host.edge.counters.answered();
            self.call.peer.outlet.reply(&self.id, &answer(&self.id, &outcome));
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if !self.answered {
            let message = "our bug: the request ended without an answer";
            let fault = Fault::new(FaultKind::Internal, message).hint("greenroom logs shows more");
            self.with(Err(fault));
        }
    }
}

/// The text of an answer. Written by hand around the body, which may be shared and large.
pub(crate) fn answer(id: &Id, outcome: &Result<Body, Fault>) -> String {
    match outcome {
        Err(fault) => rpc::encode_fault(id, fault),
        Ok(Body(body)) => {
            let id = serde_json::to_string(id).expect("an id is a number, a text or null");
            let mut text = String::with_capacity(body.len() + id.len() + 40);
            text.push_str("{\"jsonrpc\":\"2.0\",\"id\":");
            text.push_str(&id);
            text.push_str(",\"result\":");
            text.push_str(body);
            text.push('}');
            text
        }
    }
}

/// The answer to a request that the host gives up: silence would tell the client nothing.
pub(crate) fn unanswered(why: &str) -> Fault {
    let message = format!("there is no answer yet, and none will follow: {why}");
    Fault::new(FaultKind::Unavailable, message).hint("what was begun may go on")
}

//! What one connection has been asked and not yet answered: each id is answered once, by whoever takes it out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use greenroom_protocol::rpc;
use greenroom_protocol::{Fault, FaultKind, Id};
use tokio::sync::{Notify, oneshot, watch};

use crate::rpc::peer::Creating;
use crate::rpc::router::{Body, Call};

/// What is in flight. Whoever takes an id out of it answers that id, so each is answered once.
#[derive(Default)]
pub struct Flight {
    open: Mutex<HashMap<Id, Work>>,
    /// Answers that are being written: their ids are free again, but a connection must not end between the two.
    writing: AtomicUsize,
    landed: Notify,
    /// What has not landed is given up: whoever answers for several tells so now.
    pub given_up: watch::Sender<bool>,
}

pub enum Work {
    /// Goes on without its caller, such as an upgrade; also one that has not had to wait yet.
    Detached,
    /// Ends when told to, and answers that itself. `None`: it was told already.
    Cancellable(Option<oneshot::Sender<()>>),
}

impl Flight {
    pub fn open(&self) -> MutexGuard<'_, HashMap<Id, Work>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an id out; whoever gets true has to answer it.
    pub fn land(&self, id: &Id) -> bool {
        let taken = self.open().remove(id).is_some();
        self.landed.notify_waiters();
        taken
    }

    /// Until nothing is left that goes on without its caller.
    pub async fn detached_landed(&self) {
        self.none(|work| matches!(work, Work::Detached)).await;
    }

    /// Until nothing is left.
    pub async fn all_landed(&self) {
        self.none(|_| true).await;
    }

    async fn none(&self, of: impl Fn(&Work) -> bool) {
        loop {
            let landed = self.landed.notified();
            let open = self.open().values().any(&of);
            if !open && self.writing.load(Ordering::Acquire) == 0 {
                return;
            }
            landed.await;
        }
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
pub struct Answering {
    pub flight: Arc<Flight>,
    pub call: Call,
    pub id: Id,
    /// Its id may be in use again by now.
    pub answered: bool,
    /// Kept until the answer is written: what a new session prints is pushed after it.
    pub _creating: Option<Creating>,
}

impl Answering {
    pub fn with(&mut self, outcome: Result<Body, Fault>) {
        self.answered = true;
        let _writing = self.flight.writing();
        if self.flight.land(&self.id) {
            self.call.host.counters.answered();
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
pub fn answer(id: &Id, outcome: &Result<Body, Fault>) -> String {
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

/// What is said where silence would tell nothing.
pub fn unanswered(why: &str) -> Fault {
    let message = format!("there is no answer yet, and none will follow: {why}");
    Fault::new(FaultKind::Unavailable, message).hint("what was begun may go on")
}

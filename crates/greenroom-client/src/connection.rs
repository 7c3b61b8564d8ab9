//! One socket with many calls in flight.
//!
//! A writer task owns the sending half, so that a caller that gives up in the middle cannot leave
//! half a request on the wire; a reader task hands each answer to its caller and each push to the
//! subscribers. A caller that is dropped cancels its request.
//! Absent on purpose: connecting again, meaning of methods.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use greenroom_protocol::frame::{FrameDecoder, Framing};
use greenroom_protocol::rpc::{self, CancelParams, Id, Incoming, Item, Message};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Notify, broadcast, mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::connect::keeper_of;
use crate::error::ClientError;
use crate::notifications::Push;
use crate::wire::{READ_BYTES, encode};

/// Requests waiting for the writer; a caller waits for room.
const QUEUE: usize = 64;
/// Calls in flight on one connection; one more is refused.
const IN_FLIGHT: usize = 4096;

/// How a call ended without a result.
#[derive(Debug)]
pub(crate) enum CallFailure {
    /// The host said no, or the request could not be made.
    Failed(ClientError),
    /// The connection ended first.
    Lost {
        /// The host may have seen the request.
        written: bool,
    },
}

#[derive(Debug)]
pub(crate) struct Connection {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Outgoing>,
    tasks: [JoinHandle<()>; 2],
    keeper: Option<i32>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    pushes: broadcast::Sender<Push>,
    /// There is something in `State::cancels`.
    cancelled: Notify,
}

#[derive(Debug, Default)]
struct State {
    next_id: u64,
    pending: HashMap<u64, Pending>,
    /// Written requests whose callers have gone; at most as many as were in flight.
    cancels: Vec<u64>,
    dead: bool,
}

type Answer = Result<Box<RawValue>, CallFailure>;

#[derive(Debug)]
struct Pending {
    answer: oneshot::Sender<Answer>,
    written: bool,
}

#[derive(Debug)]
struct Outgoing {
    id: u64,
    bytes: Vec<u8>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every call in flight, once.
    fn die(&self) {
        let pending = {
            let mut state = self.lock();
            state.dead = true;
            std::mem::take(&mut state.pending)
        };
        for (_, Pending { answer, written }) in pending {
            // A caller that has gone needs no answer.
            let _ = answer.send(Err(CallFailure::Lost { written }));
        }
        // No listener is no error.
        let _ = self.pushes.send(Push::Disconnected);
    }
}

impl Connection {
    pub(crate) fn new(stream: UnixStream, pushes: broadcast::Sender<Push>) -> Connection {
        let keeper = keeper_of(&stream);
        let (reader, writer) = stream.into_split();
        let shared = Arc::new(Shared { state: Mutex::default(), pushes, cancelled: Notify::new() });
        let (queue, jobs) = mpsc::channel(QUEUE);
        let tasks = [
            tokio::spawn(write(writer, jobs, Arc::clone(&shared))),
            tokio::spawn(read(reader, Arc::clone(&shared))),
        ];
        Connection { shared, queue, tasks, keeper }
    }

    /// The process that listens for the host, if the kernel tells.
    pub(crate) fn keeper(&self) -> Option<i32> {
        self.keeper
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.shared.lock().dead
    }

    /// Calls and waits. Dropping the future cancels the request.
    pub(crate) async fn call<P: Serialize>(&self, method: &str, params: &P) -> Answer {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut state = self.shared.lock();
            if state.dead {
                return Err(CallFailure::Lost { written: false });
            }
            if state.pending.len() >= IN_FLIGHT {
                let method = method.to_owned();
                return Err(CallFailure::Failed(ClientError::Busy { method, limit: IN_FLIGHT }));
            }
            state.next_id += 1;
            let id = state.next_id;
            state.pending.insert(id, Pending { answer, written: false });
            id
        };
        let _guard = CancelOnDrop { shared: &self.shared, id };
        let bytes = encode(&Id::from(id), method, params).map_err(CallFailure::Failed)?;
        // A closed queue means that the writer has died; the answer says so, too.
        let _ = self.queue.send(Outgoing { id, bytes }).await;
        answered.await.unwrap_or(Err(CallFailure::Lost { written: true }))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Closes the socket: the host ends what is left of ours.
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Takes the call out of the table; if it is still there, nobody has answered it.
struct CancelOnDrop<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.pending.remove(&self.id).is_some_and(|pending| pending.written) {
            state.cancels.push(self.id);
            self.shared.cancelled.notify_one();
        }
    }
}

async fn write(
    mut writer: OwnedWriteHalf,
    mut jobs: mpsc::Receiver<Outgoing>,
    shared: Arc<Shared>,
) {
    loop {
        let bytes = tokio::select! {
            job = jobs.recv() => {
                let Some(job) = job else { break };
                let mut state = shared.lock();
                // Gone before it was written: the host need not know.
                let Some(pending) = state.pending.get_mut(&job.id) else { continue };
                pending.written = true;
                job.bytes
            }
            () = shared.cancelled.notified() => cancels(&shared),
        };
        if writer.write_all(&bytes).await.is_err() {
            break;
        }
    }
    // The host is gone, but its last answers may still be unread: the reader ends the calls.
    shared.lock().dead = true;
}

fn cancels(shared: &Shared) -> Vec<u8> {
    let ids = std::mem::take(&mut shared.lock().cancels);
    let mut bytes = Vec::new();
    for id in ids {
        let text = rpc::encode_notification(rpc::CANCEL_METHOD, &CancelParams { id: id.into() });
        bytes.extend_from_slice(text.expect("an id is JSON").as_bytes());
        bytes.push(b'\n');
    }
    bytes
}

async fn read(mut reader: OwnedReadHalf, shared: Arc<Shared>) {
    let mut decoder = FrameDecoder::with_framing(Framing::Ndjson);
    let mut chunk = vec![0; READ_BYTES];
    while let Ok(count @ 1..) = reader.read(&mut chunk).await {
        decoder.push(&chunk[..count]);
        while let Some(frame) = decoder.next() {
            // An answer we cannot read ends the connection, or its caller would wait for ever.
            let Ok(text) = frame else { return shared.die() };
            match rpc::parse(text) {
                Incoming::One(item) => accept(item, &shared),
                Incoming::Batch(items) => items.into_iter().for_each(|item| accept(item, &shared)),
            }
        }
    }
    shared.die();
}

fn accept(item: Item<'_>, shared: &Shared) {
    match item {
        Ok(Message::Response(response)) => {
            let Id::Number(id) = &response.id else { return };
            let pending = id.as_u64().and_then(|id| shared.lock().pending.remove(&id));
            // Unknown ids are answers to calls that were cancelled.
            let Some(Pending { answer, .. }) = pending else { return };
            let result = response.outcome.map(RawValue::to_owned);
            let _ = answer.send(result.map_err(|fault| CallFailure::Failed(fault.into())));
        }
        Ok(Message::Notification(push)) => {
            let params = push.params.map_or_else(|| RawValue::NULL.to_owned(), RawValue::to_owned);
            // No subscriber is no error.
            let _ = shared.pushes.send(Push::Notification {
                method: push.method.into_owned(),
                params: params.into(),
            });
        }
        // The host asks nothing of us.
        Ok(Message::Request(_)) | Err(_) => {}
    }
}

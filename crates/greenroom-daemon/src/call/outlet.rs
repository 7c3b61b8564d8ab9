//! The way out of one connection: whole frames, in order, never waiting under a lock.
//!
//! A task that has something to say writes it to the socket itself; only what the socket does not
//! take is queued, and the connection's task writes it when there is room. Replies are always
//! taken: the connection stops reading requests while too much is queued. Pushes wait for room,
//! each on the task of its subscription, so a client that does not read holds up nobody but itself.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use greenroom_protocol::frame::{self, Framing};
use greenroom_protocol::rpc;
use greenroom_protocol::{Fault, FaultKind, Id};
use tokio::net::UnixStream;
use tokio::sync::Notify;

use crate::sync::{lock, until};

/// Queued bytes above which pushes wait and no more requests are read.
const HIGH_WATER: usize = 256 * 1024;

/// A queue that grew beyond this gives its memory back when it is empty.
const KEEP_CAP: usize = 64 * 1024;

pub(crate) struct Outlet {
    /// `None`: nothing can be pushed there.
    stream: Option<Arc<UnixStream>>,
    queue: Mutex<Queue>,
    /// `queue`'s length, readable without its lock.
    queued: AtomicUsize,
    /// There is something to flush.
    stuck: Notify,
    /// There is room again.
    room: Notify,
    /// Nothing is queued any more.
    drained: Notify,
}

struct Queue {
    framing: Framing,
    bytes: Vec<u8>,
    written: usize,
    closed: bool,
}

impl Outlet {
    pub(crate) fn new(stream: Arc<UnixStream>) -> Outlet {
        Outlet::to(Some(stream))
    }

    /// For a caller that gets one answer and no pushes.
    pub(crate) fn nowhere() -> Outlet {
        Outlet::to(None)
    }

    fn to(stream: Option<Arc<UnixStream>>) -> Outlet {
        let closed = stream.is_none();
        let queue = Queue { framing: Framing::Ndjson, bytes: Vec::new(), written: 0, closed };
        Outlet {
            stream,
            queue: Mutex::new(queue),
            queued: AtomicUsize::new(0),
            stuck: Notify::new(),
            room: Notify::new(),
            drained: Notify::new(),
        }
    }

    /// Answers in the framing the client speaks.
    pub(crate) fn speak(&self, framing: Framing) {
        lock(&self.queue).framing = framing;
    }

    /// A reply. One over the frame cap becomes a fault that says so.
    pub(crate) fn reply(&self, id: &Id, text: &str) {
        if !self.put(text) {
            let message = format!(
                "an answer of {} bytes is over the limit of {} bytes",
                text.len(),
                frame::FRAME_CAP
            );
            let fault = Fault::new(FaultKind::TooLarge, message).hint("ask for less at once");
            self.put(&rpc::encode_fault(id, &fault));
        }
    }

    /// A notification, once there is room for it. False when the client is gone.
    pub(crate) async fn push(&self, text: &str) -> bool {
        let closed = || lock(&self.queue).closed;
        until(&self.room, || closed() || !self.is_full()).await;
        let open = !closed();
        if open {
            self.put(text);
        }
        open
    }

    pub(crate) fn is_full(&self) -> bool {
        self.queued.load(Ordering::Acquire) > HIGH_WATER
    }

    /// Until less is queued than stops the reading of requests.
    pub(crate) async fn room(&self) {
        until(&self.room, || !self.is_full()).await;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queued.load(Ordering::Acquire) == 0
    }

    /// Until everything queued is written, by whoever drives.
    pub(crate) async fn drained(&self) {
        until(&self.drained, || self.is_empty()).await;
    }

    /// Nothing will be written any more; whoever waits is let go.
    pub(crate) fn close(&self) {
        lock(&self.queue).closed = true;
        self.room.notify_waiters();
    }

    /// Writes what is queued whenever the socket has room. Ends only with the socket.
    pub(crate) async fn drive(&self) -> io::Error {
        loop {
            if self.is_empty() {
                self.stuck.notified().await;
                continue;
            }
            let Some(stream) = &self.stream else { return io::ErrorKind::NotConnected.into() };
            if let Err(error) = stream.writable().await {
                return error;
            }
            let mut queue = lock(&self.queue);
            if let Err(error) = self.flush(&mut queue) {
                return error;
            }
        }
    }

    /// False when the text is over the frame cap.
    fn put(&self, text: &str) -> bool {
        let mut queue = lock(&self.queue);
        if queue.closed {
            return true;
        }
        let framing = queue.framing;
        if frame::encode(framing, text, &mut queue.bytes).is_err() {
            return false;
        }
        // A dead socket is noticed by the reader; what is queued goes with the connection.
        let _ = self.flush(&mut queue);
        if queue.len() > 0 {
            self.stuck.notify_one();
        }
        true
    }

    fn flush(&self, queue: &mut Queue) -> io::Result<()> {
        let Some(stream) = &self.stream else { return Ok(()) };
        let result = loop {
            if queue.len() == 0 {
                queue.reset();
                break Ok(());
            }
            match stream.try_write(&queue.bytes[queue.written..]) {
                Ok(written) => queue.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    queue.compact();
                    break Ok(());
                }
                Err(error) => break Err(error),
            }
        };
        let was_full = self.is_full();
        self.queued.store(queue.len(), Ordering::Release);
        if was_full && !self.is_full() {
            self.room.notify_waiters();
        }
        if self.is_empty() {
            self.drained.notify_waiters();
        }
        result
    }
}

impl Queue {
    fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    fn reset(&mut self) {
        self.bytes.clear();
        self.written = 0;
        if self.bytes.capacity() > KEEP_CAP {
            self.bytes = Vec::new();
        }
    }

    /// Moves what is left to the front once that is worth the copy.
    fn compact(&mut self) {
        if self.written > self.len() {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn a_reader_that_stops_holds_up_only_pushes() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let outlet = Arc::new(Outlet::new(Arc::new(here)));
        let line = "x".repeat(100_000);
        for _ in 0..20 {
            outlet.reply(&Id::from(1), &line);
        }
        assert!(outlet.is_full());
        let pushing = {
            let outlet = outlet.clone();
            tokio::spawn(async move { outlet.push("last").await })
        };
        tokio::task::yield_now().await;
        assert!(!pushing.is_finished());
        let driving = {
            let outlet = outlet.clone();
            tokio::spawn(async move { outlet.drive().await })
        };
        let mut got = vec![0; 20 * 100_001 + 5];
        there.read_exact(&mut got).await.unwrap();
        assert!(got.ends_with(b"x\nlast\n"));
        assert!(pushing.await.unwrap());
        driving.abort();
    }

    #[tokio::test]
    async fn closing_lets_waiting_pushes_go() {
        let (here, there) = UnixStream::pair().unwrap();
        let outlet = Arc::new(Outlet::new(Arc::new(here)));
        while !outlet.is_full() {
            outlet.reply(&Id::from(1), &"x".repeat(100_000));
        }
        let pushing = {
            let outlet = outlet.clone();
            tokio::spawn(async move { outlet.push("never").await })
        };
        tokio::task::yield_now().await;
        outlet.close();
        assert!(!pushing.await.unwrap());
        drop(there);
    }

    #[tokio::test]
    async fn an_answer_over_the_cap_becomes_a_fault() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let outlet = Outlet::new(Arc::new(here));
        outlet.reply(&Id::from(7), &"x".repeat(frame::FRAME_CAP + 1));
        let mut got = vec![0; 400];
        let read = there.read(&mut got).await.unwrap();
        let text = std::str::from_utf8(&got[..read]).unwrap();
        assert!(text.contains("too_large") && text.contains("\"id\":7"), "{text}");
    }
}

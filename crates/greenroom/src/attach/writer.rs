//! Writes to the user's terminal on a thread of its own.
//!
//! In: pieces of output through a bounded queue. Out: bytes on stdout, in order. A terminal that
//! does not read (Ctrl-S, a slow line) holds up this thread and, through the queue, the stream from
//! the host; keys still reach the session.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use crate::error::Failure;

/// Pieces waiting for the terminal. Few: what waits here is seen late.
const QUEUE: usize = 8;

/// The queue to the terminal.
pub struct Writer {
    pub queue: Sender<Vec<u8>>,
    done: oneshot::Receiver<()>,
}

impl Writer {
    /// Starts the thread.
    pub fn start() -> Result<Writer, Failure> {
        let failed = |error: io::Error| Failure::io("cannot write to the terminal", &error);
        let out = io::stdout().as_fd().try_clone_to_owned().map_err(failed)?;
        let (queue, pieces) = channel(QUEUE);
        let (finished, done) = oneshot::channel();
        std::thread::Builder::new()
            .name("terminal-writer".to_owned())
            .spawn(move || {
                write_all(&out, pieces);
                // Nobody waits any more if the user left meanwhile.
                let _ = finished.send(());
            })
            .map_err(failed)?;
        Ok(Writer { queue, done })
    }

    /// Lets the thread write what is queued, within `patience`.
    pub async fn finish(self, patience: Duration) {
        drop(self.queue);
        // We leave in any case.
        let _ = tokio::time::timeout(patience, self.done).await;
    }
}

fn write_all(out: &OwnedFd, mut pieces: Receiver<Vec<u8>>) {
    while let Some(piece) = pieces.blocking_recv() {
        let mut rest = &piece[..];
        while !rest.is_empty() {
            match rustix::io::write(out, rest) {
                Ok(written) => rest = &rest[written..],
                Err(rustix::io::Errno::INTR) => {}
                // Somebody made our terminal non-blocking: wait for it.
                Err(rustix::io::Errno::AGAIN) => {
                    let mut fds = [rustix::event::PollFd::new(out, rustix::event::PollFlags::OUT)];
                    let _ = rustix::event::poll(&mut fds, None);
                }
                Err(_) => return,
            }
        }
    }
}

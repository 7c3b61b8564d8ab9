//! The way in: bytes typed at a session, in order, without waiting.
//!
//! A caller writes to the PTY on its own task; the actor is not asked. What
//! the kernel does not take at once (the program is not reading) queues up to
//! [`QUEUE_BYTES`] and is flushed by the actor when the PTY has room.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, watch};

use crate::lock::lock;
use crate::session::terminal::Master;

/// A program that reads nothing can be sent this much before writers are told
/// so: room for a large paste, not for a runaway script.
pub(crate) const QUEUE_BYTES: usize = 1024 * 1024;

/// Answers to terminal queries stop queueing here. A program that asks and
/// never reads would otherwise fill the queue people type into.
const REPLY_BYTES: usize = 64 * 1024;

#[derive(Clone)]
pub(crate) struct Input {
    queue: Arc<Mutex<Queue>>,
    /// Wakes the actor: there is something to flush.
    pub wanted: Arc<Notify>,
    flushed: Arc<watch::Sender<Flushed>>,
}

/// How far the kernel has taken what was typed.
#[derive(Default)]
struct Flushed {
    upto: u64,
    /// It will take no more.
    closed: bool,
}

struct Queue {
    /// `None` once nothing can be typed any more: the terminal is let go.
    master: Option<Master>,
    waiting: VecDeque<u8>,
    accepted: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum InputError {
    #[error("its terminal is closed")]
    Closed,
    #[error("the program does not read its input: {waiting} bytes are waiting")]
    Full { waiting: usize },
    #[error("writing to its terminal: {0}")]
    Write(io::Error),
}

impl Input {
    pub(crate) fn new(master: Master) -> Input {
        Input {
            queue: Arc::new(Mutex::new(Queue {
                master: Some(master),
                waiting: VecDeque::new(),
                accepted: 0,
            })),
            wanted: Arc::new(Notify::new()),
            flushed: Arc::new(watch::Sender::default()),
        }
    }

    /// Writes all of `bytes`; returns the position after them, to be given to [`Input::reached`].
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<u64, InputError> {
        let mut queue = self.queue();
        let Some(master) = queue.master.clone() else { return Err(InputError::Closed) };
        if queue.waiting.len() + bytes.len() > QUEUE_BYTES {
            return Err(InputError::Full { waiting: queue.waiting.len() });
        }
        let mut taken = 0;
        if queue.waiting.is_empty() {
            taken = write_some(&master, bytes).map_err(InputError::Write)?;
            self.flushed.send_modify(|flushed| flushed.upto += taken as u64);
        }
        queue.accepted += bytes.len() as u64;
        if taken < bytes.len() {
            queue.waiting.extend(&bytes[taken..]);
            self.wanted.notify_one();
        }
        Ok(queue.accepted)
    }

    /// Writes what the terminal itself answers; dropped when nobody reads.
    pub(crate) fn reply(&self, bytes: &[u8]) -> bool {
        if self.queue().waiting.len() + bytes.len() > REPLY_BYTES {
            return false;
        }
        self.write(bytes).is_ok()
    }

    /// Waits until everything up to `position` is in the kernel. False when
    /// the terminal closed first.
    pub(crate) async fn reached(&self, position: u64) -> bool {
        let mut flushed = self.flushed.subscribe();
        // What was typed may be what ended the program: it was taken all the same.
        let over = flushed.wait_for(|done| done.upto >= position || done.closed).await;
        over.is_ok_and(|done| done.upto >= position)
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.queue().waiting.is_empty()
    }

    /// Waits until the kernel takes bytes again. Only the actor calls this.
    pub(crate) async fn flush(&self) {
        let Some(master) = self.queue().master.clone() else { return };
        let Ok(mut ready) = master.writable().await else { return };
        let mut queue = self.queue();
        while !queue.waiting.is_empty() {
            let (front, _) = queue.waiting.as_slices();
            match write_some(&master, front) {
                Ok(0) => {
                    ready.clear_ready();
                    return;
                }
                Ok(taken) => {
                    queue.waiting.drain(..taken);
                    self.flushed.send_modify(|flushed| flushed.upto += taken as u64);
                }
                Err(_) => {
                    queue.waiting.clear();
                    return;
                }
            }
        }
    }

    /// Nothing can be typed any more; waiting writers are answered.
    pub(crate) fn close(&self) {
        let mut queue = self.queue();
        queue.master = None;
        queue.waiting.clear();
        self.flushed.send_modify(|flushed| flushed.closed = true);
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }
}

/// 0 when the kernel has no room.
fn write_some(master: &Master, bytes: &[u8]) -> io::Result<usize> {
    if bytes.is_empty() {
        return Ok(0);
    }
    match rustix::io::retry_on_intr(|| rustix::io::write(master.get_ref(), bytes)) {
        Err(rustix::io::Errno::AGAIN) => Ok(0),
        taken => Ok(taken?),
    }
}

#[cfg(test)]
mod tests {
    use rustix::pty::{OpenptFlags, openpt, unlockpt};

    use super::*;

    #[tokio::test]
    async fn what_ended_the_program_was_typed() {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        unlockpt(&master).unwrap();
        rustix::io::ioctl_fionbio(&master, true).unwrap();
        let input = Input::new(crate::session::terminal::watch(master).unwrap());
        let position = input.write(b"exit\r").unwrap();
        input.close();
        assert!(input.reached(position).await, "it was taken before the end");
        assert!(!input.reached(position + 1).await, "more was not");
        assert!(matches!(input.write(b"x"), Err(InputError::Closed)));
    }
}

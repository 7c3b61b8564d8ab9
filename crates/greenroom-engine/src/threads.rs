//! The threads sessions live on.
//!
//! A session stays on one thread for life, and so does whoever is attached to it: a byte goes from
//! the PTY to the screen and to the attached client without waking another thread. A work-stealing
//! runtime wakes a second worker for many of these steps. What that cost is in
//! `docs/decisions/001-session-threads.md`.

use std::io;
use std::sync::Arc;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::id::SessionId;

/// Owns the threads: they end, with every task on them, when this is dropped.
pub struct SessionThreads {
    threads: Threads,
    running: Vec<(oneshot::Sender<()>, std::thread::JoinHandle<()>)>,
}

/// Where to put a session. Cheap to clone.
#[derive(Clone)]
pub struct Threads(Arc<[Handle]>);

impl SessionThreads {
    pub fn start(count: usize) -> io::Result<SessionThreads> {
        let mut handles = Vec::new();
        let mut running = Vec::new();
        for number in 0..count.max(1) {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (stop, stopped) = oneshot::channel::<()>();
            handles.push(runtime.handle().clone());
            let thread = std::thread::Builder::new().name(format!("sessions-{number}")).spawn(
                move || {
                    // Either way it is over: told so, or the owner is gone.
                    let _ = runtime.block_on(stopped);
                    runtime.shutdown_background();
                },
            )?;
            running.push((stop, thread));
        }
        Ok(SessionThreads { threads: Threads(handles.into()), running })
    }

    pub fn threads(&self) -> Threads {
        self.threads.clone()
    }
}

impl Drop for SessionThreads {
    fn drop(&mut self) {
        for (stop, thread) in self.running.drain(..) {
            let _ = stop.send(());
            let _ = thread.join();
        }
    }
}

impl Threads {
    /// The thread of a session: always the same one.
    pub(crate) fn of(&self, id: SessionId) -> &Handle {
        let count = self.0.len() as u64;
        &self.0[usize::try_from(id.0 % count).unwrap_or(0)]
    }
}

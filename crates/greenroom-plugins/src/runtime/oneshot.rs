//! One program per call: one line of JSON in, one out.
//!
//! In: a launch, a request, a deadline. Out: its answer or why there is none, by the deadline.
//! stdin is written beside reading; of stdout the first line counts, of stderr the beginning is
//! kept, and the rest of both is drained. An answer counts when the program has ended with 0. When
//! time is up our ends are closed and the whole tree is killed, but nobody waits for that; its
//! permits are free again when it is gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use tokio::io::AsyncWriteExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::pipes::{self, Started};
use super::{CallFailure, ExitStatus, Hold, Launch, Launcher, MAX_STDERR, Reply, Terms};
use crate::lock;

/// Programs at once, of all plugins: each is a tree of processes on a machine that has other work.
pub const AT_ONCE: usize = 8;
/// Programs at once of one plugin, so that none takes every permit.
pub const AT_ONCE_EACH: usize = 2;
/// The code of a veto.
const VETO: i32 = 2;
/// A killed tree that is not gone after this hangs in the kernel; its permits are given to others
/// all the same.
const GONE_PATIENCE: Duration = Duration::from_secs(5);

/// Runs programs once each, a bounded number at a time. One for the whole daemon.
pub struct Runner {
    all: Arc<Semaphore>,
    each: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Default for Runner {
    fn default() -> Runner {
        Runner { all: Arc::new(Semaphore::new(AT_ONCE)), each: Mutex::default() }
    }
}

/// One of the plugin's, one of everybody's.
type Permits = [Option<OwnedSemaphorePermit>; 2];

impl Runner {
    /// Runs the program once. Waiting for a permit counts against the deadline.
    pub async fn call(
        &self,
        launcher: &dyn Launcher,
        launch: &Launch,
        request: &impl Serialize,
        deadline: Duration,
    ) -> Result<Reply, CallFailure> {
        let began = Instant::now();
        let until = began + deadline;
        let line = pipes::encode(request)?;
        let permits = timeout_at(until, self.permits(&launch.plugin)).await.map_err(|_| {
            CallFailure::NoTurn { plugin: launch.plugin.clone(), calls: AT_ONCE_EACH }
        })?;
        let late = |_| CallFailure::Deadline(deadline);
        // A start that is given up is ended by whoever started it.
        let started = timeout_at(until, Started::new(launcher, launch)).await.map_err(late)??;
        let Started { mut stdin, mut stdout, stderr, hold } = started;
        let ending = Ending { hold, permits };
        let mut said = Vec::new();
        let write = async move {
            // A program that closes its input unread may still answer.
            let _ = stdin.write_all(&line).await;
            Ok(())
        };
        let read = async {
            let first = stdout.next().await?.map(<[u8]>::to_vec);
            // What follows is drained, so that the program does not wait for room.
            stdout.drain().await;
            Ok(first)
        };
        let hear = async {
            pipes::keep(stderr, MAX_STDERR, &mut said).await;
            Ok(())
        };
        let exit = async { Ok(ending.hold.exited().await) };
        let run = async { tokio::try_join!(write, read, hear, exit) };
        let ((), line, (), status) = timeout_at(until, run).await.map_err(late)??;
        let stderr = String::from_utf8_lossy(&said).into_owned();
        let reply = judge(line, status, stderr, launch.terms)?;
        Ok(Reply { took: began.elapsed(), ..reply })
    }

    /// First the plugin's own queue, so that one that is slow does not stand in everybody's.
    async fn permits(&self, plugin: &str) -> Permits {
        let own = {
            let mut each = lock(&self.each);
            // Nobody waits for those and nobody runs: a plugin that is gone leaves nothing.
            each.retain(|name, permits| name == plugin || Arc::strong_count(permits) > 1);
            let new = || Arc::new(Semaphore::new(AT_ONCE_EACH));
            each.entry(plugin.to_owned()).or_insert_with(new).clone()
        };
        // The semaphores are never closed, so there is always a permit in the end.
        let own = own.acquire_owned().await.ok();
        [own, self.all.clone().acquire_owned().await.ok()]
    }
}

/// A program that is killed when this is dropped, whatever it does; its permits are kept until it
/// is gone.
struct Ending {
    hold: Arc<dyn Hold>,
    permits: Permits,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.hold.kill_tree();
        let (hold, permits) = (self.hold.clone(), std::mem::take(&mut self.permits));
        // Outside of a runtime there is no next call either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = tokio::time::timeout(GONE_PATIENCE, hold.exited()).await;
                drop(permits);
            });
        }
    }
}

fn judge(
    line: Option<Vec<u8>>,
    status: ExitStatus,
    stderr: String,
    terms: Terms,
) -> Result<Reply, CallFailure> {
    match status {
        ExitStatus::Code(0) => {}
        ExitStatus::Code(VETO) if terms.exit_two_blocks => {
            let veto = Some(stderr.trim().to_owned());
            return Ok(Reply { veto, stderr, ..Reply::default() });
        }
        status => return Err(CallFailure::Died { status: status.to_string(), stderr }),
    }
    let answer = match line.filter(|line| !line.trim_ascii().is_empty()) {
        Some(line) => pipes::decode(&line)?,
        None if terms.silence_passes => serde_json::Map::new(),
        None => return Err(CallFailure::NoAnswer { stderr }),
    };
    Ok(Reply { answer, stderr, ..Reply::default() })
}

//! One program per call: one line of JSON in, one out.
//!
//! In: a launch, a request, a deadline. Out: its answer or why there is none, by the deadline. stdin is written beside
//! reading; of stdout the first line counts, of stderr the beginning is kept, and the rest of both is drained. An answer
//! counts when the program has ended with 0. When time is up our ends are closed and the whole tree is killed, but nobody
//! waits for that; its turn is free again when it is gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::pipes::{self, Lines};
use super::{CallFailure, ExitStatus, Launch, Launcher, Leash, MAX_STDERR, Reply, Terms};

/// Programs at once, of all plugins: each is a tree of processes on a machine that has other work.
pub const AT_ONCE: usize = 8;
/// Programs at once of one plugin, so that none takes every turn.
pub const AT_ONCE_EACH: usize = 2;
/// The code of a veto.
const VETO: i32 = 2;
/// A killed tree that is not gone after this hangs in the kernel; its turn is given to others all the same.
const GONE_PATIENCE: Duration = Duration::from_secs(5);

/// Who has a turn. One for the whole daemon.
pub struct Turns {
    all: Arc<Semaphore>,
    each: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { all: Arc::new(Semaphore::new(AT_ONCE)), each: Mutex::default() }
    }
}

type Turn = [Option<OwnedSemaphorePermit>; 2];

impl Turns {
    /// Runs the program once. Waiting for a turn counts against the deadline.
    pub async fn call(
        &self,
        launcher: &dyn Launcher,
        launch: &Launch,
        request: &Value,
        deadline: Duration,
    ) -> Result<Reply, CallFailure> {
        let began = Instant::now();
        let until = began + deadline;
        let line = pipes::encode(request)?;
        let turn = timeout_at(until, self.turn(&launch.plugin)).await.map_err(|_| {
            CallFailure::NoTurn { plugin: launch.plugin.clone(), calls: AT_ONCE_EACH }
        })?;
        // A start that is given up is ended by whoever started it.
        let started = timeout_at(until, launcher.launch(launch)).await;
        let worker = started
            .map_err(|_| CallFailure::Deadline(deadline))?
            .map_err(|error| CallFailure::Launch(error.to_string()))?;
        let leash = Arc::new(worker.leash);
        let going = Going { leash: leash.clone(), turn };
        let run = Run::new(worker.stdin, worker.stdout, worker.stderr, launch.terms)?;
        let answered = timeout_at(until, run.answer(&line, &leash)).await;
        drop(going);
        let (answer, veto, stderr) = answered.map_err(|_| CallFailure::Deadline(deadline))??;
        Ok(Reply { answer, veto, stderr, took: began.elapsed() })
    }

    /// First the plugin's own queue, so that one that is slow does not stand in everybody's.
    async fn turn(&self, plugin: &str) -> Turn {
        let own = {
            let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
            // Nobody waits for those and nobody runs: a plugin that is gone leaves nothing.
            each.retain(|name, turns| name == plugin || Arc::strong_count(turns) > 1);
            let new = || Arc::new(Semaphore::new(AT_ONCE_EACH));
            each.entry(plugin.to_owned()).or_insert_with(new).clone()
        };
        // Never closed; without a permit it would only be one more at once.
        let own = own.acquire_owned().await.ok();
        [own, self.all.clone().acquire_owned().await.ok()]
    }
}

/// A program on its way out: killed, whatever it does, and its turn kept until it is gone.
struct Going {
    leash: Arc<Leash>,
    turn: Turn,
}

impl Drop for Going {
    fn drop(&mut self) {
        self.leash.kill_tree();
        let (leash, turn) = (self.leash.clone(), std::mem::take(&mut self.turn));
        // Outside of a runtime there is no next call either.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = tokio::time::timeout(GONE_PATIENCE, leash.exited()).await;
                drop(turn);
            });
        }
    }
}

struct Run {
    stdin: pipe::Sender,
    stdout: Lines,
    stderr: pipe::Receiver,
    terms: Terms,
}

type Answered = (Map<String, Value>, Option<String>, String);

impl Run {
    fn new(
        stdin: std::os::fd::OwnedFd,
        stdout: std::os::fd::OwnedFd,
        stderr: std::os::fd::OwnedFd,
        terms: Terms,
    ) -> Result<Run, CallFailure> {
        let opened = || -> std::io::Result<Run> {
            Ok(Run {
                stdin: pipes::writing(stdin)?,
                stdout: Lines::new(pipes::reading(stdout)?, terms.max_answer),
                stderr: pipes::reading(stderr)?,
                terms,
            })
        };
        opened().map_err(|error| CallFailure::Launch(format!("cannot use its pipes: {error}")))
    }

    async fn answer(self, request: &[u8], leash: &Leash) -> Result<Answered, CallFailure> {
        let Run { mut stdin, mut stdout, stderr, terms } = self;
        let mut said = Vec::new();
        let write = async move {
            // Who does not want to know may still answer.
            let _ = stdin.write_all(request).await;
            Ok(())
        };
        let read = async {
            let first = stdout.next().await?.map(<[u8]>::to_vec);
            // What follows is drained, so that nobody waits for room.
            stdout.drain().await;
            Ok(first)
        };
        let hear = async {
            pipes::keep(stderr, MAX_STDERR, &mut said).await;
            Ok(())
        };
        let exit = async { Ok(leash.exited().await) };
        let ((), line, (), status) = tokio::try_join!(write, read, hear, exit)?;
        let said = String::from_utf8_lossy(&said).into_owned();
        judge(line, status, said, terms)
    }
}

fn judge(
    line: Option<Vec<u8>>,
    status: ExitStatus,
    stderr: String,
    terms: Terms,
) -> Result<Answered, CallFailure> {
    match status {
        ExitStatus::Code(0) => {}
        ExitStatus::Code(VETO) if terms.exit_two_blocks => {
            return Ok((Map::new(), Some(stderr.trim().to_owned()), stderr));
        }
        status => return Err(CallFailure::Died { status: status.to_string(), stderr }),
    }
    match line.filter(|line| !line.trim_ascii().is_empty()) {
        Some(line) => Ok((pipes::decode(&line)?, None, stderr)),
        None if terms.silence_passes => Ok((Map::new(), None, stderr)),
        None => Err(CallFailure::NoAnswer { stderr }),
    }
}

//! A program that stays: the same objects as `oneshot`, a line each, with an `id`.
//!
//! | line | from | what it is |
//! |---|---|---|
//! | `{"v":1,"hello":{"features":[…]}}` | host | first, unless the plugin is not to be greeted |
//! | `{"hello":{"features":["filter.batch"]}}` | plugin | it speaks ids; `filter.batch`: it takes batches |
//! | `{"id":"7","hook":…}` | host | a request; up to [`IN_FLIGHT`] at once |
//! | `{"id":"7","items":[{"n":0,"line":…},…],…}` | host | a batch |
//! | `{"id":"7","action":…}`, `{"id":"7","edits":[[0,"…"],[3,null]]}` | plugin | the answer; without `edits` all pass |
//! | `{"cancel":"7"}` | host | nobody waits for that one any more |
//!
//! A plugin that answers the hello with anything else, or is silent, is *minimal*: one request at a
//! time, no batches, no cancel, and answers without an `id` belong to the oldest request. So a bare
//! `while read` loop is enough. In: requests with deadlines. Out: an answer or a failure for each,
//! also when the program dies. Lines that are no objects are passed over, [`JUNK_PER_MINUTE`] of
//! them. Deliberately absent: restarts and back-off (`host`).

mod state;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::pipes::{self, Lines, Started};
use super::{CallFailure, Hold, Launch, Launcher, Reply};
use crate::lock;
use state::{Heard, Shared};

/// Requests at once to one program.
pub const IN_FLIGHT: usize = 32;
/// Lines that are no answers: a banner, a stray print, a warning now and then.
pub const JUNK_PER_MINUTE: usize = 20;
/// A program that does not read for so long is stuck, and is ended.
pub const WRITE_STALL: Duration = Duration::from_secs(2);
/// Between the end of its input and its being killed.
pub const STOP_GRACE: Duration = Duration::from_secs(2);
/// After the end of its output, for its exit status.
const STATUS_GRACE: Duration = Duration::from_millis(200);
/// Bytes of stderr that are passed on in each second.
const STDERR_PER_SECOND: usize = 64 * 1024;
/// Lines waiting for the writer; it writes all that wait at once.
const OUTGOING: usize = 2 * IN_FLIGHT;
/// What takes batches calls it so.
const BATCH: &str = "filter.batch";

/// How a program is started.
#[derive(Clone)]
pub struct Options {
    /// Whether it is greeted. datawatch's are not.
    pub hello: bool,
    /// What the greeting carries besides `features`: `granted`, `config`.
    pub greeting: Map<String, Value>,
    /// How long it may take to answer the greeting.
    pub patience: Duration,
    /// Hears what it prints on stderr, in pieces. Must not block. Not for clients: it may quote
    /// what was asked.
    pub stderr: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            hello: true,
            greeting: Map::new(),
            patience: Duration::from_secs(5),
            stderr: Arc::new(|_| {}),
        }
    }
}

/// A running program. It ends with this value.
pub struct Peer {
    shared: Arc<Shared>,
    hold: Arc<dyn Hold>,
    /// Lines for its input; dropping the sender ends its input, which asks it to stop.
    outgoing: Mutex<Option<mpsc::Sender<Vec<u8>>>>,
    in_flight: Semaphore,
    batches: bool,
    minimal: bool,
    greeting: Map<String, Value>,
    tasks: Vec<AbortHandle>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.fail(CallFailure::Stopped);
        self.hold.kill_tree();
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Peer {
    /// Starts the program and greets it.
    pub async fn start(
        launcher: &dyn Launcher,
        launch: &Launch,
        options: Options,
    ) -> Result<Peer, CallFailure> {
        let Started { stdin, stdout, stderr, hold } = Started::new(launcher, launch).await?;
        let shared = Arc::new(Shared::default());
        let (outgoing, lines) = mpsc::channel(OUTGOING);
        let tasks = vec![
            tokio::spawn(read(stdout, shared.clone(), hold.clone())).abort_handle(),
            tokio::spawn(write(stdin, lines, shared.clone(), hold.clone())).abort_handle(),
            tokio::spawn(hear(stderr, options.stderr.clone())).abort_handle(),
        ];
        let mut peer = Peer {
            shared,
            hold,
            outgoing: Mutex::new(Some(outgoing)),
            in_flight: Semaphore::new(1),
            batches: false,
            minimal: true,
            greeting: Map::new(),
            tasks,
        };
        if options.hello {
            peer.greet(options).await?;
        }
        Ok(peer)
    }

    async fn greet(&mut self, options: Options) -> Result<(), CallFailure> {
        let mut hello = options.greeting;
        hello.insert("features".to_owned(), json!([BATCH, "pipeline", "cancel"]));
        let answer = self.shared.greeted()?;
        let line = pipes::encode(&json!({ "v": 1, "hello": hello }))?;
        self.send(line).await?;
        match timeout(options.patience, answer).await {
            Ok(Ok(Ok(reply))) => self.understand(reply.answer),
            Ok(Ok(Err(failure))) => return Err(failure),
            // It reads, perhaps, but has nothing to say to that.
            Ok(Err(_)) | Err(_) => self.shared.no_greeting(),
        }
        Ok(())
    }

    fn understand(&mut self, mut answer: Map<String, Value>) {
        let Some(Value::Object(hello)) = answer.remove("hello") else { return };
        let features = hello.get("features").and_then(Value::as_array);
        self.batches = features.is_some_and(|all| all.iter().any(|it| it == BATCH));
        self.minimal = false;
        self.in_flight.add_permits(IN_FLIGHT - 1);
        self.greeting = hello;
    }

    /// What it said of itself.
    pub fn greeting(&self) -> &Map<String, Value> {
        &self.greeting
    }

    /// Whether [`Peer::ask`] may be given lines.
    pub fn takes_batches(&self) -> bool {
        self.batches
    }

    /// Why it does not answer any more, if it does not.
    pub fn failure(&self) -> Option<CallFailure> {
        self.shared.failure()
    }

    /// Waits for its end.
    pub async fn ended(&self) -> CallFailure {
        self.shared.ended().await
    }

    /// With many lines at once, the answer's edits name them by their place.
    pub async fn ask(
        &self,
        request: &Map<String, Value>,
        lines: Option<&[&str]>,
        deadline: Duration,
    ) -> Result<Reply, CallFailure> {
        let until = Instant::now() + deadline;
        let late = |_| CallFailure::Deadline(deadline);
        let permit = timeout_at(until, self.in_flight.acquire()).await;
        let _permit = permit.map_err(late)?.map_err(|_| CallFailure::Stopped)?;
        let (question, answer) = self.shared.ask()?;
        let line = compose(request, question.id, lines)?;
        timeout_at(until, self.send(line)).await.map_err(late)??;
        match timeout_at(until, answer).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => Err(self.failure().unwrap_or(CallFailure::Stopped)),
            Err(_) => {
                if !self.minimal {
                    self.cancel(question.id);
                }
                Err(CallFailure::Deadline(deadline))
            }
        }
    }

    fn sender(&self) -> Result<mpsc::Sender<Vec<u8>>, CallFailure> {
        lock(&self.outgoing).clone().ok_or(CallFailure::Stopped)
    }

    async fn send(&self, line: Vec<u8>) -> Result<(), CallFailure> {
        let sent = self.sender()?.send(line).await;
        sent.map_err(|_| self.failure().unwrap_or(CallFailure::Stopped))
    }

    /// If there is room. A program that is behind with reading is not told: its late answer is
    /// passed over.
    fn cancel(&self, id: u64) {
        if let Ok(sender) = self.sender() {
            let _ = sender.try_send(format!("{{\"cancel\":\"{id}\"}}\n").into_bytes());
        }
    }

    /// Ends its input, waits a little, and kills what is left. Calls under way fail.
    pub async fn stop(&self) {
        self.shared.stopping();
        lock(&self.outgoing).take();
        let _ = timeout(STOP_GRACE, self.hold.exited()).await;
        self.shared.fail(CallFailure::Stopped);
        self.hold.kill_tree();
    }
}

/// A request's line. Items are written by hand: a batch would be copied twice otherwise.
fn compose(
    request: &Map<String, Value>,
    id: u64,
    lines: Option<&[&str]>,
) -> Result<Vec<u8>, CallFailure> {
    let cannot = |error| CallFailure::Launch(format!("cannot write the request: {error}"));
    let mut line = format!("{{\"id\":\"{id}\"").into_bytes();
    for (key, value) in request.iter().filter(|(key, _)| *key != "id" && *key != "items") {
        line.push(b',');
        serde_json::to_writer(&mut line, key).map_err(cannot)?;
        line.push(b':');
        serde_json::to_writer(&mut line, value).map_err(cannot)?;
    }
    if let Some(lines) = lines {
        line.extend_from_slice(b",\"items\":[");
        for (n, text) in lines.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            line.extend_from_slice(format!("{comma}{{\"n\":{n},\"line\":").as_bytes());
            serde_json::to_writer(&mut line, text).map_err(cannot)?;
            line.push(b'}');
        }
        line.push(b']');
    }
    line.extend_from_slice(b"}\n");
    pipes::sized(line)
}

/// Reads answers to the end of the program.
async fn read(mut lines: Lines, shared: Arc<Shared>, hold: Arc<dyn Hold>) {
    let why = loop {
        let line = match lines.next().await {
            Ok(Some(line)) => line,
            Ok(None) => break None,
            Err(failure) => break Some(failure),
        };
        if line.trim_ascii().is_empty() {
            continue;
        }
        if shared.hear(pipes::decode(line)) == Heard::TooMuchJunk {
            break Some(CallFailure::Junk { limit: JUNK_PER_MINUTE });
        }
    };
    let why = match why {
        Some(failure) => failure,
        None => match timeout(STATUS_GRACE, hold.exited()).await {
            Ok(status) => CallFailure::Died { status: status.to_string(), stderr: String::new() },
            Err(_) => CallFailure::NoAnswer { stderr: String::new() },
        },
    };
    shared.fail(why);
    hold.kill_tree();
}

/// Writes what waits, all of it at once.
async fn write(
    mut stdin: pipe::Sender,
    mut lines: mpsc::Receiver<Vec<u8>>,
    shared: Arc<Shared>,
    hold: Arc<dyn Hold>,
) {
    while let Some(mut bytes) = lines.recv().await {
        while bytes.len() < super::MAX_ANSWER
            && let Ok(more) = lines.try_recv()
        {
            bytes.extend_from_slice(&more);
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match timeout(WRITE_STALL, stdin.write(rest)).await {
                Ok(Ok(written)) => rest = &rest[written..],
                // It has closed its input, or ended: the reader learns which.
                Ok(Err(_)) => return lines.close(),
                Err(_) => {
                    shared.fail(CallFailure::Stalled(WRITE_STALL));
                    return hold.kill_tree();
                }
            }
        }
    }
}

/// Passes stderr on, not more than a second's share in each second; the rest is dropped with a word
/// about it.
async fn hear(mut from: pipe::Receiver, tell: Arc<dyn Fn(&str) + Send + Sync>) {
    let mut buffer = Vec::with_capacity(8 * 1024);
    let (mut second, mut used, mut told) = (Instant::now(), 0, false);
    while let Ok(1..) = from.read_buf(&mut buffer).await {
        if second.elapsed() >= Duration::from_secs(1) {
            (second, used, told) = (Instant::now(), 0, false);
        }
        used += buffer.len();
        if used <= STDERR_PER_SECOND {
            tell(&String::from_utf8_lossy(&buffer));
        } else if !told {
            told = true;
            tell("[more than this is dropped]\n");
        }
        buffer.clear();
    }
}

/// A question's answer, when it comes.
type Answer = oneshot::Receiver<Result<Reply, CallFailure>>;

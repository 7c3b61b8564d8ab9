//! A blocking JSON-RPC connection to a greenroom host: newline-framed, one thread, nothing between
//! the clock and the socket.
//!
//! In: method and params. Out: results, and pushes in the order they came.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// A host that says nothing for this long is broken, not slow.
const SILENCE_LIMIT: Duration = Duration::from_secs(20);

/// Pushes kept while an answer is awaited; more means the harness forgot to read them.
const PUSHES_MAX: usize = 100_000;

pub struct Connection {
    stream: BufReader<UnixStream>,
    last_id: u64,
    pushes: VecDeque<Push>,
    line: Vec<u8>,
}

/// Something the host said unasked.
pub struct Push {
    pub method: String,
    pub params: Value,
}

#[derive(Deserialize)]
struct Incoming<'a> {
    id: Option<u64>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    method: Option<String>,
    params: Option<Value>,
}

enum Heard {
    Reply { id: u64, result: Box<RawValue> },
    Push(Push),
}

impl Connection {
    pub fn open(socket: &Path) -> Result<Connection> {
        let stream = UnixStream::connect(socket)
            .with_context(|| format!("cannot connect to {}", socket.display()))?;
        stream.set_read_timeout(Some(SILENCE_LIMIT)).context("cannot set a timeout")?;
        Ok(Connection {
            stream: BufReader::with_capacity(64 * 1024, stream),
            last_id: 0,
            pushes: VecDeque::new(),
            line: Vec::new(),
        })
    }

    /// Sends a request and answers its id.
    pub fn send(&mut self, method: &str, params: &Value) -> Result<u64> {
        self.last_id += 1;
        let request =
            json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params});
        let mut line = request.to_string();
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes()).context("cannot write to the host")?;
        Ok(self.last_id)
    }

    pub fn reply<T: DeserializeOwned>(&mut self, id: u64) -> Result<T> {
        loop {
            match self.hear()? {
                Heard::Reply { id: heard, result } if heard == id => {
                    return serde_json::from_str(result.get())
                        .with_context(|| format!("unexpected result {}", result.get()));
                }
                Heard::Reply { id: heard, .. } => {
                    bail!("answer {heard} came while {id} was awaited")
                }
                Heard::Push(push) => {
                    ensure!(self.pushes.len() < PUSHES_MAX, "too many unread pushes");
                    self.pushes.push_back(push);
                }
            }
        }
    }

    /// The answers to several requests, in whatever order they come.
    pub fn replies(&mut self, ids: &[u64]) -> Result<()> {
        let mut open: Vec<u64> = ids.to_vec();
        while !open.is_empty() {
            if let Heard::Reply { id, .. } = self.hear()? {
                open.retain(|awaited| *awaited != id);
            }
        }
        Ok(())
    }

    pub fn call<T: DeserializeOwned>(&mut self, method: &str, params: &Value) -> Result<T> {
        let id = self.send(method, params)?;
        self.reply(id).with_context(|| format!("{method} {params}"))
    }

    /// The next push.
    pub fn push(&mut self) -> Result<Push> {
        if let Some(push) = self.pushes.pop_front() {
            return Ok(push);
        }
        loop {
            if let Heard::Push(push) = self.hear()? {
                return Ok(push);
            }
        }
    }

    /// Whether something is there, or comes within `wait`.
    pub fn has_push(&self, wait: Duration) -> Result<bool> {
        let waiting = !self.pushes.is_empty() || !self.stream.buffer().is_empty();
        Ok(waiting || crate::bare::readable(self.stream.get_ref(), wait)?)
    }

    pub fn forget_pushes(&mut self) {
        self.pushes.clear();
    }

    fn hear(&mut self) -> Result<Heard> {
        self.line.clear();
        let n = self.stream.read_until(b'\n', &mut self.line).context("the host says nothing")?;
        ensure!(n > 0, "the host closed the connection");
        let heard: Incoming<'_> =
            serde_json::from_slice(&self.line).context("the host did not say JSON-RPC")?;
        if let Some(method) = heard.method {
            return Ok(Heard::Push(Push { method, params: heard.params.unwrap_or_default() }));
        }
        if let Some(error) = heard.error {
            bail!("the host refuses: {}", error.get());
        }
        let id = heard.id.context("an answer has no id")?;
        let result = heard.result.context("an answer has no result")?.to_owned();
        Ok(Heard::Reply { id, result })
    }

    /// After `session.attach` was answered: bytes of the binary stream.
    pub fn read_bytes(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let n = self.stream.read(buffer).context("the attach stream says nothing")?;
        ensure!(n > 0, "the host closed the attach stream");
        Ok(n)
    }

    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes).context("cannot write to the attach stream")
    }
}

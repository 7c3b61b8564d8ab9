//! Lines and caps on a program's pipes.
//!
//! In: a program to be started. Out: its pipes, ready to be used; requests as one line of bytes,
//! answers as JSON objects, the beginning of what was printed elsewhere. A cap is checked before
//! more is kept. Error texts never quote what was read: it may be a session's output.

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use super::{CallFailure, Hold, Launch, Launcher, MAX_REQUEST};

/// What a pipe holds: one read empties it.
const READ_BYTES: usize = 64 * 1024;

/// One line, with its end.
pub(super) fn encode(request: &impl Serialize) -> Result<Vec<u8>, CallFailure> {
    let mut line = serde_json::to_vec(request)
        .map_err(|error| CallFailure::Launch(format!("cannot write the request: {error}")))?;
    line.push(b'\n');
    sized(line)
}

pub(super) fn sized(line: Vec<u8>) -> Result<Vec<u8>, CallFailure> {
    match line.len() {
        bytes if bytes > MAX_REQUEST => {
            Err(CallFailure::RequestTooLong { bytes, limit: MAX_REQUEST })
        }
        _ => Ok(line),
    }
}

/// One answer. The reason names a place, never the text.
pub(super) fn decode(line: &[u8]) -> Result<Map<String, Value>, CallFailure> {
    serde_json::from_slice(line).map_err(|error| {
        let why = match error.classify() {
            serde_json::error::Category::Data => "it is another kind of value".to_owned(),
            serde_json::error::Category::Eof => "it ends too early".to_owned(),
            _ => format!("column {} is no JSON", error.column()),
        };
        CallFailure::Malformed { why }
    })
}

/// A program that was started, and its pipes.
pub(super) struct Started {
    pub stdin: pipe::Sender,
    pub stdout: Lines,
    pub stderr: pipe::Receiver,
    pub hold: Arc<dyn Hold>,
}

impl Started {
    pub(super) async fn new(
        launcher: &dyn Launcher,
        launch: &Launch,
    ) -> Result<Started, CallFailure> {
        let program = launcher
            .launch(launch)
            .await
            .map_err(|error| CallFailure::Launch(error.to_string()))?;
        let opened = || -> std::io::Result<Started> {
            let stdout = pipe::Receiver::from_owned_fd(program.stdout)?;
            Ok(Started {
                stdin: pipe::Sender::from_owned_fd(program.stdin)?,
                stdout: Lines::new(stdout, launch.terms.max_answer),
                stderr: pipe::Receiver::from_owned_fd(program.stderr)?,
                hold: program.hold,
            })
        };
        opened().map_err(|error| CallFailure::Launch(format!("cannot use its pipes: {error}")))
    }
}

/// A program's output, line by line.
pub(super) struct Lines {
    from: pipe::Receiver,
    buffer: Vec<u8>,
    /// Where the next line begins, and how far its end has been looked for.
    begin: usize,
    looked: usize,
    max: usize,
    ended: bool,
}

impl Lines {
    pub(super) fn new(from: pipe::Receiver, max: usize) -> Lines {
        Lines { from, buffer: Vec::new(), begin: 0, looked: 0, max, ended: false }
    }

    /// The next line without its end; the rest at the end, if there is any. `None`: no more.
    pub(super) async fn next(&mut self) -> Result<Option<&[u8]>, CallFailure> {
        loop {
            let fresh = &self.buffer[self.looked..];
            if let Some(at) = fresh.iter().position(|byte| *byte == b'\n') {
                let line = self.begin..self.looked + at;
                if line.len() > self.max {
                    return Err(CallFailure::TooLong { limit: self.max });
                }
                self.begin = line.end + 1;
                self.looked = self.begin;
                return Ok(Some(&self.buffer[line]));
            }
            self.looked = self.buffer.len();
            if self.looked - self.begin > self.max {
                return Err(CallFailure::TooLong { limit: self.max });
            }
            if self.ended {
                let line = self.begin..self.looked;
                self.begin = self.looked;
                return Ok((!line.is_empty()).then(|| &self.buffer[line]));
            }
            self.fill().await;
        }
    }

    /// Reads to the end and keeps nothing.
    pub(super) async fn drain(&mut self) {
        while !self.ended {
            self.buffer.clear();
            (self.begin, self.looked) = (0, 0);
            self.fill().await;
        }
    }

    async fn fill(&mut self) {
        if self.begin > 0 {
            self.buffer.drain(..self.begin);
            self.looked -= self.begin;
            self.begin = 0;
        }
        self.buffer.reserve(READ_BYTES);
        // A pipe that cannot be read has ended for us.
        self.ended = !matches!(self.from.read_buf(&mut self.buffer).await, Ok(1..));
    }
}

/// Reads to the end and keeps the beginning.
pub(super) async fn keep(mut from: pipe::Receiver, max: usize, kept: &mut Vec<u8>) {
    let mut buffer = Vec::with_capacity(READ_BYTES);
    while let Ok(1..) = from.read_buf(&mut buffer).await {
        let room = max.saturating_sub(kept.len()).min(buffer.len());
        kept.extend_from_slice(&buffer[..room]);
        buffer.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn pipe() -> (pipe::Sender, pipe::Receiver) {
        pipe::pipe().unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn lines_do_not_depend_on_how_they_are_cut(
            text in "[ab\n]{0,300}", cuts in prop::collection::vec(1..40_usize, 1..50)
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let expected: Vec<String> = text.lines().map(str::to_owned).collect();
            let got = runtime.block_on(async {
                let (mut to, from) = pipe();
                let write = async {
                    let mut rest = text.as_bytes();
                    for cut in cuts.iter().cycle() {
                        if rest.is_empty() { break; }
                        let (now, later) = rest.split_at((*cut).min(rest.len()));
                        to.write_all(now).await.unwrap();
                        tokio::task::yield_now().await;
                        rest = later;
                    }
                    drop(to);
                };
                let read = async {
                    let mut lines = Lines::new(from, 1000);
                    let mut got = Vec::new();
                    while let Some(line) = lines.next().await.unwrap() {
                        got.push(String::from_utf8(line.to_vec()).unwrap());
                    }
                    got
                };
                tokio::join!(write, read).1
            });
            prop_assert_eq!(got, expected);
        }
    }

    #[tokio::test]
    async fn a_line_over_the_cap_is_refused_before_its_end() {
        for text in [vec![b'x'; 101], [vec![b'x'; 101], b"\n".to_vec()].concat()] {
            let (mut to, from) = pipe();
            to.write_all(&text).await.unwrap();
            let mut lines = Lines::new(from, 100);
            assert_eq!(lines.next().await, Err(CallFailure::TooLong { limit: 100 }));
        }
    }

    #[test]
    fn a_wrong_answer_is_not_quoted() {
        for line in
            ["\"hunter2\"", "{\"hunter2", "hunter2", "[\"hunter2\"]", "{\"a\": NaN}", "\u{7}"]
        {
            let failure = decode(line.as_bytes()).unwrap_err().to_string();
            assert!(!failure.contains("hunter2"), "{failure}");
        }
        assert!(decode(&[b"{\"a\":".repeat(100_000), b"1".to_vec()].concat()).is_err());
    }
}

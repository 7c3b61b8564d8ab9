//! Cuts a byte stream into JSON texts, and wraps texts for the way out.
//!
//! In: bytes as they arrive, in any pieces. Out: one text per frame, borrowed from the buffer, or
//! a typed error for that frame. The framing is recognised from the first byte: a header letter
//! means `Content-Length`, anything else one JSON text per line.
//! Absent on purpose: I/O, and what the text means.

/// Longest frame, either way. A screen of 1000 × 1000 cells as text fits; a runaway client does not.
pub const FRAME_CAP: usize = 16 * 1024 * 1024;
/// Longest block of headers: two short lines are usual.
pub const HEADER_CAP: usize = 4 * 1024;
/// A buffer that grew beyond this is given back once it is empty, so that one large frame does
/// not cost an idle connection its size for ever.
const KEEP_CAP: usize = 64 * 1024;

/// How frames are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One JSON text per line.
    Ndjson,
    /// `Content-Length: N`, an empty line, N bytes.
    ContentLength,
}

/// What is wrong with a frame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Its length is over the cap; it was skipped.
    #[error("a frame is over the limit of {FRAME_CAP} bytes")]
    TooLarge,
    /// It is not UTF-8; it was skipped.
    #[error("a frame is not valid UTF-8")]
    NotUtf8,
    /// The headers are over the cap. The stream is lost.
    #[error("frame headers are over the limit of {HEADER_CAP} bytes")]
    HeaderTooLarge,
    /// The headers say no usable length. The stream is lost.
    #[error("frame headers have no valid Content-Length")]
    NoLength,
    /// The stream ended within a frame.
    #[error("the stream ended within a frame")]
    Truncated,
}

impl FrameError {
    /// Whether no frame can follow: the connection must end.
    pub fn is_fatal(&self) -> bool {
        matches!(self, FrameError::HeaderTooLarge | FrameError::NoLength | FrameError::Truncated)
    }
}

/// Where the decoder is in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before or within a line, or a block of headers; `scanned` bytes of it hold no end.
    Start { scanned: usize },
    /// Within a body of this length.
    Body { length: usize },
    /// Dropping the rest of an oversize line.
    SkipLine,
    /// Dropping the rest of an oversize body.
    SkipBytes { left: u64 },
    /// A fatal error was told; nothing more will come.
    Lost,
}

/// The reading side of one connection.
///
/// Push what was read, then take frames until there is none: so the buffer never holds more than
/// one frame and one read.
#[derive(Debug)]
pub struct FrameDecoder {
    framing: Option<Framing>,
    buffer: Vec<u8>,
    /// Bytes at the front of `buffer` that were handed out already.
    taken: usize,
    state: State,
}

impl Default for FrameDecoder {
    fn default() -> FrameDecoder {
        FrameDecoder::new()
    }
}

impl FrameDecoder {
    /// Recognises the framing by itself.
    pub fn new() -> FrameDecoder {
        FrameDecoder {
            framing: None,
            buffer: Vec::new(),
            taken: 0,
            state: State::Start { scanned: 0 },
        }
    }

    /// For a peer whose framing is known.
    pub fn with_framing(framing: Framing) -> FrameDecoder {
        FrameDecoder { framing: Some(framing), ..FrameDecoder::new() }
    }

    /// What was recognised; `None` before the first byte.
    pub fn framing(&self) -> Option<Framing> {
        self.framing
    }

    /// Takes bytes in. Those of a frame that is being skipped are not kept.
    pub fn push(&mut self, mut bytes: &[u8]) {
        self.compact();
        if self.framing.is_none() {
            let Some(first) = bytes.first() else { return };
            let is_header = matches!(first, b'C' | b'c');
            self.framing = Some(if is_header { Framing::ContentLength } else { Framing::Ndjson });
        }
        if self.buffer.is_empty() {
            bytes = self.skip(bytes);
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, or `None` until more is pushed. Blank lines are no frames.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend its buffer")]
    pub fn next(&mut self) -> Option<Result<&str, FrameError>> {
        let range = match self.step()? {
            Ok(range) => range,
            Err(error) => return Some(Err(error)),
        };
        Some(std::str::from_utf8(&self.buffer[range]).map_err(|_| FrameError::NotUtf8))
    }

    /// At the end of the stream: a last line without its newline is a frame, too.
    pub fn finish(&mut self) -> Option<Result<&str, FrameError>> {
        let rest = self.taken..self.buffer.len();
        self.taken = self.buffer.len();
        let state = std::mem::replace(&mut self.state, State::Lost);
        match (state, self.framing) {
            (State::Start { .. }, Some(Framing::Ndjson)) => {
                let line = self.buffer[rest].trim_ascii();
                (!line.is_empty())
                    .then(|| std::str::from_utf8(line).map_err(|_| FrameError::NotUtf8))
            }
            (State::Start { .. }, _) if self.buffer[rest.clone()].trim_ascii().is_empty() => None,
            (State::SkipLine | State::Lost, _) => None,
            _ => Some(Err(FrameError::Truncated)),
        }
    }

    /// What was pushed and belongs to no frame yet: the start of a binary stream after the reply
    /// to `session.attach`.
    pub fn into_rest(mut self) -> Vec<u8> {
        self.buffer.drain(..self.taken);
        self.buffer
    }

    fn compact(&mut self) {
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            if self.buffer.capacity() > KEEP_CAP {
                self.buffer = Vec::new();
            }
        } else if self.taken > 0 {
            self.buffer.drain(..self.taken);
        }
        self.taken = 0;
    }

    /// Drops from the front of `bytes` what belongs to a skipped frame.
    fn skip<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        match self.state {
            State::SkipLine => match memchr::memchr(b'\n', bytes) {
                Some(end) => {
                    self.state = State::Start { scanned: 0 };
                    &bytes[end + 1..]
                }
                None => &[],
            },
            State::SkipBytes { left } => {
                let drop = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                let left = left - drop as u64;
                self.state =
                    if left == 0 { State::Start { scanned: 0 } } else { State::SkipBytes { left } };
                &bytes[drop..]
            }
            State::Lost => &[],
            State::Start { .. } | State::Body { .. } => bytes,
        }
    }

    /// Drops what is buffered of a skipped frame.
    fn skip_buffered(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        let left = self.skip(&buffer[self.taken..]).len();
        self.taken = buffer.len() - left;
        self.buffer = buffer;
    }

    fn step(&mut self) -> Option<Result<std::ops::Range<usize>, FrameError>> {
        loop {
            if matches!(self.state, State::SkipLine | State::SkipBytes { .. } | State::Lost) {
                self.skip_buffered();
            }
            let State::Start { scanned } = self.state else {
                let State::Body { length } = self.state else { return None };
                return self.body(length).map(Ok);
            };
            if self.framing? == Framing::ContentLength {
                if let Err(error) = self.headers()? {
                    return Some(Err(error));
                }
                continue;
            }
            match self.line(scanned)? {
                Ok(range) if self.buffer[range.clone()].trim_ascii().is_empty() => {}
                done => return Some(done),
            }
        }
    }

    fn line(&mut self, scanned: usize) -> Option<Result<std::ops::Range<usize>, FrameError>> {
        let open = &self.buffer[self.taken..];
        match memchr::memchr(b'\n', &open[scanned..]) {
            Some(at) => {
                let (start, end) = (self.taken, self.taken + scanned + at);
                self.taken = end + 1;
                self.state = State::Start { scanned: 0 };
                let end = if self.buffer[start..end].ends_with(b"\r") { end - 1 } else { end };
                Some(if end - start > FRAME_CAP {
                    Err(FrameError::TooLarge)
                } else {
                    Ok(start..end)
                })
            }
            // One more than the cap: the last byte may be the carriage return of the line's end.
            None if open.len() > FRAME_CAP + 1 => {
                self.state = State::SkipLine;
                Some(Err(FrameError::TooLarge))
            }
            None => {
                self.state = State::Start { scanned: open.len() };
                None
            }
        }
    }

    fn body(&mut self, length: usize) -> Option<std::ops::Range<usize>> {
        let (start, end) = (self.taken, self.taken + length);
        (end <= self.buffer.len()).then(|| {
            self.taken = end;
            self.state = State::Start { scanned: 0 };
            start..end
        })
    }

    /// Reads a block of headers and turns to its body. Small, so it is read anew with each push.
    fn headers(&mut self) -> Option<Result<(), FrameError>> {
        let open = &self.buffer[self.taken..];
        let (mut at, mut length) = (0, None);
        let outcome = loop {
            let line_end = memchr::memchr(b'\n', &open[at..]).map(|end| at + end);
            if line_end.unwrap_or(open.len()) > HEADER_CAP {
                break Err(FrameError::HeaderTooLarge);
            }
            let line = open[at..line_end?].trim_ascii();
            let first = at == 0;
            at = line_end? + 1;
            match (line.is_empty(), length) {
                // A stray newline between frames does no harm.
                (true, None) if first => {
                    self.taken += at;
                    return Some(Ok(()));
                }
                (true, None) => break Err(FrameError::NoLength),
                (true, Some(length)) => break Ok(length),
                (false, _) => match header_length(line) {
                    None => {}
                    Some(Some(found)) if length.is_none_or(|length| length == found) => {
                        length = Some(found)
                    }
                    Some(_) => break Err(FrameError::NoLength),
                },
            }
        };
        self.taken += at;
        let (state, result) = match outcome {
            Ok(length) => match usize::try_from(length) {
                Ok(length) if length <= FRAME_CAP => (State::Body { length }, Ok(())),
                _ => (State::SkipBytes { left: length }, Err(FrameError::TooLarge)),
            },
            Err(error) => (State::Lost, Err(error)),
        };
        self.state = state;
        Some(result)
    }
}

/// `None`: another header. `Some(None)`: a length that is no number.
fn header_length(line: &[u8]) -> Option<Option<u64>> {
    let colon = memchr::memchr(b':', line)?;
    let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
    name.eq_ignore_ascii_case(b"content-length").then(|| {
        let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
    })
}

/// Wraps one JSON text and appends it to `out`.
pub fn encode(framing: Framing, text: &str, out: &mut Vec<u8>) -> Result<(), FrameError> {
    if text.len() > FRAME_CAP {
        return Err(FrameError::TooLarge);
    }
    out.reserve(text.len() + 32);
    match framing {
        Framing::ContentLength => {
            out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", text.len()).as_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        Framing::Ndjson => {
            let start = out.len();
            out.extend_from_slice(text.as_bytes());
            // In JSON a bare newline can only stand between tokens, so a blank says the same.
            for at in memchr::memchr_iter(b'\n', text.as_bytes()) {
                out[start + at] = b' ';
            }
            out.push(b'\n');
        }
    }
    Ok(())
}

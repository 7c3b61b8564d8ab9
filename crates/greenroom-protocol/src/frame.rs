//! Cuts a byte stream into JSON texts, and wraps texts for the way out.
//!
//! In: bytes as they arrive, in any pieces. Out: one text per frame, borrowed from the buffer, or
//! a typed error for that frame. The framing is recognised from the first byte: a header letter
//! means `Content-Length`, anything else one JSON text per line.
//! Absent on purpose: I/O, and what the text means.

/// Longest frame, either way. A screen of 1000 × 1000 cells as text fits; a runaway client does
/// not.
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
        compact(&mut self.buffer, &mut self.taken, KEEP_CAP);
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

/// Lets go of the bytes that were taken, and of the buffer too if it is empty and has grown beyond
/// `keep`.
pub(crate) fn compact(buffer: &mut Vec<u8>, taken: &mut usize, keep: usize) {
    buffer.drain(..std::mem::take(taken));
    if buffer.is_empty() && buffer.capacity() > keep {
        *buffer = Vec::new();
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Read = Result<String, FrameError>;

    fn drain(decoder: &mut FrameDecoder, into: &mut Vec<Read>) {
        while let Some(frame) = decoder.next() {
            into.push(frame.map(str::to_owned));
        }
    }

    fn read(pieces: &[&[u8]]) -> Vec<Read> {
        let (mut decoder, mut found) = (FrameDecoder::new(), vec![]);
        for piece in pieces {
            decoder.push(piece);
            drain(&mut decoder, &mut found);
        }
        found
    }

    /// The stream as a whole, byte by byte, and cut at every place reads the same.
    fn check(stream: &[u8], expected: &[Read]) {
        assert_eq!(read(&[stream]), expected);
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read(&bytes), expected);
        for cut in 0..=stream.len() {
            let (head, tail) = stream.split_at(cut);
            assert_eq!(read(&[head, tail]), expected, "cut at {cut}");
        }
    }

    fn ok(text: &str) -> Read {
        Ok(text.to_owned())
    }

    #[test]
    fn lines() {
        check(b"{}\n[1]\r\n", &[ok("{}"), ok("[1]")]);
        check(b"\n\r\n  \n{}\n\n", &[ok("{}")]);
        check(b"{\"a\":\"\xc3\xa9\"}\n{\"a", &[ok("{\"a\":\"é\"}")]);
    }

    #[test]
    fn bad_utf8_costs_its_line_only() {
        check(b"{\"a\":\"\xff\"}\n{}\n", &[Err(FrameError::NotUtf8), ok("{}")]);
    }

    #[test]
    fn headers() {
        check(b"Content-Length: 2\r\n\r\n{}Content-Length: 3\r\n\r\n[1]", &[ok("{}"), ok("[1]")]);
        check(b"content-length:2\n\n{}", &[ok("{}")]);
        check(
            b"Content-Type: x; y=1\r\nCONTENT-LENGTH:  2 \r\n\r\n{}\r\nContent-Length: 2\r\n\r\n[]",
            &[ok("{}"), ok("[]")],
        );
        check(b"Content-Length: 0\r\n\r\nContent-Length: 2\r\n\r\n{}", &[ok(""), ok("{}")]);
        check(
            b"Content-Length: 1\r\n\r\n\xffContent-Length: 2\r\n\r\n{}",
            &[Err(FrameError::NotUtf8), ok("{}")],
        );
    }

    #[test]
    fn broken_headers_end_the_stream() {
        for stream in [
            "Content-Type: x\r\n\r\n{}",
            "Content-Length: -1\r\n\r\n{}",
            "Content-Length: 99999999999999999999\r\n\r\n",
            "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
            "Content-Length: \r\n\r\n",
        ] {
            check(stream.as_bytes(), &[Err(FrameError::NoLength)]);
        }
        assert!(FrameError::NoLength.is_fatal() && !FrameError::TooLarge.is_fatal());
    }

    #[test]
    fn endless_headers_end_the_stream() {
        let stream = format!("Content-Length: 2\r\nX: {}", "x".repeat(2 * HEADER_CAP));
        let pieces: Vec<&[u8]> = stream.as_bytes().chunks(100).collect();
        assert_eq!(read(&pieces), [Err(FrameError::HeaderTooLarge)]);
        assert_eq!(read(&[stream.as_bytes()]), [Err(FrameError::HeaderTooLarge)]);
    }

    #[test]
    fn an_oversize_line_is_skipped_without_being_kept() {
        let (mut decoder, mut found) = (FrameDecoder::new(), vec![]);
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..40 {
            decoder.push(&piece);
            drain(&mut decoder, &mut found);
            assert!(decoder.buffer.len() <= FRAME_CAP + 1 + piece.len());
        }
        assert!(decoder.buffer.is_empty(), "skipped bytes are not kept");
        decoder.push(b"x\n{}\n");
        drain(&mut decoder, &mut found);
        assert_eq!(found, [Err(FrameError::TooLarge), ok("{}")]);
    }

    #[test]
    fn the_cap_itself_is_allowed() {
        let mut line = vec![b'x'; FRAME_CAP];
        for end in [&b"\n"[..], b"\r\n"] {
            let found = read(&[&line, end, b"{}\n"]);
            assert_eq!(
                found.iter().map(|frame| frame.as_ref().map(String::len)).collect::<Vec<_>>(),
                [Ok(FRAME_CAP), Ok(2)]
            );
        }
        line.push(b'x');
        for end in [&b"\n{}\n"[..], b"\r\n{}\n"] {
            assert_eq!(read(&[&line, end]), [Err(FrameError::TooLarge), ok("{}")]);
            assert_eq!(read(&[&[&line, end].concat()]), [Err(FrameError::TooLarge), ok("{}")]);
        }
    }

    #[test]
    fn an_oversize_body_is_skipped_before_it_comes() {
        let (mut decoder, mut found) = (FrameDecoder::new(), vec![]);
        decoder.push(format!("Content-Length: {}\r\n\r\n", FRAME_CAP + 1).as_bytes());
        drain(&mut decoder, &mut found);
        assert_eq!(found, [Err(FrameError::TooLarge)]);
        assert!(decoder.buffer.capacity() <= KEEP_CAP, "nothing was reserved for it");
        let mut left = FRAME_CAP + 1;
        while left > 0 {
            let piece = left.min(1 << 20);
            decoder.push(&vec![b'C'; piece]);
            drain(&mut decoder, &mut found);
            left -= piece;
        }
        decoder.push(b"Content-Length: 2\r\n\r\n{}");
        drain(&mut decoder, &mut found);
        assert_eq!(found, [Err(FrameError::TooLarge), ok("{}")]);
    }

    #[test]
    fn a_large_buffer_is_given_back() {
        let mut decoder = FrameDecoder::new();
        decoder.push(&vec![b'x'; 1 << 20]);
        decoder.push(b"\n");
        assert!(decoder.next().is_some() && decoder.next().is_none());
        decoder.push(b"{}\n");
        assert!(decoder.buffer.capacity() < 1 << 20);
    }

    #[test]
    fn the_end_of_the_stream() {
        let finish = |stream: &[u8]| {
            let mut decoder = FrameDecoder::new();
            decoder.push(stream);
            while decoder.next().is_some() {}
            decoder.finish().map(|frame| frame.map(str::to_owned))
        };
        assert_eq!(finish(b"{}\n{\"a\":1}"), Some(ok("{\"a\":1}")));
        assert_eq!(finish(b"{}\n"), None);
        assert_eq!(finish(b"{}\n  "), None);
        assert_eq!(finish(b""), None);
        assert_eq!(finish(b"Content-Length: 2\r\n\r\n{"), Some(Err(FrameError::Truncated)));
        assert_eq!(finish(b"Content-Le"), Some(Err(FrameError::Truncated)));
        assert_eq!(finish(b"Content-Length: 2\r\n\r\n{}"), None);
    }

    #[test]
    fn what_follows_the_last_frame_is_not_lost() {
        let mut decoder = FrameDecoder::with_framing(Framing::Ndjson);
        decoder.push(b"{}\n\x01\x00\x00");
        assert_eq!(decoder.next(), Some(Ok("{}")));
        assert_eq!(decoder.into_rest(), b"\x01\x00\x00");
    }

    #[test]
    fn newlines_between_tokens_do_not_break_a_line() {
        let mut out = vec![];
        encode(Framing::Ndjson, "{\n\"a\": 1\r\n}", &mut out).unwrap();
        assert_eq!(out, b"{ \"a\": 1\r }\n");
        assert_eq!(
            encode(Framing::Ndjson, &"x".repeat(FRAME_CAP + 1), &mut out),
            Err(FrameError::TooLarge)
        );
    }

    proptest! {
        #[test]
        fn any_texts_survive_any_cuts(
            texts in prop::collection::vec("[ -~é€😀]{1,40}", 0..8),
            lsp in any::<bool>(),
            cuts in prop::collection::vec(1..9usize, 1..5),
        ) {
            let framing = if lsp { Framing::ContentLength } else { Framing::Ndjson };
            // The first byte of a line must not look like a header; blank lines are no frames.
            let texts: Vec<String> = texts.into_iter().map(|text| format!("[{text}]")).collect();
            let mut stream = vec![];
            for text in &texts {
                encode(framing, text, &mut stream).unwrap();
            }
            let (mut decoder, mut found, mut at) = (FrameDecoder::new(), vec![], 0);
            for cut in cuts.iter().cycle() {
                if at >= stream.len() {
                    break;
                }
                let end = (at + cut).min(stream.len());
                decoder.push(&stream[at..end]);
                drain(&mut decoder, &mut found);
                at = end;
            }
            prop_assert_eq!(found, texts.into_iter().map(Ok).collect::<Vec<Read>>());
        }

        #[test]
        fn any_bytes_read_the_same_however_cut(
            mut bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'), any::<u8>()], 0..120),
            lsp in any::<bool>(),
            cut in 0..120usize,
        ) {
            if lsp {
                bytes = [b"Content-Length: 3\r\n\r\n", &bytes[..]].concat();
            }
            let cut = cut.min(bytes.len());
            prop_assert_eq!(read(&[&bytes]), read(&[&bytes[..cut], &bytes[cut..]]));
        }
    }
}

//! The binary stream of an attached client, both ways.
//!
//! A frame is kind u8, payload length u32, payload; integers are big-endian. In: bytes in any
//! pieces. Out: frames that borrow their payload. Unknown kinds are skipped, so that a newer peer
//! can say more.
//! Absent on purpose: terminal modes, reconnecting, I/O.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api::session::ExitStatus;
use crate::frame::compact;

/// Longest payload. A keyframe of the largest screen fits; senders split OUTPUT and INPUT.
pub const PAYLOAD_CAP: usize = 16 * 1024 * 1024;
/// Kind and length.
pub const HEADER_LEN: usize = 5;
/// Kind, length and the sequence number of OUTPUT and KEYFRAME.
pub const SEQ_HEADER_LEN: usize = HEADER_LEN + 8;
/// A buffer that grew beyond this is given back once it is empty.
const KEEP_CAP: usize = 256 * 1024;

/// The kinds on the wire.
pub mod kind {
    /// Host to client: seq u64, bytes. The seq is that of the first byte.
    pub const OUTPUT: u8 = 1;
    /// Host to client: seq u64, an escape stream that paints the screen as after seq bytes.
    pub const KEYFRAME: u8 = 2;
    /// Client to host: bytes.
    pub const INPUT: u8 = 3;
    /// Either way: cols u16, rows u16.
    pub const RESIZE: u8 = 4;
    /// Host to client: JSON status. The session has ended.
    pub const EXIT: u8 = 5;
    /// Either way: JSON reason. The stream ends, the session does not.
    pub const DETACH: u8 = 6;
    /// Host to client: JSON.
    pub const NOTICE: u8 = 7;
}

/// One frame of the stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<'a> {
    /// New output.
    Output {
        /// The number of the first byte.
        seq: u64,
        /// As the program wrote them.
        bytes: &'a [u8],
    },
    /// The screen anew.
    Keyframe {
        /// The screen is as after this much output.
        seq: u64,
        /// Paints it.
        bytes: &'a [u8],
    },
    /// Typed bytes.
    Input(&'a [u8]),
    /// A new size.
    Resize { cols: u16, rows: u16 },
    /// The session has ended.
    Exit(ExitStatus),
    /// The stream ends.
    Detach(Detach),
    /// Something to know.
    Notice(Notice),
}

/// The payload of DETACH.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detach {
    /// `asked`, `replaced`, `shutdown`, `closed`, `slow`, …
    #[serde(default)]
    pub reason: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The payload of NOTICE.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// `reattached`, `lagged`, `recording_paused`, `size`, …
    #[serde(default)]
    pub kind: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// More, by kind.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What is wrong with a frame. It was skipped; the next one can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// Over the cap.
    #[error("an attach frame of kind {kind} has {length} bytes, over the limit of {PAYLOAD_CAP}")]
    TooLarge { kind: u8, length: u32 },
    /// The payload does not fit its kind.
    #[error("an attach frame of kind {kind} is malformed")]
    Malformed { kind: u8 },
}

/// The reading side. Push what was read, then take frames until there is none.
#[derive(Debug, Default)]
pub struct AttachDecoder {
    buffer: Vec<u8>,
    /// Bytes at the front of `buffer` that were handed out already.
    taken: usize,
    /// Bytes of a skipped payload still to come.
    skip: usize,
}

impl AttachDecoder {
    /// Before the first byte.
    pub fn new() -> AttachDecoder {
        AttachDecoder::default()
    }

    /// Takes bytes in. Those of a frame that is being skipped are not kept.
    pub fn push(&mut self, bytes: &[u8]) {
        compact(&mut self.buffer, &mut self.taken, KEEP_CAP);
        let drop = if self.buffer.is_empty() { self.skip.min(bytes.len()) } else { 0 };
        self.skip -= drop;
        self.buffer.extend_from_slice(&bytes[drop..]);
    }

    /// Whether the stream could end here without cutting a frame.
    pub fn is_between_frames(&self) -> bool {
        self.taken == self.buffer.len() && self.skip == 0
    }

    /// The next frame, or `None` until more is pushed.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend its buffer")]
    pub fn next(&mut self) -> Option<Result<Frame<'_>, AttachError>> {
        let (kind, payload) = loop {
            let drop = self.skip.min(self.buffer.len() - self.taken);
            self.skip -= drop;
            self.taken += drop;
            let open = &self.buffer[self.taken..];
            let (header, rest) = open.split_first_chunk::<HEADER_LEN>()?;
            let [kind, length @ ..] = *header;
            let length = u32::from_be_bytes(length);
            let size = usize::try_from(length).unwrap_or(usize::MAX);
            let known = (kind::OUTPUT..=kind::NOTICE).contains(&kind);
            if known && size <= PAYLOAD_CAP {
                if rest.len() < size {
                    return None;
                }
                let start = self.taken + HEADER_LEN;
                self.taken = start + size;
                break (kind, start..start + size);
            }
            self.taken += HEADER_LEN;
            self.skip = size;
            if known {
                return Some(Err(AttachError::TooLarge { kind, length }));
            }
        };
        Some(read(kind, &self.buffer[payload]).ok_or(AttachError::Malformed { kind }))
    }
}

fn read(kind: u8, payload: &[u8]) -> Option<Frame<'_>> {
    Some(match kind {
        kind::OUTPUT | kind::KEYFRAME => {
            let (seq, bytes) = payload.split_first_chunk::<8>()?;
            let seq = u64::from_be_bytes(*seq);
            if kind == kind::OUTPUT {
                Frame::Output { seq, bytes }
            } else {
                Frame::Keyframe { seq, bytes }
            }
        }
        kind::INPUT => Frame::Input(payload),
        kind::RESIZE => {
            let [c0, c1, r0, r1] = *payload.as_array::<4>()?;
            Frame::Resize { cols: u16::from_be_bytes([c0, c1]), rows: u16::from_be_bytes([r0, r1]) }
        }
        kind::EXIT => Frame::Exit(serde_json::from_slice(payload).ok()?),
        kind::DETACH => Frame::Detach(serde_json::from_slice(payload).ok()?),
        _ => Frame::Notice(serde_json::from_slice(payload).ok()?),
    })
}

/// The header of an OUTPUT or KEYFRAME whose bytes are written after it without a copy.
///
/// `len` is that of the bytes alone and at most [`PAYLOAD_CAP`] - 8.
pub fn seq_header(kind: u8, seq: u64, len: usize) -> [u8; SEQ_HEADER_LEN] {
    debug_assert!(len + 8 <= PAYLOAD_CAP, "the caller splits its bytes");
    let length = u32::try_from(len + 8).expect("the caller splits its bytes");
    let mut header = [0; SEQ_HEADER_LEN];
    header[0] = kind;
    header[1..5].copy_from_slice(&length.to_be_bytes());
    header[5..].copy_from_slice(&seq.to_be_bytes());
    header
}

impl Frame<'_> {
    /// Appends the frame to `out`. OUTPUT and INPUT over the cap become several frames; a
    /// KEYFRAME or a text over the cap cannot be sent.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), AttachError> {
        match self {
            Frame::Output { seq, bytes } => {
                let mut seq = *seq;
                for piece in pieces(bytes, PAYLOAD_CAP - 8) {
                    out.extend_from_slice(&seq_header(kind::OUTPUT, seq, piece.len()));
                    out.extend_from_slice(piece);
                    seq += piece.len() as u64;
                }
                Ok(())
            }
            Frame::Keyframe { seq, bytes } => {
                check(kind::KEYFRAME, bytes.len().saturating_add(8))?;
                out.extend_from_slice(&seq_header(kind::KEYFRAME, *seq, bytes.len()));
                out.extend_from_slice(bytes);
                Ok(())
            }
            Frame::Input(bytes) => {
                pieces(bytes, PAYLOAD_CAP).try_for_each(|piece| put(kind::INPUT, piece, out))
            }
            Frame::Resize { cols, rows } => {
                let ([c0, c1], [r0, r1]) = (cols.to_be_bytes(), rows.to_be_bytes());
                put(kind::RESIZE, &[c0, c1, r0, r1], out)
            }
            Frame::Exit(status) => put_json(kind::EXIT, status, out),
            Frame::Detach(reason) => put_json(kind::DETACH, reason, out),
            Frame::Notice(notice) => put_json(kind::NOTICE, notice, out),
        }
    }

    /// The frame alone.
    pub fn to_vec(&self) -> Result<Vec<u8>, AttachError> {
        let mut out = Vec::new();
        self.encode(&mut out)?;
        Ok(out)
    }
}

/// Pieces of at most `size`; one empty piece of nothing, so that an empty frame stays a frame.
fn pieces(bytes: &[u8], size: usize) -> impl Iterator<Item = &[u8]> {
    let empty: Option<&[u8]> = bytes.is_empty().then_some(&[]);
    bytes.chunks(size).chain(empty)
}

fn check(kind: u8, len: usize) -> Result<u32, AttachError> {
    let length = u32::try_from(len).unwrap_or(u32::MAX);
    if len > PAYLOAD_CAP { Err(AttachError::TooLarge { kind, length }) } else { Ok(length) }
}

fn put(kind: u8, payload: &[u8], out: &mut Vec<u8>) -> Result<(), AttachError> {
    let length = check(kind, payload.len())?;
    out.push(kind);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(payload);
    Ok(())
}

fn put_json<T: Serialize>(kind: u8, value: &T, out: &mut Vec<u8>) -> Result<(), AttachError> {
    let payload = serde_json::to_vec(value).map_err(|_| AttachError::Malformed { kind })?;
    put(kind, &payload, out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a frame says, owned: its own encoding, which is one to one.
    type Read = Result<Vec<u8>, AttachError>;

    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Read>, AttachDecoder) {
        let (mut decoder, mut found) = (AttachDecoder::new(), vec![]);
        for piece in pieces {
            decoder.push(piece);
            while let Some(frame) = decoder.next() {
                found.push(frame.and_then(|frame| frame.to_vec()));
            }
        }
        (found, decoder)
    }

    #[test]
    fn the_bytes_of_the_contract() {
        let check = |frame: Frame<'_>, bytes: &[u8]| {
            assert_eq!(frame.to_vec().unwrap(), bytes);
            let mut decoder = AttachDecoder::new();
            decoder.push(bytes);
            assert_eq!(decoder.next(), Some(Ok(frame)));
            assert!(decoder.is_between_frames());
        };
        check(Frame::Output { seq: 0x0102, bytes: b"hi" }, b"\x01\0\0\0\x0a\0\0\0\0\0\0\x01\x02hi");
        check(Frame::Keyframe { seq: 1, bytes: b"" }, b"\x02\0\0\0\x08\0\0\0\0\0\0\0\x01");
        check(Frame::Input(b"ls\r"), b"\x03\0\0\0\x03ls\r");
        check(Frame::Resize { cols: 0x0150, rows: 40 }, b"\x04\0\0\0\x04\x01\x50\0\x28");
        check(Frame::Exit(ExitStatus::code(3)), b"\x05\0\0\0\x1a{\"code\":3,\"success\":false}");
        let reason = Detach { reason: "asked".into(), message: None };
        check(Frame::Detach(reason), b"\x06\0\0\0\x12{\"reason\":\"asked\"}");
        let notice = Notice { kind: "reattached".into(), ..Notice::default() };
        check(Frame::Notice(notice), b"\x07\0\0\0\x15{\"kind\":\"reattached\"}");
    }

    #[test]
    fn unknown_kinds_are_skipped_whatever_their_length() {
        let input = Frame::Input(b"x").to_vec().unwrap();
        let stream = [b"\x63\0\0\0\x03abc", &input[..], b"\0\0\0\0\0", &input[..]].concat();
        assert_eq!(read([&stream[..]]).0, [Ok(input.clone()), Ok(input.clone())]);
        assert_eq!(read(stream.chunks(1)).0, [Ok(input.clone()), Ok(input)]);

        let (mut decoder, chunk) = (AttachDecoder::new(), vec![0; 1 << 20]);
        decoder.push(b"\x63\xff\xff\xff\xff");
        for _ in 0..100 {
            assert_eq!(decoder.next(), None);
            decoder.push(&chunk);
            assert!(decoder.buffer.is_empty(), "skipped bytes are not kept");
        }
    }

    #[test]
    fn oversize_and_malformed_frames_cost_only_themselves() {
        let input = Frame::Input(b"x").to_vec().unwrap();
        let too_long = u32::try_from(PAYLOAD_CAP + 1).unwrap();
        let stream =
            [&b"\x01"[..], &too_long.to_be_bytes(), &vec![0; PAYLOAD_CAP + 1], &input].concat();
        let expected = [
            Err(AttachError::TooLarge { kind: kind::OUTPUT, length: too_long }),
            Ok(input.clone()),
        ];
        assert_eq!(read([&stream[..]]).0, expected);
        assert_eq!(read(stream.chunks(100_000)).0, expected);

        for (kind, payload) in [
            (kind::OUTPUT, &b"1234567"[..]),
            (kind::KEYFRAME, b""),
            (kind::RESIZE, b"12345"),
            (kind::EXIT, b"{"),
            (kind::DETACH, b"[1]"),
            (kind::NOTICE, b"\xff"),
        ] {
            let mut stream = vec![kind, 0, 0, 0, u8::try_from(payload.len()).unwrap()];
            stream.extend_from_slice(payload);
            stream.extend_from_slice(&input);
            assert_eq!(
                read([&stream[..]]).0,
                [Err(AttachError::Malformed { kind }), Ok(input.clone())]
            );
        }
    }

    #[test]
    fn long_output_is_split_and_long_keyframes_refused() {
        let bytes = vec![7; PAYLOAD_CAP];
        let mut out = vec![];
        Frame::Output { seq: 5, bytes: &bytes }.encode(&mut out).unwrap();
        let mut decoder = AttachDecoder::new();
        decoder.push(&out);
        let (mut next, mut frames) = (5, 0);
        while let Some(frame) = decoder.next() {
            let Frame::Output { seq, bytes } = frame.unwrap() else { panic!("not output") };
            assert_eq!(seq, next);
            next += bytes.len() as u64;
            frames += 1;
        }
        assert_eq!((next, frames), (5 + PAYLOAD_CAP as u64, 2));
        assert!(Frame::Keyframe { seq: 0, bytes: &bytes }.to_vec().is_err());
    }

    #[test]
    fn a_header_and_its_bytes_are_the_frame() {
        let whole = Frame::Output { seq: 9, bytes: b"abc" }.to_vec().unwrap();
        assert_eq!([&seq_header(kind::OUTPUT, 9, 3)[..], b"abc"].concat(), whole);
    }

    fn any_frame() -> impl Strategy<Value = Vec<u8>> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..30);
        let encode = |frame: Frame<'_>| frame.to_vec().unwrap();
        prop_oneof![
            (any::<u64>(), bytes()).prop_map(move |(seq, bytes)| encode(Frame::Output {
                seq: seq >> 1,
                bytes: &bytes
            })),
            (any::<u64>(), bytes())
                .prop_map(move |(seq, bytes)| encode(Frame::Keyframe { seq, bytes: &bytes })),
            bytes().prop_map(move |bytes| encode(Frame::Input(&bytes))),
            (any::<u16>(), any::<u16>())
                .prop_map(move |(cols, rows)| encode(Frame::Resize { cols, rows })),
            any::<i32>().prop_map(move |code| encode(Frame::Exit(ExitStatus::code(code)))),
            ".{0,9}"
                .prop_map(move |reason| encode(Frame::Detach(Detach { reason, message: None }))),
        ]
    }

    proptest! {
        #[test]
        fn any_frames_survive_every_cut(frames in prop::collection::vec(any_frame(), 0..5)) {
            let stream = frames.concat();
            let expected: Vec<Read> = frames.into_iter().map(Ok).collect();
            for cut in 0..=stream.len() {
                let (head, tail) = stream.split_at(cut);
                let (found, decoder) = read([head, tail]);
                prop_assert_eq!(&found, &expected);
                prop_assert!(decoder.is_between_frames());
            }
        }

        #[test]
        fn any_bytes_read_the_same_however_cut(bytes in prop::collection::vec(prop_oneof![3 => 0..9u8, 1 => any::<u8>()], 0..80)) {
            let whole = read([&bytes[..]]).0;
            prop_assert_eq!(&read(bytes.chunks(1)).0, &whole);
        }
    }
}

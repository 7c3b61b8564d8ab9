//! Frames on their way to one client: gathered, then written with as few system calls as possible.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use greenroom_engine::Seq;
use greenroom_protocol::attach::{Frame, PAYLOAD_CAP, kind, seq_header};
use tokio::net::UnixStream;

/// Output up to this is copied behind its header: cheaper than another piece.
const COPY_MAX: usize = 4096;

/// Pieces in one write; the kernel takes up to 1024.
const PIECES_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Outflow {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that have left.
    sent: usize,
    len: usize,
}

enum Piece {
    Own(Vec<u8>),
    Shared(Arc<[u8]>),
}

impl Piece {
    fn bytes(&self) -> &[u8] {
        match self {
            Piece::Own(bytes) => bytes,
            Piece::Shared(bytes) => bytes,
        }
    }
}

impl Outflow {
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn clear(&mut self) {
        *self = Outflow::default();
    }

    pub(crate) fn output(&mut self, seq: Seq, bytes: Arc<[u8]>) {
        if bytes.len() <= COPY_MAX {
            let small = self.small();
            small.extend_from_slice(&seq_header(kind::OUTPUT, seq.0, bytes.len()));
            small.extend_from_slice(&bytes);
            self.len += bytes.len() + greenroom_protocol::attach::SEQ_HEADER_LEN;
        } else if bytes.len() <= PAYLOAD_CAP - 8 {
            self.head(kind::OUTPUT, seq, bytes.len());
            self.put(Piece::Shared(bytes));
        } else {
            self.frame(&Frame::Output { seq: seq.0, bytes: &bytes });
        }
    }

    pub(crate) fn keyframe(&mut self, seq: Seq, bytes: Vec<u8>) {
        if bytes.len() > PAYLOAD_CAP - 8 {
            // Larger than any screen can be; the output that follows repaints it.
            tracing::error!(bytes = bytes.len(), "a keyframe is too large to send");
            return;
        }
        self.head(kind::KEYFRAME, seq, bytes.len());
        self.put(Piece::Own(bytes));
    }

    pub(crate) fn frame(&mut self, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        match frame.encode(&mut bytes) {
            Ok(()) => self.put(Piece::Own(bytes)),
            Err(error) => tracing::error!(%error, "writing an attach frame"),
        }
    }

    /// Writes until everything has left or the socket is full.
    pub(crate) fn write(&mut self, stream: &UnixStream) -> io::Result<()> {
        while !self.is_empty() {
            let mut slices = Vec::with_capacity(self.pieces.len().min(PIECES_MAX));
            for (index, piece) in self.pieces.iter().take(PIECES_MAX).enumerate() {
                let from = if index == 0 { self.sent } else { 0 };
                slices.push(IoSlice::new(&piece.bytes()[from..]));
            }
            match stream.try_write_vectored(&slices) {
                Ok(written) => self.left(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn left(&mut self, mut written: usize) {
        self.len -= written;
        while let Some(first) = self.pieces.front() {
            let open = first.bytes().len() - self.sent;
            if written < open {
                self.sent += written;
                return;
            }
            written -= open;
            self.sent = 0;
            self.pieces.pop_front();
        }
    }

    fn head(&mut self, kind: u8, seq: Seq, len: usize) {
        let header = seq_header(kind, seq.0, len);
        self.small().extend_from_slice(&header);
        self.len += header.len();
    }

    fn put(&mut self, piece: Piece) {
        self.len += piece.bytes().len();
        self.pieces.push_back(piece);
    }

    /// The last piece, if it may grow, else a new one.
    fn small(&mut self) -> &mut Vec<u8> {
        let grows = matches!(self.pieces.back(), Some(Piece::Own(bytes)) if bytes.len() < COPY_MAX);
        if !grows {
            self.pieces.push_back(Piece::Own(Vec::new()));
        }
        match self.pieces.back_mut() {
            Some(Piece::Own(bytes)) => bytes,
            _ => unreachable!("the last piece is our own"),
        }
    }
}

#[cfg(test)]
mod tests {
    use greenroom_protocol::attach::AttachDecoder;
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn what_goes_in_comes_out_in_order_whatever_the_socket_takes() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let mut out = Outflow::default();
        let mut expected = Vec::new();
        let mut seq = 0u64;
        for round in 0..200u32 {
            let bytes: Arc<[u8]> = vec![round as u8; (round as usize * 997) % 9000].into();
            expected.extend_from_slice(&bytes);
            out.output(Seq(seq), bytes.clone());
            seq += bytes.len() as u64;
        }
        let mut decoder = AttachDecoder::new();
        let mut got = Vec::new();
        let mut buffer = vec![0; 50_000];
        while got.len() < expected.len() {
            tokio::select! {
                ready = here.writable(), if !out.is_empty() => {
                    ready.unwrap();
                    out.write(&here).unwrap();
                }
                read = there.read(&mut buffer) => decoder.push(&buffer[..read.unwrap()]),
            }
            while let Some(frame) = decoder.next() {
                let Frame::Output { seq, bytes } = frame.unwrap() else { panic!() };
                assert_eq!(seq, got.len() as u64);
                got.extend_from_slice(bytes);
            }
        }
        assert_eq!(got, expected);
    }

    proptest! {
        #[test]
        fn any_split_of_writes_leaves_the_rest(sizes in proptest::collection::vec(0usize..6000, 1..8), steps in proptest::collection::vec(1usize..4000, 1..40)) {
            let mut out = Outflow::default();
            let mut expected: Vec<u8> = Vec::new();
            for (index, size) in sizes.iter().enumerate() {
                let bytes: Arc<[u8]> = vec![index as u8; *size].into();
                Frame::Output { seq: 5, bytes: &bytes }.encode(&mut expected).unwrap();
                out.output(Seq(5), bytes);
            }
            let mut at = 0;
            for step in steps {
                let step = step.min(out.len());
                out.left(step);
                at += step;
                let mut rest: Vec<u8> = Vec::new();
                for (index, piece) in out.pieces.iter().enumerate() {
                    rest.extend_from_slice(&piece.bytes()[if index == 0 { out.sent } else { 0 }..]);
                }
                prop_assert_eq!(&rest, &expected[at..]);
                prop_assert_eq!(out.len(), rest.len());
            }
        }
    }
}

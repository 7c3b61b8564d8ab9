//! A connection of the socket's kind inside of the daemon: what HTTP streams are made of.
//!
//! One end is served like any client (rights, limits, subscriptions, attach and all); the other is
//! ours to read and write. So a WebSocket is the socket in another coat, and not a second
//! implementation of it.

use greenroom_protocol::frame::{self, FrameDecoder, FrameError, Framing};
use greenroom_protocol::{Fault, FaultKind, Id, rpc};
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::site::Visitor;
use crate::rpc::ask::Api;

const READ_BYTES: usize = 16 * 1024;

/// Opens one; it lives until either half is dropped.
pub(crate) fn open(api: &Api, visitor: &Visitor) -> Result<(Reader, Writer), Fault> {
    let (ours, theirs) = UnixStream::pair()
        .map_err(|error| Fault::new(FaultKind::Busy, format!("cannot open a stream: {error}")))?;
    let (serving, visitor) = (api.clone().serve(theirs, visitor.caller), visitor.clone());
    tokio::spawn(async move {
        serving.await;
        drop(visitor);
    });
    let (read, write) = ours.into_split();
    let reader = Reader { read, decoder: FrameDecoder::new(), buffer: vec![0; READ_BYTES] };
    Ok((reader, Writer { write }))
}

pub(crate) struct Reader {
    read: OwnedReadHalf,
    decoder: FrameDecoder,
    buffer: Vec<u8>,
}

impl Reader {
    /// The next text; `None` at the end.
    pub(crate) async fn text(&mut self) -> Option<String> {
        loop {
            match self.decoder.next() {
                Some(Ok(text)) => return Some(text.to_owned()),
                Some(Err(_)) => return None,
                None => {}
            }
            let read = self.read.read(&mut self.buffer).await.ok().filter(|read| *read > 0)?;
            self.decoder.push(&self.buffer[..read]);
        }
    }

    /// The stream after the last text: bytes that came already, and where more come from.
    pub(crate) fn into_bytes(self) -> (Vec<u8>, OwnedReadHalf) {
        (self.decoder.into_rest(), self.read)
    }
}

pub(crate) struct Writer {
    write: OwnedWriteHalf,
}

impl Writer {
    /// False when nobody reads any more.
    pub(crate) async fn text(&mut self, text: &str) -> Result<bool, FrameError> {
        let mut bytes = Vec::with_capacity(text.len() + 32);
        // With its length in front a text may hold line ends.
        frame::encode(Framing::ContentLength, text, &mut bytes)?;
        Ok(self.bytes(&bytes).await)
    }

    pub(crate) async fn bytes(&mut self, bytes: &[u8]) -> bool {
        self.write.write_all(bytes).await.is_ok()
    }

    pub(crate) async fn request(
        &mut self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<(), Fault> {
        let broken = |why: String| Fault::new(FaultKind::Internal, why);
        let text = rpc::encode_request(&Id::from(1), method, params)
            .map_err(|error| broken(format!("cannot write the params of {method}: {error}")))?;
        match self.text(&text).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Fault::new(FaultKind::Unavailable, "the host is stopping")),
            Err(error) => Err(Fault::new(FaultKind::TooLarge, error.to_string())),
        }
    }
}

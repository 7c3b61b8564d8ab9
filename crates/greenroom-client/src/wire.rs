//! One socket with one owner, which reads and writes it. Attach and event streams each have one.
//!
//! Reading is cancel-safe: what has arrived stays in the decoder.

use std::io;

use greenroom_protocol::frame::{self, FrameDecoder, Framing};
use greenroom_protocol::methods::Method;
use greenroom_protocol::rpc::{self, Id, Incoming, Message};
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::client::ANSWER_LIMIT;
use crate::error::{ClientError, Garbled};
use crate::silence::Stopped;

/// Read at once.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// Why a wire could not be used.
#[derive(Debug)]
pub(crate) enum WireError {
    /// The connection is gone: connect again.
    Gone,
    /// It is there and there is no point in trying again.
    Failed(ClientError),
}

impl WireError {
    /// For whoever does not connect again.
    pub(crate) fn during(self, method: &str) -> ClientError {
        match self {
            WireError::Gone => ClientError::EffectUnknown { method: method.to_owned() },
            WireError::Failed(error) => error,
        }
    }
}

impl From<io::Error> for WireError {
    fn from(_: io::Error) -> WireError {
        // Every error of a local stream socket means that the peer is gone.
        WireError::Gone
    }
}

impl From<Garbled> for WireError {
    fn from(garbled: Garbled) -> WireError {
        WireError::Failed(garbled.into())
    }
}

#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) stream: UnixStream,
    decoder: FrameDecoder,
    chunk: Box<[u8]>,
    stopped: Stopped,
}

impl Wire {
    pub(crate) fn new(stream: UnixStream) -> Wire {
        let chunk = vec![0; READ_BYTES].into_boxed_slice();
        let stopped = Stopped::of(&stream);
        Wire { stream, decoder: FrameDecoder::with_framing(Framing::Ndjson), chunk, stopped }
    }

    /// The first call of a wire: nothing else is in flight, so the first reply is its.
    pub(crate) async fn call<M: Method>(
        &mut self,
        params: &M::Params,
    ) -> Result<M::Result, WireError> {
        let method = || M::NAME.to_owned();
        let request = encode(&Id::from(0), M::NAME, params).map_err(WireError::Failed)?;
        let exchange = async {
            self.stream.write_all(&request).await?;
            loop {
                let text = self.frame().await?;
                let Incoming::One(Ok(message)) = rpc::parse(&text) else {
                    return Err(Garbled::NotTheAnswer { method: M::NAME }.into());
                };
                let Message::Response(response) = message else { continue };
                let raw = response.outcome.map_err(|fault| WireError::Failed(fault.into()))?;
                return serde_json::from_str(raw.get()).map_err(|source| {
                    WireError::Failed(ClientError::Answer { method: method(), source })
                });
            }
        };
        let after = ANSWER_LIMIT;
        timeout(after, exchange).await.unwrap_or_else(|_| {
            Err(WireError::Failed(ClientError::NoAnswer { method: method(), after }))
        })
    }

    /// The next frame's text.
    pub(crate) async fn frame(&mut self) -> Result<String, WireError> {
        loop {
            if let Some(frame) = self.decoder.next() {
                return frame.map(str::to_owned).map_err(|error| Garbled::Frame(error).into());
            }
            let count = tokio::select! {
                count = self.stream.read(&mut self.chunk) => count?,
                error = self.stopped.seen() => return Err(WireError::Failed(error)),
            };
            if count == 0 {
                return Err(WireError::Gone);
            }
            self.decoder.push(&self.chunk[..count]);
        }
    }

    /// The socket, and what arrived after the last frame.
    pub(crate) fn into_parts(self) -> (UnixStream, Vec<u8>) {
        (self.stream, self.decoder.into_rest())
    }
}

/// A request, ready to be written.
pub(crate) fn encode<P: Serialize>(
    id: &Id,
    method: &str,
    params: &P,
) -> Result<Vec<u8>, ClientError> {
    let text = rpc::encode_request(id, method, params)
        .map_err(|source| ClientError::Params { method: method.to_owned(), source })?;
    let mut bytes = Vec::new();
    frame::encode(Framing::Ndjson, &text, &mut bytes)
        .map_err(|source| ClientError::Request { method: method.to_owned(), source })?;
    Ok(bytes)
}

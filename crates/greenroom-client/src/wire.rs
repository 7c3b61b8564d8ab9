//! One socket, read and written by one owner: the plain shape under attach and event streams.
//!
//! Reading is cancel-safe: what has arrived stays in the decoder.

use std::io;

use greenroom_protocol::frame::{self, FrameDecoder, Framing};
use greenroom_protocol::rpc::{self, Id, Incoming, Message};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::client::ANSWER_LIMIT;
use crate::error::{ClientError, Garbled};

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

impl From<io::Error> for WireError {
    fn from(_: io::Error) -> WireError {
        // Whatever the system says of a local stream socket, it means that the peer is gone.
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
}

impl Wire {
    pub(crate) fn new(stream: UnixStream) -> Wire {
        let chunk = vec![0; READ_BYTES].into_boxed_slice();
        Wire { stream, decoder: FrameDecoder::with_framing(Framing::Ndjson), chunk }
    }

    /// The first call of a wire: nothing else is in flight, so the first reply is its.
    pub(crate) async fn call<P: Serialize, R: DeserializeOwned>(
        &mut self,
        method: &'static str,
        params: &P,
    ) -> Result<R, WireError> {
        let bytes = encode(&Id::from(0), method, params).map_err(WireError::Failed)?;
        let after = ANSWER_LIMIT;
        match timeout(after, self.exchange(method, &bytes)).await {
            Ok(answer) => answer,
            Err(_) => {
                Err(WireError::Failed(ClientError::NoAnswer { method: method.to_owned(), after }))
            }
        }
    }

    async fn exchange<R: DeserializeOwned>(
        &mut self,
        method: &'static str,
        request: &[u8],
    ) -> Result<R, WireError> {
        self.stream.write_all(request).await?;
        loop {
            let text = self.frame().await?;
            let Incoming::One(Ok(message)) = rpc::parse(&text) else {
                return Err(Garbled::NotTheAnswer { method }.into());
            };
            let Message::Response(response) = message else { continue };
            let raw = response.outcome.map_err(|fault| WireError::Failed(fault.into()))?;
            return serde_json::from_str(raw.get()).map_err(|source| {
                WireError::Failed(ClientError::Answer { method: method.to_owned(), source })
            });
        }
    }

    /// The next frame's text.
    pub(crate) async fn frame(&mut self) -> Result<String, WireError> {
        loop {
            if let Some(frame) = self.decoder.next() {
                return frame.map(str::to_owned).map_err(|error| Garbled::Frame(error).into());
            }
            let count = self.stream.read(&mut self.chunk).await?;
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

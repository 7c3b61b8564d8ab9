//! WebSocket: JSON-RPC at `/api/rpc`, a terminal at `/api/sessions/{id}/attach`.
//!
//! A text message is a frame of the client API, a binary message a frame of the attach stream;
//! which comes when is as on the socket: texts until `session.attach` is answered, binary from then
//! on. At the second address that call is made for the client, and its answer is the first message.

use std::sync::{Arc, Mutex};

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::{Extension, RequestExt as _};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use greenroom_protocol::attach::PAYLOAD_CAP;
use greenroom_protocol::frame::FRAME_CAP;
use greenroom_protocol::methods::{Method as _, method};
use greenroom_protocol::rpc::{self, Incoming};
use greenroom_protocol::{Fault, FaultKind, Id};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::OwnedReadHalf;

use super::answer::Failure;
use super::bridge::{self, Reader, Writer};
use super::gate::SUBPROTOCOL;
use super::site::Visitor;
use super::table::Route;
use super::{Parts, rest};
use crate::rpc::ask::Api;
use crate::sync::lock;

/// Kind and length of an attach frame.
const FRAME_HEAD: usize = 5;

const READ_BYTES: usize = 64 * 1024;

/// `/api/rpc`.
pub(crate) async fn rpc(
    State(parts): State<Parts>,
    Extension(visitor): Extension<Visitor>,
    mut request: Request,
) -> Result<Response, Failure> {
    let upgrade = upgrade(&mut request).await?;
    let (reader, writer) = bridge::open(&parts.api, &visitor)?;
    let asked = Asked::default();
    Ok(upgrade.on_upgrade(move |socket| pump(socket, reader, writer, asked, visitor)))
}

/// `/api/sessions/{id}/attach`.
pub(crate) async fn attach(
    api: &Api,
    visitor: Visitor,
    route: &'static Route,
    mut request: Request,
) -> Result<Response, Failure> {
    let upgrade = upgrade(&mut request).await?;
    let params = rest::params_of(route, request).await?;
    let (reader, mut writer) = bridge::open(api, &visitor)?;
    writer.request(route.row.name, &params).await?;
    let asked = Asked(Arc::new(Mutex::new(Some(Id::from(1)))));
    Ok(upgrade.on_upgrade(move |socket| pump(socket, reader, writer, asked, visitor)))
}

async fn upgrade(request: &mut Request) -> Result<WebSocketUpgrade, Failure> {
    let upgrade = request.extract_parts::<WebSocketUpgrade>().await.map_err(|error| {
        let message = format!("this is a WebSocket: {}", error.body_text());
        let fault = Fault::new(FaultKind::InvalidRequest, message);
        Failure::from(fault).with_status(StatusCode::UPGRADE_REQUIRED)
    })?;
    let upgrade = upgrade.max_message_size(FRAME_CAP).max_frame_size(FRAME_CAP);
    Ok(upgrade.protocols([SUBPROTOCOL]))
}

/// The id of the `session.attach` that has not been answered yet.
#[derive(Clone, Default)]
struct Asked(Arc<Mutex<Option<Id>>>);

impl Asked {
    /// A text on its way to the host.
    fn note(&self, text: &str) {
        if !text.contains(method::SessionAttach::NAME) {
            return;
        }
        if let Incoming::One(Ok(rpc::Message::Request(request))) = rpc::parse(text)
            && request.method == method::SessionAttach::NAME
        {
            *lock(&self.0) = Some(request.id);
        }
    }

    /// Whether this text of the host turns the stream binary.
    fn answered_by(&self, text: &str) -> bool {
        let mut asked = lock(&self.0);
        let Some(id) = asked.as_ref() else { return false };
        let Incoming::One(Ok(rpc::Message::Response(response))) = rpc::parse(text) else {
            return false;
        };
        if response.id != *id {
            return false;
        }
        *asked = None;
        response.outcome.is_ok()
    }
}

/// Both ways at once, until either ends. A client that does not read holds up nobody but itself.
async fn pump(socket: WebSocket, reader: Reader, writer: Writer, asked: Asked, visitor: Visitor) {
    let (mut out, incoming) = socket.split();
    let code = tokio::select! {
        code = inwards(incoming, writer, asked.clone()) => code,
        () = outwards(&mut out, reader, asked) => close_code::NORMAL,
    };
    let close = CloseFrame { code, reason: "".into() };
    let _ = out.send(Message::Close(Some(close))).await;
    drop(visitor);
}

async fn inwards(mut incoming: SplitStream<WebSocket>, mut writer: Writer, asked: Asked) -> u16 {
    while let Some(message) = incoming.next().await {
        let taken = match message {
            Ok(Message::Text(text)) => {
                asked.note(&text);
                match writer.text(&text).await {
                    Ok(taken) => taken,
                    Err(_) => return close_code::SIZE,
                }
            }
            Ok(Message::Binary(bytes)) => writer.bytes(&bytes).await,
            Ok(Message::Ping(_) | Message::Pong(_)) => true,
            Ok(Message::Close(_)) | Err(_) => return close_code::NORMAL,
        };
        if !taken {
            break;
        }
    }
    close_code::NORMAL
}

async fn outwards(out: &mut SplitSink<WebSocket, Message>, mut reader: Reader, asked: Asked) {
    while let Some(text) = reader.text().await {
        let binary = asked.answered_by(&text);
        if out.send(Message::Text(text.into())).await.is_err() {
            return;
        }
        if binary {
            let (rest, read) = reader.into_bytes();
            return frames(out, rest, read).await;
        }
    }
}

/// Attach frames, one per message.
async fn frames(
    out: &mut SplitSink<WebSocket, Message>,
    mut waiting: Vec<u8>,
    mut read: OwnedReadHalf,
) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let mut at = 0;
        while let Some(length) = whole(&waiting[at..]) {
            let frame = waiting[at..at + length].to_vec();
            at += length;
            if out.send(Message::Binary(frame.into())).await.is_err() {
                return;
            }
        }
        waiting.drain(..at);
        match read.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => waiting.extend_from_slice(&buffer[..count]),
        }
    }
}

/// The length of the first frame, if it is there to its end.
fn whole(bytes: &[u8]) -> Option<usize> {
    let head = bytes.first_chunk::<FRAME_HEAD>()?;
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    debug_assert!(length <= PAYLOAD_CAP, "our own frames are within the cap");
    let end = FRAME_HEAD + length;
    (bytes.len() >= end).then_some(end)
}

#[cfg(test)]
mod tests {
    use greenroom_protocol::attach::Frame;

    use super::*;

    #[test]
    fn frames_are_cut_where_they_end() {
        let mut bytes = Vec::new();
        Frame::Output { seq: 3, bytes: b"hello" }.encode(&mut bytes).unwrap();
        let first = bytes.len();
        Frame::Resize { cols: 80, rows: 24 }.encode(&mut bytes).unwrap();
        for cut in 0..first {
            assert_eq!(whole(&bytes[..cut]), None);
        }
        assert_eq!(whole(&bytes), Some(first));
        assert_eq!(whole(&bytes[first..]), Some(bytes.len() - first));
    }

    #[test]
    fn only_the_answer_to_attach_turns_the_stream() {
        let asked = Asked::default();
        asked.note(r#"{"jsonrpc":"2.0","id":4,"method":"session.list"}"#);
        assert!(!asked.answered_by(r#"{"jsonrpc":"2.0","id":4,"result":{}}"#));
        let attach =
            r#"{"jsonrpc":"2.0","id":5,"method":"session.attach","params":{"session":"s1"}}"#;
        asked.note(attach);
        assert!(!asked.answered_by(r#"{"jsonrpc":"2.0","id":6,"result":{}}"#));
        assert!(
            !asked.answered_by(r#"{"jsonrpc":"2.0","method":"session.attach","params":{"id":5}}"#)
        );
        assert!(
            !asked.answered_by(r#"{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"no"}}"#)
        );
        asked.note(attach);
        assert!(asked.answered_by(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#));
    }
}

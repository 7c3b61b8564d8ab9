//! MCP on stdin and stdout, until the client closes them.
//!
//! A client that closes only our stdin is answered what it has asked, as on the socket: the end of
//! the input is not told to the protocol's own loop before, because that gives up on answers after
//! some seconds.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::Notify;

use crate::{Backend, Server};

#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    #[error("cannot speak MCP: {0}")]
    Begin(#[source] Box<ServerInitializeError>),
    #[error("cannot go on speaking MCP: {0}")]
    Ended(#[source] tokio::task::JoinError),
}

/// Serves one client; `unheard` is ready when nobody reads our stdout any more.
pub async fn serve_stdio(
    backend: Arc<dyn Backend>,
    unheard: impl Future<Output = ()> + Send + 'static,
) -> Result<(), StdioError> {
    let (input, output) = rmcp::transport::io::stdio_pipes();
    let input = WholeLines { input, cut: false };
    let inner = AsyncRwTransport::new_server(input, output);
    let transport = AnsweringTransport {
        inner,
        open: Arc::default(),
        ended: false,
        unheard: Box::pin(unheard),
    };
    let running = match rmcp::serve_server(Server::new(backend), transport).await {
        Ok(running) => running,
        // A client that looks and leaves makes no mistake.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(StdioError::Begin(Box::new(error))),
    };
    running.waiting().await.map(drop).map_err(StdioError::Ended)
}

/// Ends when everything is answered, and not with its input.
struct AnsweringTransport<T> {
    inner: T,
    open: Arc<OpenRequests>,
    ended: bool,
    unheard: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Requests without an answer.
#[derive(Default)]
struct OpenRequests {
    ids: Mutex<HashSet<RequestId>>,
    landed: Notify,
}

impl OpenRequests {
    fn ids(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn land(&self, id: &RequestId) {
        self.ids().remove(id);
        self.landed.notify_waiters();
    }

    async fn none(&self) {
        loop {
            let landed = self.landed.notified();
            if self.ids().is_empty() {
                return;
            }
            landed.await;
        }
    }

    fn note(&self, message: &RxJsonRpcMessage<RoleServer>) {
        match message {
            JsonRpcMessage::Request(request) => drop(self.ids().insert(request.id.clone())),
            // What is cancelled gets no answer.
            JsonRpcMessage::Notification(note) => {
                if let ClientNotification::CancelledNotification(cancelled) = &note.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.land(id);
                }
            }
            _ => {}
        }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for AnsweringTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        let id = match &item {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            _ => None,
        };
        let (sending, open) = (self.inner.send(item), self.open.clone());
        async move {
            let sent = sending.await;
            if let Some(id) = id {
                open.land(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        if !self.ended {
            if let Some(message) = self.inner.receive().await {
                self.open.note(&message);
                return Some(message);
            }
            self.ended = true;
        }
        tokio::select! {
            () = self.open.none() => {}
            () = &mut self.unheard => {}
        }
        None
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}

/// Input whose last line ends like the others: the reader of lines drops one that does not.
struct WholeLines<R> {
    input: R,
    /// In the middle of a line.
    cut: bool,
}

impl<R: AsyncRead + Unpin> AsyncRead for WholeLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.input).poll_read(cx, buffer))?;
        match buffer.filled()[before..].last() {
            Some(last) => self.cut = *last != b'\n',
            None if self.cut && buffer.remaining() > 0 => {
                self.cut = false;
                buffer.put_slice(b"\n");
            }
            None => {}
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn the_last_line_ends_like_the_others() {
        for (given, expected) in [("a\nb", "a\nb\n"), ("a\n", "a\n"), ("", ""), ("x", "x\n")] {
            let mut read = String::new();
            let mut lines = WholeLines { input: given.as_bytes(), cut: false };
            lines.read_to_string(&mut read).await.unwrap();
            assert_eq!(read, expected);
        }
    }
}

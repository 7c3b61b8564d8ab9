//! A client that closes its sending side behind a request is answered; one that is gone is not worked for.
//!
//! TCP tells both by the same word. But our clients are on this machine, so the kernel's table knows whether somebody
//! still holds the other end. Deliberately absent: the unix socket, where the kernel says it itself (`rpc::hangup`).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::peer;

/// Looked at this often, and only for a client that sends no more, or more than is read.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A connection that can be watched while it is served.
pub struct Watched(Arc<TcpStream>);

impl Watched {
    /// And what ends when the client is gone altogether.
    pub fn new(stream: TcpStream) -> (Watched, impl Future<Output = ()> + Send + 'static) {
        let stream = Arc::new(stream);
        (Watched(stream.clone()), gone(stream))
    }
}

async fn gone(stream: Arc<TcpStream>) {
    loop {
        match stream.ready(Interest::READABLE).await {
            Ok(ready) if ready.is_read_closed() => break,
            // Whoever serves it reads that, sooner or later.
            Ok(_) => tokio::time::sleep(LOOK_EVERY).await,
            Err(_) => return,
        }
    }
    let (Ok(theirs), Ok(ours)) = (stream.peer_addr(), stream.local_addr()) else { return };
    loop {
        let held = tokio::task::spawn_blocking(move || peer::is_held(theirs, ours));
        if !held.await.unwrap_or(false) {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(cx))?;
            match self.0.try_read(buffer.initialize_unfilled()) {
                Ok(read) => {
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl Watched {
    fn write(
        &self,
        cx: &mut Context<'_>,
        attempt: impl Fn(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(cx))?;
            match attempt(&self.0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |stream| stream.try_write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |stream| stream.try_write_vectored(pieces))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = rustix::net::shutdown(&*self.0, rustix::net::Shutdown::Write);
        Poll::Ready(shut.map_err(io::Error::from))
    }
}

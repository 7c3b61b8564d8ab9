//! A client that closes its sending side behind a request is answered; one that is gone is not
//! worked for.
//!
//! TCP tells both by the same word. But our clients are on this machine, so the kernel's table
//! knows whether somebody still holds the other end. Deliberately absent: the unix socket, where
//! the kernel says it itself (`rpc::hangup`).

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use tokio::io::Interest;
use tokio::net::TcpStream;

use super::peer;

/// Looked at this often, and only for a client that sends no more.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Ends when the client of a connection is gone altogether. Watches through a descriptor of its
/// own, since whoever serves the connection has the first.
pub(crate) fn gone(stream: &TcpStream) -> impl Future<Output = ()> + Send + use<> {
    let second = stream.as_fd().try_clone_to_owned();
    let second = second.and_then(|fd| TcpStream::from_std(std::net::TcpStream::from(fd)));
    async move {
        match second {
            Ok(stream) => watch(stream).await,
            // Out of descriptors: the client is served until it says goodbye.
            Err(_) => std::future::pending().await,
        }
    }
}

async fn watch(stream: TcpStream) {
    loop {
        match stream.ready(Interest::READABLE).await {
            Ok(ready) if ready.is_read_closed() => break,
            // The task that serves the connection reads that. Here only the next word counts.
            Ok(_) => {
                let forget = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
                let _ = stream.try_io(Interest::READABLE, forget);
            }
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

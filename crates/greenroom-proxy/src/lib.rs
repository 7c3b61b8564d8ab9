//! The only way out of a confined session: a proxy that lets through the hosts the session was
//! granted.
//!
//! In: a listening socket that was made inside the session's network namespace, and the session's
//! grants. Programs inside speak HTTP CONNECT, plain HTTP (if granted) or SOCKS5 to it. Out:
//! tunnels to allowed hosts, and a line in the session's log for each decision. The order is the
//! protection: the name is judged before it is resolved, its addresses are judged before one is
//! dialled, that one address is dialled, and before a byte goes through the TLS hello must name the
//! same host.
//!
//! `request`, `socks` and `hello` parse and do nothing else; `rules` decides; `outside` resolves
//! and dials; `tunnel` puts them together. Deliberately absent: any look into what is encrypted,
//! caching, authentication (a listener belongs to one session, and nobody else can reach it).
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod flow;
mod hello;
mod log;
mod outside;
mod request;
mod rules;
mod socks;
#[cfg(test)]
mod tests;
mod tunnel;

use std::fmt;
use std::io;
use std::net::TcpListener as StdListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

pub use log::{Decisions, Tell};
pub use outside::Outside;
pub use rules::Rules;

use tunnel::Proxy;

/// Connections of one session at once: a program that opens more waits for its own to end.
const CONNECTIONS_MAX: usize = 128;

/// Out of descriptors: others must end something first.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

/// Serves a session, or a plugin's program, until it is told to stop or the socket is no good.
pub fn serve(
    who: impl fmt::Display + Send + 'static,
    listener: OwnedFd,
    rules: Rules,
    outside: Outside,
    decisions: Decisions,
) -> io::Result<AbortHandle> {
    let listener = StdListener::from(listener);
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let proxy = Arc::new(Proxy { rules, outside, decisions });
    Ok(tokio::spawn(accept(who, listener, proxy)).abort_handle())
}

async fn accept(who: impl fmt::Display + Send + 'static, listener: TcpListener, proxy: Arc<Proxy>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // Dropped with this task, and with it every connection: nothing outlives the session.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let proxy = proxy.clone();
                connections.spawn(async move {
                    proxy.serve(stream).await;
                    drop(permit);
                });
            }
            Err(error) if is_passing(&error) => {}
            Err(error) => {
                tracing::warn!(%who, %error, "accepting for a proxy");
                tokio::time::sleep(SHORTAGE_PAUSE).await;
            }
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

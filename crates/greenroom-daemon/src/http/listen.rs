//! The accept loop of HTTP, and what one connection may take of our time.
//!
//! A peer that has not shown its token can hold a connection and nothing else, and not for long:
//! the head of a request must be there within a deadline, which also ends connections that idle.
//! Bodies have theirs in `rest`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::site::Site;
use super::{patience, peer};

/// Connections at once: a browser opens six per page; a runaway script must not take every
/// descriptor.
const CONNECTIONS_MAX: usize = 256;

/// A request's head must be complete this long after the last one was answered.
const HEAD_DEADLINE: Duration = Duration::from_secs(5);

/// The longest head of a request; nothing of ours needs a tenth of it.
const HEAD_BYTES: usize = 64 * 1024;

/// Out of descriptors or memory: others must end something first.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(100);

/// When the daemon ends, an answer under way may take this long.
const LAST_ANSWERS: Duration = Duration::from_millis(100);

const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// Accepts until the daemon ends.
pub(crate) async fn accept(listener: TcpListener, site: Arc<Site>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut stopping = site.parts.life.stopping();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopping.wait() => return,
        };
        match accepted {
            Ok((stream, _)) => match room.clone().try_acquire_owned() {
                Ok(permit) => drop(tokio::spawn(serve(site.clone(), stream, permit))),
                Err(_) => {
                    site.parts.counters.refuse();
                    let _ = stream.try_write(FULL);
                }
            },
            Err(error) => {
                tracing::debug!(%error, "accepting a connection of HTTP");
                tokio::time::sleep(SHORTAGE_PAUSE).await;
            }
        }
    }
}

async fn serve(site: Arc<Site>, stream: TcpStream, permit: OwnedSemaphorePermit) {
    let connected = site.parts.counters.connected();
    let caller = peer::caller(&site.parts.callers, &stream).await;
    let mut leaving = site.parts.life.leaving();
    // Small answers shall not wait for an acknowledgement.
    let _ = stream.set_nodelay(true);
    let permit = Arc::new(permit);
    let service = service_fn(move |request: Request<Incoming>| {
        let (site, permit) = (site.clone(), permit.clone());
        async move {
            let answer = site.answer(request.map(Body::new), caller, permit).await;
            Ok::<_, Infallible>(answer)
        }
    });
    let gone = patience::gone(&stream);
    let connection = http1::Builder::new()
        .half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    tokio::select! {
        // A peer that speaks something else, or leaves in between, is no news.
        _ = connection.as_mut() => {}
        () = gone => {}
        () = leaving.wait() => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(LAST_ANSWERS, connection).await;
        }
    }
    drop(connected);
}

//! HTTP: REST, OpenAPI, WebSocket, the event stream and MCP, all views of the one method table.
//!
//! In: connections to one address of this machine's own loopback. Out: answers of the same router that serves the
//! socket. `listen` accepts and holds slow peers to deadlines, `gate` looks at Host, Origin and token before
//! anything is routed, `table` makes the routes from the rows, `params` reads path, query and body, `rest` asks and
//! answers, `websocket` and `events` are the streams, `openapi` describes it all.
//!
//! The listener is started by the configuration, by `server.web`, or by the daemon that took over from one that served.
//! Deliberately absent: TLS, cookies, CORS, a wider address, files.

mod answer;
mod bridge;
mod events;
mod gate;
mod listen;
mod openapi;
mod params;
mod patience;
mod peer;
mod rest;
mod site;
mod table;
mod token;
mod websocket;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use greenroom_protocol::{Fault, FaultKind};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::host::Host;
pub use rest::BODY_CAP;
pub use site::Guest;
use token::{Files, Token};

/// Any free port of the loopback: what is used when nobody says where.
const ANYWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The listener of a host, running or not.
pub struct Web {
    files: Files,
    serving: Mutex<Option<Serving>>,
}

/// Where HTTP is served, and what a caller has to show.
#[derive(Clone)]
pub struct Serving {
    pub address: SocketAddr,
    pub token: Token,
}

#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("cannot read the address {text}: it must be such as 127.0.0.1:7878")]
    Address { text: String },
    #[error(
        "cannot serve HTTP on {address}: others than this machine could reach it, and there is no TLS"
    )]
    Wider { address: SocketAddr },
    #[error("cannot serve HTTP on {wanted}: it is served on {address} already")]
    Elsewhere { wanted: SocketAddr, address: SocketAddr },
    #[error("cannot serve HTTP on {address}: {source}")]
    Bind { address: SocketAddr, source: io::Error },
    #[error("cannot make a token: {source}")]
    Random { source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
}

impl From<HttpError> for Fault {
    fn from(error: HttpError) -> Fault {
        let message = error.to_string();
        match error {
            HttpError::Address { .. } => Fault::new(FaultKind::InvalidParams, message),
            HttpError::Wider { address } => Fault::new(FaultKind::PermissionDenied, message)
                .hint(format!("from another machine use ssh -L {0}:127.0.0.1:{0}", address.port())),
            HttpError::Elsewhere { .. } => Fault::new(FaultKind::Conflict, message),
            HttpError::Bind { .. } => Fault::new(FaultKind::Unavailable, message)
                .hint("name another port, or 0 for any that is free"),
            HttpError::Random { .. } => Fault::new(FaultKind::Unavailable, message),
            HttpError::File { .. } => Fault::new(FaultKind::Disk, message),
        }
    }
}

/// An address that only this machine can reach.
pub fn loopback(text: &str) -> Result<SocketAddr, HttpError> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    let address: SocketAddr = numeric
        .parse()
        .map_err(|_| HttpError::Address { text: text.escape_debug().to_string() })?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(HttpError::Wider { address }),
    }
}

impl Web {
    pub fn new(runtime: &Path) -> Web {
        Web { files: Files::below(runtime), serving: Mutex::new(None) }
    }

    pub fn token_file(&self) -> &Path {
        self.files.token()
    }

    /// Starts the listener if it does not run.
    pub async fn start(
        &self,
        host: &Arc<Host>,
        wanted: Option<SocketAddr>,
    ) -> Result<Serving, HttpError> {
        let mut serving = self.serving.lock().await;
        if let Some(now) = serving.as_ref() {
            let fits = |wanted: SocketAddr| {
                wanted == now.address || (wanted.port() == 0 && wanted.ip() == now.address.ip())
            };
            return match wanted.filter(|wanted| !fits(*wanted)) {
                Some(wanted) => Err(HttpError::Elsewhere { wanted, address: now.address }),
                None => Ok(now.clone()),
            };
        }
        let address = wanted.or(host.config.http.listen).unwrap_or(ANYWHERE);
        let listener = bind(address).await?;
        let begun = self.begin(host, listener, Token::fresh()?)?;
        *serving = Some(begun.clone());
        Ok(begun)
    }

    /// The daemon's start: where the last one served, else where the configuration says.
    pub async fn resume(&self, host: &Arc<Host>) {
        let before = match host.hello.daemon_starts > 1 {
            true => self.files.read(),
            false => None,
        };
        let again = match before {
            Some((address, token)) => match bind(address).await {
                Ok(listener) => self.begin(host, listener, token),
                Err(error) => {
                    // Whoever has the port now may have been shown the token: the next is another.
                    tracing::warn!(%error, "HTTP is not served where it was");
                    self.files.remove();
                    return;
                }
            },
            None => {
                self.files.remove();
                if host.config.http.listen.is_none() {
                    return;
                }
                if let Err(error) = self.start(host, None).await {
                    tracing::error!(%error, "the configured listener");
                }
                return;
            }
        };
        match again {
            Ok(begun) => *self.serving.lock().await = Some(begun),
            Err(error) => tracing::error!(%error, "serving HTTP again"),
        }
    }

    fn begin(
        &self,
        host: &Arc<Host>,
        listener: TcpListener,
        token: Token,
    ) -> Result<Serving, HttpError> {
        let bound = |source| HttpError::Bind { address: ANYWHERE, source };
        let address = listener.local_addr().map_err(bound)?;
        self.files.write(address, &token)?;
        let site = site::Site::new(host.clone(), address, token.clone());
        tokio::spawn(listen::accept(host.clone(), listener, site));
        tracing::info!(%address, "serving HTTP");
        Ok(Serving { address, token })
    }

    /// The host ends for good: nobody will come back to this address.
    pub fn forget(&self) {
        self.files.remove();
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, HttpError> {
    if !address.ip().is_loopback() {
        return Err(HttpError::Wider { address });
    }
    TcpListener::bind(address).await.map_err(|source| HttpError::Bind { address, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine() {
        for good in ["127.0.0.1:0", "127.8.9.1:80", "[::1]:7878", "localhost:7878"] {
            assert!(loopback(good).is_ok(), "{good}");
        }
        for wide in ["0.0.0.0:80", "[::]:80", "192.168.1.4:80", "8.8.8.8:1", "[::ffff:127.0.0.1]:1"]
        {
            assert!(matches!(loopback(wide), Err(HttpError::Wider { .. })), "{wide}");
        }
        for bad in
            ["", "127.0.0.1", ":80", "example.com:80", "localhost", "127.0.0.1:99999", "\u{1b}[0m"]
        {
            assert!(matches!(loopback(bad), Err(HttpError::Address { .. })), "{bad}");
        }
    }
}

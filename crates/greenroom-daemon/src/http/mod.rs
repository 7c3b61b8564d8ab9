//! HTTP: REST, OpenAPI, WebSocket, the event stream and MCP, all views of the one method table.
//!
//! In: connections to one address of this machine's own loopback. Out: answers of the same router
//! that serves the socket. `listen` accepts and holds slow peers to deadlines, `gate` looks at
//! Host, Origin and token before anything is routed, `table` makes the routes from the rows,
//! `params` reads path, query and body, `rest` asks and answers, `websocket` and `events` are the
//! streams, `openapi` describes it all.
//!
//! The listener is started by the configuration, by `server.web`, or by the daemon that took over
//! from one that served. Deliberately absent: TLS, cookies, CORS, a wider address, files.

mod answer;
mod bridge;
mod events;
mod gate;
mod listen;
mod mcp;
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

use greenroom_config::AddressError;
use greenroom_protocol::{Fault, FaultKind};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::callers::Callers;
use crate::counters::Counters;
use crate::hooks::Hooks;
use crate::lifecycle::Life;
use crate::rpc::ask::Api;
use crate::settings::Settings;
use token::{Files, Token};

/// Any free port of the loopback: what is used when nobody says where.
const ANYWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What HTTP needs of the host.
#[derive(Clone)]
pub(crate) struct Parts {
    pub api: Api,
    pub callers: Arc<Callers>,
    pub counters: Arc<Counters>,
    pub hooks: Arc<Hooks>,
    pub life: Arc<Life>,
    pub settings: Arc<Settings>,
}

/// The listener of a host, running or not.
pub(crate) struct Web {
    files: Files,
    serving: Mutex<Option<Serving>>,
}

/// Where HTTP is served, and what a caller has to show.
#[derive(Clone)]
pub(crate) struct Serving {
    pub address: SocketAddr,
    pub token: Token,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error(transparent)]
    Address(#[from] AddressError),
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
            HttpError::Address(AddressError::Unreadable { .. }) => {
                Fault::new(FaultKind::InvalidParams, message)
            }
            HttpError::Address(AddressError::Wider { address }) => {
                let hint =
                    format!("from another machine use ssh -L {0}:127.0.0.1:{0}", address.port());
                Fault::new(FaultKind::PermissionDenied, message).hint(hint)
            }
            HttpError::Elsewhere { .. } => Fault::new(FaultKind::Conflict, message),
            HttpError::Bind { .. } => Fault::new(FaultKind::Unavailable, message)
                .hint("name another port, or 0 for any that is free"),
            HttpError::Random { .. } => Fault::new(FaultKind::Unavailable, message),
            HttpError::File { .. } => Fault::new(FaultKind::Disk, message),
        }
    }
}

impl Web {
    pub(crate) fn new(runtime: &Path) -> Web {
        Web { files: Files::below(runtime), serving: Mutex::new(None) }
    }

    pub(crate) fn token_file(&self) -> &Path {
        self.files.token()
    }

    /// Starts the listener if it does not run.
    pub(crate) async fn start(
        &self,
        parts: &Parts,
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
        let address = wanted.or(parts.settings.began().http.listen).unwrap_or(ANYWHERE);
        let listener = bind(address).await?;
        let begun = self.begin(parts, listener, Token::fresh()?)?;
        *serving = Some(begun.clone());
        Ok(begun)
    }

    /// The daemon's start: where the last one served, else where the configuration says.
    pub(crate) async fn resume(&self, parts: &Parts, restarted: bool) {
        let before = if restarted { self.files.read() } else { None };
        let Some((address, token)) = before else {
            self.files.remove();
            if parts.settings.began().http.listen.is_some()
                && let Err(error) = self.start(parts, None).await
            {
                tracing::error!(%error, "the configured listener");
            }
            return;
        };
        match bind(address).await {
            Ok(listener) => match self.begin(parts, listener, token) {
                Ok(begun) => *self.serving.lock().await = Some(begun),
                Err(error) => tracing::error!(%error, "serving HTTP again"),
            },
            Err(error) => {
                // The process that has the port now may have been shown the token, so the next
                // listener gets another.
                tracing::warn!(%error, "HTTP is not served where it was");
                self.files.remove();
            }
        }
    }

    fn begin(
        &self,
        parts: &Parts,
        listener: TcpListener,
        token: Token,
    ) -> Result<Serving, HttpError> {
        let bound = |source| HttpError::Bind { address: ANYWHERE, source };
        let address = listener.local_addr().map_err(bound)?;
        self.files.write(address, &token)?;
        let site = site::Site::new(parts.clone(), address, token.clone());
        tokio::spawn(listen::accept(listener, site));
        tracing::info!(%address, "serving HTTP");
        Ok(Serving { address, token })
    }

    /// The host ends for good: nobody will come back to this address.
    pub(crate) fn forget(&self) {
        self.files.remove();
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, HttpError> {
    if !address.ip().is_loopback() {
        return Err(AddressError::Wider { address }.into());
    }
    TcpListener::bind(address).await.map_err(|source| HttpError::Bind { address, source })
}

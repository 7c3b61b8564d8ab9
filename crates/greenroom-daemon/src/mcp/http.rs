//! MCP over streamable HTTP, behind the same gate as REST.
//!
//! No session of MCP's own is kept: each request stands for itself, so a client does not notice that the daemon was
//! replaced. A connection that is closed cancels its call.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use greenroom_protocol::{Fault, FaultKind};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;

use super::{Answer, Backend, Server};
use crate::host::Host;
use crate::http::{BODY_CAP, Guest};
use crate::rpc::ask;
use crate::rpc::peer::Caller;

/// The host from inside of its daemon.
struct Inside {
    host: Arc<Host>,
    caller: Caller,
}

impl Backend for Inside {
    fn call(&self, method: &'static str, params: Value) -> Answer {
        let (host, caller) = (self.host.clone(), self.caller);
        Box::pin(async move {
            let ask::Body(text) = ask::once(host, caller, method, &params).await?;
            serde_json::from_str(&text).map_err(|error| {
                Fault::new(FaultKind::Internal, format!("cannot read our own answer: {error}"))
            })
        })
    }
}

pub async fn handle(State(host): State<Arc<Host>>, mut request: Request) -> Response {
    let guest = request.extensions_mut().remove::<Guest>();
    let caller = guest.expect("the site puts it there").caller;
    let backend: Arc<dyn Backend> = Arc::new(Inside { host, caller });
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        // The gate has looked at Host and Origin, more closely than this would.
        .disable_allowed_hosts()
        .with_max_request_body_bytes(BODY_CAP);
    let sessions = Arc::new(NeverSessionManager::default());
    let server = move || Ok(Server::new(backend.clone()));
    let service = StreamableHttpService::new(server, sessions, config);
    service.handle(request).await.map(Body::new)
}

//! MCP over streamable HTTP, behind the same gate as REST.
//!
//! No session of MCP's own is kept: each request stands for itself, so a client does not notice
//! that the daemon was replaced. A connection that is closed cancels its call.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use greenroom_mcp::{Answer, Backend, Server};
use greenroom_protocol::methods::MethodId;
use greenroom_protocol::{Fault, FaultKind};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::Value;

use super::Parts;
use super::rest::BODY_CAP;
use super::site::Visitor;
use crate::call::Body as Text;
use crate::call::caller::Caller;
use crate::rpc::ask::Api;

/// The host from inside of its daemon.
struct Inside {
    api: Api,
    caller: Caller,
}

impl Backend for Inside {
    fn call(&self, method: MethodId, params: Value) -> Answer {
        let (api, caller) = (self.api.clone(), self.caller);
        Box::pin(async move {
            let Text(text) = api.once(caller, method.row().name, &params).await?;
            serde_json::from_str(&text).map_err(|error| {
                Fault::new(FaultKind::Internal, format!("cannot read our own answer: {error}"))
            })
        })
    }
}

pub(crate) async fn handle(
    State(parts): State<Parts>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Response {
    let backend: Arc<dyn Backend> = Arc::new(Inside { api: parts.api, caller: visitor.caller });
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

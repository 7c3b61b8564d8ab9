//! One request: the gate, the route, and the headers every answer has.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, Uri, header};
use axum::response::Response;
use axum::routing::{MethodFilter, any, get, on};
use greenroom_protocol::{Fault, FaultKind};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::sync::OwnedSemaphorePermit;

use super::gate::{Gate, Refusal};
use super::table;
use super::token::Token;
use super::{answer, openapi, rest, websocket};
use crate::host::Host;
use crate::mcp;
use crate::rpc::peer::Caller;

/// On every answer: nothing may be embedded, sniffed, cached or fetched from elsewhere.
static HEADERS: [(HeaderName, HeaderValue); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// Everything behind one address.
pub struct Site {
    pub host: Arc<Host>,
    gate: Gate,
    router: TowerToHyperService<Router>,
}

/// What a handler needs to know of the connection. A stream keeps its place among the connections.
#[derive(Clone)]
pub struct Guest {
    pub caller: Caller,
    pub _place: Arc<OwnedSemaphorePermit>,
}

impl Site {
    pub fn new(host: Arc<Host>, address: SocketAddr, token: Token) -> Arc<Site> {
        let router = TowerToHyperService::new(router(host.clone()));
        Arc::new(Site { gate: Gate::new(address, token), host, router })
    }

    pub async fn answer(
        &self,
        request: Request,
        caller: Caller,
        place: Arc<OwnedSemaphorePermit>,
    ) -> Response {
        let (mut parts, body) = request.into_parts();
        let mut response = match self.gate.check(&parts) {
            Err(refusal) => {
                self.host.counters.refuse();
                tracing::debug!(?refusal, "a request by HTTP was refused");
                refused(refusal)
            }
            Ok(()) => {
                parts.extensions.insert(Guest { caller, _place: place });
                let routed = self.router.call(Request::from_parts(parts, body)).await;
                routed.unwrap_or_else(|never| match never {})
            }
        };
        for (name, value) in &HEADERS {
            response.headers_mut().insert(name, value.clone());
        }
        response
    }
}

fn refused(refusal: Refusal) -> Response {
    let mut response = answer::fault(&refusal.fault());
    if refusal == Refusal::Token {
        *response.status_mut() = axum::http::StatusCode::UNAUTHORIZED;
        let challenge = HeaderValue::from_static("Bearer realm=\"greenroom\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}

fn router(host: Arc<Host>) -> Router {
    let mut router = Router::new();
    for route in table::routes() {
        let row = move |State(host), request| rest::handle(host, route, request);
        router = router.route(&route.path, on(filter(&route.verb), row));
    }
    router
        .route("/api/openapi.json", get(async || answer::json(openapi::document().to_owned())))
        .route("/api/rpc", get(websocket::rpc))
        .route("/mcp", any(mcp::http::handle))
        .fallback(nothing_there)
        .method_not_allowed_fallback(not_that_way)
        .with_state(host)
}

fn filter(verb: &Method) -> MethodFilter {
    MethodFilter::try_from(verb.clone()).expect("the table has GET, POST and DELETE")
}

async fn nothing_there(uri: Uri) -> Response<Body> {
    let path: String = uri.path().chars().take(200).collect();
    let fault = Fault::new(FaultKind::NotFound, format!("there is nothing at {path}"))
        .hint("GET /api/openapi.json lists every path");
    answer::fault(&fault)
}

async fn not_that_way(method: Method, uri: Uri) -> Response<Body> {
    let path: String = uri.path().chars().take(200).collect();
    let fault = Fault::new(FaultKind::UnknownMethod, format!("{path} does not take {method}"))
        .hint("GET /api/openapi.json lists every path");
    let mut response = answer::fault(&fault);
    *response.status_mut() = axum::http::StatusCode::METHOD_NOT_ALLOWED;
    response
}

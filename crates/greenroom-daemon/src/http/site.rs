//! One request: the gate, the route, and the headers every answer has.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, any, get, on};
use axum::{Extension, Router};
use greenroom_protocol::{Fault, FaultKind};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::sync::OwnedSemaphorePermit;

use super::answer::Failure;
use super::gate::{Gate, Refusal};
use super::table;
use super::token::Token;
use super::{Parts, answer, mcp, openapi, rest, websocket};
use crate::call::caller::Caller;

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
pub(crate) struct Site {
    pub parts: Parts,
    gate: Gate,
    router: TowerToHyperService<Router>,
}

/// What a handler needs to know of the connection. A stream keeps its place among the connections.
#[derive(Clone)]
pub(crate) struct Visitor {
    pub caller: Caller,
    pub _place: Arc<OwnedSemaphorePermit>,
}

impl Site {
    pub(crate) fn new(parts: Parts, address: SocketAddr, token: Token) -> Arc<Site> {
        let router = TowerToHyperService::new(router(parts.clone()));
        Arc::new(Site { gate: Gate::new(address, token), parts, router })
    }

    pub(crate) async fn answer(
        &self,
        request: Request,
        caller: Caller,
        place: Arc<OwnedSemaphorePermit>,
    ) -> Response {
        let (mut parts, body) = request.into_parts();
        let mut response = match self.gate.check(&parts) {
            Err(refusal) => {
                self.parts.counters.refuse();
                tracing::debug!(?refusal, "a request by HTTP was refused");
                refused(refusal)
            }
            Ok(()) => {
                parts.extensions.insert(Visitor { caller, _place: place });
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
    let failure = Failure::from(refusal.fault());
    if refusal != Refusal::Token {
        return failure.into_response();
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer realm=\"greenroom\"")];
    (challenge, failure.with_status(StatusCode::UNAUTHORIZED)).into_response()
}

fn router(parts: Parts) -> Router {
    let mut router = Router::new();
    for route in table::routes() {
        let verb = MethodFilter::try_from(route.verb.clone());
        let verb = verb.expect("the table has GET, POST and DELETE");
        let row = move |State(parts), Extension(visitor), request| {
            rest::handle(parts, visitor, route, request)
        };
        router = router.route(&route.path, on(verb, row));
    }
    router
        .route("/api/openapi.json", get(async || answer::json(openapi::document().to_owned())))
        .route("/api/rpc", get(websocket::rpc))
        .route("/mcp", any(mcp::handle))
        .fallback(nothing_there)
        .method_not_allowed_fallback(not_that_way)
        .with_state(parts)
}

async fn nothing_there(uri: Uri) -> Failure {
    no_route(FaultKind::NotFound, format!("there is nothing at {}", shown(&uri)))
}

async fn not_that_way(method: Method, uri: Uri) -> Failure {
    let message = format!("{} does not take {method}", shown(&uri));
    no_route(FaultKind::UnknownMethod, message).with_status(StatusCode::METHOD_NOT_ALLOWED)
}

fn shown(uri: &Uri) -> String {
    uri.path().chars().take(200).collect()
}

fn no_route(kind: FaultKind, message: String) -> Failure {
    Fault::new(kind, message).hint("GET /api/openapi.json lists every path").into()
}

//! One call of a method: its params read within limits, the router asked, its answer sent.
//!
//! What must not be left half done goes on when its caller is gone, as on the socket; what only looks or waits ends with
//! the connection.

use std::sync::Arc;
use std::time::Duration;

use axum::RequestExt as _;
use axum::body::{self, Body};
use axum::extract::{Query, RawPathParams, Request};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use greenroom_protocol::frame::FRAME_CAP;
use greenroom_protocol::{Fault, FaultKind};
use serde_json::{Map, Value};

use super::site::Guest;
use super::table::Route;
use super::{answer, events, params, websocket};
use crate::host::Host;
use crate::methods::plugin;
use crate::rpc::{ask, fault};

/// As large as a frame on the socket.
pub const BODY_CAP: usize = FRAME_CAP;

/// A body must be there within this.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

pub async fn handle(host: Arc<Host>, route: &'static Route, mut request: Request) -> Response {
    let guest = request.extensions_mut().remove::<Guest>();
    let guest = guest.expect("the site puts it there");
    match route.row.name {
        "session.attach" => websocket::attach(host, guest, route, request).await,
        "server.subscribe" => events::handle(host, guest, route, request).await,
        name => match params_of(route, request).await {
            Ok(params) => respond(ask::once(host, guest.caller, name, &params).await),
            Err(fault) => answer::fault(&off(&host, route).unwrap_or(fault)),
        },
    }
}

/// While plugins are off, each of their paths says so, whatever was sent there.
fn off(host: &Host, route: &Route) -> Option<Fault> {
    let of_plugins = route.row.surfaces.rest.is_some_and(|rest| rest.contains(" /api/plugins"));
    plugin::enabled(host).err().filter(|_| of_plugins)
}

pub fn respond(outcome: Result<ask::Body, Fault>) -> Response {
    match outcome {
        Ok(ask::Body(text)) => answer::json(text.as_bytes().to_vec()),
        Err(fault) => answer::fault(&fault),
    }
}

/// Path, query and body as one object.
pub async fn params_of(route: &Route, mut request: Request) -> Result<Map<String, Value>, Fault> {
    let path = request.extract_parts::<RawPathParams>().await;
    let path = path.map_err(|error| fault::invalid(format!("the path: {}", error.body_text())))?;
    let path: Vec<(String, String)> =
        path.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    let query = Query::<Vec<(String, String)>>::try_from_uri(request.uri());
    let Query(query) = query.map_err(|error| fault::invalid(error.body_text()))?;
    let (parts, body) = request.into_parts();
    let body = read(&parts.headers, body).await?;
    params::gather(route, &path, query, &body)
}

/// The whole body, or why not. Its length is looked at before a byte is read.
async fn read(headers: &HeaderMap, body: Body) -> Result<body::Bytes, Fault> {
    let too_large = || {
        let message = format!("the body is over the limit of {BODY_CAP} bytes");
        Fault::new(FaultKind::TooLarge, message)
    };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced
        .and_then(|length| length.parse().ok())
        .is_some_and(|length: u64| length > BODY_CAP as u64)
    {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_DEADLINE, body::to_bytes(body, BODY_CAP)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(too_large()),
        Err(_) => Err(Fault::new(FaultKind::Timeout, "the body did not come in time")),
    }
}

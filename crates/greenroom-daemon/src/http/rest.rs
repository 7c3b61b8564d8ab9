//! One call of a method: its params read within limits, the router asked, its answer sent.
//!
//! What must not be left half done goes on when its caller is gone, as on the socket; what only
//! looks or waits ends with the connection.

use std::time::Duration;

use axum::RequestExt as _;
use axum::body;
use axum::extract::{Query, RawPathParams, Request};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use greenroom_protocol::frame::FRAME_CAP;
use greenroom_protocol::methods::MethodId;
use greenroom_protocol::{Fault, FaultKind};
use serde_json::{Map, Value};

use super::answer::Failure;
use super::site::Visitor;
use super::table::Route;
use super::{Parts, answer, events, params, websocket};
use crate::call::Body;
use crate::rpc::ask::Api;

/// As large as a frame on the socket.
pub(crate) const BODY_CAP: usize = FRAME_CAP;

/// A body must be there within this.
const BODY_DEADLINE: Duration = Duration::from_secs(30);

pub(crate) async fn handle(
    parts: Parts,
    visitor: Visitor,
    route: &'static Route,
    request: Request,
) -> Result<Response, Failure> {
    match route.row.id {
        MethodId::SessionAttach => websocket::attach(&parts.api, visitor, route, request).await,
        MethodId::ServerSubscribe => events::handle(&parts.api, visitor, route, request).await,
        _ => {
            let params = params_of(route, request).await;
            let params = params.map_err(|fault| off(&parts, route).unwrap_or(fault))?;
            call(&parts.api, &visitor, route, &params).await
        }
    }
}

pub(crate) async fn call(
    api: &Api,
    visitor: &Visitor,
    route: &Route,
    params: &Map<String, Value>,
) -> Result<Response, Failure> {
    let Body(text) = api.once(visitor.caller, route.row.name, params).await?;
    Ok(answer::json(text.as_bytes().to_vec()))
}

/// While plugins are off, each of their paths says so, whatever was sent there.
fn off(parts: &Parts, route: &Route) -> Option<Fault> {
    let of_plugins = route.row.surfaces.rest.is_some_and(|rest| rest.contains(" /api/plugins"));
    parts.hooks.enabled().err().filter(|_| of_plugins)
}

/// Path, query and body as one object.
pub(crate) async fn params_of(
    route: &Route,
    mut request: Request,
) -> Result<Map<String, Value>, Fault> {
    let path = request.extract_parts::<RawPathParams>().await;
    let path =
        path.map_err(|error| Fault::invalid_params(format!("the path: {}", error.body_text())))?;
    let path: Vec<(String, String)> =
        path.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
    let query = Query::<Vec<(String, String)>>::try_from_uri(request.uri());
    let Query(query) = query.map_err(|error| Fault::invalid_params(error.body_text()))?;
    let (parts, body) = request.into_parts();
    let body = read(&parts.headers, body).await?;
    params::gather(route, &path, query, &body)
}

/// The whole body, or why not. Its length is looked at before a byte is read.
async fn read(headers: &HeaderMap, body: body::Body) -> Result<body::Bytes, Fault> {
    let too_large = || {
        let message = format!("the body is over the limit of {BODY_CAP} bytes");
        Fault::new(FaultKind::TooLarge, message)
    };
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced
        .and_then(|length| length.parse().ok())
        .is_some_and(|length: usize| length > BODY_CAP)
    {
        return Err(too_large());
    }
    match tokio::time::timeout(BODY_DEADLINE, body::to_bytes(body, BODY_CAP)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(_)) => Err(too_large()),
        Err(_) => Err(Fault::new(FaultKind::Timeout, "the body did not come in time")),
    }
}

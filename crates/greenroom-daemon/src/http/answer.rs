//! Answers as HTTP: a result is its JSON, a fault is `{"error": …}` with the status of its row.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use greenroom_protocol::Fault;
use serde_json::json;

pub fn json(text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

pub fn fault(fault: &Fault) -> Response {
    let mut response = json(json!({ "error": fault }).to_string());
    *response.status_mut() =
        StatusCode::from_u16(fault.kind().status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

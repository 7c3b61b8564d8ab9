//! Answers as HTTP: a result is its JSON, a fault is `{"error": …}` with the status of its row.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use greenroom_protocol::Fault;
use serde_json::json;

pub(crate) fn json(text: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text.into()).into_response()
}

/// A fault on its way out.
pub(crate) struct Failure {
    fault: Fault,
    status: StatusCode,
}

impl Failure {
    /// With a status that says more than that of the fault's row.
    pub(crate) fn with_status(self, status: StatusCode) -> Failure {
        Failure { status, ..self }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        let status = StatusCode::from_u16(fault.kind().status());
        Failure { fault, status: status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR) }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.status, json(json!({ "error": self.fault }).to_string())).into_response()
    }
}

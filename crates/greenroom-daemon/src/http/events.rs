//! `GET /api/events`: a page as JSON, or everything from a point on as a stream.
//!
//! A stream is asked for by `Accept: text/event-stream` (server-sent events; `Last-Event-ID`
//! resumes), by `Accept: application/x-ndjson`, or by `follow=true` (JSON lines). It is a
//! subscription of a connection of its own and ends with it.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use greenroom_protocol::rpc::{self, Incoming, Message};
use greenroom_protocol::{Fault, FaultKind};
use serde_json::{Map, Value};

use super::answer::Failure;
use super::bridge::{self, Reader, Writer};
use super::rest;
use super::site::Visitor;
use super::table::Route;
use crate::rpc::ask::Api;

/// A quiet stream says that it lives: proxies and browsers give up on silence.
const HEARTBEAT: Duration = Duration::from_secs(15);

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Sse,
    Lines,
}

impl Form {
    fn media_type(self) -> &'static str {
        match self {
            Form::Sse => "text/event-stream",
            Form::Lines => "application/x-ndjson",
        }
    }
}

pub(crate) async fn handle(
    api: &Api,
    visitor: Visitor,
    route: &'static Route,
    request: Request,
) -> Result<Response, Failure> {
    let wanted = wanted(request.headers());
    let last = last_event(request.headers());
    let mut params = rest::params_of(route, request).await?;
    let follow = params.remove("follow").is_some_and(|follow| follow == Value::Bool(true));
    let form = wanted.or(follow.then_some(Form::Lines));
    params.insert("follow".to_owned(), Value::Bool(form.is_some()));
    let Some(form) = form else {
        return rest::call(api, &visitor, route, &params).await;
    };
    if let Some(last) = last {
        // The client's browser knows better than the address it was given once.
        params.insert("since".to_owned(), last.into());
    }
    let (reader, writer) = follow_from(api, &visitor, route.row.name, &params).await?;
    Ok(streaming(form, reader, writer))
}

fn wanted(headers: &HeaderMap) -> Option<Form> {
    let accept = headers.get(header::ACCEPT)?.to_str().ok()?;
    let named = |kind: &str| accept.split([',', ';']).any(|part| part.trim() == kind);
    [Form::Sse, Form::Lines].into_iter().find(|form| named(form.media_type()))
}

fn last_event(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.parse().ok()
}

/// Subscribes; a fault is told before a stream begins.
async fn follow_from(
    api: &Api,
    visitor: &Visitor,
    method: &str,
    params: &Map<String, Value>,
) -> Result<(Reader, Writer), Fault> {
    let (mut reader, mut writer) = bridge::open(api, visitor)?;
    writer.request(method, params).await?;
    let stopping = || Fault::new(FaultKind::Unavailable, "the host is stopping");
    let reply = reader.text().await.ok_or_else(stopping)?;
    match rpc::parse(&reply) {
        Incoming::One(Ok(Message::Response(response))) => response.outcome.map(drop)?,
        // Pushes come after the reply.
        _ => return Err(stopping()),
    }
    Ok((reader, writer))
}

fn streaming(form: Form, reader: Reader, writer: Writer) -> Response {
    // The writer is held: without it the subscription would end.
    let pieces = stream::unfold((reader, writer), move |(mut reader, writer)| async move {
        let piece = next(form, &mut reader).await?;
        Some((Ok::<_, std::convert::Infallible>(piece), (reader, writer)))
    });
    ([(header::CONTENT_TYPE, form.media_type())], Body::from_stream(pieces)).into_response()
}

async fn next(form: Form, reader: &mut Reader) -> Option<String> {
    loop {
        let text = match form {
            Form::Lines => reader.text().await?,
            Form::Sse => match tokio::time::timeout(HEARTBEAT, reader.text()).await {
                Ok(text) => text?,
                Err(_) => return Some(": \n\n".to_owned()),
            },
        };
        if let Some(piece) = piece(form, &text) {
            return Some(piece);
        }
    }
}

/// A pushed event as a piece of the stream; other pushes are nothing to it.
fn piece(form: Form, text: &str) -> Option<String> {
    let push: Value = serde_json::from_str(text).ok()?;
    let event = push.get("params")?.get("event")?;
    Some(match form {
        Form::Lines => format!("{event}\n"),
        Form::Sse => {
            let kind = event["kind"].as_str().unwrap_or("event");
            format!("id: {}\nevent: {kind}\ndata: {event}\n\n", event["id"])
        }
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn one_event_in_both_forms() {
        let push = r#"{"jsonrpc":"2.0","method":"server.event","params":{"subscription":"e1","event":{"id":7,"kind":"session.exited","data":{"a":"x\ny"}}}}"#;
        let lines = piece(Form::Lines, push).unwrap();
        assert_eq!(lines.matches('\n').count(), 1);
        let sse = piece(Form::Sse, push).unwrap();
        assert!(sse.starts_with("id: 7\nevent: session.exited\ndata: {"), "{sse}");
        assert!(sse.ends_with("}\n\n") && sse.matches('\n').count() == 4, "{sse}");
        assert_eq!(
            piece(Form::Sse, r#"{"jsonrpc":"2.0","method":"server.lagged","params":{}}"#),
            None
        );
    }

    #[test]
    fn the_form_that_is_accepted() {
        let form = |accept: &'static str| {
            wanted(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]))
        };
        assert!(form("text/event-stream") == Some(Form::Sse));
        assert!(form("application/json, text/event-stream;q=0.9") == Some(Form::Sse));
        assert!(form("application/x-ndjson") == Some(Form::Lines));
        assert!(form("*/*").is_none() && form("application/json").is_none());
    }
}

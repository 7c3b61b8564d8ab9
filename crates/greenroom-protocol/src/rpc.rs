//! The JSON-RPC 2.0 envelope, both ways.
//!
//! In: one frame's text. Out: requests, notifications and replies that borrow their params from
//! it, each item of a batch on its own, and a fault with the right id for what is malformed.
//! Absent on purpose: what a method means, ids in flight, I/O.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::events::Push;
use crate::fault::{Fault, FaultKind};

/// Deepest nesting of a frame: what `serde_json` itself bears, checked here for the parts it skips.
pub const DEPTH_CAP: usize = 128;
/// Most items of a batch: a batch answers as one frame, so it must not grow without end.
pub const BATCH_CAP: usize = 1024;
/// The notification that cancels a request in flight; its params are [`CancelParams`].
pub const CANCEL_METHOD: &str = "$/cancelRequest";

/// A request's id. `Null` appears only in replies to frames whose id could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Id {
    /// Any JSON number, kept as it was written.
    Number(serde_json::Number),
    /// Any text.
    Text(String),
    /// No id.
    Null,
}

impl From<u64> for Id {
    fn from(id: u64) -> Id {
        Id::Number(id.into())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Id::Number(id) => id.fmt(f),
            Id::Text(id) => id.fmt(f),
            Id::Null => f.write_str("null"),
        }
    }
}

/// Params of [`CANCEL_METHOD`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CancelParams {
    /// The id of the request to cancel, of the same connection.
    pub id: Id,
}

/// A frame, read.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// A single message.
    One(Item<'a>),
    /// A batch: answer with an array, in any order, without the notifications.
    Batch(Vec<Item<'a>>),
}

/// One message, or what is wrong with it.
pub type Item<'a> = Result<Message<'a>, Box<Rejected>>;

/// A malformed message: answer `fault` to `id`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected {
    /// The id if it could be read.
    pub id: Id,
    /// What to answer.
    pub fault: Fault,
}

/// One well-formed message.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// Wants an answer.
    Request(Request<'a>),
    /// Wants none.
    Notification(Notification<'a>),
    /// Is one.
    Response(Response<'a>),
}

/// A call that wants an answer.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Never `Null`.
    pub id: Id,
    /// Such as `session.create`.
    pub method: Cow<'a, str>,
    /// Undecoded.
    pub params: Option<&'a RawValue>,
}

/// A call that wants no answer.
#[derive(Clone, Debug)]
pub struct Notification<'a> {
    /// Such as `session.changed`.
    pub method: Cow<'a, str>,
    /// Undecoded.
    pub params: Option<&'a RawValue>,
}

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct Response<'a> {
    /// The id of the request.
    pub id: Id,
    /// Undecoded result, or the fault.
    pub outcome: Result<&'a RawValue, Fault>,
}

/// Reads one frame.
pub fn parse(text: &str) -> Incoming<'_> {
    if deeper_than(text, DEPTH_CAP) {
        return reject(
            FaultKind::Parse,
            format!("cannot read a frame: nested deeper than {DEPTH_CAP} levels"),
        );
    }
    if !text.trim_ascii_start().starts_with('[') {
        return Incoming::One(parse_item(text));
    }
    match serde_json::from_str::<Vec<&RawValue>>(text) {
        Err(error) => reject(FaultKind::Parse, format!("cannot read a frame as JSON: {error}")),
        Ok(items) if items.is_empty() => {
            reject(FaultKind::InvalidRequest, "a batch must not be empty".into())
        }
        Ok(items) if items.len() > BATCH_CAP => reject(
            FaultKind::TooLarge,
            format!("a batch of {} items is over the limit of {BATCH_CAP}", items.len()),
        ),
        Ok(items) => {
            Incoming::Batch(items.into_iter().map(|item| parse_item(item.get())).collect())
        }
    }
}

fn reject<'a>(kind: FaultKind, message: String) -> Incoming<'a> {
    Incoming::One(Err(rejected(Id::Null, kind, message)))
}

fn rejected(id: Id, kind: FaultKind, message: impl Into<String>) -> Box<Rejected> {
    let fault = Fault::new(kind, message);
    Box::new(Rejected { id, fault })
}

/// Every member raw, so that one of a wrong type does not hide the id.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// A result of `null` is a result: an `Option` alone would take it for none.
fn present<'de: 'a, 'a, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&'a RawValue>::deserialize(deserializer).map(Some)
}

fn parse_item(text: &str) -> Item<'_> {
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| {
        let kind = if error.is_data() { FaultKind::InvalidRequest } else { FaultKind::Parse };
        let what = if error.is_data() { "a frame as a request" } else { "a frame as JSON" };
        rejected(Id::Null, kind, format!("cannot read {what}: {error}"))
    })?;
    let (id, id_is_wrong) = match envelope.id.map(|raw| serde_json::from_str::<Id>(raw.get())) {
        None => (Id::Null, false),
        Some(Ok(id)) => (id, false),
        Some(Err(_)) => (Id::Null, true),
    };
    let invalid = |message: &str| rejected(id.clone(), FaultKind::InvalidRequest, message);
    if id_is_wrong {
        return Err(invalid("id must be a number, a string or null"));
    }
    let version = envelope.jsonrpc.map(|raw| serde_json::from_str::<Cow<'_, str>>(raw.get()));
    if !matches!(version, Some(Ok(version)) if version == "2.0") {
        return Err(invalid("jsonrpc must be \"2.0\""));
    }
    let Some(method) = envelope.method else {
        return parse_response(&envelope, id.clone()).ok_or_else(|| invalid("method is missing"));
    };
    let Ok(Text(method)) = serde_json::from_str(method.get()) else {
        return Err(invalid("method must be a string"));
    };
    let params = envelope.params.filter(|raw| raw.get() != "null");
    if params.is_some_and(|raw| !raw.get().starts_with(['{', '['])) {
        return Err(invalid("params must be an object or an array"));
    }
    Ok(match id {
        Id::Null => Message::Notification(Notification { method, params }),
        id => Message::Request(Request { id, method, params }),
    })
}

fn parse_response<'a>(envelope: &Envelope<'a>, id: Id) -> Option<Message<'a>> {
    let outcome = match (envelope.result, envelope.error) {
        (_, Some(error)) if error.get() != "null" => Err(serde_json::from_str(error.get()).ok()?),
        (Some(result), _) => Ok(result),
        _ => return None,
    };
    Some(Message::Response(Response { id, outcome }))
}

/// A text borrowed where it has no escapes; `Cow` alone would always copy.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Whether brackets outside of strings nest deeper than `cap`. Looks at brackets and quotes only;
/// the parser judges the rest.
fn deeper_than(text: &str, cap: usize) -> bool {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0usize, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'[' | b'{' => {
                depth += 1;
                if depth > cap {
                    return true;
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => match end_of_string(bytes, at + 1) {
                Some(end) => at = end,
                None => return false,
            },
            _ => {}
        }
        at += 1;
    }
    false
}

/// The index of the quote that ends the string whose content begins at `from`.
fn end_of_string(bytes: &[u8], mut from: usize) -> Option<usize> {
    loop {
        let at = from + memchr::memchr2(b'"', b'\\', bytes.get(from..)?)?;
        if bytes[at] == b'"' {
            return Some(at);
        }
        from = at + 2;
    }
}

/// Decodes a request's params into `P`; absent params count as `{}`.
pub fn params<'a, P: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Result<P, Fault> {
    serde_json::from_str(raw.map_or("{}", RawValue::get)).map_err(|error| {
        // The position is that in the params, which the caller cannot see: name the trouble only.
        let text = error.to_string();
        let text = text.split(" at line ").next().unwrap_or(&text);
        Fault::new(FaultKind::InvalidParams, format!("invalid params: {text}"))
    })
}

#[derive(Serialize)]
struct OutRequest<'a, P> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Id>,
    method: &'a str,
    params: &'a P,
}

#[derive(Serialize)]
struct OutFault<'a> {
    jsonrpc: &'static str,
    id: &'a Id,
    error: &'a Fault,
}

/// The text of a request. Fails only if `params` cannot be JSON (a map with non-string keys).
pub fn encode_request<P: Serialize>(
    id: &Id,
    method: &str,
    params: &P,
) -> Result<String, serde_json::Error> {
    serde_json::to_string(&OutRequest { jsonrpc: "2.0", id: Some(id), method, params })
}

/// The text of a notification.
pub fn encode_notification<P: Serialize>(
    method: &str,
    params: &P,
) -> Result<String, serde_json::Error> {
    serde_json::to_string(&OutRequest { jsonrpc: "2.0", id: None, method, params })
}

/// The text of a notification that is a push of ours.
pub fn encode_push<P: Push>(push: &P) -> Result<String, serde_json::Error> {
    encode_notification(P::METHOD, push)
}

/// The text of a reply that did not.
pub fn encode_fault(id: &Id, fault: &Fault) -> String {
    serde_json::to_string(&OutFault { jsonrpc: "2.0", id, error: fault })
        .expect("a fault holds string keys only")
}

/// The text of a batch reply from the texts of its items; `None` when there is nothing to answer.
pub fn encode_batch(items: &[String]) -> Option<String> {
    (!items.is_empty()).then(|| format!("[{}]", items.join(",")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(text: &str) -> Item<'_> {
        match parse(text) {
            Incoming::One(item) => item,
            Incoming::Batch(items) => panic!("a batch of {}", items.len()),
        }
    }

    fn refused(text: &str) -> (Id, FaultKind) {
        let Rejected { id, fault } = *one(text).unwrap_err();
        (id, fault.kind())
    }

    #[test]
    fn requests_and_notifications() {
        let Ok(Message::Request(request)) =
            one(r#"{"jsonrpc":"2.0","id":"a","method":"x.y","params":{"k":1}}"#)
        else {
            panic!("not a request")
        };
        assert_eq!((request.id, &*request.method), (Id::Text("a".into()), "x.y"));
        assert!(matches!(request.method, Cow::Borrowed(_)), "no copy");
        assert_eq!(request.params.unwrap().get(), r#"{"k":1}"#);
        for text in [
            r#"{"jsonrpc":"2.0","method":"x"}"#,
            r#" {"jsonrpc":"2.0","id":null,"method":"x","params":null}"#,
        ] {
            let Ok(Message::Notification(push)) = one(text) else {
                panic!("not a notification: {text}")
            };
            assert!(push.params.is_none());
        }
        let Ok(Message::Request(request)) = one(r#"{"jsonrpc":"2.0","id":1.5,"method":"a\u0062"}"#)
        else {
            panic!("not a request")
        };
        assert_eq!((request.id.to_string().as_str(), &*request.method), ("1.5", "ab"));
    }

    #[test]
    fn replies() {
        let Ok(Message::Response(reply)) = one(r#"{"jsonrpc":"2.0","id":7,"result":null}"#) else {
            panic!("not a reply")
        };
        assert_eq!((reply.id, reply.outcome.unwrap().get()), (Id::from(7), "null"));
        let text = encode_fault(&Id::from(8), &Fault::unknown_session("s9"));
        let Ok(Message::Response(reply)) = one(&text) else { panic!("not a reply") };
        assert_eq!(reply.outcome.unwrap_err().kind(), FaultKind::UnknownSession);
    }

    #[test]
    fn malformed_frames_are_told_apart_and_keep_their_id() {
        assert_eq!(refused("{"), (Id::Null, FaultKind::Parse));
        assert_eq!(refused(""), (Id::Null, FaultKind::Parse));
        assert_eq!(refused("nonsense"), (Id::Null, FaultKind::Parse));
        assert_eq!(refused("[1,"), (Id::Null, FaultKind::Parse));
        assert_eq!(refused("{} {}"), (Id::Null, FaultKind::Parse));
        assert_eq!(refused("42"), (Id::Null, FaultKind::InvalidRequest));
        assert_eq!(refused("[]"), (Id::Null, FaultKind::InvalidRequest));
        let invalid = |text: &str| {
            assert_eq!(refused(text), (Id::from(3), FaultKind::InvalidRequest), "{text}")
        };
        invalid(r#"{"id":3,"method":"x"}"#);
        invalid(r#"{"jsonrpc":"1.0","id":3,"method":"x"}"#);
        invalid(r#"{"jsonrpc":2,"id":3,"method":"x"}"#);
        invalid(r#"{"jsonrpc":"2.0","id":3}"#);
        invalid(r#"{"jsonrpc":"2.0","id":3,"method":4}"#);
        invalid(r#"{"jsonrpc":"2.0","id":3,"method":"x","params":4}"#);
        assert_eq!(
            refused(r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#),
            (Id::Null, FaultKind::InvalidRequest)
        );
    }

    #[test]
    fn batches_judge_each_item_alone() {
        let Incoming::Batch(items) =
            parse(r#"[{"jsonrpc":"2.0","id":1,"method":"x"}, 5, {"jsonrpc":"2.0","method":"y"}]"#)
        else {
            panic!("not a batch")
        };
        assert!(matches!(&items[0], Ok(Message::Request(_))));
        assert!(
            matches!(&items[1], Err(rejected) if rejected.fault.kind() == FaultKind::InvalidRequest)
        );
        assert!(matches!(&items[2], Ok(Message::Notification(_))));
        let long = format!("[{}1]", "1,".repeat(BATCH_CAP));
        assert_eq!(refused(&long), (Id::Null, FaultKind::TooLarge));
        assert_eq!(encode_batch(&[]), None);
        assert_eq!(encode_batch(&["1".into(), "2".into()]).unwrap(), "[1,2]");
    }

    #[test]
    fn deep_json_is_refused_wherever_it_hides() {
        let nest = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let request =
            |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{params}}}"#);
        assert!(one(&request(&nest(DEPTH_CAP - 1))).is_ok());
        assert_eq!(refused(&request(&nest(DEPTH_CAP))).1, FaultKind::Parse);
        assert_eq!(refused(&nest(1_000_000)).1, FaultKind::Parse);
        assert_eq!(refused(&"[{\"a\":".repeat(1_000_000)).1, FaultKind::Parse);
        // Brackets in texts are texts.
        let text = request(&format!(r#"{{"a":"\"{}\\"}}"#, "[".repeat(1000)));
        assert!(one(&text).is_ok());
        // What the scan lets through, the parser bears or refuses by itself.
        let deep = format!("{}1{}", "[".repeat(127), "]".repeat(127));
        assert!(serde_json::from_str::<serde_json::Value>(&deep).is_ok());
        assert!(serde_json::from_str::<serde_json::Value>(&format!("[{deep}]")).is_err());
    }

    #[test]
    fn params_errors_name_the_trouble() {
        #[derive(Debug, Deserialize)]
        struct P {
            #[expect(dead_code, reason = "only decoded")]
            n: u8,
        }
        let raw = RawValue::from_string(r#"{"n":"x"}"#.into()).unwrap();
        let fault = params::<P>(Some(&raw)).unwrap_err();
        assert_eq!(fault.message, "invalid params: invalid type: string \"x\", expected u8");
        assert_eq!(params::<P>(None).unwrap_err().message, "invalid params: missing field `n`");
    }

    #[test]
    fn what_is_written_is_read() {
        let text = encode_request(&Id::from(5), "a.b", &serde_json::json!({"k": [1]})).unwrap();
        let Ok(Message::Request(request)) = one(&text) else { panic!("not a request") };
        assert_eq!((request.id, request.params.unwrap().get()), (Id::from(5), r#"{"k":[1]}"#));
        let text = encode_notification(CANCEL_METHOD, &CancelParams { id: Id::from(5) }).unwrap();
        let Ok(Message::Notification(push)) = one(&text) else { panic!("not a notification") };
        assert_eq!(params::<CancelParams>(push.params).unwrap().id, Id::from(5));
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in r#"[\[\]{}":,0-9a-z\\ ]{0,60}"#) {
            let _ = parse(&text);
        }
    }
}

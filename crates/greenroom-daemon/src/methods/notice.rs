//! `alert.*`, `approval.*` and `hook.*`: what people are told and asked, and what agents say of themselves.

use greenroom_engine::SessionHandle;
use greenroom_plugins::host::Payload;
use greenroom_protocol::Fault;
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::notice::{
    AlertParams, AlertResult, ApprovalsResult, EmitParams, EmitResult, ResolveParams, ResolveResult,
};
use greenroom_protocol::manifest::Hook;
use greenroom_protocol::told::MESSAGE_BYTES;
use serde_json::{Map, Value};

use crate::events::about;
use crate::hooks::alerts::{self, Alert};
use crate::host::Host;
use crate::rpc::fault;
use crate::rpc::router::Call;

/// Text of an alert: a sentence or two.
const ALERT_BYTES: usize = 16 * 1024;
/// A channel, an agent, an event: a word.
const WORD_BYTES: usize = 128;
/// One event of an agent in the log, and one text, list and depth in it. A tool's input may hold a whole file.
const LOGGED_BYTES: usize = 16 * 1024;
const TEXT_BYTES: usize = 4 * 1024;
const PARTS_MAX: usize = 64;
const DEPTH_MAX: usize = 8;

/// Where agents put the name of their event.
const EVENT_NAMES: [&str; 3] = ["hook_event_name", "event", "type"];

pub async fn alert(call: Call, params: AlertParams) -> Result<AlertResult, Fault> {
    short("text", &params.text, ALERT_BYTES)?;
    let session = params.session.as_deref().map(|session| call.session(session)).transpose()?;
    let channel = params.channel.unwrap_or_else(|| "user".to_owned());
    short("channel", &channel, WORD_BYTES)?;
    let (severity, text) = (params.severity, params.text);
    let alert = Alert { severity, channel, text, session, source: "user" };
    let raised = alerts::raise(&call.host, alert).await;
    Ok(AlertResult { raised: raised.dropped_by.is_none(), dropped_by: raised.dropped_by })
}

pub async fn emit(call: Call, params: EmitParams) -> Result<EmitResult, Fault> {
    let handle = call.session(&params.session)?;
    tell(&call.host, &handle, params)?;
    Ok(EmitResult { emitted: true })
}

/// An agent in this session said something; which session `params` name does not count.
pub fn tell(host: &Host, handle: &SessionHandle, params: EmitParams) -> Result<(), Fault> {
    let agent = params.agent.unwrap_or_else(|| "unknown".to_owned());
    let named = || {
        let name = EVENT_NAMES.iter().find_map(|name| params.data.get(*name)?.as_str());
        name.unwrap_or("unknown").to_owned()
    };
    let event = params.event.clone().unwrap_or_else(named);
    short("agent", &agent, WORD_BYTES)?;
    short("event", &event, WORD_BYTES)?;
    let data = Value::Object(params.data);
    if data.to_string().len() > MESSAGE_BYTES {
        return Err(fault::invalid(format!("data larger than {MESSAGE_BYTES} bytes")));
    }
    let hooks = &host.hooks;
    let clean = |text: String| hooks.clean(Some(handle), text);
    let payload = Payload::new()
        .text("agent", clean(agent))
        .text("event", clean(event))
        .json("data", data, &clean);
    // Shortened only after it was filtered: half of a secret is not recognised.
    host.storage.log(about(handle.id(), "agent.event", shortened(payload.fields())));
    hooks.plugins.observe(Hook::AgentEvent, Some(handle.id()), payload);
    Ok(())
}

/// What was said, at a size for a log.
fn shortened(fields: &Map<String, Value>) -> Value {
    let mut result = Value::Object(fields.clone());
    for texts in [TEXT_BYTES, TEXT_BYTES / 16, TEXT_BYTES / 128] {
        let mut cut = false;
        let mut tried = fields.clone();
        if let Some(data) = tried.get_mut("data") {
            shorten(data, texts, DEPTH_MAX, &mut cut);
        }
        if cut {
            tried.insert("cut".to_owned(), true.into());
        }
        result = Value::Object(tried);
        if result.to_string().len() <= LOGGED_BYTES {
            return result;
        }
    }
    // Thousands of small parts: what was told is lost, that it was told is not.
    if let Some(fields) = result.as_object_mut() {
        fields.remove("data");
    }
    result
}

fn shorten(value: &mut Value, texts: usize, depth: usize, cut: &mut bool) {
    match value {
        Value::String(text) if text.len() > texts => {
            text.truncate(text.floor_char_boundary(texts));
            text.push('…');
            *cut = true;
        }
        Value::Array(_) | Value::Object(_) if depth == 0 => {
            *value = Value::Null;
            *cut = true;
        }
        Value::Array(items) => {
            *cut |= items.len() > PARTS_MAX;
            items.truncate(PARTS_MAX);
            items.iter_mut().for_each(|item| shorten(item, texts, depth - 1, cut));
        }
        Value::Object(members) => {
            let mut kept = 0;
            members.retain(|name, _| {
                kept += 1;
                kept <= PARTS_MAX && name.len() <= WORD_BYTES || {
                    *cut = true;
                    false
                }
            });
            members.values_mut().for_each(|value| shorten(value, texts, depth - 1, cut));
        }
        _ => {}
    }
}

pub async fn approvals(call: Call, _params: Empty) -> Result<ApprovalsResult, Fault> {
    Ok(ApprovalsResult { approvals: call.host.hooks.approvals.list() })
}

pub async fn resolve(call: Call, params: ResolveParams) -> Result<ResolveResult, Fault> {
    let by = call.peer.client().unwrap_or_else(|| "a person".to_owned());
    let approvals = &call.host.hooks.approvals;
    approvals.resolve(&params.approval, params.allow, by, params.reason)?;
    Ok(ResolveResult { resolved: true })
}

fn short(what: &str, text: &str, max: usize) -> Result<(), Fault> {
    match text.is_empty() || text.len() > max {
        true => Err(fault::invalid(format!("{what} has 1 to {max} bytes"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn logged(data: Value) -> Value {
        shortened(json!({ "agent": "claude", "event": "Stop", "data": data }).as_object().unwrap())
    }

    #[test]
    fn what_is_short_is_logged_as_it_is() {
        let data = json!({ "tool_name": "Bash", "tool_input": { "command": "make" }, "n": [1, 2] });
        assert_eq!(
            logged(data.clone()),
            json!({ "agent": "claude", "event": "Stop", "data": data })
        );
    }

    #[test]
    fn what_is_long_is_cut_and_says_so() {
        let file = "ä".repeat(300_000);
        let said = logged(json!({ "tool_name": "Write", "tool_input": { "content": file } }));
        assert_eq!((&said["data"]["tool_name"], &said["cut"]), (&json!("Write"), &json!(true)));
        let content = said["data"]["tool_input"]["content"].as_str().unwrap();
        assert!(content.ends_with('…') && content.len() <= TEXT_BYTES + 4);
        let deep = (0..200).fold(json!(1), |inner, _| json!({ "a": inner }));
        let many: Map<String, Value> =
            (0..5000).map(|number| (format!("k{number}"), json!("v".repeat(3000)))).collect();
        for data in [deep, Value::Object(many), json!({ "x": vec!["y".repeat(9000); 5000] })] {
            let said = logged(data);
            assert!(said.to_string().len() <= LOGGED_BYTES && said["cut"] == true, "{said}");
        }
    }
}

//! `alert.*`, `approval.*` and `hook.*`: what people are told and asked, and what agents say of themselves.

use greenroom_plugins::host::Payload;
use greenroom_protocol::Fault;
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::notice::{
    AlertParams, AlertResult, ApprovalsResult, EmitParams, EmitResult, ResolveParams, ResolveResult,
};
use greenroom_protocol::manifest::Hook;
use serde_json::{Value, json};

use crate::events::about;
use crate::hooks::alerts::{self, Alert};
use crate::rpc::fault;
use crate::rpc::router::Call;

/// Text of an alert: a sentence or two.
const ALERT_BYTES: usize = 16 * 1024;
/// A channel, an agent, an event: a word.
const WORD_BYTES: usize = 128;
/// What an agent says in one event; the whole of a tool's input may be in it.
const DATA_BYTES: usize = 1024 * 1024;

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
    let agent = params.agent.unwrap_or_else(|| "unknown".to_owned());
    let named = || {
        let name = EVENT_NAMES.iter().find_map(|name| params.data.get(*name)?.as_str());
        name.unwrap_or("unknown").to_owned()
    };
    let event = params.event.clone().unwrap_or_else(named);
    short("agent", &agent, WORD_BYTES)?;
    short("event", &event, WORD_BYTES)?;
    let data = Value::Object(params.data);
    if data.to_string().len() > DATA_BYTES {
        return Err(fault::invalid(format!("data larger than {DATA_BYTES} bytes")));
    }
    let hooks = &call.host.hooks;
    let clean = |text: String| hooks.clean(Some(&handle), text);
    let payload = Payload::new()
        .text("agent", clean(agent))
        .text("event", clean(event))
        .json("data", data, &clean);
    let words = ["agent", "event"].map(|name| payload.fields().get(name).cloned());
    let [agent, event] = words.map(Option::unwrap_or_default);
    let data = json!({ "agent": agent, "event": event });
    call.host.storage.log(about(handle.id(), "agent.event", data));
    hooks.plugins.observe(Hook::AgentEvent, Some(handle.id()), payload);
    Ok(EmitResult { emitted: true })
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

//! `alert.*`, `approval.*` and `hook.*`: what people are told and asked, and what agents say of
//! themselves.

use greenroom_protocol::Fault;
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::notice::{
    AlertParams, AlertResult, ApprovalsResult, EmitParams, EmitResult, ResolveParams, ResolveResult,
};

use crate::call::Call;
use crate::convert::short;
use crate::hooks::agent;
use crate::hooks::alerts::{self, Alert};

/// Text of an alert: a sentence or two.
const ALERT_BYTES: usize = 16 * 1024;
/// A channel: a word.
const WORD_BYTES: usize = 128;
pub(crate) async fn alert(call: Call, params: AlertParams) -> Result<AlertResult, Fault> {
    short("text", &params.text, ALERT_BYTES)?;
    let session = params.session.as_deref().map(|session| call.session(session)).transpose()?;
    let channel = params.channel.unwrap_or_else(|| "user".to_owned());
    short("channel", &channel, WORD_BYTES)?;
    let (severity, text) = (params.severity, params.text);
    let alert = Alert { severity, channel, text, session, source: "user" };
    let dropped_by = alerts::raise(&call.host.hooks, alert).await;
    Ok(AlertResult { raised: dropped_by.is_none(), dropped_by })
}

pub(crate) async fn emit(call: Call, params: EmitParams) -> Result<EmitResult, Fault> {
    let handle = call.session(&params.session)?;
    agent::tell(&call.host.hooks, &handle, params)?;
    Ok(EmitResult { emitted: true })
}

pub(crate) async fn approvals(call: Call, _params: Empty) -> Result<ApprovalsResult, Fault> {
    Ok(ApprovalsResult { approvals: call.host.hooks.approvals().list() })
}

pub(crate) async fn resolve(call: Call, params: ResolveParams) -> Result<ResolveResult, Fault> {
    let by = call.peer.client().unwrap_or_else(|| "a person".to_owned());
    let approvals = call.host.hooks.approvals();
    approvals.resolve(&params.approval, params.allow, by, params.reason)?;
    Ok(ResolveResult { resolved: true })
}

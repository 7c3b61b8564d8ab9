//! What the user must hear after a session: what its plugins kept, could not clean up, or denied.

use greenroom_client::method;
use greenroom_protocol::api::session::{InfoParams, Left, SessionInfo};

use super::Context;
use crate::host::HostClient;

/// Waits until the plugins of an ended session have cleaned up, and answers what is left.
pub async fn of(host: &HostClient, session: &str) -> Vec<String> {
    let params = InfoParams { settled: true, ..InfoParams::of(session) };
    let info: Result<SessionInfo, _> =
        host.call::<method::SessionInfo>(&params, "describe it").await;
    info.map(|info| lines(&info)).unwrap_or_default()
}

/// The same, told beside the answer.
pub async fn tell(host: &HostClient, session: &str, context: &Context) {
    for line in of(host, session).await {
        context.out.note(&line);
    }
}

/// One line for each thing.
pub fn lines(info: &SessionInfo) -> Vec<String> {
    let left = info.plugins.iter().filter_map(|plugin| match plugin.left.as_ref()? {
        Left::Kept { what, why } => Some(format!("kept {what}: {why}")),
        Left::Failed { why } => Some(format!("{} could not clean up: {why}", plugin.name)),
        Left::Nothing | Left::Removed { .. } => None,
    });
    let denied = info.denied.iter().map(|what| format!("denied {what}"));
    left.chain(denied).collect()
}

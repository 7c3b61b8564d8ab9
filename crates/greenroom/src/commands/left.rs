//! What the user must hear after a session: what its plugins kept, could not clean up, or denied.

use greenroom_protocol::api::session::{InfoParams, Left, SessionInfo};

use super::Context;
use crate::host::Host;

/// Waits until the plugins of an ended session have cleaned up, and tells what is left, beside the answer.
pub async fn tell(host: &Host, session: &str, context: &Context) -> Vec<String> {
    let params = InfoParams { settled: true, ..InfoParams::of(session) };
    let info: Result<SessionInfo, _> = host.call("session.info", &params, "describe it").await;
    let lines = info.map(|info| lines(&info)).unwrap_or_default();
    for line in &lines {
        context.out.note(line);
    }
    lines
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

//! The proxy of a confined session that may reach some hosts: opened with the session, closed with it.

use std::sync::Arc;

use greenroom_engine::{SessionHandle, SessionId};
use greenroom_plugins::sandbox::Reach;
use serde_json::json;
use tokio::task::AbortHandle;

use crate::events::about;
use crate::host::Host;
use crate::proxy::{self, Decisions, Outside, Rules, Tell};

/// Serves the session's way out, if it has one. What it may reach is in its chain's notes, also after a restart.
pub fn open(host: &Arc<Host>, handle: &SessionHandle) -> Option<AbortHandle> {
    let id = handle.id();
    let file = host.chains.look(id)?;
    let Reach { hosts, http } = Reach::noted(file.step("sandbox")?.state())?;
    let Some(listener) = host.keeper.listener(id) else {
        // Programs inside are refused by their own loopback: no way out, which is the safe side.
        tracing::error!(session = %id, "a confined session without a socket for its proxy");
        return None;
    };
    let log = host.sessions_dir.join(id.to_string()).join("proxy.jsonl");
    let decisions = Decisions::new(&log, tell(host, id));
    match proxy::serve(id, listener, Rules { hosts, http }, Outside::real(), decisions) {
        Ok(door) => Some(door),
        Err(error) => {
            tracing::error!(session = %id, %error, "serving a session's proxy");
            None
        }
    }
}

/// Denials are an event each and are told again at the session's end.
fn tell(host: &Arc<Host>, id: SessionId) -> Tell {
    let host = Arc::downgrade(host);
    Arc::new(move |what, why| {
        let Some(host) = host.upgrade() else { return };
        host.chains.remark(id, format!("{what}: {why}"));
        host.storage.log(about(id, "session.denied", json!({ "what": what, "why": why })));
    })
}

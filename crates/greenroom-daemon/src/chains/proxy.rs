//! The proxy of a confined session that may reach some hosts: opened with the session, closed with
//! it.

use std::sync::Arc;

use greenroom_engine::{SessionHandle, SessionId};
use greenroom_protocol::events::SessionDenied;
use greenroom_proxy::{Decisions, Outside, Rules, Tell};
use greenroom_workspace::sandbox::{self, Reach};
use tokio::task::AbortHandle;

use super::Sessions;
use crate::events::about;

/// Serves the session's way out, if it has one. What it may reach is in its chain's notes, also
/// after a restart.
pub(crate) fn open(sessions: &Arc<Sessions>, handle: &SessionHandle) -> Option<AbortHandle> {
    let id = handle.id();
    let file = sessions.chains.look(id)?;
    let Reach { hosts, http } = sandbox::noted(file.step(sandbox::ABOUT.name)?.state())?.reach?;
    let Some(listener) = sessions.keeper.listener(id) else {
        // Programs inside are refused by their own loopback: no way out, which is the safe side.
        tracing::error!(session = %id, "a confined session without a socket for its proxy");
        return None;
    };
    let log = sessions.dir.join(id.to_string()).join("proxy.jsonl");
    let decisions = Decisions::new(&log, tell(sessions, id));
    match greenroom_proxy::serve(id, listener, Rules { hosts, http }, Outside::real(), decisions) {
        Ok(door) => Some(door),
        Err(error) => {
            tracing::error!(session = %id, %error, "serving a session's proxy");
            None
        }
    }
}

/// Denials are an event each and are told again at the session's end.
fn tell(sessions: &Arc<Sessions>, id: SessionId) -> Tell {
    let sessions = Arc::downgrade(sessions);
    Arc::new(move |what, why| {
        let Some(sessions) = sessions.upgrade() else { return };
        sessions.chains.remark(id, format!("{what}: {why}"));
        sessions
            .storage
            .log(about(id, SessionDenied { what: what.to_owned(), why: why.to_owned() }));
    })
}

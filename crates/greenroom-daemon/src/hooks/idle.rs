//! `session.idle`: a session printed nothing for a while. Told once until it prints again.
//!
//! Nobody is woken by output: the time of the last output is looked at when the session may be
//! idle, and only a session that was told of is watched for its next output.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use greenroom_engine::SessionHandle;
use greenroom_formats::manifest::Hook;
use greenroom_plugins::host::Payload;
use greenroom_protocol::events::SessionIdle;

use super::Hooks;
use crate::convert;
use crate::events::about;

/// Watches a session until its end, if anybody wants to know.
pub(crate) fn watch(hooks: &Arc<Hooks>, handle: SessionHandle) {
    if hooks.plugins.listens(Hook::SessionIdle) {
        let hooks = hooks.clone();
        tokio::spawn(async move {
            let over = handle.clone();
            tokio::select! {
                () = run(&hooks, &handle) => {}
                () = over.over() => {}
            }
        });
    }
}

async fn run(hooks: &Hooks, handle: &SessionHandle) {
    loop {
        let after = hooks.settings.now().plugins.idle;
        let info = handle.info();
        let last = info.last_output.unwrap_or(info.record.created);
        let idle = SystemTime::now().duration_since(last).unwrap_or(Duration::ZERO);
        if idle < after {
            tokio::time::sleep(after - idle).await;
            continue;
        }
        let seq = handle.change().seq;
        let idle_ms = convert::millis(idle);
        let payload = Payload::new().fact("idle_ms", idle_ms).fact("sequence", seq.0);
        hooks.storage.log(about(handle.id(), SessionIdle { idle_ms }));
        hooks.plugins.observe(Hook::SessionIdle, Some(handle.id()), payload);
        let mut changes = handle.changes();
        if changes.wait_for(|change| change.seq > seq || change.closed).await.is_err() {
            return;
        }
    }
}

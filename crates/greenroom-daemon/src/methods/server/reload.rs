//! Reading the settings again, and telling everybody whom they concern.

use std::sync::Arc;

use greenroom_protocol::Fault;
use greenroom_protocol::api::server::ReloadResult;
use greenroom_protocol::events::DaemonReloaded;

use super::for_http;
use crate::events::of_the_host;
use crate::host::Host;
use crate::methods::plugin;
use crate::settings::LISTEN;

/// Reads the settings again, and looks at the plugins' files again.
pub(crate) async fn reload(host: &Arc<Host>, by: &str) -> Result<ReloadResult, Fault> {
    let new = host.settings.read_again(by).await?;
    host.sessions.reconfigure(&new);
    let listen = new.http.listen;
    let mut result = host.settings.hold(new);
    if result.changed.iter().any(|key| key == LISTEN) {
        let serves = match listen {
            Some(address) => host.edge.web.start(&for_http(host), Some(address)).await.is_ok(),
            None => false,
        };
        if !serves {
            result.changed.retain(|key| key != LISTEN);
            result.next_start.push(LISTEN.to_owned());
        }
    }
    match plugin::look_again(&host.hooks, by).await {
        Some(Ok(done)) => {
            result.plugins = [done.added, done.changed, done.removed].concat();
            result.plugins_failed = done.failed;
        }
        Some(Err(fault)) => result.plugins_failed = vec![fault.message],
        None => {}
    }
    tracing::info!(changed = ?result.changed, restart = ?result.restart, by, "settings read again");
    let (changed, restart) = (result.changed.clone(), result.restart.clone());
    host.storage.log(of_the_host(DaemonReloaded { changed, restart, by: by.to_owned() }));
    Ok(result)
}

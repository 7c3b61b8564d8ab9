//! One call without a connection of our own kind: for HTTP and MCP, which have theirs.
//!
//! The same router, rights and handlers as on the socket. Deliberately absent: pushes; a caller here gets one answer.

use std::sync::Arc;

use greenroom_protocol::{Fault, FaultKind};
use serde::Serialize;
use serde_json::value::to_raw_value;

use crate::host::Host;
use crate::rpc::outlet::Outlet;
use crate::rpc::peer::{Caller, Peer};
pub use crate::rpc::router::Body;
use crate::rpc::router::{self, Call};

/// Asks and waits. Dropped before the answer, it ends what looks, types or waits; what changes sessions goes on.
pub async fn once(
    host: Arc<Host>,
    caller: Caller,
    method: &str,
    params: &impl Serialize,
) -> Result<Body, Fault> {
    let params = to_raw_value(params).map_err(|error| {
        Fault::new(FaultKind::Internal, format!("cannot write the params of {method}: {error}"))
    })?;
    let peer = Arc::new(Peer::new(caller, Arc::new(Outlet::nowhere())));
    let work =
        router::call(Call { host: host.clone(), peer: peer.clone() }, method, Some(&params))?;
    let outcome = router::carried_out(method, work).await;
    peer.close();
    host.counters.answered();
    outcome
}

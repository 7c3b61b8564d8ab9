//! The client API for those who have connections of their own: HTTP and MCP.
//!
//! A call goes through the same router, rights and handlers as on the socket.

use std::sync::Arc;

use greenroom_protocol::{Fault, FaultKind};
use serde::Serialize;
use serde_json::value::to_raw_value;
use tokio::net::UnixStream;

use crate::call::caller::Caller;
use crate::call::outlet::Outlet;
use crate::call::peer::Peer;
use crate::call::{Body, Call};
use crate::host::Host;
use crate::rpc::conn;
use crate::rpc::router;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api(Arc<Host>);

impl Api {
    pub(crate) fn of(host: &Arc<Host>) -> Api {
        Api(host.clone())
    }

    /// One call without pushes. Dropped before the answer, it ends what looks, types or waits; what
    /// changes sessions goes on.
    pub(crate) async fn once(
        &self,
        caller: Caller,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Body, Fault> {
        let params = to_raw_value(params).map_err(|error| {
            Fault::new(FaultKind::Internal, format!("cannot write the params of {method}: {error}"))
        })?;
        let peer = Arc::new(Peer::new(caller, Arc::new(Outlet::nowhere())));
        let call = Call { host: self.0.clone(), peer: peer.clone() };
        let work = router::call(call, method, Some(&params))?;
        let outcome = router::carried_out(method, work).await;
        peer.close();
        self.0.edge.counters.answered();
        outcome
    }

    /// A whole connection of the socket's kind, until it ends. It counts from now on.
    pub(crate) fn serve(
        self,
        stream: UnixStream,
        caller: Caller,
    ) -> impl Future<Output = ()> + Send + 'static {
        let counted = self.0.edge.counters.connected();
        async move {
            conn::serve(self.0, stream, caller).await;
            drop(counted);
        }
    }
}

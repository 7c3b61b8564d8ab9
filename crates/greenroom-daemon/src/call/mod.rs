//! One call: who makes it, how to push to its caller, and what an error is on the wire. Every
//! handler gets a [`Call`].
//!
//! `caller` is who is calling and what that caller may do, `peer` what a handler knows of the
//! connection, `outlet` writes without ever blocking anybody, `fault` turns every room's errors
//! into the wire's. Deliberately absent: which handler serves a call (`rpc`).

pub(crate) mod caller;
pub(crate) mod fault;
pub(crate) mod outlet;
pub(crate) mod peer;

use std::sync::Arc;

use greenroom_engine::SessionHandle;
use greenroom_protocol::methods::{self, MethodRow};
use greenroom_protocol::{Fault, FaultKind, members};
use serde::Serialize;
use serde_json::value::RawValue;

use self::peer::Peer;
use crate::host::Host;

/// A result as JSON text, maybe shared with other answers.
#[derive(Clone, Debug)]
pub(crate) struct Body(pub Arc<str>);

impl Body {
    pub(crate) fn of<R: Serialize>(result: &R) -> Result<Body, Fault> {
        let text = serde_json::to_string(result).map_err(|error| {
            Fault::new(FaultKind::Internal, format!("cannot write an answer: {error}"))
        })?;
        Ok(Body(text.into()))
    }
}

/// One call: the host it is made to and the connection it came from.
#[derive(Clone)]
pub(crate) struct Call {
    pub host: Arc<Host>,
    pub peer: Arc<Peer>,
}

impl Call {
    /// The session a caller named.
    pub(crate) fn session(&self, text: &str) -> Result<SessionHandle, Fault> {
        if let Some(handle) = self.peer.recent(text) {
            return Ok(handle);
        }
        let handle = self.host.sessions.engine().find(text).map_err(fault::engine)?;
        self.peer.remember(&handle);
        Ok(handle)
    }

    /// The method's row, if there is one, this caller may call it, and it has each of the params.
    pub(crate) fn admitted(
        &self,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<&'static MethodRow, Fault> {
        let Some(row) = methods::find(method) else {
            let message = format!("unknown method: {method}");
            return Err(Fault::new(FaultKind::UnknownMethod, message).with("method", method));
        };
        self.peer.caller.admitted(row)?;
        if let Some(params) = params {
            members::check(method, params.get()).map_err(fault::masked)?;
        }
        Ok(row)
    }
}

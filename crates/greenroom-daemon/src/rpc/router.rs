//! From a method's name to its handler: the row, the right to call it, the params, the call.
//!
//! Every surface comes through [`call`]; a row of the table without an arm here is a defect a test
//! finds. Deliberately absent: what any method does, and `session.attach`, which takes over its
//! connection and therefore begins in `conn`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use greenroom_engine::SessionHandle;
use greenroom_protocol::methods::{self, Scope};
use greenroom_protocol::{Fault, FaultKind, members, rpc};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::host::Host;
use crate::methods::{
    events, export, input, notice, output, plugin, redact, run, sandbox, server, session, snapshot,
    transcript, waits, worktree,
};
use crate::rpc::fault;
use crate::rpc::peer::Peer;

/// A result as JSON text, maybe shared with other answers.
#[derive(Clone, Debug)]
pub struct Body(pub Arc<str>);

impl Body {
    pub fn of<R: Serialize>(result: &R) -> Result<Body, Fault> {
        match serde_json::to_string(result) {
            Ok(text) => Ok(Body(text.into())),
            Err(error) => {
                Err(Fault::new(FaultKind::Internal, format!("cannot write an answer: {error}")))
            }
        }
    }
}

pub type Later = Pin<Box<dyn Future<Output = Result<Body, Fault>> + Send>>;

/// One call: the host it is made to and the connection it came from.
#[derive(Clone)]
pub struct Call {
    pub host: Arc<Host>,
    pub peer: Arc<Peer>,
}

impl Call {
    /// The session a caller named.
    pub fn session(&self, text: &str) -> Result<SessionHandle, Fault> {
        if let Some(handle) = self.peer.recent(text) {
            return Ok(handle);
        }
        let handle = self.host.engine.find(text).map_err(fault::engine)?;
        self.peer.remember(&handle);
        Ok(handle)
    }
}

/// May this caller call this method at all?
pub fn admitted(call: &Call, method: &str) -> Result<Scope, Fault> {
    let Some(row) = methods::find(method) else {
        return Err(Fault::new(FaultKind::UnknownMethod, format!("unknown method: {method}"))
            .with("method", method));
    };
    if let Some(why) = call.peer.caller.refused {
        let message = format!("not allowed to call {method}: {why}");
        return Err(Fault::new(FaultKind::PermissionDenied, message)
            .with("method", method)
            .with("reason", why));
    }
    if !call.peer.caller.may(row.scope) {
        let needed = serde_json::to_value(row.scope).unwrap_or_default();
        return Err(Fault::new(
            FaultKind::PermissionDenied,
            format!("not allowed to call {method}"),
        )
        .with("method", method)
        .with("required_permission", needed));
    }
    Ok(row.scope)
}

/// Refuses what the method does not have.
pub fn known(method: &str, params: Option<&RawValue>) -> Result<(), Fault> {
    let Some(params) = params else { return Ok(()) };
    members::check(method, params.get()).map_err(redact::told)
}

/// Whether a method's work goes on when its caller is gone: what changes sessions must not be left half done.
pub fn goes_on(method: &str) -> bool {
    methods::find(method).is_none_or(|row| row.scope > Scope::Input)
}

/// The work with its outcome; where it goes on without its caller, dropping this does not end it.
pub fn carried_out(
    method: &str,
    work: Later,
) -> impl Future<Output = Result<Body, Fault>> + Send + 'static {
    let goes_on = goes_on(method);
    async move {
        if !goes_on {
            return work.await;
        }
        tokio::spawn(work).await.unwrap_or_else(|_| {
            let message = "our bug: the request ended without an answer";
            Err(Fault::new(FaultKind::Internal, message).hint("greenroom logs shows more"))
        })
    }
}

/// The work of one request, not begun.
pub fn call(call: Call, method: &str, params: Option<&RawValue>) -> Result<Later, Fault> {
    admitted(&call, method)?;
    known(method, params)?;
    match method {
        "server.hello" => serve(call, params, server::hello),
        "server.capabilities" => serve(call, params, server::capabilities),
        "server.set_notifications" => serve(call, params, output::set_notifications),
        "server.subscribe" => serve(call, params, events::subscribe),
        "server.unsubscribe" => serve(call, params, events::unsubscribe),
        "server.stats" => serve(call, params, server::stats),
        "server.shutdown" => serve(call, params, server::shutdown),
        "server.reload" => serve(call, params, server::reload),
        "server.upgrade" => serve(call, params, server::upgrade),
        "server.schema" => serve(call, params, server::schema),
        "server.web" => serve(call, params, server::web),
        "session.create" => serve(call, params, session::create),
        "session.list" => serve(call, params, session::list),
        "session.info" => serve(call, params, session::info),
        "session.input" => serve(call, params, input::input),
        "session.wait" => serve(call, params, waits::wait),
        "session.cancel_wait" => serve(call, params, waits::cancel_wait),
        "session.snapshot" => raw(call, params, snapshot::snapshot),
        "session.transcript" => serve(call, params, transcript::transcript),
        "session.resize" => serve(call, params, session::resize),
        "session.kill" => serve(call, params, session::kill),
        "session.close" => serve(call, params, session::close),
        "session.rename" => serve(call, params, session::rename),
        "session.signal" => serve(call, params, session::signal),
        "session.subscribe" => serve(call, params, output::subscribe),
        "session.mark" => serve(call, params, session::mark),
        "session.replay" => serve(call, params, export::replay),
        "session.export" => serve(call, params, export::export),
        "redact.test" => serve(call, params, redact::test),
        "plugin.list" => serve(call, params, plugin::list),
        "plugin.get" => serve(call, params, plugin::get),
        "plugin.reload" => serve(call, params, plugin::reload),
        "plugin.enable" => serve(call, params, plugin::enable),
        "plugin.disable" => serve(call, params, plugin::disable),
        "plugin.test" => serve(call, params, plugin::test),
        "plugin.order" => serve(call, params, plugin::order),
        "plugin.stats" => serve(call, params, plugin::stats),
        "plugin.logs" => serve(call, params, plugin::logs),
        "plugin.add" => serve(call, params, plugin::add),
        "plugin.link" => serve(call, params, plugin::link),
        "plugin.remove" => serve(call, params, plugin::remove),
        "plugin.grant" => serve(call, params, plugin::grant),
        "plugin.revoke" => serve(call, params, plugin::revoke),
        "plugin.pending" => serve(call, params, plugin::pending),
        "plugin.capabilities" => serve(call, params, plugin::capabilities),
        "plugin.validate_manifest" => serve(call, params, plugin::validate_manifest),
        "plugin.describe" => serve(call, params, plugin::describe),
        "plugin.load" => serve(call, params, plugin::load),
        "plugin.unload" => serve(call, params, plugin::unload),
        "alert.raise" => serve(call, params, notice::alert),
        "hook.emit" => serve(call, params, notice::emit),
        "approval.list" => serve(call, params, notice::approvals),
        "approval.resolve" => serve(call, params, notice::resolve),
        "run.start" => serve(call, params, run::start),
        "run.list" => serve(call, params, run::list),
        "run.info" => serve(call, params, run::info),
        "run.cancel" => serve(call, params, run::cancel),
        "worktree.list" => serve(call, params, worktree::list),
        "worktree.clean" => serve(call, params, worktree::clean),
        "worktree.info" => serve(call, params, worktree::info),
        "worktree.diff" => serve(call, params, worktree::diff),
        "worktree.merge" => serve(call, params, worktree::merge),
        "worktree.remove" => serve(call, params, worktree::remove),
        "sandbox.doctor" => serve(call, params, sandbox::doctor),
        "sandbox.explain" => serve(call, params, sandbox::explain),
        "session.attach" => Err(Fault::new(
            FaultKind::InvalidRequest,
            "session.attach takes over its connection: call it alone, not in a batch",
        )),
        other => Err(Fault::new(FaultKind::Unsupported, format!("{other} is not served yet"))),
    }
}

fn serve<P, R, F>(
    call: Call,
    params: Option<&RawValue>,
    handler: impl FnOnce(Call, P) -> F,
) -> Result<Later, Fault>
where
    P: DeserializeOwned,
    R: Serialize,
    F: Future<Output = Result<R, Fault>> + Send + 'static,
{
    let work = handler(call, rpc::params(params).map_err(redact::told)?);
    Ok(Box::pin(async move { Body::of(&work.await.map_err(redact::told)?) }))
}

/// A handler that writes its JSON itself.
fn raw<P, F>(
    call: Call,
    params: Option<&RawValue>,
    handler: impl FnOnce(Call, P) -> F,
) -> Result<Later, Fault>
where
    P: DeserializeOwned,
    F: Future<Output = Result<Body, Fault>> + Send + 'static,
{
    let work = handler(call, rpc::params(params).map_err(redact::told)?);
    Ok(Box::pin(async move { work.await.map_err(redact::told) }))
}

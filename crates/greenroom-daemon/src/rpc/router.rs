//! From a method's name to its handler: the row, the right to call it, the params, the call.
//!
//! Every surface comes through [`call`]; a row of the table without a handler here does not
//! compile. Deliberately absent: what any method does, and `session.attach`, which takes over its
//! connection and therefore begins in `conn`.

use std::future::Future;
use std::pin::Pin;

use greenroom_protocol::methods::{self, Method, MethodId, Scope, method};
use greenroom_protocol::{Fault, FaultKind, rpc};
use serde_json::value::RawValue;

use crate::call::{Body, Call, fault};
use crate::methods::{
    events, export, input, notice, output, plugin, redact, run, sandbox, server, session, snapshot,
    transcript, waits, worktree,
};

pub(crate) type Later = Pin<Box<dyn Future<Output = Result<Body, Fault>> + Send>>;

/// Whether a method's work goes on when its caller is gone: what changes sessions must not be left
/// half done.
pub(crate) fn goes_on(method: &str) -> bool {
    methods::find(method).is_none_or(|row| row.scope > Scope::Input)
}

/// The work with its outcome; where it goes on without its caller, dropping this does not end it.
pub(crate) fn carried_out(
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

/// One line per method: which handler serves it. A row without a line does not compile.
macro_rules! handlers {
    ($($method:ident => $handler:path,)*) => {
        /// The work of one request, not begun.
        pub(crate) fn call(call: Call, method: &str, params: Option<&RawValue>) -> Result<Later, Fault> {
            let row = call.admitted(method, params)?;
            match row.id {
                $(MethodId::$method => {
                    let work = $handler(call, read::<method::$method>(params)?);
                    Ok(Box::pin(async move { encoded::<method::$method>(work.await) }))
                })*
                // Its answer is JSON already, shared with others that asked for the same.
                MethodId::SessionSnapshot => {
                    let work = snapshot::snapshot(call, read::<method::SessionSnapshot>(params)?);
                    Ok(Box::pin(async move { work.await.map_err(fault::masked) }))
                }
                MethodId::SessionAttach => Err(Fault::new(
                    FaultKind::InvalidRequest,
                    format!("{method} takes over its connection: call it alone, not in a batch"),
                )),
            }
        }
    };
}

handlers! {
    ServerHello => server::hello,
    ServerCapabilities => server::capabilities,
    ServerSetNotifications => output::set_notifications,
    ServerSubscribe => events::subscribe,
    ServerUnsubscribe => events::unsubscribe,
    ServerStats => server::stats,
    ServerShutdown => server::shutdown,
    ServerReload => server::reload,
    ServerUpgrade => server::upgrade,
    ServerSchema => server::schema,
    ServerWeb => server::web,
    SessionCreate => session::create,
    SessionList => session::list,
    SessionInfo => session::info,
    SessionInput => input::input,
    SessionWait => waits::wait,
    SessionCancelWait => waits::cancel_wait,
    SessionTranscript => transcript::transcript,
    SessionResize => session::resize,
    SessionKill => session::kill,
    SessionClose => session::close,
    SessionRename => session::rename,
    SessionSignal => session::signal,
    SessionSubscribe => output::subscribe,
    SessionMark => session::mark,
    SessionReplay => export::replay,
    SessionExport => export::export,
    RedactTest => redact::test,
    PluginList => plugin::list,
    PluginGet => plugin::get,
    PluginReload => plugin::reload,
    PluginEnable => plugin::enable,
    PluginDisable => plugin::disable,
    PluginTest => plugin::test,
    PluginOrder => plugin::order,
    PluginStats => plugin::stats,
    PluginLogs => plugin::logs,
    PluginAdd => plugin::add,
    PluginLink => plugin::link,
    PluginRemove => plugin::remove,
    PluginGrant => plugin::grant,
    PluginRevoke => plugin::revoke,
    PluginPending => plugin::pending,
    PluginCapabilities => plugin::capabilities,
    PluginValidateManifest => plugin::validate_manifest,
    PluginDescribe => plugin::describe,
    PluginLoad => plugin::load,
    PluginUnload => plugin::unload,
    AlertRaise => notice::alert,
    HookEmit => notice::emit,
    ApprovalList => notice::approvals,
    ApprovalResolve => notice::resolve,
    RunStart => run::start,
    RunList => run::list,
    RunInfo => run::info,
    RunCancel => run::cancel,
    WorktreeList => worktree::list,
    WorktreeClean => worktree::clean,
    WorktreeInfo => worktree::info,
    WorktreeDiff => worktree::diff,
    WorktreeMerge => worktree::merge,
    WorktreeRemove => worktree::remove,
    SandboxDoctor => sandbox::doctor,
    SandboxExplain => sandbox::explain,
}

fn read<M: Method>(params: Option<&RawValue>) -> Result<M::Params, Fault> {
    rpc::params(params).map_err(fault::masked)
}

fn encoded<M: Method>(answer: Result<M::Result, Fault>) -> Result<Body, Fault> {
    Body::of(&answer.map_err(fault::masked)?)
}

//! Where events of the daemon meet hook plugins.
//!
//! | room | what it is |
//! |---|---|
//! | here | what handlers ask: may this happen? |
//! | `load` | the host of plugins, from configuration and paths |
//! | `pump` | facts of sessions and news of plugins, told to observers |
//! | `before` | `session.before`, as a link of the session's chain |
//! | `submit` | `input.submit` |
//! | `filtering` | who filters a session, and where that is done |
//! | `idle` | `session.idle` |
//! | `alerts`, `approvals` | what people are told, and asked |
//!
//! In: what is about to happen or has happened. Out: leave to go on, changed fields, events in the log. Text gets into a
//! payload only through egress. Deliberately absent: which plugins there are, in which order they are asked, and what
//! becomes of one that fails (`greenroom_plugins::host`).

pub mod alerts;
pub mod approvals;
mod before;
mod filtering;
mod idle;
mod load;
mod pump;
pub mod submit;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use greenroom_engine::egress::{Egress, Filtered, Filters, Raw, Sink};
use greenroom_engine::{SessionHandle, SessionId};
use greenroom_plugins::chain::Outcome;
use greenroom_plugins::host::{GateOutcome, Payload, PluginHost};
use greenroom_plugins::spec::{Cleanup, SessionSpec};
use greenroom_plugins::store::Store;
use greenroom_protocol::api::notice::Severity;
use greenroom_protocol::manifest::Hook;
use greenroom_protocol::{Fault, FaultKind};
use serde_json::{Map, Value};

pub use before::Gatekeeper;
pub use load::{Happened, Happenings, load};
pub use pump::begin;

use self::approvals::Approvals;
use self::submit::Typed;
use crate::host::Host;

/// What the daemon knows of plugins.
pub struct Hooks {
    pub plugins: PluginHost,
    pub store: Arc<Store>,
    pub approvals: Approvals,
    pub typed: Typed,
    guards: alerts::Guards,
    /// Sessions somebody asked to end: their end is not a failure.
    killed: Mutex<HashSet<SessionId>>,
    /// For texts that belong to no session.
    rules: Egress,
}

impl Hooks {
    pub fn new(plugins: PluginHost, store: Arc<Store>) -> Hooks {
        Hooks {
            plugins,
            store,
            approvals: Approvals::default(),
            typed: Typed::default(),
            guards: alerts::Guards::default(),
            killed: Mutex::default(),
            rules: Egress::built_in(),
        }
    }

    /// A text for a plugin: through the session's filters, or the built-in ones.
    pub fn clean(
        &self,
        session: Option<&SessionHandle>,
        text: impl Into<String>,
    ) -> Filtered<String> {
        match session {
            Some(session) => session.filtered(Sink::Event, text.into()),
            None => self.rules.text(Sink::Event, Raw::new(text.into())),
        }
    }

    /// Who filters sessions, for the engine.
    pub fn filters(&self) -> Arc<dyn Filters> {
        Arc::new(filtering::Filtering(self.plugins.clone()))
    }

    pub fn will_be_killed(&self, id: SessionId) {
        self.killed().insert(id);
    }

    fn was_killed(&self, id: SessionId) -> bool {
        self.killed().contains(&id)
    }

    /// The session is gone.
    fn forget(&self, id: SessionId) {
        self.killed().remove(&id);
        self.typed.forget(id);
        self.plugins.forget(id);
    }

    fn killed(&self) -> MutexGuard<'_, HashSet<SessionId>> {
        self.killed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a caller wants to do, in the words of an error.
pub struct Wish<'a> {
    pub hook: Hook,
    pub session: Option<SessionId>,
    /// `cannot kill s3`.
    pub attempt: &'a str,
}

/// What plugins agreed to.
pub struct Leave {
    /// The fields as they are then.
    pub fields: Map<String, Value>,
    /// What plugins wanted changed and may not change.
    pub refused: Vec<String>,
}

/// Asks the plugins of a gate, and a person where they leave it to one. Answers the fields as they are then.
pub async fn allowed(
    host: &Arc<Host>,
    wish: Wish<'_>,
    payload: Payload,
) -> Result<Map<String, Value>, Fault> {
    leave(host, wish, payload).await.map(|leave| leave.fields)
}

/// The same, with what was refused.
async fn leave(host: &Arc<Host>, wish: Wish<'_>, payload: Payload) -> Result<Leave, Fault> {
    match host.hooks.plugins.gate(wish.hook, wish.session, payload).await {
        GateOutcome::Pass { fields, refused, .. } => Ok(Leave { fields, refused }),
        GateOutcome::Block { plugin, reason } => Err(denied(&wish, &plugin, &reason)),
        GateOutcome::Ask { plugin, reason, fields, refused, .. } => {
            let question = approvals::Question {
                session: wish.session,
                title: format!("{} asks about {}", plugin, wish.hook),
                text: reason,
                source: wish.hook.name(),
            };
            match approvals::ask(host, question).await {
                Ok(()) => Ok(Leave { fields, refused }),
                Err(no) => Err(denied(&wish, &no.by, &no.reason)),
            }
        }
    }
}

fn denied(wish: &Wish<'_>, by: &str, reason: &str) -> Fault {
    let message = format!("{}: {by}: {reason}", wish.attempt);
    Fault::new(FaultKind::PermissionDenied, message)
        .with("plugin", by)
        .with("hook", wish.hook.name())
        .with("reason", reason)
}

/// Before somebody's request ends a session.
pub async fn may_kill(
    host: &Arc<Host>,
    handle: &SessionHandle,
    by: Option<String>,
    signal: Option<&str>,
) -> Result<(), Fault> {
    let id = handle.id();
    if host.hooks.plugins.listens(Hook::SessionBeforeKill) {
        let clean = |text: String| host.hooks.clean(Some(handle), text);
        let payload = Payload::new()
            .maybe("signal", signal.map(|signal| clean(signal.to_owned())))
            .maybe("by", by.map(clean));
        let attempt = format!("cannot kill {id}");
        let wish = Wish { hook: Hook::SessionBeforeKill, session: Some(id), attempt: &attempt };
        allowed(host, wish, payload).await?;
    }
    host.hooks.will_be_killed(id);
    Ok(())
}

/// Who wants to attach.
pub struct Attaching {
    pub client: Option<String>,
    pub pid: Option<u32>,
    /// Not through the socket of this machine.
    pub remote: bool,
    pub read_only: bool,
}

/// Before a client attaches. Answers whether it may only read.
pub async fn may_attach(
    host: &Arc<Host>,
    handle: &SessionHandle,
    who: Attaching,
) -> Result<bool, Fault> {
    let Attaching { client, pid, remote, read_only } = who;
    if !host.hooks.plugins.listens(Hook::ClientBeforeAttach) {
        return Ok(read_only);
    }
    let id = handle.id();
    let payload = Payload::new()
        .maybe("client", client.map(|name| host.hooks.clean(Some(handle), name)))
        .fact("pid", pid)
        .fact("remote", remote)
        .fact("read_only", read_only);
    let attempt = format!("cannot attach to {id}");
    let wish = Wish { hook: Hook::ClientBeforeAttach, session: Some(id), attempt: &attempt };
    let fields = allowed(host, wish, payload).await?;
    // A plugin may take the right to type away, not give it.
    Ok(read_only || fields.get("read_only") == Some(&Value::Bool(true)))
}

/// The daemon serves.
pub fn announce(host: &Host, pid: u32, version: &'static str, restart: bool, sessions: usize) {
    let payload = Payload::new()
        .fact("pid", pid)
        .fact("version", version)
        .fact("restart", restart)
        .fact("sessions", sessions as u64);
    host.hooks.plugins.observe(Hook::DaemonStarted, None, payload);
}

/// A plugin of the chain made a worktree for the session. One that was there before is not told.
pub fn worktree_made(host: &Host, spec: &SessionSpec) {
    let Some(git) = spec.git.as_ref().filter(|git| !git.resumed) else { return };
    let payload = Payload::new()
        .text("path", host.hooks.clean(None, git.worktree.display().to_string()))
        .text("branch", host.hooks.clean(None, git.branch.clone()));
    host.hooks.plugins.observe(Hook::WorktreeCreated, Some(spec.id), payload);
}

/// A plugin of the chain has cleaned up.
pub fn cleaned(plugins: &PluginHost, id: SessionId, plugin: &str, outcome: &Outcome) {
    if let ("worktree", Some(Cleanup::Removed { what })) = (plugin, &outcome.cleanup) {
        worktree_removed(plugins, Some(id), what);
    }
}

pub fn worktree_removed(plugins: &PluginHost, id: Option<SessionId>, path: &str) {
    let path = Egress::built_in().text(Sink::Event, Raw::new(path.to_owned()));
    plugins.observe(Hook::WorktreeRemoved, id, Payload::new().text("path", path));
}

/// A limit of time is about to strike.
pub fn expiring(host: &Arc<Host>, handle: &SessionHandle, limit: &str, left: Duration) {
    let name = handle.info().record.name;
    let text = format!("session {name} will be ended in {} s: its {limit}", left.as_secs());
    let (severity, channel) = (Severity::Warn, "session".to_owned());
    let session = Some(handle.clone());
    let alert = alerts::Alert { severity, channel, text, session, source: "timeout" };
    let host = host.clone();
    tokio::spawn(async move { alerts::raise(&host, alert).await });
}

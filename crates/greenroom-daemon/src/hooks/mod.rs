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
//! | `agent` | what an agent says of itself |
//! | `alerts`, `approvals` | what people are told, and asked |
//!
//! In: what is about to happen or has happened. Out: permission to go on, changed fields, events in
//! the log. Text gets into a payload only through egress. Deliberately absent: which plugins there
//! are, in which order they are asked, and what becomes of one that fails
//! (`greenroom_plugins::host`).

pub(crate) mod agent;
pub(crate) mod alerts;
pub(crate) mod approvals;
mod before;
mod filtering;
mod idle;
mod load;
mod pump;
pub(crate) mod submit;

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use greenroom_engine::egress::{Egress, Filtered, Filters, Raw};
use greenroom_engine::{Engine, SessionHandle, SessionId};
use greenroom_formats::manifest::Hook;
use greenroom_plugins::host::{GateOutcome, Payload, PluginHost};
use greenroom_plugins::store::Store;
use greenroom_protocol::api::notice::Severity;
use greenroom_protocol::{Fault, FaultKind};
use greenroom_workspace::chain::CleanupReport;
use greenroom_workspace::spec::{Cleanup, SessionSpec};
use greenroom_workspace::worktree;
use serde_json::{Map, Value};

pub(crate) use before::Gatekeeper;
pub(crate) use load::load;
pub(crate) use pump::begin;

use self::approvals::Approvals;
use self::submit::Typed;
use crate::settings::Settings;
use crate::store::Storage;
use crate::sync::lock;

/// Plugins from outside, and what is remembered for them.
pub(crate) struct Hooks {
    plugins: PluginHost,
    store: Arc<Store>,
    engine: Engine,
    storage: Storage,
    settings: Arc<Settings>,
    approvals: Approvals,
    typed: Typed,
    guards: alerts::Guards,
    /// Sessions somebody asked to end: their end is not a failure.
    killed: Mutex<HashSet<SessionId>>,
    /// For texts that belong to no session.
    rules: Egress,
}

impl Hooks {
    pub(crate) fn new(
        plugins: PluginHost,
        store: Arc<Store>,
        engine: Engine,
        storage: Storage,
        settings: Arc<Settings>,
    ) -> Hooks {
        Hooks {
            plugins,
            store,
            engine,
            storage,
            settings,
            approvals: Approvals::default(),
            typed: Typed::default(),
            guards: alerts::Guards::default(),
            killed: Mutex::default(),
            rules: Egress::built_in(),
        }
    }

    /// The plugins that are asked and told.
    pub(crate) fn plugins(&self) -> &PluginHost {
        &self.plugins
    }

    /// Their files, and what was agreed to.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(crate) fn approvals(&self) -> &Approvals {
        &self.approvals
    }

    /// Refuses while plugins are off.
    pub(crate) fn enabled(&self) -> Result<&Hooks, Fault> {
        if self.plugins.enabled() {
            return Ok(self);
        }
        Err(Fault::new(FaultKind::PluginsDisabled, "plugins disabled")
            .hint("set plugins.enabled = true in the configuration and restart the host with greenroom upgrade"))
    }

    /// A text for a plugin: through the session's filters, or the built-in ones.
    pub(crate) fn clean(
        &self,
        session: Option<&SessionHandle>,
        text: impl Into<String>,
    ) -> Filtered<String> {
        match session {
            Some(session) => session.filtered(text.into()),
            None => self.rules.text(Raw::new(text.into())),
        }
    }

    fn was_killed(&self, id: SessionId) -> bool {
        lock(&self.killed).contains(&id)
    }

    /// The session is gone.
    fn forget(&self, id: SessionId) {
        lock(&self.killed).remove(&id);
        self.typed.forget(id);
        self.plugins.forget(id);
    }
}

/// Who filters sessions, for the engine.
pub(crate) fn filters(plugins: &PluginHost) -> Arc<dyn Filters> {
    Arc::new(filtering::Filtering(plugins.clone()))
}

/// What plugins agreed to.
pub(crate) struct Allowed {
    /// The fields as they are then.
    pub fields: Map<String, Value>,
    /// What plugins wanted changed and may not change.
    pub refused: Vec<String>,
}

/// Asks the plugins of a gate, and a person where they leave it to one. `attempt` begins the error
/// of a refusal, such as `cannot kill s3`.
async fn ask_gate(
    hooks: &Hooks,
    hook: Hook,
    id: SessionId,
    attempt: &str,
    payload: Payload,
) -> Result<Allowed, Fault> {
    let denied = |by: &str, reason: &str| {
        Fault::new(FaultKind::PermissionDenied, format!("{attempt}: {by}: {reason}"))
            .with("plugin", by)
            .with("hook", hook.name())
            .with("reason", reason)
    };
    match hooks.plugins.gate(hook, Some(id), payload).await {
        GateOutcome::Pass { fields, refused, .. } => Ok(Allowed { fields, refused }),
        GateOutcome::Block { plugin, reason } => Err(denied(&plugin, &reason)),
        GateOutcome::Ask { plugin, reason, fields, refused, .. } => {
            let title = format!("{plugin} asks about {hook}");
            let question =
                approvals::Question { session: id, title, text: reason, source: hook.name() };
            let answer = approvals::ask(hooks, question).await;
            answer.map_err(|no| denied(&no.by, &no.reason))?;
            Ok(Allowed { fields, refused })
        }
    }
}

/// Before somebody's request ends a session.
pub(crate) async fn may_kill(
    hooks: &Hooks,
    handle: &SessionHandle,
    by: Option<String>,
    signal: Option<&str>,
) -> Result<(), Fault> {
    let id = handle.id();
    if hooks.plugins.listens(Hook::SessionBeforeKill) {
        let clean = |text: String| hooks.clean(Some(handle), text);
        let payload = Payload::new()
            .maybe("signal", signal.map(|signal| clean(signal.to_owned())))
            .maybe("by", by.map(clean));
        let attempt = format!("cannot kill {id}");
        ask_gate(hooks, Hook::SessionBeforeKill, id, &attempt, payload).await?;
    }
    lock(&hooks.killed).insert(id);
    Ok(())
}

pub(crate) struct Attaching {
    pub client: Option<String>,
    pub pid: Option<u32>,
    /// Not through the socket of this machine.
    pub remote: bool,
    pub read_only: bool,
}

/// Before a client attaches. Answers whether it may only read.
pub(crate) async fn may_attach(
    hooks: &Hooks,
    handle: &SessionHandle,
    who: Attaching,
) -> Result<bool, Fault> {
    let Attaching { client, pid, remote, read_only } = who;
    if !hooks.plugins.listens(Hook::ClientBeforeAttach) {
        return Ok(read_only);
    }
    let id = handle.id();
    let payload = Payload::new()
        .maybe("client", client.map(|name| hooks.clean(Some(handle), name)))
        .fact("pid", pid)
        .fact("remote", remote)
        .fact("read_only", read_only);
    let attempt = format!("cannot attach to {id}");
    let Allowed { fields, .. } =
        ask_gate(hooks, Hook::ClientBeforeAttach, id, &attempt, payload).await?;
    // A plugin may take the right to type away, not give it.
    Ok(read_only || fields.get("read_only") == Some(&Value::Bool(true)))
}

/// The daemon serves.
pub(crate) fn announce(
    hooks: &Hooks,
    pid: u32,
    version: &'static str,
    restart: bool,
    sessions: usize,
) {
    let payload = Payload::new()
        .fact("pid", pid)
        .fact("version", version)
        .fact("restart", restart)
        .fact("sessions", sessions as u64);
    hooks.plugins.observe(Hook::DaemonStarted, None, payload);
}

/// A plugin of the chain made a worktree for the session. Hooks do not hear of a worktree that was
/// there before.
pub(crate) fn worktree_made(hooks: &Hooks, spec: &SessionSpec) {
    let Some(git) = spec.git.as_ref().filter(|git| !git.resumed) else { return };
    let payload = Payload::new()
        .text("path", hooks.clean(None, git.worktree.display().to_string()))
        .text("branch", hooks.clean(None, git.branch.clone()));
    hooks.plugins.observe(Hook::WorktreeCreated, Some(spec.id), payload);
}

/// A plugin of the chain has cleaned up.
pub(crate) fn cleaned(plugins: &PluginHost, id: SessionId, plugin: &str, outcome: &CleanupReport) {
    if plugin == worktree::ABOUT.name
        && let Some(Cleanup::Removed { what }) = &outcome.cleanup
    {
        worktree_removed(plugins, Some(id), what);
    }
}

pub(crate) fn worktree_removed(plugins: &PluginHost, id: Option<SessionId>, path: &str) {
    let path = Egress::built_in().text(Raw::new(path.to_owned()));
    plugins.observe(Hook::WorktreeRemoved, id, Payload::new().text("path", path));
}

/// A limit of time is about to strike.
pub(crate) fn expiring(hooks: &Arc<Hooks>, handle: &SessionHandle, limit: &str, left: Duration) {
    let name = handle.info().record.name;
    let text = format!("session {name} will be ended in {} s: its {limit}", left.as_secs());
    let (severity, channel) = (Severity::Warn, "session".to_owned());
    let session = Some(handle.clone());
    let alert = alerts::Alert { severity, channel, text, session, source: "timeout" };
    alerts::raise_later(hooks, alert);
}

//! Facts of sessions and news of plugins, on their way to observers, alerts and the log.
//!
//! In: what happened, from a bounded queue. Out: `session.*` and `plugin.state` for observers,
//! alerts. One task takes them in order; what has to wait (an alert's filter, a tail of output)
//! waits in a task of its own.

use std::sync::Arc;
use std::time::SystemTime;

use greenroom_engine::egress::Filtered;
use greenroom_engine::events::{Event, Fact};
use greenroom_engine::process::ExitStatus;
use greenroom_engine::transcript;
use greenroom_engine::{AgentState, Seq, SessionHandle, SessionId};
use greenroom_formats::manifest::{Class, Hook, OnFailure};
use greenroom_plugins::host::{Failed, News, Payload, SessionFacts, State};
use greenroom_protocol::api::notice::Severity;
use greenroom_protocol::api::session::About;
use greenroom_protocol::events::{HooksDropped, PluginFailed, PluginState, SessionMasked};
use tokio::sync::mpsc;

use super::alerts::{self, Alert};
use super::{Hooks, idle};
use crate::convert;
use crate::events::{Observation, Observations, about, about_any, of_the_host};

/// So much of the output before a session's end is in `session.exited`.
const TAIL_BYTES: u64 = 2048;

/// Takes what happens from now on, and meets the sessions an earlier daemon left.
pub(crate) fn begin(
    hooks: &Arc<Hooks>,
    observations: Observations,
    incoming: mpsc::Receiver<Observation>,
) {
    for handle in hooks.engine.handles() {
        let info = handle.info();
        let facts =
            SessionFacts { id: handle.id(), labels: About::read(&info.record.about).labels };
        hooks.plugins.meet(&facts);
        if info.pid.is_some() {
            idle::watch(hooks, handle);
        }
    }
    tokio::spawn(pump(hooks.clone(), observations, incoming));
}

async fn pump(
    hooks: Arc<Hooks>,
    observations: Observations,
    mut incoming: mpsc::Receiver<Observation>,
) {
    while let Some(one) = incoming.recv().await {
        let lost = observations.lost();
        if lost > 0 {
            hooks.storage.log(of_the_host(HooksDropped { count: lost }));
        }
        match one {
            Observation::Fact(Event { session, fact }) => on_fact(&hooks, session, fact),
            Observation::News(News::State { plugin, before, after, why }) => {
                state(&hooks, &plugin, before, after, why);
            }
            Observation::News(News::Failed(failed)) => failure(&hooks, failed),
        }
    }
}

fn on_fact(hooks: &Arc<Hooks>, id: SessionId, fact: Fact) {
    let handle = hooks.engine.find(&id.to_string()).ok();
    match (fact, handle) {
        (Fact::Started { pid }, Some(handle)) => started(hooks, &handle, pid),
        (Fact::Title(title), _) => {
            let payload = Payload::new().text("title", title);
            hooks.plugins.observe(Hook::SessionTitle, Some(id), payload);
        }
        (Fact::Exited { status, seq }, Some(handle)) => {
            turned(hooks, id, AgentState::Exited, AgentState::Running);
            let hooks = hooks.clone();
            tokio::spawn(async move { exited(&hooks, &handle, status, seq).await });
        }
        (Fact::StartFailed { why }, handle) => {
            turned(hooks, id, AgentState::Failed, AgentState::Starting);
            let text = format!("session {id} did not start: {why}");
            alert(hooks, text, handle);
            hooks.forget(id);
        }
        (Fact::Removed, _) => hooks.forget(id),
        _ => {}
    }
}

fn started(hooks: &Arc<Hooks>, handle: &SessionHandle, pid: u32) {
    let (id, record) = (handle.id(), handle.info().record);
    hooks.plugins.meet(&SessionFacts { id, labels: About::read(&record.about).labels });
    let clean = |text: String| hooks.clean(Some(handle), text);
    let payload = Payload::new()
        .fact("pid", pid)
        .text("name", clean(record.name))
        .text("project_dir", clean(record.cwd.display().to_string()));
    hooks.plugins.observe(Hook::SessionStarted, Some(id), payload);
    turned(hooks, id, AgentState::Running, AgentState::Starting);
    idle::watch(hooks, handle.clone());
}

/// The state of its program; what an agent in it does is an adapter's to say.
fn turned(hooks: &Hooks, id: SessionId, state: AgentState, before: AgentState) {
    let word = |state| convert::state(state).word();
    let payload = Payload::new().fact("state", word(state)).fact("before", word(before));
    hooks.plugins.observe(Hook::SessionState, Some(id), payload);
}

async fn exited(hooks: &Arc<Hooks>, handle: &SessionHandle, status: ExitStatus, seq: Seq) {
    let (id, info) = (handle.id(), handle.info());
    let killed = hooks.was_killed(id);
    let word = match status {
        ExitStatus::Code(0) => "complete",
        _ if killed => "killed",
        _ => "failed",
    };
    if hooks.plugins.listens(Hook::SessionExited) {
        let (code, signal) = match status {
            ExitStatus::Code(code) => (Some(code), None),
            ExitStatus::Signal(signal) => (None, Some(signal)),
            ExitStatus::Unknown => (None, None),
        };
        let took = SystemTime::now().duration_since(info.record.created).unwrap_or_default();
        let payload = Payload::new()
            .fact("status", word)
            .fact("cost", None::<u64>)
            .fact("code", code)
            .fact("signal", signal)
            .fact("duration_ms", convert::millis(took))
            .text("name", hooks.clean(Some(handle), info.record.name.clone()))
            .maybe("tail", tail(handle, seq).await);
        hooks.plugins.observe(Hook::SessionExited, Some(id), payload);
    }
    if word == "failed" {
        let text = format!("session {} failed: {status}", info.record.name);
        alert(hooks, text, Some(handle.clone()));
    }
}

/// The end of its output, as its readers may see it.
async fn tail(handle: &SessionHandle, seq: Seq) -> Option<Filtered<String>> {
    let since = Seq(seq.0.saturating_sub(TAIL_BYTES));
    let page = handle.output(since, TAIL_BYTES as usize).await.ok()?;
    Some(page.bytes.map(|bytes| transcript::plain(&bytes)))
}

fn state(hooks: &Hooks, plugin: &str, before: State, after: State, why: Option<String>) {
    let clean = |text: &str| hooks.clean(None, text);
    let why = why.as_deref().map(clean);
    let event = PluginState {
        plugin: plugin.to_owned(),
        state: after.word().to_owned(),
        before: before.word().to_owned(),
        why: why.as_ref().map(|why| why.get().clone()),
    };
    hooks.storage.log(of_the_host(event));
    let payload = Payload::new()
        .text("plugin", clean(plugin))
        .fact("state", after.word())
        .fact("before", before.word())
        .maybe("why", why);
    hooks.plugins.observe(Hook::PluginState, None, payload);
}

fn failure(hooks: &Arc<Hooks>, failed: Failed) {
    let why = hooks.clean(None, failed.why.to_string()).into_inner();
    let event = PluginFailed {
        plugin: failed.plugin.clone(),
        hook: failed.hook.name().to_owned(),
        why,
        policy: failed.policy.word().to_owned(),
        gave_up: failed.gave_up,
    };
    hooks.storage.log(about_any(failed.session, event));
    masked(hooks, &failed);
    let hooks = hooks.clone();
    tokio::spawn(async move { alerts::guard_failed(&hooks, &failed).await });
}

/// A reader of the session's output sees masks, and a mark in the recording where they begin.
fn masked(hooks: &Hooks, failed: &Failed) {
    let hidden = failed.hook.hook.class() == Class::Filter && failed.policy != OnFailure::Pass;
    let Some(id) = failed.session.filter(|_| hidden) else { return };
    let policy = failed.policy.word().to_owned();
    let event = SessionMasked { plugin: failed.plugin.clone(), lines: failed.lines, policy };
    hooks.storage.log(about(id, event));
    if let Ok(handle) = hooks.engine.find(&id.to_string()) {
        let label = format!("{} did not answer: {}", failed.plugin, failed.policy);
        tokio::spawn(async move {
            // A session that has ended takes no marks.
            let _ = handle.mark(label).await;
        });
    }
}

fn alert(hooks: &Arc<Hooks>, text: String, session: Option<SessionHandle>) {
    let (severity, channel) = (Severity::Error, "session".to_owned());
    alerts::raise_later(hooks, Alert { severity, channel, text, session, source: "session" });
}

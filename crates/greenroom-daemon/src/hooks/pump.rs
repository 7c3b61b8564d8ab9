//! Facts of sessions and news of plugins, on their way to observers, alerts and the log.
//!
//! In: what happened, from a bounded queue. Out: `session.*` and `plugin.state` for observers, alerts. One task takes them
//! in order; what has to wait (an alert's filter, a tail of output) waits in a task of its own.

use std::sync::Arc;
use std::time::SystemTime;

use greenroom_engine::egress::Filtered;
use greenroom_engine::events::{Event, Fact};
use greenroom_engine::process::ExitStatus;
use greenroom_engine::transcript;
use greenroom_engine::{Seq, SessionHandle, SessionId};
use greenroom_plugins::host::{Failed, News, Payload, SessionFacts, State};
use greenroom_protocol::api::notice::Severity;
use greenroom_protocol::manifest::{Class, Hook, OnFailure};
use serde_json::json;
use tokio::sync::mpsc;

use super::alerts::{self, Alert};
use super::idle;
use super::load::{Happened, Happenings};
use crate::events::{about, of_the_host};
use crate::host::Host;

/// Of the output before a session's end, for `session.exited`.
const TAIL_BYTES: u64 = 2048;

/// Takes what happens from now on, and meets the sessions an earlier daemon left.
pub fn begin(host: &Arc<Host>, happenings: Happenings, happened: mpsc::Receiver<Happened>) {
    for handle in host.engine.handles() {
        let info = handle.info();
        let facts = SessionFacts { id: handle.id(), labels: info.record.labels };
        host.hooks.plugins.meet(&facts);
        if info.pid.is_some() {
            idle::watch(host, handle);
        }
    }
    tokio::spawn(pump(host.clone(), happenings, happened));
}

async fn pump(host: Arc<Host>, happenings: Happenings, mut happened: mpsc::Receiver<Happened>) {
    while let Some(one) = happened.recv().await {
        let lost = happenings.lost();
        if lost > 0 {
            host.storage.log(of_the_host("hooks.dropped", json!({ "count": lost })));
        }
        match one {
            Happened::Fact(Event { session, fact }) => told(&host, session, fact),
            Happened::News(News::State { plugin, before, after, why }) => {
                state(&host, &plugin, before, after, why);
            }
            Happened::News(News::Failed(failed)) => failure(&host, failed),
        }
    }
}

fn told(host: &Arc<Host>, id: SessionId, fact: Fact) {
    let handle = host.engine.find(&id.to_string()).ok();
    match (fact, handle) {
        (Fact::Started { pid }, Some(handle)) => started(host, &handle, pid),
        (Fact::Title(title), _) => {
            let payload = Payload::new().text("title", title);
            host.hooks.plugins.observe(Hook::SessionTitle, Some(id), payload);
        }
        (Fact::Exited { status, seq }, Some(handle)) => {
            turned(host, id, "exited", "running");
            let host = host.clone();
            tokio::spawn(async move { exited(&host, &handle, status, seq).await });
        }
        (Fact::StartFailed { why }, handle) => {
            turned(host, id, "failed", "starting");
            let text = format!("session {id} did not start: {why}");
            alert(host, Severity::Error, text, handle, "session");
            host.hooks.forget(id);
        }
        (Fact::Removed, _) => host.hooks.forget(id),
        _ => {}
    }
}

fn started(host: &Arc<Host>, handle: &SessionHandle, pid: u32) {
    let (id, record) = (handle.id(), handle.info().record);
    host.hooks.plugins.meet(&SessionFacts { id, labels: record.labels });
    let clean = |text: String| host.hooks.clean(Some(handle), text);
    let payload = Payload::new()
        .fact("pid", pid)
        .text("name", clean(record.name))
        .text("project_dir", clean(record.cwd.display().to_string()));
    host.hooks.plugins.observe(Hook::SessionStarted, Some(id), payload);
    turned(host, id, "running", "starting");
    idle::watch(host, handle.clone());
}

/// The state of its program; what an agent in it does is an adapter's to say.
fn turned(host: &Host, id: SessionId, state: &'static str, before: &'static str) {
    let payload = Payload::new().fact("state", state).fact("before", before);
    host.hooks.plugins.observe(Hook::SessionState, Some(id), payload);
}

async fn exited(host: &Arc<Host>, handle: &SessionHandle, status: ExitStatus, seq: Seq) {
    let (id, info) = (handle.id(), handle.info());
    let killed = host.hooks.was_killed(id);
    let word = match status {
        ExitStatus::Code(0) => "complete",
        _ if killed => "killed",
        _ => "failed",
    };
    if host.hooks.plugins.listens(Hook::SessionExited) {
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
            .fact("duration_ms", u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
            .text("name", host.hooks.clean(Some(handle), info.record.name.clone()))
            .maybe("tail", tail(handle, seq).await);
        host.hooks.plugins.observe(Hook::SessionExited, Some(id), payload);
    }
    if word == "failed" {
        let text = format!("session {} failed: {status}", info.record.name);
        alert(host, Severity::Error, text, Some(handle.clone()), "session");
    }
}

/// The end of its output, as its readers may see it.
async fn tail(handle: &SessionHandle, seq: Seq) -> Option<Filtered<String>> {
    let since = Seq(seq.0.saturating_sub(TAIL_BYTES));
    let page = handle.output(since, TAIL_BYTES as usize).await.ok()?;
    Some(page.bytes.map(|bytes| transcript::plain(&bytes)))
}

fn state(host: &Arc<Host>, plugin: &str, before: State, after: State, why: Option<String>) {
    let clean = |text: &str| host.hooks.clean(None, text);
    let why = why.as_deref().map(clean);
    let data = json!({
        "plugin": plugin, "state": after.word(), "before": before.word(),
        "why": why.as_ref().map(Filtered::get),
    });
    host.storage.log(of_the_host("plugin.state", data));
    let payload = Payload::new()
        .text("plugin", clean(plugin))
        .fact("state", after.word())
        .fact("before", before.word())
        .maybe("why", why);
    host.hooks.plugins.observe(Hook::PluginState, None, payload);
}

fn failure(host: &Arc<Host>, failed: Failed) {
    let why = host.hooks.clean(None, failed.why.to_string()).into_inner();
    let data = json!({
        "plugin": failed.plugin, "hook": failed.hook.name(), "why": why,
        "policy": failed.policy.word(), "gave_up": failed.gave_up,
    });
    host.storage.log(match failed.session {
        Some(id) => about(id, "plugin.failed", data),
        None => of_the_host("plugin.failed", data),
    });
    masked(host, &failed);
    let host = host.clone();
    tokio::spawn(async move { alerts::guard_failed(&host, &failed).await });
}

/// A reader of the session's output sees masks, and a mark in the recording where they begin.
fn masked(host: &Arc<Host>, failed: &Failed) {
    let hidden = failed.hook.hook.class() == Class::Filter && failed.policy != OnFailure::Pass;
    let Some(id) = failed.session.filter(|_| hidden) else { return };
    let data = json!({
        "plugin": failed.plugin, "lines": failed.lines, "policy": failed.policy.word(),
    });
    host.storage.log(about(id, "session.masked", data));
    if let Ok(handle) = host.engine.find(&id.to_string()) {
        let label = format!("{} did not answer: {}", failed.plugin, failed.policy);
        tokio::spawn(async move {
            // A session that has ended takes no marks.
            let _ = handle.mark(label).await;
        });
    }
}

fn alert(
    host: &Arc<Host>,
    severity: Severity,
    text: String,
    session: Option<SessionHandle>,
    source: &'static str,
) {
    let channel = "session".to_owned();
    let host = host.clone();
    tokio::spawn(async move {
        alerts::raise(&host, Alert { severity, channel, text, session, source }).await;
    });
}

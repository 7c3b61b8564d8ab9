//! Alerts: what a person should know now.
//!
//! In: a severity, a channel, a text. Out: `alert.filter` may change or drop it; then it is an event, and observers of
//! `alert.emit` are told. They come from `greenroom alert`, from sessions that fail or wait for a person, from guards that
//! fail and from limits about to strike.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use greenroom_engine::{SessionHandle, SessionId};
use greenroom_plugins::host::{Failed, GateOutcome, Payload};
use greenroom_protocol::api::notice::Severity;
use greenroom_protocol::manifest::{Class, Hook, OnFailure};
use serde_json::{Map, Value, json};

use crate::events::{about, of_the_host};
use crate::host::Host;

/// Failures of one guard that come within this long of an alert do not raise another.
const GUARD_AGAIN: Duration = Duration::from_secs(10);

/// Guards remembered for that: as many as there may be hooks of plugins in trouble.
const GUARDS_MAX: usize = 1024;

pub struct Alert {
    pub severity: Severity,
    /// Who is concerned: `session`, `plugin`, `approval`, or a word of the caller's.
    pub channel: String,
    pub text: String,
    pub session: Option<SessionHandle>,
    /// Where it comes from.
    pub source: &'static str,
}

/// What became of an alert.
pub struct Raised {
    /// The plugin that dropped it.
    pub dropped_by: Option<String>,
}

pub async fn raise(host: &Arc<Host>, alert: Alert) -> Raised {
    let session = alert.session.as_ref();
    let id = session.map(SessionHandle::id);
    let clean = |text: &str| host.hooks.clean(session, text);
    let payload = Payload::new()
        .fact("severity", alert.severity.word())
        .text("channel", clean(&alert.channel))
        .text("text", clean(&alert.text))
        .fact("source", alert.source);
    let fields = match host.hooks.plugins.gate(Hook::AlertFilter, id, payload).await {
        GateOutcome::Block { plugin, .. } => {
            log(host, id, "alert.dropped", json!({ "by": plugin, "source": alert.source }));
            return Raised { dropped_by: Some(plugin) };
        }
        GateOutcome::Pass { fields, .. } | GateOutcome::Ask { fields, .. } => fields,
    };
    let text = |name: &str| {
        let text = fields.get(name).and_then(Value::as_str).unwrap_or_default();
        clean(text)
    };
    let severity = Severity::named(fields.get("severity").and_then(Value::as_str).unwrap_or(""))
        .unwrap_or(alert.severity);
    let payload = Payload::new()
        .fact("severity", severity.word())
        .text("channel", text("channel"))
        .text("text", text("text"))
        .fact("source", alert.source);
    log(host, id, "alert.raised", Value::Object(said(&payload)));
    host.hooks.plugins.observe(Hook::AlertEmit, id, payload);
    Raised { dropped_by: None }
}

fn said(payload: &Payload) -> Map<String, Value> {
    payload.fields().clone()
}

fn log(host: &Host, id: Option<SessionId>, kind: &'static str, data: Value) {
    host.storage.log(match id {
        Some(id) => about(id, kind, data),
        None => of_the_host(kind, data),
    });
}

/// A plugin that stands between something and harm did not answer.
pub async fn guard_failed(host: &Arc<Host>, failed: &Failed) {
    let guards = failed.hook.hook.class() != Class::Observe
        && !matches!(failed.policy, OnFailure::Pass | OnFailure::Drop);
    // Alerts about alerts would come back as alerts.
    if !guards || failed.hook.hook == Hook::AlertFilter || !host.hooks.guards.due(failed) {
        return;
    }
    let session = failed.session.and_then(|id| host.engine.find(&id.to_string()).ok());
    let text = format!(
        "plugin {} failed at {}: {}; the policy is {}",
        failed.plugin, failed.hook, failed.why, failed.policy
    );
    let channel = "plugin".to_owned();
    let severity = Severity::Error;
    raise(host, Alert { severity, channel, text, session, source: "guard" }).await;
}

/// When each guard was last told of.
#[derive(Default)]
pub struct Guards(Mutex<HashMap<String, Instant>>);

impl Guards {
    /// Once in a while for each guard; giving it up always counts.
    fn due(&self, failed: &Failed) -> bool {
        let now = Instant::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.retain(|_, at| now.duration_since(*at) < GUARD_AGAIN);
        let key = format!("{} {}", failed.plugin, failed.hook);
        let fresh = !last.contains_key(&key) && last.len() < GUARDS_MAX;
        if fresh || failed.gave_up {
            last.insert(key, now);
        }
        fresh || failed.gave_up
    }
}

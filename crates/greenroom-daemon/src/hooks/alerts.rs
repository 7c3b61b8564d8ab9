//! Alerts: what a person should know now.
//!
//! In: a severity, a channel, a text. Out: `alert.filter` may change or drop it; then it is an
//! event, and observers of `alert.emit` are told. They come from `greenroom alert`, from sessions
//! that fail or wait for a person, from guards that fail and from limits about to strike.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use greenroom_engine::SessionHandle;
use greenroom_engine::egress::Filtered;
use greenroom_formats::manifest::{Class, Hook, OnFailure};
use greenroom_plugins::host::{Failed, GateOutcome, Payload};
use greenroom_protocol::api::notice::Severity;
use greenroom_protocol::events::{AlertDropped, AlertRaised};
use serde_json::Value;

use super::Hooks;
use crate::events::about_any;
use crate::sync::lock;

/// Failures of one guard that come within this long of an alert do not raise another.
const GUARD_AGAIN: Duration = Duration::from_secs(10);

/// Guards remembered for that: as many as there may be hooks of plugins in trouble.
const GUARDS_MAX: usize = 1024;

pub(crate) struct Alert {
    pub severity: Severity,
    /// Who is concerned: `session`, `plugin`, `approval`, or a word of the caller's.
    pub channel: String,
    pub text: String,
    pub session: Option<SessionHandle>,
    /// Where it comes from.
    pub source: &'static str,
}

/// Raises an alert. Answers the plugin that dropped it, if one did.
pub(crate) async fn raise(hooks: &Hooks, alert: Alert) -> Option<String> {
    let session = alert.session.as_ref();
    let id = session.map(SessionHandle::id);
    let clean = |text: &str| hooks.clean(session, text);
    let payload = |severity: Severity, channel: Filtered<String>, text: Filtered<String>| {
        Payload::new()
            .fact("severity", severity.word())
            .text("channel", channel)
            .text("text", text)
            .fact("source", alert.source)
    };
    let asked = payload(alert.severity, clean(&alert.channel), clean(&alert.text));
    let fields = match hooks.plugins.gate(Hook::AlertFilter, id, asked).await {
        GateOutcome::Block { plugin, .. } => {
            let event = AlertDropped { by: plugin.clone(), source: alert.source.to_owned() };
            hooks.storage.log(about_any(id, event));
            return Some(plugin);
        }
        GateOutcome::Pass { fields, .. } | GateOutcome::Ask { fields, .. } => fields,
    };
    let field = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let severity = Severity::named(field("severity")).unwrap_or(alert.severity);
    let (channel, text) = (clean(field("channel")), clean(field("text")));
    let event = AlertRaised {
        severity: severity.word().to_owned(),
        channel: channel.get().clone(),
        text: text.get().clone(),
        source: alert.source.to_owned(),
    };
    hooks.storage.log(about_any(id, event));
    hooks.plugins.observe(Hook::AlertEmit, id, payload(severity, channel, text));
    None
}

/// The same, in a task of its own: plugins may take their time.
pub(crate) fn raise_later(hooks: &Arc<Hooks>, alert: Alert) {
    let hooks = hooks.clone();
    tokio::spawn(async move { raise(&hooks, alert).await });
}

/// A plugin that stands between something and harm did not answer.
pub(crate) async fn guard_failed(hooks: &Hooks, failed: &Failed) {
    let guards = failed.hook.hook.class() != Class::Observe
        && !matches!(failed.policy, OnFailure::Pass | OnFailure::Drop);
    // Alerts about alerts would come back as alerts.
    if !guards || failed.hook.hook == Hook::AlertFilter || !hooks.guards.due(failed) {
        return;
    }
    let session = failed.session.and_then(|id| hooks.engine.find(&id.to_string()).ok());
    let text = format!(
        "plugin {} failed at {}: {}; the policy is {}",
        failed.plugin, failed.hook, failed.why, failed.policy
    );
    let channel = "plugin".to_owned();
    let severity = Severity::Error;
    raise(hooks, Alert { severity, channel, text, session, source: "guard" }).await;
}

/// When each guard was last told of.
#[derive(Default)]
pub(crate) struct Guards(Mutex<HashMap<String, Instant>>);

impl Guards {
    /// Once in a while for each guard; giving it up always counts.
    fn due(&self, failed: &Failed) -> bool {
        let now = Instant::now();
        let mut last = lock(&self.0);
        last.retain(|_, at| now.duration_since(*at) < GUARD_AGAIN);
        let key = format!("{} {}", failed.plugin, failed.hook);
        let fresh = !last.contains_key(&key) && last.len() < GUARDS_MAX;
        if fresh || failed.gave_up {
            last.insert(key, now);
        }
        fresh || failed.gave_up
    }
}

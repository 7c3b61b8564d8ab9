//! `session.before` as a link of the session's chain: after worktree, scratchpad and variables, before the sandbox.
//!
//! In: the session to be. Out: the same, with what plugins changed: `project_dir` is where it starts; task, backend and
//! effort also reach the session as `GREENROOM_TASK` and so on; `env` and `labels` by name. A block is a refusal.
//! Deliberately absent: values of variables. Plugins are not told them.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};

use greenroom_engine::egress::Filtered;
use greenroom_plugins::host::{Payload, SessionFacts};
use greenroom_plugins::spec::{
    Cleanup, CleanupError, PluginState, Refusal, SessionEnd, SessionPlugin, SessionSpec, Wait,
    order,
};
use greenroom_protocol::manifest::Hook;
use serde_json::{Map, Value, json};

use super::{Leave, Wish, leave};
use crate::host::Host;

/// Its name in lists of plugins.
const NAME: &str = "hooks";

/// The chain is made before the host is; it meets it later.
#[derive(Clone, Default)]
pub struct Gatekeeper(Arc<OnceLock<Weak<Host>>>);

impl Gatekeeper {
    pub fn meet(&self, host: &Arc<Host>) {
        let _ = self.0.set(Arc::downgrade(host));
    }

    fn host(&self) -> Option<Arc<Host>> {
        self.0.get()?.upgrade()
    }

    async fn ask(&self, spec: &mut SessionSpec) -> Result<(), Refusal> {
        let Some(host) = self.host() else { return Ok(()) };
        let labels = spec.base.labels.clone();
        host.hooks.plugins.meet(&SessionFacts { id: spec.id, labels });
        let payload = payload(&host, spec);
        let wish = Wish { hook: Hook::SessionBefore, session: Some(spec.id), attempt: "" };
        let asked = payload.fields().clone();
        let Leave { fields, refused } = leave(&host, wish, payload).await.map_err(|fault| {
            let text = |name: &str| {
                fault.data.more.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let hint = format!("greenroom plugin order {}", Hook::SessionBefore);
            Refusal { plugin: text("plugin"), what: text("reason"), hint: Some(hint), denied: true }
        })?;
        apply(spec, &asked, &fields);
        for what in refused {
            spec.note(format!("not done: {what}"));
        }
        let labels = spec.base.labels.clone();
        host.hooks.plugins.meet(&SessionFacts { id: spec.id, labels });
        Ok(())
    }
}

impl SessionPlugin for Gatekeeper {
    fn name(&self) -> &str {
        NAME
    }

    fn order(&self) -> u16 {
        order::OTHERS
    }

    fn durable(&self) -> bool {
        false
    }

    fn wanted(&self, _spec: &SessionSpec) -> bool {
        self.host().is_some_and(|host| host.hooks.plugins.listens(Hook::SessionBefore))
    }

    fn before_session<'a>(
        &'a self,
        spec: &'a mut SessionSpec,
        _state: &'a mut PluginState,
    ) -> Wait<'a, Result<(), Refusal>> {
        Box::pin(self.ask(spec))
    }

    fn after_session<'a>(
        &'a self,
        _end: &'a SessionEnd,
        _state: &'a PluginState,
    ) -> Wait<'a, Result<Cleanup, CleanupError>> {
        Box::pin(std::future::ready(Ok(Cleanup::Nothing)))
    }

    fn dry_run<'a>(&'a self, spec: &'a mut SessionSpec) -> Wait<'a, Result<(), Refusal>> {
        spec.note("plugins at session.before are not asked in a dry run");
        Box::pin(std::future::ready(Ok(())))
    }
}

fn payload(host: &Host, spec: &SessionSpec) -> Payload {
    let clean = |text: String| -> Filtered<String> { host.hooks.clean(None, text) };
    let command = spec.base.argv.iter().map(|word| clean(word.to_string_lossy().into_owned()));
    let labels: Map<String, Value> =
        spec.base.labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let confined = spec.ask.sandbox.is_some() || spec.base.confinement.is_some();
    Payload::new()
        .confined(confined)
        .maybe("task", spec.base.task.clone().map(clean))
        .text("project_dir", clean(spec.base.cwd.display().to_string()))
        .maybe("backend", spec.backend.clone().map(clean))
        .maybe("effort", spec.effort.clone().map(clean))
        .maybe("name", spec.base.name.clone().map(clean))
        .texts("command", command)
        .json("labels", Value::Object(labels), &clean)
}

/// Takes over what a plugin changed, and nothing that only egress changed on the way out.
fn apply(spec: &mut SessionSpec, asked: &Map<String, Value>, fields: &Map<String, Value>) {
    let changed = |name: &str| {
        let value = fields.get(name).filter(|value| asked.get(name) != Some(*value));
        value.and_then(Value::as_str).map(str::to_owned)
    };
    if let Some(dir) = changed("project_dir") {
        spec.base.cwd = PathBuf::from(dir);
    }
    if let Some(task) = changed("task") {
        spec.base.task = Some(task);
    }
    if let Some(backend) = changed("backend") {
        spec.backend = Some(backend);
    }
    if let Some(effort) = changed("effort") {
        spec.effort = Some(effort);
    }
    let said = [
        ("GREENROOM_TASK", spec.base.task.clone()),
        ("GREENROOM_BACKEND", spec.backend.clone()),
        ("GREENROOM_EFFORT", spec.effort.clone()),
    ];
    for (name, value) in said {
        if let Some(value) = value {
            spec.set_env(name, value);
        }
    }
    if let Some(Value::Object(env)) = fields.get("env") {
        for (name, value) in env {
            match value.as_str() {
                Some(value) => spec.set_env(name, value),
                None => spec.unset_env(name),
            }
        }
    }
    if let Some(Value::Object(labels)) = fields.get("labels") {
        let before = asked.get("labels").and_then(Value::as_object);
        for (name, value) in labels {
            let same = before.is_some_and(|before| before.get(name) == Some(value));
            if let Some(value) = value.as_str().filter(|_| !same) {
                spec.base.labels.insert(name.clone(), value.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use greenroom_engine::SessionId;
    use greenroom_plugins::spec::Ask;

    use super::*;

    fn spec() -> SessionSpec {
        let base = greenroom_engine::SessionSpec {
            name: None,
            named_after: None,
            argv: vec!["sh".into()],
            cwd: "/old".into(),
            env: [("GONE".into(), "x".into())].into(),
            size: greenroom_engine::term::Size::new(80, 24).unwrap(),
            labels: [("kept".to_owned(), "sk-raw".to_owned())].into(),
            task: Some("with sk-secret".to_owned()),
            backend: None,
            effort: None,
            hidden: Vec::new(),
            confinement: None,
        };
        SessionSpec::new(SessionId(1), base, Ask::default())
    }

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn what_plugins_changed_is_taken_over() {
        let asked =
            json!({ "task": "with *********", "project_dir": "/old", "labels": { "kept": "***" } });
        let mut fields = asked.clone();
        fields["project_dir"] = json!("/new");
        fields["effort"] = json!("thorough");
        fields["env"] = json!({ "ADDED": "1", "GONE": null });
        fields["labels"]["team"] = json!("red");
        let mut spec = spec();
        apply(&mut spec, &map(asked), &map(fields));
        assert_eq!(spec.base.cwd, PathBuf::from("/new"));
        // Masked on the way out, not on the way in.
        assert_eq!(spec.base.task.as_deref(), Some("with sk-secret"));
        assert_eq!(spec.base.labels["kept"], "sk-raw");
        assert_eq!(spec.base.labels["team"], "red");
        let env = |name: &str| spec.env(name).map(|value| value.to_string_lossy().into_owned());
        assert_eq!(env("GREENROOM_EFFORT").as_deref(), Some("thorough"));
        assert_eq!(env("GREENROOM_TASK").as_deref(), Some("with sk-secret"));
        assert_eq!((env("ADDED").as_deref(), env("GONE")), (Some("1"), None));
    }
}

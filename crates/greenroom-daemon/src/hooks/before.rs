//! `session.before` as a link of the session's chain: after worktree, scratchpad and variables,
//! before the sandbox.
//!
//! In: the session to be. Out: the same, with what plugins changed: `project_dir` is where it
//! starts; task, backend and effort also reach the session as `GREENROOM_TASK` and so on; `env` and
//! `labels` by name. A block is a refusal. Deliberately absent: values of variables. Plugins are
//! not told them.

use std::path::PathBuf;
use std::sync::Arc;

use greenroom_engine::egress::Filtered;
use greenroom_formats::manifest::Hook;
use greenroom_plugins::host::{Payload, SessionFacts};
use greenroom_workspace::spec::{
    Description, PluginState, Preparing, Refusal, SessionPlugin, SessionSpec,
};
use serde_json::{Map, Value, json};

use super::{Allowed, Hooks, ask_gate};

const ABOUT: Description =
    Description { name: "hooks", summary: None, asks: &[], order: 500, durable: false };

/// Plugins at `session.before`, as a link of the chain.
#[derive(Clone)]
pub(crate) struct Gatekeeper(Arc<Hooks>);

impl Gatekeeper {
    pub(crate) fn new(hooks: &Arc<Hooks>) -> Gatekeeper {
        Gatekeeper(hooks.clone())
    }

    async fn ask(&self, spec: &mut SessionSpec) -> Result<(), Refusal> {
        let hooks = &self.0;
        let labels = spec.about.labels.clone();
        hooks.plugins.meet(&SessionFacts { id: spec.id, labels });
        let payload = payload(hooks, spec);
        let asked = payload.fields().clone();
        let answer = ask_gate(hooks, Hook::SessionBefore, spec.id, "", payload).await;
        let Allowed { fields, refused } = answer.map_err(|fault| {
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
        let labels = spec.about.labels.clone();
        hooks.plugins.meet(&SessionFacts { id: spec.id, labels });
        Ok(())
    }
}

impl SessionPlugin for Gatekeeper {
    fn about(&self) -> &Description {
        &ABOUT
    }

    fn wanted(&self, _spec: &SessionSpec) -> bool {
        self.0.plugins.listens(Hook::SessionBefore)
    }

    fn before_session<'a>(
        &'a self,
        spec: &'a mut SessionSpec,
        _state: &'a mut PluginState,
    ) -> Preparing<'a> {
        Box::pin(self.ask(spec))
    }

    fn dry_run<'a>(&'a self, spec: &'a mut SessionSpec) -> Preparing<'a> {
        spec.note("plugins at session.before are not asked in a dry run");
        Box::pin(std::future::ready(Ok(())))
    }
}

fn payload(hooks: &Hooks, spec: &SessionSpec) -> Payload {
    let clean = |text: String| -> Filtered<String> { hooks.clean(None, text) };
    let command = spec.base.argv.iter().map(|word| clean(word.to_string_lossy().into_owned()));
    let labels: Map<String, Value> =
        spec.about.labels.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let confined = spec.ask.sandbox.yes().is_some() || spec.base.confinement.is_some();
    Payload::new()
        .confined(confined)
        .maybe("task", spec.about.task.clone().map(clean))
        .text("project_dir", clean(spec.base.cwd.display().to_string()))
        .maybe("backend", spec.about.backend.clone().map(clean))
        .maybe("effort", spec.about.effort.clone().map(clean))
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
    let said = [
        ("task", "GREENROOM_TASK", &mut spec.about.task),
        ("backend", "GREENROOM_BACKEND", &mut spec.about.backend),
        ("effort", "GREENROOM_EFFORT", &mut spec.about.effort),
    ];
    let said = said.map(|(name, variable, value)| {
        *value = changed(name).or(value.take());
        (variable, value.clone())
    });
    for (variable, value) in said {
        if let Some(value) = value {
            spec.set_env(variable, value);
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
                spec.about.labels.insert(name.clone(), value.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use greenroom_engine::SessionId;
    use greenroom_protocol::api::ask::SessionAsk;

    use super::*;

    fn spec() -> SessionSpec {
        let size = greenroom_engine::term::Size::new(80, 24).unwrap();
        let base = greenroom_engine::SessionSpec {
            env: [("GONE".into(), "x".into())].into(),
            about: json!({ "labels": { "kept": "sk-raw" }, "task": "with sk-secret" }).to_string(),
            ..greenroom_engine::SessionSpec::new(vec!["sh".into()], "/old".into(), size)
        };
        SessionSpec::new(SessionId(1), base, SessionAsk::default())
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
        assert_eq!(spec.about.task.as_deref(), Some("with sk-secret"));
        assert_eq!(spec.about.labels["kept"], "sk-raw");
        assert_eq!(spec.about.labels["team"], "red");
        let env = |name: &str| spec.env(name).map(|value| value.to_string_lossy().into_owned());
        assert_eq!(env("GREENROOM_EFFORT").as_deref(), Some("thorough"));
        assert_eq!(env("GREENROOM_TASK").as_deref(), Some("with sk-secret"));
        assert_eq!((env("ADDED").as_deref(), env("GONE")), (Some("1"), None));
    }
}

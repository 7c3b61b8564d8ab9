//! What each hook tells, and which answers it knows: the second half of the table of hooks.
//!
//! In: an answer. Out: a [`Decision`], or the failure that it is none: a verdict this hook does not
//! know, a field nobody may change, a value of the wrong kind. `docs/hooks-reference.md` is held to
//! this table by a test. Deliberately absent: order, deadlines, and what a failure means.

use std::time::Duration;

use greenroom_formats::manifest::{Class, Hook, HookName};
use serde_json::{Map, Value};

use crate::runtime::verdict::{malformed, shown};
use crate::runtime::{Action, CallFailure, Reply};

/// A text a plugin may set. As long as a task may be.
const TEXT_MAX: usize = 64 * 1024;
/// Variables or labels one answer may set.
const ENTRIES_MAX: usize = 64;
/// Name or value of one of them.
const ENTRY_MAX: usize = 32 * 1024;

/// What may be said of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// Absolute.
    Path,
    Flag,
    /// Names to texts; null takes a name away.
    Env,
    /// Names to texts.
    Labels,
    /// `info`, `warn` or `error`.
    Severity,
}

impl Kind {
    fn holds(self, value: &Value) -> bool {
        let text = |value: &Value, max: usize| {
            value.as_str().is_some_and(|text| text.len() <= max && !text.contains('\0'))
        };
        let entries = |gone: bool| {
            value.as_object().is_some_and(|entries| {
                entries.len() <= ENTRIES_MAX
                    && entries.iter().all(|(name, value)| {
                        let named = !name.is_empty()
                            && name.len() <= ENTRY_MAX
                            && !name.contains(['=', '\0']);
                        named && ((gone && value.is_null()) || text(value, ENTRY_MAX))
                    })
            })
        };
        match self {
            Kind::Text => text(value, TEXT_MAX),
            Kind::Path => text(value, 4096) && value.as_str().is_some_and(|p| p.starts_with('/')),
            Kind::Flag => value.is_boolean(),
            Kind::Env => entries(true),
            Kind::Labels => entries(false),
            Kind::Severity => matches!(value.as_str(), Some("info" | "warn" | "error")),
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Path => "absolute path",
            Kind::Flag => "true or false",
            Kind::Env => "object of texts, null removes",
            Kind::Labels => "object of texts",
            Kind::Severity => "info, warn or error",
        }
    }
}

/// One row of the table of shapes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub hook: Hook,
    /// How long all plugins of the hook may take together.
    pub budget: Duration,
    /// The words `action` may have.
    pub verdicts: &'static [&'static str],
    /// What `mutate` may change.
    pub fields: &'static [(&'static str, Kind)],
    /// What is in the payload, for the reference.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test holds the reference to it"))]
    pub payload: &'static [&'static str],
    /// What datawatch's plugins are told of it.
    pub datawatch: &'static [&'static str],
}

/// An observer's row: it may say `pass`, which changes nothing. The other rows begin with it.
const fn observer(hook: Hook, payload: &'static [&'static str]) -> Shape {
    let budget = Duration::from_secs(2);
    Shape { hook, budget, verdicts: &["pass"], fields: &[], payload, datawatch: &[] }
}

/// Every hook, in the order of [`Hook`].
pub(super) const SHAPES: &[Shape] = &[
    Shape {
        hook: Hook::SessionBefore,
        budget: Duration::from_secs(30),
        verdicts: &["pass", "mutate", "block", "ask"],
        fields: &[
            ("task", Kind::Text),
            ("project_dir", Kind::Path),
            ("backend", Kind::Text),
            ("effort", Kind::Text),
            ("env", Kind::Env),
            ("labels", Kind::Labels),
        ],
        payload: &["task", "project_dir", "backend", "effort", "name", "command", "labels"],
        datawatch: &["task", "project_dir", "backend", "effort"],
    },
    observer(Hook::SessionStarted, &["pid", "name", "project_dir"]),
    Shape {
        budget: Duration::from_millis(500),
        verdicts: &["pass", "replace", "drop"],
        datawatch: &["line"],
        ..observer(Hook::OutputFilter, &["offset", "unit", "partial"])
    },
    Shape {
        budget: Duration::from_secs(5),
        verdicts: &["pass", "mutate", "block", "ask"],
        fields: &[("text", Kind::Text)],
        ..observer(Hook::InputSubmit, &["text", "client"])
    },
    observer(Hook::SessionState, &["state", "before"]),
    observer(Hook::SessionIdle, &["idle_ms", "sequence"]),
    observer(Hook::SessionTitle, &["title"]),
    Shape {
        budget: Duration::from_secs(3),
        verdicts: &["pass", "block"],
        ..observer(Hook::SessionBeforeKill, &["signal", "by"])
    },
    Shape {
        payload: &["status", "cost", "code", "signal", "duration_ms", "name", "tail"],
        datawatch: &["status", "cost"],
        ..observer(Hook::SessionExited, &[])
    },
    Shape {
        budget: Duration::from_secs(5),
        verdicts: &["pass", "mutate", "block"],
        fields: &[("read_only", Kind::Flag)],
        ..observer(Hook::ClientBeforeAttach, &["client", "pid", "read_only", "remote"])
    },
    observer(Hook::AgentEvent, &["agent", "event", "data"]),
    Shape {
        budget: Duration::from_secs(10),
        verdicts: &["pass", "allow", "deny", "block", "ask"],
        ..observer(Hook::ApprovalRequest, &["approval", "title", "text", "source"])
    },
    Shape {
        budget: Duration::from_secs(3),
        verdicts: &["pass", "mutate", "drop", "block"],
        fields: &[("severity", Kind::Severity), ("channel", Kind::Text), ("text", Kind::Text)],
        ..observer(Hook::AlertFilter, &["severity", "channel", "text", "source"])
    },
    Shape {
        datawatch: &["severity", "channel", "text"],
        ..observer(Hook::AlertEmit, &["severity", "channel", "text", "source"])
    },
    observer(Hook::WorktreeCreated, &["path", "branch"]),
    observer(Hook::WorktreeRemoved, &["path"]),
    observer(Hook::PluginState, &["plugin", "state", "before", "why"]),
    observer(Hook::DaemonStarted, &["pid", "version", "restart", "sessions"]),
];

impl Shape {
    pub(super) fn of(hook: Hook) -> &'static Shape {
        &SHAPES[hook as usize]
    }
}

/// What an answer comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// No opinion, or none that matters.
    Pass,
    /// Yes, where that is more than no opinion.
    Allow,
    Change(Map<String, Value>),
    Block(String),
    Ask(String),
    Replace(String),
    Drop,
}

impl Decision {
    pub fn word(&self) -> &'static str {
        match self {
            Decision::Pass => "pass",
            Decision::Allow => "allow",
            Decision::Change(_) => "mutate",
            Decision::Block(_) => "block",
            Decision::Ask(_) => "ask",
            Decision::Replace(_) => "replace",
            Decision::Drop => "drop",
        }
    }
}

/// Reads an answer to one hook.
pub(super) fn decide(hook: HookName, reply: &Reply) -> Result<Decision, CallFailure> {
    let shape = Shape::of(hook.hook);
    let verdict = reply.verdict()?;
    if hook.hook.class() == Class::Observe {
        return Ok(Decision::Pass);
    }
    let word = match (&reply.veto, reply.answer.get("action").and_then(Value::as_str)) {
        (Some(_), _) => "block",
        (None, Some(word)) if !word.is_empty() => word,
        // datawatch's plugins may leave it out; so may a filter that lets a line pass.
        (None, _) if hook.datawatch || hook.hook.class() == Class::Filter => "pass",
        (None, _) => return Err(malformed("a gate's answer needs an `action`")),
    };
    if !shape.verdicts.contains(&word) {
        return Err(CallFailure::UnknownAction(shown(word)));
    }
    Ok(match verdict.action {
        Action::Pass if word == "allow" => Decision::Allow,
        Action::Pass => Decision::Pass,
        Action::Mutate => Decision::Change(checked(shape, verdict.fields)?),
        Action::Block => Decision::Block(verdict.reason),
        Action::Ask => Decision::Ask(verdict.reason),
        Action::Drop if hook.hook.class() == Class::Gate => Decision::Block(verdict.reason),
        Action::Drop => Decision::Drop,
        Action::Replace => match verdict.line {
            Some(line) => Decision::Replace(line),
            None => return Err(malformed("`replace` needs a `line`")),
        },
        Action::Defer | Action::EndSession => {
            return Err(CallFailure::UnknownAction(word.to_owned()));
        }
    })
}

fn checked(shape: &Shape, fields: Map<String, Value>) -> Result<Map<String, Value>, CallFailure> {
    for (name, value) in &fields {
        let Some((_, kind)) = shape.fields.iter().find(|(known, _)| known == name) else {
            let name = shown(name);
            return Err(malformed(&format!("`{name}` is not a field of {}", shape.hook)));
        };
        if !kind.holds(value) {
            return Err(malformed(&format!("`{name}` must be: {}", kind.word())));
        }
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use greenroom_formats::manifest::HOOKS;
    use serde_json::json;

    use super::*;

    fn reply(answer: Value) -> Reply {
        let answer = answer.as_object().cloned().unwrap_or_default();
        Reply { answer, veto: None, stderr: String::new(), took: Duration::ZERO }
    }

    fn native(hook: Hook, answer: Value) -> Result<Decision, CallFailure> {
        decide(HookName { hook, datawatch: false }, &reply(answer))
    }

    #[test]
    fn the_table_is_complete_and_in_order() {
        assert_eq!(SHAPES.len(), HOOKS.len());
        for (shape, row) in SHAPES.iter().zip(HOOKS) {
            assert_eq!(shape.hook, row.hook);
            assert!(shape.budget >= row.deadline, "{}", row.name);
            assert_eq!(shape.verdicts.contains(&"mutate"), !shape.fields.is_empty());
            assert_eq!(row.datawatch.is_some(), !shape.datawatch.is_empty(), "{}", row.name);
            let known = |word: &&str| *word == "line" || shape.payload.contains(word);
            assert!(shape.datawatch.iter().all(known), "{}", row.name);
        }
    }

    #[test]
    fn a_verdict_the_hook_does_not_know_is_a_failure() {
        for row in HOOKS.iter().filter(|row| row.class != Class::Observe) {
            for word in
                ["redcat", "PASS", "end_session", "defer", "replace", "drop", "ask", "allow"]
            {
                if Shape::of(row.hook).verdicts.contains(&word) {
                    continue;
                }
                let answer = json!({ "action": word, "line": "x" });
                let decided = native(row.hook, answer);
                assert!(
                    matches!(decided, Err(CallFailure::UnknownAction(_))),
                    "{} {word}: {decided:?}",
                    row.name
                );
            }
        }
    }

    #[test]
    fn a_gate_wants_a_word_and_datawatch_does_not() {
        let silent = native(Hook::SessionBefore, json!({ "ok": true }));
        assert!(matches!(silent, Err(CallFailure::Malformed { .. })));
        let datawatch = HookName { hook: Hook::SessionBefore, datawatch: true };
        assert_eq!(decide(datawatch, &reply(json!({}))), Ok(Decision::Pass));
        assert_eq!(decide(datawatch, &reply(json!({ "action": "" }))), Ok(Decision::Pass));
        assert_eq!(native(Hook::OutputFilter, json!({})), Ok(Decision::Pass));
    }

    #[test]
    fn only_known_fields_of_the_right_kind_are_changed() {
        let change = |fields: Value| {
            native(Hook::SessionBefore, json!({ "action": "mutate", "fields": fields }))
        };
        let good = json!({ "task": "t", "project_dir": "/p", "env": { "A": "b", "C": null } });
        assert_eq!(change(good.clone()), Ok(Decision::Change(good.as_object().unwrap().clone())));
        for bad in [
            json!({ "tsak": "t" }),
            json!({ "task": 1 }),
            json!({ "project_dir": "relative" }),
            json!({ "env": { "A=B": "c" } }),
            json!({ "env": { "A": 1 } }),
            json!({ "labels": { "a": null } }),
            json!({ "task": "nul\0" }),
        ] {
            assert!(matches!(change(bad.clone()), Err(CallFailure::Malformed { .. })), "{bad}");
        }
        let severity = json!({ "action": "mutate", "fields": { "severity": "fatal" } });
        assert!(native(Hook::AlertFilter, severity).is_err());
    }

    #[test]
    fn an_exit_code_can_veto_a_gate_and_not_a_filter() {
        let veto = Reply { veto: Some("no\n".to_owned()), ..reply(json!({})) };
        let gate = HookName { hook: Hook::InputSubmit, datawatch: false };
        assert_eq!(decide(gate, &veto), Ok(Decision::Block("no".to_owned())));
        let filter = HookName { hook: Hook::OutputFilter, datawatch: false };
        assert!(decide(filter, &veto).is_err());
    }

    #[test]
    fn approval_tells_yes_from_no_opinion() {
        let say = |word: &str| native(Hook::ApprovalRequest, json!({ "action": word }));
        assert_eq!(say("pass"), Ok(Decision::Pass));
        assert_eq!(say("allow"), Ok(Decision::Allow));
        assert_eq!(say("deny"), Ok(Decision::Block(String::new())));
    }
}

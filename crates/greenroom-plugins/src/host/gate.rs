//! Gates: plugins are asked one after the other before something happens.
//!
//! In: a hook and its payload. Out: go on (with what was changed), do not, or ask a person. The first who blocks ends it;
//! each sees what those before it changed. All of them share one budget of time.

use std::time::Instant;

use greenroom_engine::SessionId;
use greenroom_protocol::manifest::{Hook, OnFailure};
use serde_json::{Map, Value, json};

use super::ask::{NoAnswer, Question, caller};
use super::core::Core;
use super::facts::{Changed, GateOutcome};
use super::payload::Payload;
use super::request::request;
use super::shape::{Decision, Shape, decide};
use super::starts::{self, Start};
use crate::runtime::{CallFailure, Reply};

impl Core {
    pub(super) async fn gate(
        &self,
        hook: Hook,
        session: Option<SessionId>,
        payload: Payload,
    ) -> GateOutcome {
        let began = Instant::now();
        let budget = Shape::of(hook).budget;
        let registry = self.registry();
        let confined = payload.is_confined();
        let mut fields = payload.into_fields();
        let mut changed = Vec::new();
        let mut refused = Vec::new();
        // Whoever comes after the one who asks may still block.
        let mut asks: Option<(String, String)> = None;
        for (plugin, entry) in registry.asked(hook) {
            if !self.concerns(entry, session) {
                continue;
            }
            let limit = budget.saturating_sub(began.elapsed());
            let question = Question { plugin, entry, session, limit, lines: 0 };
            let decision = match self.gates.try_acquire() {
                Ok(_turn) => {
                    let (name, told) = (entry.hook, &fields);
                    let call =
                        caller(session, move |deadline| request(name, session, deadline, told, 0));
                    let grants = &plugin.found.grants;
                    let start = Start { told: &fields, grants, confined };
                    let read = |reply: &Reply| starts::checked(name, &start, decide(name, reply)?);
                    let decision = self.ask(&question, call, read).await;
                    if let Err(NoAnswer::Failed(failure @ CallFailure::NotAllowed(_))) = &decision {
                        refused.push(format!("plugin {} {failure}", plugin.name));
                    }
                    decision.map_err(|none| none.reason(&plugin.name))
                }
                Err(_) => Err(format!("too many calls are under way for plugin {}", plugin.name)),
            };
            match decision {
                Ok(decision) => {
                    let names = names(&decision);
                    self.audited(&question, decision.word(), json!({ "fields": names }));
                    match decision {
                        Decision::Pass | Decision::Replace(_) => {}
                        // One that was asked before to have a person decide is not overruled.
                        Decision::Allow if asks.is_some() => {}
                        Decision::Allow => {
                            let allowed_by = Some(plugin.name.clone());
                            return GateOutcome::Pass { fields, changed, refused, allowed_by };
                        }
                        Decision::Change(new) => {
                            apply(&mut fields, new);
                            changed.push(Changed { plugin: plugin.name.clone(), fields: names });
                        }
                        Decision::Block(reason) => return blocked(&plugin.name, reason),
                        Decision::Drop => return blocked(&plugin.name, String::new()),
                        Decision::Ask(reason) => {
                            asks.get_or_insert((plugin.name.clone(), reason));
                        }
                    }
                }
                Err(reason) => match entry.policy {
                    OnFailure::Block => return blocked(&plugin.name, reason),
                    OnFailure::Ask => {
                        asks.get_or_insert((plugin.name.clone(), reason));
                    }
                    _ => {}
                },
            }
        }
        match asks {
            Some((plugin, reason)) => GateOutcome::Ask { plugin, reason, fields, changed, refused },
            None => GateOutcome::Pass { fields, changed, refused, allowed_by: None },
        }
    }
}

fn blocked(plugin: &str, reason: String) -> GateOutcome {
    let reason = match reason.is_empty() {
        true => "it gave no reason".to_owned(),
        false => reason,
    };
    GateOutcome::Block { plugin: plugin.to_owned(), reason }
}

fn names(decision: &Decision) -> Vec<String> {
    match decision {
        Decision::Change(fields) => fields.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

/// Objects are merged name by name, everything else replaced.
fn apply(fields: &mut Map<String, Value>, new: Map<String, Value>) {
    for (name, value) in new {
        match (fields.get_mut(&name), value) {
            (Some(Value::Object(old)), Value::Object(new)) => old.extend(new),
            (_, value) => drop(fields.insert(name, value)),
        }
    }
}

//! Gates: plugins are asked one after the other before something happens.
//!
//! In: a hook and its payload. Out: go on (with what was changed), do not, or ask a person. The
//! first who blocks ends it; each sees what those before it changed. All of them share one budget
//! of time.

use std::time::Instant;

use greenroom_engine::SessionId;
use greenroom_formats::manifest::{Hook, OnFailure};
use serde_json::{Map, Value};

use super::PluginHost;
use super::ask::{NoAnswer, Question};
use super::facts::{Changed, GateOutcome};
use super::payload::Payload;
use super::request::request;
use super::shape::{Decision, Shape, decide};
use super::starts::{self, Start};
use crate::runtime::{CallFailure, Reply};

impl PluginHost {
    /// Asks all plugins of a gate.
    pub async fn gate(
        &self,
        hook: Hook,
        session: Option<SessionId>,
        payload: Payload,
    ) -> GateOutcome {
        let core = &self.core;
        let began = Instant::now();
        let budget = Shape::of(hook).budget;
        let registry = core.registry();
        let confined = payload.is_confined();
        let mut fields = payload.into_fields();
        let mut changed = Vec::new();
        let mut refused = Vec::new();
        // A plugin after the one that asks may still block.
        let mut asks: Option<(String, String)> = None;
        for (plugin, entry) in registry.asked(hook) {
            if !core.concerns(entry, session) {
                continue;
            }
            let limit = budget.saturating_sub(began.elapsed());
            let question = Question::new(plugin, entry, session, limit);
            let decision = match core.gates.try_acquire() {
                Ok(_permit) => {
                    let name = entry.hook;
                    let asked = |deadline| request(name, session, deadline, &fields, 0);
                    let start = Start { told: &fields, grants: &plugin.found.grants, confined };
                    let read = |reply: &Reply| starts::checked(name, &start, decide(name, reply)?);
                    let decision = core.ask(&question, asked, read).await;
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
                    core.audited(&question, decision.word(), &names);
                    match decision {
                        Decision::Pass | Decision::Replace(_) => {}
                        // An earlier plugin wants a person to decide; a later one does not overrule
                        // it.
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
    let reason = if reason.is_empty() { "it gave no reason".to_owned() } else { reason };
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

//! Approvals: a plugin wants a person to decide.
//!
//! In: a question. Out: yes or no. Plugins at `approval.request` are asked first; what they leave open is an event and an
//! alert, and waits for `approval.resolve`. Nobody waits for ever: after a while the answer is no. A question whose asker
//! goes away is withdrawn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use greenroom_engine::SessionId;
use greenroom_plugins::host::{GateOutcome, Payload};
use greenroom_protocol::api::notice::{Approval, ApprovalState, Severity};
use greenroom_protocol::manifest::Hook;
use greenroom_protocol::{Fault, FaultKind, Timestamp};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::alerts::{self, Alert};
use crate::events::{about, of_the_host};
use crate::host::Host;

/// Questions open at once; more are answered no.
const OPEN_MAX: usize = 256;
/// Decided ones that are still listed.
const RECENT_MAX: usize = 64;

pub struct Question {
    pub session: Option<SessionId>,
    pub title: String,
    pub text: String,
    /// The hook it comes from.
    pub source: &'static str,
}

/// Who said no, and why.
#[derive(Debug)]
pub struct No {
    pub by: String,
    pub reason: String,
}

#[derive(Default)]
pub struct Approvals(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    last: u64,
    open: BTreeMap<u64, (Approval, oneshot::Sender<Decision>)>,
    recent: VecDeque<Approval>,
}

struct Decision {
    allow: bool,
    by: String,
    reason: String,
}

impl Approvals {
    /// Open ones, then the last decided ones.
    pub fn list(&self) -> Vec<Approval> {
        let inner = self.inner();
        let open = inner.open.values().map(|(approval, _)| approval.clone());
        open.chain(inner.recent.iter().rev().cloned()).collect()
    }

    /// A person has decided.
    pub fn resolve(
        &self,
        name: &str,
        allow: bool,
        by: String,
        reason: Option<String>,
    ) -> Result<(), Fault> {
        let number = name.strip_prefix('a').and_then(|number| number.parse::<u64>().ok());
        let mut inner = self.inner();
        let open = number.and_then(|number| inner.open.remove(&number));
        let Some((mut approval, tell)) = open else {
            let fault = Fault::new(FaultKind::NotFound, format!("no open approval {name}"));
            return Err(fault.hint("list them with greenroom approval list"));
        };
        approval.state = if allow { ApprovalState::Allowed } else { ApprovalState::Denied };
        approval.by = Some(by.clone());
        approval.reason.clone_from(&reason);
        inner.decided(approval);
        drop(inner);
        let reason = reason.unwrap_or_else(|| "a person said no".to_owned());
        // An asker that is gone was withdrawn in the same moment.
        let _ = tell.send(Decision { allow, by, reason });
        Ok(())
    }

    fn next(&self) -> u64 {
        let mut inner = self.inner();
        inner.last += 1;
        inner.last
    }

    fn open(&self, number: u64, approval: Approval) -> Option<oneshot::Receiver<Decision>> {
        let mut inner = self.inner();
        if inner.open.len() >= OPEN_MAX {
            return None;
        }
        let (tell, told) = oneshot::channel();
        inner.open.insert(number, (approval, tell));
        Some(told)
    }

    /// Nobody waits for it any more.
    fn withdraw(&self, number: u64, state: ApprovalState) {
        let mut inner = self.inner();
        if let Some((mut approval, _)) = inner.open.remove(&number) {
            approval.state = state;
            inner.decided(approval);
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn decided(&mut self, approval: Approval) {
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(approval);
    }
}

/// Withdraws the question when its asker goes away.
struct Asking<'a> {
    host: &'a Host,
    number: u64,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.host.hooks.approvals.withdraw(self.number, ApprovalState::Withdrawn);
    }
}

/// Asks plugins, then a person.
pub async fn ask(host: &Arc<Host>, question: Question) -> Result<(), No> {
    let number = host.hooks.approvals.next();
    let name = format!("a{number}");
    let handle = question.session.and_then(|id| host.engine.find(&id.to_string()).ok());
    let clean = |text: &str| host.hooks.clean(handle.as_ref(), text);
    let (title, text) = (clean(&question.title), clean(&question.text));
    let payload = Payload::new()
        .text("approval", clean(&name))
        .text("title", title.clone())
        .text("text", text.clone())
        .fact("source", question.source);
    let decided = host.hooks.plugins.gate(Hook::ApprovalRequest, question.session, payload).await;
    match decided {
        GateOutcome::Pass { allowed_by: Some(by), .. } => {
            told(host, &question, &name, true, &by);
            return Ok(());
        }
        GateOutcome::Block { plugin, reason } => {
            told(host, &question, &name, false, &plugin);
            return Err(No { by: plugin, reason });
        }
        GateOutcome::Pass { .. } | GateOutcome::Ask { .. } => {}
    }
    let approval = Approval {
        approval: name.clone(),
        session: question.session.map(|id| id.to_string()),
        title: title.into_inner(),
        text: text.into_inner(),
        source: question.source.to_owned(),
        asked: Timestamp::from_system(SystemTime::now()),
        state: ApprovalState::Open,
        by: None,
        reason: None,
    };
    let data = json!({
        "approval": name, "title": approval.title, "text": approval.text, "source": question.source,
    });
    let Some(answer) = host.hooks.approvals.open(number, approval) else {
        let reason = format!("{OPEN_MAX} questions wait for a person already");
        return Err(No { by: "greenroom".to_owned(), reason });
    };
    let _asking = Asking { host, number };
    log(host, question.session, "approval.requested", data);
    let alert = Alert {
        severity: Severity::Warn,
        channel: "approval".to_owned(),
        text: format!("{}: greenroom approval allow {name}", question.title),
        session: handle,
        source: "approval",
    };
    alerts::raise(host, alert).await;
    person(host, &question, &name, number, answer).await
}

async fn person(
    host: &Host,
    question: &Question,
    name: &str,
    number: u64,
    answer: oneshot::Receiver<Decision>,
) -> Result<(), No> {
    let patience = host.settings.now().plugins.approval_timeout;
    match tokio::time::timeout(patience, answer).await {
        Ok(Ok(decision)) => {
            told(host, question, name, decision.allow, &decision.by);
            match decision.allow {
                true => Ok(()),
                false => Err(No { by: decision.by, reason: decision.reason }),
            }
        }
        Ok(Err(_)) | Err(_) => {
            host.hooks.approvals.withdraw(number, ApprovalState::Expired);
            told(host, question, name, false, "nobody");
            let reason = format!("nobody decided within {} s", patience.as_secs());
            Err(No { by: "greenroom".to_owned(), reason })
        }
    }
}

fn told(host: &Host, question: &Question, name: &str, allowed: bool, by: &str) {
    let data = json!({ "approval": name, "allowed": allowed, "by": by, "source": question.source });
    log(host, question.session, "approval.resolved", data);
}

fn log(host: &Host, session: Option<SessionId>, kind: &'static str, data: Value) {
    host.storage.log(match session {
        Some(id) => about(id, kind, data),
        None => of_the_host(kind, data),
    });
}

//! Approvals: a plugin wants a person to decide.
//!
//! In: a question. Out: yes or no. Plugins at `approval.request` are asked first; what they leave
//! open is an event and an alert, and waits for `approval.resolve`. Nobody waits for ever: after a
//! while the answer is no. A question whose asker goes away is withdrawn.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::SystemTime;

use greenroom_engine::SessionId;
use greenroom_formats::manifest::Hook;
use greenroom_plugins::host::{GateOutcome, Payload};
use greenroom_protocol::api::notice::{Approval, ApprovalState, Severity};
use greenroom_protocol::events::{ApprovalRequested, ApprovalResolved};
use greenroom_protocol::{Fault, FaultKind, Timestamp};
use tokio::sync::oneshot;

use super::Hooks;
use super::alerts::{self, Alert};
use crate::events::about;
use crate::sync::lock;

/// Questions open at once; more are answered no.
const OPEN_MAX: usize = 256;
/// Decided ones that are still listed.
const RECENT_MAX: usize = 64;

pub(crate) struct Question {
    pub session: SessionId,
    pub title: String,
    pub text: String,
    /// The hook it comes from.
    pub source: &'static str,
}

/// Who said no, and why.
#[derive(Debug)]
pub(crate) struct No {
    pub by: String,
    pub reason: String,
}

#[derive(Default)]
pub(crate) struct Approvals(Mutex<Inner>);

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
    pub(crate) fn list(&self) -> Vec<Approval> {
        let inner = lock(&self.0);
        let open = inner.open.values().map(|(approval, _)| approval.clone());
        open.chain(inner.recent.iter().rev().cloned()).collect()
    }

    /// A person has decided.
    pub(crate) fn resolve(
        &self,
        name: &str,
        allow: bool,
        by: String,
        reason: Option<String>,
    ) -> Result<(), Fault> {
        let number = name.strip_prefix('a').and_then(|number| number.parse::<u64>().ok());
        let mut inner = lock(&self.0);
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
        let mut inner = lock(&self.0);
        inner.last += 1;
        inner.last
    }

    fn open(&self, number: u64, approval: Approval) -> Option<oneshot::Receiver<Decision>> {
        let mut inner = lock(&self.0);
        if inner.open.len() >= OPEN_MAX {
            return None;
        }
        let (tell, answer) = oneshot::channel();
        inner.open.insert(number, (approval, tell));
        Some(answer)
    }

    /// Closes a question whose asker does not wait any more.
    fn withdraw(&self, number: u64, state: ApprovalState) {
        let mut inner = lock(&self.0);
        if let Some((mut approval, _)) = inner.open.remove(&number) {
            approval.state = state;
            inner.decided(approval);
        }
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
    hooks: &'a Hooks,
    number: u64,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.hooks.approvals.withdraw(self.number, ApprovalState::Withdrawn);
    }
}

/// Asks plugins, then a person.
pub(crate) async fn ask(hooks: &Hooks, question: Question) -> Result<(), No> {
    let number = hooks.approvals.next();
    let name = format!("a{number}");
    let handle = hooks.engine.find(&question.session.to_string()).ok();
    let clean = |text: &str| hooks.clean(handle.as_ref(), text);
    let (title, text) = (clean(&question.title), clean(&question.text));
    let payload = Payload::new()
        .text("approval", clean(&name))
        .text("title", title.clone())
        .text("text", text.clone())
        .fact("source", question.source);
    let decided = hooks.plugins.gate(Hook::ApprovalRequest, Some(question.session), payload).await;
    match decided {
        GateOutcome::Pass { allowed_by: Some(by), .. } => {
            log_decision(hooks, &question, &name, true, &by);
            return Ok(());
        }
        GateOutcome::Block { plugin, reason } => {
            log_decision(hooks, &question, &name, false, &plugin);
            return Err(No { by: plugin, reason });
        }
        GateOutcome::Pass { .. } | GateOutcome::Ask { .. } => {}
    }
    let approval = Approval {
        approval: name.clone(),
        session: Some(question.session.to_string()),
        title: title.into_inner(),
        text: text.into_inner(),
        source: question.source.to_owned(),
        asked: Timestamp::from_system(SystemTime::now()),
        state: ApprovalState::Open,
        by: None,
        reason: None,
    };
    let event = ApprovalRequested {
        approval: name.clone(),
        title: approval.title.clone(),
        text: approval.text.clone(),
        source: question.source.to_owned(),
    };
    let Some(answer) = hooks.approvals.open(number, approval) else {
        let reason = format!("{OPEN_MAX} questions wait for a person already");
        return Err(No { by: "greenroom".to_owned(), reason });
    };
    let _asking = Asking { hooks, number };
    hooks.storage.log(about(question.session, event));
    let alert = Alert {
        severity: Severity::Warn,
        channel: "approval".to_owned(),
        text: format!("{}: greenroom approval allow {name}", question.title),
        session: handle,
        source: "approval",
    };
    alerts::raise(hooks, alert).await;
    person(hooks, &question, &name, number, answer).await
}

async fn person(
    hooks: &Hooks,
    question: &Question,
    name: &str,
    number: u64,
    answer: oneshot::Receiver<Decision>,
) -> Result<(), No> {
    let patience = hooks.settings.now().plugins.approval_timeout;
    match tokio::time::timeout(patience, answer).await {
        Ok(Ok(decision)) => {
            log_decision(hooks, question, name, decision.allow, &decision.by);
            if !decision.allow {
                return Err(No { by: decision.by, reason: decision.reason });
            }
            Ok(())
        }
        Ok(Err(_)) | Err(_) => {
            hooks.approvals.withdraw(number, ApprovalState::Expired);
            log_decision(hooks, question, name, false, "nobody");
            let reason = format!("nobody decided within {} s", patience.as_secs());
            Err(No { by: "greenroom".to_owned(), reason })
        }
    }
}

fn log_decision(hooks: &Hooks, question: &Question, name: &str, allowed: bool, by: &str) {
    let (approval, by, source) = (name.to_owned(), by.to_owned(), question.source.to_owned());
    let event = ApprovalResolved { approval, allowed, by, source };
    hooks.storage.log(about(question.session, event));
}

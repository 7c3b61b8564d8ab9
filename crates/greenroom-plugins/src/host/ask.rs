//! One call to one plugin: breaker, deadline, books, audit, news.
//!
//! In: whom to ask what, and how long. Out: what the answer comes to, or why there is none. Every failure is counted,
//! noted and told exactly once; a call whose caller goes away counts neither way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use greenroom_engine::SessionId;
use serde_json::{Value, json};

use super::breaker::{Admission, Change};
use super::core::Core;
use super::facts::{Failed, News};
use super::plugin::{Entry, Plugin};
use super::voice::Voice;
use crate::runtime::{CallFailure, Reply};
use crate::spec::Wait;

/// Whom to ask, about whom.
pub(super) struct Question<'a> {
    pub plugin: &'a Arc<Plugin>,
    pub entry: &'a Arc<Entry>,
    pub session: Option<SessionId>,
    /// What is left for it.
    pub limit: Duration,
    /// Lines it is about; none for a gate.
    pub lines: usize,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// It was asked and failed, or could not be asked.
    Failed(CallFailure),
    /// It failed before: it was not asked.
    GivenUp,
}

impl NoAnswer {
    pub fn reason(&self, plugin: &str) -> String {
        match self {
            NoAnswer::Failed(failure) => format!("plugin {plugin} {failure}"),
            NoAnswer::GivenUp => format!("plugin {plugin} has stopped answering"),
        }
    }
}

/// Who makes the call, once it is clear how long it may take.
pub(super) type Caller<'a> =
    Box<dyn FnOnce(Arc<dyn Voice>, Duration) -> Wait<'a, Result<Reply, CallFailure>> + Send + 'a>;

/// A call with one request, made when its deadline is known.
pub(super) fn caller<'a>(
    session: Option<SessionId>,
    request: impl FnOnce(Duration) -> Value + Send + 'a,
) -> Caller<'a> {
    Box::new(move |voice, deadline| {
        let request = request(deadline);
        Box::pin(async move { voice.call(session, request, deadline).await })
    })
}

impl Core {
    /// Asks. Waits no longer than the question's limit.
    pub(super) async fn ask<T>(
        &self,
        question: &Question<'_>,
        call: Caller<'_>,
        read: impl FnOnce(&Reply) -> Result<T, CallFailure>,
    ) -> Result<T, NoAnswer> {
        let began = Instant::now();
        let _busy = question.plugin.busy();
        let Some(admitted) = self.admitted(question, began).await else {
            if question.lines > 0 {
                question.plugin.book.dropped(question.lines as u64);
            }
            return Err(NoAnswer::GivenUp);
        };
        let left = question.limit.saturating_sub(began.elapsed());
        let deadline = question.entry.deadline.min(left);
        let asked = Instant::now();
        let result = match question.plugin.voice(question.entry) {
            Ok(voice) => call(voice.clone(), deadline).await,
            Err(why) => Err(CallFailure::Launch(why)),
        };
        let took = asked.elapsed();
        let decided = result.and_then(|reply| {
            question.plugin.book.stderr(&reply.stderr);
            read(&reply)
        });
        let change = admitted.decided(decided.is_ok());
        match decided {
            Ok(value) => {
                self.answered(question, took, change);
                Ok(value)
            }
            Err(failure) => {
                self.failed(question, took, change, &failure);
                Err(NoAnswer::Failed(failure))
            }
        }
    }

    async fn admitted<'a>(&self, question: &Question<'a>, began: Instant) -> Option<Admitted<'a>> {
        let entry = question.entry;
        loop {
            let decided = entry.decided.notified();
            match entry.breaker().admit(Instant::now()) {
                Admission::Go => return Some(Admitted(Some(entry))),
                Admission::Open => return None,
                Admission::Wait => {}
            }
            let left = question.limit.saturating_sub(began.elapsed());
            // Somebody else's call decides; its deadline is no longer than ours.
            tokio::time::timeout(left, decided).await.ok()?;
        }
    }

    fn answered(&self, question: &Question<'_>, took: Duration, change: Change) {
        question.plugin.book.succeeded(question.entry.hook.name(), took);
        if change == Change::Closed {
            question.plugin.refresh(Some("it answers again".to_owned()));
        }
    }

    fn failed(
        &self,
        question: &Question<'_>,
        took: Duration,
        change: Change,
        failure: &CallFailure,
    ) {
        let Question { plugin, entry, session, .. } = question;
        let hook = entry.hook.name();
        let timeout = matches!(failure, CallFailure::Deadline(_) | CallFailure::Stalled(_));
        let why = failure.to_string();
        plugin.book.failed(hook, took, timeout, &why);
        let gave_up = change == Change::Opened;
        self.audit.note(json!({
            "plugin": plugin.name, "digest": plugin.found.digest, "hook": hook,
            "session": session.map(|id| id.to_string()), "failure": why,
            "policy": entry.policy.word(), "gave_up": gave_up, "ms": millis(took),
        }));
        if gave_up {
            if timeout && let Ok(voice) = plugin.voice(entry) {
                voice.hung();
            }
            plugin.refresh(Some(why));
        }
        self.parts.witness.told(News::Failed(Failed {
            plugin: plugin.name.clone(),
            hook: entry.hook,
            session: *session,
            why: failure.clone(),
            policy: entry.policy,
            gave_up,
            lines: question.lines,
        }));
    }

    /// What a gate's plugin decided, for the record.
    pub(super) fn audited(&self, question: &Question<'_>, action: &str, more: Value) {
        let mut record = json!({
            "plugin": question.plugin.name, "digest": question.plugin.found.digest,
            "hook": question.entry.hook.name(),
            "session": question.session.map(|id| id.to_string()), "action": action,
        });
        if let (Some(record), Value::Object(more)) = (record.as_object_mut(), more) {
            record.extend(more);
        }
        self.audit.note(record);
    }
}

/// Leave to make a call. One that is dropped without an outcome was not made.
struct Admitted<'a>(Option<&'a Arc<Entry>>);

impl Admitted<'_> {
    fn decided(mut self, well: bool) -> Change {
        let Some(entry) = self.0.take() else { return Change::None };
        let change = match well {
            true => entry.breaker().succeeded(),
            false => entry.breaker().failed(Instant::now()),
        };
        entry.decided.notify_waiters();
        change
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.0 {
            entry.breaker().withdrawn();
            entry.decided.notify_waiters();
        }
    }
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

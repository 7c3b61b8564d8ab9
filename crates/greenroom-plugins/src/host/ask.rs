//! One call to one plugin: breaker, deadline, history, audit, news.
//!
//! In: whom to ask what, and how long. Out: what the answer comes to, or why there is none. Every
//! failure is counted, noted and told exactly once; a call whose caller goes away counts neither
//! way.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use greenroom_engine::SessionId;
use serde_json::{Map, Value, json};

use super::breaker::{Admission, Change};
use super::core::Core;
use super::facts::{Failed, News};
use super::plugin::{Entry, Plugin};
use super::program::Request;
use super::request::millis;
use crate::lock;
use crate::runtime::{CallFailure, Reply};

/// Whom to ask, about whom.
pub(super) struct Question<'a> {
    pub plugin: &'a Arc<Plugin>,
    pub entry: &'a Arc<Entry>,
    pub session: Option<SessionId>,
    /// The time that is left for the answer.
    pub limit: Duration,
    /// Lines it is about; none for a gate.
    pub lines: usize,
    /// These lines, where all of them go into one request.
    pub batch: Option<&'a [&'a str]>,
    /// How long the answer took, without the start of its program; nothing if none came.
    pub took: OnceLock<Duration>,
}

impl<'a> Question<'a> {
    pub(super) fn new(
        plugin: &'a Arc<Plugin>,
        entry: &'a Arc<Entry>,
        session: Option<SessionId>,
        limit: Duration,
    ) -> Question<'a> {
        Question { plugin, entry, session, limit, lines: 0, batch: None, took: OnceLock::new() }
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// It was asked and failed, or could not be asked.
    Failed(CallFailure),
    /// It failed before: it was not asked.
    GivenUp,
    /// It takes lines one by one and was given many: it was not asked.
    OneByOne,
}

impl NoAnswer {
    pub(super) fn reason(&self, plugin: &str) -> String {
        match self {
            NoAnswer::Failed(failure) => format!("plugin {plugin} {failure}"),
            NoAnswer::GivenUp | NoAnswer::OneByOne => {
                format!("plugin {plugin} has stopped answering")
            }
        }
    }
}

impl Core {
    /// Asks. Waits no longer than the question's limit; `fields` makes the request, once its
    /// deadline is known.
    pub(super) async fn ask<T>(
        &self,
        question: &Question<'_>,
        fields: impl FnOnce(Duration) -> Map<String, Value>,
        read: impl FnOnce(&Reply) -> Result<T, CallFailure>,
    ) -> Result<T, NoAnswer> {
        let began = Instant::now();
        let _busy = question.plugin.busy();
        let Some(admitted) = self.admitted(question, began).await else {
            if question.lines > 0 {
                question.plugin.history.dropped(question.lines as u64);
            }
            return Err(NoAnswer::GivenUp);
        };
        let left = question.limit.saturating_sub(began.elapsed());
        let deadline = question.entry.deadline.min(left);
        let asked = Instant::now();
        let result = match question.plugin.program(question.entry) {
            Ok(program) => {
                let (session, lines) = (question.session, question.batch);
                let request = Request { session, fields: fields(deadline), lines, deadline };
                program.ask(request).await
            }
            Err(why) => Err(CallFailure::Launch(why)),
        };
        let took = asked.elapsed();
        let decided = match result {
            Ok(Some(reply)) => {
                let _ = question.took.set(reply.took);
                question.plugin.history.stderr(&reply.stderr);
                read(&reply)
            }
            Ok(None) => return Err(NoAnswer::OneByOne),
            Err(failure) => Err(failure),
        };
        let change = admitted.decided(decided.is_ok());
        match &decided {
            Ok(_) => {
                question.plugin.history.succeeded(question.entry.hook.name(), took);
                if change == Change::Closed {
                    question.plugin.refresh(Some("it answers again".to_owned()));
                }
            }
            Err(failure) => self.failed(question, took, change, failure),
        }
        decided.map_err(NoAnswer::Failed)
    }

    async fn admitted<'a>(&self, question: &Question<'a>, began: Instant) -> Option<Admitted<'a>> {
        let entry = question.entry;
        loop {
            let decided = entry.decided.notified();
            match lock(&entry.breaker).admit(Instant::now()) {
                Admission::Go => return Some(Admitted(Some(entry))),
                Admission::Open => return None,
                Admission::Wait => {}
            }
            let left = question.limit.saturating_sub(began.elapsed());
            // Somebody else's call decides; its deadline is no longer than ours.
            tokio::time::timeout(left, decided).await.ok()?;
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
        plugin.history.failed(hook, took, timeout, &why);
        let gave_up = change == Change::Opened;
        self.audit.note(json!({
            "plugin": plugin.name, "digest": plugin.found.digest, "hook": hook,
            "session": session.map(|id| id.to_string()), "failure": why,
            "policy": entry.policy.word(), "gave_up": gave_up, "ms": millis(took),
        }));
        if gave_up {
            if timeout && let Ok(program) = plugin.program(entry) {
                program.hung();
            }
            plugin.refresh(Some(why));
        }
        self.parts.listener.on_news(News::Failed(Failed {
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
    pub(super) fn audited(&self, question: &Question<'_>, action: &str, fields: &[String]) {
        self.audit.note(json!({
            "plugin": question.plugin.name, "digest": question.plugin.found.digest,
            "hook": question.entry.hook.name(),
            "session": question.session.map(|id| id.to_string()), "action": action,
            "fields": fields,
        }));
    }
}

/// Leave to make a call. A leave that is dropped without an outcome was not used.
struct Admitted<'a>(Option<&'a Arc<Entry>>);

impl Admitted<'_> {
    fn decided(mut self, well: bool) -> Change {
        let Some(entry) = self.0.take() else { return Change::None };
        let mut breaker = lock(&entry.breaker);
        let change = if well { breaker.succeeded() } else { breaker.failed(Instant::now()) };
        drop(breaker);
        entry.decided.notify_waiters();
        change
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if let Some(entry) = self.0 {
            lock(&entry.breaker).withdrawn();
            entry.decided.notify_waiters();
        }
    }
}

//! The filter for lines: plugins between the journal and whoever reads it.
//!
//! In: lines, in batches, behind the session's back. Out: one verdict for each, always. Each plugin sees what the ones before
//! it left; lines its prefilter does not find are never sent. A plugin that fails gets its policy applied to exactly the
//! lines it was asked about: passed, masked, dropped, held for a while and then masked, or the session is sealed.
//! Deliberately absent: where lines come from and how masks look (the engine's egress).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use greenroom_engine::SessionId;
use greenroom_engine::egress::{Line, LineFilter, Sink, Unit, Verdict};
use greenroom_protocol::manifest::file::{SinkName, Then, Unit as Wanted};
use greenroom_protocol::manifest::{Hook, HookEntry, OnFailure};
use serde_json::{Map, Value};

use super::ask::{Caller, NoAnswer, Question, caller};
use super::core::Core;
use super::facts::SessionFacts;
use super::noted::Noted;
use super::plugin::{Entry, Plugin};
use super::registry::Registry;
use super::request;
use super::shape::{Decision, Shape, decide};
use crate::runtime::{Action, CallFailure, Reply};
use crate::spec::Wait;

/// With less left a plugin is not asked, and not blamed.
const WORTH_ASKING: Duration = Duration::from_millis(5);

/// Between two tries of a plugin whose lines are held.
const HOLD_RETRY: Duration = Duration::from_millis(100);

/// The plugins that filter one session.
pub(super) struct Chain {
    core: Arc<Core>,
    facts: SessionFacts,
    /// Who filtered it before, and must not just be gone.
    noted: Vec<Noted>,
    /// A plugin with policy `seal` has failed.
    sealed: AtomicBool,
}

/// One line on its way through the chain.
struct Passage<'a> {
    line: &'a Line,
    /// Another text than the line's own.
    replaced: Option<String>,
    /// Decided: no further plugin sees it.
    end: Option<Verdict>,
    /// Of the time that all plugins share, in microseconds.
    spent: AtomicU64,
}

impl<'a> Passage<'a> {
    fn new(line: &'a Line) -> Passage<'a> {
        Passage { line, replaced: None, end: None, spent: AtomicU64::new(0) }
    }
}

impl Passage<'_> {
    fn text(&self) -> &str {
        self.replaced.as_deref().unwrap_or(&self.line.text)
    }

    fn verdict(self) -> Verdict {
        match (self.end, self.replaced) {
            (Some(end), _) => end,
            (None, Some(text)) => Verdict::Replace(text),
            (None, None) => Verdict::Pass,
        }
    }
}

/// What became of one line at one plugin.
enum Edit {
    Keep,
    Replace(String),
    Drop,
}

impl Chain {
    /// None, if nobody filters such a session and nobody did.
    pub fn of(core: &Arc<Core>, facts: &SessionFacts, noted: Vec<Noted>) -> Option<Arc<Chain>> {
        let (core, facts) = (core.clone(), facts.clone());
        let mut chain = Chain { core, facts, noted, sealed: false.into() };
        let now = chain.current(&chain.core.registry());
        if now.is_empty() && chain.noted.is_empty() {
            return None;
        }
        // Whoever filters it from now on is missed as well, as what it is now.
        chain.noted.retain(|old| !now.iter().any(|new| new.plugin == old.plugin));
        chain.noted.extend(now);
        Some(Arc::new(chain))
    }

    /// Who filters it now, as it is to be noted.
    fn current(&self, registry: &Registry) -> Vec<Noted> {
        registry
            .asked(Hook::OutputFilter)
            .filter(|(plugin, entry)| self.wanted(plugin, entry))
            .map(|(plugin, entry)| Noted::of(plugin, entry))
            .collect()
    }

    /// One that filtered it before still does, whatever became of its labels.
    fn wanted(&self, plugin: &Plugin, entry: &Entry) -> bool {
        entry.wants(&self.facts.labels) || self.noted.iter().any(|one| one.plugin == plugin.name)
    }

    fn absent<'a>(&'a self, registry: &'a Registry) -> impl Iterator<Item = &'a Noted> {
        self.noted.iter().filter(|one| !one.is_there(registry))
    }

    async fn pass(&self, session: SessionId, lines: &[Line]) -> Vec<Verdict> {
        if self.sealed.load(Ordering::Acquire) {
            return vec![Verdict::Mask; lines.len()];
        }
        let mut passages: Vec<Passage<'_>> = lines.iter().map(Passage::new).collect();
        let registry = self.core.registry();
        for one in self.absent(&registry) {
            let policy = one.policy(&self.core.parts.config);
            for passage in &mut passages {
                if passage.end.is_none() && one.concerns(passage.line.unit, passage.text()) {
                    passage.end = ended(policy);
                }
            }
        }
        for (plugin, entry) in registry.asked(Hook::OutputFilter) {
            if !self.wanted(plugin, entry) {
                continue;
            }
            let concerned: Vec<usize> = (0..passages.len())
                .filter(|at| passages[*at].end.is_none() && concerns(entry, &passages[*at]))
                .collect();
            for part in parts(entry, &passages, &concerned) {
                self.step(plugin, entry, session, &mut passages, part).await;
            }
        }
        passages.into_iter().map(Passage::verdict).collect()
    }

    /// One plugin, one batch.
    async fn step(
        &self,
        plugin: &Arc<Plugin>,
        entry: &Arc<Entry>,
        session: SessionId,
        passages: &mut [Passage<'_>],
        part: &[usize],
    ) {
        // The number of batches under way is bounded by whoever calls us; this one may be lower.
        let Ok(_turn) = entry.in_flight.acquire().await else { return };
        let edits = {
            let asked: Vec<&Passage<'_>> = part.iter().map(|at| &passages[*at]).collect();
            self.edits(plugin, entry, session, &asked).await
        };
        for (at, edit) in part.iter().zip(edits) {
            let passage = &mut passages[*at];
            match edit {
                Some(Edit::Keep) => {}
                Some(Edit::Replace(text)) => passage.replaced = Some(text),
                Some(Edit::Drop) => passage.end = Some(Verdict::Drop),
                None => self.unanswered(entry, passage),
            }
        }
    }

    fn unanswered(&self, entry: &Entry, passage: &mut Passage<'_>) {
        let then = match (entry.policy, entry.said.hold.unwrap_or_default().then) {
            (OnFailure::Hold, Then::Mask) => OnFailure::Mask,
            (OnFailure::Hold, Then::Drop) => OnFailure::Drop,
            (OnFailure::Hold, Then::Seal) => OnFailure::Seal,
            (policy, _) => policy,
        };
        if then == OnFailure::Seal {
            self.sealed.store(true, Ordering::Release);
        }
        passage.end = ended(then);
    }

    /// One edit for each line, `None` where the plugin did not answer. Held lines are tried again for a while.
    async fn edits(
        &self,
        plugin: &Arc<Plugin>,
        entry: &Arc<Entry>,
        session: SessionId,
        asked: &[&Passage<'_>],
    ) -> Vec<Option<Edit>> {
        let began = Instant::now();
        let patience = match entry.policy {
            OnFailure::Hold => Duration::from_millis(entry.said.hold.unwrap_or_default().max_ms),
            _ => Duration::ZERO,
        };
        loop {
            let edits = self.once(plugin, entry, session, asked).await;
            if began.elapsed() >= patience || edits.iter().all(Option::is_some) {
                return edits;
            }
            tokio::time::sleep(HOLD_RETRY.min(patience)).await;
        }
    }

    async fn once(
        &self,
        plugin: &Arc<Plugin>,
        entry: &Arc<Entry>,
        session: SessionId,
        asked: &[&Passage<'_>],
    ) -> Vec<Option<Edit>> {
        if plugin.voice(entry).is_ok_and(|voice| voice.one_by_one()) {
            return self.one_by_one(plugin, entry, session, asked).await;
        }
        match self.together(plugin, entry, session, asked).await {
            Ok(Some(edits)) => edits.into_iter().map(Some).collect(),
            Ok(None) => self.one_by_one(plugin, entry, session, asked).await,
            Err(_) => asked.iter().map(|_| None).collect(),
        }
    }

    /// All lines in one request. `None` from a plugin that takes them one by one.
    async fn together(
        &self,
        plugin: &Arc<Plugin>,
        entry: &Arc<Entry>,
        session: SessionId,
        asked: &[&Passage<'_>],
    ) -> Result<Option<Vec<Edit>>, NoAnswer> {
        let texts: Vec<&str> = asked.iter().map(|passage| passage.text()).collect();
        let name = entry.hook;
        let one_by_one = AtomicBool::new(false);
        let (texts, flag) = (&texts[..], &one_by_one);
        let Some(limit) = left(entry, asked) else { return Err(NoAnswer::GivenUp) };
        let question =
            Question { plugin, entry, session: Some(session), limit, lines: asked.len() };
        let call: Caller<'_> = Box::new(move |voice, deadline| {
            Box::pin(async move {
                let request = request::batch(name, session, deadline);
                let reply = voice.batch(session, request, texts, deadline).await?;
                flag.store(reply.is_none(), Ordering::Release);
                Ok(reply.unwrap_or_else(nothing))
            })
        });
        let took = Took::default();
        let read = |reply: &Reply| {
            took.note(reply);
            read_edits(reply, asked.len())
        };
        let edits = self.core.ask(&question, call, read).await;
        took.spend(limit, asked);
        let edits = edits?;
        Ok((!one_by_one.load(Ordering::Acquire)).then_some(edits))
    }

    /// A request for each line, two at a time: that is how many programs of one plugin may run at once.
    async fn one_by_one(
        &self,
        plugin: &Arc<Plugin>,
        entry: &Arc<Entry>,
        session: SessionId,
        asked: &[&Passage<'_>],
    ) -> Vec<Option<Edit>> {
        let every_other = async |first: usize| {
            let mut edits = Vec::new();
            for passage in asked.iter().skip(first).step_by(2) {
                edits.push(self.single(plugin, entry, session, passage).await);
            }
            edits
        };
        let (even, odd) = tokio::join!(every_other(0), every_other(1));
        let (mut even, mut odd) = (even.into_iter(), odd.into_iter());
        (0..asked.len())
            .map(|at| if at % 2 == 0 { even.next() } else { odd.next() }.flatten())
            .collect()
    }

    async fn single(
        &self,
        plugin: &Arc<Plugin>,
        entry: &Arc<Entry>,
        session: SessionId,
        passage: &Passage<'_>,
    ) -> Option<Edit> {
        let _turn = entry.singles.acquire().await.ok()?;
        let name = entry.hook;
        let limit = left(entry, &[passage])?;
        let question = Question { plugin, entry, session: Some(session), limit, lines: 1 };
        let payload = payload(passage.line);
        let text = passage.text();
        let call = caller(Some(session), move |deadline| {
            request::line(name, session, deadline, text, &payload)
        });
        let took = Took::default();
        let read = |reply: &Reply| {
            took.note(reply);
            decide(name, reply)
        };
        let decided = self.core.ask(&question, call, read).await;
        took.spend(limit, &[passage]);
        Some(match decided.ok()? {
            Decision::Replace(text) => Edit::Replace(text),
            Decision::Drop => Edit::Drop,
            _ => Edit::Keep,
        })
    }
}

impl LineFilter for Chain {
    fn governs(&self, sink: Sink) -> bool {
        let registry = self.core.registry();
        let governed = registry
            .asked(Hook::OutputFilter)
            .any(|(plugin, entry)| self.wanted(plugin, entry) && governs(&entry.said, sink));
        governed || self.absent(&registry).any(|one| one.governs(sink))
    }

    /// Those who are there now, and those who are missed.
    fn note(&self) -> Option<Vec<u8>> {
        let registry = self.core.registry();
        let mut now = self.current(&registry);
        now.extend(self.absent(&registry).cloned());
        Some(Noted::write(&now))
    }

    fn edition(&self) -> u64 {
        self.core.edition()
    }

    fn absent(&self) -> Option<String> {
        let registry = self.core.registry();
        self.noted.iter().find_map(|one| one.trouble(&self.core, &registry))
    }

    fn filter<'a>(&'a self, session: SessionId, lines: &'a [Line]) -> Wait<'a, Vec<Verdict>> {
        Box::pin(self.pass(session, lines))
    }

    /// Sealed, or the first plugin sees every line and has stopped answering.
    fn foregone(&self) -> Option<Verdict> {
        if self.sealed.load(Ordering::Acquire) {
            return Some(Verdict::Mask);
        }
        let registry = self.core.registry();
        let config = &self.core.parts.config;
        let hides =
            |one: &Noted| one.sees_all() && ended(one.policy(config)) == Some(Verdict::Mask);
        if self.absent(&registry).any(hides) {
            return Some(Verdict::Mask);
        }
        let mut entries = registry
            .asked(Hook::OutputFilter)
            .filter(|(plugin, entry)| self.wanted(plugin, entry))
            .map(|(_, entry)| entry)
            .filter(|entry| entry.said.unit != Wanted::Rows);
        let nobody_absent = self.absent(&registry).next().is_none();
        let first = entries.next()?;
        let gave_up = first.prefilter.is_none() && first.breaker().refuses(Instant::now());
        match first.policy {
            OnFailure::Mask | OnFailure::Seal if gave_up => Some(Verdict::Mask),
            OnFailure::Pass if gave_up && entries.next().is_none() && nobody_absent => {
                Some(Verdict::Pass)
            }
            // Held lines are tried again, and who comes next may see more than this one.
            _ => None,
        }
    }
}

/// What is left for one plugin of the time all of them share; `None` if nothing is. datawatch's hooks have their own
/// time by its contract, and held lines wait because their plugin said so.
fn left(entry: &Entry, asked: &[&Passage<'_>]) -> Option<Duration> {
    if entry.hook.seed || entry.policy == OnFailure::Hold {
        return Some(entry.deadline);
    }
    let spent = asked.iter().map(|passage| passage.spent.load(Ordering::Relaxed)).max();
    let budget = Shape::of(Hook::OutputFilter).budget;
    let left = budget.saturating_sub(Duration::from_micros(spent.unwrap_or(0)));
    (left >= WORTH_ASKING).then(|| left.min(entry.deadline))
}

/// How long an answer took, without the start of its program. All there was, if none came.
#[derive(Default)]
struct Took(OnceLock<Duration>);

impl Took {
    fn note(&self, reply: &Reply) {
        let _ = self.0.set(reply.took);
    }

    fn spend(&self, limit: Duration, asked: &[&Passage<'_>]) {
        let took = self.0.get().map_or(limit, |took| limit.min(*took));
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        for passage in asked {
            passage.spent.fetch_add(micros, Ordering::Relaxed);
        }
    }
}

/// What becomes of a line that nobody answered for.
fn ended(policy: OnFailure) -> Option<Verdict> {
    match policy {
        OnFailure::Pass => None,
        OnFailure::Drop => Some(Verdict::Drop),
        // Whatever else a policy may be called, the text does not leave.
        _ => Some(Verdict::Mask),
    }
}

/// The local human's own stream only where a manifest says so.
pub(super) fn governs(said: &HookEntry, sink: Sink) -> bool {
    let sinks = &said.when.sinks;
    let named = match sink {
        Sink::AttachLocal => SinkName::AttachLocal,
        Sink::AttachRemote => SinkName::AttachRemote,
        Sink::Stream => SinkName::Stream,
        Sink::Transcript => SinkName::Transcript,
        Sink::Recording => SinkName::Recording,
        Sink::Snapshot => SinkName::Snapshot,
        Sink::Event => SinkName::Event,
        Sink::Log => SinkName::Log,
    };
    match sinks.is_empty() {
        true => sink != Sink::AttachLocal,
        false => sinks.contains(&SinkName::All) || sinks.contains(&named),
    }
}

/// Rows of a screen go to everybody: what a reader of the screen sees is the same text.
fn concerns(entry: &Entry, passage: &Passage<'_>) -> bool {
    if entry.said.unit == Wanted::Rows && passage.line.unit == Unit::Line {
        return false;
    }
    let found = |regex: &regex::Regex| regex.is_match(passage.text());
    entry.prefilter.as_ref().is_none_or(found)
}

/// Pieces as large as the plugin wants them.
fn parts<'a>(entry: &Entry, passages: &[Passage<'_>], concerned: &'a [usize]) -> Vec<&'a [usize]> {
    let batch = entry.said.batch.unwrap_or_default();
    let (max_items, max_bytes) = (batch.max_items.max(1) as usize, batch.max_bytes as usize);
    let mut parts = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    for (at, index) in concerned.iter().enumerate() {
        let len = passages[*index].text().len();
        if at > from && (at - from == max_items || bytes + len > max_bytes) {
            parts.push(&concerned[from..at]);
            (from, bytes) = (at, 0);
        }
        bytes += len;
    }
    if from < concerned.len() {
        parts.push(&concerned[from..]);
    }
    parts
}

fn payload(line: &Line) -> Map<String, Value> {
    let unit = match line.unit {
        Unit::Line => "line",
        Unit::Rows => "rows",
    };
    Map::from_iter([
        ("offset".to_owned(), line.seq.0.into()),
        ("unit".to_owned(), unit.into()),
        ("partial".to_owned(), line.partial.into()),
    ])
}

fn nothing() -> Reply {
    Reply { answer: Map::new(), veto: None, stderr: String::new(), took: Duration::ZERO }
}

/// Edits of a batch; a word other than `pass`, or an edit of a line that was not asked about, is a failure.
fn read_edits(reply: &Reply, lines: usize) -> Result<Vec<Edit>, CallFailure> {
    let verdict = reply.verdict()?;
    if verdict.action != Action::Pass {
        return Err(CallFailure::UnknownAction(verdict.action.name().to_owned()));
    }
    let mut edits: Vec<Edit> = (0..lines).map(|_| Edit::Keep).collect();
    for edit in verdict.edits {
        let Some(place) = edits.get_mut(edit.item) else {
            let why = format!("`edits` names item {}, there were {lines}", edit.item);
            return Err(CallFailure::Malformed { why });
        };
        *place = edit.text.map_or(Edit::Drop, Edit::Replace);
    }
    Ok(edits)
}

//! The filter for lines: plugins between the journal and whoever reads it.
//!
//! In: lines, in batches, behind the session's back. Out: one edit for each, always. Each plugin
//! sees what the ones before it left; lines its prefilter does not find are never sent. A plugin
//! that fails gets its policy applied to exactly the lines it was asked about: passed, masked,
//! dropped, held for a while and then masked, or the session is sealed. Deliberately absent: where
//! lines come from and how masks look (the engine's egress).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use greenroom_engine::SessionId;
use greenroom_engine::egress::{Edit, Line, LineFilter, Sink, Unit};
use greenroom_formats::manifest::{Hook, HookEntry, OnFailure};
use greenroom_plugin_api::file::{SinkName, Then, Unit as Wanted};
use regex::Regex;
use serde_json::{Map, Value};

use super::ask::{NoAnswer, Question};
use super::core::Core;
use super::facts::SessionFacts;
use super::noted::Noted;
use super::plugin::{Entry, Plugin};
use super::registry::Registry;
use super::request;
use super::shape::{Decision, Shape, decide};
use crate::lock;
use crate::runtime::{Action, BoxFuture, CallFailure, Reply};

/// With less left a plugin is not asked, and not blamed.
const WORTH_ASKING: Duration = Duration::from_millis(5);

/// Between two tries of a plugin whose lines are held.
const HOLD_RETRY: Duration = Duration::from_millis(100);

/// The plugins that filter one session.
pub(super) struct FilterPipeline {
    core: Arc<Core>,
    facts: SessionFacts,
    /// Who filtered it before, and must not just be gone.
    noted: Vec<Noted>,
    /// A plugin with policy `seal` has failed.
    sealed: AtomicBool,
}

/// One line on its way through the pipeline.
struct PendingLine<'a> {
    line: &'a Line,
    /// Another text than the line's own.
    replaced: Option<String>,
    /// Decided: no further plugin sees it.
    end: Option<Edit>,
    /// How much is spent of the time that all plugins share, in microseconds.
    spent: AtomicU64,
}

impl PendingLine<'_> {
    fn text(&self) -> &str {
        self.replaced.as_deref().unwrap_or(&self.line.text)
    }

    fn edit(self) -> Edit {
        let replaced = self.replaced.map(Edit::Replace);
        self.end.or(replaced).unwrap_or(Edit::Pass)
    }
}

/// Lines that one plugin is asked about together.
#[derive(Clone, Copy)]
struct Batch<'a> {
    plugin: &'a Arc<Plugin>,
    entry: &'a Arc<Entry>,
    session: SessionId,
    lines: &'a [&'a PendingLine<'a>],
}

impl<'a> Batch<'a> {
    fn question(&self, limit: Duration) -> Question<'a> {
        let question = Question::new(self.plugin, self.entry, Some(self.session), limit);
        Question { lines: self.lines.len(), ..question }
    }

    /// What is left for the plugin of the time all of them share; `None` if nothing is. datawatch's
    /// hooks have their own time by its contract, and held lines wait because their plugin said so.
    fn time_left(&self) -> Option<Duration> {
        let entry = self.entry;
        if entry.hook.datawatch || entry.policy == OnFailure::Hold {
            return Some(entry.deadline);
        }
        let spent = self.lines.iter().map(|line| line.spent.load(Ordering::Relaxed)).max();
        let budget = Shape::of(Hook::OutputFilter).budget;
        let left = budget.saturating_sub(Duration::from_micros(spent.unwrap_or(0)));
        (left >= WORTH_ASKING).then(|| left.min(entry.deadline))
    }

    /// Takes what the answer took from that time; all there was, if none came.
    fn spend(&self, question: &Question<'_>) {
        let took = question.took.get().map_or(question.limit, |took| question.limit.min(*took));
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        for line in self.lines {
            line.spent.fetch_add(micros, Ordering::Relaxed);
        }
    }
}

impl FilterPipeline {
    /// None, if nobody filters such a session and nobody did.
    pub(super) fn of(
        core: &Arc<Core>,
        facts: &SessionFacts,
        noted: Vec<Noted>,
    ) -> Option<Arc<FilterPipeline>> {
        let (core, facts) = (core.clone(), facts.clone());
        let mut pipeline = FilterPipeline { core, facts, noted, sealed: false.into() };
        let now = pipeline.current(&pipeline.core.registry());
        if now.is_empty() && pipeline.noted.is_empty() {
            return None;
        }
        // A plugin that filters from now on is missed as well, as what it is now.
        pipeline.noted.retain(|old| !now.iter().any(|new| new.plugin == old.plugin));
        pipeline.noted.extend(now);
        Some(Arc::new(pipeline))
    }

    /// Who is asked about its lines, in order. A plugin that filtered the session before still
    /// does, also if the labels changed.
    fn asked<'a>(
        &'a self,
        registry: &'a Registry,
    ) -> impl Iterator<Item = (&'a Arc<Plugin>, &'a Arc<Entry>)> {
        registry.asked(Hook::OutputFilter).filter(|(plugin, entry)| {
            let noted = || self.noted.iter().any(|one| one.plugin == plugin.name);
            entry.wants(&self.facts.labels) || noted()
        })
    }

    /// Who filters it now, as it is to be noted.
    fn current(&self, registry: &Registry) -> Vec<Noted> {
        self.asked(registry).map(|(plugin, entry)| Noted::of(plugin, entry)).collect()
    }

    fn absent<'a>(&'a self, registry: &'a Registry) -> impl Iterator<Item = &'a Noted> {
        self.noted.iter().filter(|one| !one.is_there(registry))
    }

    /// What one plugin's answer means for a line; `None` is no answer.
    fn settle(&self, entry: &Entry, line: &mut PendingLine<'_>, edit: Option<Edit>) {
        match edit {
            Some(Edit::Pass) => {}
            Some(Edit::Replace(text)) => line.replaced = Some(text),
            Some(end @ (Edit::Drop | Edit::Mask)) => line.end = Some(end),
            None => {
                let policy = after_holding(entry.policy, &entry.said);
                if policy == OnFailure::Seal {
                    self.sealed.store(true, Ordering::Release);
                }
                line.end = ended(policy);
            }
        }
    }

    /// One edit for each line, `None` where the plugin did not answer. Held lines are tried again
    /// for a while.
    async fn edits(&self, batch: Batch<'_>) -> Vec<Option<Edit>> {
        let entry = batch.entry;
        // The caller bounds the number of batches under way; the plugin's own bound may be lower.
        let _permit = entry.in_flight.acquire().await;
        let began = Instant::now();
        let patience = match entry.policy {
            OnFailure::Hold => Duration::from_millis(entry.said.hold.unwrap_or_default().max_ms),
            _ => Duration::ZERO,
        };
        loop {
            let program = batch.plugin.program(entry);
            let edits = if program.is_ok_and(|program| program.one_by_one()) {
                self.one_by_one(batch).await
            } else {
                self.together(batch).await
            };
            if began.elapsed() >= patience || edits.iter().all(Option::is_some) {
                return edits;
            }
            tokio::time::sleep(HOLD_RETRY.min(patience)).await;
        }
    }

    /// All lines in one request, unless the plugin turns out to take them one by one.
    async fn together(&self, batch: Batch<'_>) -> Vec<Option<Edit>> {
        let Batch { entry, session, lines, .. } = batch;
        let Some(limit) = batch.time_left() else { return vec![None; lines.len()] };
        let texts: Vec<&str> = lines.iter().map(|line| line.text()).collect();
        let question = Question { batch: Some(&texts), ..batch.question(limit) };
        let head = |deadline| request::head(entry.hook, Some(session), deadline);
        let read = |reply: &Reply| read_edits(reply, lines.len());
        let edits = self.core.ask(&question, head, read).await;
        if let Err(NoAnswer::OneByOne) = edits {
            return self.one_by_one(batch).await;
        }
        batch.spend(&question);
        edits.unwrap_or_else(|_| vec![None; lines.len()])
    }

    /// A request for each line, two at a time: that is how many programs of one plugin may run at
    /// once.
    async fn one_by_one(&self, batch: Batch<'_>) -> Vec<Option<Edit>> {
        let every_other = async |first: usize| {
            let mut edits = Vec::new();
            for lines in batch.lines.chunks(1).skip(first).step_by(2) {
                edits.push(self.single(Batch { lines, ..batch }).await);
            }
            edits
        };
        let (even, odd) = tokio::join!(every_other(0), every_other(1));
        let (mut even, mut odd) = (even.into_iter(), odd.into_iter());
        (0..batch.lines.len())
            .map(|at| if at % 2 == 0 { even.next() } else { odd.next() }.flatten())
            .collect()
    }

    /// A request for the one line of a batch.
    async fn single(&self, batch: Batch<'_>) -> Option<Edit> {
        let Batch { entry, session, lines, .. } = batch;
        let [line] = lines else { return None };
        let _permit = entry.singles.acquire().await.ok()?;
        let question = batch.question(batch.time_left()?);
        let payload = payload(line.line);
        let fields = |deadline| request::line(entry.hook, session, deadline, line.text(), &payload);
        let read = |reply: &Reply| decide(entry.hook, reply);
        let decided = self.core.ask(&question, fields, read).await;
        batch.spend(&question);
        Some(match decided.ok()? {
            Decision::Replace(text) => Edit::Replace(text),
            Decision::Drop => Edit::Drop,
            _ => Edit::Pass,
        })
    }
}

impl LineFilter for FilterPipeline {
    fn governs(&self, sink: Sink) -> bool {
        let registry = self.core.registry();
        let governed = self.asked(&registry).any(|(_, entry)| governs(&entry.said, sink));
        governed || self.absent(&registry).any(|one| governs(&one.said, sink))
    }

    /// The plugins that are there now, and those that are missed.
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

    fn filter<'a>(&'a self, session: SessionId, lines: &'a [Line]) -> BoxFuture<'a, Vec<Edit>> {
        Box::pin(async move {
            if self.sealed.load(Ordering::Acquire) {
                return vec![Edit::Mask; lines.len()];
            }
            let pending = |line| PendingLine { line, replaced: None, end: None, spent: 0.into() };
            let mut pending: Vec<PendingLine<'_>> = lines.iter().map(pending).collect();
            let registry = self.core.registry();
            for one in self.absent(&registry) {
                let policy = one.policy(&self.core.parts.config);
                for line in pending.iter_mut().filter(|line| line.end.is_none()) {
                    if concerns(&one.said, one.prefilter.as_ref(), line.line.unit, line.text()) {
                        line.end = ended(policy);
                    }
                }
            }
            for (plugin, entry) in self.asked(&registry) {
                let concerned = |at: &usize| {
                    let (line, prefilter) = (&pending[*at], entry.prefilter.as_ref());
                    line.end.is_none()
                        && concerns(&entry.said, prefilter, line.line.unit, line.text())
                };
                let concerned: Vec<usize> = (0..pending.len()).filter(concerned).collect();
                for part in parts(entry, &pending, &concerned) {
                    let lines: Vec<&PendingLine<'_>> =
                        part.iter().map(|at| &pending[*at]).collect();
                    let batch = Batch { plugin, entry, session, lines: &lines };
                    let edits = self.edits(batch).await;
                    for (at, edit) in part.iter().zip(edits) {
                        self.settle(entry, &mut pending[*at], edit);
                    }
                }
            }
            pending.into_iter().map(PendingLine::edit).collect()
        })
    }

    /// Sealed, or the first plugin sees every line and has stopped answering.
    fn foregone(&self) -> Option<Edit> {
        if self.sealed.load(Ordering::Acquire) {
            return Some(Edit::Mask);
        }
        let registry = self.core.registry();
        let config = &self.core.parts.config;
        let hides = |one: &Noted| one.sees_all() && ended(one.policy(config)) == Some(Edit::Mask);
        if self.absent(&registry).any(hides) {
            return Some(Edit::Mask);
        }
        let mut entries = self
            .asked(&registry)
            .map(|(_, entry)| entry)
            .filter(|entry| entry.said.unit != Wanted::Rows);
        let nobody_absent = self.absent(&registry).next().is_none();
        let first = entries.next()?;
        let gave_up = first.prefilter.is_none() && lock(&first.breaker).refuses(Instant::now());
        match first.policy {
            OnFailure::Mask | OnFailure::Seal if gave_up => Some(Edit::Mask),
            OnFailure::Pass if gave_up && entries.next().is_none() && nobody_absent => {
                Some(Edit::Pass)
            }
            // Held lines are tried again, and who comes next may see more than this one.
            _ => None,
        }
    }
}

/// What a failure means in the end, when lines were held for as long as they may be.
pub(super) fn after_holding(policy: OnFailure, said: &HookEntry) -> OnFailure {
    match (policy, said.hold.unwrap_or_default().then) {
        (OnFailure::Hold, Then::Mask) => OnFailure::Mask,
        (OnFailure::Hold, Then::Drop) => OnFailure::Drop,
        (OnFailure::Hold, Then::Seal) => OnFailure::Seal,
        (policy, _) => policy,
    }
}

/// What becomes of a line that nobody answered for.
fn ended(policy: OnFailure) -> Option<Edit> {
    match policy {
        OnFailure::Pass => None,
        OnFailure::Drop => Some(Edit::Drop),
        // Under a policy of any other name the text does not leave.
        _ => Some(Edit::Mask),
    }
}

/// The local human's own stream only where a manifest says so.
fn governs(said: &HookEntry, sink: Sink) -> bool {
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
    if sinks.is_empty() {
        return sink != Sink::AttachLocal;
    }
    sinks.contains(&SinkName::All) || sinks.contains(&named)
}

/// Whether a plugin is asked about a text. Rows of a screen go to everybody: what a reader of the
/// screen sees is the same text.
fn concerns(said: &HookEntry, prefilter: Option<&Regex>, unit: Unit, text: &str) -> bool {
    let rows_only = said.unit == Wanted::Rows && unit == Unit::Line;
    !rows_only && prefilter.is_none_or(|regex| regex.is_match(text))
}

/// Pieces as large as the plugin wants them.
fn parts<'a>(
    entry: &Entry,
    pending: &[PendingLine<'_>],
    concerned: &'a [usize],
) -> Vec<&'a [usize]> {
    let batch = entry.said.batch.unwrap_or_default();
    let (max_items, max_bytes) = (batch.max_items.max(1) as usize, batch.max_bytes as usize);
    let mut parts = Vec::new();
    let (mut from, mut bytes) = (0, 0);
    for (at, index) in concerned.iter().enumerate() {
        let len = pending[*index].text().len();
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

/// What an answer to a batch comes to; a word other than `pass`, or an edit of a line that was not
/// asked about, is a failure.
fn read_edits(reply: &Reply, lines: usize) -> Result<Vec<Option<Edit>>, CallFailure> {
    let said = reply.verdict()?;
    if said.action != Action::Pass {
        return Err(CallFailure::UnknownAction(said.action.word().to_owned()));
    }
    let mut edits = vec![Some(Edit::Pass); lines];
    for (item, edit) in said.edits {
        let Some(place) = edits.get_mut(item) else {
            let why = format!("`edits` names item {item}, there were {lines}");
            return Err(CallFailure::Malformed { why });
        };
        *place = Some(edit);
    }
    Ok(edits)
}

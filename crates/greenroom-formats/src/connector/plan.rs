//! From a file to the exact list of what runs.
//!
//! In: a [`Connector`] that was checked, the run's id and directory, perhaps the phases to run
//! alone. Out: a [`Plan`]: phases in an order that respects their needs, workers with everything
//! filled in. The plan is what a dry run shows and what the runner carries out; it is written down
//! when a run begins, so a file that is edited meanwhile changes nothing.
//! Deliberately absent: what happens when something fails, which is the runner's.

use std::borrow::Cow;

use greenroom_protocol::api::ask::{Asked, ScratchpadAsk, SessionAsk, WorktreeAsk};
use greenroom_protocol::api::is_false;
use greenroom_protocol::api::matcher::Matcher;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::file::{
    Connector, OnFailure, Parallel, Participant, Phase, PhaseKind, SessionSettings, Shape, Worker,
    Workers,
};
use super::models::{self, Candidate, Use};
use super::template::{self, Values, fill, slugged};
use super::{meant, until};

/// What the file cannot know.
#[derive(Clone, Copy, Debug)]
pub struct PlanParams<'a> {
    /// The run's id.
    pub run: &'a str,
    /// The path of the directory its workers share.
    pub scratchpad: &'a str,
    /// Run only these phases; empty = all.
    pub only: &'a [String],
}

/// What runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// As the file calls it.
    pub name: Option<String>,
    /// Each after those it needs.
    pub phases: Vec<PlannedPhase>,
    /// What the user should know before it runs.
    pub notes: Vec<String>,
}

/// A phase of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedPhase {
    /// Unique within the plan.
    pub name: String,
    /// Phases before it in the plan that must be over.
    pub needs: Vec<usize>,
    /// What a failed worker means.
    pub on_failure: OnFailure,
    /// Workers at once.
    pub at_once: usize,
    /// Tries after the first.
    pub retries: u32,
    /// In order.
    pub workers: Vec<PlannedWorker>,
    /// Its place in the file.
    pub source: usize,
}

/// A worker of a plan: one session, or several if it must be tried again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedWorker {
    /// Unique within its phase: a number, or who speaks in which round.
    pub name: String,
    /// Programs, the first choice first. None: the user's shell.
    pub candidates: Vec<Candidate>,
    /// Filled in.
    pub prompt: Option<String>,
    /// Done when this holds; else when the program exits.
    pub until: Option<Matcher>,
    /// What its session has around it.
    pub session: PlannedSession,
    /// In a dialogue: whose turn it is.
    pub turn: Option<Turn>,
}

/// A turn of a dialogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Who speaks.
    pub speaker: String,
    /// Who that is to be.
    pub role: Option<String>,
    /// From 1.
    pub round: u32,
    /// In all.
    pub rounds: u32,
    /// Everybody, in order of speaking.
    pub speakers: Vec<String>,
}

/// Surroundings of a worker, with everything filled in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedSession {
    /// To call it by.
    pub name: String,
    /// Where, from where the run was started.
    pub cwd: Option<String>,
    /// The file says that it goes on in its worktree.
    #[serde(default, skip_serializing_if = "is_false")]
    pub resumes: bool,
    /// What is asked for around it.
    #[serde(flatten)]
    pub ask: SessionAsk,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// `only` names a phase that is not there.
    #[error("there is no phase {name:?}{meant}")]
    NoSuchPhase {
        /// As asked.
        name: String,
        /// `, did you mean …` or nothing.
        meant: String,
    },
    /// The file was not checked, or the check has a hole.
    #[error("the phase {phase:?} makes no sense: {why}")]
    Unsound {
        /// Which.
        phase: String,
        /// Why.
        why: String,
    },
}

/// What would run.
pub fn plan(file: &Connector, params: &PlanParams<'_>) -> Result<Plan, PlanError> {
    let phases = phases_of(file);
    let names: Vec<String> = (0..phases.len()).map(|at| name_of(&phases[at], at)).collect();
    if let Some(name) = params.only.iter().find(|name| !names.contains(name)) {
        let meant = meant(name, names.iter().map(String::as_str));
        return Err(PlanError::NoSuchPhase { name: name.clone(), meant });
    }
    let needs = needs_of(&phases, &names);
    let order = order(&needs).map_err(|at| unsound(&names[at], "it needs itself in a circle"))?;
    let wanted: Vec<usize> = order
        .into_iter()
        .filter(|at| params.only.is_empty() || params.only.contains(&names[*at]))
        .collect();
    let above = closure(&needs);
    let mut planned = Vec::new();
    for (place, &at) in wanted.iter().enumerate() {
        // With phases left out, what stood behind them is still in order.
        let needs = if wanted.len() == phases.len() { &needs[at] } else { &above[at] };
        let needs = (0..place).filter(|before| needs.contains(&wanted[*before])).collect();
        let maker = Maker { file, phase: &phases[at], name: &names[at], params };
        let phase = maker.phase(at, needs).map_err(|why| unsound(&names[at], &why))?;
        planned.push(phase);
    }
    Ok(Plan { name: file.name.clone(), phases: planned, notes: notes(file) })
}

fn unsound(phase: &str, why: &str) -> PlanError {
    PlanError::Unsound { phase: phase.to_owned(), why: why.to_owned() }
}

fn notes(file: &Connector) -> Vec<String> {
    let tools = file.tools.as_ref().is_some_and(|tools| !tools.mcp.is_empty());
    let text = "\"tools\" is accepted, but this host does not hand tools to agents";
    tools.then(|| text.to_owned()).into_iter().collect()
}

/// The phases of a file; a file without any is one phase.
pub(super) fn phases_of(file: &Connector) -> Vec<Cow<'_, Phase>> {
    if let Some(pipeline) = &file.pipeline {
        return pipeline.phases.iter().map(Cow::Borrowed).collect();
    }
    let (name, kind) = match file.kind {
        Shape::Pipeline => ("session", PhaseKind::Workers),
        Shape::Dialogue => ("dialogue", PhaseKind::Dialogue),
        Shape::Meeting => ("meeting", PhaseKind::Dialogue),
    };
    vec![Cow::Owned(Phase {
        name: Some(name.to_owned()),
        kind: Some(kind),
        prompt: file.prompt.clone().or_else(|| file.task.clone()),
        participants: file.participants.clone(),
        rounds: file.rounds,
        ..Phase::default()
    })]
}

pub(super) fn name_of(phase: &Phase, at: usize) -> String {
    phase.name.clone().unwrap_or_else(|| format!("phase-{}", at + 1))
}

/// For each phase those it needs; without a word the one before it.
pub(super) fn needs_of(phases: &[Cow<'_, Phase>], names: &[String]) -> Vec<Vec<usize>> {
    let by_name = |name: &String| names.iter().position(|other| other == name);
    let needs = |(at, phase): (usize, &Cow<'_, Phase>)| match &phase.needs {
        Some(needs) => needs.iter().filter_map(by_name).collect(),
        None => at.checked_sub(1).into_iter().collect(),
    };
    phases.iter().enumerate().map(needs).collect()
}

/// An order in which each comes after what it needs, as near to the given one as can be; else one
/// that is in a circle.
pub(super) fn order(needs: &[Vec<usize>]) -> Result<Vec<usize>, usize> {
    let mut placed = vec![false; needs.len()];
    let mut order = Vec::new();
    while order.len() < needs.len() {
        let ready =
            (0..needs.len()).find(|at| !placed[*at] && needs[*at].iter().all(|need| placed[*need]));
        let Some(at) = ready else {
            return Err(placed.iter().position(|placed| !placed).unwrap_or(0));
        };
        placed[at] = true;
        order.push(at);
    }
    Ok(order)
}

/// For each phase all that come before it, however indirectly.
pub(super) fn closure(needs: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let above = |at: usize| {
        let mut seen = vec![false; needs.len()];
        let mut next: Vec<usize> = needs[at].clone();
        while let Some(at) = next.pop() {
            if !std::mem::replace(&mut seen[at], true) {
                next.extend(&needs[at]);
            }
        }
        (0..needs.len()).filter(|at| seen[*at]).collect()
    };
    (0..needs.len()).map(above).collect()
}

struct Maker<'a> {
    file: &'a Connector,
    phase: &'a Phase,
    name: &'a str,
    params: &'a PlanParams<'a>,
}

impl Maker<'_> {
    fn phase(&self, source: usize, needs: Vec<usize>) -> Result<PlannedPhase, String> {
        let until = self.phase.until.as_ref().map(until::read).transpose()?;
        let dialogue = self.phase.kind == Some(PhaseKind::Dialogue);
        let workers = if dialogue { self.turns(&until)? } else { self.workers(&until)? };
        let at_once = match (dialogue, self.phase.parallel) {
            (true, _) | (false, Some(Parallel::Switch(false))) => 1,
            (false, Some(Parallel::Most(most))) => most.max(1) as usize,
            (false, Some(Parallel::Switch(true)) | None) => workers.len(),
        };
        Ok(PlannedPhase {
            name: self.name.to_owned(),
            needs,
            on_failure: self.phase.on_failure.unwrap_or_default(),
            at_once,
            retries: self.phase.retries.unwrap_or(0),
            workers,
            source,
        })
    }

    fn workers(&self, until: &Option<Matcher>) -> Result<Vec<PlannedWorker>, String> {
        let one = Worker::default();
        let each: Vec<&Worker> = match &self.phase.workers {
            None => vec![&one],
            Some(Workers::Count(count)) => vec![&one; *count as usize],
            Some(Workers::Each(each)) => each.iter().collect(),
        };
        let planned = each.into_iter().zip(1..).map(|(worker, number)| {
            let prompt = worker.prompt.as_ref().or(self.phase.prompt.as_ref());
            let model = worker.model.as_deref();
            self.worker(&number.to_string(), model, prompt, &worker.session, until)
        });
        planned.collect()
    }

    fn turns(&self, until: &Option<Matcher>) -> Result<Vec<PlannedWorker>, String> {
        let rounds = self.phase.rounds.unwrap_or(1);
        let speakers = speakers(&self.phase.participants);
        let mut turns = Vec::new();
        for round in 1..=rounds {
            for (participant, speaker) in self.phase.participants.iter().zip(&speakers) {
                // A speaker is one worker in all rounds: it keeps its worktree.
                let name = slugged(speaker);
                let model = participant.model.as_deref();
                let prompt = self.phase.prompt.as_ref();
                let mut worker = self.worker(&name, model, prompt, &participant.session, until)?;
                worker.name = format!("{name}.{round}");
                worker.session.name.push_str(&format!(".{round}"));
                worker.turn = Some(Turn {
                    speaker: speaker.clone(),
                    role: participant.role.clone(),
                    round,
                    rounds,
                    speakers: speakers.clone(),
                });
                turns.push(worker);
            }
        }
        Ok(turns)
    }

    fn worker(
        &self,
        name: &str,
        model: Option<&str>,
        prompt: Option<&String>,
        session: &SessionSettings,
        until: &Option<Matcher>,
    ) -> Result<PlannedWorker, String> {
        let settings = self.file.session.with(&self.phase.session).with(session);
        let dialogue = self.phase.kind == Some(PhaseKind::Dialogue);
        let values = Values {
            worker: name,
            phase: self.name,
            run: self.params.run,
            scratchpad: self.params.scratchpad,
        };
        let usage = Use {
            prompt: prompt.is_some() || dialogue,
            permission: settings.permission.as_deref(),
        };
        let model = model.or(self.phase.model.as_deref()).or(self.file.model.as_deref());
        let model = model.or_else(|| models::default_of(&self.file.models));
        let mut candidates = match model {
            Some(model) => models::resolve(&self.file.models, model, usage)?,
            None if usage.prompt => return Err("it has a prompt and no model".to_owned()),
            None => Vec::new(),
        };
        let filled = |word: &mut String| *word = fill(word, &values);
        candidates.iter_mut().flat_map(|candidate| &mut candidate.command).for_each(filled);
        let asks = prompt.is_some_and(|prompt| template::names(prompt, "scratchpad"));
        Ok(PlannedWorker {
            name: name.to_owned(),
            candidates,
            prompt: prompt.map(|prompt| fill(prompt, &values)),
            until: until.clone(),
            session: self.session(&settings, self.scratchpad(session, asks), &values)?,
            turn: None,
        })
    }

    fn session(
        &self,
        settings: &SessionSettings,
        scratchpad: Asked<ScratchpadAsk>,
        values: &Values<'_>,
    ) -> Result<PlannedSession, String> {
        let (run, phase) = (self.params.run, slugged(self.name));
        let in_slug = Values { phase: &phase, ..*values };
        let worktree =
            settings.worktree().map(|ask| WorktreeAsk { slug: fill(&ask.slug, &in_slug), ..ask });
        if let Some(ask) = worktree.as_ref().filter(|ask| !template::is_slug(&ask.slug)) {
            return Err(format!("{:?} cannot name a worktree", ask.slug));
        }
        let mut ask = SessionAsk { worktree: worktree.into(), scratchpad, ..settings.ask.clone() };
        let env = &mut ask.env.0;
        env.values_mut().for_each(|value| *value = fill(value, values));
        if let Some(permission) = &settings.permission {
            env.entry("GREENROOM_PERMISSION".to_owned()).or_insert_with(|| permission.clone());
        }
        Ok(PlannedSession {
            name: session_name(run, &phase, values.worker),
            cwd: settings.cwd.as_ref().map(|cwd| fill(cwd, values)),
            resumes: settings.resume.is_some(),
            ask,
        })
    }

    /// The nearest word counts: the worker's, the phase's, the pipeline's, the file's.
    fn scratchpad(&self, worker: &SessionSettings, asks: bool) -> Asked<ScratchpadAsk> {
        let near = self.phase.session.with(worker).ask.scratchpad;
        let flag = self.phase.scratchpad;
        let flag = flag.or_else(|| self.file.pipeline.as_ref().and_then(|all| all.scratchpad));
        let word = near.or(Asked::switch(flag)).or(self.file.session.ask.scratchpad.clone());
        // A prompt that names it asks for that of the run.
        word.or(Some(ScratchpadAsk::default()).filter(|_| asks).into())
    }
}

/// Names of the speakers, each once.
pub(super) fn speakers(participants: &[Participant]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for participant in participants {
        let short_role = participant.role.as_ref().filter(|role| role.len() <= super::NAME_MAX);
        let name = participant.id.as_ref().or(short_role).or(participant.model.as_ref());
        let name = name.map_or("participant", String::as_str);
        let taken = |name: &str| names.iter().any(|other| slugged(other) == slugged(name));
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.to_owned()).chain(numbered).find(|name| !taken(name));
        names.extend(free);
    }
    names
}

/// What a session's name keeps of the phase and of the worker: with the run and a `.2` for a second
/// try it must stay within 64 characters.
const PHASE_KEPT: usize = 22;
const WORKER_KEPT: usize = 28;

fn session_name(run: &str, phase: &str, worker: &str) -> String {
    let cut = |text: &str, kept: usize| text[..text.floor_char_boundary(kept)].to_owned();
    format!("{run}/{}-{}", cut(phase, PHASE_KEPT), cut(worker, WORKER_KEPT))
}

impl Plan {
    /// Sessions of it, tries again aside.
    pub fn workers(&self) -> usize {
        self.phases.iter().map(|phase| phase.workers.len()).sum()
    }

    /// For whoever wants to see it: without values of variables.
    pub fn shown(&self) -> Value {
        let mut shown = serde_json::to_value(self).unwrap_or_default();
        let hide = |worker: &mut Value| {
            if let Some(Value::Object(env)) = worker.pointer_mut("/session/env") {
                env.values_mut().for_each(|value| *value = Value::from("(hidden)"));
            }
        };
        let phases = shown.get_mut("phases").and_then(Value::as_array_mut).into_iter().flatten();
        for phase in phases {
            let workers = phase.get_mut("workers").and_then(Value::as_array_mut);
            workers.into_iter().flatten().for_each(hide);
        }
        shown
    }
}

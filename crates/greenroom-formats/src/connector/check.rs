//! What a schema cannot say: references, circles, templates, and what does not go together.
//!
//! In: a file whose keys and types are right, and where its parts stand. Out: mistakes.

use std::borrow::Cow;

use greenroom_protocol::api::ask::{Asked, ScratchpadAsk, WorktreeAsk};

use super::file::{Connector, ModelEntry, Phase, PhaseKind, SessionSettings, Shape, Workers};
use super::models::{self, Use};
use super::plan::{Plan, PlanParams, closure, name_of, needs_of, order, phases_of, plan};
use super::template::{self, check_slug};
use super::{MODELS_MAX, NAME_MAX, PROMPT_MAX, RUN_WORKERS_MAX, meant, until};
use crate::tree::{At, Node, Step};

pub(super) fn check(file: &Connector, root: &Node<'_>) -> Vec<At> {
    let mut check = Check { file, root, problems: Vec::new() };
    check.shape();
    check.models();
    check.session(&file.session, &[Step::Key("session")]);
    let phases = phases_of(file);
    for (at, phase) in phases.iter().enumerate() {
        check.phase(at, phase);
    }
    check.order(&phases);
    if check.problems.is_empty() {
        check.planned();
    }
    check.problems
}

struct Check<'a> {
    file: &'a Connector,
    root: &'a Node<'a>,
    problems: Vec<At>,
}

use Step::{Index, Key};

impl Check<'_> {
    fn problem(&mut self, path: &[Step<'_>], text: impl Into<String>) {
        self.problems.push(At::new(self.root.find(path), text));
    }

    /// The way to a phase; a file without a pipeline is its own only phase.
    fn way(&self, at: usize) -> Vec<Step<'static>> {
        match self.file.pipeline {
            Some(_) => vec![Key("pipeline"), Key("phases"), Index(at)],
            None => Vec::new(),
        }
    }

    fn shape(&mut self) {
        let file = self.file;
        let talks = file.kind != Shape::Pipeline;
        if file.pipeline.is_some() {
            if talks {
                self.problem(
                    &[Key("type")],
                    "a file with a pipeline cannot have this type: make it the type of a phase",
                );
            }
            for (key, given) in [
                ("prompt", file.prompt.is_some()),
                ("task", file.task.is_some()),
                ("participants", !file.participants.is_empty()),
                ("rounds", file.rounds.is_some()),
            ] {
                if given {
                    self.problem(
                        &[Key(key)],
                        format!("{key:?} belongs into a phase of the pipeline"),
                    );
                }
            }
        }
        if file.prompt.is_some() && file.task.is_some() {
            self.problem(&[Key("task")], "\"task\" and \"prompt\" mean the same: give one of them");
        }
    }

    fn models(&mut self) {
        if self.file.models.len() > MODELS_MAX {
            self.problem(&[Key("models")], format!("more than {MODELS_MAX} models"));
            return;
        }
        for (name, entry) in &self.file.models {
            let way = [Key("models"), Key(name)];
            if name.is_empty() || name.len() > NAME_MAX {
                self.problem(&way, format!("a model's name has 1 to {NAME_MAX} bytes"));
            }
            if let Err(why) = models::resolve(&self.file.models, name, Use::default()) {
                self.problem(&way, why);
            }
            if let ModelEntry::Full(model) = entry {
                let words = model.command.iter().flatten();
                if words.clone().any(|word| word.contains('\0')) {
                    self.problem(&way, "a command cannot hold a NUL");
                }
                if words.clone().next().is_some_and(String::is_empty) {
                    self.problem(
                        &[way[0], way[1], Key("command"), Index(0)],
                        "the program has no name",
                    );
                }
            }
        }
    }

    fn phase(&mut self, at: usize, phase: &Phase) {
        let way = self.way(at);
        let step = |key: &'static str| [&way[..], &[Key(key)]].concat();
        if phase.name.as_ref().is_some_and(|name| name.chars().any(char::is_control)) {
            self.problem(&step("name"), "a name cannot hold control characters");
        }
        self.prompt(phase.prompt.as_ref(), &step("prompt"));
        self.model(phase.model.as_ref(), &step("model"));
        if self.file.pipeline.is_some() {
            self.session(&phase.session, &step("session"));
        }
        if let Some(Err(why)) = phase.until.as_ref().map(until::read) {
            self.problem(&step("until"), why);
        }
        match phase.kind.unwrap_or_default() {
            PhaseKind::Workers => self.workers(phase, &way),
            PhaseKind::Dialogue => self.dialogue(phase, &way),
        }
        let near = phase.session.ask.scratchpad.clone();
        let file = self.file.session.ask.scratchpad.clone();
        let word = near.or(file).or(Asked::switch(phase.scratchpad));
        let asks = phase.prompt.as_ref().is_some_and(|text| template::names(text, "scratchpad"));
        if asks && word == Asked::No && phase.scratchpad != Some(true) {
            self.problem(&step("prompt"), "{scratchpad} is named here, but the scratchpad is off");
        }
    }

    fn workers(&mut self, phase: &Phase, way: &[Step<'_>]) {
        for (key, given) in
            [("participants", !phase.participants.is_empty()), ("rounds", phase.rounds.is_some())]
        {
            if given {
                let way = [way, &[Key(key)]].concat();
                self.problem(&way, format!("{key:?} is for a phase with \"type\": \"dialogue\""));
            }
        }
        let has_model = |own: Option<&String>| {
            own.or(phase.model.as_ref()).or(self.file.model.as_ref()).is_some()
                || models::default_of(&self.file.models).is_some()
        };
        let silent = "there is a prompt and no model to say it to";
        let Some(Workers::Each(workers)) = &phase.workers else {
            if phase.prompt.is_some() && !has_model(None) {
                self.problem(&[way, &[Key("prompt")]].concat(), silent);
            }
            return;
        };
        for (index, worker) in workers.iter().enumerate() {
            let way = [way, &[Key("workers"), Index(index)]].concat();
            let step = |key: &'static str| [&way[..], &[Key(key)]].concat();
            self.prompt(worker.prompt.as_ref(), &step("prompt"));
            self.model(worker.model.as_ref(), &step("model"));
            self.session(&worker.session, &step("session"));
            let local = |name: &str| ["local", "localhost"].contains(&name);
            if worker.machine.as_ref().is_some_and(|name| !local(name)) {
                let text = "workers on other machines are not supported: leave \"machine\" out";
                self.problem(&step("machine"), text);
            }
            let prompted = worker.prompt.is_some() || phase.prompt.is_some();
            if prompted && !has_model(worker.model.as_ref()) {
                self.problem(&way, silent);
            }
        }
    }

    fn dialogue(&mut self, phase: &Phase, way: &[Step<'_>]) {
        let step = |key: &'static str| [way, &[Key(key)]].concat();
        if phase.workers.is_some() {
            self.problem(&step("workers"), "a dialogue has \"participants\", not \"workers\"");
        }
        if phase.parallel.is_some() {
            self.problem(&step("parallel"), "the participants of a dialogue speak in turn");
        }
        if phase.participants.len() < 2 {
            self.problem(&step("participants"), "a dialogue needs at least two \"participants\"");
        }
        let default = phase.model.as_ref().or(self.file.model.as_ref()).is_some()
            || models::default_of(&self.file.models).is_some();
        for (index, participant) in phase.participants.iter().enumerate() {
            let way = [way, &[Key("participants"), Index(index)]].concat();
            let step = |key: &'static str| [&way[..], &[Key(key)]].concat();
            self.model(participant.model.as_ref(), &step("model"));
            self.session(&participant.session, &step("session"));
            if participant.model.is_none() && !default {
                self.problem(&way, "the key \"model\" is missing");
            }
        }
    }

    fn prompt(&mut self, prompt: Option<&String>, way: &[Step<'_>]) {
        let Some(prompt) = prompt else { return };
        if prompt.len() > PROMPT_MAX {
            self.problem(way, format!("a prompt has at most {PROMPT_MAX} bytes"));
        }
        if prompt.contains('\0') {
            self.problem(way, "a prompt cannot hold a NUL");
        }
    }

    fn model(&mut self, name: Option<&String>, way: &[Step<'_>]) {
        let Some(name) = name else { return };
        // What is wrong with an entry of the file is told there.
        if !self.file.models.contains_key(name)
            && let Err(why) = models::resolve(&self.file.models, name, Use::default())
        {
            self.problem(way, why);
        }
    }

    fn session(&mut self, session: &SessionSettings, way: &[Step<'_>]) {
        let step = |key: &'static str| [way, &[Key(key)]].concat();
        let slug = session.ask.worktree.yes().map(|ask| &ask.slug);
        let slug = slug
            .filter(|slug| *slug != WorktreeAsk::OWN)
            .map(|slug| (slug, [way, &[Key("worktree"), Key("slug")]].concat()));
        let resume = session.resume.as_ref().map(|slug| (slug, step("resume")));
        if let (Some((slug, _)), Some((resume, way))) = (&slug, &resume)
            && slug != resume
        {
            self.problem(
                way,
                format!(
                    "\"resume\" and \"worktree\" name different worktrees: {resume:?} and {slug:?}"
                ),
            );
        }
        for (slug, way) in slug.into_iter().chain(resume) {
            if let Err(why) = check_slug(slug) {
                self.problem(&way, why);
            }
        }
        let pad = session.ask.scratchpad.yes().and_then(|ask| ask.name.as_ref());
        if let Some(name) = pad.filter(|name| !ScratchpadAsk::may_be_called(name)) {
            self.problem(
                &step("scratchpad"),
                format!("{name:?} cannot name a scratchpad: {}", ScratchpadAsk::NAMES),
            );
        }
        for (name, value) in &session.ask.env.0 {
            let way = [way, &[Key("env"), Key(name)]].concat();
            if name.is_empty() || name.contains(['=', '\0']) || name.contains(char::is_whitespace) {
                self.problem(&way, format!("{name:?} cannot be the name of a variable"));
            }
            if value.contains('\0') {
                self.problem(&way, format!("the variable {name:?} cannot hold a NUL"));
            }
        }
    }

    fn order(&mut self, phases: &[Cow<'_, Phase>]) {
        let names: Vec<String> = (0..phases.len()).map(|at| name_of(&phases[at], at)).collect();
        for (at, name) in names.iter().enumerate() {
            if names[..at].contains(name) {
                let way = [&self.way(at)[..], &[Key("name")]].concat();
                self.problem(&way, format!("there are two phases {name:?}"));
            }
            for (index, need) in phases[at].needs.iter().flatten().enumerate() {
                let way = [&self.way(at)[..], &[Key("needs"), Index(index)]].concat();
                if need == name {
                    self.problem(&way, format!("the phase {name:?} needs itself"));
                } else if !names.contains(need) {
                    let others = names.iter().filter(|other| *other != name);
                    let meant = meant(need, others.map(String::as_str));
                    self.problem(&way, format!("there is no phase {need:?}{meant}"));
                }
            }
        }
        if self.problems.is_empty() {
            let needs = needs_of(phases, &names);
            if order(&needs).is_err() {
                let circle = closure(&needs);
                let of_circle = |at: &usize| circle[*at].contains(at);
                let members: Vec<usize> = (0..names.len()).filter(of_circle).collect();
                let way = [&self.way(members.first().copied().unwrap_or(0))[..], &[Key("needs")]];
                let list: Vec<&str> = members.iter().map(|at| names[*at].as_str()).collect();
                self.problem(
                    &way.concat(),
                    format!("these phases need each other in a circle: {}", list.join(", ")),
                );
            }
        }
    }

    /// What only shows once everything is filled in.
    fn planned(&mut self) {
        let params = PlanParams { run: "r1", scratchpad: "/run", only: &[] };
        let plan = match plan(self.file, &params) {
            Ok(plan) => plan,
            Err(error) => return self.problem(&[], error.to_string()),
        };
        if plan.workers() > RUN_WORKERS_MAX {
            let text =
                format!("{} workers in all; at most {RUN_WORKERS_MAX} are allowed", plan.workers());
            return self.problem(&[Key("pipeline")], text);
        }
        if let Some((at, text)) = shared_worktree(&plan) {
            let way = self.way(at);
            self.problem(&way, text);
        }
    }
}

/// Two workers that may run at the same time in the same worktree.
fn shared_worktree(plan: &Plan) -> Option<(usize, String)> {
    let needs: Vec<Vec<usize>> = plan.phases.iter().map(|phase| phase.needs.clone()).collect();
    let above = closure(&needs);
    for (at, phase) in plan.phases.iter().enumerate() {
        let mut beside: Vec<(&str, usize)> = Vec::new();
        for (before, other) in plan.phases[..at].iter().enumerate() {
            if !above[at].contains(&before) {
                beside.extend(slugs(other).map(|slug| (slug, before)));
            }
        }
        for (index, slug) in slugs(phase).enumerate() {
            let hint = "put {worker} or {phase} into its name";
            if let Some((_, before)) = beside.iter().find(|(other, _)| *other == slug) {
                let other = &plan.phases[*before].name;
                let text = format!(
                    "the worktree {slug:?} is used by the phase {other:?} at the same time: {hint}"
                );
                return Some((phase.source, text));
            }
            if phase.at_once > 1 && slugs(phase).take(index).any(|other| other == slug) {
                let text =
                    format!("several workers at once would share the worktree {slug:?}: {hint}");
                return Some((phase.source, text));
            }
        }
    }
    None
}

fn slugs(phase: &super::plan::PlannedPhase) -> impl Iterator<Item = &str> {
    let worktrees = phase.workers.iter().filter_map(|worker| worker.session.ask.worktree.yes());
    worktrees.map(|ask| ask.slug.as_str())
}

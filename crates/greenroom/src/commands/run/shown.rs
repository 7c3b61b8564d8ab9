//! A plan and an outcome for people.

use std::fmt::Write as _;

use greenroom_formats::connector::Plan;
use greenroom_formats::connector::file::OnFailure;
use greenroom_formats::connector::plan::{PlannedPhase, PlannedWorker};
use greenroom_protocol::api::run::{PhaseInfo, RunInfo, RunStartResult, StepState, WorkerInfo};
use serde_json::Value;

use crate::error::without_errno;
use crate::output::{Cell, Output, Tone, one_line, span};

/// A prompt's beginning, to know it by.
const PROMPT_SHOWN: usize = 60;

/// What would run.
pub fn plan(out: &Output, result: &RunStartResult) -> String {
    let value = result.plan.clone().unwrap_or_default();
    let Ok(plan) = serde_json::from_value::<Plan>(value.clone()) else { return String::new() };
    let mut text = String::new();
    if let Some(name) = &plan.name {
        let _ = writeln!(text, "{}", out.paint(Tone::Head, &one_line(name)));
    }
    for (at, phase) in plan.phases.iter().enumerate() {
        let _ = writeln!(text, "{}", phase_line(out, &plan, at, phase));
        for (index, worker) in phase.workers.iter().enumerate() {
            let pointer = format!("/phases/{at}/workers/{index}/session/would_be");
            let _ = write!(text, "{}", worker_lines(out, worker, value.pointer(&pointer)));
        }
    }
    for note in &result.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

fn phase_line(out: &Output, plan: &Plan, at: usize, phase: &PlannedPhase) -> String {
    let mut about = Vec::new();
    if !phase.needs.is_empty() {
        let names = phase.needs.iter().map(|need| one_line(&plan.phases[*need].name));
        about.push(format!("after {}", names.collect::<Vec<_>>().join(", ")));
    }
    if phase.workers.len() > 1 {
        let workers = crate::output::count(phase.workers.len() as u64, "worker");
        about.push(format!("{workers}, {} at once", phase.at_once));
    }
    if phase.retries > 0 {
        about.push(format!("{} more if it fails", tries(phase.retries)));
    }
    match phase.on_failure {
        OnFailure::Stop => {}
        OnFailure::Continue => about.push("goes on after a failure".to_owned()),
        OnFailure::SkipDependents => about.push("a failure leaves out what needs it".to_owned()),
    }
    let name = out.paint(Tone::Head, &one_line(&phase.name));
    let about = about.join("; ");
    format!("{}. {name}{}{about}", at + 1, if about.is_empty() { "" } else { "  " })
}

fn tries(count: u32) -> String {
    if count == 1 { "1 try".to_owned() } else { format!("{count} tries") }
}

fn worker_lines(out: &Output, worker: &PlannedWorker, would_be: Option<&Value>) -> String {
    let mut text = String::new();
    let programs: Vec<String> =
        worker.candidates.iter().map(|candidate| candidate.command.join(" ")).collect();
    let program =
        if programs.is_empty() { "the shell".to_owned() } else { programs.join(", else ") };
    let _ = writeln!(text, "   {}  {}", worker.name, one_line(&program));
    if let Some(prompt) = &worker.prompt {
        let start: String = one_line(prompt).chars().take(PROMPT_SHOWN).collect();
        let more = if start.len() < prompt.len() { "…" } else { "" };
        let _ = writeln!(text, "      prompt     {start}{more}");
    }
    let Some(would_be) = would_be else { return text };
    if let Some(refused) = would_be["refused"].as_str() {
        let word = out.paint(Tone::Bad, "would not start");
        let _ = writeln!(text, "      {word}: {}", one_line(&without_errno(refused)));
        return text;
    }
    for plugin in would_be["plugins"].as_array().into_iter().flatten() {
        let name = plugin["name"].as_str().unwrap_or_default();
        for change in plugin["changes"].as_array().into_iter().flatten() {
            let change = one_line(change.as_str().unwrap_or_default());
            let _ = writeln!(text, "      {name:<10} {change}");
        }
    }
    text
}

/// How it went.
pub fn outcome(out: &Output, info: &RunInfo) -> String {
    let rows = |phase: &PhaseInfo| -> Vec<_> {
        phase.workers.iter().map(|worker| row(&phase.name, worker)).collect()
    };
    let head = ["PHASE", "WORKER", "STATE", "SESSION", "TOOK", "MODEL", "BRANCH", "WHY"];
    let mut text = out.table(head, info.phases.iter().flat_map(rows), &["BRANCH", "WHY"]);
    let took = span(info.duration_ms);
    let _ = writeln!(text, "{} {} in {took}; {}", info.run, info.state.word(), info.scratchpad);
    text
}

fn row(phase: &str, worker: &WorkerInfo) -> [Cell; 8] {
    let tone = match worker.state {
        StepState::Done => Tone::Good,
        StepState::Failed => Tone::Bad,
        StepState::Skipped | StepState::Cancelled | StepState::Waiting => Tone::Dim,
        StepState::Starting | StepState::Running => Tone::Busy,
    };
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    [
        phase.into(),
        worker.worker.as_str().into(),
        Cell::toned(tone, worker.state.word()),
        text(&worker.session).into(),
        worker.duration_ms.map_or_else(|| "-".to_owned(), span).into(),
        text(&worker.model).into(),
        text(&worker.branch).into(),
        without_errno(&text(&worker.why)).into(),
    ]
}

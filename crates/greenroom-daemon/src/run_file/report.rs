//! A run as others see it: `run.info`, `run.json`, events.

use greenroom_protocol::Timestamp;
use greenroom_protocol::api::run::{PhaseInfo, RunInfo, RunState, StepState, WorkerInfo};
use greenroom_protocol::connector::plan::PlannedWorker;
use serde_json::{Value, json};

use super::files::Written;
use super::machine::{Job, Progress, WorkerProgress};
use crate::store::{NewEvent, Storage};

/// How a run stands.
pub fn info(written: &Written, progress: &Progress, now: Timestamp, detail: bool) -> RunInfo {
    let end = progress.ended_at.unwrap_or(now);
    let phases = written.plan.phases.iter().zip(&progress.phases).map(|(planned, phase)| {
        let workers = planned.workers.iter().zip(&phase.workers);
        PhaseInfo {
            name: planned.name.clone(),
            state: phase.state,
            why: phase.why.clone(),
            workers: workers.map(|(planned, worker)| worker_info(planned, worker, now)).collect(),
        }
    });
    RunInfo {
        run: written.run.clone(),
        name: written.plan.name.clone(),
        file: written.file.clone(),
        state: progress.state,
        why: progress.why.clone(),
        scratchpad: written.scratchpad.display().to_string(),
        started_at: progress.started_at,
        ended_at: progress.ended_at,
        duration_ms: end.0.saturating_sub(progress.started_at.0),
        phases: if detail { phases.collect() } else { Vec::new() },
    }
}

fn worker_info(planned: &PlannedWorker, worker: &WorkerProgress, now: Timestamp) -> WorkerInfo {
    let model = planned.candidates.get(worker.candidate).map(|candidate| candidate.model.clone());
    let end = worker.ended_at.unwrap_or(now);
    WorkerInfo {
        worker: planned.name.clone(),
        state: worker.state,
        model,
        session: worker.session.clone(),
        attempts: worker.attempt,
        exit: worker.exit.clone(),
        why: worker.why.clone(),
        duration_ms: worker.started_at.map(|start| end.0.saturating_sub(start.0)),
        branch: worker.branch.clone(),
    }
}

/// Tells what changed between two states.
pub fn tell(storage: &Storage, written: &Written, before: Option<&Progress>, after: &Progress) {
    let run = &written.run;
    if before.is_none() {
        let (phases, workers) = (written.plan.phases.len(), written.plan.workers());
        let data =
            json!({ "run": run, "name": written.plan.name, "phases": phases, "workers": workers });
        log(storage, "run.started", data, None);
    }
    for (at, (planned, phase)) in written.plan.phases.iter().zip(&after.phases).enumerate() {
        let old = before.map(|progress| &progress.phases[at]);
        let was = old.map_or(StepState::Waiting, |phase| phase.state);
        let phase_over = phase.state.is_over();
        let tell_phase = || {
            if phase.state != was {
                let data = json!({
                    "run": run, "phase": planned.name, "state": phase.state, "why": phase.why });
                log(storage, "run.phase", data, None);
            }
        };
        // It begins before its workers and ends after them.
        if !phase_over {
            tell_phase();
        }
        for (index, worker) in phase.workers.iter().enumerate() {
            let old = old.map(|phase| &phase.workers[index]);
            if changed(old, worker) {
                let job = Job { phase: at, worker: index };
                let data = worker_data(written, job, worker);
                log(storage, "run.worker", data, worker.session.as_deref());
            }
        }
        if phase_over {
            tell_phase();
        }
    }
    if after.state != RunState::Running && before.is_none_or(|old| old.state == RunState::Running) {
        let took_ms = after.ended_at.unwrap_or_default().0.saturating_sub(after.started_at.0);
        let data =
            json!({ "run": run, "state": after.state, "why": after.why, "took_ms": took_ms });
        log(storage, "run.ended", data, None);
    }
}

fn changed(old: Option<&WorkerProgress>, new: &WorkerProgress) -> bool {
    let key = |worker: &WorkerProgress| (worker.state, worker.attempt, worker.candidate);
    old.map_or((StepState::Waiting, 0, 0), key) != key(new)
}

fn worker_data(written: &Written, job: Job, worker: &WorkerProgress) -> Value {
    let phase = &written.plan.phases[job.phase];
    let planned = &phase.workers[job.worker];
    let info = worker_info(planned, worker, worker.ended_at.unwrap_or_default());
    let took_ms = worker.ended_at.and(info.duration_ms);
    json!({
        "run": written.run, "phase": phase.name, "worker": info.worker, "state": info.state,
        "session": info.session, "model": info.model, "attempt": info.attempts, "exit": info.exit,
        "why": info.why, "branch": info.branch, "took_ms": took_ms,
    })
}

fn log(storage: &Storage, kind: &'static str, data: Value, session: Option<&str>) {
    let session = session.and_then(|id| id.parse::<greenroom_engine::SessionId>().ok());
    let event = crate::events::of_the_host(kind, data);
    storage.log(NewEvent { session: session.map(|id| id.0), ..event });
}

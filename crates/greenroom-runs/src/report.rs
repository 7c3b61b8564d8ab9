//! A run as others see it: `run.info`, `run.json`, events.

use greenroom_formats::connector::plan::PlannedWorker;
use greenroom_protocol::Timestamp;
use greenroom_protocol::api::run::{PhaseInfo, RunInfo, RunState, StepState, WorkerInfo};
use greenroom_protocol::events::{RunEnded, RunPhase, RunStarted, RunWorker};

use crate::Terminals;
use crate::files::RunRequest;
use crate::machine::{Job, Progress, WorkerProgress};

/// How a run stands.
pub(crate) fn info(
    request: &RunRequest,
    progress: &Progress,
    now: Timestamp,
    detail: bool,
) -> RunInfo {
    let end = progress.ended_at.unwrap_or(now);
    let phases = request.plan.phases.iter().zip(&progress.phases).map(|(planned, phase)| {
        let workers = planned.workers.iter().zip(&phase.workers);
        PhaseInfo {
            name: planned.name.clone(),
            state: phase.state,
            why: phase.why.clone(),
            workers: workers.map(|(planned, worker)| worker_info(planned, worker, now)).collect(),
        }
    });
    RunInfo {
        run: request.run.clone(),
        name: request.plan.name.clone(),
        file: request.file.clone(),
        state: progress.state,
        why: progress.why.clone(),
        scratchpad: request.scratchpad.display().to_string(),
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
pub(crate) fn tell(
    terminals: &dyn Terminals,
    request: &RunRequest,
    before: Option<&Progress>,
    after: &Progress,
) {
    let run = &request.run;
    if before.is_none() {
        let (phases, workers) = (request.plan.phases.len(), request.plan.workers());
        let name = request.plan.name.clone();
        let event = RunStarted { run: run.clone(), name, phases, workers };
        terminals.log(None, event.into());
    }
    for (at, (planned, phase)) in request.plan.phases.iter().zip(&after.phases).enumerate() {
        let old = before.map(|progress| &progress.phases[at]);
        let was = old.map_or(StepState::Waiting, |phase| phase.state);
        let phase_over = phase.state.is_over();
        let tell_phase = || {
            if phase.state != was {
                let event = RunPhase {
                    run: run.clone(),
                    phase: planned.name.clone(),
                    state: phase.state,
                    why: phase.why.clone(),
                };
                terminals.log(None, event.into());
            }
        };
        // A phase begins before its workers and ends after them.
        if !phase_over {
            tell_phase();
        }
        for (index, worker) in phase.workers.iter().enumerate() {
            let old = old.map(|phase| &phase.workers[index]);
            if changed(old, worker) {
                let job = Job { phase: at, worker: index };
                let session = worker.session.as_deref().and_then(|id| id.parse().ok());
                terminals.log(session, worker_event(request, job, worker).into());
            }
        }
        if phase_over {
            tell_phase();
        }
    }
    if after.state != RunState::Running && before.is_none_or(|old| old.state == RunState::Running) {
        let took_ms = after.ended_at.unwrap_or_default().0.saturating_sub(after.started_at.0);
        let (state, why) = (after.state, after.why.clone());
        terminals.log(None, RunEnded { run: run.clone(), state, why, took_ms }.into());
    }
}

fn changed(old: Option<&WorkerProgress>, new: &WorkerProgress) -> bool {
    let key = |worker: &WorkerProgress| (worker.state, worker.attempt, worker.candidate);
    old.map_or((StepState::Waiting, 0, 0), key) != key(new)
}

fn worker_event(request: &RunRequest, job: Job, worker: &WorkerProgress) -> RunWorker {
    let phase = &request.plan.phases[job.phase];
    let planned = &phase.workers[job.worker];
    let info = worker_info(planned, worker, worker.ended_at.unwrap_or_default());
    let took_ms = worker.ended_at.and(info.duration_ms);
    RunWorker {
        run: request.run.clone(),
        phase: phase.name.clone(),
        worker: info.worker,
        state: info.state,
        session: info.session,
        model: info.model,
        attempt: info.attempts,
        exit: info.exit,
        why: info.why,
        branch: info.branch,
        took_ms,
    }
}

//! `greenroom run ls`, `show` and `stop`: runs that are at work or over.

use greenroom_protocol::Timestamp;
use greenroom_protocol::api::run::{
    RunCancelResult, RunInfo, RunListParams, RunListResult, RunParams, RunState,
};
use greenroom_protocol::fault::exit;
use serde_json::json;

use super::super::Context;
use super::shown;
use crate::error::{Failure, Outcome};
use crate::output::{Cell, Tone, one_line, span, tell};

pub async fn list(context: &Context) -> Outcome {
    let host = context.host().await?;
    let params = RunListParams { detail: true };
    let list: RunListResult = host.call("run.list", &params, "list runs").await?;
    if !context.out.json && list.runs.is_empty() {
        context.out.note("no runs; start one with greenroom run FILE");
        return Ok(0);
    }
    context.out.answer(&list, || {
        let rows: Vec<Vec<Cell>> = list.runs.iter().map(row).collect();
        let head = ["RUN", "STATE", "NAME", "AGE", "TOOK", "WORKERS", "WHY"];
        context.out.table(&head, &rows, &["NAME", "WHY"])
    })?;
    Ok(0)
}

fn row(run: &RunInfo) -> Vec<Cell> {
    let tone = match run.state {
        RunState::Running => Tone::Busy,
        RunState::Done => Tone::Good,
        RunState::Failed => Tone::Bad,
        RunState::Cancelled => Tone::Dim,
    };
    let workers: Vec<_> = run.phases.iter().flat_map(|phase| &phase.workers).collect();
    let over = workers.iter().filter(|worker| worker.state.is_over()).count();
    let name = run.name.as_ref().or(run.file.as_ref()).cloned().unwrap_or_default();
    let now = Timestamp::from_system(std::time::SystemTime::now());
    let age = now.unix_ms().saturating_sub(run.started_at.unix_ms());
    vec![
        Cell::from(run.run.as_str()),
        Cell::toned(tone, run.state.word()),
        Cell::from(one_line(&name)),
        Cell::from(span(age)),
        Cell::from(span(run.duration_ms)),
        Cell::from(format!("{over} of {} over", workers.len())),
        Cell::from(one_line(run.why.as_deref().unwrap_or_default())),
    ]
}

pub async fn show(run: String, context: &Context) -> Outcome {
    let host = context.host().await?;
    let attempt = format!("describe run {run}");
    let info: RunInfo = host.call("run.info", &RunParams { run }, &attempt).await?;
    context.out.answer(&info, || shown::outcome(&context.out, &info))?;
    Ok(0)
}

pub async fn stop(runs: Vec<String>, context: &Context) -> Outcome {
    let host = context.host().await?;
    let mut code = exit::OK;
    for run in runs {
        let attempt = format!("stop run {run}");
        let params = RunParams { run: run.clone() };
        let answer: Result<RunCancelResult, Failure> =
            host.call("run.cancel", &params, &attempt).await;
        let failure = match answer {
            Ok(stopped) if !stopped.already_ended => {
                let state = stopped.state.word();
                let value = json!({ "run": run, "stopped": true, "state": state });
                context.out.answer(&value, || format!("{run} stopped"))?;
                continue;
            }
            Ok(stopped) => {
                let state = stopped.state.word();
                let mut failure =
                    Failure::failed(format!("cannot stop run {run}: it is over ({state})"))
                        .hint(format!("greenroom run show {run}"));
                failure.exit = exit::NOT_FOUND;
                failure
            }
            Err(failure) => failure,
        };
        if code == exit::OK {
            code = failure.exit;
        }
        let text = match context.out.json {
            true => failure.to_json().to_string(),
            false => format!("greenroom: {failure}"),
        };
        tell(&text);
    }
    Ok(code)
}

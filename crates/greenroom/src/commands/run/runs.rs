//! `greenroom run ls`, `show` and `stop`: runs that are at work or over.

use greenroom_client::method;
use greenroom_protocol::api::run::{RunInfo, RunListParams, RunParams, RunState};
use greenroom_protocol::fault::exit;
use serde_json::json;

use super::super::Context;
use super::shown;
use crate::error::{ExitResult, Failure};
use crate::output::{Cell, Tone, since, span};

pub async fn list(context: &Context) -> ExitResult {
    let params = RunListParams { detail: true };
    let list = context.call::<method::RunList>(&params, "list runs").await?;
    let none = "no runs; start one with greenroom run FILE";
    context.out.list(&list, &list.runs, none, || {
        let head = ["RUN", "STATE", "NAME", "AGE", "TOOK", "WORKERS", "WHY"];
        context.out.table(head, list.runs.iter().map(row), &["NAME", "WHY"])
    })
}

fn row(run: &RunInfo) -> [Cell; 7] {
    let tone = match run.state {
        RunState::Running => Tone::Busy,
        RunState::Done => Tone::Good,
        RunState::Failed => Tone::Bad,
        RunState::Cancelled => Tone::Dim,
    };
    let workers: Vec<_> = run.phases.iter().flat_map(|phase| &phase.workers).collect();
    let over = workers.iter().filter(|worker| worker.state.is_over()).count();
    let name = run.name.as_ref().or(run.file.as_ref()).cloned().unwrap_or_default();
    [
        run.run.as_str().into(),
        Cell::toned(tone, run.state.word()),
        name.into(),
        span(since(run.started_at)).into(),
        span(run.duration_ms).into(),
        format!("{over} of {} over", workers.len()).into(),
        run.why.as_deref().unwrap_or_default().into(),
    ]
}

pub async fn show(run: String, context: &Context) -> ExitResult {
    let attempt = format!("describe run {run}");
    let shown = |info: &RunInfo| shown::outcome(&context.out, info);
    context.show::<method::RunInfo>(&RunParams { run }, &attempt, shown).await
}

pub async fn stop(runs: Vec<String>, context: &Context) -> ExitResult {
    let host = context.host().await?;
    let mut code = exit::OK;
    for run in runs {
        let attempt = format!("stop run {run}");
        let params = RunParams { run: run.clone() };
        let failure = match host.call::<method::RunCancel>(&params, &attempt).await {
            Ok(stopped) if !stopped.already_ended => {
                let state = stopped.state.word();
                let value = json!({ "run": run, "stopped": true, "state": state });
                context.out.answer(&value, || format!("{run} stopped"))?;
                continue;
            }
            Ok(stopped) => {
                let state = stopped.state.word();
                let message = format!("cannot stop run {run}: it is over ({state})");
                let failure = Failure::failed(message).hint(format!("greenroom run show {run}"));
                Failure { exit: exit::NOT_FOUND, ..failure }
            }
            Err(failure) => failure,
        };
        if code == exit::OK {
            code = failure.exit;
        }
        context.out.failure(&failure);
    }
    Ok(code)
}

//! `run.*`: carrying out connector files.

use std::path::Path;
use std::sync::Arc;

use greenroom_protocol::api::run::{
    RunCancelResult, RunInfo, RunListParams, RunListResult, RunParams, RunStartParams,
    RunStartResult,
};
use greenroom_protocol::connector::{self, Connector, Plan, PlanParams};
use greenroom_protocol::{Fault, FaultKind};
use serde_json::{Value, json};

use crate::convert;
use crate::host::Host;
use crate::methods::session::check_variables;
use crate::rpc::fault;
use crate::rpc::router::Call;
use crate::run_file::{self, Place, Try, Written};

/// Sessions that a dry run looks into: each may ask git a dozen times.
const LOOKED_INTO: usize = 64;

pub async fn start(call: Call, params: RunStartParams) -> Result<RunStartResult, Fault> {
    let host = &call.host;
    if let Some(env) = &params.inherit_env {
        check_variables("inherit_env", env)?;
    }
    let name = params.file.as_deref().unwrap_or("connector.json");
    let file = connector::parse(name, &params.connector.text()).map_err(|error| {
        let problems: Vec<Value> = error
            .problems
            .iter()
            .map(|one| json!({ "line": one.line, "column": one.column, "text": one.text }))
            .collect();
        Fault::new(FaultKind::InvalidParams, error.to_string()).with("problems", problems)
    })?;
    if let Some(run) = &params.resume {
        return resume(host, run, &file, &params);
    }
    let cwd = cwd(params.cwd.as_deref())?;
    if params.dry_run {
        let place = Place::none(&host.runs);
        let plan = planned(&file, &place, &params.only)?;
        let written = apart(host, &place, &params, written_of(&params, cwd, plan)).await?;
        return dry_run(host, place, written).await;
    }
    // Checked before anything is made.
    planned(&file, &Place::none(&host.runs), &params.only)?;
    let place = host.runs.reserve()?;
    let run = place.run.clone();
    let scratchpad = place.scratchpad.display().to_string();
    let written = planned(&file, &place, &params.only).map(|plan| Written {
        run: run.clone(),
        scratchpad: place.scratchpad.clone(),
        ..written_of(&params, cwd, plan)
    });
    let written = match written {
        Ok(written) => apart(host, &place, &params, written).await,
        Err(fault) => Err(fault),
    };
    let written = match written {
        Ok(written) => written,
        Err(fault) => {
            place.give_back();
            return Err(fault);
        }
    };
    let notes = written.plan.notes.clone();
    run_file::begin(host, place, written)?;
    Ok(RunStartResult { run: Some(run), scratchpad: Some(scratchpad), notes, plan: None })
}

/// With worktrees of its own, where those of the file are taken.
async fn apart(
    host: &Arc<Host>,
    place: &Place,
    params: &RunStartParams,
    mut written: Written,
) -> Result<Written, Fault> {
    if !params.reuse_worktrees {
        written.renamed = run_file::fresh(host, &written.plan, &place.run, &written.cwd).await?;
        run_file::rename(&mut written.plan, &written.renamed);
    }
    Ok(written)
}

/// The same run once more, with the file as it is now.
fn resume(
    host: &Arc<Host>,
    run: &str,
    file: &Connector,
    params: &RunStartParams,
) -> Result<RunStartResult, Fault> {
    if params.dry_run {
        return Err(fault::invalid("resume and dry_run exclude each other"));
    }
    let (place, earlier) = host.runs.earlier(run)?;
    let names: Vec<String> = earlier.plan.phases.iter().map(|phase| phase.name.clone()).collect();
    let mut plan = planned(file, &place, &params.only)?;
    if params.only.is_empty() && !is_same(&plan, &earlier.plan) {
        // It was for some of the phases then, too.
        plan = planned(file, &place, &names).map_err(|_| run_file::another(&place.run))?;
    }
    if !is_same(&plan, &earlier.plan) {
        return Err(run_file::another(&place.run));
    }
    run_file::rename(&mut plan, &earlier.renamed);
    let notes = plan.notes.clone();
    let (run, scratchpad) = (place.run.clone(), place.scratchpad.clone());
    let written = Written {
        run: run.clone(),
        scratchpad: scratchpad.clone(),
        renamed: earlier.renamed,
        ..written_of(params, cwd(Some(&earlier.cwd))?, plan)
    };
    run_file::again(host, place, written)?;
    let scratchpad = Some(scratchpad.display().to_string());
    Ok(RunStartResult { run: Some(run), scratchpad, notes, plan: None })
}

/// The same phases with the same workers; what they are told may differ.
fn is_same(plan: &Plan, other: &Plan) -> bool {
    let names = |plan: &Plan| -> Vec<(String, Vec<String>)> {
        let workers = |phase: &connector::plan::PlannedPhase| {
            phase.workers.iter().map(|worker| worker.name.clone()).collect()
        };
        plan.phases.iter().map(|phase| (phase.name.clone(), workers(phase))).collect()
    };
    names(plan) == names(other)
}

fn written_of(params: &RunStartParams, cwd: String, plan: Plan) -> Written {
    Written {
        run: String::new(),
        file: params.file.clone(),
        cwd,
        scratchpad: Default::default(),
        plan,
        renamed: Default::default(),
        inherit_env: params.inherit_env.clone(),
    }
}

fn planned(file: &Connector, place: &Place, only: &[String]) -> Result<Plan, Fault> {
    let scratchpad = place.scratchpad.display().to_string();
    let params = PlanParams { run: &place.run, scratchpad: &scratchpad, only };
    let plan = connector::plan(file, &params).map_err(fault::invalid)?;
    let workers = plan.phases.iter().flat_map(|phase| &phase.workers);
    for until in workers.filter_map(|worker| worker.until.as_ref()) {
        convert::matcher::matcher(until)?;
    }
    Ok(plan)
}

fn cwd(asked: Option<&str>) -> Result<String, Fault> {
    let home = || std::env::var("HOME").unwrap_or_else(|_| "/".to_owned());
    let cwd = asked.map_or_else(home, str::to_owned);
    match Path::new(&cwd) {
        path if !path.is_absolute() => Err(fault::invalid(format!("{cwd} is not absolute"))),
        path if !path.is_dir() => Err(fault::invalid(format!("there is no directory {cwd}"))),
        _ => Ok(cwd),
    }
}

/// The plan, and for each worker what its plugins would make of it.
async fn dry_run(
    host: &Arc<Host>,
    place: Place,
    written: Written,
) -> Result<RunStartResult, Fault> {
    let notes = written.plan.notes.clone();
    let mut shown = written.plan.shown();
    let scratchpad = place.scratchpad.display().to_string();
    let written = Arc::new(Written {
        run: place.run.clone(),
        scratchpad: place.scratchpad.clone(),
        ..written
    });
    let jobs = Try::all(host, &written, place.dir());
    for one in jobs.into_iter().take(LOOKED_INTO) {
        let pointer = format!("/phases/{}/workers/{}/session", one.job.phase, one.job.worker);
        let would_be = match run_file::would_be(host, one.would_be()).await {
            Ok(would_be) => json!(would_be),
            Err(fault) => json!({ "refused": fault.message, "hint": fault.data.hint }),
        };
        if let Some(Value::Object(session)) = shown.pointer_mut(&pointer) {
            session.insert("would_be".to_owned(), would_be);
        }
    }
    Ok(RunStartResult { run: None, scratchpad: Some(scratchpad), notes, plan: Some(shown) })
}

pub async fn list(call: Call, params: RunListParams) -> Result<RunListResult, Fault> {
    let host = call.host.clone();
    let runs = tokio::task::spawn_blocking(move || host.runs.list(params.detail)).await;
    Ok(RunListResult { runs: runs.unwrap_or_default() })
}

pub async fn info(call: Call, params: RunParams) -> Result<RunInfo, Fault> {
    let host = call.host.clone();
    let run = params.run.clone();
    let info = tokio::task::spawn_blocking(move || host.runs.info(&run)).await;
    info.unwrap_or_else(|_| Err(run_file::unknown(&params.run)))
}

pub async fn cancel(call: Call, params: RunParams) -> Result<RunCancelResult, Fault> {
    let by = call.peer.client();
    let why = by.map_or_else(|| "cancelled".to_owned(), |by| format!("cancelled by {by}"));
    let (state, already_ended) = call.host.runs.cancel(&params.run, &why).await?;
    Ok(RunCancelResult { cancelled: true, already_ended, state })
}

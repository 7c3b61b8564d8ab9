//! `run.*`: carrying out connector files.

use greenroom_protocol::Fault;
use greenroom_protocol::api::run::{
    RunCancelResult, RunInfo, RunListParams, RunListResult, RunParams, RunStartParams,
    RunStartResult,
};

use crate::call::Call;
use crate::chains::check_variables;
use crate::sync::blocking;

pub(crate) async fn start(call: Call, params: RunStartParams) -> Result<RunStartResult, Fault> {
    if let Some(env) = &params.inherit_env {
        check_variables("inherit_env", env)?;
    }
    call.host.runs.start(params).await
}

pub(crate) async fn list(call: Call, params: RunListParams) -> Result<RunListResult, Fault> {
    let runs = call.host.runs.clone();
    Ok(RunListResult { runs: blocking(move || runs.list(params.detail)).await? })
}

pub(crate) async fn info(call: Call, params: RunParams) -> Result<RunInfo, Fault> {
    let runs = call.host.runs.clone();
    blocking(move || runs.info(&params.run)).await?
}

pub(crate) async fn cancel(call: Call, params: RunParams) -> Result<RunCancelResult, Fault> {
    let by = call.peer.client();
    let why = by.map_or_else(|| "cancelled".to_owned(), |by| format!("cancelled by {by}"));
    let (state, already_ended) = call.host.runs.cancel(&params.run, &why).await?;
    Ok(RunCancelResult { cancelled: true, already_ended, state })
}

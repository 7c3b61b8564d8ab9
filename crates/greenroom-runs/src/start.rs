//! From a connector file to a run: begun, resumed where it failed, or only shown.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use greenroom_formats::connector::plan::PlannedPhase;
use greenroom_formats::connector::{self, Connector, Plan, PlanParams};
use greenroom_protocol::api::run::{RunStartParams, RunStartResult, RunState};
use greenroom_protocol::{Fault, FaultKind};
use serde_json::{Value, json};

use crate::attempt::Attempt;
use crate::files::{self, RunDir, RunRequest};
use crate::machine::Machine;
use crate::{Runs, driver, now, refused, unknown, worktrees};

/// Sessions that a dry run looks into: each may ask git a dozen times.
const LOOKED_INTO: usize = 64;

impl Runs {
    /// Reads a connector file and begins, resumes or shows its run. A run that has begun goes on
    /// without its caller.
    pub async fn start(self: &Arc<Runs>, params: RunStartParams) -> Result<RunStartResult, Fault> {
        let name = params.file.as_deref().unwrap_or("connector.json");
        let file = connector::parse(name, &params.connector.text()).map_err(|error| {
            Fault::new(FaultKind::InvalidParams, error.to_string())
                .with("problems", json!(error.problems))
        })?;
        if let Some(run) = &params.resume {
            return self.resume(run, &file, &params);
        }
        let cwd = cwd(params.cwd.as_deref())?;
        let shown = self.dir.next();
        if params.dry_run {
            let request = self.request(&file, &shown, &params, cwd).await?;
            return self.dry_run(shown, request).await;
        }
        // Checked before anything is made.
        self.planned(&file, &shown, &params.only)?;
        let dir = self.reserve()?;
        match self.request(&file, &dir, &params, cwd).await {
            Ok(request) => self.begin(dir, request),
            Err(fault) => {
                dir.give_back();
                Err(fault)
            }
        }
    }

    /// What a new run is to do, with worktrees of its own where those of the file are taken.
    async fn request(
        &self,
        file: &Connector,
        dir: &RunDir,
        params: &RunStartParams,
        cwd: String,
    ) -> Result<RunRequest, Fault> {
        let plan = self.planned(file, dir, &params.only)?;
        let mut request = requested(dir, params, cwd, plan, BTreeMap::new());
        if !params.reuse_worktrees {
            let RunRequest { plan, run, cwd, .. } = &request;
            let renamed = worktrees::fresh(&self.terminals, plan, run, cwd).await?;
            worktrees::rename(&mut request.plan, &renamed);
            request.renamed = renamed;
        }
        Ok(request)
    }

    fn planned(&self, file: &Connector, dir: &RunDir, only: &[String]) -> Result<Plan, Fault> {
        let scratchpad = dir.scratchpad.display().to_string();
        let params = PlanParams { run: &dir.run, scratchpad: &scratchpad, only };
        let plan = connector::plan(file, &params).map_err(Fault::invalid_params)?;
        let workers = plan.phases.iter().flat_map(|phase| &phase.workers);
        for until in workers.filter_map(|worker| worker.until.as_ref()) {
            self.terminals.matcher(until)?;
        }
        Ok(plan)
    }

    fn begin(self: &Arc<Runs>, dir: RunDir, request: RunRequest) -> Result<RunStartResult, Fault> {
        let machine = Machine::new(&request.plan, now());
        let noted =
            dir.write_request(&request).and_then(|()| dir.write_progress(&machine.progress));
        if let Err(error) = noted {
            dir.give_back();
            return Err(refused(&error));
        }
        Ok(self.set_off(dir, request, machine))
    }

    fn set_off(
        self: &Arc<Runs>,
        dir: RunDir,
        request: RunRequest,
        machine: Machine,
    ) -> RunStartResult {
        let result = RunStartResult {
            run: Some(dir.run.clone()),
            scratchpad: Some(dir.scratchpad.display().to_string()),
            notes: request.plan.notes.clone(),
            plan: None,
        };
        driver::spawn(self, dir, request, machine, false);
        result
    }

    /// Goes on with a run that has ended, from where it failed, with the file as it is now.
    fn resume(
        self: &Arc<Runs>,
        run: &str,
        file: &Connector,
        params: &RunStartParams,
    ) -> Result<RunStartResult, Fault> {
        if params.dry_run {
            return Err(Fault::invalid_params("resume and dry_run exclude each other"));
        }
        let dir = self.find(run)?;
        let earlier = dir.request().map_err(|_| unknown(run))?;
        let run = &dir.run;
        let mut plan = self.planned(file, &dir, &params.only)?;
        if params.only.is_empty() && !is_same(&plan, &earlier.plan) {
            // The earlier run may have been for some of the phases, too.
            let names: Vec<String> =
                earlier.plan.phases.iter().map(|phase| phase.name.clone()).collect();
            plan = self.planned(file, &dir, &names).map_err(|_| other_file(run))?;
        }
        if !is_same(&plan, &earlier.plan) {
            return Err(other_file(run));
        }
        worktrees::rename(&mut plan, &earlier.renamed);
        let request = requested(&dir, params, cwd(Some(&earlier.cwd))?, plan, earlier.renamed);

        let _one = self.resuming.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.room()?;
        let progress = dir.progress().map_err(|error| refused(&error))?;
        let conflict = |why: &str| Fault::new(FaultKind::Conflict, format!("run {run} {why}"));
        if self.active().contains_key(run) || progress.state == RunState::Running {
            return Err(conflict("is still at work"));
        }
        if progress.state == RunState::Done {
            return Err(conflict("went well: nothing of it is left to do"));
        }
        let machine = Machine::again(&request.plan, progress).ok_or_else(|| other_file(run))?;
        files::private_dir(&dir.scratchpad)
            .and_then(|()| dir.write_request(&request))
            .and_then(|()| dir.write_progress(&machine.progress))
            .map_err(|error| refused(&error))?;
        Ok(self.set_off(dir, request, machine))
    }

    /// The plan, and for each worker what its plugins would make of it.
    async fn dry_run(&self, dir: RunDir, request: RunRequest) -> Result<RunStartResult, Fault> {
        let notes = request.plan.notes.clone();
        let mut shown = request.plan.shown();
        let request = Arc::new(request);
        let first = Attempt::first_of_all(&self.terminals, &request, &dir);
        for one in first.into_iter().take(LOOKED_INTO) {
            let pointer = format!("/phases/{}/workers/{}/session", one.job.phase, one.job.worker);
            let would_be = match self.terminals.would_be(one.would_be()).await {
                Ok(would_be) => json!(would_be),
                Err(fault) => json!({ "refused": fault.message, "hint": fault.data.hint }),
            };
            if let Some(Value::Object(session)) = shown.pointer_mut(&pointer) {
                session.insert("would_be".to_owned(), would_be);
            }
        }
        let scratchpad = Some(dir.scratchpad.display().to_string());
        Ok(RunStartResult { run: None, scratchpad, notes, plan: Some(shown) })
    }
}

fn requested(
    dir: &RunDir,
    params: &RunStartParams,
    cwd: String,
    plan: Plan,
    renamed: BTreeMap<String, String>,
) -> RunRequest {
    RunRequest {
        run: dir.run.clone(),
        file: params.file.clone(),
        cwd,
        scratchpad: dir.scratchpad.clone(),
        plan,
        renamed,
        inherit_env: params.inherit_env.clone(),
    }
}

/// The same phases with the same workers; what the workers are told may differ.
fn is_same(plan: &Plan, other: &Plan) -> bool {
    let names = |phase: &PlannedPhase| -> Vec<String> {
        let workers = phase.workers.iter().map(|worker| worker.name.clone());
        std::iter::once(phase.name.clone()).chain(workers).collect()
    };
    plan.phases.iter().map(names).eq(other.phases.iter().map(names))
}

fn other_file(run: &str) -> Fault {
    let message = format!("cannot go on with run {run}: the file has other phases or workers");
    Fault::new(FaultKind::InvalidParams, message).hint("start it anew, without resume")
}

fn cwd(asked: Option<&str>) -> Result<String, Fault> {
    let home = || std::env::var("HOME").unwrap_or_else(|_| "/".to_owned());
    let cwd = asked.map_or_else(home, str::to_owned);
    if !Path::new(&cwd).is_absolute() {
        return Err(Fault::invalid_params(format!("{cwd} is not absolute")));
    }
    if !Path::new(&cwd).is_dir() {
        return Err(Fault::invalid_params(format!("there is no directory {cwd}")));
    }
    Ok(cwd)
}

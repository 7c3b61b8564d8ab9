//! `greenroom run`: carries out a connector file and shows how it goes.
//!
//! The file is read and checked here, so that a mistake is told with its line before a host is even
//! started; the host checks again and does the work. What is drawn comes from the event log, so it
//! goes on after a restart of the host.

mod progress;
mod runs;
mod shown;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueHint};
use clap_complete::engine::ArgValueCandidates;
use greenroom_client::EventStream;
use greenroom_client::{EventFilter, method};
use greenroom_formats::connector::{self, PlanParams};
use greenroom_protocol::api::event::Event;
use greenroom_protocol::api::run::{Document, RunInfo, RunParams, RunStartParams, RunState};
use greenroom_protocol::events::{EventData as _, RunEnded};
use progress::Progress;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Context;
use super::new::environment;
use crate::commands::completions::run_candidates;
use crate::error::{ExitResult, Failure, without_errno};
use crate::host::{HostClient, called};
use crate::input;

/// Run a team of sessions from a connector file
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  greenroom run pipeline.json\n  greenroom run review.connector.json --dry-run\n  greenroom run pipeline.json --only plan --only build\n  greenroom run pipeline.json --detach\n  greenroom run --resume last\n  greenroom run ls\n  greenroom run show r3\n  greenroom run stop last\n\nEach worker is an ordinary session: attach to it, read it, wait for it.\nThe run belongs to the host and goes on without this terminal; Ctrl-C asks once\n  and then stops it. Exit codes: 0 all went well, 1 a worker failed or the run was\n  stopped, 2 the file is wrong. A file called ls, show or stop is ./ls. The verb schema prints its format: schema connector."
)]
pub struct RunArgs {
    #[command(subcommand)]
    pub verb: Option<RunVerb>,
    /// The connector file, or - for stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath, required_unless_present = "resume")]
    pub file: Option<PathBuf>,
    /// Go on with a run that failed, or the last: what succeeded is not done again
    #[arg(long, value_name = "RUN", conflicts_with_all = ["dry_run", "only"])]
    pub resume: Option<String>,
    /// Show phases, workers and their sessions, and start nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Only this phase (repeatable); what it needs is taken as done
    #[arg(long, value_name = "PHASE")]
    pub only: Vec<String>,
    /// Print the run's id and leave it to the host
    #[arg(long, conflicts_with = "dry_run")]
    pub detach: bool,
    /// Go on in worktrees that an earlier run left, instead of taking new ones
    #[arg(long, conflicts_with = "resume")]
    pub reuse_worktrees: bool,
}

#[derive(Debug, Subcommand)]
pub enum RunVerb {
    /// List runs, also those that have ended
    #[command(visible_alias = "list")]
    Ls,
    /// Describe a run: phases, workers, sessions, branches
    Show {
        /// Its id, or last
        #[arg(value_name = "RUN", add = ArgValueCandidates::new(run_candidates))]
        run: String,
    },
    /// Stop runs and all their workers
    Stop {
        /// Their ids, or last
        #[arg(value_name = "RUN", required = true, add = ArgValueCandidates::new(run_candidates))]
        runs: Vec<String>,
    },
}

/// A second Ctrl-C within this time is an answer; later it is another question.
const ASKED: Duration = Duration::from_secs(10);

/// The line at the bottom counts seconds.
const TICK: Duration = Duration::from_secs(1);

pub async fn run(args: RunArgs, context: &Context) -> ExitResult {
    match args.verb {
        Some(RunVerb::Ls) => return runs::list(context).await,
        Some(RunVerb::Show { run }) => return runs::show(run, context).await,
        Some(RunVerb::Stop { runs }) => return runs::stop(runs, context).await,
        None => {}
    }
    let (params, host) = match (&args.file, &args.resume) {
        // Checked before a host is even started.
        (Some(file), _) => (params(file, &args, context)?, context.host().await?),
        (None, resume) => {
            let host = context.host().await?;
            let file = file_of(&host, resume.as_deref().unwrap_or_default()).await?;
            (params(&file, &args, context)?, host)
        }
    };
    let attempt = match &args.resume {
        Some(run) => format!("go on with run {run}"),
        None => format!("run {}", params.file.as_deref().unwrap_or_default()),
    };
    if args.dry_run {
        let result = host.call::<method::RunStart>(&params, &attempt).await?;
        return context.out.answer(&result, || shown::plan(&context.out, &result));
    }
    // Before the run begins, so that nothing is missed.
    let filter = EventFilter { sessions: Vec::new(), kinds: vec!["run.*".to_owned()] };
    let mut events = host.client.events(None, filter, true);
    if !args.detach {
        events.start().await.map_err(|error| called("follow the run", error))?;
    }
    let started = host.call::<method::RunStart>(&params, &attempt).await?;
    context.out.notes(&started.notes);
    let run = started.run.clone().unwrap_or_default();
    if args.detach {
        return context.out.answer(&started, || run);
    }
    let mut following = Following { host, run, events, progress: Progress::new(&context.out) };
    let info = following.follow().await?;
    finish(&info, context)
}

/// The file that an earlier run was started with.
async fn file_of(host: &HostClient, run: &str) -> Result<PathBuf, Failure> {
    let params = RunParams { run: run.to_owned() };
    let info = host.call::<method::RunInfo>(&params, &format!("go on with run {run}")).await?;
    match info.file.filter(|file| file != "-") {
        Some(file) => Ok(file.into()),
        None => Err(Failure::usage(format!("cannot go on with run {run}: its file is not known"))
            .hint(format!("say it: greenroom run FILE --resume {run}"))),
    }
}

/// The file, checked, and where we are.
fn params(file: &Path, args: &RunArgs, context: &Context) -> Result<RunStartParams, Failure> {
    let name = file.display().to_string();
    let text = read(file)?;
    let wrong = |text: String| {
        Failure::usage(text).hint("greenroom schema connector prints the format of the file")
    };
    let file = connector::parse(&name, &text).map_err(|error| wrong(error.to_string()))?;
    let plan = PlanParams { run: "r0", scratchpad: "/", only: &args.only };
    connector::plan(&file, &plan)
        .map_err(|error| Failure::usage(format!("cannot run {name}: {error}")))?;
    let cwd = std::env::current_dir()
        .map_err(|error| Failure::io("cannot tell the working directory", &error))?;
    let cwd = cwd.to_str().ok_or_else(|| {
        Failure::failed(format!("cannot run a file in {}: not UTF-8", cwd.display()))
    })?;
    Ok(RunStartParams {
        connector: Document::Text(text),
        file: Some(name),
        cwd: Some(cwd.to_owned()),
        inherit_env: Some(environment(&context.out)),
        only: args.only.clone(),
        dry_run: args.dry_run,
        resume: args.resume.clone(),
        reuse_worktrees: args.reuse_worktrees,
    })
}

fn read(file: &Path) -> Result<String, Failure> {
    let refuse = |error: std::io::Error| {
        let said = Failure::io(format!("cannot read {}", file.display()), &error);
        Failure::usage(said.message).hint("greenroom run FILE; greenroom run ls lists runs")
    };
    input::read_text(file, connector::FILE_MAX as u64).map_err(refuse)
}

/// How it went: the answer, and an exit code.
fn finish(info: &RunInfo, context: &Context) -> ExitResult {
    context.out.answer(info, || shown::outcome(&context.out, info))?;
    let why =
        info.why.as_deref().map(|why| format!(": {}", without_errno(why))).unwrap_or_default();
    let failure = match info.state {
        RunState::Done => return Ok(0),
        RunState::Cancelled => Failure::failed(format!("run {} was stopped{why}", info.run)),
        _ => Failure::failed(format!("run {} failed{why}", info.run)),
    };
    let failed = info.phases.iter().flat_map(|phase| &phase.workers);
    let session = failed
        .filter(|worker| worker.why.is_some() && worker.state.word() == "failed")
        .find_map(|worker| worker.session.as_ref());
    Err(match session {
        Some(id) => failure.hint(format!(
            "see what the worker showed with greenroom read {id}, go on with greenroom run --resume {}",
            info.run
        )),
        None => failure.hint(format!("its outcome is in {}/run.json", info.scratchpad)),
    })
}

struct Following {
    host: HostClient,
    run: String,
    events: EventStream,
    progress: Progress,
}

impl Following {
    async fn follow(&mut self) -> Result<RunInfo, Failure> {
        let mut interrupts = signal(SignalKind::interrupt())
            .map_err(|error| Failure::io("cannot watch for Ctrl-C", &error))?;
        loop {
            let event = tokio::select! {
                event = self.events.next() => {
                    event.map_err(|error| called("follow the run", error))?
                }
                _ = interrupts.recv() => {
                    if self.asked(&mut interrupts).await {
                        return self.stop().await;
                    }
                    continue;
                }
                () = tokio::time::sleep(TICK) => {
                    self.progress.tick();
                    // A host that died with its last step done could not tell of it.
                    let info = self.info().await?;
                    if info.state != RunState::Running {
                        self.progress.clear();
                        return Ok(info);
                    }
                    continue;
                }
            };
            let Some(event) = event.filter(|event| event.data["run"] == self.run.as_str()) else {
                continue;
            };
            if self.take(&event) {
                break;
            }
        }
        self.progress.clear();
        self.info().await
    }

    async fn info(&self) -> Result<RunInfo, Failure> {
        let params = RunParams { run: self.run.clone() };
        self.host.call::<method::RunInfo>(&params, &format!("describe run {}", self.run)).await
    }

    /// True when it was the last.
    fn take(&mut self, event: &Event) -> bool {
        self.progress.event(event);
        event.kind == RunEnded::KIND
    }

    /// Asks a person once; where there is none, Ctrl-C means what it says.
    async fn asked(&mut self, interrupts: &mut Signal) -> bool {
        if !std::io::stderr().is_terminal() || !std::io::stdin().is_terminal() {
            return true;
        }
        let run = &self.run;
        self.progress.say(&format!(
            "stop run {run} and its workers? Ctrl-C again: yes; otherwise it goes on"
        ));
        let deadline = tokio::time::Instant::now() + ASKED;
        loop {
            tokio::select! {
                _ = interrupts.recv() => return true,
                () = tokio::time::sleep_until(deadline) => {
                    self.progress.say("it goes on");
                    return false;
                }
                event = self.events.next() => match event {
                    Ok(Some(event)) if event.data["run"] == self.run.as_str() => {
                        if self.take(&event) {
                            return true;
                        }
                    }
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => return false,
                }
            }
        }
    }

    async fn stop(&mut self) -> Result<RunInfo, Failure> {
        self.progress.say("stopping the workers");
        let params = RunParams { run: self.run.clone() };
        let attempt = format!("stop run {}", self.run);
        let _ = self.host.call::<method::RunCancel>(&params, &attempt).await?;
        self.progress.clear();
        self.info().await
    }
}

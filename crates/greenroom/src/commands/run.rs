//! `greenroom run`: carries out a connector file and shows how it goes.
//!
//! The file is read and checked here, so that a mistake is told with its line before a host is even
//! started; the host checks again and does the work. What is drawn comes from the event log, so it goes
//! on after a restart of the host.

mod progress;
mod shown;

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use greenroom_client::EventFilter;
use greenroom_client::EventStream;
use greenroom_protocol::api::event::Event;
use greenroom_protocol::api::run::{
    Document, RunCancelResult, RunInfo, RunParams, RunStartParams, RunStartResult, RunState,
};
use greenroom_protocol::connector::{self, PlanParams};
use greenroom_protocol::fault::exit;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Context;
use super::new::environment;
use crate::cli::RunArgs;
use crate::error::{Failure, Outcome, without_errno};
use crate::host::{Host, called};
use progress::Progress;

/// A second Ctrl-C within this time is an answer; later it is another question.
const ASKED: Duration = Duration::from_secs(10);

/// The line at the bottom counts seconds.
const TICK: Duration = Duration::from_secs(1);

pub async fn run(args: RunArgs, context: &Context) -> Outcome {
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
        let result: RunStartResult = host.call("run.start", &params, &attempt).await?;
        context.out.answer(&result, || shown::plan(&context.out, &result))?;
        return Ok(0);
    }
    // Before the run begins, so that nothing is missed.
    let filter = EventFilter { sessions: Vec::new(), kinds: vec!["run.*".to_owned()] };
    let mut events = host.client.events(None, filter, true);
    if !args.detach {
        events.start().await.map_err(|error| called("follow the run", error))?;
    }
    let started: RunStartResult = host.call("run.start", &params, &attempt).await?;
    for note in &started.notes {
        context.out.note(&format!("note: {note}"));
    }
    let run = started.run.clone().unwrap_or_default();
    if args.detach {
        context.out.answer(&started, || run)?;
        return Ok(0);
    }
    let mut following = Following { host, run, events, progress: Progress::new(&context.out) };
    let info = following.follow().await?;
    finish(&info, context)
}

/// The file that an earlier run was started with.
async fn file_of(host: &Host, run: &str) -> Result<PathBuf, Failure> {
    let params = RunParams { run: run.to_owned() };
    let info: RunInfo = host.call("run.info", &params, &format!("go on with run {run}")).await?;
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
    })
}

fn read(file: &Path) -> Result<String, Failure> {
    // Exit code 2 as for a file that is wrong: nothing was begun.
    let refuse = |error: std::io::Error| {
        let failure = Failure::io(format!("cannot read {}", file.display()), &error);
        Failure { exit: exit::USAGE, ..failure }
    };
    let most = connector::FILE_MAX as u64 + 1;
    let mut text = String::new();
    match file.to_str() {
        Some("-") => std::io::stdin().take(most).read_to_string(&mut text).map_err(refuse)?,
        _ => {
            let open = std::fs::File::open(file).map_err(refuse)?;
            open.take(most).read_to_string(&mut text).map_err(refuse)?
        }
    };
    Ok(text)
}

/// How it went: the answer, and an exit code.
fn finish(info: &RunInfo, context: &Context) -> Outcome {
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
    host: Host,
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
        self.host.call("run.info", &params, &format!("describe run {}", self.run)).await
    }

    /// True when it was the last.
    fn take(&mut self, event: &Event) -> bool {
        self.progress.event(event);
        event.kind == "run.ended"
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
        let _: RunCancelResult = self.host.call("run.cancel", &params, &attempt).await?;
        self.progress.clear();
        self.info().await
    }
}

//! `greenroom new`: starts a session and prints its id; with `-A` attaches to one that runs
//! already.
//!
//! The session gets this process's directory and environment, over the socket and never in the
//! arguments of anything.

use std::collections::BTreeMap;

use clap::Args;
use clap_complete::engine::ArgValueCandidates;
use greenroom_client::method;
use greenroom_protocol::FaultKind;
use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::session::{CreateParams, CreateResult, DryRun, ListParams, Listed};

use super::Context;
use super::attach::prefix;
use crate::attach::keys::Prefix;
use crate::attach::{AttachOptions, HISTORY, terminal};
use crate::cli::{SessionArgs, utf8};
use crate::commands::completions::live_candidates;
use crate::error::{ExitResult, Failure};
use crate::host::HostClient;
use crate::output::Output;

/// Start a session and print its id
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  greenroom new\n  greenroom new --name build --cwd ~/src/app -- make -j8\n  greenroom new -A work\n  greenroom new --attach --env RUST_LOG=debug --label team=core -- claude\n  greenroom new --worktree feat-auth --sandbox --timeout 90m -- claude\n  greenroom new --worktree feat-x --sandbox --dry-run\n  id=$(greenroom new -- bash -c 'echo hi')\n\nThe program stands behind --. Without --name the session is called after its\n  worktree or program: bash, make-2. A name is free again once its session has\n  ended; on a terminal the name is printed beside the id."
)]
pub struct NewArgs {
    #[command(flatten)]
    pub session: SessionArgs,
    /// Attach to it at once
    #[arg(long)]
    pub attach: bool,
    /// Attach to the session of this name (or --name) if it runs, else start it
    #[arg(
        short = 'A',
        long = "or-attach",
        value_name = "NAME",
        num_args = 0..=1,
        add = ArgValueCandidates::new(live_candidates)
    )]
    pub or_attach: Option<Option<String>>,
}

pub async fn run(args: NewArgs, context: &Context) -> ExitResult {
    let mut params = params(&args.session, &context.out)?;
    let attaches = (args.attach || args.or_attach.is_some()) && !params.dry_run;
    let prefix = if attaches { Some(prefix(None)?) } else { None };
    if attaches && !terminal::is_here() {
        let message = "cannot attach to a new session: stdin and stdout are not both a terminal; \
                       nothing was started";
        return Err(Failure::failed(message)
            .hint("leave --attach out, and use greenroom send, read and wait"));
    }
    let wanted = match &args.or_attach {
        Some(name) => Some(wanted_name(name.as_deref(), &mut params)?),
        None => None,
    };
    let host = context.host().await?;
    if let (Some(name), Some(prefix)) = (&wanted, prefix)
        && let Some(session) = live_as(&host, name).await?
    {
        return attach_to(&host, session, prefix, context).await;
    }
    let made = match (create(&host, &params).await, &wanted) {
        (Err(failure), Some(name)) if failure.is(FaultKind::Conflict) => {
            // Somebody else started it in between.
            let Some(session) = live_as(&host, name).await? else { return Err(failure) };
            let Some(prefix) = prefix else { return Err(failure) };
            return attach_to(&host, session, prefix, context).await;
        }
        (made, _) => made?,
    };
    if made.dry_run.is_some() {
        show(&made, context)?;
        return Ok(0);
    }
    for note in &made.notes {
        context.out.note(&format!("note: {note}"));
    }
    match prefix {
        None => {
            // A script wants the id and nothing else; a person also wants to know what it is
            // called.
            context.out.answer(&made, || match (&made.name, context.out.terminal) {
                (Some(name), true) => format!("{}  {name}", made.session),
                _ => made.session.clone(),
            })?;
            let name = made.name.as_ref().unwrap_or(&made.session);
            context.out.hint(&format!("use it with greenroom attach {name}"));
            Ok(0)
        }
        Some(prefix) => attach_to(&host, made.session, prefix, context).await,
    }
}

async fn attach_to(
    host: &HostClient,
    session: String,
    prefix: Prefix,
    context: &Context,
) -> ExitResult {
    let options =
        AttachOptions { session, read_only: false, exclusive: false, prefix, history: HISTORY };
    super::attach::attach(host, &options, context).await
}

/// The name behind `-A`, else that of `--name`, else the worktree's.
fn wanted_name(name: Option<&str>, params: &mut CreateParams) -> Result<String, Failure> {
    let slug = params.ask.worktree.yes().map(|worktree| worktree.slug.clone());
    match (name, &params.name) {
        (Some(name), Some(other)) if name != other => {
            let message = format!("cannot start a session: -A says {name} and --name {other}");
            return Err(Failure::usage(message));
        }
        (Some(name), _) => params.name = Some(name.to_owned()),
        (None, Some(_)) => {}
        (None, None) => params.name = slug,
    }
    params.name.clone().ok_or_else(|| {
        Failure::usage("cannot tell which session -A means: it needs a name")
            .hint("greenroom new -A work")
    })
}

/// The live session of exactly this name, or id.
async fn live_as(host: &HostClient, name: &str) -> Result<Option<String>, Failure> {
    let states = ["starting", "running"].map(str::to_owned).to_vec();
    let params =
        ListParams { detail: true, state: Some(OneOrMany::Many(states)), ..ListParams::default() };
    let list = host.call::<method::SessionList>(&params, "list sessions").await?;
    Ok(list.sessions.into_iter().find_map(|listed| match listed {
        Listed::Info(info) if info.name.as_deref() == Some(name) || info.id == name => {
            Some(info.id)
        }
        _ => None,
    }))
}

/// Starts it.
pub async fn create(host: &HostClient, params: &CreateParams) -> Result<CreateResult, Failure> {
    let attempt = match params.argv().filter(|_| !params.dry_run) {
        _ if params.dry_run => "plan the session".to_owned(),
        Some(argv) => format!("start {}", argv[0]),
        None => "start a shell".to_owned(),
    };
    host.call::<method::SessionCreate>(params, &attempt).await
}

/// A session that was not started.
pub fn show(made: &CreateResult, context: &Context) -> Result<(), Failure> {
    context.out.answer(made, || made.dry_run.as_deref().map(plan).unwrap_or_default()).map(drop)
}

fn plan(dry_run: &DryRun) -> String {
    let mut text = format!("would start {}\n", dry_run.command.join(" "));
    let limit = |ms: Option<u64>| ms.map(crate::output::span);
    let rows = [
        ("in", Some(dry_run.cwd.clone())),
        ("branch", dry_run.branch.clone()),
        ("sandbox", dry_run.sandbox.clone()),
        ("timeout", limit(dry_run.timeout_ms)),
        ("idle timeout", limit(dry_run.idle_timeout_ms)),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            text.push_str(&format!("  {name:<13}{value}\n"));
        }
    }
    if dry_run.plugins.is_empty() {
        return text + "no session plugin is asked for";
    }
    text.push_str("plugins, in the order in which they run:\n");
    for plugin in &dry_run.plugins {
        let mut name = plugin.name.as_str();
        let nothing = ["changes nothing".to_owned()];
        let changes = if plugin.changes.is_empty() { &nothing[..] } else { &plugin.changes };
        for change in changes {
            text.push_str(&format!("  {name:<13}{change}\n"));
            name = "";
        }
    }
    text
}

/// What the flags and this process say about the session.
pub fn params(args: &SessionArgs, out: &Output) -> Result<CreateParams, Failure> {
    let cwd = match &args.cwd {
        Some(dir) => std::path::absolute(dir),
        None => std::env::current_dir(),
    };
    let cwd = cwd.map_err(|error| Failure::io("cannot tell the working directory", &error))?;
    let mut command = Vec::new();
    for word in &args.command {
        let word = word.to_str().ok_or_else(|| {
            Failure::usage(format!(
                "cannot start a session: the argument {} is not UTF-8",
                word.display()
            ))
        })?;
        command.push(word.to_owned());
    }
    Ok(CreateParams {
        command: (!command.is_empty()).then_some(command),
        cwd: Some(utf8(&cwd)?),
        inherit_env: Some(environment(out)),
        size: args.size.or_else(terminal::window),
        name: args.name.clone(),
        labels: args.label.iter().cloned().collect(),
        task: args.task.clone(),
        backend: args.backend.clone(),
        effort: args.effort.clone(),
        ask: args.ask()?,
        with: args.with.clone(),
        dry_run: args.dry_run,
        ..CreateParams::default()
    })
}

/// This process's variables.
pub fn environment(out: &Output) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    for (name, value) in std::env::vars_os() {
        match (name.to_str(), value.to_str()) {
            (Some(name), Some(value)) => {
                kept.insert(name.to_owned(), value.to_owned());
            }
            // Its value may be secret; its name is not.
            _ => out.note(&format!(
                "note: the variable {} is not UTF-8 and is left out",
                name.display()
            )),
        }
    }
    kept
}

//! `greenroom completions`: scripts for the shell, and the live names they ask us for.
//!
//! The script calls this program with `COMPLETE=<shell>` for every Tab; `main` answers before
//! anything else. Names of sessions, worktrees and runs come from the running host, which is never
//! started for this.

use std::time::Duration;

use clap::Args;
use clap_complete::CompletionCandidate;
use clap_complete::env::Shells;
use greenroom_client::{Client, Method, Options, method};
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::run::{RunInfo, RunListParams};
use greenroom_protocol::api::session::{ListParams, Listed, SessionInfo, SessionState};
use serde_json::json;

use super::Context;
use crate::error::{ExitResult, Failure};
use crate::host::Address;

/// Print a completion script; it completes live session names
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  source <(greenroom completions bash)\n  greenroom completions zsh > ~/.zfunc/_greenroom\n  greenroom completions fish | source"
)]
pub struct CompletionsArgs {
    /// For this shell
    #[arg(value_parser = ["bash", "zsh", "fish"])]
    pub shell: String,
}

/// The variable by which a completion script calls us.
pub const VARIABLE: &str = "COMPLETE";
/// A Tab that takes longer than this is worse than no answer.
const PATIENCE: Duration = Duration::from_millis(300);

pub async fn run(CompletionsArgs { shell }: CompletionsArgs, context: &Context) -> ExitResult {
    let refuse = |error| Failure::io("cannot write the completion script", &error);
    let shells = Shells::builtins();
    let known = shells.completer(&shell).ok_or(std::io::ErrorKind::Unsupported.into());
    let mut script = Vec::new();
    // By name, not by path: an upgraded program completes itself.
    known
        .and_then(|shell| {
            shell.write_registration(VARIABLE, "greenroom", "greenroom", "greenroom", &mut script)
        })
        .map_err(refuse)?;
    let script = String::from_utf8_lossy(&script).into_owned();
    context.out.answer(&json!({ "shell": shell, "script": script }), || script.clone())
}

/// Ids and names of the sessions, live ones first, with what they run.
pub fn session_candidates() -> Vec<CompletionCandidate> {
    sessions(SessionState::is_live, true)
}

/// Sessions that run.
pub fn live_candidates() -> Vec<CompletionCandidate> {
    sessions(SessionState::is_live, false)
}

/// Sessions that have ended.
pub fn ended_candidates() -> Vec<CompletionCandidate> {
    sessions(|state| !state.is_live(), false)
}

/// Sessions whose state passes `first`, then, with `others`, the rest.
fn sessions(first: fn(SessionState) -> bool, others: bool) -> Vec<CompletionCandidate> {
    let params = ListParams { detail: true, ..ListParams::default() };
    asked::<method::SessionList>(&params, |list| {
        let infos = list.sessions.iter().filter_map(Listed::info);
        let (wanted, rest): (Vec<_>, Vec<_>) = infos.partition(|info| first(info.state));
        let rest = if others { rest } else { Vec::new() };
        let named = |(place, info): (usize, &SessionInfo)| -> Vec<CompletionCandidate> {
            let about = format!("{} {}", info.state, info.command.join(" "));
            let names = std::iter::once(&info.id).chain(&info.name);
            names.map(|name| candidate(name, &about).display_order(Some(place))).collect()
        };
        wanted.into_iter().chain(rest).enumerate().flat_map(named).collect()
    })
}

/// Slugs of worktrees, with where their repository is.
pub fn worktree_candidates() -> Vec<CompletionCandidate> {
    asked::<method::WorktreeList>(&Empty {}, |list| {
        list.worktrees.iter().map(|entry| candidate(&entry.slug, &entry.repo)).collect()
    })
}

/// Ids of runs, with what they are.
pub fn run_candidates() -> Vec<CompletionCandidate> {
    asked::<method::RunList>(&RunListParams::default(), |list| {
        let one = |run: &RunInfo| {
            let name = run.name.as_ref().or(run.file.as_ref()).cloned().unwrap_or_default();
            candidate(&run.run, &format!("{} {name}", run.state.word()))
        };
        list.runs.iter().map(one).chain([candidate("last", "the newest")]).collect()
    })
}

fn candidate(name: &str, about: &str) -> CompletionCandidate {
    let about: String = about.chars().filter(|c| !c.is_control()).take(60).collect();
    CompletionCandidate::new(name).help(Some(about.into()))
}

/// What the running host answers in time; nothing at all if it is not there.
fn asked<M: Method>(
    params: &M::Params,
    names: impl FnOnce(M::Result) -> Vec<CompletionCandidate>,
) -> Vec<CompletionCandidate> {
    let answer = async {
        let socket = Address::from_env().ok()?.socket;
        let options = Options { reconnect: false, patience: Duration::ZERO };
        let client = Client::connect_with(&socket, options).await.ok()?;
        client.call::<M>(params).await.ok()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return Vec::new() };
    let answer = runtime.block_on(async { tokio::time::timeout(PATIENCE, answer).await });
    answer.ok().flatten().map(names).unwrap_or_default()
}

//! `greenroom completions`: scripts for the shell, and the live names they ask us for.
//!
//! The script calls this program with `COMPLETE=<shell>` for every Tab; `main` answers before
//! anything else. Session names come from the running host, which is never started for this.

use std::time::Duration;

use clap_complete::CompletionCandidate;
use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};
use greenroom_client::{Client, Options};
use greenroom_protocol::api::session::{ListParams, Listed, SessionState};
use serde_json::json;

use super::Context;
use crate::cli::{CompletionsArgs, ShellName};
use crate::error::{Failure, Outcome};
use crate::host::Address;

/// The variable by which a completion script calls us.
pub const VARIABLE: &str = "COMPLETE";
/// A Tab that takes longer than this is worse than no answer.
const PATIENCE: Duration = Duration::from_millis(300);

pub fn run(args: &CompletionsArgs, context: &Context) -> Outcome {
    let (shell, name): (&dyn EnvCompleter, _) = match args.shell {
        ShellName::Bash => (&Bash, "bash"),
        ShellName::Zsh => (&Zsh, "zsh"),
        ShellName::Fish => (&Fish, "fish"),
    };
    let mut script = Vec::new();
    // By name, not by path: an upgraded program completes itself.
    shell
        .write_registration(VARIABLE, "greenroom", "greenroom", "greenroom", &mut script)
        .map_err(|error| Failure::io("cannot write the completion script", &error))?;
    let script = String::from_utf8_lossy(&script).into_owned();
    context.out.answer(&json!({ "shell": name, "script": script }), || script.clone())?;
    Ok(0)
}

/// Ids and names of the sessions, live ones first, with what they run. Nothing at all if the host is not there.
pub fn session_candidates() -> Vec<CompletionCandidate> {
    candidates(&[SessionState::Running, SessionState::Starting], true)
}

/// Those that run.
pub fn live_candidates() -> Vec<CompletionCandidate> {
    candidates(&[SessionState::Running, SessionState::Starting], false)
}

/// Those that have ended.
pub fn ended_candidates() -> Vec<CompletionCandidate> {
    candidates(&[SessionState::Exited, SessionState::Failed, SessionState::Lost], false)
}

/// Those in one of the states `first`, then the `others`.
fn candidates(first: &'static [SessionState], others: bool) -> Vec<CompletionCandidate> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return Vec::new() };
    let asked =
        runtime.block_on(async { tokio::time::timeout(PATIENCE, ask(first, others)).await });
    asked.ok().flatten().unwrap_or_default()
}

async fn ask(first: &[SessionState], others: bool) -> Option<Vec<CompletionCandidate>> {
    let socket = Address::from_env().ok()?.socket;
    let options = Options { reconnect: false, patience: Duration::ZERO };
    let client = Client::connect_with(&socket, options).await.ok()?;
    let params = ListParams { detail: true, ..ListParams::default() };
    let list = client.session_list(&params).await.ok()?;
    let infos = list.sessions.into_iter().filter_map(|listed| match listed {
        Listed::Info(info) => Some(info),
        Listed::Id(_) => None,
    });
    let (wanted, rest): (Vec<_>, Vec<_>) = infos.partition(|info| first.contains(&info.state));
    let rest = if others { rest } else { Vec::new() };
    let mut candidates = Vec::new();
    for (place, info) in wanted.into_iter().chain(rest).enumerate() {
        let about = format!("{} {}", info.state, info.command.join(" "));
        let about: String = about.chars().filter(|c| !c.is_control()).take(60).collect();
        for name in std::iter::once(&info.id).chain(&info.name) {
            let candidate = CompletionCandidate::new(name).help(Some(about.clone().into()));
            candidates.push(candidate.display_order(Some(place)));
        }
    }
    Some(candidates)
}

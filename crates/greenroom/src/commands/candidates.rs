//! Names of worktrees and runs for the shell's Tab. From the running host, which is never started for this.

use std::future::Future;
use std::time::Duration;

use clap_complete::CompletionCandidate;
use greenroom_client::{Client, Options};
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::run::RunListParams;

use crate::host::Address;

/// A Tab that takes longer than this is worse than no answer.
const PATIENCE: Duration = Duration::from_millis(300);

/// Slugs, with where their repository is.
pub fn worktree_candidates() -> Vec<CompletionCandidate> {
    asked(async {
        let list = connected().await?.worktree_list(&Empty {}).await.ok()?;
        let one = |entry: &greenroom_protocol::api::fence::WorktreeEntry| {
            candidate(&entry.slug, &entry.repo)
        };
        Some(list.worktrees.iter().map(one).collect())
    })
}

/// Ids of runs, with what they are.
pub fn run_candidates() -> Vec<CompletionCandidate> {
    asked(async {
        let list = connected().await?.run_list(&RunListParams::default()).await.ok()?;
        let one = |run: &greenroom_protocol::api::run::RunInfo| {
            let name = run.name.as_ref().or(run.file.as_ref()).cloned().unwrap_or_default();
            candidate(&run.run, &format!("{} {name}", run.state.word()))
        };
        Some(list.runs.iter().map(one).chain([candidate("last", "the newest")]).collect())
    })
}

fn candidate(name: &str, about: &str) -> CompletionCandidate {
    let about: String = about.chars().filter(|c| !c.is_control()).take(60).collect();
    CompletionCandidate::new(name).help(Some(about.into()))
}

async fn connected() -> Option<Client> {
    let socket = Address::from_env().ok()?.socket;
    let options = Options { reconnect: false, patience: Duration::ZERO };
    Client::connect_with(&socket, options).await.ok()
}

fn asked(work: impl Future<Output = Option<Vec<CompletionCandidate>>>) -> Vec<CompletionCandidate> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return Vec::new() };
    let asked = runtime.block_on(async { tokio::time::timeout(PATIENCE, work).await });
    asked.ok().flatten().unwrap_or_default()
}

//! What verbs that take several sessions share: which ones are meant, each one's outcome, and the
//! worst of them.
//!
//! In: names, or a choice such as `--all`. Out: what was done, told as it is asked for; each
//! failure on stderr; one exit code.

use greenroom_client::method;
use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::session::ListParams;

use super::Context;
use crate::error::{ExitResult, Failure};
use crate::host::HostClient;

/// A session to act on.
#[derive(Clone, Debug)]
pub struct Target {
    /// As the host knows it.
    pub session: String,
    /// As the user does.
    pub shown: String,
    /// Something of it runs, as far as is known: its program, or what that left.
    pub runs: bool,
}

/// Those the user named, each once.
pub fn named(names: Vec<String>) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::new();
    for name in names {
        if !targets.iter().any(|target| target.session == name) {
            targets.push(Target { session: name.clone(), shown: name, runs: true });
        }
    }
    targets
}

/// Those in one of these states with all of these labels; in any state if none is named.
pub async fn chosen(
    host: &HostClient,
    states: &[&str],
    labels: Vec<(String, String)>,
) -> Result<Vec<Target>, Failure> {
    let states: Vec<String> = states.iter().map(|state| (*state).to_owned()).collect();
    let state = (!states.is_empty()).then_some(OneOrMany::Many(states));
    let params = ListParams { detail: true, state, labels: labels.into_iter().collect() };
    let list = host.call::<method::SessionList>(&params, "list sessions").await?;
    let targets = list.sessions.iter().map(|listed| {
        let session = listed.id().to_owned();
        let Some(info) = listed.info() else {
            return Target { shown: session.clone(), session, runs: true };
        };
        let shown = match &info.name {
            Some(name) => format!("{session} ({name})"),
            None => session.clone(),
        };
        let runs = info.state.is_live() || info.processes_left > 0;
        Target { session, shown, runs }
    });
    Ok(targets.collect())
}

/// Tells each failure beside the answer. A single attempt that failed is the verb's own failure.
pub fn outcome(done: usize, mut failures: Vec<Failure>, context: &Context) -> ExitResult {
    if done == 0 && failures.len() == 1 {
        return Err(failures.remove(0));
    }
    failures.iter().for_each(|failure| context.out.failure(failure));
    Ok(failures.iter().map(|failure| failure.exit).max().unwrap_or(0))
}

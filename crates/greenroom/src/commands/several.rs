//! What verbs that take several sessions share: which ones are meant, each one's outcome, and the worst of them.
//!
//! In: names, or a choice such as `--all`. Out: what was done, told as it is asked for; each failure on stderr; one exit code.

use std::collections::BTreeMap;

use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::session::{ListParams, ListResult, Listed, SessionState};

use super::Context;
use crate::error::{Failure, Outcome};
use crate::host::Host;
use crate::output::tell;

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
    host: &Host,
    states: &[&str],
    labels: Vec<(String, String)>,
) -> Result<Vec<Target>, Failure> {
    let states: Vec<String> = states.iter().map(|state| (*state).to_owned()).collect();
    let labels: BTreeMap<String, String> = labels.into_iter().collect();
    let state = (!states.is_empty()).then_some(OneOrMany::Many(states));
    let params = ListParams { detail: true, state, labels };
    let list: ListResult = host.call("session.list", &params, "list sessions").await?;
    let targets = list.sessions.iter().map(|listed| {
        let session = listed.id().to_owned();
        let Listed::Info(info) = listed else {
            return Target { shown: session.clone(), session, runs: true };
        };
        let shown = match &info.name {
            Some(name) => format!("{session} ({name})"),
            None => session.clone(),
        };
        let lives = matches!(info.state, SessionState::Starting | SessionState::Running);
        Target { session, shown, runs: lives || info.processes_left > 0 }
    });
    Ok(targets.collect())
}

/// Tells each failure beside the answer. A single attempt that failed is the verb's own failure.
pub fn outcome(done: usize, mut failures: Vec<Failure>, context: &Context) -> Outcome {
    if done == 0 && failures.len() == 1 {
        return Err(failures.remove(0));
    }
    for failure in &failures {
        match context.out.json {
            true => tell(&failure.to_json().to_string()),
            false => tell(&format!("greenroom: {failure}")),
        }
    }
    Ok(failures.iter().map(|failure| failure.exit).max().unwrap_or(0))
}

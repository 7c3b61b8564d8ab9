//! A chain on the wire: in a session's description, and as a dry run.

use std::time::UNIX_EPOCH;

use greenroom_engine::SessionId;
use greenroom_protocol::Timestamp;
use greenroom_protocol::api::session::{DryRun, Left, PluginEntry, SessionInfo};
use greenroom_workspace::chain::{Chains, CleanupReport, Prepared};
use greenroom_workspace::scratchpad;
use greenroom_workspace::spec::{Cleanup, millis};

use super::Sessions;
use crate::convert;

/// Adds what plugins did to a session's description.
pub(crate) fn describe(chains: &Chains, id: SessionId, info: &mut SessionInfo) {
    let Some(file) = chains.look(id) else { return };
    let outcomes = file.outcomes();
    info.plugins = file
        .steps()
        .iter()
        .map(|step| {
            let name = step.plugin();
            let change = file.changes().iter().find(|change| change.plugin == name);
            PluginEntry {
                name: name.to_owned(),
                changes: change.map(|change| change.lines.clone()).unwrap_or_default(),
                left: outcomes.iter().find(|outcome| outcome.plugin == name).map(left),
            }
        })
        .collect();
    info.branch = file.branch().map(str::to_owned);
    info.sandbox = file.sandbox().map(str::to_owned);
    info.notes = file.notes().to_vec();
    let (denied, more) = file.remarks();
    info.denied = denied.to_vec();
    if more > 0 {
        info.denied.push(format!("and {more} more"));
    }
    let deadline = file.started_at().zip(file.limits().timeout);
    let deadline = deadline.and_then(|(started, limit)| started.checked_add(limit));
    info.deadline_at = deadline.filter(|at| *at > UNIX_EPOCH).map(Timestamp::from_system);
}

/// How much its scratchpad holds by now; walks through it.
pub(crate) async fn measure(sessions: &Sessions, id: SessionId, info: &mut SessionInfo) {
    let step = sessions.chains.look(id).and_then(|file| file.step(scratchpad::ABOUT.name).cloned());
    let dir = step.filter(|step| !step.is_clean()).and_then(|step| scratchpad::noted(step.state()));
    let Some(dir) = dir else { return };
    let size = tokio::task::spawn_blocking(move || scratchpad::measure(&dir)).await;
    let entry = info.plugins.iter_mut().find(|plugin| plugin.name == scratchpad::ABOUT.name);
    if let (Ok(size), Some(entry)) = (size, entry) {
        entry.changes.push(format!("holds: {size}"));
    }
}

pub(crate) fn left(outcome: &CleanupReport) -> Left {
    match (&outcome.cleanup, &outcome.failed) {
        (_, Some(why)) => Left::Failed { why: why.clone() },
        (Some(Cleanup::Kept { what, why }), _) => {
            Left::Kept { what: what.clone(), why: why.clone() }
        }
        (Some(Cleanup::Removed { what }), _) => Left::Removed { what: what.clone() },
        (Some(Cleanup::Nothing) | None, _) => Left::Nothing,
    }
}

/// What a session would be.
pub(crate) fn dry_run(prepared: Prepared) -> DryRun {
    let Prepared { spec, changes } = prepared;
    let set = spec.claimed.iter().filter_map(|name| {
        let value = spec.base.env.get(name)?;
        Some((name.display().to_string(), Some(value.display().to_string())))
    });
    let hidden = spec.secrets.keys().map(|name| (name.display().to_string(), None));
    let words = spec.wrappers.iter().flatten().chain(&spec.base.argv);
    DryRun {
        command: words.map(|word| word.display().to_string()).collect(),
        cwd: spec.base.cwd.display().to_string(),
        env: set.chain(hidden).collect(),
        size: convert::size(spec.base.size),
        branch: spec.git.as_ref().map(|git| git.branch.clone()),
        sandbox: spec.base.confinement.as_ref().map(|fence| fence.summary()),
        timeout_ms: spec.limits.timeout.map(millis),
        idle_timeout_ms: spec.limits.idle_timeout.map(millis),
        plugins: changes
            .into_iter()
            .map(|change| PluginEntry { name: change.plugin, changes: change.lines, left: None })
            .collect(),
        notes: spec.notes,
    }
}

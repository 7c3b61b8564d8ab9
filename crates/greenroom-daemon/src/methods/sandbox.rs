//! `sandbox.*`: what would be enforced here, proven by trial.

use std::collections::BTreeSet;
use std::path::Path;

use greenroom_plugins::sandbox::{Capability, Network, Place, Plan};
use greenroom_protocol::api::Empty;
use greenroom_protocol::api::fence::{LayerEntry, SandboxDoctorResult, SandboxExplainResult};
use greenroom_protocol::api::session::CreateParams;
use greenroom_protocol::{Fault, FaultKind};

use super::session;
use crate::chains;
use crate::rpc::router::Call;

pub async fn doctor(call: Call, _: Empty) -> Result<SandboxDoctorResult, Fault> {
    let sandbox = call.host.built_in.sandbox.clone();
    let found = tokio::task::spawn_blocking(move || sandbox.capability()).await;
    let Capability { probe, full, reduced, remedies } = match found {
        Ok(Ok(found)) => found,
        Ok(Err(error)) => {
            let message = format!("cannot try what this machine can enforce: {error}");
            return Err(Fault::new(FaultKind::Unavailable, message));
        }
        Err(error) => return Err(Fault::new(FaultKind::Internal, error.to_string())),
    };
    let layers = probe.trials.iter().map(|trial| LayerEntry {
        layer: trial.layer.to_string(),
        works: probe.works(trial.layer),
        outcome: trial.outcome.to_string(),
    });
    Ok(SandboxDoctorResult {
        full,
        reduced,
        layers: layers.collect(),
        kernel: probe.kernel,
        uid: probe.uid,
        landlock_abi: probe.landlock_abi,
        remedies,
    })
}

/// What stays as it is although it lies in something writable: what the policy names, and what the plan adds.
fn protected(fenced: &Plan) -> Vec<String> {
    let policy = &fenced.policy;
    let inside = |path: &Path| policy.writable.iter().any(|dir| path.starts_with(dir));
    let mounts = fenced
        .steps
        .mounts
        .iter()
        .filter(|mount| matches!(mount.what, Place::ReadOnly) && inside(&mount.at));
    let named = policy.protected.iter().map(|it| it.path.as_path());
    let paths: BTreeSet<&Path> = named.chain(mounts.map(|mount| mount.at.as_path())).collect();
    paths.into_iter().map(|path| path.display().to_string()).collect()
}

pub async fn explain(call: Call, mut params: CreateParams) -> Result<SandboxExplainResult, Fault> {
    // Asked without --sandbox: as if it were with it.
    params.sandbox.get_or_insert_default();
    let ask = session::ask(&params);
    let base = session::spec(&call.host, params)?;
    let (fenced, notes) = chains::fence_of(&call.host, base, ask).await?;
    let policy = &fenced.policy;
    let shown = |paths: &[std::path::PathBuf]| -> Vec<String> {
        paths.iter().map(|path| path.display().to_string()).collect()
    };
    Ok(SandboxExplainResult {
        level: policy.level.name().to_owned(),
        cwd: policy.cwd.display().to_string(),
        writable: shown(&policy.writable),
        protected: protected(&fenced),
        hidden: shown(&policy.hidden),
        hosts: match &policy.network {
            Network::None => Vec::new(),
            Network::Open => vec!["*".to_owned()],
            Network::Hosts(hosts) => hosts.iter().map(ToString::to_string).collect(),
        },
        text: greenroom_plugins::sandbox::in_words(&fenced),
        notes,
    })
}

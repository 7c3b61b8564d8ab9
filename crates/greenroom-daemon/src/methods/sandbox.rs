//! `sandbox.*`: what would be enforced here, proven by trial.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use greenroom_protocol::api::Empty;
use greenroom_protocol::api::ask::{Asked, SandboxAsk};
use greenroom_protocol::api::fence::{
    LayerEntry, SandboxDoctorResult, SandboxExplainResult, SeatbeltProfile,
};
use greenroom_protocol::api::session::CreateParams;
use greenroom_protocol::{Fault, FaultKind};
use greenroom_workspace::sandbox::{
    Capability, Network, PROXY_PORT, Place, Plan, Policy, seatbelt,
};

use crate::call::Call;
use crate::chains;
use crate::sync::blocking;

pub(crate) async fn doctor(call: Call, _: Empty) -> Result<SandboxDoctorResult, Fault> {
    let sandbox = call.host.sessions.sandbox().clone();
    let Capability { probe, full, reduced, remedies } =
        blocking(move || sandbox.capability()).await?;
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

/// What stays as it is although it lies in something writable: what the policy names, and what the
/// plan adds.
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

pub(crate) async fn explain(
    call: Call,
    mut params: CreateParams,
) -> Result<SandboxExplainResult, Fault> {
    // Asked without --sandbox: as if it were with it.
    if params.ask.sandbox.yes().is_none() {
        params.ask.sandbox = Asked::Yes(SandboxAsk::default());
    }
    let spec = chains::spec(&call.host.sessions, &params)?;
    let (fenced, notes) = chains::fence_of(&call.host.sessions, spec).await?;
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
        text: greenroom_workspace::sandbox::explain(&fenced).to_string(),
        macos: for_macos(policy)?,
        notes,
    })
}

/// Stands for the terminal of a session that there is not.
const SOME_TTY: &str = "/dev/ttys000";

fn for_macos(policy: &Policy) -> Result<SeatbeltProfile, Fault> {
    let profile = seatbelt::profile(policy, Path::new(SOME_TTY), PROXY_PORT)
        .map_err(|refused| Fault::new(FaultKind::Internal, refused.to_string()))?;
    let text = profile.to_string();
    let params = profile.params.into_iter().map(|(name, path)| (name, path.display().to_string()));
    let params: BTreeMap<String, String> = params.collect();
    Ok(SeatbeltProfile { text, params, note: seatbelt::UNTRIED.to_owned() })
}

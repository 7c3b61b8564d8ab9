//! From wishes to a policy: what is writable, hidden, reachable.
//!
//! Paths come from recorded knowledge (the worktree plugin's) or are made free of symbolic links
//! here; a repository's pointer files are not followed. Reads the file system, changes nothing.

use std::path::{Path, PathBuf};

use greenroom_protocol::api::ask::{SandboxAsk, SandboxException, SandboxLevel};
use greenroom_protocol::api::session::About;
use greenroom_sandbox::policy::{
    Allow, GitRules, HostPattern, Level, Network, Policy, Protected, Refs,
};

use super::SandboxConfig;
use super::agents::private::Tree;
use super::agents::{self, Agent, believed, project};
use super::hidden::{self, at_home};
use crate::spec::{Refusal, SessionSpec, Surroundings};

/// A policy and what came with it.
pub struct Made {
    pub policy: Policy,
    /// What the user should know about it.
    pub notes: Vec<String>,
    /// The state of the agents it is for.
    pub trees: Vec<Tree>,
}

/// The policy for a session. Makes nothing.
pub fn of(
    spec: &SessionSpec,
    config: &SandboxConfig,
    around: &Surroundings,
    tmp_dir: PathBuf,
) -> Result<Made, Refusal> {
    let ask = spec.ask.sandbox.yes().cloned().unwrap_or_default();
    let level = match ask.level {
        SandboxLevel::Full => Level::Full,
        SandboxLevel::Reduced => Level::Reduced,
    };
    let mut notes = Vec::new();
    let cwd = as_made(&spec.base.cwd)?;
    let mut policy = Policy::new(level, cwd.clone(), as_made(&tmp_dir)?);
    policy.home = around.home.canonicalize().ok();
    policy.hidden = hidden::list(config, around);
    policy.without_landlock = config.without_landlock;
    policy.allow = Allow {
        unix: ask.allow.contains(&SandboxException::Unix),
        debug: ask.allow.contains(&SandboxException::Debug),
    };
    for path in &spec.writable {
        policy.writable.push(as_made(path)?);
    }
    for path in &spec.readable {
        policy.visible.push(real(path)?);
    }
    let granted = asked_writes(spec, config, around, &ask)?;
    policy.writable.extend(granted.iter().cloned());
    git(&mut policy, spec, &cwd)?;
    let path = spec.env("PATH");
    // As the caller said it: what somebody else calls the session opens no fence.
    let backend = About::read(&spec.base.about).backend;
    let agents = agents::among(&spec.base.argv, backend.as_deref(), path);
    let trees = own_state(&mut policy, spec, around, &agents, &granted, &mut notes)?;
    network(&mut policy, config, &ask, &agents)?;
    Ok(Made { policy, notes, trees })
}

/// Agents write trees of their own, and not what agents outside believe.
fn own_state(
    policy: &mut Policy,
    spec: &SessionSpec,
    around: &Surroundings,
    agents: &[&'static Agent],
    granted: &[PathBuf],
    notes: &mut Vec<String>,
) -> Result<Vec<Tree>, Refusal> {
    let full = policy.level == Level::Full;
    policy.protected.extend(project::fixed(&policy.cwd, &around.home, agents, granted));
    let mut trees = Tree::all(agents, spec, around, policy)?;
    trees.retain(|tree| {
        let name = tree.agent.name;
        let open = tree.places().find(|place| granted.iter().any(|it| it == place));
        match (open, full) {
            (Some(place), _) => notes.push(format!(
                "{name} writes {} itself, as you allowed: an agent outside believes what it leaves there",
                place.display()
            )),
            (None, true) => notes.push(format!(
                "{name} has a private copy of its state and may use the hosts of its model"
            )),
            (None, false) => notes.push(format!(
                "{name} has a private copy of its state, and no network at level reduced"
            )),
        }
        open.is_none()
    });
    for tree in &trees {
        let private = tree.policy(policy);
        policy.private.extend(private);
    }
    notes.extend(believed::fix(policy, spec, around, granted)?);
    Ok(trees)
}

/// Without symbolic links. What is not there yet (a worktree that is only thought of) is taken as
/// it would be; a session does not start if it is still not there then.
pub fn as_made(path: &Path) -> Result<PathBuf, Refusal> {
    match path.parent().zip(path.file_name()) {
        Some((parent, name)) if path.symlink_metadata().is_err() => Ok(as_made(parent)?.join(name)),
        _ => real(path),
    }
}

fn real(path: &Path) -> Result<PathBuf, Refusal> {
    path.canonicalize().map_err(|error| {
        Refusal::new(format!("cannot allow writing to {}: {error}", path.display()))
    })
}

fn asked_writes(
    spec: &SessionSpec,
    config: &SandboxConfig,
    around: &Surroundings,
    ask: &SandboxAsk,
) -> Result<Vec<PathBuf>, Refusal> {
    let all = config.allow_write.iter().chain(&ask.allow_write);
    all.map(|text| real(&spec.project_dir.join(at_home(text, &around.home)))).collect()
}

fn git(policy: &mut Policy, spec: &SessionSpec, cwd: &Path) -> Result<(), Refusal> {
    if let Some(git) = &spec.git {
        // The home may be reached by a link; what lies below was recorded when it was made.
        policy.git = Some(GitRules::Worktree {
            worktree: real(&git.worktree)?,
            common_dir: real(&git.common_dir)?,
            admin_dir: real(&git.admin_dir)?,
            refs: Refs::Shared { branch: git.branch.clone() },
        });
        return Ok(());
    }
    let dot_git = cwd.join(".git");
    match dot_git.symlink_metadata() {
        Ok(meta) if meta.is_dir() => {
            let modules = greenroom_sandbox::modules::of(&dot_git).ok_or_else(|| {
                Refusal::new(format!("{} has too many submodules to protect", cwd.display()))
                    .hint("use --worktree: its git data is protected as a whole")
            })?;
            policy.git = Some(GitRules::Checkout { git_dir: dot_git, modules });
        }
        // Somebody else's worktree, or a submodule: it stays what it points to, and cannot be
        // committed to.
        Ok(_) => policy.protected.push(Protected::existing(dot_git)),
        Err(_) => {}
    }
    Ok(())
}

fn network(
    policy: &mut Policy,
    config: &SandboxConfig,
    ask: &SandboxAsk,
    agents: &[&'static Agent],
) -> Result<(), Refusal> {
    let mut hosts = Vec::new();
    for text in config.allow_hosts.iter().chain(&ask.allow_hosts) {
        let host = HostPattern::parse(text).map_err(|error| {
            Refusal::new(format!("cannot allow the host {text:?}: {error}"))
                .hint("name a host such as api.example.com, or *.example.com")
        })?;
        hosts.push(host);
    }
    if policy.level == Level::Full {
        let known = agents.iter().flat_map(|agent| agent.hosts);
        hosts.extend(known.filter_map(|host| HostPattern::parse(host).ok()));
    }
    hosts.sort();
    hosts.dedup();
    policy.network = match (ask.allow.contains(&SandboxException::Network), hosts.is_empty()) {
        (true, _) => Network::Open,
        (false, true) => Network::None,
        (false, false) => Network::Hosts(hosts),
    };
    Ok(())
}

/// In one line.
pub fn summary(policy: &Policy) -> String {
    let network = match &policy.network {
        Network::None => "no network".to_owned(),
        Network::Open => "the whole network".to_owned(),
        Network::Hosts(hosts) => {
            let names: Vec<String> = hosts.iter().map(ToString::to_string).collect();
            format!("network: {}", names.join(", "))
        }
    };
    let writable: Vec<String> =
        policy.writable.iter().map(|path| path.display().to_string()).collect();
    format!("level {}; writes: {}; {network}", policy.level, writable.join(", "))
}

//! From wishes to a policy: what is writable, hidden, reachable.
//!
//! Paths come from recorded knowledge (the worktree plugin's) or are made free of symbolic links here; a repository's
//! pointer files are not followed. Reads the file system, changes nothing.

use std::path::{Path, PathBuf};

use greenroom_protocol::api::ask::{SandboxAsk, SandboxException, SandboxLevel};
use greenroom_sandbox::policy::{
    Allow, GitRules, HostPattern, Level, Network, Policy, Protected, Refs,
};

use super::SandboxConfig;
use super::agents;
use super::hidden::{self, at_home};
use crate::spec::{Refusal, SessionSpec, Surroundings};

/// The policy, and what the user should know about it.
pub fn of(
    spec: &SessionSpec,
    config: &SandboxConfig,
    around: &Surroundings,
    tmp_dir: PathBuf,
) -> Result<(Policy, Vec<String>), Refusal> {
    let ask = spec.ask.sandbox.clone().unwrap_or_default();
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
    asked_writes(&mut policy, spec, config, around, &ask)?;
    git(&mut policy, spec, &cwd)?;
    network(&mut policy, spec, config, around, &ask, &mut notes)?;
    Ok((policy, notes))
}

/// Without symbolic links. What is not there yet (a worktree that is only thought of) is taken as it would be; a
/// session does not start if it is still not there then.
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
    policy: &mut Policy,
    spec: &SessionSpec,
    config: &SandboxConfig,
    around: &Surroundings,
    ask: &SandboxAsk,
) -> Result<(), Refusal> {
    for text in config.allow_write.iter().chain(&ask.allow_write) {
        let path = spec.project_dir.join(at_home(text, &around.home));
        policy.writable.push(real(&path)?);
    }
    Ok(())
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
        // Somebody else's worktree, or a submodule: it stays what it points to, and cannot be committed to.
        Ok(_) => policy.protected.push(Protected::existing(dot_git)),
        Err(_) => {}
    }
    Ok(())
}

fn network(
    policy: &mut Policy,
    spec: &SessionSpec,
    config: &SandboxConfig,
    around: &Surroundings,
    ask: &SandboxAsk,
    notes: &mut Vec<String>,
) -> Result<(), Refusal> {
    let mut hosts = Vec::new();
    for text in config.allow_hosts.iter().chain(&ask.allow_hosts) {
        let host = HostPattern::parse(text).map_err(|error| {
            Refusal::new(format!("cannot allow the host {text:?}: {error}"))
                .hint("name a host such as api.example.com, or *.example.com")
        })?;
        hosts.push(host);
    }
    if let Some(agent) = spec.base.argv.first().and_then(|program| agents::of(program)) {
        let home = &around.home;
        let there = |path: &&str| home.join(path).canonicalize().ok();
        policy.writable.extend(agent.state.iter().filter_map(there));
        let fixed = agent.fixed.iter().filter_map(there);
        policy.protected.extend(fixed.map(Protected::existing));
        if policy.level == Level::Full {
            let known = agent.hosts.iter().filter_map(|host| HostPattern::parse(host).ok());
            hosts.extend(known);
            notes.push(format!("{} may use its own state and the hosts of its model", agent.name));
        } else {
            notes.push(format!("{} has no network at level reduced", agent.name));
        }
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

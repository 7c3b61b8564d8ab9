//! What agents believe of a project's own directory: settings with hooks and permissions, which run
//! in the next agent outside.
//!
//! Fixed inside of what a session may write: as it is, or empty where it is missing and the user
//! has that agent. What a project tells its agents in words (`CLAUDE.md`, `AGENTS.md`) is part of
//! the work, and stays writable.

use std::path::{Path, PathBuf};

use greenroom_sandbox::policy::Protected;

use super::{AGENTS, Agent, Setting};

/// Servers that agents start by themselves once they were approved by name. Where there are none,
/// the agent asks.
const SERVERS: &str = ".mcp.json";

/// What is fixed in `cwd`. `granted` is what the user asked to be writable by name.
pub fn fixed(
    cwd: &Path,
    home: &Path,
    started: &[&'static Agent],
    granted: &[PathBuf],
) -> Vec<Protected> {
    if rustix::fs::access(cwd, rustix::fs::Access::WRITE_OK).is_err() {
        // Nobody inside can make anything there.
        return Vec::new();
    }
    let has = |agent: &Agent| {
        let own = |path: &str| home.join(path).symlink_metadata().is_ok();
        agent.homes.iter().any(|it| own(it.path) || it.beside.is_some_and(|(name, _)| own(name)))
    };
    let started = |agent: &Agent| started.iter().any(|it| it.name == agent.name);
    let settings = AGENTS.iter().flat_map(|agent| {
        let used = started(agent) || has(agent);
        let made = move |it: &Setting| used && matches!(it, Setting::Dir(_));
        agent.project.iter().map(move |it| (cwd.join(it.name()), made(it)))
    });
    let all = settings.chain([(cwd.join(SERVERS), false)]);
    all.filter(|(path, _)| !granted.contains(path))
        .flat_map(|(path, made)| pin(path, made))
        .collect()
}

fn pin(path: PathBuf, made: bool) -> Vec<Protected> {
    match path.symlink_metadata() {
        // The link, and what it leads to; if that is not writable anyway, nothing is done there.
        Ok(about) if about.is_symlink() => {
            let target = path.canonicalize().ok().map(Protected::existing);
            std::iter::once(Protected::existing(path)).chain(target).collect()
        }
        Ok(_) => vec![Protected::required(path)],
        Err(_) if made => vec![Protected::dir(path)],
        Err(_) => Vec::new(),
    }
}

//! What agents outside believe of the user's own state, where a session could write it.
//!
//! A session does not write the user's home, but what lies there may lead into its directory:
//! people keep their settings in a repository and link to them, or a variable names a place in the
//! project. Each such place of every known agent is fixed for every program, and so is each link on
//! the way to it. Where that cannot be had the session does not start. In: the policy so far. Out:
//! more of what is protected, and sentences about it. Deliberately absent: programs that settings
//! name by their path; they are results of the work, which the user runs.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use greenroom_sandbox::policy::{Level, Policy, Protected};

use super::private::{said, user_home};
use super::{AGENTS, Agent, Kind, StateHome};
use crate::spec::{Refusal, SessionSpec, Surroundings};

/// Links in a row, as the kernel follows them.
const LINKS_MAX: usize = 40;
/// Directories in directories: `plugins/marketplaces/NAME/skills`.
const DEPTH_MAX: usize = 4;
/// Looked at for links. Every session's start waits for this.
const ENTRIES_MAX: usize = 10_000;
/// Copies of foreign repositories, in which nobody links to a project.
const FOREIGN: &[&str] = &[".git", "node_modules"];

/// Fixes what can be fixed; the sentences say what was. `granted` is what the user asked to be
/// writable by name.
pub fn fix(
    policy: &mut Policy,
    spec: &SessionSpec,
    around: &Surroundings,
    granted: &[PathBuf],
) -> Result<Vec<String>, Refusal> {
    let mut look = Look { left: ENTRIES_MAX, seen: HashSet::new(), places: Vec::new() };
    let mut users = vec![around.home.clone(), user_home(spec, around)];
    users.dedup();
    for agent in AGENTS {
        // A directory without known entries is a cache.
        for table in agent.homes.iter().filter(|table| !table.entries.is_empty()) {
            let said = said(table, spec, &policy.cwd);
            for place in users.iter().map(|user| user.join(table.path)) {
                look.state(agent, table, &place, Part::State);
            }
            if let Some(place) = said {
                look.state(agent, table, &place, Part::NamedState);
            }
        }
        let beside = agent.homes.iter().filter_map(|table| Some(table.beside?.0));
        for name in beside.chain(agent.user.iter().copied()) {
            users.iter().for_each(|user| look.believed(agent, &user.join(name), 0));
        }
    }
    let mut notes = Vec::new();
    if look.left == 0 {
        notes.push(format!(
            "of what your agents believe only the first {ENTRIES_MAX} files were searched for links into this directory"
        ));
    }
    for place in look.places {
        place.fix(policy, granted, &mut notes)?;
    }
    notes.sort();
    notes.dedup();
    Ok(notes)
}

/// Something that an agent believes.
struct Place {
    agent: &'static Agent,
    /// As the agent calls it.
    called: PathBuf,
    way: Way,
    part: Part,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The directory of its state.
    State,
    /// The same, where a variable says that it is.
    NamedState,
    /// A part of it, or a file beside it.
    Entry,
}

impl Place {
    fn fix(
        &self,
        policy: &mut Policy,
        granted: &[PathBuf],
        notes: &mut Vec<String>,
    ) -> Result<(), Refusal> {
        let end = &self.way.end;
        let agent = self.agent.name;
        if !self.way.there && self.way.links.is_empty() && self.part != Part::NamedState {
            // It lies in the home, where a session makes nothing.
            return Ok(());
        }
        for root in policy.writable.iter().filter(|root| root.starts_with(end)) {
            let by_name = granted.contains(root);
            if by_name && (root == end || writable_around(end, policy).is_none()) {
                notes.push(self.open(root));
                continue;
            }
            let (what, root) = (self.what(), root.display());
            let place = match end.display().to_string() {
                end if end == root.to_string() => format!("{root} is {what}"),
                end => format!("{root} lies in {end}, {what},"),
            };
            if by_name {
                let text = format!("{place} and cannot be opened alone inside of what is writable");
                let hint = format!("allow all of it by name: --allow-write {}", end.display());
                return Err(Refusal::new(text).hint(hint));
            }
            let text = format!("{place} and cannot be a session's directory in a sandbox");
            let hint = format!(
                "start in another directory, or take the risk by name: --allow-write {root}"
            );
            return Err(Refusal::new(text).hint(hint));
        }
        let full = policy.level == Level::Full;
        for path in self.way.links.iter().chain([end]) {
            let Some(root) = writable_around(path, policy) else { continue };
            let private = full && policy.private.iter().any(|it| path.starts_with(&it.at));
            if granted.contains(path) {
                notes.push(self.open(path));
            } else if private {
                // What is fixed there as the project's own would cover it.
                policy.protected.retain(|it| it.path != *path);
            } else if !full {
                let (what, path) = (self.what(), path.display());
                return Err(Refusal::new(format!(
                    "{path} is {what}, and sandbox level reduced cannot keep it as it is inside of {}",
                    root.display()
                ))
                .hint(format!("use --sandbox=full, start in another directory, or take the risk by name: --allow-write {path}")));
            } else if path == end && !self.way.there && !self.way.links.is_empty() {
                return Err(Refusal::new(format!(
                    "{} leads to {}, which is not there: made inside, {agent} would believe it outside",
                    self.called.display(),
                    path.display()
                ))
                .hint("make what it leads to, or remove the link"));
            } else if !policy.protected.iter().any(|it| path.starts_with(&it.path)) {
                policy.protected.push(match self.way.there || path != end {
                    true => Protected::existing(path),
                    false => Protected::dir(path),
                });
                notes.push(format!("{} stays as it is: it is {}", path.display(), self.what()));
            }
        }
        Ok(())
    }

    fn what(&self) -> String {
        let agent = self.agent.name;
        if self.part != Part::Entry {
            format!("where {agent} keeps its state")
        } else {
            format!("what {agent} believes as {}", self.called.display())
        }
    }

    fn open(&self, path: &Path) -> String {
        let (agent, path) = (self.agent.name, path.display());
        format!(
            "{path} can be written, as you allowed: {agent} outside believes what is left there"
        )
    }
}

/// What the session may write around `path`.
fn writable_around<'a>(path: &Path, policy: &'a Policy) -> Option<&'a Path> {
    // At level reduced these are everybody's. A home that lies there is open as a whole, and the
    // user knows.
    let shared = ["/tmp", "/dev/shm"].map(Path::new).into_iter().filter(|dir| {
        policy.level != Level::Full && !policy.home.as_ref().is_some_and(|it| it.starts_with(dir))
    });
    policy.writable.iter().map(PathBuf::as_path).chain(shared).find(|root| path.starts_with(root))
}

/// A search for what agents believe.
struct Look {
    /// Entries that may still be looked at.
    left: usize,
    /// Directories that were.
    seen: HashSet<PathBuf>,
    places: Vec<Place>,
}

impl Look {
    /// A directory of state: it, and what its entries lead to.
    fn state(&mut self, agent: &'static Agent, table: &StateHome, place: &Path, part: Part) {
        let Some(end) = self.place(agent, place, part) else { return };
        for (name, is_link) in self.entries(&end) {
            let kind = table.kind(&name.to_string_lossy());
            let own_only = matches!(kind, Kind::Empty | Kind::Conversations);
            if is_link || !own_only {
                self.entry(agent, &end.join(name), is_link, 0);
            }
        }
    }

    /// Something believed as a whole.
    fn believed(&mut self, agent: &'static Agent, path: &Path, depth: usize) {
        let Some(end) = self.place(agent, path, Part::Entry) else { return };
        if depth < DEPTH_MAX {
            for (name, is_link) in self.entries(&end) {
                self.entry(agent, &end.join(name), is_link, depth + 1);
            }
        }
    }

    fn entry(&mut self, agent: &'static Agent, path: &Path, is_link: bool, depth: usize) {
        if is_link {
            self.believed(agent, path, depth);
        } else if depth < DEPTH_MAX {
            for (name, is_link) in self.entries(path) {
                self.entry(agent, &path.join(name), is_link, depth + 1);
            }
        }
    }

    /// Notes a place; where it really is, if it is there.
    fn place(&mut self, agent: &'static Agent, called: &Path, part: Part) -> Option<PathBuf> {
        let way = Way::to(called);
        let end = way.there.then(|| way.end.clone());
        self.places.push(Place { agent, called: called.to_owned(), way, part });
        end
    }

    /// Names in a directory, and whether they are links; nothing if it is none, or was looked at.
    fn entries(&mut self, dir: &Path) -> Vec<(OsString, bool)> {
        if !self.seen.insert(dir.to_owned()) {
            return Vec::new();
        }
        let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
        let mut found = Vec::new();
        for entry in entries.flatten().take(self.left) {
            self.left -= 1;
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else { continue };
            let foreign = FOREIGN.iter().any(|it| name == *it);
            if kind.is_symlink() || (kind.is_dir() && !foreign) {
                found.push((name, kind.is_symlink()));
            }
        }
        found
    }
}

/// Where a path leads, and over which links.
struct Way {
    /// Without links in their own paths.
    links: Vec<PathBuf>,
    end: PathBuf,
    there: bool,
}

impl Way {
    /// As the kernel goes it; of what is not there, where it would be.
    fn to(path: &Path) -> Way {
        let mut way = Way { links: Vec::new(), end: PathBuf::from("/"), there: true };
        let mut rest = parts(path);
        while let Some(part) = rest.pop() {
            if part == ".." {
                way.end.pop();
                continue;
            }
            way.end.push(part);
            match std::fs::read_link(&way.end) {
                Ok(to) if way.links.len() < LINKS_MAX => {
                    way.links.push(way.end.clone());
                    way.end.pop();
                    if to.is_absolute() {
                        way.end = PathBuf::from("/");
                    }
                    rest.extend(parts(&to));
                }
                Ok(_) => way.there = false,
                Err(_) => {}
            }
        }
        way.there &= way.end.symlink_metadata().is_ok();
        way
    }
}

/// The last first.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev();
    let named = parts.filter(|it| matches!(it, Component::Normal(_) | Component::ParentDir));
    named.map(|it| it.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests;

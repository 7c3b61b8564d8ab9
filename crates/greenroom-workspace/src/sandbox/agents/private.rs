//! The private tree: an agent's state for the sessions of one directory.
//!
//! In: who is started, where, and the user's own state. Out: places for the policy, and a tree in
//! our state directory that is what [`super::Kind`] says of each entry. A tree belongs to one
//! agent, one directory and one place of the user's state; sessions in that directory share it, at
//! once and one after the other, so conversations go on. It stays until it is removed, or until its
//! directory has been gone for long. Deliberately absent: anything that a session wrote coming out,
//! but for [`super::logins`].

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use greenroom_sandbox::policy::{Level, Policy, Private};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::copy::{self, Budget};
use super::logins::Login;
use super::{Agent, Kind, Merging, StateHome, Variable};
use crate::disk::{if_there, private_dir, read_plain};
use crate::sandbox::policy::as_made;
use crate::spec::{Refusal, SessionSpec, Surroundings};

/// Where the trees of all agents are, in the state directory.
const DIR: &str = "agents";
/// What a tree is for; beside the trees themselves, where no session writes.
const ABOUT: &str = "about.json";
/// The largest file of settings that is copied.
const SETTINGS_MAX: u64 = 32 * 1024 * 1024;
/// A tree whose directory is gone is removed after this.
const FORGOTTEN: Duration = Duration::from_secs(30 * 24 * 3600);

/// One agent's state for one session.
pub struct Tree {
    pub agent: &'static Agent,
    /// Ours; what sessions get of it lies in it.
    pub dir: PathBuf,
    /// Where the session has its copies.
    directory: PathBuf,
    homes: Vec<Home>,
    /// Nothing can be put at the user's places: the agent is told by variables where its state is.
    redirected: bool,
}

struct Home {
    table: &'static StateHome,
    real: PathBuf,
    own: PathBuf,
    /// The file beside it: the user's, and ours.
    beside: Option<(PathBuf, PathBuf)>,
    /// Made in the user's file system if it is missing: there would be nothing to put ours on.
    make: bool,
}

/// What is written down of a tree.
#[derive(Serialize, Deserialize)]
struct About {
    agent: String,
    directory: PathBuf,
}

impl Tree {
    /// The trees of the agents a session starts. Makes nothing.
    pub fn all(
        agents: &[&'static Agent],
        spec: &SessionSpec,
        around: &Surroundings,
        policy: &Policy,
    ) -> Result<Vec<Tree>, Refusal> {
        agents.iter().map(|agent| Tree::of(agent, spec, around, policy)).collect()
    }

    fn of(
        agent: &'static Agent,
        spec: &SessionSpec,
        around: &Surroundings,
        policy: &Policy,
    ) -> Result<Tree, Refusal> {
        let redirected = policy.level != Level::Full;
        let user = user_home(spec, around);
        let mut places = Vec::new();
        for table in agent.homes {
            let said = said(table, spec, &policy.cwd);
            let named = said.is_some();
            let place = said.unwrap_or_else(|| user.join(table.path));
            places.push((table, named, resolved(&place, agent)?));
        }
        let own = around.state_dir(DIR).join(agent.name);
        let dir = as_made(&own)?.join(key(&policy.cwd, &places, redirected));
        let mut homes = Vec::new();
        for (table, named, real) in places {
            let above_home = policy.home.as_ref().is_some_and(|home| home.starts_with(&real));
            if above_home || real.parent().is_none() {
                return Err(Refusal::new(format!(
                    "{} is where {} keeps its state, and cannot be all of it in a sandbox",
                    real.display(),
                    agent.name
                ))
                .hint("start in another directory, or give the agent a directory of its own"));
            }
            let own = match table.variable {
                // The variable names the directory above it.
                Some(Variable::NamesParent(_)) => dir.join(table.path),
                _ => dir.join(table.path.replace('/', "+")),
            };
            let beside = table.beside.map(|(name, _)| match (named, redirected) {
                (true, _) => (real.join(name), own.join(name)),
                (false, true) => (user.join(name), own.join(name)),
                (false, false) => (user.join(name), dir.join(name)),
            });
            let beside = match beside {
                Some((place, own)) => Some((resolved(&place, agent)?, own)),
                None => None,
            };
            let placeable = redirected || is_placeable(&real, policy);
            let make = !placeable && (named || !table.path.contains('/'));
            // A cache in a directory that is not there is nothing an agent needs.
            if placeable || make {
                homes.push(Home { table, real, own, beside, make });
            }
        }
        Ok(Tree { agent, dir, directory: policy.cwd.clone(), homes, redirected })
    }

    /// The user's own places, for whoever asks whether they were granted.
    pub fn places(&self) -> impl Iterator<Item = &Path> {
        self.homes.iter().map(|home| home.real.as_path())
    }

    /// What the policy has to put where.
    pub fn policy(&self, policy: &Policy) -> Vec<Private> {
        let mut all = Vec::new();
        for home in &self.homes {
            let views = if self.redirected { Vec::new() } else { home.views() };
            all.push(Private { at: home.real.clone(), from: home.own.clone(), views });
            if let Some((real, own)) = &home.beside
                && !own.starts_with(&home.own)
                && is_placeable(real, policy)
            {
                all.push(Private { at: real.clone(), from: own.clone(), views: Vec::new() });
            }
        }
        all
    }

    /// Variables that tell the agent where its state is.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.homes.iter().filter(|_| self.redirected).filter_map(|home| {
            match home.table.variable.as_ref()? {
                Variable::Names(name) => Some((*name, home.own.as_path())),
                Variable::NamesParent(name) => Some((*name, home.own.parent()?)),
            }
        })
    }

    pub fn logins(&self) -> Vec<Login> {
        let mut all = Vec::new();
        for home in &self.homes {
            for (name, kind) in home.table.entries {
                if let Kind::Login(_) = kind {
                    let (real, own) = (home.real.join(name), home.own.join(name));
                    let mark = self.dir.join(format!("from-outside{name}"));
                    all.push(Login::new(self.agent.name, name, real, own, mark));
                }
            }
        }
        all
    }

    /// Makes the tree, or brings the one that is there to the user's settings. Blocks.
    pub fn prepare(&self) -> io::Result<()> {
        if !self.dir.exists() {
            self.make()?;
        }
        for home in &self.homes {
            private_dir(&home.own)?;
            if home.make {
                private_dir(&home.real)?;
            }
            for (name, kind) in home.table.entries {
                let (real, own) = (home.real.join(name), home.own.join(name));
                match kind {
                    Kind::Fixed => self.fix(&real, &own)?,
                    Kind::Adapted(adapt) => self.adapt(&real, &own, adapt)?,
                    _ => {}
                }
            }
            if let (Some((real, own)), Some((_, Kind::Merged(how)))) =
                (&home.beside, home.table.beside)
            {
                self.merge(real, own, how)?;
            }
        }
        self.logins().iter().try_for_each(Login::exchange)?;
        self.note()
    }

    /// Aside first: a tree is there as a whole or not at all.
    fn make(&self) -> io::Result<()> {
        let name = self.dir.file_name().unwrap_or_default().to_string_lossy();
        let aside = self.dir.with_file_name(format!(".{name}-{}", std::process::id()));
        copy::clear(&aside)?;
        private_dir(&aside)?;
        let mut budget = Budget::usual();
        for home in &self.homes {
            let Ok(own) = home.own.strip_prefix(&self.dir) else { continue };
            let own = aside.join(own);
            private_dir(&own)?;
            home.seed(&own, &self.directory, &mut budget)?;
        }
        match std::fs::rename(&aside, &self.dir) {
            // Another session of the same directory was faster.
            Err(_) if self.dir.exists() => copy::clear(&aside),
            done => done,
        }
    }

    /// What the user's settings say now, whatever was made of it inside.
    fn fix(&self, real: &Path, own: &Path) -> io::Result<()> {
        let about = match real.metadata() {
            Ok(about) => about,
            // Not there, or a link that leads nowhere: then not inside either.
            Err(_) => return copy::clear(own),
        };
        if about.is_dir() && self.redirected {
            copy::clear(own)?;
            return std::os::unix::fs::symlink(real.canonicalize()?, own);
        }
        if about.is_dir() {
            return copy::clear_to_dir(own);
        }
        match read_plain(&real.canonicalize()?, SETTINGS_MAX)? {
            Some(content) => copy::put(own, &content, &self.dir),
            None => copy::clear(own),
        }
    }

    fn adapt(&self, real: &Path, own: &Path, adapt: &fn(&str) -> String) -> io::Result<()> {
        let users = match real.canonicalize() {
            Ok(real) => read_plain(&real, SETTINGS_MAX)?.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        let content = match String::from_utf8(users) {
            Ok(text) => adapt(&text).into_bytes(),
            Err(error) => error.into_bytes(),
        };
        copy::put(own, &content, &self.dir)
    }

    fn merge(&self, real: &Path, own: &Path, how: &Merging) -> io::Result<()> {
        let object = |path: &Path| -> Option<Map<String, Value>> {
            let content = read_plain(path, SETTINGS_MAX).ok()??;
            serde_json::from_slice(&content).ok()
        };
        let before = object(own);
        let users = object(&real.canonicalize().unwrap_or_else(|_| real.to_owned()));
        let after = merged(users.unwrap_or_default(), before.clone().unwrap_or_default(), how);
        if before.as_ref() == Some(&after) {
            return Ok(());
        }
        let content = serde_json::to_vec_pretty(&after).map_err(io::Error::other)?;
        let in_a_sessions_dir = self.homes.iter().any(|home| own.starts_with(&home.own));
        if in_a_sessions_dir || !own.exists() {
            return copy::put(own, &content, &self.dir);
        }
        // In place: another session may have this very file.
        std::fs::write(own, content)
    }

    fn note(&self) -> io::Result<()> {
        let about = About { agent: self.agent.name.to_owned(), directory: self.directory.clone() };
        let content = serde_json::to_vec(&about).map_err(io::Error::other)?;
        copy::put(&self.dir.join(ABOUT), &content, &self.dir)
    }
}

impl Home {
    /// Directories of settings, as they are.
    fn views(&self) -> Vec<(OsString, PathBuf)> {
        let fixed = self.table.entries.iter().filter(|(_, kind)| matches!(kind, Kind::Fixed));
        let views = fixed.filter_map(|(name, _)| {
            let real = self.real.join(name).canonicalize().ok()?;
            real.is_dir().then(|| (OsString::from(name), real))
        });
        views.collect()
    }

    /// What the user's state gives a new tree.
    fn seed(&self, own: &Path, directory: &Path, budget: &mut Budget) -> io::Result<()> {
        let Some(entries) = if_there(std::fs::read_dir(&self.real))? else { return Ok(()) };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let beside = self.beside.as_ref().is_some_and(|(real, _)| *real == entry.path());
            let (from, to) = match self.table.kind(&name.to_string_lossy()) {
                _ if beside => continue,
                Kind::Own => (entry.path(), own.join(&name)),
                Kind::Conversations => {
                    private_dir(&own.join(&name))?;
                    let part = dashed(directory);
                    (entry.path().join(&part), own.join(&name).join(part))
                }
                Kind::Empty | Kind::Fixed | Kind::Adapted(_) | Kind::Merged(_) | Kind::Login(_) => {
                    continue;
                }
            };
            if from.symlink_metadata().is_ok()
                && let Err(error) = copy::take_over(&from, &to, budget, 0)
            {
                tracing::debug!(path = %from.display(), %error, "not taken over");
            }
        }
        Ok(())
    }
}

/// As Claude Code calls a directory's conversations.
fn dashed(directory: &Path) -> String {
    let text = directory.to_string_lossy();
    text.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '-' }).collect()
}

/// Whether something can be put at a place: it is there, or the directory around it is our own view
/// of the home.
fn is_placeable(real: &Path, policy: &Policy) -> bool {
    real.exists() || (policy.home.is_some() && real.parent() == policy.home.as_deref())
}

/// The home that the program will see as its user's.
pub(super) fn user_home(spec: &SessionSpec, around: &Surroundings) -> PathBuf {
    let user = variable(spec, "HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    user.unwrap_or_else(|| around.home.clone())
}

/// Where a variable says that an agent's state is.
pub(super) fn said(table: &StateHome, spec: &SessionSpec, cwd: &Path) -> Option<PathBuf> {
    let variable_of = table.variable.as_ref()?;
    let value = variable(spec, variable_of.name()).filter(|value| !value.is_empty())?;
    Some(match variable_of {
        Variable::Names(_) => cwd.join(value),
        Variable::NamesParent(_) => cwd.join(value).join(table.path),
    })
}

/// A variable as the program will see it.
fn variable<'a>(spec: &'a SessionSpec, name: &str) -> Option<&'a OsStr> {
    let secret = spec.secrets.get(OsStr::new(name)).map(|secret| secret.reveal());
    secret.or_else(|| spec.env(name))
}

fn resolved(place: &Path, agent: &Agent) -> Result<PathBuf, Refusal> {
    as_made(place).map_err(|_| {
        Refusal::new(format!(
            "{}, where {} keeps its state, is a link that leads nowhere, or is out of reach",
            place.display(),
            agent.name
        ))
        .hint("make what it leads to, or remove the link")
    })
}

/// Readable to people who look for it, and different for each directory and each place of the
/// user's state.
fn key(cwd: &Path, places: &[(&StateHome, bool, PathBuf)], redirected: bool) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut hash = Sha256::new();
    for path in std::iter::once(cwd).chain(places.iter().map(|(_, _, real)| real.as_path())) {
        hash.update(path.as_os_str().as_bytes());
        hash.update([0]);
    }
    hash.update([u8::from(redirected)]);
    let hash: String = hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let name = cwd.file_name().unwrap_or_default().to_string_lossy();
    let plain = |it: char| if it.is_ascii_alphanumeric() { it } else { '-' };
    let name: String = name.chars().take(40).map(plain).collect();
    format!("{name}-{hash}")
}

/// The user's over the private one; of each project's part the private one, which knows what was
/// decided inside. What runs or allows something is the user's alone.
fn merged(
    mut users: Map<String, Value>,
    mut own: Map<String, Value>,
    how: &Merging,
) -> Map<String, Value> {
    let only = |map: &mut Map<String, Value>| {
        how.only_users.iter().for_each(|key| drop(map.remove(*key)));
    };
    only(&mut own);
    let theirs = own.remove(how.each);
    let each = users.entry(how.each).or_insert_with(|| Value::Object(Map::new()));
    if let (Value::Object(each), Some(Value::Object(theirs))) = (each, theirs) {
        for (name, part) in theirs {
            let Value::Object(mut part) = part else { continue };
            only(&mut part);
            match each.entry(name).or_insert_with(|| Value::Object(Map::new())) {
                Value::Object(users) => users.extend(part),
                other => *other = Value::Object(part),
            }
        }
    }
    own.extend(users);
    own
}

/// Removes trees whose directories have been gone for long.
pub fn sweep(around: &Surroundings) {
    let list = |dir: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).into_iter().flatten();
        entries.flatten().map(|entry| entry.path()).collect()
    };
    for tree in list(&around.state_dir(DIR)).iter().flat_map(|agent| list(agent)) {
        let about = tree.join(ABOUT);
        let used = about.metadata().and_then(|it| it.modified()).ok();
        let old = used
            .and_then(|used| SystemTime::now().duration_since(used).ok())
            .is_some_and(|age| age > FORGOTTEN);
        let known = std::fs::read(&about).ok();
        let known = known.and_then(|text| serde_json::from_slice::<About>(&text).ok());
        if old
            && known.is_some_and(|about| !about.directory.exists())
            && let Err(error) = super::super::tree::remove(&tree)
        {
            tracing::warn!(path = %tree.display(), %error, "removing an agent's old state");
        }
    }
}

#[cfg(test)]
mod tests;

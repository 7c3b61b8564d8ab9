//! Whether a worktree can be removed without anything becoming unreachable.
//!
//! In: a record. Out: [`Verdict::Clean`] with exactly what may go, or every reason to keep it. A
//! question that gets no answer is a reason. What counts as work: any file that is not as its last
//! commit has it, untracked and ignored ones too, unless we put it there or it lies in an ignored
//! directory of build products; any commit that only this worktree, its branch or their logs lead
//! to; a stash made here; anything git was in the middle of; a submodule that was touched.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::error::WorktreeError;
use super::history;
use super::pointers;
use super::record::{Ours, Phase, Record};
use super::snapshot::{self, Snapshot};
use crate::git::{Change, IndexEntry, Oid, Repo};

/// Names shown of each kind; the rest is counted.
const SHOWN: usize = 4;

pub enum Verdict {
    Clean(Removal),
    Keep(Vec<String>),
}

/// What a removal may take.
pub struct Removal {
    /// `None` if the directory is gone already.
    pub tree: Option<Snapshot>,
    /// The worktree's data in the repository, if it is there.
    pub admin_dir: Option<PathBuf>,
    /// The branch's tip, if it is ours to delete.
    pub tip: Option<Oid>,
}

/// Files that git was in the middle of something with, and what that is.
const UNFINISHED: &[(&str, &str)] = &[
    ("rebase-merge", "a rebase is in progress"),
    ("rebase-apply", "a rebase is in progress"),
    ("MERGE_HEAD", "a merge is in progress"),
    ("sequencer", "a sequence of commits is in progress"),
    ("BISECT_LOG", "a bisect is in progress"),
    ("BISECT_START", "a bisect is in progress"),
    ("locked", "it is locked (git worktree lock)"),
    ("index.lock", "a git command was interrupted (index.lock)"),
    ("HEAD.lock", "a git command was interrupted (HEAD.lock)"),
    ("modules", "a submodule was initialised in it"),
];

/// Left behind where git may not delete a ref, as in a sandbox. They mean something only while a
/// file differs from its commit; the commit they name is looked at like any other.
const PICKS: &[(&str, &str)] = &[
    ("CHERRY_PICK_HEAD", "a cherry-pick is in progress"),
    ("REVERT_HEAD", "a revert is in progress"),
];

pub fn check(record: &Record, disposable: &[String]) -> Verdict {
    match examine(record, disposable) {
        Ok(found) if found.reasons.is_empty() => Verdict::Clean(found.removal),
        Ok(found) => Verdict::Keep(found.reasons.into_iter().map(|reason| reason.text).collect()),
        Err(error) => Verdict::Keep(vec![format!("it cannot be checked: {error}")]),
    }
}

/// Why a worktree stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    pub text: String,
    /// A ref of ours could hold what it speaks of. The rest only a person can put in order.
    pub can_be_held: bool,
}

impl Reason {
    pub fn work(text: impl Into<String>) -> Reason {
        Reason { text: text.into(), can_be_held: true }
    }

    pub fn trouble(text: impl Into<String>) -> Reason {
        Reason { text: text.into(), can_be_held: false }
    }
}

/// Everything a look at a worktree brought up.
pub struct Findings {
    pub reasons: Vec<Reason>,
    pub removal: Removal,
    /// Tracked paths that are not as the last commit has them.
    pub modified: Vec<Vec<u8>>,
    /// Files that are neither git's nor ours, or ours and changed.
    pub strangers: Vec<Vec<u8>>,
    /// Those of them that git does not ignore.
    pub untracked: Vec<Vec<u8>>,
    /// Commits that would go with it.
    pub loose: Vec<Oid>,
}

impl Findings {
    fn troubles(texts: Vec<String>) -> Findings {
        Findings {
            reasons: texts.into_iter().map(Reason::trouble).collect(),
            removal: Removal { tree: None, admin_dir: None, tip: None },
            modified: Vec::new(),
            strangers: Vec::new(),
            untracked: Vec::new(),
            loose: Vec::new(),
        }
    }
}

pub(super) fn examine(record: &Record, disposable: &[String]) -> Result<Findings, WorktreeError> {
    if !record.common_dir.is_dir() {
        return Ok(without_repository(record));
    }
    let tree_exists = fs::symlink_metadata(&record.path).is_ok();
    let admin_dir = pointers::admin_dir(record)?;
    let changed = pointers::differences(record, admin_dir.as_deref(), tree_exists);
    if !changed.is_empty() {
        // A session that changed a pointer wanted git to look elsewhere: git is not even asked.
        return Ok(Findings::troubles(changed));
    }
    let Some(admin_dir) = admin_dir else {
        if tree_exists {
            return Ok(Findings::troubles(vec!["the repository has forgotten it".into()]));
        }
        let repo = Repo::open(&record.common_dir)?;
        let mut found = Findings::troubles(Vec::new());
        history::examine(&repo, record, None, &mut found)?;
        return Ok(found);
    };
    let mut unfinished = found_of(UNFINISHED, &admin_dir);
    unfinished.dedup();
    if !unfinished.is_empty() {
        return Ok(Findings::troubles(unfinished));
    }
    let mut found = Findings::troubles(Vec::new());
    let repo = if tree_exists {
        let repo = Repo::open_tree(&record.common_dir, &admin_dir, &record.path)?;
        files(&repo, record, disposable, &mut found)?;
        repo
    } else {
        let repo = Repo::open_admin(&record.common_dir, &admin_dir)?;
        if record.phase != Phase::Creating && !repo.staged()?.is_empty() {
            let text = "its directory is gone, and it has staged changes";
            found.reasons.push(Reason::trouble(text));
        }
        repo
    };
    if !found.reasons.is_empty() {
        found.reasons.extend(found_of(PICKS, &admin_dir).into_iter().map(Reason::trouble));
    }
    history::examine(&repo, record, Some(&admin_dir), &mut found)?;
    found.removal.admin_dir = Some(admin_dir);
    Ok(found)
}

pub(super) fn unfinished(git_dir: &Path) -> Vec<String> {
    let mut found = found_of(UNFINISHED, git_dir);
    // A submodule that is initialised is as it should be in a checkout of the user's own.
    found.retain(|reason| !reason.contains("submodule"));
    found.extend(found_of(PICKS, git_dir));
    found.dedup();
    found
}

fn found_of(names: &[(&str, &str)], admin_dir: &Path) -> Vec<String> {
    let found = names.iter().filter(|(name, _)| there(&admin_dir.join(name)));
    found.map(|(_, reason)| (*reason).to_owned()).collect()
}

fn without_repository(record: &Record) -> Findings {
    if there(&record.path) {
        let gone = format!("its repository {} is gone", record.common_dir.display());
        Findings::troubles(vec![gone])
    } else {
        Findings::troubles(Vec::new())
    }
}

pub(super) fn there(path: &Path) -> bool {
    // An error other than "not found" means that something is there.
    !matches!(fs::symlink_metadata(path), Err(error) if error.kind() == std::io::ErrorKind::NotFound)
}

/// Every file of the tree, and what about them speaks against removal.
fn files(
    repo: &Repo,
    record: &Record,
    disposable: &[String],
    found: &mut Findings,
) -> Result<(), WorktreeError> {
    let index = repo.index()?;
    // Before git looks: what changes after is not what it saw, and the removal will notice.
    let tree = look(record, disposable, &index)?;
    tracked(repo, record, &index, found)?;
    let foreign = foreign(repo, record, &tree, &index)?;
    let work = [
        some_of("untracked", &foreign.untracked),
        some_of("ignored but not rebuilt from anything", &foreign.ignored),
        some_of("changed since it was copied in", &foreign.changed),
    ];
    found.reasons.extend(work.into_iter().flatten().map(Reason::work));
    let trouble = [
        some_of("untracked", &foreign.heaps),
        some_of("a repository inside", &foreign.repositories),
        some_of("mounted", &tree.mounts),
    ];
    found.reasons.extend(trouble.into_iter().flatten().map(Reason::trouble));
    found.untracked = without_nested(foreign.untracked.clone(), &tree.nested_git);
    found.strangers = [foreign.untracked, foreign.ignored, foreign.changed].concat();
    found.removal.tree = Some(tree);
    Ok(())
}

fn look(
    record: &Record,
    disposable: &[String],
    index: &[IndexEntry],
) -> Result<Snapshot, WorktreeError> {
    let shared: HashSet<&[u8]> = record
        .ours
        .iter()
        .filter(|ours| matches!(ours, Ours::Dir { .. }))
        .map(|ours| ours.path().as_bytes())
        .collect();
    let with_tracked: HashSet<&[u8]> =
        index.iter().flat_map(|entry| ancestors(&entry.path)).collect();
    let is_heap = |path: &[u8], tagged: bool| {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let known = disposable.iter().any(|one| one.as_bytes() == name || one.as_bytes() == path);
        (known || tagged || shared.contains(path)) && !with_tracked.contains(path)
    };
    snapshot::take(&record.path, &is_heap)
}

/// The directories a path lies in.
fn ancestors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at])
}

/// What git says of the files it tracks, and what it was told not to look at.
fn tracked(
    repo: &Repo,
    record: &Record,
    index: &[IndexEntry],
    found: &mut Findings,
) -> Result<(), WorktreeError> {
    let partial = matches!(record.phase, Phase::Creating | Phase::Removing);
    let (mut modified, mut in_conflict) = (Vec::new(), Vec::new());
    for Change { letters, path } in repo.changes()? {
        if letters.contains(&b'U') || letters == *b"AA" || letters == *b"DD" {
            in_conflict.push(path);
        // A half-made or half-removed tree lacks files; that loses nothing, the commit has them.
        } else if !(partial && letters == *b" D") {
            modified.push(path);
        }
    }
    let hidden = index.iter().filter(|entry| {
        entry.assumed_unchanged || (entry.skipped && there(&record.path.join(os(&entry.path))))
    });
    let hidden: Vec<Vec<u8>> = hidden.map(|entry| entry.path.clone()).collect();
    let submodules = index.iter().filter(|entry| {
        let path = record.path.join(os(&entry.path));
        entry.submodule
            && there(&path)
            && !fs::read_dir(&path).is_ok_and(|mut d| d.next().is_none())
    });
    let submodules: Vec<Vec<u8>> = submodules.map(|entry| entry.path.clone()).collect();
    found.reasons.extend(some_of("modified", &modified).map(Reason::work));
    let trouble = [
        some_of("modified, and in conflict", &in_conflict),
        some_of("hidden from git by index flags", &hidden),
        some_of("submodule in use", &submodules),
    ];
    found.reasons.extend(trouble.into_iter().flatten().map(Reason::trouble));
    found.modified = modified;
    Ok(())
}

/// Files that git does not track.
#[derive(Default)]
pub(super) struct Foreign {
    pub untracked: Vec<Vec<u8>>,
    pub ignored: Vec<Vec<u8>>,
    /// Ours once, but not what we put there.
    pub changed: Vec<Vec<u8>>,
    /// Directories of build products by their name, which git does not ignore.
    pub heaps: Vec<Vec<u8>>,
    pub repositories: Vec<Vec<u8>>,
}

pub(super) fn foreign(
    repo: &Repo,
    record: &Record,
    tree: &Snapshot,
    index: &[IndexEntry],
) -> Result<Foreign, WorktreeError> {
    let tracked: HashSet<&[u8]> = index.iter().map(|entry| entry.path.as_slice()).collect();
    let ours: HashMap<&[u8], &Ours> =
        record.ours.iter().map(|ours| (ours.path().as_bytes(), ours)).collect();
    let mut found = Foreign { repositories: tree.nested_git.clone(), ..Foreign::default() };
    let mut to_hash: Vec<(&[u8], &Oid)> = Vec::new();
    let mut rest: Vec<Vec<u8>> = Vec::new();
    for (path, stamp) in &tree.files {
        if tracked.contains(path.as_slice()) || path.as_slice() == b".git" {
            continue;
        }
        match ours.get(path.as_slice()) {
            Some(Ours::Link { target, .. })
                if stamp.is_link() && leads_to(record, path, target) => {}
            Some(Ours::File { content, .. }) if !stamp.is_link() => to_hash.push((path, content)),
            Some(_) => found.changed.push(path.clone()),
            None => rest.push(path.clone()),
        }
    }
    let files: Vec<PathBuf> = to_hash.iter().map(|(path, _)| record.path.join(os(path))).collect();
    for ((path, wanted), content) in to_hash.iter().zip(repo.hashes(&files)?) {
        if **wanted != content {
            found.changed.push(path.to_vec());
        }
    }
    let is_ours = |path: &[u8]| matches!(ours.get(path), Some(Ours::Dir { .. }));
    let heaps = tree.heaps.iter().filter(|(path, heap)| heap.files > 0 && !is_ours(path));
    let asked: Vec<Vec<u8>> = heaps.map(|(path, _)| path.clone()).chain(rest.clone()).collect();
    let ignored = repo.ignored(&asked)?;
    let (with_git, plain): (Vec<_>, Vec<_>) = tree.heaps.iter().partition(|(_, heap)| heap.has_git);
    found.repositories.extend(with_git.into_iter().map(|(path, _)| path.clone()));
    for (path, heap) in plain {
        let derived = is_ours(path) || ignored.contains(path) || heap.ignores_itself;
        if heap.files > 0 && !derived {
            found.heaps.push(path.clone());
        }
    }
    let (hidden, plain): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|path| ignored.contains(path));
    found.untracked.extend(plain);
    found.ignored.extend(hidden);
    Ok(found)
}

/// Without what lies in repositories of its own, which git would not let us look into.
fn without_nested(mut paths: Vec<Vec<u8>>, nested: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let tops: Vec<&[u8]> = nested.iter().map(|git| &git[..git.len() - b".git".len()]).collect();
    paths.retain(|path| !tops.iter().any(|top| !top.is_empty() && path.starts_with(top)));
    paths
}

fn leads_to(record: &Record, path: &[u8], target: &str) -> bool {
    fs::read_link(record.path.join(os(path))).is_ok_and(|found| found == Path::new(target))
}

/// A reason that names some paths and counts the rest.
pub(super) fn some_of(what: &str, paths: &[Vec<u8>]) -> Option<String> {
    (!paths.is_empty()).then(|| format!("{what}: {}", some(paths)))
}

/// Some names, and how many more there are.
pub(super) fn some(paths: &[Vec<u8>]) -> String {
    let mut names: Vec<String> = paths.iter().map(|path| shown(path)).collect();
    names.sort();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{tail}", names.join(", "))
}

/// A path for people: without control characters, which a terminal would obey.
pub(super) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

pub(super) fn os(path: &[u8]) -> &OsStr {
    OsStr::from_bytes(path)
}

/// A file that is neither git's nor ours.
pub(super) struct Stranger {
    pub path: Vec<u8>,
    pub is_link: bool,
}

/// What setup commands have made.
pub(super) fn strangers(
    repo: &Repo,
    record: &Record,
    disposable: &[String],
) -> Result<Vec<Stranger>, WorktreeError> {
    let index = repo.index()?;
    let tree = look(record, disposable, &index)?;
    let found = foreign(repo, record, &tree, &index)?;
    let paths = found.untracked.into_iter().chain(found.ignored).chain(found.changed);
    let strangers = paths.filter_map(|path| {
        let is_link = tree.files.get(&path)?.is_link();
        Some(Stranger { path, is_link })
    });
    Ok(strangers.collect())
}

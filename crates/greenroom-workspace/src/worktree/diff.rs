//! `greenroom worktree diff`: what a worktree has that its base has not, committed or not.
//!
//! The checkout's index is copied and the copy told of untracked files, so that git shows
//! everything in one piece and the session notices nothing. Deliberately absent: contents of files
//! that git ignores, which are often secrets; they are counted.

use std::fs;

use greenroom_protocol::api::fence::WorktreeDiffParams;

use super::check::{self, examine, some_of};
use super::error::WorktreeError;
use super::find::Found;
use super::make::exclude_file;
use super::record::Record;
use super::{Worktrees, pointers};
use crate::git::{Oid, Repo, RepoPaths};

#[derive(Clone, Debug)]
pub struct Diff {
    pub base: Oid,
    pub text: Vec<u8>,
    /// Commits since the base.
    pub commits: usize,
    /// What is there and not shown.
    pub notes: Vec<String>,
}

/// Commits counted.
const COUNTED: usize = 1000;

impl Worktrees {
    pub fn diff(&self, found: &Found, ask: &WorktreeDiffParams) -> Result<Diff, WorktreeError> {
        let record = &found.record;
        let (repo, admin_dir) = open(record)?;
        let head = repo.commit("HEAD")?.ok_or_else(|| no_commit(record))?;
        let base = match &ask.base {
            Some(base) => repo.commit(base)?.ok_or_else(|| WorktreeError::Base {
                base: base.clone(),
                repo: record.path.clone(),
                shallow: false,
            })?,
            None => base_of(&repo, record, &head)?,
        };
        let about = examine(record, &self.config.now().disposable)?;
        let scratch = tempfile::tempdir().map_err(WorktreeError::io("make", &record.path))?;
        let index = scratch.path().join("index");
        let own = admin_dir.join("index");
        if check::there(&own) {
            fs::copy(&own, &index).map_err(WorktreeError::io("copy", &own))?;
        }
        let repo = repo.with_index(&index);
        repo.show_untracked(&about.untracked)?;
        let text = repo.diff(&base, ask.stat)?;
        let commits = repo.only_from(&[head], std::slice::from_ref(&base), COUNTED)?.len();
        let hidden: Vec<Vec<u8>> =
            about.strangers.into_iter().filter(|path| !about.untracked.contains(path)).collect();
        let mut notes: Vec<String> = Vec::new();
        notes.extend(some_of("not shown, because git ignores it", &hidden));
        let trouble = about.reasons.into_iter().filter(|reason| !reason.can_be_held);
        notes.extend(trouble.map(|reason| reason.text));
        Ok(Diff { base, text, commits, notes })
    }
}

/// Git in the worktree, if it still leads where it led.
pub(super) fn open(record: &Record) -> Result<(Repo, std::path::PathBuf), WorktreeError> {
    let refuse = |why: String| WorktreeError::Unfit { slug: record.slug.clone(), why };
    let Some(admin_dir) = pointers::admin_dir(record)? else {
        return Err(refuse("the repository has forgotten it".into()));
    };
    if !check::there(&record.path) {
        return Err(refuse(format!("{} is gone", record.path.display())));
    }
    if let Some(changed) = pointers::differences(record, Some(&admin_dir), true).into_iter().next()
    {
        return Err(refuse(changed));
    }
    let excludes = exclude_file(&admin_dir);
    let repo = Repo::open_tree(&record.common_dir, &admin_dir, &record.path)?
        .ignoring(check::there(&excludes).then_some(excludes.as_path()));
    Ok((repo, admin_dir))
}

fn no_commit(record: &Record) -> WorktreeError {
    WorktreeError::NoCommit { repo: record.path.clone() }
}

/// Where the branch began; or, if it has since taken in or been put upon what the user has checked
/// out, where it leaves that.
fn base_of(repo: &Repo, record: &Record, head: &Oid) -> Result<Oid, WorktreeError> {
    let began = repo.not_commits(std::slice::from_ref(&record.base))?.is_empty()
        && repo.is_ancestor(&record.base, head)?;
    let fork = match source_head(record)? {
        Some(theirs) => repo.fork(head, &theirs)?,
        None => None,
    };
    Ok(match fork {
        Some(fork) if !began || repo.is_ancestor(&record.base, &fork)? => fork,
        _ => record.base.clone(),
    })
}

fn source_head(record: &Record) -> Result<Option<Oid>, WorktreeError> {
    let place = match RepoPaths::find(&record.source) {
        Ok(place) if place.common_dir == record.common_dir => place,
        _ => return Ok(None),
    };
    Ok(super::make::source_repo(&place)?.commit("HEAD")?)
}

//! After a session: removing what can be removed, keeping the rest and saying why.
//!
//! [`Worktrees::settle`] is also what finishes a making or a removal that was interrupted. It may
//! be stopped anywhere and run again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use greenroom_engine::SessionId;
use serde::{Deserialize, Serialize};

use super::check::{Removal, Verdict, check, os, there};
use super::error::WorktreeError;
use super::record::{Phase, Record};
use super::{Lock, Worktrees, bring, commands, lock, pointers, snapshot};
use crate::git::{Change, Repo};

/// How a session ended, as far as its worktree cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    NeverStarted,
    Exited,
    TimedOut,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// There was nothing, or it is somebody else's by now.
    Nothing,
    Removed {
        path: PathBuf,
        branch: String,
        branch_kept: bool,
    },
    Kept {
        path: PathBuf,
        branch: String,
        why: Vec<String>,
    },
}

impl Worktrees {
    /// A session's work in the worktree of `record` is over.
    pub fn end(
        &self,
        file: &Path,
        session: SessionId,
        how: Ended,
    ) -> Result<Outcome, WorktreeError> {
        self.with_ports(|ports| ports.release(session))?;
        let load = || -> Result<Option<Record>, WorktreeError> {
            Ok(Record::load(file)?.filter(|record| record.session == Some(session.0)))
        };
        let Some(record) = load()? else { return Ok(Outcome::Nothing) };
        let mut why = Vec::new();
        if how == Ended::TimedOut {
            why.push("its session ran out of time".to_owned());
        }
        if how != Ended::NeverStarted && record.phase == Phase::Ready && record.path.is_dir() {
            why.extend(self.tear_down(&record));
        }
        self.steps.at("before the check")?;
        let locked = lock_if_there(&record.common_dir)?;
        // Another process that had the lock may have removed the worktree, or taken it up.
        let Some(record) = load()? else { return Ok(Outcome::Nothing) };
        self.settle(locked.as_ref(), file, record, why)
    }

    fn tear_down(&self, record: &Record) -> Option<String> {
        let names = ["PATH", "HOME", "USER", "LANG", "TMPDIR"];
        let kept = names.iter().filter_map(|name| Some(((*name).into(), std::env::var_os(name)?)));
        let mut env: BTreeMap<_, _> = kept.collect();
        env.insert("GREENROOM_WORKTREE".into(), record.path.clone().into());
        env.insert("GREENROOM_BRANCH".into(), record.branch.clone().into());
        let config = self.config.now();
        let (commands, timeout) = (&config.teardown, config.command_timeout());
        let ran = commands::run_all("teardown", commands, &record.path, &env, timeout);
        ran.err().map(|error| error.to_string())
    }

    /// Removes it, or notes why not. The repository is locked by the caller.
    pub(super) fn settle(
        &self,
        lock: Option<&Lock>,
        file: &Path,
        mut record: Record,
        mut why: Vec<String>,
    ) -> Result<Outcome, WorktreeError> {
        bring::discard(&staging_of(file, &record))?;
        if record.phase == Phase::Creating && !self.complete(lock, &record)? {
            self.forget(file, &record)?;
            return Ok(Outcome::Nothing);
        }
        match check(&record, &self.config.now().disposable) {
            Verdict::Clean(removal) if why.is_empty() => {
                match self.remove(lock, file, &mut record, &removal) {
                    Err(WorktreeError::Moving { path }) => {
                        why.push(format!(
                            "{} appeared or changed while it was being removed",
                            path.display()
                        ));
                        self.keep(lock, file, record, why)
                    }
                    Err(error) => Err(error),
                    Ok(()) => Ok(Outcome::Removed {
                        path: record.path,
                        branch: record.branch,
                        branch_kept: removal.tip.is_none(),
                    }),
                }
            }
            Verdict::Clean(_) => self.keep(lock, file, record, why),
            Verdict::Keep(more) => {
                why.extend(more);
                self.keep(lock, file, record, why)
            }
        }
    }

    /// Makes what `git worktree add` left half-done fit to be checked. Whether there is anything of
    /// ours.
    fn complete(&self, lock: Option<&Lock>, record: &Record) -> Result<bool, WorktreeError> {
        if !record.common_dir.is_dir() {
            return Ok(true);
        }
        let Some(admin_dir) = pointers::admin_dir(record)? else {
            // Git makes the data first, so without it there is at most an empty directory.
            let _ = fs::remove_dir(&record.path);
            return Ok(there(&record.path) || branch_is_ours(record)?);
        };
        self.steps.at("before completing")?;
        pointers::complete(record, &admin_dir)?;
        if !there(&admin_dir.join("index")) {
            held(Repo::open_admin(&record.common_dir, &admin_dir)?, lock).fill_index()?;
        }
        if record.path.is_dir() {
            drop_partial_files(record, &admin_dir)?;
        }
        Ok(true)
    }

    pub(super) fn remove(
        &self,
        lock: Option<&Lock>,
        file: &Path,
        record: &mut Record,
        removal: &Removal,
    ) -> Result<(), WorktreeError> {
        if record.phase != Phase::Removing {
            self.steps.at("before removing")?;
            // Still the session's: whoever ends it again must find this to finish.
            record.phase = Phase::Removing;
            record.save(file)?;
        }
        if let Some(tree) = &removal.tree {
            snapshot::remove(&record.path, tree, &|| self.steps.at("before a file goes"))?;
        }
        if record.common_dir.is_dir() {
            let repo = held(Repo::open(&record.common_dir)?, lock);
            if removal.admin_dir.is_some() {
                self.steps.at("before git forgets it")?;
                repo.remove_worktree(&record.path)?;
            }
            if let Some(tip) = &removal.tip {
                self.steps.at("before the branch goes")?;
                repo.delete_branch(&record.branch, tip)?;
            }
        }
        self.steps.at("before the record goes")?;
        self.forget(file, record)
    }

    pub(super) fn keep(
        &self,
        lock: Option<&Lock>,
        file: &Path,
        mut record: Record,
        why: Vec<String>,
    ) -> Result<Outcome, WorktreeError> {
        if record.phase != Phase::Ready {
            self.make_whole(lock, &mut record);
            record.phase = Phase::Ready;
        }
        record.session = None;
        record.kept.clone_from(&why);
        self.steps.at("before keeping")?;
        record.save(file)?;
        Ok(Outcome::Kept { path: record.path, branch: record.branch, why })
    }

    /// Puts back what was already gone. Nothing of it is lost, so it is not worth failing for.
    fn make_whole(&self, lock: Option<&Lock>, record: &mut Record) {
        let Ok(Some(admin_dir)) = pointers::admin_dir(record) else { return };
        if !record.path.is_dir() {
            return;
        }
        if let Some(pointers) = &record.pointers {
            let dot_git = record.path.join(".git");
            if !there(&dot_git) {
                let _ = fs::write(&dot_git, &pointers.dot_git);
            }
        } else if let Ok((found, pointers)) = pointers::read_new(record) {
            record.admin_dir = Some(found);
            record.pointers = Some(pointers);
        }
        if pointers::differences(record, Some(&admin_dir), true).is_empty()
            && let Ok(repo) = Repo::open_tree(&record.common_dir, &admin_dir, &record.path)
        {
            let _ = held(repo, lock).restore_missing();
        }
    }

    fn forget(&self, file: &Path, record: &Record) -> Result<(), WorktreeError> {
        Record::forget(file)?;
        // Directories that are empty now; git leaves its own if it had to give up.
        let _ = fs::remove_dir(record.common_dir.join("worktrees"));
        let staging = staging_of(file, record);
        let dirs = [staging.parent(), file.parent(), record.path.parent()];
        for dir in dirs.into_iter().flatten() {
            let _ = fs::remove_dir(dir);
        }
        Ok(())
    }
}

/// A repository that is gone needs no lock.
pub(super) fn lock_if_there(common_dir: &Path) -> Result<Option<Lock>, WorktreeError> {
    if there(common_dir) { lock(common_dir).map(Some) } else { Ok(None) }
}

/// With the lock for what it starts, if there is one.
pub(super) fn held(repo: Repo, lock: Option<&Lock>) -> Repo {
    match lock {
        Some(lock) => repo.holding(lock),
        None => repo,
    }
}

fn staging_of(file: &Path, record: &Record) -> PathBuf {
    let dir = record.path.parent().unwrap_or(Path::new("/nonexistent"));
    dir.join(".staging").join(file.file_stem().unwrap_or_default())
}

/// Whether the branch was made by this record and not by somebody else after we died.
fn branch_is_ours(record: &Record) -> Result<bool, WorktreeError> {
    let repo = Repo::open(&record.common_dir)?;
    let name = record.refname();
    if !repo.refs()?.iter().any(|one| one.name == name) {
        return Ok(false);
    }
    if !repo.has_plain_refs()? {
        return Ok(true);
    }
    let log = fs::read(record.common_dir.join("logs").join(name)).unwrap_or_default();
    Ok(log.windows(record.nonce.len()).any(|part| part == record.nonce.as_bytes()))
}

/// A checkout that was killed leaves a file it had begun. If it is the beginning of what the commit
/// has, nothing is lost with it.
fn drop_partial_files(record: &Record, admin_dir: &Path) -> Result<(), WorktreeError> {
    let repo = Repo::open_tree(&record.common_dir, admin_dir, &record.path)?;
    for Change { letters, path } in repo.changes()? {
        let Ok(name) = std::str::from_utf8(&path) else { continue };
        let full = record.path.join(os(&path));
        let plain = fs::symlink_metadata(&full).is_ok_and(|meta| meta.is_file());
        if letters != *b" M" || !plain {
            continue;
        }
        let begun = fs::read(&full).map_err(WorktreeError::io("read", &full))?;
        if repo.blob("HEAD", name)?.is_some_and(|whole| whole.starts_with(&begun)) {
            fs::remove_file(&full).map_err(WorktreeError::io("remove", &full))?;
        }
    }
    Ok(())
}

//! `greenroom worktree ls` and `clean`.

use std::fs;
use std::path::{Path, PathBuf};

use greenroom_engine::SessionId;
use serde::{Deserialize, Serialize};

use super::check::{Verdict, check};
use super::end::{Outcome, lock_if_there};
use super::error::WorktreeError;
use super::record::{Phase, Record};
use super::{Worktrees, snapshot};

/// A worktree we made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    pub slug: String,
    pub path: PathBuf,
    pub branch: String,
    /// The checkout it was made from.
    pub repo: PathBuf,
    /// Who works in it, or would if it were alive.
    pub session: Option<String>,
    pub live: bool,
    /// Why it was kept when its last session ended.
    pub why: Vec<String>,
    pub size_bytes: u64,
    /// Seconds since 1970.
    pub made_at: u64,
}

/// What became, or would become, of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleaned {
    pub slug: String,
    pub path: PathBuf,
    pub branch: String,
    pub repo: PathBuf,
    pub action: Action,
    pub why: Vec<String>,
    /// What the removal frees.
    pub size_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Removed,
    WouldRemove,
    Kept,
    InUse,
    /// Tried again next time.
    Failed,
}

impl Worktrees {
    /// All of them, in the order of their repositories and slugs.
    pub fn list(&self) -> Result<Vec<Listed>, WorktreeError> {
        let mut listed = Vec::new();
        for file in self.records()? {
            listed.push(match Record::load(&file) {
                Ok(None) => continue,
                Ok(Some(record)) => self.listed(record),
                Err(error) => unreadable(&file, &error),
            });
        }
        Ok(listed)
    }

    fn listed(&self, record: Record) -> Listed {
        let live = record.session.is_some_and(|id| self.is_alive(id));
        let mut why = record.kept;
        if !live && record.phase != Phase::Ready {
            why.push("its making or removal was interrupted (greenroom worktree clean)".into());
        }
        Listed {
            size_bytes: snapshot::size_of(&record.path),
            slug: record.slug,
            path: record.path,
            branch: record.branch,
            repo: record.source,
            session: record.session.map(|id| SessionId(id).to_string()),
            live,
            why,
            made_at: record.made_at,
        }
    }

    /// Removes what can be removed; with `dry_run` only says so.
    pub fn clean(&self, dry_run: bool) -> Result<Vec<Cleaned>, WorktreeError> {
        let mut cleaned = Vec::new();
        for file in self.records()? {
            match Record::load(&file) {
                Ok(None) => {}
                Ok(Some(record)) => cleaned.push(self.clean_one(&file, record, dry_run)),
                Err(error) => {
                    let Listed { slug, path, branch, repo, why, .. } = unreadable(&file, &error);
                    let action = Action::Failed;
                    cleaned.push(Cleaned { slug, path, branch, repo, action, why, size_bytes: 0 });
                }
            }
        }
        Ok(cleaned)
    }

    pub(super) fn clean_one(&self, file: &Path, record: Record, dry_run: bool) -> Cleaned {
        let mut cleaned = Cleaned {
            slug: record.slug.clone(),
            path: record.path.clone(),
            branch: record.branch.clone(),
            repo: record.source.clone(),
            action: Action::InUse,
            why: Vec::new(),
            size_bytes: 0,
        };
        if let Some(id) = record.session.filter(|id| self.is_alive(*id)) {
            cleaned.why.push(format!("session {} works in it", SessionId(id)));
            return cleaned;
        }
        cleaned.size_bytes = snapshot::size_of(&record.path);
        let done =
            if dry_run { Ok(self.foresee_end(&record)) } else { self.settle_fresh(file, &record) };
        (cleaned.action, cleaned.why) = match done {
            Ok(Outcome::Removed { .. } | Outcome::Nothing) if dry_run => {
                (Action::WouldRemove, Vec::new())
            }
            Ok(Outcome::Removed { .. } | Outcome::Nothing) => (Action::Removed, Vec::new()),
            Ok(Outcome::Kept { why, .. }) => (Action::Kept, why),
            Err(error) => (Action::Failed, vec![error.to_string()]),
        };
        cleaned
    }

    /// With the lock, and as the record is by then.
    fn settle_fresh(&self, file: &Path, record: &Record) -> Result<Outcome, WorktreeError> {
        let locked = lock_if_there(&record.common_dir)?;
        let Some(record) = Record::load(file)? else { return Ok(Outcome::Nothing) };
        if record.session.is_some_and(|id| self.is_alive(id)) {
            let why = vec!["a session has begun to work in it".into()];
            return Ok(Outcome::Kept { path: record.path, branch: record.branch, why });
        }
        self.settle(locked.as_ref(), file, record, Vec::new())
    }

    fn foresee_end(&self, record: &Record) -> Outcome {
        match check(record, &self.config.now().disposable) {
            Verdict::Clean(_) => Outcome::Nothing,
            Verdict::Keep(why) => {
                Outcome::Kept { path: record.path.clone(), branch: record.branch.clone(), why }
            }
        }
    }

    pub(super) fn records(&self) -> Result<Vec<PathBuf>, WorktreeError> {
        let mut files = Vec::new();
        for dir in entries(&self.root)? {
            for file in entries(&dir.join(".records"))? {
                if file.extension().is_some_and(|end| end == "json") {
                    files.push(file);
                }
            }
        }
        files.sort();
        Ok(files)
    }
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, WorktreeError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => return Ok(Vec::new()),
        other => other.map_err(WorktreeError::io("read", dir))?,
    };
    entries.map(|entry| Ok(entry.map_err(WorktreeError::io("read", dir))?.path())).collect()
}

fn unreadable(file: &Path, error: &WorktreeError) -> Listed {
    Listed {
        slug: file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        path: file.to_owned(),
        branch: String::new(),
        repo: PathBuf::new(),
        session: None,
        live: false,
        why: vec![error.to_string()],
        size_bytes: 0,
        made_at: 0,
    }
}

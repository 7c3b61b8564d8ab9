//! `greenroom worktree ls` and `clean`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use greenroom_engine::SessionId;
use greenroom_protocol::api::fence::{CleanAction, CleanedEntry, WorktreeEntry};

use super::check::{Verdict, check};
use super::end::{Outcome, lock_if_there};
use super::error::WorktreeError;
use super::record::{Phase, Record};
use super::{Worktrees, snapshot};

/// How long a list may take to find out why each is kept.
const LIST_PATIENCE: Duration = Duration::from_secs(5);
const UNKNOWN: &str = "unknown: looking took too long (greenroom worktree clean --dry-run)";

impl Worktrees {
    /// All of them, in the order of their repositories and slugs.
    pub fn list(&self) -> Result<Vec<WorktreeEntry>, WorktreeError> {
        let mut listed = Vec::new();
        let looks = Looks::new(self.config.now().disposable.clone());
        for file in self.records()? {
            listed.push(match Record::load(&file) {
                Ok(None) => continue,
                Ok(Some(record)) => self.listed(record, &looks),
                Err(error) => unreadable(&file, &error),
            });
        }
        Ok(listed)
    }

    /// The one at a path.
    pub fn listed_at(&self, path: &Path) -> Result<Option<WorktreeEntry>, WorktreeError> {
        let looks = Looks::new(self.config.now().disposable.clone());
        for file in self.records()? {
            if let Ok(Some(record)) = Record::load(&file)
                && record.path == path
            {
                return Ok(Some(self.listed(record, &looks)));
            }
        }
        Ok(None)
    }

    fn listed(&self, record: Record, looks: &Looks) -> WorktreeEntry {
        let live = record.session.is_some_and(|id| self.is_alive(id));
        let mut why = if live { Vec::new() } else { looks.why(&record) };
        if !live && record.phase != Phase::Ready {
            why.push("its making or removal was interrupted (greenroom worktree clean)".into());
        }
        WorktreeEntry {
            size_bytes: snapshot::size_of(&record.path),
            slug: record.slug,
            path: record.path.display().to_string(),
            branch: record.branch,
            repo: record.source.display().to_string(),
            session: record.session.map(|id| SessionId(id).to_string()),
            live,
            why,
        }
    }

    /// Removes what can be removed; with `dry_run` only says so.
    pub fn clean(&self, dry_run: bool) -> Result<Vec<CleanedEntry>, WorktreeError> {
        let mut cleaned = Vec::new();
        for file in self.records()? {
            match Record::load(&file) {
                Ok(None) => {}
                Ok(Some(record)) => cleaned.push(self.clean_one(&file, record, dry_run)),
                Err(error) => {
                    let WorktreeEntry { slug, path, branch, repo, why, .. } =
                        unreadable(&file, &error);
                    let action = CleanAction::Failed;
                    cleaned.push(CleanedEntry {
                        slug,
                        path,
                        branch,
                        repo,
                        action,
                        why,
                        size_bytes: 0,
                    });
                }
            }
        }
        Ok(cleaned)
    }

    pub(super) fn clean_one(&self, file: &Path, record: Record, dry_run: bool) -> CleanedEntry {
        let mut cleaned = cleaned(&record, CleanAction::InUse, Vec::new());
        if let Some(id) = record.session.filter(|id| self.is_alive(*id)) {
            cleaned.why.push(format!("session {} works in it", SessionId(id)));
            return cleaned;
        }
        cleaned.size_bytes = snapshot::size_of(&record.path);
        let done =
            if dry_run { Ok(self.foresee_end(&record)) } else { self.settle_fresh(file, &record) };
        (cleaned.action, cleaned.why) = match done {
            Ok(Outcome::Removed { .. } | Outcome::Nothing) if dry_run => {
                (CleanAction::WouldRemove, Vec::new())
            }
            Ok(Outcome::Removed { .. } | Outcome::Nothing) => (CleanAction::Removed, Vec::new()),
            Ok(Outcome::Kept { why, .. }) => (CleanAction::Kept, why),
            Err(error) => (CleanAction::Failed, vec![error.to_string()]),
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

/// Looks at worktrees for a list, within a time for all of them.
struct Looks {
    disposable: Vec<String>,
    until: Instant,
}

impl Looks {
    fn new(disposable: Vec<String>) -> Looks {
        Looks { disposable, until: Instant::now() + LIST_PATIENCE }
    }

    /// Why it is kept. What cannot be found out in time is not known: a reason of yesterday may be
    /// wrong today.
    fn why(&self, record: &Record) -> Vec<String> {
        let left = self.until.saturating_duration_since(Instant::now());
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let (record, disposable) = (record.clone(), self.disposable.clone());
        let look = move || {
            let why = match check(&record, &disposable) {
                Verdict::Clean(_) => Vec::new(),
                Verdict::Keep(why) => why,
            };
            // Nobody waits for a late answer.
            let _ = tell.send(why);
        };
        // Git may hang on a dead file system: the thread ends by git's own deadline, not by this
        // one.
        let looks = !left.is_zero()
            && std::thread::Builder::new().name("worktree-look".into()).spawn(look).is_ok();
        let answer = looks.then(|| told.recv_timeout(left).ok()).flatten();
        answer.unwrap_or_else(|| vec![UNKNOWN.to_owned()])
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

fn unreadable(file: &Path, error: &WorktreeError) -> WorktreeEntry {
    WorktreeEntry {
        slug: file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        path: file.display().to_string(),
        why: vec![error.to_string()],
        ..WorktreeEntry::default()
    }
}

pub(super) fn cleaned(record: &Record, action: CleanAction, why: Vec<String>) -> CleanedEntry {
    CleanedEntry {
        slug: record.slug.clone(),
        path: record.path.display().to_string(),
        branch: record.branch.clone(),
        repo: record.source.display().to_string(),
        action,
        why,
        size_bytes: 0,
    }
}

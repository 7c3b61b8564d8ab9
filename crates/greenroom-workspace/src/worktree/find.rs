//! Which worktree a word means: its slug, its branch, its path, or the session that works or worked
//! in it.
//!
//! A word that means several is never guessed at: those of the repository the user stands in come
//! first, and if that does not settle it, it is an error that names them. Deliberately absent:
//! prefixes, because some of these verbs remove things.

use std::path::{Path, PathBuf};

use greenroom_engine::SessionId;

use super::Worktrees;
use super::error::WorktreeError;
use super::record::Record;
use crate::git::RepoPaths;

/// A word, and what is known about who said it.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    pub name: String,
    /// Where the user is.
    pub cwd: Option<PathBuf>,
    /// Where the session of that name works or worked.
    pub session_dir: Option<PathBuf>,
}

/// One worktree, by its record.
#[derive(Clone, Debug)]
pub struct Found {
    pub(super) file: PathBuf,
    pub(super) record: Record,
}

impl Found {
    pub fn slug(&self) -> &str {
        &self.record.slug
    }

    pub fn path(&self) -> &Path {
        &self.record.path
    }

    pub fn branch(&self) -> &str {
        &self.record.branch
    }
}

impl Worktrees {
    pub fn find(&self, ask: &Ask) -> Result<Found, WorktreeError> {
        let mut fitting: Vec<Found> = Vec::new();
        let mut slugs = Vec::new();
        for file in self.records()? {
            let record = match Record::load(&file) {
                Ok(Some(record)) => record,
                Ok(None) => continue,
                Err(error) if is_of(&file, &ask.name) => return Err(error),
                Err(_) => continue,
            };
            if fits(&record, ask) {
                fitting.push(Found { file, record });
            } else {
                slugs.push(record.slug);
            }
        }
        if fitting.len() > 1
            && let Some(here) = ask.cwd.as_deref().and_then(|cwd| RepoPaths::find(cwd).ok())
            && fitting.iter().any(|one| one.record.common_dir == here.common_dir)
        {
            fitting.retain(|one| one.record.common_dir == here.common_dir);
        }
        match fitting.len() {
            0 => Err(WorktreeError::Unknown {
                name: ask.name.clone(),
                nearest: nearest(&ask.name, slugs),
            }),
            1 => Ok(fitting.remove(0)),
            _ => Err(WorktreeError::Ambiguous {
                name: ask.name.clone(),
                paths: fitting.into_iter().map(|one| one.record.path).collect(),
            }),
        }
    }

    /// Whether somebody works, or left work, under this slug in the repository at `cwd`.
    pub fn is_taken(&self, cwd: &Path, slug: &str) -> Result<bool, WorktreeError> {
        Ok(Record::load(&self.target(cwd, slug)?.record)?.is_some())
    }
}

fn fits(record: &Record, ask: &Ask) -> bool {
    let name = ask.name.as_str();
    record.slug == name
        || record.branch == name
        || record.path == Path::new(name)
        || record.session.is_some_and(|id| SessionId(id).to_string() == name)
        || ask.session_dir.as_ref().is_some_and(|dir| dir.starts_with(&record.path))
}

/// Whether a record that cannot be read is that of `name`.
fn is_of(file: &Path, name: &str) -> bool {
    file.file_stem().is_some_and(|stem| stem == name.replace('/', "+").as_str())
}

/// The slug that looks most like it.
fn nearest(name: &str, slugs: Vec<String>) -> Option<String> {
    let close = |slug: &String| slug.starts_with(name) || name.starts_with(slug.as_str());
    slugs.into_iter().filter(|slug| !name.is_empty() && close(slug)).min_by_key(String::len)
}

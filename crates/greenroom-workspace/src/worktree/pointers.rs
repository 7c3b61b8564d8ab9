//! The files that lead git from a worktree to its repository and back.
//!
//! A program that rewrites one of them decides which configuration git obeys there, so they must be
//! byte for byte what they were.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::WorktreeError;
use super::record::{Phase, Pointers, Record};
use crate::disk::{if_there, read_plain};

/// A path and a few words.
const MAX_POINTER: u64 = 64 * 1024;

/// A small regular file, not reached through a link. `None` if absent.
fn read(file: &Path) -> Result<Option<String>, WorktreeError> {
    let text = read_plain(file, MAX_POINTER)
        .and_then(|text| text.map(String::from_utf8).transpose().map_err(std::io::Error::other));
    text.map_err(WorktreeError::io("read", file))
}

/// Reads them right after git has made the worktree.
pub fn read_new(record: &Record) -> Result<(PathBuf, Pointers), WorktreeError> {
    let dot_git = record.path.join(".git");
    let missing = |file: &Path| {
        WorktreeError::io("read", file)(std::io::Error::from(std::io::ErrorKind::NotFound))
    };
    let text = read(&dot_git)?.ok_or_else(|| missing(&dot_git))?;
    let named = text.trim_end_matches('\n').strip_prefix("gitdir: ").unwrap_or_default();
    let admin_dir =
        record.path.join(named).canonicalize().map_err(WorktreeError::io("find", &dot_git))?;
    if admin_dir.parent() != Some(&record.common_dir.join("worktrees")) {
        let odd = std::io::Error::other("it is not below the repository's worktrees");
        return Err(WorktreeError::io("use", &admin_dir)(odd));
    }
    let of = |name: &str| -> Result<String, WorktreeError> {
        let file = admin_dir.join(name);
        read(&file)?.ok_or_else(|| missing(&file))
    };
    let pointers = Pointers {
        dot_git: text,
        commondir: of("commondir")?,
        gitdir: of("gitdir")?,
        config: read(&admin_dir.join("config.worktree"))?.unwrap_or_default(),
    };
    Ok((admin_dir, pointers))
}

/// Where the worktree's data is now: as recorded, or found by our path if we died before we could
/// record it.
pub fn admin_dir(record: &Record) -> Result<Option<PathBuf>, WorktreeError> {
    if let Some(dir) = &record.admin_dir {
        return Ok(super::check::there(dir).then(|| dir.clone()));
    }
    let all = record.common_dir.join("worktrees");
    let listed = if_there(fs::read_dir(&all)).map_err(WorktreeError::io("read", &all))?;
    let Some(entries) = listed else { return Ok(None) };
    let ours = record.path.join(".git");
    for entry in entries {
        let dir = entry.map_err(WorktreeError::io("read", &all))?.path();
        // A directory that cannot be read is somebody else's.
        if let Ok(Some(text)) = read(&dir.join("gitdir"))
            && Path::new(text.trim_end_matches('\n')) == ours
        {
            return Ok(Some(dir));
        }
    }
    Ok(None)
}

/// What is not as recorded, in words.
pub fn differences(record: &Record, admin_dir: Option<&Path>, tree_exists: bool) -> Vec<String> {
    let mut found = Vec::new();
    // Where we were interrupted a file may be missing; a different one is never right.
    let partial = matches!(record.phase, Phase::Creating | Phase::Removing);
    let mut compare = |file: PathBuf, wanted: &str, may_lack: bool| match read(&file) {
        Ok(Some(text)) if text == wanted => {}
        Ok(None) if may_lack || wanted.is_empty() => {}
        Ok(Some(text)) if text.is_empty() && wanted.is_empty() => {}
        _ => found.push(format!("{} was changed: do not run git there unseen", file.display())),
    };
    if let Some(pointers) = &record.pointers {
        if tree_exists {
            compare(record.path.join(".git"), &pointers.dot_git, partial);
        }
        if let Some(dir) = admin_dir {
            compare(dir.join("commondir"), &pointers.commondir, false);
            compare(dir.join("gitdir"), &pointers.gitdir, false);
            compare(dir.join("config.worktree"), &pointers.config, false);
        }
    }
    if record.pointers.is_none() && record.phase == Phase::Ready && tree_exists {
        found.push("its making was interrupted before its pointers were recorded".into());
    }
    for dir in [tree_exists.then_some(record.path.as_path()), admin_dir].into_iter().flatten() {
        if !fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir()) {
            found.push(format!("{} is not a directory any more", dir.display()));
        }
    }
    found
}

/// Completes what `git worktree add` had not written when it died, so that git can be asked. No
/// session has run yet.
pub fn complete(record: &Record, admin_dir: &Path) -> Result<(), WorktreeError> {
    let fill = |file: PathBuf, text: String| -> Result<(), WorktreeError> {
        if read(&file)?.is_none_or(|found| found.is_empty()) {
            fs::write(&file, text).map_err(WorktreeError::io("write", &file))?;
        }
        Ok(())
    };
    fill(admin_dir.join("commondir"), "../..\n".into())?;
    fill(admin_dir.join("HEAD"), format!("ref: {}\n", record.refname()))?;
    if record.path.is_dir() {
        fill(record.path.join(".git"), format!("gitdir: {}\n", admin_dir.display()))?;
    }
    let lock = admin_dir.join("locked");
    if read(&lock)?.is_some_and(|why| why.is_empty() || why.starts_with("initializing")) {
        fs::remove_file(&lock).map_err(WorktreeError::io("remove", &lock))?;
    }
    for name in ["index.lock", "HEAD.lock"] {
        let _ = fs::remove_file(admin_dir.join(name));
    }
    Ok(())
}

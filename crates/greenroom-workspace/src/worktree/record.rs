//! What we know of a worktree we made, on disk before it is made and until nothing of it is left.
//!
//! One JSON file each, `<state>/worktrees/<repository>/.records/<slug>.json`: beside the worktrees
//! and not in them, so that a session cannot change it. Written by rename, with the disk told to
//! keep up: after a crash it says how far we came.

use std::fs;
use std::path::{Path, PathBuf};

use greenroom_engine::keep::{self, Lasting};
use serde::{Deserialize, Serialize};

use super::error::WorktreeError;
use crate::disk::{gone, if_there, private_dir};
use crate::git::Oid;

/// Raised when an older greenroom could not read it any more.
pub const VERSION: u32 = 1;

/// A record is a few kilobytes; ten thousand included files make it a megabyte.
const MAX_BYTES: u64 = 16 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub version: u32,
    /// Different each time one is made; in the first line of the branch's log.
    pub nonce: String,
    pub slug: String,
    pub branch: String,
    pub path: PathBuf,
    /// The checkout it was made from, or the bare repository.
    pub source: PathBuf,
    pub common_dir: PathBuf,
    /// `<common_dir>/worktrees/<name>`, once git has chosen the name.
    pub admin_dir: Option<PathBuf>,
    pub base: Oid,
    pub phase: Phase,
    pub pointers: Option<Pointers>,
    /// What we put into the tree besides what git checked out.
    pub ours: Vec<Ours>,
    /// What was stashed before, and so not from here.
    pub stashes: Vec<Oid>,
    /// Who works in it.
    pub session: Option<u64>,
    /// Why it was kept when its last session ended.
    pub kept: Vec<String>,
    /// Seconds since 1970.
    pub made_at: u64,
}

/// How far making or removing came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Branch and worktree may exist, whole or in part. No session has run.
    Creating,
    /// They exist; our files may not all be there. No session has run.
    Filling,
    Ready,
    /// Found clean; parts may be gone already.
    Removing,
}

/// The files that lead git from a worktree to its repository, as they were when it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointers {
    /// `<worktree>/.git`
    pub dot_git: String,
    /// `<admin>/commondir`
    pub commondir: String,
    /// `<admin>/gitdir`
    pub gitdir: String,
    /// `<admin>/config.worktree`; an absent one is empty.
    pub config: String,
}

/// Something we put into the tree, by its path from the top.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Ours {
    /// Ours as long as its content is.
    File {
        path: String,
        content: Oid,
    },
    Link {
        path: String,
        target: String,
    },
    /// With everything that grows in it: the user said it is derived when they shared it.
    Dir {
        path: String,
    },
}

impl Ours {
    pub fn path(&self) -> &str {
        match self {
            Ours::File { path, .. } | Ours::Link { path, .. } | Ours::Dir { path } => path,
        }
    }
}

impl Record {
    pub fn load(file: &Path) -> Result<Option<Record>, WorktreeError> {
        let found = if_there(fs::symlink_metadata(file));
        let Some(meta) = found.map_err(WorktreeError::io("look at", file))? else {
            return Ok(None);
        };
        let unreadable = |source| WorktreeError::Record { path: file.to_owned(), source };
        if meta.len() > MAX_BYTES {
            return Err(unreadable(serde::de::Error::custom("it is too large")));
        }
        let text = fs::read(file).map_err(WorktreeError::io("read", file))?;
        let record: Record = serde_json::from_slice(&text).map_err(unreadable)?;
        if record.version != VERSION {
            let text = format!("version {}, we know {VERSION}", record.version);
            return Err(unreadable(serde::de::Error::custom(text)));
        }
        Ok(Some(record))
    }

    /// When this returns it survives a crash.
    pub fn save(&self, file: &Path) -> Result<(), WorktreeError> {
        let text = serde_json::to_vec_pretty(self)
            .map_err(|source| WorktreeError::Record { path: file.to_owned(), source })?;
        keep::write(file, &text, Lasting::Machine).map_err(WorktreeError::io("write", file))
    }

    pub fn forget(file: &Path) -> Result<(), WorktreeError> {
        gone(fs::remove_file(file)).map_err(WorktreeError::io("remove", file))
    }

    pub fn refname(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }
}

/// A directory of ours alone, with its parents.
pub fn make_dir(dir: &Path) -> Result<(), WorktreeError> {
    private_dir(dir).map_err(WorktreeError::io("make", dir))
}

//! `worktree.*` and `sandbox.*`: what session plugins made, and what would be enforced.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_false;

/// Result of `worktree.list`, in the order of repositories and slugs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeListResult {
    /// Every worktree we made and that is still there.
    pub worktrees: Vec<WorktreeEntry>,
}

/// A worktree we made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeEntry {
    /// As it was asked for.
    pub slug: String,
    /// Where it is.
    pub path: String,
    /// The worktree's branch.
    pub branch: String,
    /// The checkout it was made from.
    pub repo: String,
    /// Who works in it, or did last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// That session lives.
    #[serde(default)]
    pub live: bool,
    /// Why it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// What it takes on the disk.
    #[serde(default)]
    pub size_bytes: u64,
}

/// Params of `worktree.clean`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WorktreeCleanParams {
    /// Only say what would be removed.
    #[serde(skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

/// Result of `worktree.clean`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeCleanResult {
    /// What became of each.
    pub worktrees: Vec<CleanedEntry>,
}

/// What became of a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CleanedEntry {
    /// As it was asked for.
    pub slug: String,
    /// Where it is or was.
    pub path: String,
    /// The worktree's branch.
    pub branch: String,
    /// The checkout it was made from.
    pub repo: String,
    /// What was done.
    pub action: CleanAction,
    /// Why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<String>,
    /// What that frees.
    #[serde(default)]
    pub size_bytes: u64,
}

/// What was done with a worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CleanAction {
    /// It is gone; nothing was lost.
    Removed,
    /// It would be gone without `dry_run`.
    WouldRemove,
    /// It holds work.
    Kept,
    /// A session lives in it.
    InUse,
    /// It could not be looked at or removed; it is tried again next time.
    Failed,
}

impl CleanAction {
    /// As on the wire, for people.
    pub fn word(self) -> &'static str {
        match self {
            CleanAction::Removed => "removed",
            CleanAction::WouldRemove => "would remove",
            CleanAction::Kept => "kept",
            CleanAction::InUse => "in use",
            CleanAction::Failed => "failed",
        }
    }
}

/// Params of `worktree.info`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeParams {
    /// Its slug, branch or path, or the session that works or worked in it.
    pub worktree: String,
    /// Where the caller is: of several with one name that of this repository is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// Params of `worktree.diff`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeDiffParams {
    /// Its slug, branch or path, or the session that works or worked in it.
    pub worktree: String,
    /// Where the caller is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Against this commit; where its branch began if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Names and counts instead of the lines.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stat: bool,
}

/// Result of `worktree.diff`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeDiffResult {
    /// As it was asked for.
    pub slug: String,
    /// Where it is.
    pub path: String,
    /// The worktree's branch.
    pub branch: String,
    /// The commit it is compared with.
    pub base: String,
    /// How many commits it has since.
    pub commits: u64,
    /// As git writes it; what is no UTF-8 is replaced.
    pub diff: String,
    /// It is longer than one answer can be, and was cut.
    #[serde(default, skip_serializing_if = "is_false")]
    pub truncated: bool,
    /// What is there and not shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Params of `worktree.merge`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeMergeParams {
    /// Its slug, branch or path, or the session that works or worked in it.
    pub worktree: String,
    /// Where the caller is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The branch to merge into; what is checked out where the worktree was made from if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub into: Option<String>,
    /// One commit with everything.
    #[serde(default, skip_serializing_if = "is_false")]
    pub squash: bool,
    /// What to say in the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Result of `worktree.merge`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeMergeResult {
    /// As it was asked for.
    pub slug: String,
    /// The branch that was merged.
    pub branch: String,
    /// The branch it was merged into.
    pub into: String,
    /// The checkout whose files changed, if that branch is checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkout: Option<String>,
    /// What was done.
    pub action: MergeAction,
    /// Where the branch is now.
    pub commit: String,
    /// How many commits came along.
    pub commits: u64,
    /// What was left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// How a worktree's branch was merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MergeAction {
    /// It was all there already.
    Nothing,
    /// The branch moved forward to it.
    FastForward,
    /// By a commit of its own.
    Merged,
    /// As one commit.
    Squashed,
}

/// Params of `worktree.remove`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeRemoveParams {
    /// Its slug, branch or path, or the session that worked in it.
    pub worktree: String,
    /// Where the caller is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Although it holds work: that is put under a ref of the repository first.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

/// Result of `worktree.remove`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorktreeRemoveResult {
    /// What became of it. With `force`, `why` is what would have been lost.
    pub worktree: CleanedEntry,
    /// The ref that leads to what would have been lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_as: Option<String>,
}

/// Result of `sandbox.doctor`: what this machine can enforce, found by trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxDoctorResult {
    /// `--sandbox` works here.
    pub full: bool,
    /// `--sandbox=reduced` works here.
    pub reduced: bool,
    /// `uname -r`.
    pub kernel: String,
    /// The user it was tried as.
    pub uid: u32,
    /// Version of Landlock; 0: none.
    pub landlock_abi: u32,
    /// Each layer.
    pub layers: Vec<LayerEntry>,
    /// What to do about what is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<String>,
}

/// One layer of the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LayerEntry {
    /// Such as `landlock`.
    pub layer: String,
    /// It was tried and works.
    pub works: bool,
    /// What the trial said.
    pub outcome: String,
}

/// Result of `sandbox.explain`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxExplainResult {
    /// What would be enforced.
    pub level: String,
    /// Where the session would be.
    pub cwd: String,
    /// What it may change.
    pub writable: Vec<String>,
    /// What stays as it is although it lies there.
    pub protected: Vec<String>,
    /// What it cannot see.
    pub hidden: Vec<String>,
    /// Hosts it may reach; empty: none. `*`: all.
    pub hosts: Vec<String>,
    /// In plain words: what is enforced by which layer, and what is not.
    pub text: String,
    /// The same as a profile for macOS.
    #[serde(default)]
    pub macos: SeatbeltProfile,
    /// What plugins want to be known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A sandbox as a profile for `sandbox-exec` of macOS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeatbeltProfile {
    /// For `sandbox-exec -f`.
    pub text: String,
    /// Paths that the text names, for `-D NAME=VALUE`.
    pub params: BTreeMap<String, String>,
    /// How far it has been tried.
    pub note: String,
}

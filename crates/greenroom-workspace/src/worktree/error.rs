//! Why a worktree cannot be made, kept track of or removed.

use std::io;
use std::path::{Path, PathBuf};

use crate::git::command::CommandError;
use crate::git::{GitError, quoted};
use crate::spec::{CleanupError, Refusal};

#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    #[error("`{slug}` cannot name a worktree: {why}")]
    Slug { slug: String, why: &'static str },
    #[error("the branch prefix `{prefix}` is not one git allows")]
    Prefix { prefix: String },
    #[error("{0}")]
    Git(#[from] GitError),
    #[error("cannot make a worktree of {}: it has no commit yet", repo.display())]
    NoCommit { repo: PathBuf },
    #[error("cannot begin at `{base}`: {} has no such commit", repo.display())]
    Base { base: String, repo: PathBuf, shallow: bool },
    #[error("cannot make a worktree: the path {} is not UTF-8", path.display())]
    NotUtf8 { path: PathBuf },
    #[error("worktree `{slug}` is in use by session {session}")]
    Live { slug: String, session: String },
    #[error("branch `{branch}` exists and is not greenroom's")]
    BranchTaken { branch: String, slug: String },
    #[error("{} exists and is not a worktree greenroom made", path.display())]
    PathTaken { path: PathBuf },
    #[error("cannot resume worktree `{slug}`: {why}")]
    NotResumable { slug: String, why: String, path: PathBuf },
    #[error("cannot {what} {}: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("the record {} is not readable: {source}", path.display())]
    Record { path: PathBuf, source: serde_json::Error },
    #[error("`.worktreeinclude` names more than {limit}")]
    TooMuchIncluded { limit: String },
    #[error("cannot share {dir} by {mode}: {why}")]
    Share { dir: String, mode: &'static str, why: String },
    #[error("the {which} command `{command}` {why}")]
    Command { which: &'static str, command: String, why: String },
    #[error("cannot run the {which} command `{command}`: {source}")]
    CommandRun { which: &'static str, command: String, source: CommandError },
    #[error("no ten free ports in a row between {from} and {to}")]
    Ports { from: u16, to: u16 },
    #[error("{} appeared or changed while its worktree was being removed", path.display())]
    Moving { path: PathBuf },
    #[error("no worktree is called `{name}`, and no session of that name works in one")]
    Unknown { name: String, nearest: Option<String> },
    #[error("`{name}` means several worktrees: {}", listed(paths))]
    Ambiguous { name: String, paths: Vec<PathBuf> },
    #[error("worktree `{slug}` cannot be used: {why}")]
    Unfit { slug: String, why: String },
    #[error("`{branch}` cannot be merged into itself")]
    IntoItself { branch: String },
    #[error("there is no branch `{branch}` in {}", repo.display())]
    NoBranch { branch: String, repo: PathBuf },
    #[error("it is not clear into which branch: {why}")]
    NoCheckout { why: String },
    #[error("`{branch}` has uncommitted changes in {}: {}", top.display(), few(files))]
    Dirty { branch: String, top: PathBuf, files: Vec<String> },
    #[error("`{branch}` and `{into}` conflict in {}", few(files))]
    Conflicts { branch: String, into: String, files: Vec<String> },
    #[error("`{into}` cannot be changed: {why}")]
    NotMerged { into: String, why: String },
    #[error("cannot go on with the worktree: {0}")]
    Died(#[from] tokio::task::JoinError),
    /// Only where a test stops us.
    #[error("stopped at {0}")]
    Stopped(&'static str),
}

impl WorktreeError {
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WorktreeError {
        let path = path.to_owned();
        move |source| WorktreeError::Io { what, path, source }
    }

    /// A command or a file that helps.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            WorktreeError::Slug { .. } => {
                "use lower-case letters, digits and . _ / -, such as feat-auth".into()
            }
            WorktreeError::Prefix { .. } => {
                "set worktree.prefix to something like greenroom/".into()
            }
            WorktreeError::Git(error) => return error.hint(),
            WorktreeError::NoCommit { .. } => "git commit --allow-empty -m \"first commit\"".into(),
            WorktreeError::Base { shallow: true, .. } => {
                "the clone is shallow: git fetch --unshallow, or choose another --base".into()
            }
            WorktreeError::Base { .. } => "git branch --all lists what --base can be".into(),
            WorktreeError::NotUtf8 { .. } => "move the repository to a path that is".into(),
            WorktreeError::Live { session, .. } => {
                format!("greenroom attach {session}, or choose another slug")
            }
            WorktreeError::BranchTaken { branch, slug } => format!(
                "choose another slug, begin at it with --worktree {slug}-2 --base {branch}, \
                 or rename it: git branch -m {branch} NEW"
            ),
            WorktreeError::PathTaken { path } => {
                format!("choose another slug, or move {} away", path.display())
            }
            WorktreeError::NotResumable { path, .. } => {
                format!("look at {} and choose another slug", path.display())
            }
            WorktreeError::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space; greenroom worktree clean removes what is safe".into()
            }
            WorktreeError::Io { .. } => "check the space and rights of that path".into(),
            WorktreeError::Record { path, .. } => format!("move {} away", path.display()),
            WorktreeError::TooMuchIncluded { .. } => {
                "name less in .worktreeinclude; share large directories instead".into()
            }
            WorktreeError::Share { dir, .. } => format!("set worktree.share.{dir} = \"none\""),
            WorktreeError::Command { .. } | WorktreeError::CommandRun { .. } => {
                "try the command in the repository, or change it in config.toml".into()
            }
            WorktreeError::Ports { .. } => "end a session, or set worktree.ports = false".into(),
            WorktreeError::Unknown { nearest: Some(slug), .. } => format!("is it {slug}?"),
            WorktreeError::Unknown { .. } => "greenroom worktree ls".into(),
            WorktreeError::Ambiguous { .. } => "say its path, or stand in its repository".into(),
            WorktreeError::Unfit { .. } => "greenroom worktree ls says where it is".into(),
            WorktreeError::NoBranch { .. } => "git branch lists those there are".into(),
            WorktreeError::NoCheckout { .. } => "say it with --into BRANCH".into(),
            WorktreeError::Dirty { top, .. } => {
                format!("commit or stash them there: git -C {} stash", quoted(top))
            }
            WorktreeError::Conflicts { into, .. } => format!(
                "nothing was changed; take {into} into the worktree, settle it there, and merge again"
            ),
            WorktreeError::NotMerged { .. } => "nothing was changed; merge it by hand there".into(),
            WorktreeError::IntoItself { .. }
            | WorktreeError::Moving { .. }
            | WorktreeError::Died(_)
            | WorktreeError::Stopped(_) => return None,
        })
    }
}

/// Names shown of a list; the rest is counted.
const SHOWN: usize = 8;

fn few(names: &[String]) -> String {
    let more = names.len().saturating_sub(SHOWN);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{tail}", names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", "))
}

fn listed(paths: &[PathBuf]) -> String {
    few(&paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>())
}

impl From<WorktreeError> for Refusal {
    fn from(error: WorktreeError) -> Refusal {
        let refusal = match &error {
            WorktreeError::Git(git) => Refusal::new(format!("cannot make a worktree: {git}")),
            other => Refusal::new(other.to_string()),
        };
        match error.hint() {
            Some(hint) => refusal.hint(hint),
            None => refusal,
        }
    }
}

impl From<WorktreeError> for CleanupError {
    fn from(error: WorktreeError) -> CleanupError {
        CleanupError::new(error.to_string())
    }
}

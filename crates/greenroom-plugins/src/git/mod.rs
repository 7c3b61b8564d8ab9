//! Git, run so that a tree or a configuration somebody else could write cannot make it do anything but answer.
//!
//! In: paths that were recorded when the tree was known to be good. Out: typed answers, or a [`GitError`].
//! `command` runs a child with a deadline and a cap; `hardened` says with which environment and settings; `repo` has
//! the questions. Deliberately absent: worktrees of sessions (`crate::worktree`), and every command that talks to a network.

pub mod command;
mod error;
mod hardened;
mod repo;
pub mod session_config;

pub use error::GitError;
pub use hardened::{find_git, user_excludes};
pub use repo::{IndexEntry, Oid, Place, Ref, Repo, StashEntry, Tree};

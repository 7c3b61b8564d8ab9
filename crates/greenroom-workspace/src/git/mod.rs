//! Git, run so that a tree or a configuration somebody else could write cannot make it do anything
//! but answer.
//!
//! In: paths that were recorded when the tree was known to be good. Out: typed answers, or a
//! [`GitError`]. `command` runs a child with a deadline and a cap; `hardened` says with which
//! environment and settings; `paths` finds a repository, `repo` and `tree` have the questions,
//! `home` brings a branch home. Deliberately absent: worktrees of sessions (`crate::worktree`),
//! and, `clone` apart, every command that talks to a network.

mod clone;
pub mod command;
mod error;
mod hardened;
mod home;
mod oid;
mod paths;
mod repo;
pub mod session_config;
mod tree;

pub use clone::clone;
pub use error::GitError;
pub use hardened::{find_git, user_excludes};
pub use home::{Entry, Identity, Together, quoted};
pub use oid::Oid;
pub use paths::RepoPaths;
pub use repo::{Ref, Repo, StashEntry, Tree};
pub use tree::{Change, IndexEntry};

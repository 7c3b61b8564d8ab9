//! Worktrees with real git.

mod bring;
mod home;
mod kills;
mod life;
mod property;
mod refusals;
mod stage;
mod traps;

//! What prepares a session and cleans up after it.
//!
//! In comes a [`spec::SessionSpec`] with what the caller asked for; each plugin of the chain changes it; out goes a
//! spec the engine can start, and after the session's end a list of what was removed and what was kept.
//!
//! Deliberately absent: sockets, JSON-RPC and configuration files (the daemon's), processes' lives (the keeper's).
#![forbid(unsafe_code)]

pub mod chain;
pub mod env;
pub mod git;
pub mod host;
pub mod live;
pub mod runtime;
pub mod sandbox;
pub mod scratchpad;
pub mod spec;
pub mod store;
#[cfg(test)]
pub(crate) mod testing;
pub mod timeout;
pub mod worktree;

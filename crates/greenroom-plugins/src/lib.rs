//! Plugins that are programs of others: found, agreed to, run, and asked at the hooks.
//!
//! | room | what it is |
//! |---|---|
//! | `store` | which plugins there are, what was agreed to, and the copies that run |
//! | `host` | who is asked at a hook, in which order, by when, and what a failure means |
//! | `runtime` | a plugin's program: how it is confined, started on pipes, asked, and ended |
//!
//! In comes a directory of plugins and what happens to sessions; out go decisions, edits of output,
//! and what was counted of each plugin. Every call ends by its deadline, and every failure has a
//! policy.
//!
//! Deliberately absent: where hooks are in a session's life (the daemon's), forks (the keeper's),
//! and the built-in session plugins (`greenroom_workspace`).
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod host;
pub mod runtime;
pub mod store;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A thread that panicked with a lock held left counts and lists behind, which are right as they
/// are.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

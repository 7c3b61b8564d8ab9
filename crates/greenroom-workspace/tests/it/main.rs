//! Session plugins with real repositories, real processes, real files.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking; one that is to be killed says when it is ready"
)]

mod worktree;

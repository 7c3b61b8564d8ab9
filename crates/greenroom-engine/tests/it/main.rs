//! The engine's tests on real PTYs, one binary.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damaged;
mod egress;
mod journal_disk;
mod journal_kill;
mod journal_stage;
mod session;
mod stage;

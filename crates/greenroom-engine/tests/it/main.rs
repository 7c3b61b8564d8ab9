//! The engine's tests on real PTYs, one binary.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod session;
mod stage;

//! The agent on a real PTY.
#![allow(clippy::unwrap_used, reason = "a test ends at the first surprise, helpers included")]

mod terminal;

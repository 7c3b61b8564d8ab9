//! The keeper as a process, with a daemon played by the test.
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod host;
mod lifecycle;
mod load;
mod piped;
mod replace;
mod sandbox;
mod spawn;
mod tree;

//! What the tests of several crates need. A dev-dependency only: `xtask check` refuses any other.
//!
//! | room | what it gives |
//! |---|---|
//! | [`place`] | temporary directories, built examples, programs written by a test |
//! | [`user`] | the ordinary user that root's tests run programs as |
//! | [`run`] | a program with a plain environment, and what it said |
//! | [`git`] | git as a user without settings runs it, and repositories |
//! | [`wait`] | the one patience of all tests, and barriers |
//! | [`process`] | who runs: by pid, by mark, by parent |
//! | [`terminal`] | a PTY, and reading one until a text comes |
//! | [`socket`] | file descriptors that came over a socket |
//! | [`disk`] | a disk that is soon full |
//! | [`series`] | how many cases a long series runs, and from which seed |
//!
//! Absent on purpose: everything that knows a type of ours. A crate's own harness is a thin layer
//! over these in its `tests/it`.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "only tests call it: a panic is their failure")]
#![expect(clippy::print_stderr, reason = "what was not run, and the seed of a failure, are said")]

pub mod disk;
pub mod git;
pub mod place;
pub mod process;
pub mod run;
pub mod series;
pub mod socket;
pub mod terminal;
pub mod user;
pub mod wait;

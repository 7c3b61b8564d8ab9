//! A fence around one process tree, held by the operating system: policy → plan → stage.
//!
//! | room | what it is |
//! |---|---|
//! | `policy` | what a session may do, in the user's terms; host patterns |
//! | `modules` | the git directories of submodules |
//! | `probe` | what this machine can enforce, found by trying |
//! | `plan` | policy and probe compiled to exact steps, sealed in a memfd; or the layer that is missing |
//! | `explain` | a plan in plain words: what is enforced by which layer, and what is not |
//! | `seatbelt` | the same policy as a macOS profile (text and parameters; not run here) |
//! | `stage` | carries a plan out in a forked process, then becomes the program |
//! | `lineage` | who is below a process |
//! | `control` | what a stage tells whoever started it, with the fds it made inside |
//! | `launch`, `memfd`, `wire` | a program to start, as asked for and ready to run; sealed bytes; their layout. The keeper uses them too |
//!
//! The compiler is pure, so that it can be tested anywhere. The stage is single-threaded, runs no
//! runtime, and runs the program only if every step of its plan was carried out. Absent on purpose:
//! sessions, JSON, the proxy, and any other crate of ours.
#![deny(unsafe_op_in_unsafe_fn)]

mod compile;
pub mod control;
mod environment;
mod explain;
#[cfg(target_os = "linux")]
mod filter;
pub mod launch;
pub mod layer;
#[cfg(target_os = "linux")]
pub mod lineage;
pub mod memfd;
pub mod modules;
pub mod plan;
pub mod policy;
pub mod probe;
pub mod seatbelt;
#[cfg(target_os = "linux")]
pub mod stage;
pub mod wire;

pub use environment::SANDBOX_VARIABLE;

//! The edge: socket, router, store, keeper link.
//!
//! The map, in the order of a request: [`run`] composes everything; `socket` accepts, `rpc` reads
//! frames and finds the handler, `methods` asks the engine with a `call` in hand, `convert` speaks
//! both languages, `attach` is the binary stream. Beside them: `keeper` and `adopt` (processes that
//! outlive us), `store` and `events` (records and the event log), `logs`, `lifecycle`, `trouble`
//! (files of ours that are damaged).
//!
//! Deliberately absent: what a session is (the engine), how bytes become a screen, and forks.
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

mod adopt;
mod attach;
mod call;
mod callers;
mod chains;
mod convert;
mod counters;
mod descriptors;
mod events;
mod follow;
mod hooks;
mod host;
mod http;
pub mod keeper;
mod lifecycle;
mod logs;
mod methods;
mod rpc;
mod run;
mod screens;
mod settings;
mod socket;
mod store;
mod sync;
mod terminals;
mod trouble;
mod waits;

pub use rpc::hangup;
pub use run::{DaemonOptions, run};

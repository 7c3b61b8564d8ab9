//! The edge: socket, router, config, store, keeper link.
//!
//! The map, in the order of a request: [`run`] composes everything; `socket` accepts, `rpc` reads
//! frames and finds the handler, `methods` asks the engine, `convert` speaks both languages,
//! `attach` is the binary stream. Beside them: `keeper` and `adopt` (processes that outlive us),
//! `store` and `events` (records and the event log), [`config`], [`Paths`], `logs`, `lifecycle`,
//! `trouble` (files of ours that are damaged).
//!
//! Deliberately absent: what a session is (the engine), how bytes become a screen, and forks.
#![forbid(unsafe_code)]

mod adopt;
mod attach;
mod callers;
mod chains;
pub mod config;
mod convert;
mod descriptors;
mod events;
mod follow;
mod hooks;
mod host;
mod http;
pub mod keeper;
mod lifecycle;
mod logs;
pub mod mcp;
mod methods;
mod paths;
mod plugins;
mod proxy;
mod rpc;
mod run;
mod run_file;
mod settings;
mod socket;
mod store;
mod trouble;

pub use paths::{Paths, PathsError};
pub use run::{DaemonOptions, run};

//! The client API: every type that crosses the boundary between host and client; codecs without
//! I/O.
//!
//! The map: [`frame`] cuts a byte stream into JSON texts, [`rpc`] reads and writes the JSON-RPC
//! envelope, [`fault`] is the table of errors, [`api`] holds params and results of each method,
//! [`methods`] is the one table that names them all, [`members`] what may stand in their params,
//! [`attach`] is the binary stream of an attached client, [`hook_pipe`] what hooks of agents say
//! from inside a sandbox.
//!
//! Deliberately absent: sockets, tasks, clocks, key names (the terminal crate parses those); files
//! people write (`greenroom-formats`), what plugins say (`greenroom-plugin-api`).
#![forbid(unsafe_code)]
#![warn(unreachable_pub)]

pub mod api;
pub mod attach;
pub mod events;
pub mod fault;
pub mod frame;
pub mod hook_pipe;
pub mod members;
pub mod methods;
mod nearest;
pub mod rpc;
pub mod time;

pub use fault::{Fault, FaultKind};
pub use nearest::nearest;
pub use rpc::Id;
pub use time::Timestamp;

/// Versions of the client API this build speaks, newest last.
pub const PROTOCOL_VERSIONS: &[u32] = &[1];

//! Every type that crosses a process boundary; codecs without I/O.
//!
//! The map: [`frame`] cuts a byte stream into JSON texts, [`rpc`] reads and writes the JSON-RPC
//! envelope, [`fault`] is the table of errors, [`api`] holds params and results of each method,
//! [`methods`] is the one table that names them all, [`members`] what may stand in their params, [`attach`] is the binary stream of an
//! attached client, [`asciicast`] the recording format, [`connector`] the file of a run, [`manifest`] what a
//! plugin says of itself, [`told`] what hooks of agents say from inside a sandbox, [`tree`] the three syntaxes people write
//! both in.
//!
//! Deliberately absent: sockets, tasks, clocks, key names (the terminal crate parses those).
#![forbid(unsafe_code)]

pub mod api;
pub mod asciicast;
pub mod attach;
pub mod connector;
pub mod fault;
pub mod frame;
pub mod manifest;
pub mod members;
pub mod methods;
pub mod rpc;
pub mod time;
pub mod told;
pub mod tree;

pub use fault::{Fault, FaultKind};
pub use rpc::Id;
pub use time::Timestamp;

/// Versions of the client API this build speaks, newest last.
pub const PROTOCOL_VERSIONS: &[u32] = &[1];

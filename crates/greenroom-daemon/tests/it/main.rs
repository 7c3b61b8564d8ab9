//! A real keeper and a real daemon in a temporary home, spoken to by a client written by hand.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests may panic, and say why on stderr"
)]

mod answers;
mod attach;
mod bad_input;
mod chains;
mod client;
mod confined;
mod events;
mod hooks;
mod host;
mod http;
mod mcp;
mod methods;
mod redaction;
mod restart;
mod runs;
mod start;
mod wire;
mod workers;

//! The handlers: params in, engine asked, result out. Each is thin; what they share is elsewhere.

pub mod events;
pub mod export;
pub mod input;
pub mod notice;
pub mod output;
pub mod plugin;
pub mod redact;
pub mod run;
pub mod sandbox;
pub mod server;
pub mod session;
pub mod snapshot;
pub mod transcript;
pub mod waits;
pub mod worktree;

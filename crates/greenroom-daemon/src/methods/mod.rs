//! The handlers: params in, engine asked, result out. Each is thin; what they share is elsewhere.

pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod input;
pub(crate) mod notice;
pub(crate) mod output;
pub(crate) mod plugin;
pub(crate) mod redact;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod server;
pub(crate) mod session;
pub(crate) mod snapshot;
pub(crate) mod transcript;
pub(crate) mod waits;
pub(crate) mod worktree;

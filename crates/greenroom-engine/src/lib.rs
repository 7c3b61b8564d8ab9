//! Sessions, their journals, and what leaves them.
//!
//! In come bytes from PTY masters and verbs from handles; out go numbered bytes, screens, events.
//! Deliberately absent: sockets, JSON, plugins, configuration files, forks. Where the engine needs
//! one of those it defines a role ([`process::Processes`], [`store::Store`], [`events::Events`])
//! and is handed somebody who plays it.
//!
//! A byte of output: `journal` (kernel to ring, numbered) → `session::actor`
//! (one turn: subscribers, screen) → `egress` → sinks.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod egress;
pub mod engine;
pub mod error;
pub mod events;
pub mod id;
pub mod journal;
pub mod keep;
mod lock;
mod names;
pub mod process;
pub mod session;
pub mod spec;
mod state;
pub mod store;
pub mod threads;
pub mod transcript;
pub mod wait;

pub use greenroom_term as term;

pub use engine::{Engine, EngineParts};
pub use error::EngineError;
pub use id::{ClientId, Seq, SessionId};
pub use session::{SessionHandle, SessionInfo, SessionState};
pub use spec::SessionSpec;
pub use state::AgentState;

//! Processes: spawn, hold, reap.

mod daemon;
mod fds;
mod handover;
mod inherit;
mod keeper;
mod launch;
pub mod link;
mod listen;
mod log;
pub mod message;
mod options;
mod outbox;
mod replace;
mod requests;
mod run;
mod sessions;
mod signals;
mod spawn;
pub mod spec;
pub mod tree;
mod wire;

pub use inherit::{Inherited, inherited};
pub use link::{KeeperEvent, KeeperLink, LINK_FD, LISTEN_FD, LinkError, SessionFds};
pub use message::{
    ExitStatus, KeeperHello, LastExit, MAX_TAKE, PROTOCOL_VERSION, SessionEntry, SessionId,
    SessionState, SignalTarget, SpawnStep,
};
pub use options::{EXIT_SHUTDOWN, EXIT_UPGRADE, KeeperOptions};
pub use run::{check, resume, run};
pub use spec::{SpawnSpec, SpecError};
pub use wire::DecodeError;

//! Processes: spawn, hold, reap.

mod inherit;
pub mod link;
pub mod message;
mod options;
mod run;
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

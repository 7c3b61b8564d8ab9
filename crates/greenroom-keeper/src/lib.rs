//! Processes: spawn, hold, reap. The keeper owns them; the daemon owns what they mean.
//!
//! One small single-threaded process forks every session's child on its own PTY, holds master, pipe and ring of each, reaps,
//! owns the listening socket, starts the daemon again whenever it dies, and replaces its own image by `exec`. It parses
//! nothing but its own few messages, so it has nothing to crash over.
//!
//! | room | what it is |
//! |---|---|
//! | `link` | the daemon's side: `KeeperLink`, and datagrams with fds |
//! | `message`, `wire` | what is said, and its bytes |
//! | `spec` | what to run, in a sealed memfd |
//! | `inherit` | the daemon takes over its link and the listening socket |
//! | `run` | entry points and the one poll loop |
//! | `keeper`, `requests` | state and decisions; what the daemon asks for |
//! | `sessions`, `outbox` | what is held; what waits to be told |
//! | `spawn`, `launch`, `fds` | PTY and buffers; clone, set-up, exec; the low fd slots |
//! | `warden`, `strays` | who holds all of a session; who is left when that one is killed |
//! | `staging`, `spare` | sandboxed sessions on their way; namespaces made in advance |
//! | `workers` | programs of plugins: on pipes, and gone with the daemon |
//! | `daemon` | start, death, back-off, and what happens when the keeper dies |
//! | `replace`, `handover` | exec in place; the state that goes with it |
//! | `claim` | one keeper per state directory |
//! | `listen`, `mend` | stale socket, bind, the second way; what has vanished is made again |
//! | `tree`, `cgroup` | for the daemon: a session's whole process tree |
//!
//! Absent on purpose: an async runtime, serde, terminal bytes, configuration.

pub mod cgroup;
pub mod claim;
mod daemon;
mod fds;
mod handover;
mod inherit;
mod keeper;
mod launch;
pub mod link;
mod listen;
mod log;
mod mend;
pub mod message;
mod options;
mod outbox;
mod replace;
mod requests;
mod run;
mod sessions;
mod signals;
mod spare;
mod spawn;
pub mod spec;
mod staging;
mod strays;
pub mod tree;
mod warden;
mod wire;
mod workers;

pub use claim::Seat;
pub use inherit::{Inherited, inherited};
pub use link::{KeeperEvent, KeeperLink, LINK_FD, LISTEN_FD, LinkError, SessionFds};
pub use listen::{lead, link, unlink};
pub use message::{
    ExitStatus, KeeperHello, LastExit, MAX_TAKE, PROTOCOL_VERSION, SessionEntry, SessionId,
    SessionState, SignalTarget, SpawnStep, WorkerId,
};
pub use options::{EXIT_SHUTDOWN, EXIT_UPGRADE, KeeperOptions, READY_HELD, READY_OK};
pub use run::{be_called_by_name, check, resume, run};
pub use signals::nobodys;
pub use spec::{SpawnSpec, SpecError};
pub use wire::DecodeError;

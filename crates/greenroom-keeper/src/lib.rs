//! Processes: spawn, hold, reap. The keeper owns them; the daemon owns what they mean.
//!
//! One small single-threaded process forks every session's child on its own PTY, holds master, pipe
//! and ring of each, reaps, owns the listening socket, starts the daemon again whenever it dies,
//! and replaces its own image by `exec`. It parses nothing but its own few messages, so it has
//! nothing to crash over.
//!
//! | room | what it is |
//! |---|---|
//! | `link` | the daemon's side: `KeeperLink`, and datagrams with fds |
//! | `message` | what is said, and its bytes |
//! | `spec` | what to run, in a sealed memfd |
//! | `inherit` | the daemon takes over its link and the listening socket |
//! | `run` | entry points and the one poll loop |
//! | `keeper`, `requests` | state and decisions; what the daemon asks for |
//! | `sessions`, `outbox` | what is held; what waits to be told |
//! | `spawn`, `launch`, `fds` | PTY and buffers; clone, set-up, exec; the low fd slots |
//! | `warden`, `strays` | who holds all of a session; who is left when that one is killed |
//! | `staging`, `namespaces` | sandboxed sessions on their way; namespaces made in advance |
//! | `piped` | programs of plugins: on pipes, and gone with the daemon |
//! | `daemon` | start, death, back-off, and what happens when the keeper dies |
//! | `replace`, `handover` | exec in place; the state that goes with it |
//! | `claim`, `aside` | one keeper per state directory; what lies in the place of a lock or a log |
//! | `listen`, `mend` | stale socket, bind, the second way; what has vanished is made again |
//! | `tree` | for the daemon: a session's whole process tree |
//!
//! Absent on purpose: an async runtime, serde, terminal bytes, configuration.

mod aside;
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
mod namespaces;
mod options;
mod outbox;
mod piped;
mod replace;
mod requests;
mod run;
mod sessions;
mod signals;
mod spawn;
pub mod spec;
mod staging;
mod strays;
pub mod tree;
mod warden;

pub use claim::KeeperPaths;
pub use greenroom_sandbox::launch::Launch;
pub use inherit::{Inherited, inherited};
pub use link::{KeeperLink, LINK_FD, LISTEN_FD, LinkError};
pub use listen::{link, make_alias, unlink};
pub use message::{
    ExitStatus, KeeperEvent, KeeperHello, LastExit, MAX_TAKE, PROTOCOL_VERSION, PipedId,
    SessionEntry, SessionFds, SessionId, SessionState, SignalTarget, SpawnStep,
};
pub use options::{EXIT_SHUTDOWN, EXIT_UPGRADE, KeeperOptions, READY_HELD, READY_OK};
pub use run::{be_called_by_name, check, resume, run};
pub use signals::nobodys;
pub use spec::{SpawnSpec, SpecError};

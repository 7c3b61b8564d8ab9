//! The role that the host plays for runs: it starts sessions, waits for them and ends them as for
//! any client, and keeps the event log.

use std::path::Path;
use std::pin::Pin;

use greenroom_engine::process::ExitStatus;
use greenroom_engine::wait::Matcher;
use greenroom_engine::{EngineError, SessionHandle, SessionId};
use greenroom_protocol::Fault;
use greenroom_protocol::api::matcher;
use greenroom_protocol::api::session::{self as wire, CreateParams, DryRun};
use greenroom_protocol::events::Payload;

pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub struct Ended {
    pub exit: wire::ExitStatus,
    /// A limit of time ended it.
    pub timed_out: bool,
}

/// Why the daemon ends.
pub enum HostEnd {
    /// The host shuts down, and its sessions end with it.
    Shutdown,
    /// Another daemon goes on with the sessions.
    Handover,
}

/// A role; the daemon plays it.
pub trait Terminals: Send + Sync + 'static {
    /// As `session.create` does.
    fn start(&self, params: CreateParams) -> Later<'_, Result<SessionHandle, Fault>>;

    fn would_be(&self, params: CreateParams) -> Later<'_, Result<DryRun, Fault>>;

    fn all(&self) -> Vec<SessionHandle>;

    fn find(&self, id: &str) -> Option<SessionHandle>;

    /// The branch of its worktree.
    fn branch(&self, id: SessionId) -> Option<String>;

    /// What may be typed into it, after plugins were asked.
    fn submit<'a>(
        &'a self,
        handle: &'a SessionHandle,
        text: String,
    ) -> Later<'a, Result<String, Fault>>;

    /// A condition of a connector file, as the engine waits for it.
    fn matcher(&self, until: &matcher::Matcher) -> Result<Matcher, Fault>;

    /// Until the plugins of an ended session have cleaned up.
    fn settled<'a>(&'a self, handle: &'a SessionHandle) -> Later<'a, ()>;

    /// How a session that ended with this status ended.
    fn ended(&self, id: SessionId, status: ExitStatus) -> Ended;

    /// Ends it with all it started, or what an ended one has left.
    fn end<'a>(&'a self, handle: &'a SessionHandle) -> Later<'a, ()>;

    fn remove<'a>(&'a self, handle: &'a SessionHandle) -> Later<'a, Result<(), EngineError>>;

    /// Whether plugins of sessions that have ended still clean up.
    fn are_cleaning_up(&self) -> bool;

    /// Whether somebody works in a worktree of this name, or left work in it. Blocks.
    fn is_taken(&self, place: &Path, worktree: &str) -> bool;

    fn log(&self, session: Option<SessionId>, event: Payload);

    /// Until the daemon ends.
    fn stopping(&self) -> Later<'_, HostEnd>;
}

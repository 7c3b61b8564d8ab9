//! The host as runs see it: their sessions are started and ended as anybody's are.

use std::path::Path;
use std::sync::Arc;

use greenroom_engine::process::ExitStatus;
use greenroom_engine::wait::Matcher;
use greenroom_engine::{EngineError, SessionHandle, SessionId};
use greenroom_protocol::Fault;
use greenroom_protocol::api::matcher;
use greenroom_protocol::api::session::{CreateParams, DryRun};
use greenroom_protocol::events::Payload;
use greenroom_runs::{Ended, HostEnd, Later, Terminals};
use greenroom_workspace::spec::EndedHow;

use crate::chains::{self, Sessions};
use crate::convert;
use crate::events::about_any;
use crate::hooks::{Hooks, submit};
use crate::lifecycle::{Ending, Life};
use crate::store::Storage;

pub(crate) struct HostTerminals {
    pub sessions: Arc<Sessions>,
    pub hooks: Arc<Hooks>,
    pub storage: Storage,
    pub life: Arc<Life>,
}

impl Terminals for HostTerminals {
    fn start(&self, params: CreateParams) -> Later<'_, Result<SessionHandle, Fault>> {
        Box::pin(async move {
            chains::start(&self.sessions, chains::spec(&self.sessions, &params)?).await
        })
    }

    fn would_be(&self, params: CreateParams) -> Later<'_, Result<DryRun, Fault>> {
        Box::pin(async move {
            chains::would_be(&self.sessions, chains::spec(&self.sessions, &params)?).await
        })
    }

    fn all(&self) -> Vec<SessionHandle> {
        self.sessions.engine().handles()
    }

    fn find(&self, id: &str) -> Option<SessionHandle> {
        self.sessions.engine().find(id).ok()
    }

    fn branch(&self, id: SessionId) -> Option<String> {
        self.sessions.chains().look(id)?.branch().map(str::to_owned)
    }

    fn submit<'a>(
        &'a self,
        handle: &'a SessionHandle,
        text: String,
    ) -> Later<'a, Result<String, Fault>> {
        Box::pin(submit::text(&self.hooks, handle, text, None))
    }

    fn settled<'a>(&'a self, handle: &'a SessionHandle) -> Later<'a, ()> {
        Box::pin(chains::settled_after_rest(&self.sessions, handle))
    }

    fn matcher(&self, until: &matcher::Matcher) -> Result<Matcher, Fault> {
        convert::matcher::matcher(until)
    }

    fn ended(&self, id: SessionId, status: ExitStatus) -> Ended {
        let how = |how| matches!(how, EndedHow::TimedOut(_));
        let chain = self.sessions.chains().look(id);
        let timed_out = chain.is_some_and(|file| how(file.how_it_ended(EndedHow::Exited(status))));
        Ended { exit: convert::exit(status), timed_out }
    }

    fn end<'a>(&'a self, handle: &'a SessionHandle) -> Later<'a, ()> {
        Box::pin(async move {
            if let Err(error) = handle.kill(self.sessions.ladder(None, None)).await {
                tracing::debug!(session = %handle.id(), %error, "ending a worker");
            }
            chains::settled(&self.sessions, handle).await;
        })
    }

    fn remove<'a>(&'a self, handle: &'a SessionHandle) -> Later<'a, Result<(), EngineError>> {
        Box::pin(chains::remove(&self.sessions, handle))
    }

    fn are_cleaning_up(&self) -> bool {
        self.sessions.are_cleaning_up()
    }

    fn is_taken(&self, place: &Path, worktree: &str) -> bool {
        // Where git cannot be asked the start of the session says why.
        self.sessions.worktrees().is_taken(place, worktree).unwrap_or(false)
    }

    fn log(&self, session: Option<SessionId>, event: Payload) {
        self.storage.log(about_any(session, event));
    }

    fn stopping(&self) -> Later<'_, HostEnd> {
        Box::pin(async {
            match self.life.stopping().reason().await {
                Ending::Shutdown { .. } => HostEnd::Shutdown,
                Ending::Stop | Ending::Upgrade | Ending::Orphaned => HostEnd::Handover,
            }
        })
    }
}

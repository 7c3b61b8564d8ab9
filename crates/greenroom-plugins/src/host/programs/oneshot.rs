//! A program per call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use greenroom_engine::SessionId;
use serde_json::Value;

use super::Program;
use crate::host::voice::{Condition, Voice};
use crate::runtime::oneshot::Turns;
use crate::runtime::{CallFailure, Reply};
use crate::spec::Wait;

pub(super) struct Oneshot {
    program: Arc<Program>,
    turns: Arc<Turns>,
}

impl Oneshot {
    pub fn new(program: Arc<Program>, turns: Arc<Turns>) -> Oneshot {
        Oneshot { program, turns }
    }

    async fn ask(&self, request: Value, deadline: Duration) -> Result<Reply, CallFailure> {
        let (program, turns) = (self.program.clone(), self.turns.clone());
        let work = async move {
            let began = Instant::now();
            let launch = program.launch().await?;
            let left = deadline.saturating_sub(began.elapsed());
            turns.call(&*program.launcher, &launch, &request, left).await
        };
        self.program.beside(work).await
    }
}

impl Voice for Oneshot {
    fn call(
        &self,
        _session: Option<SessionId>,
        request: Value,
        deadline: Duration,
    ) -> Wait<'_, Result<Reply, CallFailure>> {
        Box::pin(self.ask(request, deadline))
    }

    fn one_by_one(&self) -> bool {
        true
    }

    fn batch<'a>(
        &'a self,
        _session: SessionId,
        _request: Value,
        _items: &'a [&'a str],
        _deadline: Duration,
    ) -> Wait<'a, Result<Option<Reply>, CallFailure>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn condition(&self) -> Condition {
        Condition::Down
    }

    fn level(&self) -> Option<&'static str> {
        self.program.level.get().copied()
    }

    fn hung(&self) {}

    fn forget(&self, _session: SessionId) {}

    fn wake(&self, _start: bool) -> Wait<'_, Result<(), CallFailure>> {
        Box::pin(async { self.program.launch().await.map(drop) })
    }

    fn stop(&self) -> Wait<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

//! A program per call.

use std::sync::Arc;
use std::time::Instant;

use super::Executable;
use crate::host::program::{Program, Request};
use crate::runtime::oneshot::Runner;
use crate::runtime::{BoxFuture, CallFailure, Reply};

pub(super) struct Oneshot {
    pub executable: Arc<Executable>,
    pub runner: Arc<Runner>,
}

impl Program for Oneshot {
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> BoxFuture<'a, Result<Option<Reply>, CallFailure>> {
        let Request { fields, lines, deadline, .. } = request;
        let (executable, runner) = (self.executable.clone(), self.runner.clone());
        let work = async move {
            let began = Instant::now();
            let launch = executable.launch().await?;
            let left = deadline.saturating_sub(began.elapsed());
            runner.call(&*executable.launcher, &launch, &fields, left).await.map(Some)
        };
        Box::pin(async move {
            if lines.is_some() {
                return Ok(None);
            }
            self.executable.beside(work).await
        })
    }

    fn one_by_one(&self) -> bool {
        true
    }

    fn level(&self) -> Option<&'static str> {
        self.executable.level.get().copied()
    }

    fn wake(&self, _start: bool) -> BoxFuture<'_, Result<(), CallFailure>> {
        Box::pin(async { self.executable.launch().await.map(drop) })
    }
}

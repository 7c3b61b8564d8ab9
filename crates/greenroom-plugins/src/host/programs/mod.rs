//! The real programs of plugins, started through the launcher.
//!
//! In: a plugin's runtime. Out: somebody who answers for it: `oneshot` starts a program for each
//! call, `resident` one that is kept. Before each start the plugin's bytes are checked against
//! those that were agreed to. Deliberately absent: pipes and JSON lines (`runtime`).

mod oneshot;
mod resident;

use std::ffi::OsString;
use std::sync::{Arc, OnceLock};

use greenroom_formats::manifest::{Format, Runtime, RuntimeKind};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::catalog::{Catalog, Found};
use super::facts::HostParts;
use super::program::{Program, ProgramEvent, ProgramEvents, Programs};
use crate::runtime::oneshot::Runner;
use crate::runtime::profile::{Profiles, ProgramSpec};
use crate::runtime::{CallFailure, Launch, Launcher};

pub(super) struct RealPrograms {
    launcher: Arc<dyn Launcher>,
    catalog: Arc<dyn Catalog>,
    profiles: Arc<Profiles>,
    runner: Arc<Runner>,
    tasks: Handle,
}

impl RealPrograms {
    pub(super) fn new(parts: &HostParts) -> RealPrograms {
        RealPrograms {
            launcher: parts.launcher.clone(),
            catalog: parts.catalog.clone(),
            profiles: parts.profiles.clone(),
            runner: Arc::default(),
            tasks: Handle::current(),
        }
    }
}

impl Programs for RealPrograms {
    fn open(
        &self,
        found: &Arc<Found>,
        runtime: &Runtime,
        events: ProgramEvents,
    ) -> Result<Arc<dyn Program>, String> {
        let format = found.manifest.as_ref().map(|manifest| manifest.format).unwrap_or_default();
        let executable = Arc::new(Executable {
            found: found.clone(),
            format,
            runtime: runtime.clone(),
            launcher: self.launcher.clone(),
            catalog: self.catalog.clone(),
            profiles: self.profiles.clone(),
            events,
            tasks: self.tasks.clone(),
            level: OnceLock::new(),
        });
        match runtime.kind {
            RuntimeKind::Oneshot => {
                Ok(Arc::new(oneshot::Oneshot { executable, runner: self.runner.clone() }))
            }
            RuntimeKind::Jsonl => Ok(Arc::new(resident::Resident::new(executable))),
            other => Err(format!("runtimes of kind {} are not hosted here", other.word())),
        }
    }
}

/// What is started, and by whom.
struct Executable {
    found: Arc<Found>,
    format: Format,
    runtime: Runtime,
    launcher: Arc<dyn Launcher>,
    catalog: Arc<dyn Catalog>,
    profiles: Arc<Profiles>,
    events: ProgramEvents,
    tasks: Handle,
    level: OnceLock<&'static str>,
}

impl Executable {
    /// Carries out `work` where plugins are spoken to, whatever thread asks. It ends with whoever
    /// waits for it.
    async fn beside<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, CallFailure>> + Send + 'static,
    ) -> Result<T, CallFailure> {
        struct Ended<T>(JoinHandle<T>);
        impl<T> Drop for Ended<T> {
            fn drop(&mut self) {
                self.0.abort();
            }
        }
        let mut task = Ended(self.tasks.spawn(work));
        match (&mut task.0).await {
            Ok(result) => result,
            Err(error) => Err(CallFailure::Launch(format!("its call broke down: {error}"))),
        }
    }

    /// Checks that the bytes are those that were agreed to, and says how to start them. Blocks the
    /// calling task, not its thread.
    async fn launch(self: &Arc<Executable>) -> Result<Launch, CallFailure> {
        let executable = self.clone();
        let work = self.tasks.spawn_blocking(move || {
            executable.catalog.unchanged(&executable.found)?;
            executable.profiled()
        });
        match work.await {
            Ok(launch) => launch.map_err(CallFailure::Launch),
            Err(error) => Err(CallFailure::Launch(error.to_string())),
        }
    }

    /// Each time anew: directories may have gone, and secrets may have changed.
    fn profiled(&self) -> Result<Launch, String> {
        let spec = ProgramSpec {
            plugin: &self.found.name,
            root: &self.found.root,
            format: self.format,
            runtime: &self.runtime,
            grants: &self.found.grants,
            env: self.env(),
        };
        let profiled = self.profiles.launch(spec).map_err(|error| error.to_string())?;
        let _ = self.level.set(profiled.level.word());
        Ok(profiled.launch)
    }

    /// Its own variables, with `${secret:NAME}` filled in. One whose secret is not to be had is
    /// left out.
    fn env(&self) -> Vec<(OsString, OsString)> {
        let mut env = Vec::new();
        for (name, value) in &self.runtime.env {
            match self.filled(value) {
                Some(value) => env.push((name.into(), value)),
                None => {
                    let text = format!("variable {name} is left out: no such secret");
                    (self.events)(ProgramEvent::Stderr(&text));
                }
            }
        }
        env
    }

    fn filled(&self, value: &str) -> Option<OsString> {
        let mut filled = OsString::new();
        let mut rest = value;
        while let Some((before, after)) = rest.split_once("${secret:") {
            let (name, after) = after.split_once('}')?;
            filled.push(before);
            filled.push(self.catalog.secret(&self.found, name)?);
            rest = after;
        }
        filled.push(rest);
        Some(filled)
    }
}

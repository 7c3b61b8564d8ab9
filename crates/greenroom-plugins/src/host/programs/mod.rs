//! The real voices: programs, started through the launcher.
//!
//! In: a plugin's runtime. Out: somebody who answers for it: `oneshot` starts a program for each call, `stay` one that is
//! kept. Before each start the plugin's bytes are checked against those that were agreed to. Deliberately absent: pipes
//! and JSON lines (`runtime`).

mod oneshot;
mod stay;

use std::ffi::OsString;
use std::sync::{Arc, OnceLock};

use greenroom_protocol::manifest::{Format, Runtime, RuntimeKind};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::facts::HostParts;
use super::supply::{Found, Supply};
use super::voice::{Ear, Voice, Voices};
use crate::runtime::oneshot::Turns;
use crate::runtime::profile::{Profiles, Wish};
use crate::runtime::{CallFailure, Launch, Launcher};

pub(super) struct Programs {
    launcher: Arc<dyn Launcher>,
    supply: Arc<dyn Supply>,
    profiles: Arc<Profiles>,
    turns: Arc<Turns>,
    tasks: Handle,
}

impl Programs {
    pub fn new(parts: &HostParts) -> Programs {
        Programs {
            launcher: parts.launcher.clone(),
            supply: parts.supply.clone(),
            profiles: parts.profiles.clone(),
            turns: Arc::default(),
            tasks: Handle::current(),
        }
    }
}

impl Voices for Programs {
    fn open(
        &self,
        found: &Arc<Found>,
        runtime: &Runtime,
        ear: Arc<dyn Ear>,
    ) -> Result<Arc<dyn Voice>, String> {
        let format = found.manifest.as_ref().map(|manifest| manifest.format).unwrap_or_default();
        let program = Program {
            found: found.clone(),
            format,
            runtime: runtime.clone(),
            launcher: self.launcher.clone(),
            supply: self.supply.clone(),
            profiles: self.profiles.clone(),
            ear,
            tasks: self.tasks.clone(),
            level: OnceLock::new(),
        };
        match runtime.kind {
            RuntimeKind::Oneshot => {
                Ok(Arc::new(oneshot::Oneshot::new(Arc::new(program), self.turns.clone())))
            }
            RuntimeKind::Jsonl => Ok(Arc::new(stay::Stay::new(Arc::new(program)))),
            other => Err(format!("runtimes of kind {} are not hosted here", other.word())),
        }
    }
}

/// What is started, and by whom.
struct Program {
    found: Arc<Found>,
    format: Format,
    runtime: Runtime,
    launcher: Arc<dyn Launcher>,
    supply: Arc<dyn Supply>,
    profiles: Arc<Profiles>,
    ear: Arc<dyn Ear>,
    tasks: Handle,
    level: OnceLock<&'static str>,
}

impl Program {
    /// Carries out `work` where plugins are spoken to, whatever thread asks. It ends with whoever waits for it.
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

    /// Checks that the bytes are those that were agreed to, and says how to start them. Blocks the calling task, not its
    /// thread.
    async fn launch(self: &Arc<Program>) -> Result<Launch, CallFailure> {
        let program = self.clone();
        let work = self.tasks.spawn_blocking(move || {
            program.supply.unchanged(&program.found)?;
            program.profiled()
        });
        match work.await {
            Ok(launch) => launch.map_err(CallFailure::Launch),
            Err(error) => Err(CallFailure::Launch(error.to_string())),
        }
    }

    /// Each time anew: directories may have gone, and secrets may have changed.
    fn profiled(&self) -> Result<Launch, String> {
        let wish = Wish {
            plugin: &self.found.name,
            root: &self.found.root,
            format: self.format,
            runtime: &self.runtime,
            grants: &self.found.grants,
            env: self.env(),
        };
        let profiled = self.profiles.launch(wish).map_err(|error| error.to_string())?;
        let _ = self.level.set(profiled.level.word());
        Ok(profiled.launch)
    }

    /// Its own variables, with `${secret:NAME}` filled in. One whose secret is not to be had is left out.
    fn env(&self) -> Vec<(OsString, OsString)> {
        let mut env = Vec::new();
        for (name, value) in &self.runtime.env {
            match self.filled(value) {
                Some(value) => env.push((name.into(), value)),
                None => self.ear.stderr(&format!("variable {name} is left out: no such secret")),
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
            filled.push(self.supply.secret(&self.found, name)?.reveal());
            rest = after;
        }
        filled.push(rest);
        Some(filled)
    }
}

//! Sessions with plugins: prepared before they start, cleaned up after they ended, whoever started them and whatever
//! happened to the daemon in between.
//!
//! In: what a caller asked for. Out: a running session, or one fault and nothing left behind. The chain itself (order,
//! transaction, notes) is `greenroom_plugins::chain`; here is what needs the host: starting the program, seeing its end,
//! the clock, events. Deliberately absent: what any plugin does.

mod again;
mod describe;
mod door;
mod ends;
mod hearing;
mod limits;
mod logins;
mod told;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use greenroom_engine::{EngineError, SessionHandle, SessionId, SessionState};
use greenroom_plugins::chain::{ChainError, Chains, Open, Registry, Watch};
use greenroom_plugins::env::Env;
use greenroom_plugins::sandbox::{self, Plan, Sandbox, SandboxConfig};
use greenroom_plugins::scratchpad::Scratchpad;
use greenroom_plugins::spec::{
    Ask, EndedHow, Refusal, SessionEnd, SessionPlugin, SessionSpec, Surroundings,
};
use greenroom_plugins::timeout::Timeout;
use greenroom_plugins::worktree::{Worktree, Worktrees};
use greenroom_protocol::api::session::DryRun;
use greenroom_protocol::{Fault, FaultKind};

pub use again::{Cleanups, pending};
pub use describe::{describe, measure};
pub use ends::Ends;

use crate::config::Config;
use crate::descriptors;
use crate::hooks::{self, Gatekeeper};
use crate::host::Host;
use crate::methods::session::ladder;
use crate::paths::Paths;
use crate::rpc::fault;

/// The last clean-ups before the host goes down. What takes longer (a teardown command) is finished by the next host.
const SETTLE: Duration = Duration::from_secs(30);

/// The chains of this host, with what an earlier one left.
pub fn load(
    paths: &Paths,
    socket: &Path,
    config: &Config,
    gatekeeper: &Gatekeeper,
) -> Result<(Chains, BuiltIn), ChainError> {
    let open = Arc::new(Open::default());
    let surroundings = Surroundings {
        state: paths.state().to_owned(),
        config: paths.config().to_owned(),
        runtime: paths.runtime().to_owned(),
        home: std::env::var_os("HOME").map_or_else(|| "/".into(), Into::into),
        living: open.clone(),
    };
    let worktrees = Worktrees::new(config.worktree.clone(), &surroundings);
    let fence = fence(config, socket);
    let sandbox = Arc::new(Sandbox::new(fence, &surroundings, sandbox::by_trial()));
    let plugins: [Arc<dyn SessionPlugin>; 6] = [
        Arc::new(Worktree(worktrees.clone())),
        sandbox.clone(),
        Arc::new(Scratchpad::new(config.scratchpad.clone(), &surroundings)),
        Arc::new(Env::new(&surroundings)),
        Arc::new(gatekeeper.clone()),
        Arc::new(Timeout),
    ];
    let chains = Chains::load(paths.state().join("chains"), Registry::new(plugins), open)?;
    sandbox::sweep(&surroundings);
    Ok((chains, BuiltIn { worktrees, sandbox }))
}

/// The plugins that have verbs of their own.
pub struct BuiltIn {
    pub worktrees: Worktrees,
    pub sandbox: Arc<Sandbox>,
}

impl BuiltIn {
    /// Other settings, for whatever begins from now on.
    pub fn reconfigure(&self, config: &Config, socket: &Path) {
        self.worktrees.reconfigure(config.worktree.clone());
        self.sandbox.reconfigure(fence(config, socket));
    }
}

fn fence(config: &Config, socket: &Path) -> SandboxConfig {
    let mut fence = config.sandbox.clone();
    // It may lie outside of the runtime directory, which is hidden anyway.
    fence.hide.push(socket.display().to_string());
    fence
}

/// Starts a session through its chain. Whoever asked may go away: then the session is not started, or ended again.
pub async fn start(
    host: &Arc<Host>,
    base: greenroom_engine::SessionSpec,
    ask: Ask,
) -> Result<SessionHandle, Fault> {
    if let Some(why) = host.troubles.config() {
        let message = format!("cannot start a session: {why}");
        return Err(Fault::new(FaultKind::Conflict, message)
            .hint("correct the file, then: greenroom reload"));
    }
    let sessions = host.engine.handles().len() as u64;
    descriptors::room_for_a_session(sessions, host.counters.connections())?;
    host.engine.check(&base).map_err(fault::engine)?;
    let id = host.engine.next_id().await.map_err(fault::engine)?;
    let spec = SessionSpec::new(id, base, ask);
    let wanted = host.chains.registry().wanted(&spec).map_err(refused)?;
    if wanted.is_empty() {
        return host.engine.create_as(id, spec.into_engine()).await.map_err(fault::engine);
    }
    let asked = Asked(Arc::default());
    // A task of its own: a caller that goes away half way must not leave half of the work behind.
    let work = tokio::spawn(begin(host.clone(), spec, asked.0.clone()));
    let result = match work.await {
        Ok(result) => result,
        Err(error) => {
            // A plugin panicked; what it noted is undone like a refusal.
            tracing::error!(session = %id, %error, "preparing a session");
            never_started(host, id).await;
            Err(Fault::new(FaultKind::Internal, "cannot start the session: a plugin broke down"))
        }
    };
    asked.answered();
    result
}

/// What a session would be; nothing is made.
pub async fn would_be(
    host: &Arc<Host>,
    base: greenroom_engine::SessionSpec,
    ask: Ask,
) -> Result<DryRun, Fault> {
    host.engine.check(&base).map_err(fault::engine)?;
    // No session has this id: nothing is named after it.
    let spec = SessionSpec::new(SessionId(0), base, ask);
    Ok(describe::dry_run(host.chains.dry_run(spec).await.map_err(refused)?))
}

/// The fence a session like this would get, and what its plugins want to be known.
pub async fn fence_of(
    host: &Arc<Host>,
    base: greenroom_engine::SessionSpec,
    ask: Ask,
) -> Result<(Plan, Vec<String>), Fault> {
    host.engine.check(&base).map_err(fault::engine)?;
    let spec = SessionSpec::new(SessionId(0), base, ask);
    // All others first: the sandbox sees what they leave.
    let mut before = spec.clone();
    let sandbox = before.ask.sandbox.take();
    let mut spec = host.chains.dry_run(before).await.map_err(refused)?.spec;
    spec.ask.sandbox = sandbox;
    let plugin = host.built_in.sandbox.clone();
    let work = tokio::task::spawn_blocking(move || {
        let fenced = plugin.plan(&spec)?;
        Ok((fenced.plan, spec.notes.into_iter().chain(fenced.notes).collect()))
    });
    match work.await {
        Ok(result) => result.map_err(|refusal: Refusal| {
            refused(Refusal { plugin: "sandbox".to_owned(), ..refusal })
        }),
        Err(error) => Err(Fault::new(FaultKind::Internal, error.to_string())),
    }
}

/// Turns true when the one who asked is gone.
struct Asked(Arc<AtomicBool>);

impl Asked {
    fn answered(self) {
        std::mem::forget(self);
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

async fn begin(
    host: Arc<Host>,
    spec: SessionSpec,
    gone: Arc<AtomicBool>,
) -> Result<SessionHandle, Fault> {
    let id = spec.id;
    let prepared = match host.chains.prepare(spec, &watch(&host)).await {
        Ok(prepared) => prepared,
        Err(refusal) => {
            told::refused(&host, id, &refusal);
            return Err(refused(refusal));
        }
    };
    hooks::worktree_made(&host, &prepared.spec);
    if gone.load(Ordering::Acquire) {
        never_started(&host, id).await;
        return Err(Fault::new(FaultKind::Cancelled, "nobody waits for this session any more"));
    }
    let handle = match host.engine.create_as(id, prepared.spec.into_engine()).await {
        Ok(handle) => handle,
        Err(error) => {
            let left = never_started(&host, id).await;
            let mut fault = fault::engine(error);
            fault.message.extend(left.iter().map(|left| format!("; {left}")));
            return Err(fault);
        }
    };
    host.chains.started(id, SystemTime::now());
    told::die_at("started");
    look_after(&host, handle.clone());
    if gone.load(Ordering::Acquire) {
        let _ = handle.kill(ladder(&host, None, None)).await;
        remove(&host, &handle).await.map_err(fault::engine)?;
    }
    Ok(handle)
}

fn watch(host: &Arc<Host>) -> Arc<dyn Watch> {
    Arc::new(told::Told::new(host.storage.clone(), host.hooks.plugins.clone()))
}

fn refused(refusal: Refusal) -> Fault {
    let message = format!("cannot start the session: {}: {}", refusal.plugin, refusal.what);
    let kind = match refusal.denied {
        true => FaultKind::PermissionDenied,
        false => FaultKind::Refused,
    };
    let fault = Fault::new(kind, message).with("plugin", refusal.plugin);
    match refusal.hint {
        Some(hint) => fault.hint(hint),
        None => fault,
    }
}

/// Undoes a chain whose session does not run. Answers what could not be undone.
async fn never_started(host: &Arc<Host>, id: SessionId) -> Vec<String> {
    let end = SessionEnd { id, how: EndedHow::NeverStarted, at: SystemTime::now() };
    let outcomes = host.chains.finish(&end, &watch(host)).await;
    again::unless_done(host, &end);
    outcomes.iter().filter_map(|outcome| outcome.left_behind()).collect()
}

/// Minds the clock of a running session and cleans up after its end.
fn look_after(host: &Arc<Host>, handle: SessionHandle) {
    let clock = limits::watch(host, &handle);
    let door = door::open(host, &handle);
    let hearing = hearing::begin(host, &handle);
    let logins = logins::follow(host, &handle);
    let host = host.clone();
    tokio::spawn(async move {
        host.ends.of(&handle).await;
        for task in [door, hearing, logins].into_iter().flatten() {
            task.abort();
        }
        // What its program left lives on where it was started, and under the same clock.
        host.keeper.nobody_left(handle.id()).await;
        clock.into_iter().for_each(|task| task.abort());
        settled(&host, &handle).await;
    });
}

/// Answers once the plugins of an ended session have cleaned up; at once if it runs, has left processes, or has no plugins.
pub async fn settled(host: &Arc<Host>, handle: &SessionHandle) {
    if let Some(end) = end_of(handle)
        && host.keeper.count_left(end.id) == 0
        && host.chains.look(end.id).is_some_and(|file| file.is_open())
    {
        host.chains.finish(&end, &watch(host)).await;
        again::unless_done(host, &end);
    }
}

fn end_of(handle: &SessionHandle) -> Option<SessionEnd> {
    let id = handle.id();
    match handle.info().state {
        SessionState::Exited { at, status } => {
            Some(SessionEnd { id, how: EndedHow::Exited(status), at })
        }
        SessionState::Failed { .. } => {
            Some(SessionEnd { id, how: EndedHow::NeverStarted, at: SystemTime::now() })
        }
        SessionState::Starting | SessionState::Running => None,
    }
}

/// Removes an ended session, after its plugins have cleaned up.
pub async fn remove(host: &Arc<Host>, handle: &SessionHandle) -> Result<(), EngineError> {
    settled(host, handle).await;
    host.engine.remove(handle.id()).await?;
    told::die_at("removed");
    host.chains.forget(handle.id());
    Ok(())
}

/// After the daemon's start: looks after the sessions that run, and finishes what an earlier daemon could not.
pub fn recover(host: &Arc<Host>) {
    let unknown = |id: &SessionId| host.engine.find(&id.to_string()).is_err();
    // It removed the session and could not forget its chain any more.
    host.chains.closed_ids().into_iter().filter(unknown).for_each(|id| host.chains.forget(id));
    for id in host.chains.open_ids() {
        let handle = host.engine.find(&id.to_string()).ok();
        match handle {
            Some(handle) if handle.change().ended.is_none() || host.keeper.count_left(id) > 0 => {
                look_after(host, handle);
            }
            over => {
                let host = host.clone();
                tokio::spawn(async move {
                    tracing::info!(session = %id, "cleaning up for an earlier daemon");
                    match over {
                        Some(handle) => settled(&host, &handle).await,
                        None => {
                            never_started(&host, id).await;
                            host.chains.forget(id);
                        }
                    }
                });
            }
        }
    }
}

/// Before the host goes down for good: cleans up after every session that has ended.
pub async fn settle_all(host: &Arc<Host>) {
    let over: Vec<SessionHandle> = host
        .engine
        .handles()
        .into_iter()
        .filter(|handle| handle.change().ended.is_some())
        .collect();
    let all = async {
        for handle in over {
            settled(host, &handle).await;
        }
    };
    if tokio::time::timeout(SETTLE, all).await.is_err() {
        tracing::warn!("clean-up took too long; the next host finishes it");
    }
}

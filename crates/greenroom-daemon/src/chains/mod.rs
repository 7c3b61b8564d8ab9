//! Sessions with plugins: prepared before they start, cleaned up after they ended, whoever started
//! them and whatever happened to the daemon in between.
//!
//! In: what a caller asked for. Out: a running session, or one fault and nothing left behind. The
//! chain itself (order, transaction, notes) is `greenroom_workspace::chain`; here is what needs the
//! host: starting the program, seeing its end, the clock, events. Deliberately absent: what any
//! plugin does.

mod describe;
mod environment;
mod events;
mod hearing;
mod limits;
mod logins;
mod proxy;
mod request;
mod retry;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use greenroom_config::{Config, Paths};
use greenroom_engine::session::Ladder;
use greenroom_engine::{Engine, EngineError, SessionHandle, SessionId, SessionState};
use greenroom_protocol::api::session::DryRun;
use greenroom_protocol::{Fault, FaultKind};
use greenroom_workspace::BuiltIn;
use greenroom_workspace::chain::{ChainError, Chains, CleanupReport, Open, Registry, Watch};
use greenroom_workspace::sandbox::{self, Plan, Sandbox, SandboxConfig};
use greenroom_workspace::spec::{EndedHow, Refusal, SessionEnd, SessionSpec, Surroundings};
use greenroom_workspace::worktree::Worktrees;

pub(crate) use describe::{describe, measure};
pub(crate) use environment::check_variables;
pub(crate) use request::spec;
pub(crate) use retry::pending;

use self::retry::Cleanups;
use crate::call::fault;
use crate::counters::Counters;
use crate::descriptors::{self, Holders};
use crate::hooks::{self, Gatekeeper, Hooks};
use crate::keeper::Keeper;
use crate::settings::Settings;
use crate::store::Storage;

/// The last clean-ups before the host goes down. What takes longer (a teardown command) is finished
/// by the next host.
const SETTLE: Duration = Duration::from_secs(30);

/// How long a run waits for what a worker's program left. Such things as git's maintenance take
/// milliseconds; a server that was started to stay must not hold up the run.
const LEFT_BEHIND: Duration = Duration::from_secs(3);

/// A session may be given at most this long to end by itself.
const GRACE_MAX: Duration = Duration::from_secs(600);

/// The sessions of a host, with what plugins prepared for them and have to clean up.
pub(crate) struct Sessions {
    engine: Engine,
    chains: Chains,
    built_in: BuiltIn,
    /// What has to be tried again.
    cleanups: Cleanups,
    /// One directory per session below.
    dir: PathBuf,
    /// Where programs in sessions reach the host.
    socket: PathBuf,
    keeper: Arc<Keeper>,
    storage: Storage,
    hooks: Arc<Hooks>,
    settings: Arc<Settings>,
    counters: Arc<Counters>,
}

impl Sessions {
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn chains(&self) -> &Chains {
        &self.chains
    }

    pub(crate) fn worktrees(&self) -> &Worktrees {
        &self.built_in.worktrees
    }

    pub(crate) fn sandbox(&self) -> &Arc<Sandbox> {
        &self.built_in.sandbox
    }

    /// Other settings, for whatever begins from now on.
    pub(crate) fn reconfigure(&self, config: &Config) {
        self.built_in.worktrees.reconfigure(config.worktree.clone());
        self.built_in.sandbox.reconfigure(fence(config, &self.socket));
    }

    /// How a session is ended when its caller says so. Whether plugins of sessions that have ended
    /// still clean up. They wait for what a session has left.
    pub(crate) fn are_cleaning_up(&self) -> bool {
        self.chains.open_ids().into_iter().any(|id| {
            let handle = self.engine.find(&id.to_string());
            handle.map_or(true, |handle| handle.change().ended.is_some())
                && self.keeper.count_left(id) == 0
        })
    }

    pub(crate) fn ladder(&self, signal: Option<i32>, grace_ms: Option<u64>) -> Ladder {
        let grace = grace_ms.map_or(self.settings.now().sessions.kill_grace, Duration::from_millis);
        Ladder { signal, grace: grace.min(GRACE_MAX), ..Ladder::default() }
    }
}

/// What sessions need of the rest of the host.
pub(crate) struct Around {
    pub socket: PathBuf,
    pub keeper: Arc<Keeper>,
    pub storage: Storage,
    pub hooks: Arc<Hooks>,
    pub settings: Arc<Settings>,
    pub counters: Arc<Counters>,
}

/// The chains of this host, with what an earlier one left.
pub(crate) fn load(paths: &Paths, engine: Engine, around: Around) -> Result<Sessions, ChainError> {
    let Around { socket, keeper, storage, hooks, settings, counters } = around;
    let config = settings.now();
    let open = Arc::new(Open::default());
    let surroundings = Surroundings {
        state: paths.state().to_owned(),
        config: paths.config().to_owned(),
        runtime: paths.runtime().to_owned(),
        home: std::env::var_os("HOME").map_or_else(|| "/".into(), Into::into),
        living: open.clone(),
    };
    let built_in = BuiltIn::new(
        config.worktree.clone(),
        fence(&config, &socket),
        config.scratchpad.clone(),
        &surroundings,
    );
    let mut registry = Registry::new(built_in.plugins.iter().cloned());
    registry.add(Arc::new(Gatekeeper::new(&hooks)));
    let chains = Chains::load(paths.state().join("chains"), registry, open)?;
    sandbox::sweep(&surroundings);
    Ok(Sessions {
        engine,
        chains,
        built_in,
        cleanups: Cleanups::default(),
        dir: paths.sessions(),
        socket,
        keeper,
        storage,
        hooks,
        settings,
        counters,
    })
}

fn fence(config: &Config, socket: &Path) -> SandboxConfig {
    let mut fence = config.sandbox.clone();
    // It may lie outside of the runtime directory, which is hidden anyway.
    fence.hide.push(socket.display().to_string());
    fence
}

/// Starts a session through its chain. The caller may go away: then the session is not started, or
/// ended again.
pub(crate) async fn start(
    sessions: &Arc<Sessions>,
    mut spec: SessionSpec,
) -> Result<SessionHandle, Fault> {
    if let Some(why) = sessions.settings.troubles().config() {
        let message = format!("cannot start a session: {why}");
        return Err(Fault::new(FaultKind::Conflict, message)
            .hint("correct the file, then: greenroom reload"));
    }
    if let Some(unguarded) = sessions.hooks.plugins().unguarded() {
        let message = format!("cannot start a session: {}", unguarded.why);
        return Err(Fault::new(FaultKind::Conflict, message).hint(unguarded.hint));
    }
    let _starting = sessions.counters.start();
    descriptors::room_for_a_session(|| holders(sessions)).await?;
    sessions.engine.check(&spec.base).map_err(fault::engine)?;
    let id = sessions.engine.next_id().await.map_err(fault::engine)?;
    spec.id = id;
    let wanted = sessions.chains.registry().wanted(&spec).map_err(refused)?;
    if wanted.is_empty() {
        return sessions.engine.create_as(id, spec.into_engine()).await.map_err(fault::engine);
    }
    let asked = Asked(Arc::default());
    // A task of its own: a caller that goes away half way must not leave half of the work behind.
    let work = tokio::spawn(begin(sessions.clone(), spec, asked.0.clone()));
    let result = match work.await {
        Ok(result) => result,
        Err(error) => {
            // A plugin panicked; what it noted is undone like a refusal.
            tracing::error!(session = %id, %error, "preparing a session");
            never_started(sessions, id).await;
            Err(Fault::new(FaultKind::Internal, "cannot start the session: a plugin broke down"))
        }
    };
    asked.answered();
    result
}

fn holders(sessions: &Sessions) -> Holders {
    let runs = |session: &&SessionHandle| {
        let change = session.change();
        change.ended.is_none() && !change.closed
    };
    Holders {
        sessions: sessions.engine.handles().iter().filter(runs).count() as u64,
        starting: sessions.counters.starting(),
        connections: sessions.counters.connections(),
    }
}

/// What a session would be; nothing is made.
pub(crate) async fn would_be(sessions: &Arc<Sessions>, spec: SessionSpec) -> Result<DryRun, Fault> {
    sessions.engine.check(&spec.base).map_err(fault::engine)?;
    Ok(describe::dry_run(sessions.chains.dry_run(spec).await.map_err(refused)?))
}

/// The fence a session like this would get, and what its plugins want to be known.
pub(crate) async fn fence_of(
    sessions: &Arc<Sessions>,
    mut spec: SessionSpec,
) -> Result<(Plan, Vec<String>), Fault> {
    sessions.engine.check(&spec.base).map_err(fault::engine)?;
    // All others first: the sandbox sees what they leave.
    let sandbox = std::mem::take(&mut spec.ask.sandbox);
    let mut spec = sessions.chains.dry_run(spec).await.map_err(refused)?.spec;
    spec.ask.sandbox = sandbox;
    let plugin = sessions.built_in.sandbox.clone();
    let work = tokio::task::spawn_blocking(move || {
        let fenced = plugin.plan(&spec)?;
        Ok((fenced.plan, spec.notes.into_iter().chain(fenced.notes).collect()))
    });
    match work.await {
        Ok(result) => result.map_err(|refusal: Refusal| {
            refused(Refusal { plugin: sandbox::ABOUT.name.to_owned(), ..refusal })
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
    sessions: Arc<Sessions>,
    spec: SessionSpec,
    gone: Arc<AtomicBool>,
) -> Result<SessionHandle, Fault> {
    let id = spec.id;
    let prepared = match sessions.chains.prepare(spec, &watch(&sessions)).await {
        Ok(prepared) => prepared,
        Err(refusal) => {
            events::refused(&sessions, id, &refusal);
            return Err(refused(refusal));
        }
    };
    hooks::worktree_made(&sessions.hooks, &prepared.spec);
    if gone.load(Ordering::Acquire) {
        never_started(&sessions, id).await;
        return Err(Fault::new(FaultKind::Cancelled, "nobody waits for this session any more"));
    }
    let handle = match sessions.engine.create_as(id, prepared.spec.into_engine()).await {
        Ok(handle) => handle,
        Err(error) => {
            let left = never_started(&sessions, id).await;
            let mut fault = fault::engine(error);
            fault.message.extend(left.iter().map(|left| format!("; {left}")));
            return Err(fault);
        }
    };
    sessions.chains.started(id, SystemTime::now());
    events::die_at("started");
    look_after(&sessions, handle.clone());
    if gone.load(Ordering::Acquire) {
        let _ = handle.kill(sessions.ladder(None, None)).await;
        remove(&sessions, &handle).await.map_err(fault::engine)?;
    }
    Ok(handle)
}

fn watch(sessions: &Arc<Sessions>) -> Arc<dyn Watch> {
    Arc::new(events::ChainEvents::new(sessions.storage.clone(), sessions.hooks.plugins().clone()))
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
async fn never_started(sessions: &Arc<Sessions>, id: SessionId) -> Vec<String> {
    let end = SessionEnd { id, how: EndedHow::NeverStarted, at: SystemTime::now() };
    let outcomes = clean_up(sessions, end).await;
    outcomes.iter().filter_map(|outcome| outcome.left_behind()).collect()
}

/// Cleans up after a session; what fails is tried again later. A task of its own: whoever asked may
/// go away half way, and the next one must not begin beside what is still being done.
async fn clean_up(sessions: &Arc<Sessions>, end: SessionEnd) -> Vec<CleanupReport> {
    let (id, sessions) = (end.id, sessions.clone());
    let work = tokio::spawn(async move {
        let reports = sessions.chains.finish(&end, &watch(&sessions)).await;
        retry::unless_done(&sessions, &end);
        reports
    });
    work.await.unwrap_or_else(|error| {
        tracing::error!(session = %id, %error, "cleaning up after a session");
        Vec::new()
    })
}

/// Minds the clock of a running session and cleans up after its end.
fn look_after(sessions: &Arc<Sessions>, handle: SessionHandle) {
    let clock = limits::watch(sessions, &handle);
    let door = proxy::open(sessions, &handle);
    let hearing = hearing::begin(sessions, &handle);
    let logins = logins::follow(sessions, &handle);
    let sessions = sessions.clone();
    tokio::spawn(async move {
        handle.over().await;
        for task in [door, hearing, logins].into_iter().flatten() {
            task.abort();
        }
        // What its program left lives on where it was started, and under the same clock.
        sessions.keeper.nobody_left(handle.id()).await;
        clock.into_iter().for_each(|task| task.abort());
        settled(&sessions, &handle).await;
    });
}

/// Answers once the plugins of an ended session have cleaned up; at once if it runs, has left
/// processes, or has no plugins.
pub(crate) async fn settled(sessions: &Arc<Sessions>, handle: &SessionHandle) {
    if let Some(end) = end_of(handle)
        && sessions.keeper.count_left(end.id) == 0
        && sessions.chains.look(end.id).is_some_and(|file| file.is_open())
    {
        clean_up(sessions, end).await;
    }
}

/// As `settled`, once what the program left behind has had some time to end: git goes on with its
/// maintenance in the background, and the next worker of a run may need the same worktree.
pub(crate) async fn settled_after_rest(sessions: &Arc<Sessions>, handle: &SessionHandle) {
    let rest = sessions.keeper.nobody_left(handle.id());
    // What stays longer was started to stay.
    let _ = tokio::time::timeout(LEFT_BEHIND, rest).await;
    settled(sessions, handle).await;
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
pub(crate) async fn remove(
    sessions: &Arc<Sessions>,
    handle: &SessionHandle,
) -> Result<(), EngineError> {
    settled(sessions, handle).await;
    sessions.engine.remove(handle.id()).await?;
    events::die_at("removed");
    sessions.chains.forget(handle.id());
    Ok(())
}

/// After the daemon's start: looks after the sessions that run, and finishes what an earlier daemon
/// could not.
pub(crate) fn recover(sessions: &Arc<Sessions>) {
    let unknown = |id: &SessionId| sessions.engine.find(&id.to_string()).is_err();
    // It removed the session and could not forget its chain any more.
    sessions
        .chains
        .closed_ids()
        .into_iter()
        .filter(unknown)
        .for_each(|id| sessions.chains.forget(id));
    for id in sessions.chains.open_ids() {
        let handle = sessions.engine.find(&id.to_string()).ok();
        match handle {
            Some(handle)
                if handle.change().ended.is_none() || sessions.keeper.count_left(id) > 0 =>
            {
                look_after(sessions, handle);
            }
            over => {
                let sessions = sessions.clone();
                tokio::spawn(async move {
                    tracing::info!(session = %id, "cleaning up for an earlier daemon");
                    match over {
                        Some(handle) => settled(&sessions, &handle).await,
                        None => {
                            never_started(&sessions, id).await;
                            sessions.chains.forget(id);
                        }
                    }
                });
            }
        }
    }
}

/// Before the host goes down for good: cleans up after every session that has ended.
pub(crate) async fn settle_all(sessions: &Arc<Sessions>) {
    let over: Vec<SessionHandle> = sessions
        .engine
        .handles()
        .into_iter()
        .filter(|handle| handle.change().ended.is_some())
        .collect();
    let all = async {
        for handle in over {
            settled(sessions, &handle).await;
        }
    };
    if tokio::time::timeout(SETTLE, all).await.is_err() {
        tracing::warn!("clean-up took too long; the next host finishes it");
    }
}

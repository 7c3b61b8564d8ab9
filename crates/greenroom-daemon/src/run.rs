//! The daemon from its first act to its exit code. Reads like a table of contents.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use greenroom_config::{Config, ConfigError, Paths, PathsError, Settled};
use greenroom_engine::egress::{HostKey, LoadedKey, Redaction, Rules};
use greenroom_engine::engine::Known;
use greenroom_engine::journal::{Budget, JournalError, Limits, Spiller};
use greenroom_engine::process::Held;
use greenroom_engine::session::Ladder;
use greenroom_engine::threads::SessionThreads;
use greenroom_engine::{Engine, EngineParts};
use greenroom_keeper::claim::{self, ClaimError};
use greenroom_keeper::{
    EXIT_SHUTDOWN, EXIT_UPGRADE, Inherited, KeeperHello, LinkError, SessionEntry,
};
use greenroom_protocol::events::{DaemonRestarted, DaemonStarted, DaemonStopping};
use greenroom_runs::Runs;
use greenroom_workspace::chain::ChainError;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::adopt;
use crate::callers::Callers;
use crate::chains::{self, Around};
use crate::convert;
use crate::counters::Counters;
use crate::events::{Facts, Observations, of_the_host};
use crate::hooks::{self, Hooks};
use crate::host::{Edge, Host};
use crate::http::Web;
use crate::keeper::{Exit, Keeper, KeeperError, KeeperLauncher, Notes};
use crate::lifecycle::{Ending, Life};
use crate::logs::{LogError, Logs};
use crate::methods::server::{for_http, reload_settings};
use crate::screens::Screens;
use crate::settings::Settings;
use crate::socket::{self, SocketError};
use crate::store::{Opened, Storage, StorageError};
use crate::terminals::HostTerminals;
use crate::trouble::Troubles;

/// Exit code of a daemon that could not begin or lost its footing: restarted with back-off.
const EXIT_FAILED: u8 = 1;

/// Exit code after a SIGTERM, as a shell would say it. The keeper starts a successor, unless it was
/// itself told to stop.
const EXIT_STOPPED: i32 = 143;

/// Two at least, so that one busy task never stops the other half of an echo.
const THREADS_MIN: usize = 2;
/// More threads than this only take turns waking each other.
const THREADS_MAX: usize = 8;

/// An earlier daemon that lost its keeper may still be writing; longer than its last writes.
const LAST_DAEMON: Duration = Duration::from_secs(8);

/// The last writes before the exit may take this long.
const FAREWELL: Duration = Duration::from_secs(5);

/// Connections end by themselves once none is accepted any more; longer than they wait for answers.
const LAST_CONNECTIONS: Duration = Duration::from_millis(300);

/// What `greenroom daemon` is told; the rest is in the environment and in two descriptors.
#[derive(Clone, Debug, Default)]
pub struct DaemonOptions {
    /// Where everything lies, if not where the environment says.
    pub paths: Option<Paths>,
}

#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("{0}")]
    Link(#[from] LinkError),
    #[error(transparent)]
    Paths(#[from] PathsError),
    #[error("cannot work on the state: {0}")]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Chains(#[from] ChainError),
    #[error(transparent)]
    Keeper(#[from] KeeperError),
    #[error("cannot start the journal: {0}")]
    Journal(#[from] JournalError),
    #[error("cannot start the runtime: {0}")]
    Runtime(io::Error),
    #[error("cannot read or make the key {}: {source}", file.display())]
    Key { file: PathBuf, source: io::Error },
    #[error(transparent)]
    Socket(#[from] SocketError),
}

/// `greenroom daemon`: takes over the process. Call it first in `main`, with one thread.
pub fn run(options: DaemonOptions) -> ExitCode {
    greenroom_keeper::be_called_by_name();
    let inherited = match greenroom_keeper::inherited() {
        Ok(inherited) => inherited,
        Err(error) => return failed(&RunError::Link(error)),
    };
    match begin(options, inherited) {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

/// The keeper shows this to whoever started the host.
#[expect(clippy::print_stderr, reason = "there may be no log yet, and stderr is the keeper's")]
fn failed(error: &RunError) -> ExitCode {
    tracing::error!(%error, "the daemon ends");
    eprintln!("{error}");
    ExitCode::from(EXIT_FAILED)
}

fn begin(options: DaemonOptions, inherited: Inherited) -> Result<ExitCode, RunError> {
    let began = Instant::now();
    let paths = match options.paths {
        Some(paths) => paths,
        None => Paths::from_env()?,
    };
    paths.prepare()?;
    // One daemon at a time works on the state: this waits until the last one has really ended.
    let _alone = claim::hold(&paths.daemon_lock(), LAST_DAEMON)?;
    let (keeper, inheritance) = Keeper::meet(inherited.link, Notes::below(paths.state()))?;
    let settled = configured(&paths, &inheritance.hello)?;
    let logs = Logs::start(&paths.daemon_log(), &settled.config.log)?;
    let troubles = Troubles::default();
    troubles.config_is(settled.trouble());
    let config = settled.config;
    let (storage, known) = remembered(&paths, &keeper, inheritance.sessions, &config, &troubles)?;
    let socket = socket_of(&inherited.listener).unwrap_or_else(|| paths.socket());

    let threads = SessionThreads::start(cores()).map_err(RunError::Runtime)?;
    let runtime = runtime()?;
    let code = runtime.block_on(async {
        outlast_signals();
        let keeper = Arc::new(keeper);
        let exits = keeper.listen()?;
        let (observations, incoming) = Observations::new();
        let count = known.len();
        let base = Base {
            paths: &paths,
            socket,
            config,
            troubles,
            storage,
            keeper,
            hello: inheritance.hello,
            threads: &threads,
        };
        let host = Arc::new(compose(base, &observations)?);
        host.sessions.engine().adopt(known);
        hooks::begin(&host.hooks, observations, incoming);
        tokio::spawn(watch_exits(host.clone(), exits));
        chains::recover(&host.sessions);
        host.runs.recover();
        tokio::spawn(watch_signals(host.clone()));
        announce(&host, count, began);
        let restarted = host.hello.daemon_starts > 1;
        host.edge.web.resume(&for_http(&host), restarted).await;
        host.keeper.ready()?;
        let accepted = socket::accept(host.clone(), inherited.listener).await;
        host.life.stopped_accepting();
        accepted?;
        Ok::<ExitCode, RunError>(farewell(&host).await)
    });
    runtime.shutdown_background();
    logs.flush();
    code
}

/// The store, and the sessions of which it, the keeper or a directory knows.
fn remembered(
    paths: &Paths,
    keeper: &Keeper,
    held: Vec<(SessionEntry, Option<Held>)>,
    config: &Config,
    troubles: &Troubles,
) -> Result<(Storage, Vec<Known>), RunError> {
    let Opened { storage, records, lost } =
        Storage::open_or_begin_anew(&paths.database(), config.events.keep)?;
    keeper.find_lost(&records);
    let mut known = adopt::known(records, held, storage.noted_since());
    if let Some(lost) = lost {
        troubles.note(lost);
    }
    let nameless = adopt::without_record(&paths.sessions(), &known);
    if !nameless.is_empty() {
        troubles.note(match nameless.len() {
            1 => "1 session has lost its record; it is listed by id".to_owned(),
            count => format!("{count} sessions have lost their record; they are listed by id"),
        });
        known.extend(nameless);
    }
    storage.skip_ids(known.iter().map(|one| one.record.id.0).max().unwrap_or(0));
    storage.skip_ids(adopt::last_directory(&paths.sessions()));
    Ok((storage, known))
}

/// What a host is made of.
struct Base<'a> {
    paths: &'a Paths,
    socket: PathBuf,
    config: Config,
    troubles: Troubles,
    storage: Storage,
    keeper: Arc<Keeper>,
    hello: KeeperHello,
    threads: &'a SessionThreads,
}

/// Makes the parts of a host, each from those below it. Nothing runs yet.
fn compose(base: Base<'_>, observations: &Observations) -> Result<Host, RunError> {
    let Base { paths, socket, config, troubles, storage, keeper, hello, threads } = base;
    let launcher = Arc::new(KeeperLauncher::new(keeper.clone(), paths.logs().join("plugins.log")));
    let (plugins, store) = hooks::load(paths, &socket, &config, launcher, observations);
    let engine = Engine::new(EngineParts {
        processes: keeper.clone(),
        store: Arc::new(storage.clone()),
        events: Arc::new(Facts::new(storage.clone(), observations.clone())),
        dir: paths.sessions(),
        limits: Limits { session_bytes: config.sessions.limit_bytes, ..Limits::default() },
        spiller: Spiller::start(Budget { total_bytes: config.sessions.total_bytes })?,
        threads: threads.threads(),
        redaction: redaction(&config, paths, &troubles)?,
        filters: Some(hooks::filters(&plugins)),
        max_running: config.sessions.max,
    });
    let settings = Settings::new(paths.config_file(), paths.good_config(), config, troubles);
    let settings = Arc::new(settings);
    let hooks = Hooks::new(plugins, store, engine.clone(), storage.clone(), settings.clone());
    let hooks = Arc::new(hooks);
    let counters = Arc::<Counters>::default();
    let around = Around {
        socket,
        keeper: keeper.clone(),
        storage: storage.clone(),
        hooks: hooks.clone(),
        settings: settings.clone(),
        counters: counters.clone(),
    };
    let sessions = Arc::new(chains::load(paths, engine, around)?);
    // A session that never started has a chain and no record: its id must not come again.
    storage.skip_ids(sessions.chains().last_id());
    let life = Arc::<Life>::default();
    let terminals = HostTerminals {
        sessions: sessions.clone(),
        hooks: hooks.clone(),
        storage: storage.clone(),
        life: life.clone(),
    };
    Ok(Host {
        callers: Arc::new(Callers::new(sessions.clone(), keeper.clone(), &hello)),
        sessions,
        hooks,
        runs: Arc::new(Runs::new(paths.state(), Arc::new(terminals))),
        settings,
        storage,
        edge: Edge {
            web: Web::new(paths.runtime()),
            waits: Arc::default(),
            viewers: Arc::default(),
            screens: Screens::default(),
            counters,
        },
        life,
        keeper,
        hello,
        started: SystemTime::now(),
    })
}

/// Where the keeper listens for us: not always where the paths say.
fn socket_of(listener: &std::os::unix::net::UnixListener) -> Option<PathBuf> {
    Some(listener.local_addr().ok()?.as_pathname()?.to_owned())
}

/// A broken file keeps a host from starting, but not from coming back: sessions wait for it.
fn configured(paths: &Paths, hello: &KeeperHello) -> Result<Settled, RunError> {
    let settled = Config::settled(&paths.config_file(), &paths.good_config());
    match settled.mistake {
        Some(mistake) if hello.daemon_starts <= 1 => Err(mistake.into()),
        _ => Ok(settled),
    }
}

fn cores() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    cores.clamp(THREADS_MIN, THREADS_MAX)
}

fn runtime() -> Result<tokio::runtime::Runtime, RunError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores())
        .thread_name("worker")
        .enable_all()
        .build()
        .map_err(RunError::Runtime)
}

/// What is masked, and the key that keeps the values of sessions for the next daemon.
fn redaction(config: &Config, paths: &Paths, troubles: &Troubles) -> Result<Redaction, RunError> {
    let file = paths.state().join("values.key");
    let LoadedKey { key, trouble } =
        HostKey::load(&file).map_err(|source| RunError::Key { file, source })?;
    if let Some(trouble) = trouble {
        troubles.note(format!("{trouble}; what sessions with values print is withheld"));
    }
    let rules = Rules::without(&config.redact.without).unwrap_or_else(|_| Rules::built_in());
    Ok(Redaction::new(rules, config.redact.attach, key))
}

fn announce(host: &Host, sessions: usize, began: Instant) {
    let pid = std::process::id();
    let version = env!("CARGO_PKG_VERSION");
    let restart = host.hello.daemon_starts > 1;
    tracing::info!(pid, version, restart, sessions, "serving");
    let started = DaemonStarted { pid, version: version.to_owned(), restart, sessions };
    host.storage.log(of_the_host(started));
    hooks::announce(&host.hooks, pid, version, restart, sessions);
    if let Some(last) = host.hello.last_exit.filter(|_| restart) {
        let took_ms = convert::millis(began.elapsed());
        let last_exit = format!("{} after {} ms", last.status, last.lived_ms);
        let event = DaemonRestarted { pid, last_exit, sessions, took_ms };
        host.storage.log(of_the_host(event));
    }
}

async fn watch_exits(host: Arc<Host>, mut exits: mpsc::Receiver<Exit>) {
    while let Some((id, status)) = exits.recv().await {
        host.sessions.engine().exited(id, status).await;
    }
    host.life.end(Ending::Orphaned);
}

/// Signals that mean nothing to us and would end us. Caught and not ignored: the programs we start
/// shall have the defaults.
fn outlast_signals() {
    for signo in greenroom_keeper::nobodys() {
        if let Err(error) = signal(SignalKind::from_raw(signo)) {
            tracing::debug!(signo, %error, "a signal that cannot be caught");
        }
    }
}

async fn watch_signals(host: Arc<Host>) {
    let streams =
        [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let [Ok(mut term), Ok(mut int), Ok(mut hup)] = streams else {
        tracing::error!("cannot watch for signals");
        return;
    };
    loop {
        tokio::select! {
            _ = term.recv() => drop(host.life.end(Ending::Stop)),
            // The keeper in the foreground is the one to be interrupted; it tells us.
            _ = int.recv() => {}
            _ = hup.recv() => {
                // In a task of its own: a SIGTERM must not wait for it.
                let host = host.clone();
                tokio::spawn(async move { reload_settings(&host, "SIGHUP").await });
            }
        }
    }
}

/// Everything after the last connection was accepted.
async fn farewell(host: &Arc<Host>) -> ExitCode {
    let ending = host.life.ending().unwrap_or(Ending::Stop);
    tracing::info!(?ending, "stopping");
    host.storage.log(of_the_host(DaemonStopping { why: format!("{ending:?}") }));
    if let Ending::Shutdown { grace } = ending {
        host.edge.web.forget();
        host.sessions.engine().end_all(Ladder { grace, ..Ladder::default() }).await;
        chains::settle_all(&host.sessions).await;
        host.runs.settled().await;
        if let Err(error) = host.keeper.shutdown() {
            tracing::warn!(%error, "telling the keeper to end");
        }
    }
    match ending {
        Ending::Shutdown { .. } => host.hooks.plugins().stop().await,
        // The next daemon is waited for.
        _ => host.hooks.plugins().keep().await,
    }
    let last_writes = async {
        host.sessions.engine().flush().await;
        host.storage.flush().await;
    };
    if tokio::time::timeout(FAREWELL, last_writes).await.is_err() {
        tracing::warn!("the last writes took too long; the rings keep what is missing");
    }
    // A client that waits for an answer, such as to an upgrade, shall have it.
    let _ = tokio::time::timeout(LAST_CONNECTIONS, host.edge.counters.alone()).await;
    let code = match ending {
        Ending::Shutdown { .. } | Ending::Orphaned => EXIT_SHUTDOWN,
        Ending::Upgrade => EXIT_UPGRADE,
        Ending::Stop => EXIT_STOPPED,
    };
    ExitCode::from(u8::try_from(code).unwrap_or(EXIT_FAILED))
}

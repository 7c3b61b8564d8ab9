//! The keeper's life: start or resume, one poll loop, end.
//!
//! In: `KeeperOptions`, or the state of the previous image. The loop waits for signals, the link
//! and the status pipes of starting sessions, and for the nearest deadline; nothing else can wake
//! it, so an idle keeper costs nothing. These functions take over the process: call them first in
//! `main`, with one thread.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use greenroom_sandbox::stage::Stages;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Rlimit;

use crate::claim::{Claim, KeeperPaths};
use crate::daemon::{Daemon, Running};
use crate::fds::{self, Slots};
use crate::handover::{Handover, HandoverError, HeldSession};
use crate::keeper::{Keeper, UPGRADE_GRACE, raise_nofile, tell_starter};
use crate::launch::Status;
use crate::link::Endpoint;
use crate::listen::{BoundSocket, ListenError};
use crate::log::{Log, unix_ms};
use crate::mend::Watch;
use crate::message::{PipedId, SessionFds, SessionId};
use crate::namespaces::ReadyNamespaces;
use crate::options::{CALLED, KeeperOptions, READY_HELD};
use crate::outbox::{Flush, Outbox};
use crate::piped::PipedPrograms;
use crate::replace::CHECKED;
use crate::sessions::{Phase, Session, Sessions};
use crate::signals::{self, Signals};
use crate::strays::Strays;
use crate::warden::Reports;

/// Nothing tells when fds in flight have been received; this is how soon the keeper looks again.
const FDS_IN_FLIGHT_RETRY: Duration = Duration::from_millis(5);

/// Why a keeper could not begin.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("cannot set up the keeper's {what}: {source}")]
    Io { what: &'static str, source: io::Error },
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Handover(#[from] HandoverError),
}

fn setting_up(what: &'static str) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError::Io { what, source }
}

/// `greenroom keeper …`: takes over the process and returns when everything has ended.
pub fn run(mut options: KeeperOptions) -> ExitCode {
    signals::ignore_what_is_not_for_us();
    be_called_by_name();
    let mut ready_fd = options.ready_fd.take().and_then(|fd| fds::lift(fd).ok());
    fds::close_inherited(ready_fd.as_ref());
    match begin(options, &mut ready_fd) {
        Ok(keeper) => live(keeper),
        Err(error) => {
            let held = match &error {
                StartError::Listen(error) if ready_fd.is_some() => error.held_by(),
                _ => None,
            };
            // In front of the sentence, so that no program has to read it.
            let word = held.map(|pid| format!("{READY_HELD}{pid}\n")).unwrap_or_default();
            tell_starter(ready_fd, &format!("{word}{error}"));
            ExitCode::FAILURE
        }
    }
}

/// `greenroom keeper --resume <fd>`: the new image of a keeper that replaced itself. `paths` is
/// where a keeper of this image belongs: the old image may have had less.
pub fn resume(fd: RawFd, paths: Option<KeeperPaths>) -> ExitCode {
    signals::ignore_what_is_not_for_us();
    be_called_by_name();
    match take_over(fd, paths) {
        Ok(keeper) => live(keeper),
        Err(error) => {
            tell_starter(None, &format!("cannot resume the keeper: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// `greenroom keeper --check <fd>`: can this image read the state the old one will hand over? Says
/// so in fixed words.
pub fn check(fd: RawFd) -> ExitCode {
    let read = fds::dup_foreign(fd)
        .map_err(|error| error.to_string())
        .and_then(|fd| Handover::from_memfd(fd.as_fd()).map_err(|error| error.to_string()));
    match read {
        Ok(_) => {
            tell_starter(None, CHECKED);
            ExitCode::SUCCESS
        }
        Err(text) => {
            tell_starter(None, &text);
            ExitCode::FAILURE
        }
    }
}

/// What `ps` and `pgrep` know this process by: exec has called it after a path. Also for the
/// daemon.
pub fn be_called_by_name() {
    let _ = rustix::thread::set_name(CALLED);
}

fn begin(options: KeeperOptions, ready_fd: &mut Option<OwnedFd>) -> Result<Keeper, StartError> {
    // First, so that the lowest numbers are theirs.
    let slots = Slots::reserve().map_err(setting_up("fd slots"))?;
    // Before anything is made that a signal would leave behind.
    let signals = Signals::watch().map_err(setting_up("signals"))?;
    let mut log = Log::open(&options.log);
    let (claim, bound) = claim_and_listen(&options.paths)
        .inspect_err(|error| log.say(format_args!("not started: {error}")))?;
    become_subreaper()?;
    log.say(format_args!("keeper started, pid {}", std::process::id()));
    let mut keeper = Keeper {
        watch: Watch::over(&options.paths),
        paths: options.paths,
        log_path: options.log,
        log,
        signals,
        slots,
        stages: Stages::prepare(),
        namespaces: ReadyNamespaces::default(),
        claim,
        bound,
        ready_fd: ready_fd.take(),
        daemon: Daemon::new(options.daemon, options.daemon_log, options.foreground),
        link: None,
        greeted: false,
        outbox: Outbox::default(),
        sessions: Sessions::default(),
        reports: Reports::open().map_err(setting_up("pipe of wardens"))?,
        strays: Strays::default(),
        piped: PipedPrograms::default(),
        replacement: None,
        ending: None,
        stop_requests: 0,
        nofile: raise_nofile(),
        generation: 0,
        started_unix_ms: unix_ms(),
    };
    keeper.mend_alias();
    Ok(keeper)
}

fn claim_and_listen(paths: &KeeperPaths) -> Result<(Claim, BoundSocket), ListenError> {
    let claim = Claim::take(paths)?;
    Ok((claim, BoundSocket::open(paths)?))
}

fn become_subreaper() -> Result<(), StartError> {
    // Orphans of sessions come home to be reaped. The argument only has to be some pid.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|errno| setting_up("subreaper")(errno.into()))
}

fn take_over(fd: RawFd, paths: Option<KeeperPaths>) -> Result<Keeper, StartError> {
    let handover = {
        let state = fds::adopt(fd).map_err(setting_up("state"))?;
        Handover::from_memfd(state.as_fd())?
    };
    // First, so that no fd made here gets one of their numbers.
    let slots = Slots::reserve().map_err(setting_up("fd slots"))?;
    // The inherited mask already blocks what this watches, so nothing was lost since the exec.
    let signals = Signals::watch().map_err(setting_up("signals"))?;
    become_subreaper()?;
    let mut log = Log::open(handover.log.as_ref());
    log.say(format_args!(
        "keeper resumed, generation {}, {} sessions",
        handover.generation,
        handover.sessions.len()
    ));
    let adopt = |fd: Option<RawFd>| fd.and_then(|fd| fds::adopt(fd).ok());
    let reports = match handover.reports {
        Some((read, write)) => Reports::adopt(read, write),
        None => Reports::open(),
    };
    let mut strays = Strays::default();
    strays.tolerated = handover.strays_tolerated;
    let mut daemon = Daemon::new(handover.daemon, handover.daemon_log.into(), handover.foreground);
    daemon.running = handover
        .running
        .map(|(pid, lived_ms)| Running::resumed(pid, Duration::from_millis(lived_ms)));
    daemon.starts = handover.starts;
    daemon.last_exit = handover.last_exit;
    daemon.young_deaths = handover.young_deaths;
    daemon.ever_ready = handover.ever_ready;
    let paths = paths.unwrap_or_else(|| paths_of_old(&handover.socket, &handover.lock));
    let lock = fds::adopt(handover.lock_fd).map_err(setting_up("lock"))?;
    let listener = fds::adopt(handover.listener_fd).map_err(setting_up("socket"))?;
    let mut keeper = Keeper {
        watch: Watch::over(&paths),
        claim: Claim::resumed(lock, &paths),
        bound: BoundSocket::of(listener, handover.socket.as_ref()),
        paths,
        log_path: handover.log.into(),
        log,
        signals,
        slots,
        stages: Stages::prepare(),
        namespaces: ReadyNamespaces::default(),
        ready_fd: adopt(handover.ready_fd),
        daemon,
        link: adopt(handover.link_fd).map(Endpoint::new),
        // It asked for this replacement.
        greeted: true,
        outbox: Outbox::default(),
        sessions: adopt_sessions(handover.sessions, &handover.wardens),
        reports: reports.map_err(setting_up("pipe of wardens"))?,
        strays,
        piped: PipedPrograms::adopt(handover.piped),
        replacement: None,
        ending: None,
        stop_requests: 0,
        nofile: Rlimit { current: handover.nofile.0, maximum: handover.nofile.1 },
        generation: handover.generation,
        started_unix_ms: handover.started_unix_ms,
    };
    // The old daemon makes room for the one of the new image.
    keeper.daemon.leave(UPGRADE_GRACE);
    if keeper.daemon.running.is_none() {
        keeper.end_all_piped();
    }
    keeper.reap();
    // An old image may have listened elsewhere, and locked less.
    keeper.mend();
    Ok(keeper)
}

/// What an old image knew of its paths, if the new one does not know better.
fn paths_of_old(socket: &OsStr, lock: &OsStr) -> KeeperPaths {
    let lock = PathBuf::from(lock);
    let state = lock.parent().map_or_else(|| lock.clone(), Path::to_owned);
    KeeperPaths { state, lock, socket: socket.into(), alias: None, earlier_locks: Vec::new() }
}

fn adopt_sessions(held: Vec<HeldSession>, wardens: &[(SessionId, i32)]) -> Sessions {
    let mut sessions = Sessions::default();
    for (id, pid) in wardens {
        sessions.adopt_warden(*id, *pid);
    }
    for it in held {
        let adopted = it.fds.map(|fd| fds::adopt(fd).ok());
        // The old image made each of these survive, or did not exec.
        if let [Some(master), Some(pipe_read), Some(pipe_write), Some(ring)] = adopted {
            let adopt = |fd: Option<RawFd>| fd.and_then(|fd| fds::adopt(fd).ok());
            let phase = match (it.exit, adopt(it.status_fd)) {
                (Some(exit), _) => Phase::Exited(exit),
                (None, Some(status)) => Phase::Starting(Status::new(status)),
                (None, None) => Phase::Running,
            };
            let (inner, listener) = (adopt(it.inner_fd), adopt(it.listener_fd));
            let fds = SessionFds { master, pipe_read, pipe_write, ring };
            let (pid, program, held) = (it.pid, it.program, it.held);
            let session = Session { pid, program, held, fds, phase, inner, listener };
            sessions.insert(it.id, session);
        }
    }
    sessions
}

fn live(mut keeper: Keeper) -> ExitCode {
    loop {
        keeper.act_on_time();
        if let Some(code) = keeper.finished() {
            keeper.log.say(format_args!("keeper ends"));
            keeper.take_away();
            return ExitCode::from(code);
        }
        let flush = keeper.flush();
        for source in wait(&keeper, &flush) {
            match source {
                Source::Wardens => keeper.hear_wardens(),
                Source::Session(id) => {
                    // Its warden spoke before the pipe ended.
                    keeper.hear_wardens();
                    keeper.settle(id, false);
                }
                Source::Piped(id) => keeper.settle_piped(id, false),
                Source::Link => keeper.serve_link(),
                Source::Files => keeper.notice(),
                Source::Signals => act_on_signals(&mut keeper),
            }
        }
    }
}

fn act_on_signals(keeper: &mut Keeper) {
    while let Some(signal) = keeper.signals.next() {
        let foreground = keeper.daemon.foreground;
        match signal.signo {
            libc::SIGTERM => keeper.stop_requested(),
            libc::SIGINT if foreground => keeper.stop_requested(),
            // The end of the terminal, which only the kernel can tell. What a person sends is meant
            // for the daemon.
            libc::SIGHUP if foreground && signal.by_kernel => keeper.stop_requested(),
            libc::SIGHUP => keeper.pass_on(libc::SIGHUP),
            // A client that found nobody listening, though the directory is held.
            libc::SIGURG => keeper.mend(),
            // SIGCHLD is followed by the reaping below.
            _ => {}
        }
    }
    keeper.reap();
}

/// Who can wake the keeper.
enum Source {
    Wardens,
    /// A starting session, by its status pipe or its stage.
    Session(SessionId),
    Piped(PipedId),
    Link,
    Files,
    Signals,
}

/// The sources that have something to tell, in the order in which they are heard.
fn wait(keeper: &Keeper, flush: &Flush) -> Vec<Source> {
    let mut deadline = keeper.next_deadline();
    let retry = Instant::now() + FDS_IN_FLIGHT_RETRY;
    if *flush == Flush::TooManyFds {
        deadline = Some(deadline.map_or(retry, |at| at.min(retry)));
    }
    let (mut sources, mut fds) = (Vec::new(), Vec::new());
    let mut watch = |source, fd, wanted| {
        sources.push(source);
        fds.push(PollFd::from_borrowed_fd(fd, wanted));
    };
    watch(Source::Wardens, keeper.reports.as_fd(), PollFlags::IN);
    for (id, fd) in keeper.sessions.starting() {
        watch(Source::Session(id), fd, PollFlags::IN);
    }
    for (id, fd) in keeper.piped.staging() {
        watch(Source::Piped(id), fd, PollFlags::IN);
    }
    let mut wanted = PollFlags::empty();
    wanted.set(PollFlags::IN, keeper.outbox.takes_requests());
    wanted.set(PollFlags::OUT, *flush == Flush::Full);
    if let Some(link) = keeper.link.as_ref().filter(|_| !wanted.is_empty()) {
        watch(Source::Link, link.as_fd(), wanted);
    }
    if let Some(files) = keeper.watch.fd() {
        watch(Source::Files, files.as_fd(), PollFlags::IN);
    }
    watch(Source::Signals, keeper.signals.as_fd(), PollFlags::IN);
    if rustix::event::poll(&mut fds, deadline.map(until).as_ref()).is_err() {
        return Vec::new();
    }
    let ready = sources.into_iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
    ready.map(|(source, _)| source).collect()
}

fn until(at: Instant) -> Timespec {
    let left = at.saturating_duration_since(Instant::now());
    Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
}

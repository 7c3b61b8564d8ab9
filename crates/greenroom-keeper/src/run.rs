//! The keeper's life: start or resume, one poll loop, end.
//!
//! In: `KeeperOptions`, or the state of the previous image. The loop waits for signals, the link and the status pipes of
//! starting sessions, and for the nearest deadline; nothing else can wake it, so an idle keeper costs nothing. These
//! functions take over the process: call them first in `main`, with one thread.

use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use greenroom_sandbox::stage::Stages;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Rlimit;

use crate::daemon::{Daemon, Running};
use crate::fds::{self, Slots};
use crate::handover::{Handover, HandoverError, HeldSession};
use crate::keeper::{Keeper, Places, UPGRADE_GRACE, raise_nofile, tell_starter};
use crate::launch::Status;
use crate::link::{Endpoint, SessionFds};
use crate::listen::{ListenError, Listening, listen};
use crate::log::{Log, unix_ms};
use crate::message::{SessionId, WorkerId};
use crate::options::KeeperOptions;
use crate::outbox::{Flush, Outbox};
use crate::replace::CHECKED;
use crate::sessions::{Phase, Session, Sessions};
use crate::signals::{Signals, kill_process};
use crate::spare::Spare;
use crate::workers::Workers;

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
    let mut ready_fd = options.ready_fd.take().and_then(|fd| fds::lift(fd).ok());
    fds::close_inherited(ready_fd.as_ref());
    match begin(options, &mut ready_fd) {
        Ok(keeper) => live(keeper),
        Err(error) => {
            tell_starter(ready_fd, &error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// `greenroom keeper --resume <fd>`: the new image of a keeper that replaced itself.
pub fn resume(fd: RawFd) -> ExitCode {
    match take_over(fd) {
        Ok(keeper) => live(keeper),
        Err(error) => {
            tell_starter(None, &format!("cannot resume the keeper: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// `greenroom keeper --check <fd>`: can this image read the state the old one will hand over? Says so in fixed words.
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

fn begin(options: KeeperOptions, ready_fd: &mut Option<OwnedFd>) -> Result<Keeper, StartError> {
    // First, so that the lowest numbers are theirs.
    let slots = Slots::reserve().map_err(setting_up("fd slots"))?;
    let mut log = Log::open(&options.log);
    let Listening { lock, listener } = listen(&options.lock, &options.socket)
        .inspect_err(|error| log.say(format_args!("not started: {error}")))?;
    let signals = Signals::watch().map_err(setting_up("signals"))?;
    become_subreaper()?;
    log.say(format_args!("keeper started, pid {}", std::process::id()));
    Ok(Keeper {
        places: Places { socket: options.socket, lock: options.lock, log: options.log },
        log,
        signals,
        slots,
        stages: Stages::prepare(),
        spare: Spare::default(),
        lock,
        listener,
        ready_fd: ready_fd.take(),
        daemon: Daemon::new(options.daemon, options.daemon_log, options.foreground),
        link: None,
        greeted: false,
        outbox: Outbox::default(),
        sessions: Sessions::default(),
        workers: Workers::default(),
        replacement: None,
        ending: None,
        stop_requests: 0,
        nofile: raise_nofile(),
        generation: 0,
        started_unix_ms: unix_ms(),
    })
}

fn become_subreaper() -> Result<(), StartError> {
    // Orphans of sessions come home to be reaped. The argument only has to be some pid.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|errno| setting_up("subreaper")(errno.into()))
}

fn take_over(fd: RawFd) -> Result<Keeper, StartError> {
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
    let mut daemon = Daemon::new(handover.daemon, handover.daemon_log.into(), handover.foreground);
    daemon.running = handover
        .running
        .map(|(pid, lived_ms)| Running::resumed(pid, Duration::from_millis(lived_ms)));
    daemon.starts = handover.starts;
    daemon.last_exit = handover.last_exit;
    daemon.young_deaths = handover.young_deaths;
    daemon.ever_ready = handover.ever_ready;
    let mut keeper = Keeper {
        places: Places {
            socket: handover.socket.into(),
            lock: handover.lock.into(),
            log: handover.log.into(),
        },
        log,
        signals,
        slots,
        stages: Stages::prepare(),
        spare: Spare::default(),
        lock: fds::adopt(handover.lock_fd).map_err(setting_up("lock"))?,
        listener: fds::adopt(handover.listener_fd).map_err(setting_up("socket"))?,
        ready_fd: adopt(handover.ready_fd),
        daemon,
        link: adopt(handover.link_fd).map(Endpoint::new),
        // It asked for this replacement.
        greeted: true,
        outbox: Outbox::default(),
        sessions: adopt_sessions(handover.sessions),
        workers: Workers::adopt(handover.workers),
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
        keeper.end_all_work();
    }
    keeper.reap();
    Ok(keeper)
}

fn adopt_sessions(held: Vec<HeldSession>) -> Sessions {
    let mut sessions = Sessions::default();
    for it in held {
        let adopted = it.fds.map(|fd| fds::adopt(fd).ok());
        // The old image made each of these survive, or did not exec.
        if let [Some(master), Some(pipe_read), Some(pipe_write), Some(ring)] = adopted {
            let status = it.status_fd.and_then(|fd| fds::adopt(fd).ok());
            let phase = match (it.exit, status) {
                (Some(exit), _) => Phase::Exited(exit),
                (None, Some(status)) => Phase::Starting(Status::new(status)),
                (None, None) => Phase::Running,
            };
            let adopt = |fd: Option<RawFd>| fd.and_then(|fd| fds::adopt(fd).ok());
            let (inner, listener) = (adopt(it.inner_fd), adopt(it.listener_fd));
            let fds = SessionFds { master, pipe_read, pipe_write, ring };
            let session = Session { pid: it.pid, fds, phase, inner, listener };
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
            // Ours: the lock is still held.
            let _ = std::fs::remove_file(&keeper.places.socket);
            return ExitCode::from(code);
        }
        let flush = keeper.flush();
        let woken = wait(&keeper, &flush);
        for id in woken.settled {
            keeper.settle(id, false);
        }
        for id in woken.workers {
            keeper.settle_worker(id, false);
        }
        if woken.link {
            keeper.serve_link();
        }
        if woken.signals {
            act_on_signals(&mut keeper);
        }
    }
}

fn act_on_signals(keeper: &mut Keeper) {
    while let Some(signo) = keeper.signals.next() {
        match signo {
            libc::SIGTERM => keeper.stop_requested(),
            libc::SIGINT if keeper.daemon.foreground => keeper.stop_requested(),
            // The host reads its settings again, which is the daemon's work. Whoever runs it in a terminal ends it by SIGTERM.
            libc::SIGHUP => {
                if let Some(pid) = keeper.daemon.pid() {
                    // One that is just dying is followed by one that reads them anyway.
                    let _ = kill_process(pid, libc::SIGHUP);
                }
            }
            // SIGCHLD is followed by the reaping below.
            _ => {}
        }
    }
    keeper.reap();
}

#[derive(Default)]
struct Woken {
    signals: bool,
    link: bool,
    settled: Vec<SessionId>,
    workers: Vec<WorkerId>,
}

fn wait(keeper: &Keeper, flush: &Flush) -> Woken {
    let mut deadline = keeper.next_deadline();
    let retry = Instant::now() + FDS_IN_FLIGHT_RETRY;
    if *flush == Flush::TooManyFds {
        deadline = Some(deadline.map_or(retry, |at| at.min(retry)));
    }
    let timeout = deadline.map(until);
    let mut fds = vec![PollFd::from_borrowed_fd(keeper.signals.as_fd(), PollFlags::IN)];
    let ids: Vec<SessionId> = keeper
        .sessions
        .starting()
        .map(|(id, fd)| {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
            id
        })
        .collect();
    let workers: Vec<WorkerId> = keeper
        .workers
        .staging()
        .map(|(id, fd)| {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
            id
        })
        .collect();
    let mut wanted = PollFlags::empty();
    wanted.set(PollFlags::IN, keeper.outbox.takes_requests());
    wanted.set(PollFlags::OUT, *flush == Flush::Full);
    if let Some(link) = &keeper.link
        && !wanted.is_empty()
    {
        fds.push(PollFd::from_borrowed_fd(link.as_fd(), wanted));
    }
    if rustix::event::poll(&mut fds, timeout.as_ref()).is_err() {
        return Woken::default();
    }
    let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
    let staged = &fds[1 + ids.len()..];
    Woken {
        signals: ready(&fds[0]),
        settled: ids.iter().zip(&fds[1..]).filter(|(_, fd)| ready(fd)).map(|(id, _)| *id).collect(),
        workers: workers
            .iter()
            .zip(staged)
            .filter(|(_, fd)| ready(fd))
            .map(|(id, _)| *id)
            .collect(),
        link: staged.get(workers.len()).is_some_and(ready),
    }
}

fn until(at: Instant) -> Timespec {
    let left = at.saturating_duration_since(Instant::now());
    Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
}

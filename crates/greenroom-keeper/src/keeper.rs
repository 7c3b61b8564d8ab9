//! The keeper's state, and what it does about requests, exits and deadlines.
//!
//! In: events from the loop in `run.rs`. Out: messages in the outbox, processes started and
//! signalled, or the code to exit with. One thread owns all of it; nothing here blocks. Absent on
//! purpose: terminal traffic, session meaning, retries of anything the daemon can ask for again.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use greenroom_sandbox::stage::Stages;
use rustix::process::{Resource, Rlimit};

use crate::claim::{Claim, KeeperPaths};
use crate::daemon::{Daemon, Ended};
use crate::fds::Slots;
use crate::handover::{Handover, HeldSession};
use crate::launch::Starter;
use crate::link::Endpoint;
use crate::listen::BoundSocket;
use crate::log::Log;
use crate::mend::Watch;
use crate::message::{
    ExitStatus, KeeperHello, PROTOCOL_VERSION, SessionId, SignalTarget, SpawnStep, ToDaemon, reason,
};
use crate::namespaces::ReadyNamespaces;
use crate::options::{EXIT_SHUTDOWN, EXIT_UPGRADE, READY_OK};
use crate::outbox::{Flush, Outbox};
use crate::piped::PipedPrograms;
use crate::replace::{self, Replacement, TELL_PATIENCE};
use crate::sessions::{Phase, Sessions, Settled};
use crate::signals::{Signals, kill_group, kill_process, signal_pidfd};
use crate::strays::Strays;
use crate::warden::{Record, Reports, WardenEvent};

/// Between HUP and TERM, and KILL, for sessions at the end of the keeper.
const SESSION_GRACE: Duration = Duration::from_secs(2);
/// After KILL, a process that still is not reaped hangs in the kernel and is left to init.
const REAP_PATIENCE: Duration = Duration::from_secs(2);
/// For a daemon that has asked for the end, or has lost its link, to exit by itself.
pub(crate) const DAEMON_GRACE: Duration = Duration::from_secs(5);
/// For the old daemon to make room after the keeper was replaced.
pub(crate) const UPGRADE_GRACE: Duration = Duration::from_secs(2);
/// First daemons killed by a signal are tried again this often; one that exits says why, and that
/// is final.
const FIRST_TRIES: u32 = 3;
/// While a replacement waits for a stage. Its end wakes the loop; this only bounds how late that is
/// noticed.
const STAGING_LOOK: Duration = Duration::from_millis(100);
/// Enough for `MAX_SESSIONS`; more would only slow down programs that close all fds one by one.
const WANTED_NOFILE: u64 = 65_536;

pub(crate) struct Keeper {
    pub(crate) paths: KeeperPaths,
    pub(crate) log_path: PathBuf,
    pub(crate) log: Log,
    pub(crate) signals: Signals,
    pub(crate) slots: Slots,
    pub(crate) stages: Stages,
    pub(crate) namespaces: ReadyNamespaces,
    pub(crate) claim: Claim,
    pub(crate) bound: BoundSocket,
    pub(crate) watch: Watch,
    pub(crate) ready_fd: Option<OwnedFd>,
    pub(crate) daemon: Daemon,
    pub(crate) link: Option<Endpoint>,
    /// The daemon has said hello. Nothing is told before: hello is the first answer.
    pub(crate) greeted: bool,
    pub(crate) outbox: Outbox,
    pub(crate) sessions: Sessions,
    pub(crate) reports: Reports,
    pub(crate) strays: Strays,
    pub(crate) piped: PipedPrograms,
    pub(crate) replacement: Option<Replacement>,
    pub(crate) ending: Option<Ending>,
    pub(crate) stop_requests: u32,
    /// The limit on open files that sessions get back.
    pub(crate) nofile: Rlimit,
    pub(crate) generation: u32,
    pub(crate) started_unix_ms: u64,
}

/// Everything is being ended.
pub(crate) struct Ending {
    kill_at: Instant,
    killed: bool,
    give_up_at: Instant,
    pub(crate) failed: bool,
}

impl Keeper {
    pub(crate) fn hello(&self) -> ToDaemon {
        ToDaemon::Hello(KeeperHello {
            version: PROTOCOL_VERSION,
            keeper_pid: std::process::id() as i32,
            keeper_started_unix_ms: self.started_unix_ms,
            generation: self.generation,
            daemon_starts: self.daemon.starts,
            last_exit: self.daemon.last_exit,
            piped: true,
            wardens: true,
        })
    }

    pub(crate) fn starter(&self) -> Starter<'_> {
        Starter { slots: &self.slots, stages: &self.stages, nofile: self.nofile }
    }

    /// Sends what waits.
    pub(crate) fn flush(&mut self) -> Flush {
        let Some(link) = self.link.as_ref().filter(|_| self.greeted) else {
            // Nobody to tell; the next daemon says hello and asks.
            self.outbox.clear();
            return Flush::Empty;
        };
        self.outbox.flush(link, &self.sessions, &self.piped)
    }

    pub(crate) fn told_ready(&mut self) {
        self.daemon.ever_ready = true;
        self.log.say(format_args!("daemon is ready"));
        if let Some(fd) = self.ready_fd.take() {
            let _ = File::from(fd).write_all(READY_OK.as_bytes());
        }
    }

    /// Collects every ended child, whoever it was.
    pub(crate) fn reap(&mut self) {
        // What wardens said before they died comes first.
        self.hear_wardens();
        while let Ok(Some((pid, status))) =
            rustix::process::wait(rustix::process::WaitOptions::NOHANG)
        {
            let pid = pid.as_raw_nonzero().get();
            let status = exit_status(status.as_raw());
            if self.daemon.pid() == Some(pid) {
                self.daemon_ended(status);
            } else if self.is_check(pid) {
                self.check_ended(status);
            } else if !self.piped_ended(pid, status) {
                self.session_ended(pid, status);
            }
        }
        self.end_strays();
    }

    /// Reads what wardens have said of their programs.
    pub(crate) fn hear_wardens(&mut self) {
        loop {
            let records = self.reports.next();
            if records.is_empty() {
                return;
            }
            for Record { warden, event } in records {
                match event {
                    WardenEvent::Started(program) => self.sessions.started(warden, program),
                    WardenEvent::Ended(status) => self.program_ended(warden, exit_status(status)),
                }
            }
        }
    }

    fn program_ended(&mut self, warden: i32, status: ExitStatus) {
        let Some(id) = self.sessions.by_pid(warden) else {
            return;
        };
        // Told as started before it is told as ended.
        self.settle(id, false);
        if let Some(id) = self.sessions.ended(warden, status) {
            self.log.say(format_args!("session {id}: its program ended, {status}"));
            self.outbox.push(ToDaemon::Exited { id, status });
        }
    }

    /// One of the keeper's children was reaped. Orphans of sessions are nobody here: the wait was
    /// all they needed.
    fn session_ended(&mut self, pid: i32, status: ExitStatus) {
        // Its warden may have told of the program's end since the pipe was last read.
        self.hear_wardens();
        let Some(id) = self.sessions.by_pid(pid) else {
            return;
        };
        self.settle(id, true);
        let Some(reaped) = self.sessions.reaped(pid, status) else { return };
        if let Some(status) = reaped.ended {
            self.log.say(format_args!("session {id}: pid {pid} ended, {status}"));
            self.outbox.push(ToDaemon::Exited { id, status });
        }
        if reaped.strays {
            self.look_for_strays();
        }
        self.outbox.push(ToDaemon::Over { id });
    }

    /// Looks at a starting session's status pipe, or at what its stage says.
    pub(crate) fn settle(&mut self, id: SessionId, reaped: bool) {
        match self.sessions.settle(id, reaped) {
            Settled::NotYet => {}
            Settled::Spawned { pid, warden } => {
                self.log.say(format_args!("session {id}: pid {pid} runs"));
                if self.sessions.is_inside(id) {
                    self.namespaces.want();
                }
                self.tell_listener(id);
                self.outbox.push(ToDaemon::Spawned { id, pid, fds: (), warden });
            }
            Settled::Failed(fault, why) => self.spawn_failed(id, fault.step, fault.errno, why),
        }
    }

    /// Before its session is handed over, so that whoever gets the session already has it.
    pub(crate) fn tell_listener(&mut self, id: SessionId) {
        if self.sessions.get(id).is_some_and(|session| session.listener.is_some()) {
            self.outbox.push(ToDaemon::Listener { id, listener: () });
        }
    }

    pub(crate) fn spawn_failed(&mut self, id: SessionId, step: SpawnStep, errno: i32, why: String) {
        self.log.say(format_args!(
            "session {id}: not started, {} failed: {} {why}",
            step.name(),
            io::Error::from_raw_os_error(errno)
        ));
        self.outbox.push(ToDaemon::SpawnFailed { id, step, errno, why: reason(why) });
    }

    fn daemon_ended(&mut self, status: ExitStatus) {
        // What it sent before it died still counts, except new sessions: nobody waits for them any
        // more.
        self.drain_link_of_dead();
        self.link = None;
        self.greeted = false;
        self.outbox.clear();
        self.end_all_piped();
        self.leave_orphans_of_daemon_alone();
        let Some(ended) = self.daemon.ended(status) else {
            return;
        };
        self.log.say(format_args!("daemon ended, {status}, after {} ms", ended.last.lived_ms));
        if self.ending.is_some() || ended.was_leaving {
            return;
        }
        let stop = status == ExitStatus::Code(EXIT_SHUTDOWN)
            || (self.stop_requests > 0 && status != ExitStatus::Code(EXIT_UPGRADE));
        if stop {
            self.tell_not_ready(&ended);
            self.begin_ending(SESSION_GRACE);
        } else if !self.daemon.ever_ready && self.sessions.len() == 0 {
            self.first_start_failed(&ended);
        }
    }

    fn first_start_failed(&mut self, ended: &Ended) {
        let killed = matches!(ended.last.status, ExitStatus::Signal { .. });
        if killed && self.daemon.starts < FIRST_TRIES {
            return;
        }
        self.tell_not_ready(ended);
        self.fail();
    }

    fn fail(&mut self) {
        self.begin_ending(Duration::ZERO);
        if let Some(ending) = &mut self.ending {
            ending.failed = true;
        }
    }

    fn tell_not_ready(&mut self, ended: &Ended) {
        if self.daemon.ever_ready {
            return;
        }
        let mut text = match &ended.not_started {
            Some(why) => why.clone(),
            None => format!("the daemon ended before it was ready ({})", ended.last.status),
        };
        if !ended.output.is_empty() {
            text.push('\n');
            text.push_str(&ended.output);
        }
        self.log.say(format_args!("{text}"));
        tell_starter(self.ready_fd.take(), &text);
    }

    /// HUP and TERM to every session now, KILL after `grace`.
    pub(crate) fn begin_ending(&mut self, grace: Duration) {
        if self.ending.is_some() {
            return;
        }
        let live: Vec<SessionId> = self.sessions.live().collect();
        self.log.say(format_args!("ending {} sessions", live.len()));
        for id in live {
            // CONT, so that a stopped group can act on the other two.
            for signo in [libc::SIGHUP, libc::SIGTERM, libc::SIGCONT] {
                let _ = self.signal(id, signo, SignalTarget::Group);
            }
        }
        self.end_all_piped();
        if let Some(Replacement::Checking(check)) = self.replacement.take() {
            let _ = kill_process(check.pid, libc::SIGKILL);
        }
        let kill_at = Instant::now() + grace;
        self.ending = Some(Ending {
            kill_at,
            killed: false,
            give_up_at: kill_at + REAP_PATIENCE,
            failed: false,
        });
        if let Some(running) = &mut self.daemon.running {
            running.kill_at = Some(kill_at + DAEMON_GRACE);
        }
    }

    /// The first request asks the daemon to stop; the second one kills.
    pub(crate) fn stop_requested(&mut self) {
        self.stop_requests += 1;
        let asks_daemon = self.daemon.running.as_ref().is_some_and(|it| !it.leaving);
        self.log.say(format_args!("asked to stop ({})", self.stop_requests));
        if self.stop_requests > 1 {
            self.begin_ending(Duration::ZERO);
            if let Some(ending) = &mut self.ending {
                ending.kill_at = Instant::now();
            }
            if let Some(running) = &mut self.daemon.running {
                running.kill_at = Some(Instant::now());
            }
        } else if asks_daemon {
            if let Some(pid) = self.daemon.pid() {
                let _ = kill_process(pid, libc::SIGTERM);
            }
        } else {
            self.begin_ending(SESSION_GRACE);
        }
    }

    /// A signal that is meant for the daemon.
    pub(crate) fn pass_on(&mut self, signo: i32) {
        if let Some(pid) = self.daemon.pid() {
            let _ = kill_process(pid, signo);
        }
    }

    /// Acts on every deadline that has passed.
    pub(crate) fn act_on_time(&mut self) {
        let now = Instant::now();
        if let Some(running) = &mut self.daemon.running
            && running.kill_at.is_some_and(|at| at <= now)
        {
            running.kill_at = None;
            let pid = running.pid;
            self.log.say(format_args!("daemon does not exit: killed"));
            let _ = kill_process(pid, libc::SIGKILL);
        }
        if let Some(ending) = &mut self.ending
            && !ending.killed
            && ending.kill_at <= now
        {
            ending.killed = true;
            let live: Vec<SessionId> = self.sessions.live().collect();
            for id in live {
                self.end_session(id);
            }
        }
        for pid in self.sessions.late_stages(now) {
            self.log.say(format_args!("stage {pid} does not get ready: killed"));
            let _ = kill_group(pid, libc::SIGKILL);
        }
        self.kill_late_piped(now);
        self.make_namespaces_on_time(now);
        self.mend_on_time(now);
        self.replace_on_time(now);
        let due = self.daemon.running.is_none() && self.daemon.start_at <= now;
        if due && self.ending.is_none() {
            self.start_daemon();
        }
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let now = Instant::now();
        let running = self.daemon.running.as_ref();
        let ending = self.ending.as_ref().and_then(|ending| {
            // Past the second one only the daemon's own deadline is left to wait for.
            if ending.killed {
                Some(ending.give_up_at).filter(|at| *at > now)
            } else {
                Some(ending.kill_at)
            }
        });
        let replacing = self.replacement.as_ref().map(|it| match it {
            Replacement::Checking(check) => check.kill_at,
            // Wakes up by itself: each stage has its own deadline.
            Replacement::Telling { .. } if self.is_staging() => now + STAGING_LOOK,
            Replacement::Telling { .. } if self.outbox.is_empty() => now,
            Replacement::Telling { exec_by, .. } => *exec_by,
        });
        let start = (running.is_none() && self.ending.is_none()).then_some(self.daemon.start_at);
        let stage = self.sessions.stage_deadline();
        let piped = self.piped.deadline();
        let running = running.and_then(|it| it.kill_at);
        let (namespaces, mend) = (self.namespaces.due(), self.watch.due());
        [running, ending, replacing, start, stage, piped, namespaces, mend]
            .into_iter()
            .flatten()
            .min()
    }

    fn make_namespaces_on_time(&mut self, now: Instant) {
        let mut namespaces = std::mem::take(&mut self.namespaces);
        if self.ending.is_some() || self.replacement.is_some() {
            namespaces.forget();
        } else {
            namespaces.make_on_time(now, &self.starter());
        }
        self.namespaces = namespaces;
    }

    fn is_staging(&self) -> bool {
        self.sessions.is_staging() || self.piped.is_staging()
    }

    fn start_daemon(&mut self) {
        match self.daemon.start(self.bound.listener.as_fd(), &self.slots) {
            Ok(link) => {
                self.link = Some(link);
                self.log.say(format_args!(
                    "daemon {} started, pid {}",
                    self.daemon.starts,
                    self.daemon.pid().unwrap_or(0)
                ));
            }
            Err(error) => {
                let text = format!("cannot start the daemon: {error}");
                self.log.say(format_args!("{text}"));
                self.daemon.postpone(Duration::ZERO);
                // The process that started us waits; there is nothing to keep for a later try.
                if !self.daemon.ever_ready && self.sessions.len() == 0 && self.ending.is_none() {
                    tell_starter(self.ready_fd.take(), &text);
                    self.fail();
                }
            }
        }
    }

    /// The code to exit with, once nothing is left to wait for.
    pub(crate) fn finished(&self) -> Option<u8> {
        let ending = self.ending.as_ref()?;
        let nobody_lives = self.sessions.none_live() && self.piped.is_empty();
        let sessions_over = nobody_lives || ending.give_up_at <= Instant::now();
        (sessions_over && self.daemon.running.is_none()).then_some(u8::from(ending.failed))
    }

    pub(crate) fn is_check(&self, pid: i32) -> bool {
        matches!(&self.replacement, Some(Replacement::Checking(check)) if check.pid == pid)
    }

    fn check_ended(&mut self, status: ExitStatus) {
        let Some(Replacement::Checking(check)) = self.replacement.take() else {
            return;
        };
        match check.ended(status) {
            Ok(path) => {
                self.outbox.push(ToDaemon::Replaced { result: Ok(()) });
                self.replacement =
                    Some(Replacement::Telling { path, exec_by: Instant::now() + TELL_PATIENCE });
            }
            Err(error) => self.not_replaced(error),
        }
    }

    pub(crate) fn not_replaced(&mut self, why: impl fmt::Display) {
        self.log.say(format_args!("not replaced: {why}"));
        self.outbox.push(ToDaemon::Replaced { result: Err(reason(why)) });
    }

    fn replace_on_time(&mut self, now: Instant) {
        let staging = self.is_staging();
        match &mut self.replacement {
            Some(Replacement::Checking(check)) if check.kill_at <= now => {
                // Its exit by signal 9 becomes the reason told.
                let _ = kill_process(check.pid, libc::SIGKILL);
                check.kill_at = now + REAP_PATIENCE;
            }
            // A stage's socket and buffers would be lost: it is waited for, and has its own
            // deadline.
            Some(Replacement::Telling { .. }) if staging => {}
            Some(Replacement::Telling { path, exec_by })
                if self.outbox.is_empty() || *exec_by <= now =>
            {
                let path = path.clone();
                self.replacement = None;
                self.log.say(format_args!("replacing this image by {}", path.display()));
                let error = replace::exec(&path, &self.handover());
                self.not_replaced(error);
            }
            _ => {}
        }
    }

    pub(crate) fn handover(&self) -> Handover {
        let last = |fd: &OwnedFd| fd.as_raw_fd();
        let sessions = self.sessions.iter().map(|(id, session)| HeldSession {
            id,
            pid: session.pid,
            program: session.program,
            held: session.held,
            fds: [
                last(&session.fds.master),
                last(&session.fds.pipe_read),
                last(&session.fds.pipe_write),
                last(&session.fds.ring),
            ],
            status_fd: match &session.phase {
                Phase::Starting(status) => Some(status.as_raw_fd()),
                _ => None,
            },
            exit: match &session.phase {
                Phase::Exited(status) => Some(*status),
                _ => None,
            },
            inner_fd: session.inner.as_ref().map(last),
            listener_fd: session.listener.as_ref().map(last),
        });
        let running = self.daemon.running.as_ref();
        Handover {
            generation: self.generation + 1,
            started_unix_ms: self.started_unix_ms,
            foreground: self.daemon.foreground,
            socket: self.paths.socket.clone().into(),
            lock: self.paths.lock.clone().into(),
            log: self.log_path.clone().into(),
            daemon_log: self.daemon.log.clone().into(),
            daemon: self.daemon.command.clone(),
            nofile: (self.nofile.current, self.nofile.maximum),
            lock_fd: last(&self.claim.main),
            listener_fd: last(&self.bound.listener),
            link_fd: self.link.as_ref().map(|it| it.as_fd().as_raw_fd()),
            ready_fd: self.ready_fd.as_ref().map(last),
            running: running.map(|it| (it.pid, it.started.elapsed().as_millis() as u64)),
            starts: self.daemon.starts,
            last_exit: self.daemon.last_exit,
            young_deaths: self.daemon.young_deaths,
            ever_ready: self.daemon.ever_ready,
            sessions: sessions.collect(),
            piped: self.piped.held(),
            wardens: self.sessions.wardens(),
            reports: Some(self.reports.numbers()),
            strays_tolerated: self.strays.tolerated,
        }
    }

    /// Everything of the session ends now, and it cannot refuse. A warden is asked: with it gone,
    /// nobody would find the rest. In a sandbox the program is killed, which ends all of it. What
    /// is not that far yet has started nothing.
    pub(crate) fn end_session(&mut self, id: SessionId) {
        let Some(pid) = self.sessions.child_of(id) else { return };
        let session = self.sessions.get(id);
        let inner = session.and_then(|session| session.inner.as_ref());
        let held = session.is_none_or(|session| session.held);
        match inner {
            Some(program) => {
                let _ = signal_pidfd(program.as_fd(), libc::SIGKILL, false);
            }
            None if held && self.sessions.stage_of(id).is_none() => {
                // A session that stopped its warden must not save itself by that.
                for signo in [libc::SIGTERM, libc::SIGCONT] {
                    let _ = kill_process(pid, signo);
                }
            }
            None => {
                let _ = kill_group(pid, libc::SIGKILL);
            }
        }
    }
}

/// A sentence for whoever started the keeper: through the ready pipe, or on stderr.
pub(crate) fn tell_starter(ready_fd: Option<OwnedFd>, text: &str) {
    let text = format!("{text}\n");
    let _ = match ready_fd {
        Some(fd) => File::from(fd).write_all(text.as_bytes()),
        None => io::stderr().write_all(text.as_bytes()),
    };
}

/// The exit status in a status as `wait` gives it.
fn exit_status(status: i32) -> ExitStatus {
    if libc::WIFSIGNALED(status) {
        let (signo, core_dumped) = (libc::WTERMSIG(status), libc::WCOREDUMP(status));
        ExitStatus::Signal { signo, core_dumped }
    } else {
        ExitStatus::Code(libc::WEXITSTATUS(status))
    }
}

/// Raises the soft limit on open files and returns what it was.
pub(crate) fn raise_nofile() -> Rlimit {
    let before = rustix::process::getrlimit(Resource::Nofile);
    let most = before.maximum.unwrap_or(WANTED_NOFILE).min(WANTED_NOFILE);
    if before.current.is_some_and(|current| current < most) {
        // Fewer sessions fit if this is refused; that is told when it happens.
        let _ = rustix::process::setrlimit(
            Resource::Nofile,
            Rlimit { current: Some(most), maximum: before.maximum },
        );
    }
    before
}

//! What the daemon asks for, one message at a time.
//!
//! In: datagrams from the link. Out: calls on the keeper. A message this build does not understand
//! is skipped with a log line, so that a newer daemon can try something and fall back.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use greenroom_sandbox::wire::Wire;
use rustix::net::RecvFlags;

use crate::keeper::{DAEMON_GRACE, Keeper};
use crate::launch::SpawnError;
use crate::link::LinkError;
use crate::message::{
    MAX_LIST, PROTOCOL_VERSION, SessionId, SignalTarget, SpawnStep, ToDaemon, ToKeeper,
};
use crate::replace::{Check, Replacement};
use crate::sessions::{MAX_SESSIONS, Phase};
use crate::signals::{kill_group, kill_process, signal_pidfd};
use crate::spawn::{self, Buffers};
use crate::spec::SpawnSpec;
use crate::staging::Staging;
use crate::tree;

/// Requests handled before signals and deadlines get their turn again.
const REQUESTS_PER_TURN: usize = 64;
/// Between HUP, TERM and KILL after `Shutdown`.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

enum Next {
    Message(ToKeeper, Vec<OwnedFd>),
    Skipped,
    Nothing,
    End,
}

impl Keeper {
    pub(crate) fn serve_link(&mut self) {
        for _ in 0..REQUESTS_PER_TURN {
            if !self.outbox.takes_requests() {
                return;
            }
            match self.next_request() {
                Next::Message(message, fds) => self.handle(message, fds),
                Next::Skipped => {}
                Next::Nothing => return,
                Next::End => {
                    // Death is known by the wait, never by this. A daemon that lives on without a
                    // link is no use.
                    self.link = None;
                    self.outbox.clear();
                    if let Some(running) = &mut self.daemon.running {
                        let kill_at = std::time::Instant::now() + DAEMON_GRACE;
                        running.kill_at.get_or_insert(kill_at);
                    }
                    return;
                }
            }
        }
    }

    /// Handles what a dead daemon had sent, without starting anything.
    pub(crate) fn drain_link_of_dead(&mut self) {
        loop {
            match self.next_request() {
                Next::Message(ToKeeper::Spawn { id, .. }, _) => self
                    .log
                    .say(format_args!("session {id}: not started, the daemon died after asking")),
                Next::Message(ToKeeper::StartPiped { .. }, _) => {}
                Next::Message(message, fds) => self.handle(message, fds),
                Next::Skipped => {}
                Next::Nothing | Next::End => return,
            }
        }
    }

    fn next_request(&mut self) -> Next {
        let Some(link) = &self.link else {
            return Next::End;
        };
        let error = match link.recv(RecvFlags::DONTWAIT) {
            Ok(Some((bytes, fds))) => match ToKeeper::decode(&bytes) {
                Ok(message) => return Next::Message(message, fds),
                Err(error) => LinkError::Malformed(error),
            },
            Ok(None) => return Next::End,
            Err(LinkError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::WouldBlock =>
            {
                return Next::Nothing;
            }
            Err(LinkError::Io { .. }) => return Next::End,
            Err(error) => error,
        };
        self.log.say(format_args!("skipped a message: {error:?}"));
        Next::Skipped
    }

    fn handle(&mut self, message: ToKeeper, fds: Vec<OwnedFd>) {
        match message {
            ToKeeper::Hello { version, pid } => {
                if version != PROTOCOL_VERSION {
                    self.log.say(format_args!(
                        "daemon {pid} speaks version {version}, this keeper {PROTOCOL_VERSION}"
                    ));
                }
                // What was noted before is in the list it asks for next.
                self.outbox.clear();
                self.greeted = true;
                self.outbox.push(self.hello());
            }
            ToKeeper::Ready => self.told_ready(),
            ToKeeper::Spawn { id, with_cgroup, with_plan } => {
                self.spawn(id, with_cgroup, with_plan, fds);
            }
            ToKeeper::List => self.tell_in_parts(&self.sessions.entries(), |sessions, more| {
                ToDaemon::Sessions { sessions, more }
            }),
            ToKeeper::Take { ids } => {
                for id in &ids {
                    self.tell_listener(*id);
                }
                let sessions = ids.into_iter().map(|id| (id, ())).collect();
                self.outbox.push(ToDaemon::Taken { sessions });
            }
            ToKeeper::Signal { id, signo, to } => {
                let errno = self.signal(id, signo, to).err().unwrap_or(0);
                self.outbox.push(ToDaemon::Signalled { id, errno });
            }
            ToKeeper::Release { id } => {
                if !self.sessions.release(id) {
                    self.log.say(format_args!(
                        "session {id}: not released, it is unknown or its process lives"
                    ));
                }
            }
            ToKeeper::Replace { path } => self.replace(&path),
            ToKeeper::Shutdown => self.begin_ending(SHUTDOWN_GRACE),
            ToKeeper::StartPiped { id, watched } => self.start_piped(id, watched, fds),
            ToKeeper::EndPiped { id } => self.end_piped(id),
            ToKeeper::Wardens => self.tell_in_parts(&self.sessions.wardens(), |wardens, more| {
                ToDaemon::Wardens { wardens, more }
            }),
            ToKeeper::End { id } => self.end_session(id),
        }
    }

    fn spawn(&mut self, id: SessionId, with_cgroup: bool, with_plan: bool, fds: Vec<OwnedFd>) {
        if let Err(SpawnError { step, errno }) = self.try_spawn(id, with_cgroup, with_plan, fds) {
            self.spawn_failed(id, step, errno, String::new());
        }
    }

    fn try_spawn(
        &mut self,
        id: SessionId,
        with_cgroup: bool,
        with_plan: bool,
        fds: Vec<OwnedFd>,
    ) -> Result<(), SpawnError> {
        let fault = |step, errno| SpawnError { step, errno };
        if self.ending.is_some() {
            return Err(fault(SpawnStep::Id, libc::ESHUTDOWN));
        }
        if self.sessions.contains(id) {
            return Err(fault(SpawnStep::Id, libc::EEXIST));
        }
        if self.sessions.len() >= MAX_SESSIONS {
            return Err(fault(SpawnStep::Id, libc::ENOSPC));
        }
        if with_cgroup {
            return Err(fault(SpawnStep::Cgroup, libc::EOPNOTSUPP));
        }
        if fds.len() != 1 + usize::from(with_plan) {
            return Err(fault(SpawnStep::Spec, libc::EBADF));
        }
        let mut fds = fds.iter().map(AsFd::as_fd);
        let spec = fds.next().ok_or(fault(SpawnStep::Spec, libc::EBADF))?;
        let spec = SpawnSpec::from_memfd(spec).map_err(|error| {
            self.log.say(format_args!("session {id}: {error}"));
            fault(SpawnStep::Spec, error.errno())
        })?;
        // Never one without the other: a spec that wants a sandbox is not run without, nor a plan
        // passed over.
        if spec.is_sandboxed() != with_plan {
            return Err(fault(SpawnStep::Spec, libc::EINVAL));
        }
        if let (true, Some(plan)) = (with_plan, fds.next()) {
            // The image that is about to go cannot hand a stage over; the next one can be asked
            // again.
            if matches!(self.replacement, Some(Replacement::Telling { .. })) {
                return Err(fault(SpawnStep::Id, libc::EAGAIN));
            }
            let buffers = Buffers::open(spec.ring_bytes)?;
            let namespaces = self.namespaces.take();
            let staging = Staging::start(plan, buffers, namespaces, &self.starter())?;
            self.sessions.insert_staging(id, staging);
            return Ok(());
        }
        let reports = self.reports.for_wardens();
        let session = spawn::start(id, spec, &self.starter(), reports)?;
        self.sessions.insert(id, session);
        Ok(())
    }

    /// Answers with a list, in as many messages as it needs; an empty list is one message too.
    fn tell_in_parts<T: Clone>(&mut self, list: &[T], message: fn(Vec<T>, bool) -> ToDaemon) {
        let (mut part, mut rest) = list.split_at(list.len().min(MAX_LIST));
        loop {
            self.outbox.push(message(part.to_vec(), !rest.is_empty()));
            if rest.is_empty() {
                return;
            }
            (part, rest) = rest.split_at(rest.len().min(MAX_LIST));
        }
    }

    /// To the program and never to the warden or the stage above it, and only while it certainly is
    /// that process: afterwards its number, and its group's, may be somebody else's. In a sandbox
    /// the end of the program is the end of all of it.
    pub(crate) fn signal(&self, id: SessionId, signo: i32, to: SignalTarget) -> Result<(), i32> {
        if let Some(stage) = self.sessions.stage_of(id) {
            return kill_group(stage, signo);
        }
        let session = self.sessions.get(id).ok_or(libc::ESRCH)?;
        if let Phase::Exited(_) = session.phase {
            return Err(libc::ESRCH);
        }
        let group = to == SignalTarget::Group;
        match to {
            SignalTarget::Leader | SignalTarget::Group if session.held => {
                let program = session.program.and_then(tree::pin).ok_or(libc::ESRCH)?;
                signal_pidfd(program.as_fd(), signo, group)
            }
            SignalTarget::Leader | SignalTarget::Group => match &session.inner {
                Some(inner) => signal_pidfd(inner.as_fd(), signo, group),
                None if group => kill_group(session.pid, signo),
                None => kill_process(session.pid, signo),
            },
            SignalTarget::Foreground => {
                let group = rustix::termios::tcgetpgrp(&session.fds.master)
                    .map_err(|errno| errno.raw_os_error())?;
                kill_group(group.as_raw_nonzero().get(), signo)
            }
        }
    }

    fn replace(&mut self, path: &Path) {
        if self.replacement.is_some() || self.ending.is_some() {
            return self.not_replaced("the keeper is already being replaced or ended");
        }
        match Check::start(path, &self.handover(), &self.slots) {
            Ok(check) => self.replacement = Some(Replacement::Checking(check)),
            Err(error) => self.not_replaced(error),
        }
    }
}

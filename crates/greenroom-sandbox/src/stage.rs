//! The stage: a process that carries a plan out, then becomes the program.
//!
//! In: a sealed plan as fd 3 and a control socket as fd 4, in a process with one thread that was
//! forked for it, and that is not a new image: starting ours takes longer than half of the fence.
//! Out: reports on that socket (`control.rs`), and the program, which runs only if every step was
//! carried out. At level full there are three processes: the *stage*, which the keeper started and
//! which ends as the program ends; the *first* process of the session's pid namespace, which reaps
//! and keeps the pins; and the program. The first dies with the stage, and everything inside dies
//! with the first. At levels reduced and bare the stage stays and watches over the program
//! (`watch.rs`). Either way everything ends with the program, and with whoever started the stage.
//!
//! For a program on pipes stdin, stdout and stderr come over the control socket.
//!
//! The order of steps is part of the fence. Inherited fds go first, since no later layer takes them
//! back. Mounts come before Landlock, which would refuse them; the terminal is made inside; seccomp
//! is last.

pub(crate) mod guard;
pub(crate) mod mounts;
pub(crate) mod namespaces;
mod paths;
pub(crate) mod privileges;
pub(crate) mod ready;
pub(crate) mod sys;
pub mod terminal;
mod title;
pub mod watch;

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::process::{Pid, PidfdFlags};

use crate::control::{NAMESPACES_WORD, Report, StageError};
use crate::launch::Image;
use crate::layer::Layer;
use crate::plan::{Steps, unseal};
use crate::policy::Level;
use crate::wire::Wire;
use guard::{Guards, Wakeup};
use privileges::Terminals;
use terminal::Terminal;
use title::ProcessTitle;

/// Number of the plan's fd in a stage.
pub const PLAN_FD: RawFd = 3;
/// Number of the control socket's fd in a stage.
pub const CONTROL_FD: RawFd = 4;
/// Exit code of a stage that could not run its program; the report says why.
const EXIT_NOT_STARTED: i32 = 127;

/// An errno becomes a fault of a layer.
pub(crate) trait Failing<T> {
    fn failing(self, layer: Layer, step: impl FnOnce() -> String) -> Result<T, StageError>;
}

impl<T> Failing<T> for Result<T, Errno> {
    fn failing(self, layer: Layer, step: impl FnOnce() -> String) -> Result<T, StageError> {
        self.map_err(|errno| StageError::new(layer, step(), errno.raw_os_error()))
    }
}

/// What a process prepares once, so that those it forks can be stages.
#[derive(Debug)]
pub struct Stages {
    title: Option<ProcessTitle>,
}

impl Stages {
    pub fn prepare() -> Stages {
        Stages { title: ProcessTitle::find() }
    }

    /// Takes over this process, which was forked for it and has one thread, with [`PLAN_FD`] and
    /// [`CONTROL_FD`] open.
    ///
    /// Everything else it has from its parent goes or stays unseen: fds and signal handlers are the
    /// caller's to undo or are undone here, arguments and environment are overwritten, and its
    /// memory is hidden before the program runs.
    pub fn enter(&self) -> ! {
        // Only SIGKILL ends a stage; nothing less may stop it halfway.
        sys::block_signals(true);
        let (plan, control) = match adopt() {
            Ok(fds) => fds,
            // Nobody to tell.
            Err(_) => sys::exit(EXIT_NOT_STARTED),
        };
        let fault = match self.hide().and_then(|()| perform(plan, &control)) {
            Ok(never) => match never {},
            Err(fault) => fault,
        };
        give_up(&control, fault)
    }

    /// As [`Stages::enter`], for a process with nothing but a socket as [`PLAN_FD`]: leaves
    /// namespaces there, and ends.
    pub fn make_namespaces(&self) -> ! {
        sys::block_signals(true);
        let closed = sys::close_from(PLAN_FD as u32 + 1, false);
        let made = closed.and_then(|()| sys::own(PLAN_FD)).map(|socket| {
            // A stage that finds no namespaces there makes its own.
            self.hide().and_then(|()| ready::make(socket.as_fd())).is_ok()
        });
        sys::exit(if made == Ok(true) { 0 } else { EXIT_NOT_STARTED })
    }

    /// What `ps` shows of this process, which was forked and asks no more for its arguments. Each
    /// word ends with a NUL byte.
    pub fn retitle(&self, words: &[u8]) {
        if let Some(title) = &self.title {
            title.retitle(words);
        }
    }

    fn hide(&self) -> Result<(), StageError> {
        let title = self.title.as_ref().ok_or(Errno::NOENT);
        title
            .map(ProcessTitle::overwrite)
            .failing(Layer::Processes, || "find its own arguments in /proc".into())
    }
}

fn give_up(control: &OwnedFd, fault: StageError) -> ! {
    send(control.as_fd(), &Report::Failed(fault).encode(), &[]);
    sys::exit(EXIT_NOT_STARTED)
}

/// Nothing is ever of this type: a step that succeeds has become the program.
enum Never {}

/// Step 1: what was inherited is closed; only plan and control stay, and go at exec.
fn adopt() -> Result<(OwnedFd, OwnedFd), Errno> {
    sys::close_from(CONTROL_FD as u32 + 1, false)?;
    sys::close_from(PLAN_FD as u32, true)?;
    Ok((sys::own(PLAN_FD)?, sys::own(CONTROL_FD)?))
}

fn null() -> Result<[OwnedFd; 3], Errno> {
    let open = || rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    Ok([open()?, open()?, open()?])
}

/// What was sent before this process was started.
#[derive(Default)]
struct Given {
    stdio: Option<[OwnedFd; 3]>,
    namespaces: Option<OwnedFd>,
}

impl Given {
    fn take(control: BorrowedFd<'_>) -> Result<Given, Errno> {
        let mut given = Given::default();
        loop {
            let Some((word, mut fds)) = receive_waiting(control)? else { return Ok(given) };
            match word {
                NAMESPACES_WORD => given.namespaces = fds.pop(),
                _ => given.stdio = Some(fds.try_into().map_err(|_| Errno::BADF)?),
            }
        }
    }
}

type Word = ([u8; 1], Vec<OwnedFd>);

/// The next word that waits in a socket, with its fds.
fn receive_waiting(socket: BorrowedFd<'_>) -> Result<Option<Word>, Errno> {
    let mut space = [MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut word = [0; 1];
    let mut parts = [IoSliceMut::new(&mut word)];
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    match rustix::net::recvmsg(socket, &mut parts, &mut ancillary, flags) {
        Err(Errno::AGAIN) => return Ok(None),
        Ok(got) if got.bytes == 0 => return Ok(None),
        got => got?,
    };
    let fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok(Some((word, fds.flatten().collect())))
}

fn perform(plan: OwnedFd, control: &OwnedFd) -> Result<Never, StageError> {
    let (steps, launch) = unseal(plan.as_fd()).map_err(|error| {
        StageError::new(Layer::Plan, format!("read it ({error})"), libc::EINVAL)
    })?;
    drop(plan);
    let given =
        Given::take(control.as_fd()).failing(Layer::Descriptors, || "take what was sent".into())?;
    let stdio = match given.stdio.filter(|_| steps.pipes) {
        Some(stdio) => Ok(stdio),
        None if steps.pipes => Err(Errno::BADF),
        None => null(),
    };
    let placed = stdio.and_then(|[stdin, stdout, stderr]| {
        rustix::stdio::dup2_stdin(&stdin)?;
        rustix::stdio::dup2_stdout(&stdout)?;
        rustix::stdio::dup2_stderr(&stderr)
    });
    placed.failing(Layer::Descriptors, || "take stdin, stdout and stderr".into())?;
    let size = (launch.cols, launch.rows);
    let unreadable = || StageError::new(Layer::Plan, "read its program", libc::EINVAL);
    let run = Run { steps: &steps, size, image: launch.image().ok_or_else(unreadable)?, control };
    rustix::process::chdir("/").failing(Layer::Paths, || "enter /".into())?;
    sys::set_limit(libc::RLIMIT_CORE, 0).failing(Layer::Limits, || "forbid core dumps".into())?;
    for make in &steps.make {
        paths::make(make)?;
    }
    match steps.level {
        Level::Full => run.full(given.namespaces),
        Level::Reduced | Level::Bare => run.watched(),
    }
}

/// A stage ends with the keeper: nobody would look after its program.
fn die_with_starter(control: &OwnedFd, signal: rustix::process::Signal) -> Result<(), StageError> {
    rustix::process::set_parent_process_death_signal(Some(signal))
        .failing(Layer::Processes, || "tie it to the keeper".into())?;
    // Its end of the socket is closed if it was gone before that.
    match poll_now(control.as_fd(), rustix::event::PollFlags::empty()) {
        Ok(0) => Ok(()),
        _ => sys::exit(EXIT_NOT_STARTED),
    }
}

fn poll_now(fd: BorrowedFd<'_>, flags: rustix::event::PollFlags) -> Result<usize, Errno> {
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(fd, flags)];
    rustix::event::poll(&mut fds, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }))
}

/// A plan that is carried out, and the program it is for.
struct Run<'a> {
    steps: &'a Steps,
    image: Image,
    /// Columns and rows.
    size: (u16, u16),
    control: &'a OwnedFd,
}

impl Run<'_> {
    fn full(&self, namespaces: Option<OwnedFd>) -> Result<Never, StageError> {
        let ready = namespaces.and_then(|socket| ready::take(socket.as_fd()));
        let listener = namespaces::enter(self.steps.network, ready)?;
        // Only after the namespaces: entering a user namespace changes credentials, which may clear
        // this signal.
        die_with_starter(self.control, rustix::process::Signal::KILL)?;
        let forking = || "fork".to_owned();
        let this = own_pidfd().failing(Layer::Processes, forking)?;
        let (status, tell) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
            .failing(Layer::Processes, forking)?;
        let errno = sys::share_and_wait(
            || {
                let Err(fault) = self.first(&this, tell, listener);
                give_up(self.control, fault)
            },
            follow,
            status,
        );
        Err(errno).failing(Layer::Processes, forking)
    }

    /// The first process of the session's pid namespace.
    fn first(
        &self,
        stage: &OwnedFd,
        tell: OwnedFd,
        listener: Option<OwnedFd>,
    ) -> Result<Never, StageError> {
        die_with(stage)?;
        let guards = mounts::build(&self.steps.mounts)?;
        let program = self.fork(listener, None)?;
        reap(program, tell, self.steps.processes, guards)
    }

    /// Without a pid namespace nothing holds what a program started: this process stays and sees to
    /// it.
    fn watched(&self) -> Result<Never, StageError> {
        // TERM and not KILL: the watcher ends what it watches over, and then itself.
        die_with_starter(self.control, rustix::process::Signal::TERM)?;
        watch::begin().failing(Layer::Processes, || "watch over the program".to_owned())?;
        let most = self.steps.processes.map(watch::most_of_user);
        watch::over(self.fork(None, most)?, self.steps.processes)
    }

    /// Opens the terminal, if there is one, and starts the process that becomes the program.
    fn fork(&self, listener: Option<OwnedFd>, most: Option<u64>) -> Result<i32, StageError> {
        let (cols, rows) = self.size;
        let terminal = (!self.steps.pipes).then(|| Terminal::open(cols, rows)).transpose();
        let terminal = terminal.failing(Layer::Terminal, || "open a terminal".into())?;
        let program = sys::fork_to_exec(|| {
            let Err(fault) = self.program(terminal, listener, most);
            give_up(self.control, fault)
        });
        program.failing(Layer::Processes, || "fork".into())
    }

    /// The process that becomes the program. `most`: processes and threads that its user may have.
    fn program(
        &self,
        terminal: Option<Terminal>,
        listener: Option<OwnedFd>,
        most: Option<u64>,
    ) -> Result<Never, StageError> {
        match &terminal {
            Some(terminal) => {
                terminal.control().failing(Layer::Terminal, || "take the terminal".into())?;
            }
            // A session and a group of its own.
            None => rustix::process::setsid()
                .map(drop)
                .failing(Layer::Processes, || "lead a session".into())?,
        }
        if let Some(most) = most {
            sys::set_limit(libc::RLIMIT_NPROC, most)
                .failing(Layer::Limits, || "limit its processes".into())?;
        }
        let full = self.steps.level == Level::Full;
        let terminals = match &terminal {
            _ if full => Terminals::Own,
            Some(terminal) => Terminals::Only(&terminal.slave),
            None => Terminals::None,
        };
        confine(self.steps, &terminals)?;
        // The keeper signals a program on a terminal, or in a pid namespace, and not the process
        // above it.
        let this = (full || terminal.is_some()).then(own_pidfd).transpose();
        let this = this.failing(Layer::Processes, || "name the program".into())?;
        self.become_program(terminal, this, listener)
    }

    fn become_program(
        &self,
        terminal: Option<Terminal>,
        this: Option<OwnedFd>,
        listener: Option<OwnedFd>,
    ) -> Result<Never, StageError> {
        let cwd = self.image.cwd().unwrap_or(c"/");
        rustix::process::chdir(cwd)
            .failing(Layer::Exec, || format!("enter {}", cwd.to_string_lossy()))?;
        let ready = Report::Ready { inner: this.is_some(), listener: listener.is_some() };
        let master = terminal.as_ref().map(|terminal| &terminal.master);
        let fds = [master, this.as_ref(), listener.as_ref()];
        let fds: Vec<BorrowedFd<'_>> = fds.into_iter().flatten().map(AsFd::as_fd).collect();
        if !send(self.control.as_fd(), &ready.encode(), &fds) {
            // Nobody would ever read what it prints.
            sys::exit(EXIT_NOT_STARTED);
        }
        sys::close_from(3, true).failing(Layer::Descriptors, || "close what is open".into())?;
        sys::default_pipe_signal();
        sys::block_signals(false);
        let errno = Errno::from_raw_os_error(self.image.exec());
        Err(errno).failing(Layer::Exec, || format!("run {}", self.image.name().to_string_lossy()))
    }
}

/// The stage, once it has nothing more to do: ends as the program ends. Its memory belongs to the
/// first process now, so it makes system calls and nothing else.
fn follow(first: i32, status: OwnedFd) -> ! {
    let status = keep_only(status);
    let mut word = [0; 4];
    let told = rustix::io::read(&status, &mut word);
    match (told, sys::wait(first)) {
        (Ok(4), _) => sys::end_like(i32::from_le_bytes(word)),
        // The first process was killed, and everything with it.
        (_, Ok((_, status))) => sys::end_like(status),
        _ => sys::exit(EXIT_NOT_STARTED),
    }
}

/// Closes everything but one fd.
fn keep_only(fd: OwnedFd) -> OwnedFd {
    // To the lowest number, so that one call closes the rest.
    let _ = rustix::stdio::dup2_stdin(&fd);
    drop(fd);
    let _ = sys::close_from(1, false);
    sys::own(0).unwrap_or_else(|_| sys::exit(EXIT_NOT_STARTED))
}

/// Nothing inside may outlive the stage. Its pid cannot be asked for from in here, so a handle
/// tells whether it was too late.
fn die_with(stage: &OwnedFd) -> Result<(), StageError> {
    let failing = || "tie it to the stage".into();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .failing(Layer::Processes, failing)?;
    match poll_now(stage.as_fd(), rustix::event::PollFlags::IN) {
        Ok(0) => Ok(()),
        _ => Err(Errno::SRCH).failing(Layer::Processes, failing),
    }
}

/// Collects every process that ends inside, and passes the program's status on. Its own end ends
/// all others.
fn reap(program: i32, tell: OwnedFd, most: Option<u64>, guards: Guards) -> ! {
    let Ok((tell, guards, wakeups)) = guards.keep_with(tell) else { sys::exit(EXIT_NOT_STARTED) };
    sys::hide_memory();
    // This process waits and puts pins back: it keeps the one capability that this needs.
    let _ = privileges::keep_for_mounts(!guards.is_empty());
    let look = |last| match guards.look(last) {
        Ok(patience) => patience,
        Err(guard::Broken) => end_with(&tell, libc::SIGKILL),
    };
    let mut patience = look(None);
    loop {
        match wakeups.wait(most.map(|_| watch::LOOK_EVERY).or(patience)) {
            Wakeup::Mounts => patience = look(None),
            Wakeup::Timeout => patience = look(patience),
            Wakeup::Children => {}
        }
        loop {
            match sys::reap_one() {
                Ok(Some((pid, status))) if pid == program => end_with(&tell, status),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => sys::exit(EXIT_NOT_STARTED),
            }
        }
        if most.is_some_and(|most| watch::inhabitants() > most) {
            end_with(&tell, libc::SIGKILL);
        }
    }
}

/// Tells how the program ended, and exits: the kernel then ends every other process of the pid
/// namespace.
fn end_with(tell: &OwnedFd, status: i32) -> ! {
    let _ = rustix::io::write(tell, &status.to_le_bytes());
    sys::exit(0)
}

/// Everything that is given up for ever, in its order.
fn confine(steps: &Steps, terminals: &Terminals<'_>) -> Result<(), StageError> {
    for (resource, value) in &steps.limits {
        sys::set_limit(*resource, *value).failing(Layer::Limits, || "set a limit".into())?;
    }
    if steps.level != Level::Bare {
        privileges::drop_capabilities(steps.level == Level::Full)?;
    }
    privileges::no_new_privileges()?;
    if let Some(rules) = &steps.landlock {
        privileges::restrict_paths(rules, terminals)?;
    }
    match steps.level {
        Level::Bare => Ok(()),
        Level::Full | Level::Reduced => privileges::filter(&steps.filter),
    }
}

fn own_pidfd() -> Result<OwnedFd, Errno> {
    let pid: Pid = rustix::process::getpid();
    rustix::process::pidfd_open(pid, PidfdFlags::empty())
}

fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return false;
    }
    let parts = [IoSlice::new(bytes)];
    rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL).is_ok()
}

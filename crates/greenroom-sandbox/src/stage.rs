//! The stage: a process that carries a plan out, then becomes the program.
//!
//! In: a sealed plan as fd 3 and a control socket as fd 4, in a process with one thread that was forked for it, and that is
//! not a new image: starting ours takes longer than half of the fence. Out: reports on that socket
//! (`control.rs`), and the program, which runs only if every step was carried out. At level full there are three processes:
//! the *stage*, which the keeper started and which ends as the program ends; the *first* process of the session's pid
//! namespace, which reaps and keeps the pins; and the program. The first dies with the stage, and everything inside dies with the first. At
//! levels reduced and bare the stage stays and watches over the program (`watch.rs`). Either way everything ends with the
//! program, and with whoever started the stage.
//!
//! For a program on pipes stdin, stdout and stderr come over the control socket.
//!
//! The order of steps is part of the fence. Inherited fds go first, since no later layer takes them back. Mounts come before
//! Landlock, which would refuse them; the terminal is made inside; seccomp is last.

pub(crate) mod guard;
pub(crate) mod mounts;
pub(crate) mod namespaces;
mod paths;
mod plate;
pub(crate) mod privileges;
pub(crate) mod spare;
pub(crate) mod sys;
pub(crate) mod terminal;
pub mod watch;

use std::ffi::CString;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::process::{Pid, PidfdFlags};

use crate::control::{Fault, Report, SPARE_WORD};
use crate::layer::Layer;
use crate::plan::{Payload, Steps, unseal};
use crate::policy::Level;
use crate::search::candidates;
use guard::{Guards, Rang};
use plate::Plate;
use privileges::Terminals;
use terminal::Terminal;

/// Number of the plan's fd in a stage.
pub const PLAN_FD: RawFd = 3;
/// Number of the control socket's fd in a stage.
pub const CONTROL_FD: RawFd = 4;
/// Exit code of a stage that could not run its program; the report says why.
const EXIT_NOT_STARTED: i32 = 127;

/// An errno becomes a fault of a layer.
trait Failing<T> {
    fn failing(self, layer: Layer, step: impl FnOnce() -> String) -> Result<T, Fault>;
}

impl<T> Failing<T> for Result<T, Errno> {
    fn failing(self, layer: Layer, step: impl FnOnce() -> String) -> Result<T, Fault> {
        self.map_err(|errno| Fault::new(layer, step(), errno.raw_os_error()))
    }
}

/// What a process prepares once, so that those it forks can be stages.
#[derive(Debug)]
pub struct Stages {
    plate: Option<Plate>,
}

impl Stages {
    pub fn prepare() -> Stages {
        Stages { plate: Plate::find() }
    }

    /// Takes over this process, which was forked for it and has one thread, with [`PLAN_FD`] and [`CONTROL_FD`] open.
    ///
    /// Everything else it has from its parent goes or stays unseen: fds and signal handlers are the caller's to undo or are
    /// undone here, arguments and environment are overwritten, and its memory is hidden before the program runs.
    pub fn enter(&self) -> ! {
        // Whoever wants to end a stage kills it; nothing less may stop it halfway.
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

    /// As [`Stages::enter`], for a process with nothing but a socket as [`PLAN_FD`]: leaves namespaces there, and ends.
    pub fn make_spare(&self) -> ! {
        sys::block_signals(true);
        let closed = sys::close_from(PLAN_FD as u32 + 1, false);
        let made = closed.and_then(|()| sys::own(PLAN_FD)).map(|socket| {
            // Whoever finds nothing there makes its own.
            self.hide().and_then(|()| spare::make(socket.as_fd())).is_ok()
        });
        sys::exit(if made == Ok(true) { 0 } else { EXIT_NOT_STARTED })
    }

    /// What `ps` shows of this process, which was forked and asks no more for its arguments. Each word ends with a NUL byte.
    pub fn retitle(&self, words: &[u8]) {
        if let Some(plate) = &self.plate {
            plate.retitle(words);
        }
    }

    fn hide(&self) -> Result<(), Fault> {
        let plate = self.plate.as_ref().ok_or(Errno::NOENT);
        plate
            .map(Plate::overwrite)
            .failing(Layer::Processes, || "find its own arguments in /proc".into())
    }
}

fn give_up(control: &OwnedFd, fault: Fault) -> ! {
    send(control.as_fd(), &Report::Fault(fault), &[]);
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
    spare: Option<OwnedFd>,
}

impl Given {
    fn take(control: BorrowedFd<'_>) -> Result<Given, Errno> {
        let mut given = Given::default();
        loop {
            let Some((word, mut fds)) = receive_waiting(control)? else { return Ok(given) };
            match word {
                SPARE_WORD => given.spare = fds.pop(),
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

fn perform(plan: OwnedFd, control: &OwnedFd) -> Result<Never, Fault> {
    let (steps, payload) = unseal(plan.as_fd())
        .map_err(|error| Fault::new(Layer::Plan, format!("read it ({error})"), libc::EINVAL))?;
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
    let image = Image::new(payload)?;
    rustix::process::chdir("/").failing(Layer::Paths, || "enter /".into())?;
    sys::set_limit(libc::RLIMIT_CORE, 0).failing(Layer::Limits, || "forbid core dumps".into())?;
    for make in &steps.make {
        paths::make(make)?;
    }
    match steps.level {
        Level::Full => full(&steps, &image, control, given.spare),
        Level::Reduced | Level::Bare => watched(&steps, &image, control),
    }
}

/// Nobody looks after a program whose keeper is gone.
fn die_with_starter(control: &OwnedFd, signal: rustix::process::Signal) -> Result<(), Fault> {
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

fn full(
    steps: &Steps,
    image: &Image,
    control: &OwnedFd,
    spare: Option<OwnedFd>,
) -> Result<Never, Fault> {
    let spare = spare.and_then(|socket| spare::take(socket.as_fd()));
    let listener = namespaces::enter(steps.network, spare)?;
    // Only here: new credentials may forget it.
    die_with_starter(control, rustix::process::Signal::KILL)?;
    let forking = || "fork".to_owned();
    let this = own_pidfd().failing(Layer::Processes, forking)?;
    let (status, tell) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .failing(Layer::Processes, forking)?;
    let errno = sys::share_and_wait(
        || {
            let Err(fault) = first(steps, image, control, &this, tell, listener);
            give_up(control, fault)
        },
        follow,
        status,
    );
    Err(errno).failing(Layer::Processes, forking)
}

/// The stage, once it has nothing more to do: ends as the program ends. Its memory belongs to the first process now, so it makes
/// system calls and nothing else.
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

/// The first process of the session's pid namespace.
fn first(
    steps: &Steps,
    image: &Image,
    control: &OwnedFd,
    stage: &OwnedFd,
    tell: OwnedFd,
    listener: Option<OwnedFd>,
) -> Result<Never, Fault> {
    die_with(stage)?;
    let guards = mounts::build(&steps.mounts)?;
    let terminal = match steps.pipes {
        true => None,
        false => Some(terminal::open(image.cols, image.rows)?),
    };
    let program = sys::fork_to_exec(|| {
        let Err(fault) = program(steps, image, control, terminal, listener);
        give_up(control, fault)
    });
    reap(program.failing(Layer::Processes, || "fork".into())?, tell, steps.processes, guards)
}

/// The process that becomes the program.
fn program(
    steps: &Steps,
    image: &Image,
    control: &OwnedFd,
    terminal: Option<Terminal>,
    listener: Option<OwnedFd>,
) -> Result<Never, Fault> {
    match &terminal {
        Some(terminal) => terminal::control(&terminal.slave, true)?,
        None => lead()?,
    }
    confine(steps, &Terminals::Own)?;
    let this = own_pidfd().failing(Layer::Processes, || "name the program".into())?;
    become_program(image, control, terminal, Some(this), listener)
}

/// Nothing inside may outlive the stage. Its pid cannot be asked for from in here, so a handle tells whether it was too late.
fn die_with(stage: &OwnedFd) -> Result<(), Fault> {
    let failing = || "tie it to the stage".into();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .failing(Layer::Processes, failing)?;
    match poll_now(stage.as_fd(), rustix::event::PollFlags::IN) {
        Ok(0) => Ok(()),
        _ => Err(Errno::SRCH).failing(Layer::Processes, failing),
    }
}

/// Collects every process that ends inside, and passes the program's status on. Its own end ends all others.
fn reap(program: i32, tell: OwnedFd, most: Option<u64>, guards: Guards) -> ! {
    let Ok((tell, guards, bell)) = guards.keep_with(tell) else { sys::exit(EXIT_NOT_STARTED) };
    sys::hide_memory();
    // It waits, and puts pins back: it needs no power but for that.
    let _ = privileges::keep_for_mounts(!guards.is_empty());
    let look = |last| match guards.look(last) {
        Ok(patience) => patience,
        Err(guard::Broken) => end_with(&tell, libc::SIGKILL),
    };
    let mut patience = look(None);
    loop {
        match bell.wait(most.map(|_| watch::LOOK_EVERY).or(patience)) {
            Rang::Mounts => patience = look(None),
            Rang::Late => patience = look(patience),
            Rang::Children => {}
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

/// Its end is the end of all others.
fn end_with(tell: &OwnedFd, status: i32) -> ! {
    let _ = rustix::io::write(tell, &status.to_le_bytes());
    sys::exit(0)
}

/// Without a pid namespace nothing holds what a program started: this process stays and sees to it.
fn watched(steps: &Steps, image: &Image, control: &OwnedFd) -> Result<Never, Fault> {
    let failing = || "watch over the program".to_owned();
    // Asks: what is watched over is ended first.
    die_with_starter(control, rustix::process::Signal::TERM)?;
    watch::begin().failing(Layer::Processes, failing)?;
    let most = steps.processes.map(watch::most_of_user);
    let terminal = match steps.pipes {
        true => None,
        false => Some(terminal::open(image.cols, image.rows)?),
    };
    let program = sys::fork_to_exec(|| {
        let Err(fault) = watched_program(steps, image, control, most, terminal);
        give_up(control, fault)
    });
    let program = program.failing(Layer::Processes, || "fork".into())?;
    watch::over(program, steps.processes)
}

fn watched_program(
    steps: &Steps,
    image: &Image,
    control: &OwnedFd,
    most: Option<u64>,
    terminal: Option<Terminal>,
) -> Result<Never, Fault> {
    match &terminal {
        Some(terminal) => terminal::control(&terminal.slave, true)?,
        None => lead()?,
    }
    if let Some(most) = most {
        sys::set_limit(libc::RLIMIT_NPROC, most)
            .failing(Layer::Limits, || "limit its processes".into())?;
    }
    let terminals = terminal.as_ref().map_or(Terminals::None, |it| Terminals::Only(&it.slave));
    confine(steps, &terminals)?;
    // Whoever started a program on a terminal signals it, and not the one that watches.
    let this = match &terminal {
        Some(_) => Some(own_pidfd().failing(Layer::Processes, || "name the program".into())?),
        None => None,
    };
    become_program(image, control, terminal, this, None)
}

/// A session and a group of its own.
fn lead() -> Result<(), Fault> {
    rustix::process::setsid().map(drop).failing(Layer::Processes, || "lead a session".into())
}

/// Everything that is given up for ever, in its order.
fn confine(steps: &Steps, terminals: &Terminals<'_>) -> Result<(), Fault> {
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

fn become_program(
    image: &Image,
    control: &OwnedFd,
    terminal: Option<Terminal>,
    this: Option<OwnedFd>,
    listener: Option<OwnedFd>,
) -> Result<Never, Fault> {
    rustix::process::chdir(&image.cwd)
        .failing(Layer::Exec, || format!("enter {}", image.cwd.to_string_lossy()))?;
    let ready = Report::Ready { inner: this.is_some(), listener: listener.is_some() };
    let master = terminal.as_ref().map(|terminal| &terminal.master);
    let fds: Vec<BorrowedFd<'_>> =
        [master, this.as_ref(), listener.as_ref()].into_iter().flatten().map(AsFd::as_fd).collect();
    if !send(control.as_fd(), &ready, &fds) {
        // Nobody would ever read what it prints.
        sys::exit(EXIT_NOT_STARTED);
    }
    sys::close_from(3, true).failing(Layer::Descriptors, || "close what is open".into())?;
    sys::default_pipe_signal();
    sys::block_signals(false);
    let errno = sys::exec(&image.candidates, &image.argv, &image.env);
    Err(errno).failing(Layer::Exec, || format!("run {}", image.argv[0].to_string_lossy()))
}

fn own_pidfd() -> Result<OwnedFd, Errno> {
    let pid: Pid = rustix::process::getpid();
    rustix::process::pidfd_open(pid, PidfdFlags::empty())
}

fn send(control: BorrowedFd<'_>, report: &Report, fds: &[BorrowedFd<'_>]) -> bool {
    send_with(control, &report.encode(), fds)
}

fn send_with(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::<u8>::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return false;
    }
    let parts = [IoSlice::new(bytes)];
    rustix::net::sendmsg(socket, &parts, &mut ancillary, SendFlags::NOSIGNAL).is_ok()
}

/// The program as the kernel wants it.
struct Image {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    cols: u16,
    rows: u16,
}

impl Image {
    fn new(payload: Payload) -> Result<Image, Fault> {
        let strings = |items: Vec<Vec<u8>>| -> Option<Vec<CString>> {
            items.into_iter().map(|item| CString::new(item).ok()).collect()
        };
        let made = || -> Option<Image> {
            let program = payload.argv.first()?.as_bytes();
            let path = payload.env.iter().find(|(name, _)| name == "PATH");
            let candidates = candidates(program, path.map(|(_, value)| value.as_bytes()));
            let variable = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
                [name.as_bytes(), b"=", value.as_bytes()].concat()
            };
            Some(Image {
                candidates: strings(candidates)?,
                argv: strings(payload.argv.into_iter().map(OsStringExt::into_vec).collect())?,
                env: strings(payload.env.into_iter().map(variable).collect())?,
                cwd: CString::new(payload.cwd.into_os_string().into_vec()).ok()?,
                cols: payload.cols,
                rows: payload.rows,
            })
        };
        made().ok_or_else(|| Fault::new(Layer::Plan, "read its program", libc::EINVAL))
    }
}

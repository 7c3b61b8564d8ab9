//! One new process: clone, set-up, exec, and the truth about how far it came.
//!
//! In: a `ChildSpec` (program, terminal or output, passed fds). Out: a pid and a status pipe: it
//! ends without a word once exec is through, or carries the step that failed and its errno. The
//! keeper never waits for chdir or exec, which may hang on a dead file system; it waits only until
//! the child has its own fd table.
//!
//! Why clone(CLONE_FILES) instead of fork: fork copies the whole fd table, four entries per
//! session, and exec then closes them one by one. Here the child shares the table and
//! `close_range(UNSHARE)` copies the first seven entries only. It is right because (a) this process
//! has one thread and it reads the child's "unshared" byte before it touches any fd again; (b)
//! before that byte the child calls nothing but close_range and write; (c) if close_range fails the
//! child exits without closing anything. Memory is copied as with fork, so the child cannot disturb
//! the keeper.
//!
//! On its way to exec the child calls only system calls: no allocation, no lock, no panic. A stage,
//! which may do all of that since memory is its own copy and there was one thread, is entered only
//! after everything here is done. A session's program is started by its warden (`warden.rs`), in
//! the same steps. The daemon is not tied to the keeper's life (see `daemon.rs`).
#![expect(
    unsafe_code,
    reason = "clone, and system calls in the child, where nothing else is allowed"
)]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::time::{Duration, Instant};

use greenroom_sandbox::launch::Image;
use greenroom_sandbox::stage::{Stages, watch};
use greenroom_sandbox::wire::Wire;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, WaitId, WaitIdOptions};

use crate::fds::{FIRST_FREE, SLOT_A, SLOT_B, SLOT_IO, SLOT_STATUS, Slots};
use crate::message::{SessionId, SpawnStep};
use crate::warden::{Record, WardenEvent};

/// First byte of the status pipe: the child has its own fd table.
const UNSHARED: u8 = b'U';
/// A fault: this byte, the step, the errno.
const FAULT: u8 = b'F';
const FAULT_BYTES: usize = 6;
/// Exit code of a child that could not exec; nobody sees it but a log.
const EXIT_NOT_STARTED: i32 = 127;
/// Unsharing takes microseconds; a child somebody has stopped in between is killed after this.
const UNSHARE_PATIENCE: Duration = Duration::from_secs(2);

/// Where stdin, stdout and stderr of the child go.
pub(crate) enum Stdio<'a> {
    /// All three to this terminal, which becomes the controlling one.
    Terminal(BorrowedFd<'a>),
    /// stdout and stderr there, stdin as the keeper's.
    Output(BorrowedFd<'a>),
    /// As the keeper's.
    Inherit,
}

/// What the child becomes.
#[derive(Clone, Copy)]
pub(crate) enum Become<'a> {
    Program(&'a Image),
    /// A session's warden, with its program below.
    Warden {
        image: &'a Image,
        stages: &'a Stages,
        id: SessionId,
        /// The pipe on which it talks. Only without `pass`.
        reports: BorrowedFd<'a>,
    },
    /// A sandbox's stage, in this very memory: it costs what a fork costs, and no image of ours has
    /// to be started.
    Stage(&'a Stages),
    /// Namespaces for a later stage, and the child's end.
    Namespaces(&'a Stages),
}

pub(crate) struct ChildSpec<'a> {
    pub(crate) child: Become<'a>,
    pub(crate) stdio: Stdio<'a>,
    /// At most two; they arrive as fd 3 and 4.
    pub(crate) pass: &'a [BorrowedFd<'a>],
    /// The limit on open files to go back to.
    pub(crate) nofile: Option<rustix::process::Rlimit>,
    /// Rather taken by a kernel short of memory than the keeper and the daemon.
    pub(crate) expendable: bool,
}

/// What every session and every piped program is started with.
pub(crate) struct Starter<'a> {
    pub(crate) slots: &'a Slots,
    pub(crate) stages: &'a Stages,
    /// The limit on open files to go back to.
    pub(crate) nofile: rustix::process::Rlimit,
}

/// Where a launch stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpawnError {
    pub(crate) step: SpawnStep,
    pub(crate) errno: i32,
}

impl SpawnError {
    pub(crate) fn at<E: Into<io::Error>>(step: SpawnStep) -> impl Fn(E) -> SpawnError {
        move |error| SpawnError { step, errno: error.into().raw_os_error().unwrap_or(libc::EIO) }
    }
}

#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) pid: i32,
    pub(crate) status: Status,
}

/// The reading end of a child's status pipe.
#[derive(Debug)]
pub(crate) struct Status {
    fd: OwnedFd,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Still on its way to exec.
    Pending,
    /// exec is through (or the child was killed before: the pipe cannot tell, its exit status
    /// will).
    Done,
    Failed(SpawnError),
}

impl Status {
    pub(crate) fn new(fd: OwnedFd) -> Status {
        Status { fd }
    }

    pub(crate) fn poll(&self) -> Progress {
        let mut bytes = [0_u8; FAULT_BYTES];
        match rustix::io::read(&self.fd, &mut bytes) {
            Ok(0) => Progress::Done,
            Ok(_) => decode_fault(&bytes),
            Err(_) => Progress::Pending,
        }
    }
}

impl AsFd for Status {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn decode_fault(bytes: &[u8; FAULT_BYTES]) -> Progress {
    let step = SpawnStep::decode(&bytes[1..2]).unwrap_or(SpawnStep::Fork);
    let errno = i32::from_le_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
    Progress::Failed(SpawnError { step, errno })
}

/// Starts a process. Returns as soon as the child has its own fd table.
pub(crate) fn launch(spec: &ChildSpec<'_>, slots: &Slots) -> Result<Launched, SpawnError> {
    let prepared = Prepared::new(spec);
    let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
    let (read, write) =
        rustix::pipe::pipe_with(flags).map_err(SpawnError::at(SpawnStep::Buffers))?;
    let result = fill_slots(spec, slots, write).and_then(|()| {
        let pid = clone_child(&prepared).map_err(SpawnError::at(SpawnStep::Fork))?;
        await_unshared(pid, read.as_fd())?;
        Ok(pid)
    });
    // Also closes our copy of the pipe's writing end, without which its end would never be seen.
    slots.clear().map_err(SpawnError::at(SpawnStep::Descriptors))?;
    Ok(Launched { pid: result?, status: Status::new(read) })
}

fn fill_slots(spec: &ChildSpec<'_>, slots: &Slots, status: OwnedFd) -> Result<(), SpawnError> {
    let fill = |slot, fd| slots.fill(slot, fd).map_err(SpawnError::at(SpawnStep::Descriptors));
    fill(SLOT_STATUS, status.as_fd())?;
    match spec.stdio {
        Stdio::Terminal(fd) | Stdio::Output(fd) => fill(SLOT_IO, fd)?,
        Stdio::Inherit => {}
    }
    for (slot, fd) in [SLOT_A, SLOT_B].into_iter().zip(spec.pass) {
        fill(slot, *fd)?;
    }
    if let Become::Warden { reports, .. } = spec.child {
        fill(SLOT_B, reports)?;
    }
    Ok(())
}

fn await_unshared(pid: i32, status: BorrowedFd<'_>) -> Result<(), SpawnError> {
    let begun = Instant::now();
    let tick = rustix::time::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    loop {
        let mut byte = [0_u8; 1];
        match rustix::io::read(status, &mut byte) {
            Ok(1) if byte[0] == UNSHARED => return Ok(()),
            Ok(_) => return Err(fault_after_tag(status)),
            Err(_) => {}
        }
        let mut fds = [PollFd::from_borrowed_fd(status, PollFlags::IN)];
        let _ = rustix::event::poll(&mut fds, Some(&tick));
        // The writing end is open in our own (shared) table, so a child that died here shows no end
        // of file.
        if fds[0].revents().is_empty() && has_died(pid) {
            return Err(SpawnError { step: SpawnStep::Fork, errno: libc::ECHILD });
        }
        if begun.elapsed() > UNSHARE_PATIENCE {
            let _ = crate::signals::kill_process(pid, libc::SIGKILL);
        }
    }
}

fn fault_after_tag(status: BorrowedFd<'_>) -> SpawnError {
    let mut bytes = [FAULT; FAULT_BYTES];
    let _ = rustix::io::read(status, &mut bytes[1..]);
    match decode_fault(&bytes) {
        Progress::Failed(fault) => fault,
        _ => SpawnError { step: SpawnStep::Descriptors, errno: libc::EIO },
    }
}

/// Looks without reaping: the main loop reaps.
fn has_died(pid: i32) -> bool {
    let Some(pid) = Pid::from_raw(pid) else {
        return true;
    };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(
        rustix::process::waitid(WaitId::Pid(pid), options),
        Ok(None) | Err(rustix::io::Errno::INTR)
    )
}

/// Everything the child reads, built before it exists.
struct Prepared<'a> {
    spec: &'a ChildSpec<'a>,
    /// What a warden is called.
    names: Option<Names>,
    nofile: Option<libc::rlimit>,
    /// What goes into `oom_score_adj`.
    oom: Option<Vec<u8>>,
    keeper: i32,
}

/// What `ps` shows of a warden. Not the keeper's name: a `pkill` that is meant for the keeper must
/// not hit every warden.
struct Names {
    title: Vec<u8>,
    short: CString,
}

impl Names {
    fn of(id: SessionId) -> Names {
        let short = CString::new(format!("session-s{id}")).unwrap_or_default();
        Names { title: format!("greenroom\0session\0s{id}\0").into_bytes(), short }
    }
}

impl<'a> Prepared<'a> {
    fn new(spec: &'a ChildSpec<'a>) -> Prepared<'a> {
        Prepared {
            names: match spec.child {
                Become::Warden { id, .. } => Some(Names::of(id)),
                _ => None,
            },
            nofile: spec.nofile.map(|limit| libc::rlimit {
                rlim_cur: limit.current.unwrap_or(libc::RLIM_INFINITY),
                rlim_max: limit.maximum.unwrap_or(libc::RLIM_INFINITY),
            }),
            oom: spec.expendable.then(oom_score),
            keeper: std::process::id() as i32,
            spec,
        }
    }
}

fn clone_child(prepared: &Prepared<'_>) -> io::Result<i32> {
    // SAFETY: without CLONE_VM and with no new stack this is fork(2) with a shared fd table; this
    // process has one thread, so no lock can be left held in the child's copy of memory. The child
    // never returns from `child`.
    let pid = unsafe {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        {
            let flags = (libc::CLONE_FILES | libc::SIGCHLD) as libc::c_ulong;
            let none: libc::c_ulong = 0;
            libc::syscall(libc::SYS_clone, flags, none, none, none, none) as i32
        }
        // Other machines order clone's arguments differently; fork is only slower.
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        libc::fork()
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: we are the new child and nothing else runs here.
        0 => unsafe { child(prepared) },
        pid => Ok(pid),
    }
}

/// SAFETY: call in the cloned child only; it never returns.
unsafe fn child(prepared: &Prepared<'_>) -> ! {
    // SAFETY: plain system calls on numbers and on memory prepared before the clone.
    unsafe {
        let unshared =
            libc::syscall(libc::SYS_close_range, FIRST_FREE, u32::MAX, libc::CLOSE_RANGE_UNSHARE);
        check(unshared, SpawnStep::Descriptors);
        check(
            libc::write(SLOT_STATUS, [UNSHARED].as_ptr().cast(), 1) as i64,
            SpawnStep::Descriptors,
        );
        if let (Become::Warden { image, stages, .. }, Some(names)) =
            (prepared.spec.child, &prepared.names)
        {
            child_warden(prepared, image, stages, names);
        }
        child_place(prepared);
        match prepared.spec.child {
            Become::Program(image) | Become::Warden { image, .. } => child_exec(image),
            // Closes the status pipe, as exec would.
            Become::Stage(stages) => stages.enter(),
            Become::Namespaces(stages) => stages.make_namespaces(),
        }
    }
}

/// Terminal, fds, limits, signals.
///
/// SAFETY: as `child`.
unsafe fn child_place(prepared: &Prepared<'_>) {
    // SAFETY: as the caller's.
    unsafe {
        child_terminal(prepared);
        child_inheritance(prepared);
    }
}

/// Starts the program below this process, and stays to hold what it will start. May do what a stage
/// may.
///
/// SAFETY: as `child`.
unsafe fn child_warden(
    prepared: &Prepared<'_>,
    image: &Image,
    stages: &Stages,
    names: &Names,
) -> ! {
    // SAFETY: plain system calls on numbers; a group of its own, so that no signal meant for
    // another reaches it.
    unsafe { check(libc::setsid().into(), SpawnStep::Terminal) };
    let started = watch::start(prepared.keeper, || {
        // SAFETY: the program's own process now, which borrows this memory until it execs or exits.
        unsafe {
            child_place(prepared);
            child_exec(image)
        }
    });
    let program = match started {
        Ok(program) => program,
        Err(errno) => fail(SpawnStep::Fork, errno.raw_os_error()),
    };
    let warden = std::process::id() as i32;
    let tell = |to: i32, event| {
        let record = Record { warden, event }.encode();
        // SAFETY: writes from this stack. Nobody is left to hear it if this fails.
        unsafe { libc::write(to, record.as_ptr().cast(), record.len()) };
    };
    // Before the status pipe ends, so that whoever sees that end knows the program.
    tell(SLOT_B, WardenEvent::Started(program));
    // SAFETY: the one fd that is still needed goes to the lowest number, and all others go; nothing
    // here owns any of them.
    unsafe {
        libc::dup2(SLOT_B, 0);
        libc::syscall(libc::SYS_close_range, 1, u32::MAX, 0);
        libc::prctl(libc::PR_SET_NAME, names.short.as_ptr());
    }
    stages.retitle(&names.title);
    watch::hold(program, |status| tell(0, WardenEvent::Ended(status)))
}

/// SAFETY: as `child`.
unsafe fn child_terminal(prepared: &Prepared<'_>) {
    // SAFETY: system calls on fd numbers this child owns.
    unsafe {
        check(libc::setsid().into(), SpawnStep::Terminal);
        let stdio = &prepared.spec.stdio;
        if let Stdio::Terminal(_) = stdio {
            check(libc::ioctl(SLOT_IO, libc::TIOCSCTTY, 0).into(), SpawnStep::Terminal);
            check(libc::dup2(SLOT_IO, 0).into(), SpawnStep::Terminal);
        }
        if let Stdio::Terminal(_) | Stdio::Output(_) = stdio {
            check(libc::dup2(SLOT_IO, 1).into(), SpawnStep::Terminal);
            check(libc::dup2(SLOT_IO, 2).into(), SpawnStep::Terminal);
        }
        // dup2 clears CLOEXEC; everything still at a slot's own number goes away at exec.
        for (from, to) in [(SLOT_A, 3), (SLOT_B, 4)].into_iter().take(prepared.spec.pass.len()) {
            check(libc::dup2(from, to).into(), SpawnStep::Descriptors);
        }
    }
}

/// Undoes what the keeper set for itself: limits, ignored signals, blocked signals.
///
/// SAFETY: as `child`.
unsafe fn child_inheritance(prepared: &Prepared<'_>) {
    // SAFETY: system calls that read memory on this stack.
    unsafe {
        if let Some(limit) = &prepared.nofile {
            check(libc::setrlimit(libc::RLIMIT_NOFILE, limit).into(), SpawnStep::Limits);
        }
        if let Some(score) = &prepared.oom {
            // Where it is refused the kernel chooses as it would have.
            let fd =
                libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            if fd >= 0 {
                libc::write(fd, score.as_ptr().cast(), score.len());
                libc::close(fd);
            }
        }
        // The kernel's sigaction, all zero: SIG_DFL. Raw, because libc hides two numbers; KILL and
        // STOP refuse, which is fine.
        let default = [0_u64; 4];
        for signo in 1..=64 {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signo,
                default.as_ptr(),
                ptr::null_mut::<u64>(),
                8,
            );
        }
        let none = 0_u64;
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const none,
            ptr::null_mut::<u64>(),
            8,
        );
    }
}

/// SAFETY: as `child`.
unsafe fn child_exec(image: &Image) -> ! {
    if let Some(cwd) = image.cwd() {
        // SAFETY: the string lives as long as the image.
        check(unsafe { libc::chdir(cwd.as_ptr()) }.into(), SpawnStep::Cwd);
    }
    fail(SpawnStep::Exec, image.exec())
}

fn check(result: i64, step: SpawnStep) {
    if result < 0 {
        fail(step, errno());
    }
}

fn errno() -> i32 {
    // SAFETY: errno is a thread-local the C library always has.
    unsafe { *libc::__errno_location() }
}

fn fail(step: SpawnStep, errno: i32) -> ! {
    let [a, b, c, d] = errno.to_le_bytes();
    let fault = [FAULT, step as u8, a, b, c, d];
    // SAFETY: writes from this stack, then ends this child without running anything of the
    // parent's.
    unsafe {
        libc::write(SLOT_STATUS, fault.as_ptr().cast(), FAULT_BYTES);
        libc::_exit(EXIT_NOT_STARTED)
    }
}

/// How much sooner than the keeper a session's programs are taken when memory runs out: as if they
/// used a fifth of it more.
const OOM_ABOVE: i32 = 200;
const OOM_MOST: i32 = 1000;

fn oom_score() -> Vec<u8> {
    let own = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap_or_default();
    let own: i32 = own.trim().parse().unwrap_or(0);
    (own + OOM_ABOVE).min(OOM_MOST).to_string().into_bytes()
}

/// The keeper's own environment, for the daemon and for the check of a new image.
pub(crate) fn own_env() -> Vec<(Vec<u8>, Vec<u8>)> {
    use std::os::unix::ffi::OsStringExt;
    std::env::vars_os().map(|(name, value)| (name.into_vec(), value.into_vec())).collect()
}

/// Raw number, for the state handed to the next image.
impl AsRawFd for Status {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

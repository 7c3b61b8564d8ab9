//! System calls that have no safe form elsewhere, each as small as can be.
//!
//! In: fds, paths, numbers. Out: a value or an errno. Absent on purpose: any order or meaning; that
//! is the other rooms'.
#![expect(unsafe_code, reason = "calls for which neither std nor rustix has a safe form")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

/// `struct mount_attr`.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

pub(crate) const RDONLY: u64 = 0x1;
pub(crate) const NOSUID: u64 = 0x2;
pub(crate) const NODEV: u64 = 0x4;
pub(crate) const NOEXEC: u64 = 0x8;

fn check(result: libc::c_long) -> Result<libc::c_long, Errno> {
    if result < 0 { Err(last_errno()) } else { Ok(result) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Sets attributes of a mount and everything mounted below it.
pub(crate) fn restrict_mount(mount: BorrowedFd<'_>, set: u64) -> Result<(), Errno> {
    set_attributes(mount, set, libc::AT_RECURSIVE)
}

/// Sets attributes of a mount, but not of what is mounted below it.
pub(crate) fn restrict_one_mount(mount: BorrowedFd<'_>, set: u64) -> Result<(), Errno> {
    set_attributes(mount, set, 0)
}

fn set_attributes(mount: BorrowedFd<'_>, set: u64, flags: i32) -> Result<(), Errno> {
    let attr = MountAttr { set, clear: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | flags;
    // SAFETY: the path is empty and the attributes live through the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    })
    .map(drop)
}

pub(crate) fn unshare(flags: i32) -> Result<(), Errno> {
    // SAFETY: changes namespaces only; no memory is involved.
    check(unsafe { libc::unshare(flags) }.into()).map(drop)
}

/// Closes every fd from `first` on, or marks it to be closed at exec.
pub(crate) fn close_from(first: u32, at_exec: bool) -> Result<(), Errno> {
    let flags = if at_exec { libc::CLOSE_RANGE_CLOEXEC } else { 0 };
    // SAFETY: the caller owns this process and every fd in it; none from `first` on is used again.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, flags) }).map(drop)
}

/// fork(2). `None` in the child.
///
/// The caller must have one thread: the child then has everything the parent had.
pub(crate) fn fork() -> Result<Option<i32>, Errno> {
    // SAFETY: with one thread no lock can be left held in the child.
    match check(unsafe { libc::fork() }.into())? {
        0 => Ok(None),
        pid => Ok(Some(pid as i32)),
    }
}

/// Room for the steps between here and exec; what is not touched costs nothing.
const CHILD_STACK_BYTES: usize = 512 * 1024;

/// A child that will exec or exit soon, as vfork(2) makes it: it borrows this process's memory, and
/// this process sleeps until it has gone its way. Copying the memory, only to throw it away at
/// exec, is most of what a fork costs here.
///
/// The caller must have one thread, and must not mind what `body` changes in memory.
pub(crate) fn fork_to_exec<F: FnOnce()>(body: F) -> Result<i32, Errno> {
    // Lives until the child has gone, which is when the call returns.
    let mut stack = Vec::with_capacity(CHILD_STACK_BYTES);
    clone_on(&mut stack, &mut Some(body), libc::CLONE_VFORK)
}

/// A child that shares this process's memory for good, while `parent` does nothing but wait for it.
/// As `fork_to_exec`, but both go on: so `parent` must not allocate, nor touch what `body` uses,
/// and it never returns.
pub(crate) fn share_and_wait<F: FnOnce(), T>(body: F, parent: fn(i32, T) -> !, with: T) -> Errno {
    // Never freed: this frame is never left while the child lives.
    let mut stack = Vec::with_capacity(CHILD_STACK_BYTES);
    let mut body = Some(body);
    match clone_on(&mut stack, &mut body, 0) {
        Ok(child) => parent(child, with),
        Err(errno) => errno,
    }
}

fn clone_on<F: FnOnce()>(
    stack: &mut Vec<u8>,
    body: &mut Option<F>,
    more: i32,
) -> Result<i32, Errno> {
    extern "C" fn run<F: FnOnce()>(body: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the caller's `Option`, which lives on and which nobody else touches.
        let body = unsafe { (*body.cast::<Option<F>>()).take() };
        if let Some(body) = body {
            body();
        }
        exit(i32::from(u8::MAX))
    }
    // Stacks grow downwards and are aligned to 16 bytes.
    let top = stack.spare_capacity_mut().as_mut_ptr_range().end;
    let top = top.wrapping_sub(top.addr() % 16);
    let flags = libc::CLONE_VM | libc::SIGCHLD | more;
    // SAFETY: the child has a stack of its own, and fds, signals and credentials are its own
    // copies. Both callers see to it that stack and body outlive it, and that nobody uses this
    // memory beside it: the one sleeps, the other only waits.
    check(unsafe { libc::clone(run::<F>, top.cast(), flags, (&raw mut *body).cast()) }.into())
        .map(|pid| pid as i32)
}

pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: ends this process without running anything that belongs to its parent.
    unsafe { libc::_exit(code) }
}

/// Waits for a child, or any child with -1: its pid and raw status.
pub(crate) fn wait(pid: i32) -> Result<(i32, i32), Errno> {
    let mut status = 0;
    loop {
        // SAFETY: writes one integer of this frame.
        match check(unsafe { libc::waitpid(pid, &raw mut status, 0) }.into()) {
            Err(Errno::INTR) => {}
            result => return result.map(|pid| (pid as i32, status)),
        }
    }
}

/// A child that has ended and is reaped now: its pid and raw status. `None` while all others live.
pub(crate) fn reap_one() -> Result<Option<(i32, i32)>, Errno> {
    let mut status = 0;
    // SAFETY: writes one integer of this frame.
    let pid = check(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) }.into())?;
    Ok((pid != 0).then_some((pid as i32, status)))
}

/// Waits for a blocked signal that tells of children or asks for the end. `None` when the time is
/// up.
pub(crate) fn next_signal(patience: std::time::Duration) -> Option<i32> {
    let time =
        libc::timespec { tv_sec: patience.as_secs() as _, tv_nsec: patience.subsec_nanos().into() };
    let set = signal_set(&[libc::SIGCHLD, libc::SIGTERM]);
    // SAFETY: reads two structs of this frame; nothing is written for a null siginfo.
    let signo =
        unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const time) };
    (signo > 0).then_some(signo)
}

/// An fd that can be read when a child has ended. The signal must be blocked.
pub(crate) fn child_signals() -> Result<std::os::fd::OwnedFd, Errno> {
    let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
    let set = signal_set(&[libc::SIGCHLD]);
    // SAFETY: reads one struct of this frame.
    let fd = check(unsafe { libc::signalfd(-1, &raw const set, flags).into() })?;
    own(fd as std::os::fd::RawFd)
}

/// Ends this process the way a child ended: by exit code or by signal.
pub(crate) fn end_like(status: i32) -> ! {
    if libc::WIFSIGNALED(status) {
        let signo = libc::WTERMSIG(status);
        // SAFETY: a default action has no code of ours.
        unsafe { libc::signal(signo, libc::SIG_DFL) };
        block_signals(false);
        // SAFETY: has no effect on memory.
        unsafe { libc::raise(signo) };
        exit(128 + signo);
    }
    exit(libc::WEXITSTATUS(status))
}

/// Blocks every signal that can be blocked, or none.
pub(crate) fn block_signals(block: bool) {
    let mut set = signal_set(&[]);
    // SAFETY: fills and reads one struct of this frame.
    unsafe {
        if block {
            libc::sigfillset(&raw mut set);
        }
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

fn signal_set(signals: &[i32]) -> libc::sigset_t {
    // SAFETY: the set is initialised by the first call.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in signals {
            libc::sigaddset(&raw mut set, *signal);
        }
        set
    }
}

pub(crate) fn set_limit(resource: u32, value: u64) -> Result<(), Errno> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: reads and writes one struct of this frame.
    unsafe {
        check(libc::getrlimit(resource as _, &raw mut limit).into())?;
        // More than the machine's own limit cannot be had, and less is what was asked for.
        let value = value.min(limit.rlim_max);
        let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
        check(libc::setrlimit(resource as _, &raw const limit).into()).map(drop)
    }
}

/// A real-time priority, the lowest: before every ordinary program. Ignored where it is refused.
pub(crate) fn run_before_others() {
    // SAFETY: reads one struct of this frame.
    unsafe {
        let mut param = std::mem::zeroed::<libc::sched_param>();
        param.sched_priority = 1;
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const param);
    }
}

/// Brings the loopback device of this network namespace up.
pub(crate) fn loopback_up(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: an all-zero ifreq is valid, and the call reads and writes only it.
    unsafe {
        let mut request = std::mem::zeroed::<libc::ifreq>();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = *from as libc::c_char;
        }
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw const request).into())
            .map(drop)
    }
}

/// Installs a filter for this process and its children.
pub(crate) fn install_filter(instructions: &[u64]) -> Result<(), Errno> {
    let length = u16::try_from(instructions.len()).map_err(|_| Errno::INVAL)?;
    let unpack = |word: &u64| libc::sock_filter {
        code: *word as u16,
        jt: (word >> 16) as u8,
        jf: (word >> 24) as u8,
        k: (word >> 32) as u32,
    };
    let mut code: Vec<libc::sock_filter> = instructions.iter().map(unpack).collect();
    let program = libc::sock_fprog { len: length, filter: code.as_mut_ptr() };
    // SAFETY: the program and its code live through the call, which copies them.
    check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    })
    .map(drop)
}

/// Up to the highest capability this kernel knows, which is found by asking for each.
pub(crate) fn drop_bounding_set() -> Result<(), Errno> {
    for capability in 0..64 {
        // SAFETY: prctl on numbers.
        match check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) }.into()) {
            Ok(_) => {}
            // Past the last one.
            Err(Errno::INVAL) => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Every flag that would give root its powers back, off for ever.
pub(crate) fn lock_secure_bits() -> Result<(), Errno> {
    const NOROOT: libc::c_ulong = 0b11;
    const NO_SETUID_FIXUP: libc::c_ulong = 0b11 << 2;
    const KEEP_CAPS_LOCKED: libc::c_ulong = 1 << 5;
    const NO_AMBIENT_RAISE: libc::c_ulong = 0b11 << 6;
    let bits = NOROOT | NO_SETUID_FIXUP | KEEP_CAPS_LOCKED | NO_AMBIENT_RAISE;
    // SAFETY: prctl on numbers.
    check(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, bits, 0, 0, 0) }.into()).map(drop)
}

/// Other processes of this user can no longer look into this one.
pub(crate) fn hide_memory() {
    // SAFETY: prctl on numbers; it cannot fail with 0.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) };
}

/// The runtime ignores SIGPIPE, and what is ignored stays so through exec. The process that started
/// this one has seen to the rest.
pub(crate) fn default_pipe_signal() {
    // SAFETY: a default action has no code of ours.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Becomes the owner of an fd that came as a number.
///
/// Each number may be adopted once, by a process that was given it for that.
pub(crate) fn own(number: std::os::fd::RawFd) -> Result<std::os::fd::OwnedFd, Errno> {
    use std::os::fd::FromRawFd;
    // SAFETY: only asks, and fails if the number is not open.
    check(unsafe { libc::fcntl(number, libc::F_GETFD) }.into())?;
    // SAFETY: it is open, and by this room's convention nobody else's.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(number) })
}

/// The version of Landlock this kernel offers.
pub(crate) fn landlock_version() -> Result<u32, Errno> {
    const VERSION: u32 = 1;
    // SAFETY: asks for a number; there is no ruleset to read.
    check(unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            VERSION,
        )
    })
    .map(|version| version as u32)
}

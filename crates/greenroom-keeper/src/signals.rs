//! Signals in and out: everything the keeper listens for arrives through one signalfd; what it
//! sends goes through `kill`.
//!
//! Those stay blocked for the keeper's whole life, also across its own exec, so that none is lost
//! in between. All others that would end it and are not for it are ignored from the first moment;
//! children get every default back. Absent on purpose: handlers, and armour against what a fault in
//! the program itself raises (SEGV, ABRT and their like).
#![expect(
    unsafe_code,
    reason = "signal masks, signalfd and kill have no safe wrapper that takes any number"
)]

use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// URG is harmless to whoever does not wait for it: a client may send it to a keeper of any
/// version.
const WATCHED: [i32; 5] = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGURG];

/// Ignored: nobody has a reason to send them to the keeper, and each would end every session. 32 to
/// 64 come on top.
const NOT_FOR_US: [i32; 13] = [
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGQUIT,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGPWR,
    libc::SIGSTKFLT,
    libc::SIGPIPE,
    libc::SIGTRAP,
];
/// The first and the last of the numbers that mean nothing by themselves.
const REAL_TIME: std::ops::RangeInclusive<i32> = 32..=64;

/// Before anything else: a signal may come at any time.
pub(crate) fn ignore_what_is_not_for_us() {
    ignore(NOT_FOR_US.into_iter().chain(REAL_TIME));
}

/// Numbers of signals that would end a process for no reason of its own, and which its runtime can
/// catch: for the daemon.
pub fn nobodys() -> impl Iterator<Item = i32> {
    // The first two are the C library's own, which it refuses to talk about.
    ignore(32..=33);
    NOT_FOR_US.into_iter().filter(|it| *it != libc::SIGTRAP).chain(34..=64)
}

fn ignore(signals: impl Iterator<Item = i32>) {
    // The kernel's sigaction: handler, flags, restorer, mask. Raw, because libc hides two numbers.
    let ignored = [libc::SIG_IGN as u64, 0, 0, 0];
    for signo in signals {
        // SAFETY: reads four words of this frame; an ignored signal runs no code.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signo,
                ignored.as_ptr(),
                std::ptr::null_mut::<u64>(),
                8,
            )
        };
    }
}

/// A signal that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrived {
    pub(crate) signo: i32,
    /// Not sent by a process.
    pub(crate) by_kernel: bool,
}

pub(crate) struct Signals {
    fd: File,
}

impl Signals {
    /// Blocks the watched signals and opens the fd they arrive on.
    pub(crate) fn watch() -> io::Result<Signals> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set the other calls read; signalfd returns a new fd
        // that we own.
        let fd = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signo in WATCHED {
                libc::sigaddset(set.as_mut_ptr(), signo);
            }
            if libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) < 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Signals { fd: fd.into() })
    }

    /// The next signal that has arrived.
    pub(crate) fn next(&mut self) -> Option<Arrived> {
        /// `SI_KERNEL`.
        const BY_KERNEL: i32 = 0x80;
        let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
        match self.fd.read(&mut info) {
            Ok(read) if read == info.len() => {
                let word =
                    |at| i32::from_ne_bytes([info[at], info[at + 1], info[at + 2], info[at + 3]]);
                // `ssi_signo` is the first field, `ssi_code` the third.
                Some(Arrived { signo: word(0), by_kernel: word(8) == BY_KERNEL })
            }
            _ => None,
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// kill(2) on a process.
pub(crate) fn kill_process(pid: i32, signo: i32) -> Result<(), i32> {
    kill(pid, signo)
}

/// kill(2) on a process group.
pub(crate) fn kill_group(pgid: i32, signo: i32) -> Result<(), i32> {
    kill(pgid.checked_neg().unwrap_or(0), signo)
}

fn kill(target: i32, signo: i32) -> Result<(), i32> {
    // 0, 1, -1 mean "our group", init and "everybody": never what a session is.
    if (-1..=1).contains(&target) {
        return Err(libc::ESRCH);
    }
    // SAFETY: kill has no memory effects.
    match unsafe { libc::kill(target, signo) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
    }
}

/// A signal to exactly the process a pidfd names, or to the process group it leads.
pub(crate) fn signal_pidfd(fd: BorrowedFd<'_>, signo: i32, group: bool) -> Result<(), i32> {
    /// Linux 6.9.
    const PROCESS_GROUP: u32 = 1 << 2;
    let flags = if group { PROCESS_GROUP } else { 0 };
    // SAFETY: the call reads no memory of ours: there is no siginfo.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            fd.as_raw_fd(),
            signo,
            std::ptr::null::<libc::siginfo_t>(),
            flags,
        )
    };
    match (result, io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)) {
        (0, _) => Ok(()),
        (_, libc::EINVAL) if group => kill_group(pid_of(fd).ok_or(libc::ESRCH)?, signo),
        (_, errno) => Err(errno),
    }
}

/// The number of the process a pidfd names, as seen from here. -1 once it is reaped.
fn pid_of(fd: BorrowedFd<'_>) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    line.trim().parse().ok().filter(|pid| *pid > 0)
}

//! Signals in and out: everything the keeper listens for arrives through one signalfd; what it sends goes through `kill`.
//!
//! All signals that could end or disturb the keeper stay blocked for its whole life, also across its own exec, so that none
//! is lost in between. Absent on purpose: handlers.
#![expect(
    unsafe_code,
    reason = "signal masks, signalfd and kill have no safe wrapper that takes any number"
)]

use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// URG is harmless to whoever does not wait for it: a client may send it to a keeper of any version.
const WATCHED: [i32; 5] = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGURG];

pub(crate) struct Signals {
    fd: File,
}

impl Signals {
    /// Blocks the watched signals and opens the fd they arrive on.
    pub(crate) fn watch() -> io::Result<Signals> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set the other calls read; signalfd returns a new fd that we own.
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
    pub(crate) fn next(&mut self) -> Option<i32> {
        let mut info = [0_u8; size_of::<libc::signalfd_siginfo>()];
        match self.fd.read(&mut info) {
            Ok(read) if read == info.len() => {
                // `ssi_signo` is the first field.
                Some(i32::from_ne_bytes([info[0], info[1], info[2], info[3]]))
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

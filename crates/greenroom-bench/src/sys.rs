//! The few calls that have no safe form: a child with a controlling terminal, SCHED_IDLE, another
//! process's CPU clock.
//!
//! In: plain values. Out: plain values. Nothing here knows what is being measured.

#![expect(unsafe_code, reason = "system calls without a safe wrapper")]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::io::Errno;

/// Starts `command` in a session of its own, with its stdin as controlling terminal.
pub fn spawn_on_terminal(command: &mut Command) -> io::Result<Child> {
    // SAFETY: the closure runs between fork and exec and makes two system calls; it allocates
    // nothing and takes no lock.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            Ok(())
        });
    }
    command.spawn()
}

/// Puts the calling thread into SCHED_IDLE: it runs only where a core would sleep otherwise.
pub fn become_idle_priority() -> io::Result<()> {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: `param` outlives the call, and 0 names the calling thread.
    let status = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// CPU time a process has used so far, all threads, user and system, also of threads that have
/// ended.
pub fn process_cpu(pid: u32) -> io::Result<Duration> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from(Errno::INVAL))?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: `clock` is a valid place to write to.
    let status = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if status != 0 {
        return Err(io::Error::from_raw_os_error(status));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place to write to; a clock of a process that is gone is an error.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let seconds = u64::try_from(time.tv_sec).map_err(|_| io::Error::from(Errno::RANGE))?;
    let nanos = u32::try_from(time.tv_nsec).map_err(|_| io::Error::from(Errno::RANGE))?;
    Ok(Duration::new(seconds, nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cpu_clock_advances_with_work() {
        let before = process_cpu(std::process::id()).unwrap();
        let mut sum = 0_u64;
        for n in 0..5_000_000_u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(n));
        }
        assert!(process_cpu(std::process::id()).unwrap() > before, "{sum}");
    }

    #[test]
    fn a_process_that_is_gone_has_no_clock() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert!(process_cpu(pid).is_err());
    }
}

//! Fds by number: the low slots a new child is prepared in, and carrying fds through the keeper's
//! own exec.
//!
//! A child is cloned with the keeper's fd table shared and unshares only the first few entries
//! (`launch.rs`). What it needs must therefore sit at fixed low numbers, and nothing else may ever
//! get one of them: a freed slot would be taken by the next PTY master, and the next child would
//! close it. So /dev/null keeps each slot between launches. Absent on purpose: any knowledge of
//! what the fds are.
#![expect(unsafe_code, reason = "fd numbers are owned here by convention, not by a type")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A child's terminal, or its stdout and stderr.
pub(crate) const SLOT_IO: RawFd = 3;
/// Passed on.
pub(crate) const SLOT_A: RawFd = 4;
/// Passed on.
pub(crate) const SLOT_B: RawFd = 5;
/// Where the child tells what went wrong.
pub(crate) const SLOT_STATUS: RawFd = 6;
pub(crate) const FIRST_FREE: RawFd = 7;

pub(crate) struct Slots {
    null: OwnedFd,
}

impl Slots {
    /// Takes the slots. A file that had one of these numbers is closed.
    pub(crate) fn reserve() -> io::Result<Slots> {
        let null = rustix::fs::open(
            "/dev/null",
            rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )?;
        let slots = Slots { null: lift(null)? };
        slots.clear()?;
        Ok(slots)
    }

    pub(crate) fn fill(&self, slot: RawFd, fd: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: slots belong to this type alone; the replaced fd is the /dev/null kept there.
        match unsafe { libc::dup3(fd.as_raw_fd(), slot, libc::O_CLOEXEC) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Puts /dev/null back into every slot.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for slot in SLOT_IO..FIRST_FREE {
            self.fill(slot, self.null.as_fd())?;
        }
        Ok(())
    }
}

/// Moves an fd above the slots.
pub(crate) fn lift(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= FIRST_FREE {
        return Ok(fd);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(&fd, FIRST_FREE)?)
}

/// Closes every fd above stderr except `kept`: an inherited pipe held for ever would hang whoever
/// waits for its end.
pub(crate) fn close_inherited(kept: Option<&OwnedFd>) {
    let kept = kept.map_or(2, |fd| fd.as_raw_fd() as u32);
    let close = |from: u32, to: u32| {
        if from <= to {
            // SAFETY: called first thing by a process that has no other fds of its own yet.
            unsafe { libc::syscall(libc::SYS_close_range, from, to, 0) };
        }
    };
    close(3, kept.saturating_sub(1));
    close(kept.max(2) + 1, u32::MAX);
}

/// Becomes the owner of an fd that came through exec as a number, and makes it CLOEXEC again.
pub(crate) fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    if number < FIRST_FREE {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: only changes a flag, and fails if the number is not open.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the number is open, and the old image left each number in its state exactly once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Lets an fd survive exec, or not.
pub(crate) fn survive_exec(number: RawFd, survive: bool) -> io::Result<()> {
    let flag = if survive { 0 } else { libc::FD_CLOEXEC };
    // SAFETY: only changes a flag.
    match unsafe { libc::fcntl(number, libc::F_SETFD, flag) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Looks at an fd that belongs to the caller of the process, e.g. the state given to `--check`.
pub(crate) fn dup_foreign(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC makes a new fd and fails if the number is not open.
    match unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, FIRST_FREE) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the number was just made for us.
        new => Ok(unsafe { OwnedFd::from_raw_fd(new) }),
    }
}

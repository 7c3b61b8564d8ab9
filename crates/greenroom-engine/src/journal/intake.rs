//! How a byte gets from the PTY master into the ring without ever being
//! nowhere: the four steps, and the fallback where the kernel cannot splice.
//!
//! stream = ring[.., tail) ++ pipe ++ tty queue, at every instruction:
//! 1. [`Intake::take`]: pipe empty, W = (T, 0): `splice(master → pipe)` gives n.
//!    The count is kept by the kernel, in an object that outlives the daemon.
//! 2. [`Intake::announce`]: W = (T + n, 1). One aligned store.
//! 3. [`Intake::drain`]: `readv(pipe → ring at T)`. The kernel advances the
//!    pipe only past what it copied completely, so tail = T + n − FIONREAD.
//! 4. [`Intake::commit`]: W = (T + n, 0).
//!
//! A kill between 1 and 2 leaves q bytes in the pipe and W = (T, 0): they are the next q bytes. A
//! kill in 3 leaves W = (T + n, 1) and q bytes: the ring is good up to T + n − q. See `recover`.
//!
//! Fallback (no splice from a tty): W = (T, 1) and `ScanEnd` say "a read into the zeroed room [T,
//! ScanEnd) may have happened", and the next daemon looks for the last byte that is not zero. It
//! loses trailing NULs, which no terminal shows, and up to 64 bytes if the copy faults, which
//! resident pages make unlikely; nothing better is possible there.
//!
//! Deliberately absent: budgets, notes, the helper (`mod`).
#![allow(unsafe_code, reason = "the ring's windows are owned by protocol, see `ring`")]

use std::io::{self, IoSliceMut};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use rustix::pipe::SpliceFlags;

use super::limits::PIPE_BYTES;
use super::ring::{Ring, Word};

/// How bytes come in; stored in the ring, because recovery depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Pipe = 0,
    Scan = 1,
}

pub(super) fn pack(tail: u64, draining: bool) -> u64 {
    tail << 1 | u64::from(draining)
}

pub(super) fn unpack(word: u64) -> (u64, bool) {
    (word >> 1, word & 1 == 1)
}

pub(super) struct Intake {
    ring: Arc<Ring>,
    pipe_read: OwnedFd,
    pipe_write: OwnedFd,
    mode: Mode,
    /// End of what the ring holds.
    tail: u64,
    /// Announced bytes that are still in the pipe.
    in_pipe: u64,
    /// Fallback only: `[tail, zeroed_to)` is zero.
    zeroed_to: u64,
}

impl Intake {
    /// `tail` is what W already says, or is about to (`recover`, `create`).
    pub(super) fn new(
        ring: Arc<Ring>,
        pipe_read: OwnedFd,
        pipe_write: OwnedFd,
        tail: u64,
    ) -> Intake {
        Intake { ring, pipe_read, pipe_write, mode: Mode::Pipe, tail, in_pipe: 0, zeroed_to: 0 }
    }

    /// Only with an empty pipe. The word order is: tail first, because in scan
    /// mode (T, 0) claims nothing beyond T, so either mode reads it alike.
    pub(super) fn set_mode(&mut self, mode: Mode) {
        debug_assert_eq!(self.in_pipe, 0, "the pipe belongs to pipe mode");
        self.ring.store(Word::Tail, pack(self.tail, false));
        self.ring.store(Word::Mode, mode as u64);
        self.mode = mode;
        if mode == Mode::Scan
            && let Err(error) = self.ring.populate()
        {
            tracing::debug!(%error, "ring pages are not resident, reads may fault");
        }
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn tail(&self) -> u64 {
        self.tail
    }

    pub(super) fn ring(&self) -> Arc<Ring> {
        Arc::clone(&self.ring)
    }

    pub(super) fn in_pipe(&self) -> u64 {
        self.in_pipe
    }

    /// Takes up to `max` bytes from `master` into the ring at the tail. The
    /// caller has seen to it that there is room for `max`.
    pub(super) fn pull(
        &mut self,
        master: BorrowedFd<'_>,
        max: usize,
        room: u64,
    ) -> io::Result<usize> {
        if self.mode == Mode::Scan {
            return self.read_zeroed(master, max, room);
        }
        let n = self.take(master, max)?;
        if n > 0 {
            self.announce(n as u64);
            self.finish()?;
        }
        Ok(n)
    }

    /// Steps 3 and 4, until the pipe is empty. Also what `pump` does first
    /// when an earlier drain met an error.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        while self.in_pipe > 0 {
            self.drain()?;
        }
        self.commit();
        Ok(())
    }

    /// Step 1.
    pub(super) fn take(&mut self, master: BorrowedFd<'_>, max: usize) -> io::Result<usize> {
        debug_assert_eq!(self.in_pipe, 0, "the pipe is empty before a splice");
        let flags = SpliceFlags::NONBLOCK;
        Ok(rustix::pipe::splice(master, None, &self.pipe_write, None, max.min(PIPE_BYTES), flags)?)
    }

    /// Step 2.
    pub(super) fn announce(&mut self, n: u64) {
        self.in_pipe = n;
        self.ring.store(Word::Tail, pack(self.tail + n, true));
    }

    /// Step 3, one system call.
    pub(super) fn drain(&mut self) -> io::Result<()> {
        // SAFETY: we are the actor; `[tail, tail + in_pipe)` lies outside
        // `[Spilled, T)` because room was checked before the splice.
        let (a, b) = unsafe { self.ring.data_mut(self.tail, self.tail + self.in_pipe) };
        let n = if b.is_empty() {
            rustix::io::read(&self.pipe_read, a)
        } else {
            rustix::io::readv(&self.pipe_read, &mut [IoSliceMut::new(a), IoSliceMut::new(b)])
        };
        match n {
            // The pipe holds less than was announced: nobody else reads it, so
            // this cannot be; an endless loop would be the worst answer.
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                self.tail += n as u64;
                self.in_pipe -= n as u64;
                Ok(())
            }
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Step 4.
    pub(super) fn commit(&mut self) {
        debug_assert_eq!(self.in_pipe, 0, "everything announced was drained");
        self.ring.store(Word::Tail, pack(self.tail, false));
    }

    fn read_zeroed(&mut self, master: BorrowedFd<'_>, max: usize, room: u64) -> io::Result<usize> {
        let window = room.min(PIPE_BYTES as u64);
        self.arm(self.tail + window);
        // SAFETY: as in `drain`; the caller checked `max` against the room.
        let (a, b) = unsafe { self.ring.data_mut(self.tail, self.tail + (max as u64).min(window)) };
        match rustix::io::readv(master, &mut [IoSliceMut::new(a), IoSliceMut::new(b)]) {
            Ok(n) => {
                self.tail += n as u64;
                self.ring.store(Word::Tail, pack(self.tail, false));
                Ok(n)
            }
            Err(error) => {
                // A copy that faulted may have left bytes that count for nothing.
                if !matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) {
                    self.zeroed_to = self.tail;
                }
                Err(error.into())
            }
        }
    }

    /// Zeroes `[tail, end)` as far as it is not, then says so: (T, 1) is stored
    /// last, so a kill before it means "nothing was read since T".
    pub(super) fn arm(&mut self, end: u64) {
        let zeroed_to = self.zeroed_to.max(self.tail);
        if end > zeroed_to {
            self.ring.store(Word::Tail, pack(self.tail, false));
            // SAFETY: as in `drain`.
            let (a, b) = unsafe { self.ring.data_mut(zeroed_to, end) };
            a.fill(0);
            b.fill(0);
            self.zeroed_to = end;
            self.ring.store(Word::ScanEnd, end);
        }
        self.ring.store(Word::Tail, pack(self.tail, true));
    }
}

/// Whether this kernel splices from a tty, tried once on a throw-away PTY.
pub fn probe_splice() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| match try_splice() {
        Ok(answer) => answer,
        Err(error) => {
            tracing::warn!(%error, "no splice from a tty here: output is read without a pipe");
            false
        }
    })
}

fn try_splice() -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};

    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = openpt(flags)?;
    unlockpt(&master)?;
    let slave = ioctl_tiocgptpeer(&master, flags)?;
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&master, true)?;
    rustix::io::write(&slave, b"x")?;
    // The byte travels through a kernel worker.
    let patience = Timespec { tv_sec: 1, tv_nsec: 0 };
    poll(&mut [PollFd::new(&master, PollFlags::IN)], Some(&patience))?;
    let n = rustix::pipe::splice(&master, None, &write, None, 16, SpliceFlags::NONBLOCK)?;
    let mut byte = [0; 1];
    Ok(n == 1 && rustix::io::read(&read, &mut byte)? == 1 && byte == *b"x")
}

//! The terminal we run on: raw mode, its size, and one place to wait.
//!
//! In: file descriptors 0 and 1. Out: [`Wake`]s. The terminal is put back on drop, also after a
//! panic. Deliberately absent: threads; signals arrive as a byte on a socket that is polled.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGTERM, SIGWINCH};

#[derive(Debug, thiserror::Error)]
pub(crate) enum TtyError {
    #[error(
        "standard input and output must be a terminal (for pipes there is --no-tty, plain lines)"
    )]
    NoTerminal,
    #[error("cannot {step} the terminal: {source}")]
    Step { step: &'static str, source: io::Error },
}

/// Why waiting ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    Input(Vec<u8>),
    Resized,
    Signal(i32),
    Deadline,
    /// The terminal is gone.
    Gone,
}

/// Assumed where the terminal does not say.
const DEFAULT_SIZE: (usize, usize) = (80, 24);

pub(crate) struct Tty {
    saved: Termios,
    signals: UnixStream,
    resized: Arc<AtomicBool>,
    ending: [(i32, Arc<AtomicBool>); 2],
}

impl Tty {
    pub(crate) fn open() -> Result<Self, TtyError> {
        let step = |step| move |source| TtyError::Step { step, source };
        if !isatty(io::stdin()) || !isatty(io::stdout()) {
            return Err(TtyError::NoTerminal);
        }
        let (signals, resized, ending) = watch_signals().map_err(step("watch the signals of"))?;
        let saved =
            tcgetattr(io::stdin()).map_err(|e| step("read the modes of")(io::Error::from(e)))?;
        let mut raw = saved.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)
            .map_err(|e| step("set the modes of")(io::Error::from(e)))?;
        Ok(Self { saved, signals, resized, ending })
    }

    /// Columns and rows.
    pub(crate) fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (usize::from(size.ws_col), usize::from(size.ws_row))
            }
            _ => DEFAULT_SIZE,
        }
    }

    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), TtyError> {
        let mut stdout = io::stdout().lock();
        stdout
            .write_all(bytes)
            .and_then(|()| stdout.flush())
            .map_err(|source| TtyError::Step { step: "write to", source })
    }

    /// Until something happens or the deadline has passed.
    pub(crate) fn wait(&mut self, deadline: Option<Instant>) -> Result<Wake, TtyError> {
        let step = |source| TtyError::Step { step: "wait for", source };
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let (stdin, signals) = (io::stdin(), self.signals.as_fd());
            let mut fds = [
                PollFd::new(&stdin, PollFlags::IN),
                PollFd::from_borrowed_fd(signals, PollFlags::IN),
            ];
            let ready = match poll(&mut fds, left.map(timespec).as_ref()) {
                Ok(ready) => ready,
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(step(e.into())),
            };
            let (input, signal) = (fds[0].revents(), fds[1].revents());
            if ready == 0 {
                return Ok(Wake::Deadline);
            }
            if !signal.is_empty() {
                let mut drained = [0; 64];
                // One byte per signal; the flags say which.
                let _ = self.signals.read(&mut drained);
                if let Some(wake) = self.signalled() {
                    return Ok(wake);
                }
            }
            if !input.is_empty() {
                return read_input().map_err(step);
            }
        }
    }

    fn signalled(&self) -> Option<Wake> {
        let ended = self.ending.iter().find(|(_, flag)| flag.swap(false, Ordering::SeqCst));
        if let Some((signal, _)) = ended {
            return Some(Wake::Signal(*signal));
        }
        self.resized.swap(false, Ordering::SeqCst).then_some(Wake::Resized)
    }
}

impl Drop for Tty {
    fn drop(&mut self) {
        // A terminal that is gone needs no repair.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.saved);
    }
}

type Watched = (UnixStream, Arc<AtomicBool>, [(i32, Arc<AtomicBool>); 2]);

fn watch_signals() -> io::Result<Watched> {
    let (signals, sender) = UnixStream::pair()?;
    signals.set_nonblocking(true)?;
    sender.set_nonblocking(true)?;
    let watch = |signal| -> io::Result<Arc<AtomicBool>> {
        let flag = Arc::new(AtomicBool::new(false));
        // The flag first: whoever sees the byte must see the flag.
        signal_hook::flag::register(signal, flag.clone())?;
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
        Ok(flag)
    };
    Ok((signals, watch(SIGWINCH)?, [(SIGTERM, watch(SIGTERM)?), (SIGHUP, watch(SIGHUP)?)]))
}

fn read_input() -> io::Result<Wake> {
    let mut buffer = vec![0; 16 * 1024];
    match rustix::io::read(io::stdin(), &mut buffer) {
        Ok(0) | Err(rustix::io::Errno::IO) => Ok(Wake::Gone),
        Ok(len) => {
            buffer.truncate(len);
            Ok(Wake::Input(buffer))
        }
        Err(e) => Err(e.into()),
    }
}

fn timespec(left: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(left.subsec_nanos()),
    }
}

//! The daemon's life as the keeper sees it: start, death, back-off, start again.
//!
//! In: a command, the listening socket, reaped exits. Out: a fresh link per start, and the delay
//! before the next one. The first death is answered at once; daemons that die young are answered
//! later and later.
//!
//! **When the keeper itself dies** (it should not: it parses nothing and allocates little; but
//! `kill -9` exists): wardens and stages see it and end everything below them, so no program runs
//! on that nobody would list. The daemon has no PDEATHSIG on purpose: it sees the end of the link,
//! records what it can, and exits. A new keeper refuses the socket while it listens.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use greenroom_sandbox::launch::Image;

use crate::fds::Slots;
use crate::launch::{Become, ChildSpec, Launched, Progress, Status, Stdio, launch, own_env};
use crate::link::Endpoint;
use crate::log::open_rotated;
use crate::message::{ExitStatus, LastExit};
use crate::options::{CALLED, EXIT_UPGRADE};

const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MOST: Duration = Duration::from_secs(5);
/// A daemon that lived this long was well; its death is answered at once.
const HEALTHY_AFTER: Duration = Duration::from_secs(10);
/// Starts are at least this far apart, also after a KILL that was not the daemon's own fault.
const STARTS_APART: Duration = Duration::from_millis(50);
/// How much of a failed start's output the user is shown.
const TAIL_BYTES: u64 = 4096;

pub(crate) struct Daemon {
    pub(crate) command: Vec<OsString>,
    pub(crate) log: PathBuf,
    pub(crate) foreground: bool,
    pub(crate) running: Option<Running>,
    pub(crate) starts: u32,
    pub(crate) last_exit: Option<LastExit>,
    pub(crate) young_deaths: u32,
    /// When the next one starts; meaningless while one runs.
    pub(crate) start_at: Instant,
    pub(crate) ever_ready: bool,
}

pub(crate) struct Running {
    pub(crate) pid: i32,
    pub(crate) started: Instant,
    /// Where its output begins in the log.
    output_from: u64,
    /// Asked to stop; killed at this time.
    pub(crate) kill_at: Option<Instant>,
    /// It makes room for its successor: whatever its exit code, another one starts.
    pub(crate) leaving: bool,
    /// `None` for one taken over from the keeper's previous image: that one came through exec long
    /// ago.
    status: Option<Status>,
}

impl Running {
    pub(crate) fn resumed(pid: i32, lived: Duration) -> Running {
        let now = Instant::now();
        Running {
            pid,
            started: now.checked_sub(lived).unwrap_or(now),
            output_from: 0,
            kill_at: None,
            leaving: false,
            status: None,
        }
    }
}

/// What to do after a daemon's end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) last: LastExit,
    pub(crate) was_leaving: bool,
    /// Why exec did not happen, if it did not.
    pub(crate) not_started: Option<String>,
    pub(crate) output: String,
}

impl Daemon {
    pub(crate) fn new(command: Vec<OsString>, log: PathBuf, foreground: bool) -> Daemon {
        Daemon {
            command,
            log,
            foreground,
            running: None,
            starts: 0,
            last_exit: None,
            young_deaths: 0,
            start_at: Instant::now(),
            ever_ready: false,
        }
    }

    /// Starts one; the new link's keeper end comes back.
    pub(crate) fn start(
        &mut self,
        listener: BorrowedFd<'_>,
        slots: &Slots,
    ) -> io::Result<Endpoint> {
        let (ours, theirs) = Endpoint::pair()?;
        // Called by its name, whatever the path that leads to this image.
        let arguments = self.command.iter().skip(1).cloned().map(OsStringExt::into_vec);
        let argv = std::iter::once(CALLED.to_bytes().to_vec()).chain(arguments);
        let program = self.command.first().map(|it| it.as_bytes()).unwrap_or_default();
        let image = Image::named(program, argv.collect(), own_env(), None)
            .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        // Without its log a daemon still starts: its last words are lost, the sessions are not.
        let log =
            || open_rotated(&self.log).or_else(|_| File::options().append(true).open("/dev/null"));
        let output = if self.foreground { None } else { Some(log()?) };
        let output_from =
            output.as_ref().map_or(Ok(0), |file| file.metadata().map(|meta| meta.len()))?;
        let Launched { pid, status } = launch(
            &ChildSpec {
                child: Become::Program(&image),
                stdio: output.as_ref().map_or(Stdio::Inherit, |file| Stdio::Output(file.as_fd())),
                pass: &[theirs.as_fd(), listener],
                // The daemon holds as many fds as the keeper: it keeps the raised limit.
                nofile: None,
                expendable: false,
            },
            slots,
        )
        .map_err(|fault| io::Error::from_raw_os_error(fault.errno))?;
        self.starts += 1;
        self.running = Some(Running {
            pid,
            started: Instant::now(),
            output_from,
            kill_at: None,
            leaving: false,
            status: Some(status),
        });
        Ok(ours)
    }

    pub(crate) fn pid(&self) -> Option<i32> {
        self.running.as_ref().map(|running| running.pid)
    }

    /// Asks the running daemon to make room for its successor, and sets the time after which it is
    /// killed.
    pub(crate) fn leave(&mut self, patience: Duration) {
        if let Some(running) = &mut self.running {
            let _ = crate::signals::kill_process(running.pid, libc::SIGTERM);
            running.kill_at = Some(Instant::now() + patience);
            running.leaving = true;
        }
    }

    /// Notes the reaped daemon's end and when the next one is due.
    pub(crate) fn ended(&mut self, status: ExitStatus) -> Option<Ended> {
        let running = self.running.take()?;
        let lived = running.started.elapsed();
        let last = LastExit { status, lived_ms: lived.as_millis() as u64 };
        self.last_exit = Some(last);
        let planned = running.leaving || status == ExitStatus::Code(EXIT_UPGRADE);
        if planned {
            self.start_at = Instant::now();
        } else if matches!(status, ExitStatus::Signal { signo: libc::SIGKILL, .. }) {
            // No program does this to itself: somebody, or the kernel short of memory, did. There
            // is no fault to back off from, and sessions wait.
            self.start_at = Instant::now() + STARTS_APART.saturating_sub(lived);
        } else {
            self.postpone(lived);
        }
        let not_started = running.status.and_then(|status| match status.poll() {
            Progress::Failed(fault) => Some(format!(
                "cannot run {}: {}",
                self.command
                    .first()
                    .map_or_else(String::new, |program| program.display().to_string()),
                io::Error::from_raw_os_error(fault.errno)
            )),
            _ => None,
        });
        Some(Ended {
            last,
            was_leaving: running.leaving,
            not_started,
            output: tail(&self.log, running.output_from),
        })
    }

    /// Sets the time of the next start after one that lived this long (or could not even be
    /// launched: zero).
    pub(crate) fn postpone(&mut self, lived: Duration) {
        if lived >= HEALTHY_AFTER {
            self.young_deaths = 0;
        }
        self.start_at = Instant::now() + backoff(self.young_deaths);
        self.young_deaths = self.young_deaths.saturating_add(1);
    }
}

/// Nothing, then 50 ms doubling to 5 s.
fn backoff(young_deaths: u32) -> Duration {
    match young_deaths.checked_sub(1) {
        None => Duration::ZERO,
        // 2^7 × 50 ms is over the limit already; the cap keeps the shift in range.
        Some(doublings) => (BACKOFF_FIRST * (1 << doublings.min(7))).min(BACKOFF_MOST),
    }
}

/// The last output of a daemon, for a start that failed.
fn tail(log: &Path, from: u64) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let file = File::open(log)?;
        let end = file.metadata()?.len();
        let begin = from.max(end.saturating_sub(TAIL_BYTES)).min(end);
        let mut bytes = vec![0; (end - begin) as usize];
        file.read_exact_at(&mut bytes, begin)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_starts_at_nothing_and_doubles_to_five_seconds() {
        let delays: Vec<u128> = (0..10).map(|n| backoff(n).as_millis()).collect();
        assert_eq!(delays, [0, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert_eq!(backoff(u32::MAX), BACKOFF_MOST);
    }

    #[test]
    fn a_daemon_that_lived_long_is_answered_at_once() {
        let mut daemon = Daemon::new(vec!["x".into()], "/dev/null".into(), false);
        for _ in 0..6 {
            daemon.postpone(Duration::ZERO);
        }
        assert!(daemon.start_at > Instant::now() + Duration::from_millis(500));
        daemon.postpone(HEALTHY_AFTER);
        assert!(daemon.start_at <= Instant::now());
        daemon.postpone(Duration::ZERO);
        assert!(daemon.start_at > Instant::now());
    }

    #[test]
    fn the_tail_of_a_failed_start_is_its_own_and_short() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("err");
        std::fs::write(&path, format!("old{}end\n", "x".repeat(9000))).unwrap();
        assert_eq!(tail(&path, 0).len(), 4095);
        assert_eq!(tail(&path, 9000), "xxxend");
        assert_eq!(tail(&path, 1 << 40), "");
    }
}

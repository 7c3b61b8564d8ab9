//! Exec in place: the same pid, fds and children under a new image.
//!
//! In: a path. First the new image reads our state in a child (`keeper --check`), so that one that
//! cannot go on is found while it can still be refused; then the daemon is told; then exec. Out:
//! nothing, on success. On failure everything is as before and there is a reason to tell. Absent on
//! purpose: fetching, verifying or choosing the new binary.
#![expect(unsafe_code, reason = "execv keeps the signal mask; std's exec resets it")]

use std::ffi::CString;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use greenroom_sandbox::launch::Image;
use rustix::pipe::PipeFlags;

use crate::fds::{Slots, survive_exec};
use crate::handover::{Handover, HandoverError};
use crate::launch::{Become, ChildSpec, Launched, Progress, Status, Stdio, launch, own_env};
use crate::message::ExitStatus;
use crate::options::CALLED;

/// Time for `--check`; it reads a few kilobytes.
pub(crate) const CHECK_PATIENCE: Duration = Duration::from_secs(5);
/// Time for the daemon to read what waits for it before exec drops it.
pub(crate) const TELL_PATIENCE: Duration = Duration::from_secs(1);
/// What an image that can go on says, exactly. Any program exits 0 on some arguments; only a keeper
/// says this.
pub(crate) const CHECKED: &str = "the state is sound";
/// How much of a failed check's output is told.
const CHECK_OUTPUT_BYTES: u64 = 2048;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplaceError {
    #[error("{} is not an absolute path", .0.display())]
    Relative(PathBuf),
    #[error(transparent)]
    State(#[from] HandoverError),
    #[error("cannot {step} {}: {source}", path.display())]
    Io { step: &'static str, path: PathBuf, source: io::Error },
    #[error("{} refused the keeper's state ({status}): {output}", path.display())]
    Refused { path: PathBuf, status: ExitStatus, output: String },
}

pub(crate) enum Replacement {
    Checking(Check),
    /// Checked; the daemon is being told.
    Telling {
        path: PathBuf,
        exec_by: Instant,
    },
}

pub(crate) struct Check {
    path: PathBuf,
    pub(crate) pid: i32,
    status: Status,
    output: OwnedFd,
    pub(crate) kill_at: Instant,
}

impl Check {
    /// Runs `<path> keeper --check 3` with the state as fd 3.
    pub(crate) fn start(
        path: &Path,
        handover: &Handover,
        slots: &Slots,
    ) -> Result<Check, ReplaceError> {
        if !path.is_absolute() {
            return Err(ReplaceError::Relative(path.to_owned()));
        }
        let error = |step, source| ReplaceError::Io { step, path: path.to_owned(), source };
        let state = handover.to_memfd()?;
        let (output, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
            .map_err(|errno| error("watch", errno.into()))?;
        let argv = [CALLED.to_bytes(), b"keeper", b"--check", b"3"];
        let argv = argv.map(<[u8]>::to_vec).to_vec();
        let image = Image::named(path.as_os_str().as_bytes(), argv, own_env(), None)
            .ok_or_else(|| error("name", io::Error::from_raw_os_error(libc::EINVAL)))?;
        let spec = ChildSpec {
            child: Become::Program(&image),
            stdio: Stdio::Output(write.as_fd()),
            pass: &[state.as_fd()],
            nofile: None,
            expendable: false,
        };
        let Launched { pid, status } = launch(&spec, slots)
            .map_err(|fault| error("launch", io::Error::from_raw_os_error(fault.errno)))?;
        Ok(Check {
            path: path.to_owned(),
            pid,
            status,
            output,
            kill_at: Instant::now() + CHECK_PATIENCE,
        })
    }

    /// The check has been reaped: may we exec this path?
    pub(crate) fn ended(self, exit: ExitStatus) -> Result<PathBuf, ReplaceError> {
        if let Progress::Failed(fault) = self.status.poll() {
            return Err(ReplaceError::Io {
                step: "run",
                path: self.path,
                source: io::Error::from_raw_os_error(fault.errno),
            });
        }
        let mut output = Vec::new();
        // Non-blocking: a grandchild that keeps the pipe open cannot hold us. What was read before
        // an error stays.
        let _ = std::fs::File::from(self.output).take(CHECK_OUTPUT_BYTES).read_to_end(&mut output);
        if exit == ExitStatus::Code(0) && output.trim_ascii() == CHECKED.as_bytes() {
            return Ok(self.path);
        }
        Err(ReplaceError::Refused {
            path: self.path,
            status: exit,
            output: String::from_utf8_lossy(&output).trim().to_owned(),
        })
    }
}

/// Becomes the new image. Returns only if that failed, with every fd CLOEXEC again.
pub(crate) fn exec(path: &Path, handover: &Handover) -> ReplaceError {
    let error = |step, source| ReplaceError::Io { step, path: path.to_owned(), source };
    let state = match handover.to_memfd() {
        Ok(state) => state,
        Err(error) => return error.into(),
    };
    let mut fds = handover.fds();
    fds.push(state.as_raw_fd());
    let Ok(program) = CString::new(path.as_os_str().as_bytes()) else {
        return error("name", io::Error::from_raw_os_error(libc::EINVAL));
    };
    let number = CString::new(state.as_raw_fd().to_string()).expect("digits hold no NUL");
    let argv = [
        CALLED.as_ptr(),
        c"keeper".as_ptr(),
        c"--resume".as_ptr(),
        number.as_ptr(),
        std::ptr::null(),
    ];
    let failure = match fds.iter().try_for_each(|fd| survive_exec(*fd, true)) {
        Ok(()) => {
            // SAFETY: the array ends with a null pointer and its strings live in this frame.
            unsafe { libc::execv(program.as_ptr(), argv.as_ptr()) };
            io::Error::last_os_error()
        }
        Err(source) => source,
    };
    for fd in fds {
        // A failure here means the fd is not open, and then it cannot leak either.
        let _ = survive_exec(fd, false);
    }
    error("exec", failure)
}

//! A child process that cannot hang us or fill our memory: deadline, cap, and a kill of its whole
//! process group.
//!
//! In: a `std::process::Command` with its environment, and what to write to its input. Out: what it
//! said. Deliberately absent: a way to run one without limits, and descendants that left the group.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// How long and how much.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub deadline: Duration,
    /// The most bytes of its output, and of its errors apart.
    pub max_output: usize,
    /// Keep the end of what is too much instead of giving up.
    pub keep_tail: bool,
}

#[derive(Debug)]
pub struct Said {
    pub status: ExitStatus,
    pub out: Vec<u8>,
    pub err: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("cannot start it: {0}")]
    Start(#[source] io::Error),
    #[error("cannot talk to it: {0}")]
    Talk(#[source] io::Error),
    #[error("it did not end within {} s and was killed", .0.as_secs())]
    TooSlow(Duration),
    #[error("it said more than {0} bytes and was killed")]
    TooMuch(usize),
}

/// What its standard input is.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    Nothing,
    Bytes(&'a [u8]),
    /// A lock, which stays locked as long as the child lives, also when we do not.
    Lock(&'a File),
}

impl<'a> Input<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Input::Bytes(bytes) => bytes,
            Input::Nothing | Input::Lock(_) => &[],
        }
    }

    fn stdio(self) -> io::Result<Stdio> {
        Ok(match self {
            Input::Nothing => Stdio::null(),
            Input::Bytes(_) => Stdio::piped(),
            Input::Lock(file) => Stdio::from(file.try_clone()?),
        })
    }
}

/// Bytes moved per read or write.
const CHUNK: usize = 64 * 1024;

/// Runs it to its end. The rest of its process group is killed then.
pub fn run(command: &mut Command, input: Input<'_>, limits: Limits) -> Result<Said, CommandError> {
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(input.stdio().map_err(CommandError::Start)?);
    let child = command.spawn().map_err(CommandError::Start)?;
    let mut talk = Talk::new(child, limits)?;
    let told = talk.hear_out(input.bytes());
    // Before the child is reaped: until then its group's number cannot belong to somebody else.
    talk.kill_group();
    let status = talk.child.wait().map_err(CommandError::Talk)?;
    told?;
    Ok(Said { status, out: talk.out.bytes, err: talk.err.bytes })
}

struct Talk {
    child: Child,
    ended: OwnedFd,
    out: Pipe,
    err: Pipe,
    until: Instant,
    limits: Limits,
}

struct Pipe {
    file: Option<File>,
    bytes: Vec<u8>,
}

impl Talk {
    fn new(mut child: Child, limits: Limits) -> Result<Talk, CommandError> {
        let made = (|| {
            let pid = Pid::from_child(&child);
            let ended = pidfd_open(pid, PidfdFlags::empty())?;
            let out = Pipe::new(child.stdout.take().map(OwnedFd::from))?;
            let err = Pipe::new(child.stderr.take().map(OwnedFd::from))?;
            Ok((ended, out, err))
        })();
        match made {
            Ok((ended, out, err)) => {
                Ok(Talk { child, ended, out, err, until: Instant::now() + limits.deadline, limits })
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(CommandError::Talk(error))
            }
        }
    }

    fn hear_out(&mut self, input: &[u8]) -> Result<(), CommandError> {
        let mut stdin = self.child.stdin.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        if let Some(stdin) = &stdin {
            rustix::io::ioctl_fionbio(stdin, true).map_err(|e| CommandError::Talk(e.into()))?;
        }
        let mut written = 0;
        loop {
            let ended = self.wait_for_news(stdin.as_ref())?;
            self.out.drain(self.limits)?;
            self.err.drain(self.limits)?;
            if ended {
                return Ok(());
            }
            if let Some(pipe) = &mut stdin {
                match pipe.write(&input[written..input.len().min(written + CHUNK)]) {
                    Ok(count) => written += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // It does not want to hear the rest; its status says whether that is a fault.
                    Err(_) => written = input.len(),
                }
            }
            if written >= input.len() {
                stdin = None;
            }
        }
    }

    /// Whether the child has ended.
    fn wait_for_news(&self, stdin: Option<&File>) -> Result<bool, CommandError> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(CommandError::TooSlow(self.limits.deadline));
        }
        let mut fds = vec![PollFd::new(&self.ended, PollFlags::IN)];
        for file in [&self.out.file, &self.err.file].into_iter().flatten() {
            fds.push(PollFd::new(file, PollFlags::IN));
        }
        if let Some(stdin) = stdin {
            fds.push(PollFd::new(stdin, PollFlags::OUT));
        }
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!fds[0].revents().is_empty()),
            Err(error) => Err(CommandError::Talk(error.into())),
        }
    }

    fn kill_group(&self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }
}

impl Pipe {
    fn new(fd: Option<OwnedFd>) -> io::Result<Pipe> {
        let file = fd.map(File::from);
        if let Some(file) = &file {
            set_nonblocking(file.as_fd())?;
        }
        Ok(Pipe { file, bytes: Vec::new() })
    }

    fn drain(&mut self, limits: Limits) -> Result<(), CommandError> {
        let mut chunk = [0; 16 * 1024];
        while let Some(file) = &mut self.file {
            match file.read(&mut chunk) {
                Ok(0) => self.file = None,
                Ok(count) => self.bytes.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(CommandError::Talk(error)),
            }
            if self.bytes.len() > limits.max_output {
                if !limits.keep_tail {
                    return Err(CommandError::TooMuch(limits.max_output));
                }
                let excess = self.bytes.len() - limits.max_output;
                self.bytes.drain(..excess);
            }
        }
        Ok(())
    }
}

fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, true)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { deadline: Duration::from_secs(20), max_output: 100_000, keep_tail: false };

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        command
    }

    #[test]
    fn more_than_a_pipe_goes_through_both_ways() {
        let input = vec![b'x'; 1 << 20];
        let limits = Limits { max_output: 2 << 20, ..LIMITS };
        let said = run(&mut Command::new("cat"), Input::Bytes(&input), limits).unwrap();
        assert_eq!(said.out.len(), input.len());
    }

    #[test]
    fn a_deadline_kills_the_whole_group() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let script = format!("sleep 600 > {} & sleep 600", fifo.display());
        let limits = Limits { deadline: Duration::from_millis(300), ..LIMITS };
        let reader = std::thread::spawn(move || std::fs::read(fifo).unwrap());
        let error = run(&mut sh(&script), Input::Nothing, limits).unwrap_err();
        assert!(matches!(error, CommandError::TooSlow(_)), "{error}");
        // The grandchild held the fifo open: end of file means that it is dead.
        assert_eq!(reader.join().unwrap(), b"");
    }

    #[test]
    fn too_much_is_an_error_or_cut() {
        let script = "head -c 300000 /dev/zero; echo end";
        let error = run(&mut sh(script), Input::Nothing, LIMITS).unwrap_err();
        assert!(matches!(error, CommandError::TooMuch(_)), "{error}");
        let said =
            run(&mut sh(script), Input::Nothing, Limits { keep_tail: true, ..LIMITS }).unwrap();
        assert!(said.out.len() <= LIMITS.max_output && said.out.ends_with(b"end\n"));
    }

    #[test]
    fn a_background_child_does_not_hold_us() {
        let said = run(&mut sh("sleep 600 & echo done"), Input::Nothing, LIMITS).unwrap();
        assert_eq!(said.out, b"done\n");
    }
}

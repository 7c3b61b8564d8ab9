//! Starting a keeper, and what it says of its start.
//!
//! In: where everything of that host lies. Out: the process, and one of three words: it is up,
//! somebody else has the directory, or why it will not be up. Absent on purpose: what to do about
//! each of them.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use greenroom_keeper::{READY_HELD, READY_OK};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use crate::error::{Failure, plain};

/// How long a host may take to come up: a cold disk and a long recovery included.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// Longest text on the ready pipe: the keeper sends at most 4 KiB of a failed daemon's last words.
const READY_MAX: u64 = 16 * 1024;

/// What a keeper says of its start.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    Up,
    /// Somebody else has the directory.
    Held {
        pid: Option<i32>,
        why: String,
    },
    Failed(String),
}

/// This program as a keeper. Its stdin will be the ready pipe: the only descriptor that can be
/// handed to a child without unsafe code and is of no use to it.
///
/// `home` is where everything of that host lies, if not where the environment says.
pub fn command(home: Option<&Path>) -> Command {
    let mut command = Command::new(program());
    command.arg0("greenroom").arg("keeper").arg("--ready").current_dir("/");
    if let Some(home) = home {
        command.env("GREENROOM_HOME", home);
    }
    command
}

/// Starts it. What it says comes when the host is up, or will not be. The command is dropped here:
/// it holds an end of the ready pipe, which must close with the keeper.
pub fn start(mut command: Command) -> Result<(Child, impl Future<Output = Said>), Failure> {
    let refuse = |error: std::io::Error| Failure::io("cannot start the host", &error);
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| refuse(error.into()))?;
    let pipe = pipe::Receiver::from_owned_fd(read).map_err(refuse)?;
    let child = command.stdin(Stdio::from(write)).spawn().map_err(refuse)?;
    Ok((child, said(pipe)))
}

async fn said(pipe: pipe::Receiver) -> Said {
    let mut bytes = Vec::new();
    let mut pipe = pipe.take(READY_MAX);
    let read = tokio::time::timeout(START_PATIENCE, pipe.read_to_end(&mut bytes)).await;
    match read {
        Err(_) => Said::Failed(format!("it is not up after {} s", START_PATIENCE.as_secs())),
        Ok(Err(error)) => Said::Failed(plain(&error)),
        Ok(Ok(_)) => Said::read(&String::from_utf8_lossy(&bytes)),
    }
}

impl Said {
    fn read(text: &str) -> Said {
        if text == READY_OK {
            return Said::Up;
        }
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        if let Some(pid) = first.strip_prefix(READY_HELD) {
            let pid = pid.parse().ok().filter(|pid| *pid > 0);
            return Said::Held { pid, why: rest.trim_end().to_owned() };
        }
        match text.trim_end() {
            "" => Said::Failed("it ended without a word".to_owned()),
            text => Said::Failed(text.to_owned()),
        }
    }
}

/// A keeper that must not outlive whoever started it.
#[derive(Debug)]
pub struct OwnedKeeper(Option<Child>);

impl OwnedKeeper {
    pub fn new(keeper: Child) -> OwnedKeeper {
        OwnedKeeper(Some(keeper))
    }

    pub fn keeper(&mut self) -> Option<&mut Child> {
        self.0.as_mut()
    }

    /// Ends it and everything it holds; it has its own deadlines.
    pub fn end(&mut self) {
        if let Some(mut keeper) = self.0.take() {
            if let Ok(None) = keeper.try_wait() {
                // It may have ended in between.
                let _ = rustix::process::kill_process(
                    rustix::process::Pid::from_child(&keeper),
                    rustix::process::Signal::TERM,
                );
            }
            let _ = keeper.wait();
        }
    }

    /// It has been asked to end: waits for that.
    pub fn ended(&mut self) {
        if let Some(mut keeper) = self.0.take() {
            let _ = keeper.wait();
        }
    }
}

impl Drop for OwnedKeeper {
    fn drop(&mut self) {
        self.end();
    }
}

/// This program. Its own path if it is still there: a replaced file leaves `/proc/self/exe` only.
pub fn program() -> PathBuf {
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        _ => PathBuf::from("/proc/self/exe"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keepers_words_are_told_apart() {
        assert_eq!(Said::read("ok\n"), Said::Up);
        let held = |pid| Said::Held { pid, why: "somebody has it already".to_owned() };
        assert_eq!(Said::read("held 12\nsomebody has it already\n"), held(Some(12)));
        assert_eq!(Said::read("held 0\nsomebody has it already\n"), held(None));
        let odd = "cannot read a file called already\n";
        assert_eq!(Said::read(odd), Said::Failed(odd.trim_end().to_owned()));
        assert!(matches!(Said::read(""), Said::Failed(_)));
    }
}

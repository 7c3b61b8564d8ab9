//! The host's own processes: what the arguments say, handed to the rooms that do the work.
//!
//! In: the arguments after `greenroom keeper` or `greenroom daemon`. Out: an exit code when the
//! process is done. These arguments are between our own processes; people use `greenroom serve`.

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;

use greenroom_config::Paths;
use greenroom_daemon::DaemonOptions;
use greenroom_keeper::KeeperOptions;
use greenroom_protocol::fault::exit;

use crate::output::tell;

/// `greenroom keeper [--ready] [--foreground]`, or `--resume FD`, or `--check FD`.
pub fn keeper(args: &[OsString]) -> ExitCode {
    let text = |at: usize| args.get(at).and_then(|arg| arg.to_str());
    let number = |at: usize| text(at).and_then(|text| text.parse::<i32>().ok());
    match (text(0), number(1)) {
        (Some("--resume"), Some(fd)) => {
            // Without paths of its own it goes on where the old image was.
            let own = Paths::from_env().ok().map(|paths| paths.of_keeper());
            return greenroom_keeper::resume(fd, own);
        }
        (Some("--check"), Some(fd)) => return greenroom_keeper::check(fd),
        _ => {}
    }
    if let Some(wrong) = args.iter().find(|arg| *arg != "--ready" && *arg != "--foreground") {
        tell(&format!("greenroom: the keeper does not know the argument {}", wrong.display()));
        return ExitCode::from(exit::USAGE);
    }
    let given = |flag: &str| args.iter().any(|arg| arg == flag);
    let (ready, foreground) = (given("--ready").then(ready_pipe).flatten(), given("--foreground"));
    if !foreground {
        // The starter is not a group leader's child of its own: this fails only if we lead already.
        let _ = rustix::process::setsid();
    }
    let paths = match Paths::from_env() {
        Ok(paths) => paths,
        Err(error) => return refuse(ready, &error.to_string()),
    };
    if let Err(error) = paths.prepare() {
        return refuse(ready, &error.to_string());
    }
    let daemon = vec![OsString::from("/proc/self/exe"), OsString::from("daemon")];
    greenroom_keeper::run(KeeperOptions {
        paths: paths.of_keeper(),
        log: paths.keeper_log(),
        daemon_log: paths.daemon_err(),
        daemon,
        foreground,
        ready_fd: ready,
    })
}

/// `greenroom daemon`: only a keeper starts it.
pub fn daemon(args: &[OsString]) -> ExitCode {
    if let Some(wrong) = args.first() {
        tell(&format!("greenroom: the daemon does not know the argument {}", wrong.display()));
        return ExitCode::from(exit::USAGE);
    }
    greenroom_daemon::run(DaemonOptions::default())
}

/// Takes the ready pipe from stdin, and puts nothing in its place.
fn ready_pipe() -> Option<OwnedFd> {
    let pipe = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
    if let Ok(null) = File::open("/dev/null") {
        // If this fails the pipe stays open in us too, and the starter waits for its deadline.
        let _ = rustix::stdio::dup2_stdin(&null);
    }
    Some(pipe)
}

fn refuse(ready: Option<OwnedFd>, why: &str) -> ExitCode {
    match ready {
        Some(pipe) => {
            // The starter may be gone; there is nobody else to tell.
            let _ = std::io::Write::write_all(&mut File::from(pipe), why.as_bytes());
        }
        None => tell(&format!("greenroom: {why}")),
    }
    ExitCode::from(exit::FAILED)
}

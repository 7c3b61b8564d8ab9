//! A keeper whose daemon lends its link to a test, which then plays the daemon with the real
//! launcher.
//!
//! `worker-host keeper DIRECTORY` runs a keeper there and says "ok" on stdout when it serves.
//! `worker-host daemon DIRECTORY` (started by the keeper) connects to `DIRECTORY/control`, sends
//! its link and its pid there, and ends with the connection.

use std::ffi::OsString;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

use greenroom_keeper::{KeeperOptions, KeeperPaths, inherited};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let text: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    match text.as_slice() {
        ["keeper", dir] => keeper(PathBuf::from(dir)),
        ["daemon", dir] => daemon(PathBuf::from(dir)),
        _ => ExitCode::from(2),
    }
}

fn keeper(dir: PathBuf) -> ExitCode {
    greenroom_keeper::run(KeeperOptions {
        paths: KeeperPaths {
            state: dir.clone(),
            lock: dir.join("run/greenroom.lock"),
            socket: dir.join("run/greenroom.sock"),
            alias: None,
            earlier_locks: Vec::new(),
        },
        log: dir.join("logs/keeper.log"),
        daemon_log: dir.join("logs/daemon.err"),
        daemon: vec!["/proc/self/exe".into(), "daemon".into(), dir.into()],
        foreground: false,
        ready_fd: None,
    })
}

fn daemon(dir: PathBuf) -> ExitCode {
    let inherited = inherited().expect("started by a keeper");
    let Ok(mut control) = UnixStream::connect(dir.join("control")) else {
        return ExitCode::from(1);
    };
    let fds = [inherited.link.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    let pid = std::process::id().to_le_bytes();
    let sent =
        rustix::net::sendmsg(&control, &[IoSlice::new(&pid)], &mut ancillary, SendFlags::empty());
    let mut end = [0];
    let _ = sent.is_ok() && control.read_exact(&mut end).is_ok();
    ExitCode::from(1)
}

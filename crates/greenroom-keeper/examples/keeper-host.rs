//! A program around the keeper for its tests: a keeper, and a daemon that hands its link to the
//! test.
//!
//! `keeper-host keeper <directory>` runs a keeper in that directory and says "ok" on stdout;
//! `--resume` and `--check` are as in the real binary. `keeper-host daemon` (started by the keeper)
//! connects to `<directory>/control`, sends its link, its listening socket and its pid there, and
//! exits with the code it is sent, or with 1 at the end of the connection.

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
        ["keeper", "--resume", fd] => greenroom_keeper::resume(fd.parse().expect("a number"), None),
        ["keeper", "--check", fd] => greenroom_keeper::check(fd.parse().expect("a number")),
        ["keeper", dir] => keeper(PathBuf::from(dir)),
        ["daemon", dir] => daemon(PathBuf::from(dir)),
        _ => ExitCode::from(2),
    }
}

fn keeper(dir: PathBuf) -> ExitCode {
    let ready = std::io::stdout().as_fd().try_clone_to_owned().expect("stdout is open");
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
        ready_fd: Some(ready),
    })
}

/// A file `fail` in the directory makes this a daemon with a broken configuration.
fn daemon(dir: PathBuf) -> ExitCode {
    if let Ok(text) = std::fs::read_to_string(dir.join("fail")) {
        use std::io::Write;
        std::io::stderr().write_all(text.as_bytes()).expect("stderr is open");
        return ExitCode::from(1);
    }
    let inherited = inherited().expect("started by a keeper");
    let Ok(mut control) = UnixStream::connect(dir.join("control")) else {
        return ExitCode::from(1);
    };
    let fds = [inherited.link.as_fd(), inherited.listener.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    let pid = std::process::id().to_le_bytes();
    let sent =
        rustix::net::sendmsg(&control, &[IoSlice::new(&pid)], &mut ancillary, SendFlags::empty());
    if sent.is_err() {
        return ExitCode::from(1);
    }
    let mut code = [1];
    let _ = control.read_exact(&mut code);
    ExitCode::from(code[0])
}

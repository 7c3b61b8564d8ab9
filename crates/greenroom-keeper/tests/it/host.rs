//! A keeper in a temporary directory, and the daemon the test plays: the real daemon process hands its link over and waits.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use greenroom_keeper::{
    ExitStatus, KeeperEvent, KeeperHello, KeeperLink, SessionEntry, SessionFds, SessionId,
    SpawnSpec,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

/// Far longer than anything takes; a test that gets here has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct Host {
    pub dir: TempDir,
    pub keeper: Child,
    control: UnixListener,
}

/// The example that is keeper and daemon; built beside the tests.
pub fn program() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let path = exe.ancestors().nth(2).unwrap().join("examples/keeper-host");
    assert!(path.exists(), "{} is missing: build the examples too", path.display());
    path
}

pub fn keeper_command(dir: &Path) -> Command {
    let mut command = Command::new(program());
    command
        .arg("keeper")
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    command
}

impl Host {
    /// A keeper whose first daemon is connected and has said hello.
    pub fn start() -> (Host, FakeDaemon) {
        let mut host = Host::start_silent();
        let daemon = host.daemon();
        daemon.link.ready().unwrap();
        let mut ready = [0; 3];
        let stdout = host.keeper.stdout.as_mut().unwrap();
        stdout.read_exact(&mut ready).unwrap();
        assert_eq!(&ready, b"ok\n");
        (host, daemon)
    }

    /// The same as another user. Only root can.
    pub fn start_as(uid: u32) -> (Host, FakeDaemon) {
        let dir = tempfile::tempdir().unwrap();
        let control = UnixListener::bind(dir.path().join("control")).unwrap();
        // The build's own directory may be out of reach for others.
        let image = dir.path().join("keeper-host");
        std::fs::copy(program(), &image).unwrap();
        for path in [dir.path(), &dir.path().join("control"), &image] {
            std::os::unix::fs::chown(path, Some(uid), Some(uid)).unwrap();
        }
        // A net under the tests with fork bombs: should one get away, the machine is still there.
        let mut command = Command::new("bash");
        command.args(["-c", "ulimit -u 3000; exec \"$0\" \"$@\""]).arg(&image);
        command.arg("keeper").arg(dir.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        let keeper = command.uid(uid).gid(uid).spawn().unwrap();
        let mut host = Host { dir, keeper, control };
        let daemon = host.daemon();
        (host, daemon)
    }

    pub fn start_silent() -> Host {
        let dir = tempfile::tempdir().unwrap();
        let control = UnixListener::bind(dir.path().join("control")).unwrap();
        let keeper = keeper_command(dir.path()).spawn().unwrap();
        Host { dir, keeper, control }
    }

    pub fn pid(&self) -> i32 {
        self.keeper.id() as i32
    }

    /// Waits for the next daemon and says hello for it.
    pub fn daemon(&mut self) -> FakeDaemon {
        assert!(
            readable(self.control.as_fd(), PATIENCE),
            "no daemon was started; log:\n{}",
            self.log()
        );
        let (control, _) = self.control.accept().unwrap();
        let (pid, fds) = receive(&control);
        let [link, listener] = <[OwnedFd; 2]>::try_from(fds).unwrap();
        set_socket_timeout(&link, Timeout::Recv, Some(PATIENCE)).unwrap();
        let link = KeeperLink::new(link).unwrap();
        link.hello().unwrap();
        let KeeperEvent::Hello(hello) = link.recv().unwrap().unwrap() else {
            panic!("expected hello");
        };
        let over = RefCell::default();
        FakeDaemon { pid, link, listener: listener.into(), control, hello, over }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("logs/keeper.log")).unwrap_or_default()
    }

    /// Waits for the keeper's own end.
    pub fn wait(&mut self) -> Option<i32> {
        let fd = rustix::process::pidfd_open(
            Pid::from_raw(self.pid()).unwrap(),
            rustix::process::PidfdFlags::empty(),
        )
        .unwrap();
        assert!(readable(fd.as_fd(), PATIENCE), "the keeper lives on; log:\n{}", self.log());
        self.keeper.wait().unwrap().code()
    }

    pub fn fd_count(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Direct children of the keeper, zombies included.
    pub fn children(&self) -> Vec<i32> {
        let pid = self.pid();
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln_log(&self.log());
        }
        if matches!(self.keeper.try_wait(), Ok(Some(_))) {
            return;
        }
        let pid = Pid::from_raw(self.pid()).unwrap();
        for _ in 0..2 {
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        if !readable(pidfd.as_fd(), Duration::from_secs(5)) {
            let _ = self.keeper.kill();
        }
        let _ = self.keeper.wait();
    }
}

#[expect(clippy::print_stderr, reason = "what a failed test needs to be understood")]
fn eprintln_log(log: &str) {
    eprintln!("--- keeper log ---\n{log}");
}

pub struct FakeDaemon {
    pub pid: i32,
    pub link: KeeperLink,
    pub listener: UnixListener,
    control: UnixStream,
    pub hello: KeeperHello,
    /// Sessions of which nothing is left; told at any time.
    over: RefCell<HashSet<u64>>,
}

impl FakeDaemon {
    pub fn kill(self) {
        let pid = Pid::from_raw(self.pid).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }

    /// Returns when the daemon's process has ended.
    pub fn wait_for_end(mut self) {
        let mut rest = Vec::new();
        self.control.read_to_end(&mut rest).unwrap();
    }

    pub fn exit(mut self, code: u8) {
        self.control.write_all(&[code]).unwrap();
    }

    /// The next event that is not the last of a session.
    pub fn next(&self) -> KeeperEvent {
        loop {
            match self.link.recv().expect("a message in time").expect("the keeper lives") {
                KeeperEvent::Over { id } => drop(self.over.borrow_mut().insert(id.0)),
                other => return other,
            }
        }
    }

    /// Returns when nothing of the session is left.
    pub fn over(&self, id: u64) {
        while !self.over.borrow().contains(&id) {
            match self.link.recv().expect("a message in time").expect("the keeper lives") {
                KeeperEvent::Over { id } => drop(self.over.borrow_mut().insert(id.0)),
                other => panic!("expected the last of {id}, got {other:?}"),
            }
        }
    }

    pub fn spawn(&self, id: u64, spec: &SpawnSpec) -> (i32, SessionFds) {
        let (pid, _, fds) = self.spawn_held(id, spec);
        (pid, fds)
    }

    /// With the session's warden.
    pub fn spawn_held(&self, id: u64, spec: &SpawnSpec) -> (i32, i32, SessionFds) {
        self.link.spawn(SessionId(id), spec, None).unwrap();
        match self.next() {
            KeeperEvent::Spawned { id: got, pid, warden, fds } if got.0 == id => (pid, warden, fds),
            other => panic!("expected spawned {id}, got {other:?}"),
        }
    }

    pub fn wardens(&self) -> Vec<(u64, i32)> {
        self.link.wardens().unwrap();
        match self.next() {
            KeeperEvent::Wardens { wardens, more: false } => {
                wardens.into_iter().map(|(id, pid)| (id.0, pid)).collect()
            }
            other => panic!("expected wardens, got {other:?}"),
        }
    }

    pub fn exited(&self, id: u64) -> ExitStatus {
        match self.next() {
            KeeperEvent::Exited { id: got, status } if got.0 == id => status,
            other => panic!("expected exited {id}, got {other:?}"),
        }
    }

    pub fn list(&self) -> Vec<SessionEntry> {
        self.link.list().unwrap();
        let mut all = Vec::new();
        loop {
            match self.next() {
                KeeperEvent::Sessions { sessions, more } => {
                    all.extend(sessions);
                    if !more {
                        return all;
                    }
                }
                other => panic!("expected sessions, got {other:?}"),
            }
        }
    }

    pub fn take(&self, ids: &[u64]) -> Vec<(SessionId, SessionFds)> {
        let ids: Vec<_> = ids.iter().map(|id| SessionId(*id)).collect();
        self.link.take(&ids).unwrap();
        match self.next() {
            KeeperEvent::Taken { sessions } => sessions,
            other => panic!("expected taken, got {other:?}"),
        }
    }
}

fn receive(control: &UnixStream) -> (i32, Vec<OwnedFd>) {
    let mut pid = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    rustix::net::recvmsg(
        control,
        &mut [IoSliceMut::new(&mut pid)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC,
    )
    .unwrap();
    let fds = ancillary
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => Some(fds),
            _ => None,
        })
        .flatten()
        .collect();
    (i32::from_le_bytes(pid), fds)
}

/// A shell script as a session, with a small environment.
pub fn sh(script: &str) -> SpawnSpec {
    spec(&["/bin/sh", "-c", script])
}

pub fn spec(argv: &[&str]) -> SpawnSpec {
    SpawnSpec {
        argv: argv.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
        env: vec![
            (b"PATH".to_vec(), b"/usr/bin:/bin".to_vec()),
            (b"TERM".to_vec(), b"xterm".to_vec()),
        ],
        cwd: b"/".to_vec(),
        cols: 80,
        rows: 24,
        ring_bytes: 65536,
        flags: 0,
    }
}

pub fn readable(fd: BorrowedFd<'_>, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => panic!("poll: {errno}"),
        }
    }
}

/// Reads the terminal until `stop` is in it, or to its end.
pub fn read_until(master: &OwnedFd, stop: &str) -> String {
    let mut all = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&all).into_owned();
        if !stop.is_empty() && text.contains(stop) {
            return text;
        }
        assert!(readable(master.as_fd(), PATIENCE), "waited for {stop:?}, got {text:?}");
        let mut bytes = [0; 4096];
        match rustix::io::read(master, &mut bytes) {
            Ok(0) | Err(rustix::io::Errno::IO) => {
                assert!(stop.is_empty(), "ended before {stop:?}: {text:?}");
                return text;
            }
            Ok(count) => all.extend_from_slice(&bytes[..count]),
            Err(rustix::io::Errno::AGAIN) => {}
            Err(errno) => panic!("read: {errno}"),
        }
    }
}

/// Everything up to the end of the terminal.
pub fn read_all(master: &OwnedFd) -> String {
    read_until(master, "")
}

pub fn write(master: &OwnedFd, text: &str) {
    let written = rustix::io::write(master, text.as_bytes()).unwrap();
    assert_eq!(written, text.len());
}

pub fn alive(pid: i32) -> bool {
    rustix::process::test_kill_process(Pid::from_raw(pid).unwrap()).is_ok()
}

//! A keeper in a temporary directory, and the daemon the test plays: the real daemon process hands
//! its link over and waits.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use greenroom_keeper::{
    ExitStatus, KeeperEvent, KeeperHello, KeeperLink, Launch, SessionEntry, SessionFds, SessionId,
    SpawnSpec,
};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;
pub use test_kit::process::exists as alive;
use test_kit::process::{self, gone_within};
pub use test_kit::terminal::{read_all, read_until};
use test_kit::user::User;
pub use test_kit::wait::{PATIENCE, readable};

pub struct Host {
    pub dir: TempDir,
    pub keeper: Child,
    control: UnixListener,
}

/// The example that is keeper and daemon.
pub fn program() -> PathBuf {
    test_kit::place::example("keeper-host")
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

    /// The same as another user.
    pub fn start_as(user: User) -> (Host, FakeDaemon) {
        let dir = tempfile::tempdir().unwrap();
        let control = UnixListener::bind(dir.path().join("control")).unwrap();
        // The build's own directory may be out of reach for others.
        let image = dir.path().join("keeper-host");
        std::fs::copy(program(), &image).unwrap();
        user.owns(dir.path());
        // A net under the tests with fork bombs: should one get away, the machine is still there.
        let mut command = user.command("bash");
        command.args(["-c", "ulimit -u 3000; exec \"$0\" \"$@\""]).arg(&image);
        command.arg("keeper").arg(dir.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        let keeper = command.spawn().unwrap();
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
        assert!(readable(&self.control, PATIENCE), "no daemon was started; log:\n{}", self.log());
        let (control, _) = self.control.accept().unwrap();
        let mut pid = [0; 4];
        let (_, fds) = test_kit::socket::receive(&control, &mut pid);
        let pid = i32::from_le_bytes(pid);
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
        let pid = Pid::from_child(&self.keeper);
        assert!(gone_within(pid, PATIENCE), "the keeper lives on; log:\n{}", self.log());
        self.keeper.wait().unwrap().code()
    }

    pub fn fd_count(&self) -> usize {
        process::open_files(self.pid())
    }

    /// Direct children of the keeper, zombies included.
    pub fn children(&self) -> Vec<i32> {
        process::children(self.pid())
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
        if !gone_within(pid, Duration::from_secs(5)) {
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
        self.link.spawn(SessionId(id), spec).unwrap();
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

/// A shell script as a session, with a small environment.
pub fn sh(script: &str) -> SpawnSpec {
    spec(&["/bin/sh", "-c", script])
}

pub fn spec(argv: &[&str]) -> SpawnSpec {
    let launch = Launch::new(
        argv.iter().map(Into::into).collect(),
        vec![("PATH".into(), "/usr/bin:/bin".into()), ("TERM".into(), "xterm".into())],
        "/",
        80,
        24,
    );
    SpawnSpec { launch, ring_bytes: 65536, flags: 0 }
}

pub fn write(master: &OwnedFd, text: &str) {
    let written = rustix::io::write(master, text.as_bytes()).unwrap();
    assert_eq!(written, text.len());
}

//! A place to be caged in: directories to keep safe, a program to run inside, and what came of it.

use std::ffi::OsString;
use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use greenroom_sandbox::control::{Fault, Report};
use greenroom_sandbox::plan::{Payload, Plan, compile};
use greenroom_sandbox::policy::{Level, Policy};
use greenroom_sandbox::probe::Probe;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};
use tempfile::TempDir;

/// Far longer than anything takes; a test that gets here has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Nobody on any machine we know.
const OTHER_UID: u32 = 61_001;

/// Who is caged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// As whoever runs the tests, if that is root.
    Root,
    /// Somebody without any rights.
    Ordinary,
}

impl User {
    /// Those this machine can test, loudly leaving out the rest.
    pub fn all() -> Vec<User> {
        if rustix::process::geteuid().is_root() {
            vec![User::Ordinary, User::Root]
        } else {
            eprintln!("NOT RUN as root: the tests run as an ordinary user");
            vec![User::Ordinary]
        }
    }

    pub fn uid(self) -> u32 {
        match self {
            User::Ordinary if rustix::process::geteuid().is_root() => OTHER_UID,
            _ => rustix::process::geteuid().as_raw(),
        }
    }

    /// Commands run as this user.
    pub fn command(self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        if self.uid() != rustix::process::geteuid().as_raw() {
            command.uid(self.uid()).gid(self.uid());
        }
        command
    }
}

/// Directories: `work` to write in, `out` to keep safe, `home`, `state` to hide, `tmp` to become `/tmp`.
pub struct World {
    pub user: User,
    dir: TempDir,
}

impl World {
    pub fn new(user: User) -> World {
        World::below(user, Path::new("/var/tmp"))
    }

    pub fn below(user: User, parent: &Path) -> World {
        let dir = tempfile::Builder::new().prefix("greenroom-cage-").tempdir_in(parent).unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let world = World { user, dir };
        // The build's own directory may be out of reach for others. A link is enough if it can be made.
        let (built, program) = (built("escapee"), world.escapee());
        if std::fs::hard_link(&built, &program).is_err() {
            std::fs::copy(&built, &program).unwrap();
        }
        for name in ["work", "out", "home", "state", "tmp"] {
            std::fs::create_dir(world.path(name)).unwrap();
        }
        std::fs::create_dir(world.path("home/.ssh")).unwrap();
        world.write("home/.ssh/id", "a key");
        world.write("home/.bashrc", "# mine\n");
        world.write("out/file", "untouched");
        world.write("state/token", "a token");
        world.own();
        world
    }

    /// Gives everything to the user, except the program, which may be a link.
    pub fn own(&self) {
        for name in ["work", "out", "home", "state", "tmp"] {
            give(&self.path(name), self.user.uid());
        }
        let uid = self.user.uid();
        std::os::unix::fs::lchown(self.dir.path(), Some(uid), Some(uid)).unwrap();
    }

    pub fn escapee(&self) -> PathBuf {
        self.path("escapee")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        // tempfile may be below a symlink on some machines.
        self.dir.path().canonicalize().unwrap().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn policy(&self, level: Level) -> Policy {
        Policy {
            home: Some(self.path("home")),
            hidden: vec![self.path("home/.ssh"), self.path("state")],
            visible: vec![self.escapee()],
            ..Policy::new(level, self.path("work"), self.path("tmp"))
        }
    }

    pub fn run(&self, policy: &Policy, argv: &[&str]) -> Outcome {
        Caged::start(self, policy, argv).end()
    }

    pub fn sh(&self, level: Level, script: &str) -> Outcome {
        self.run(&self.policy(level), &["sh", "-c", script])
    }
}

fn give(path: &Path, uid: u32) {
    std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), uid);
        }
    }
}

/// The example, built beside the tests.
pub fn built(name: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let path = exe.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is missing: build the examples too", path.display());
    path
}

/// What the machine can do, tried once.
pub fn probe_as(user: User) -> Probe {
    static PROBE: OnceLock<Probe> = OnceLock::new();
    Probe { uid: user.uid(), ..PROBE.get_or_init(greenroom_sandbox::probe::probe).clone() }
}

pub fn plan(world: &World, policy: &Policy) -> Plan {
    compile(policy, &probe_as(world.user)).unwrap()
}

/// A stage that was started.
pub struct Caged {
    pub child: Child,
    pub control: OwnedFd,
}

/// How it ended.
#[derive(Debug)]
pub struct Outcome {
    pub fault: Option<Fault>,
    /// Everything the terminal showed.
    pub text: String,
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

impl Outcome {
    #[track_caller]
    pub fn ok(&self) -> &str {
        assert!(self.fault.is_none() && self.code == Some(0), "{self:?}");
        self.text.trim()
    }
}

/// What came with `Ready`.
pub struct Ready {
    pub master: OwnedFd,
    pub inner: Option<OwnedFd>,
    pub listener: Option<OwnedFd>,
}

impl Caged {
    pub fn start(world: &World, policy: &Policy, argv: &[&str]) -> Caged {
        Caged::start_with(world, &plan(world, policy), argv, world.user.command(world.escapee()))
    }

    pub fn start_with(world: &World, plan: &Plan, argv: &[&str], mut command: Command) -> Caged {
        let env =
            [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("TERM", "xterm"), ("LANG", "C.UTF-8")];
        let home = world.path("home").into_os_string();
        let env = env.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let env = env.into_iter().chain([("HOME".into(), home)]).collect();
        let argv = argv.iter().map(OsString::from).collect();
        let payload = Payload { argv, env, cwd: plan.policy.cwd.clone(), cols: 80, rows: 24 };
        let sealed = plan.seal(&payload).unwrap();
        let (control, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let (plan, theirs_raw) = (sealed.as_raw_fd(), theirs.as_raw_fd());
        command.arg("__sandbox-exec");
        // SAFETY: only system calls between fork and exec.
        unsafe {
            command.pre_exec(move || {
                // Above the numbers they will have, so that neither overwrites the other.
                let plan = libc::fcntl(plan, libc::F_DUPFD_CLOEXEC, 10);
                let control = libc::fcntl(theirs_raw, libc::F_DUPFD_CLOEXEC, 10);
                libc::dup2(plan, 3);
                libc::dup2(control, 4);
                libc::setsid();
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        Caged { child, control }
    }

    /// The next report, or `None` at the end.
    pub fn report(&self) -> Option<(Report, Vec<OwnedFd>)> {
        assert!(readable(self.control.as_fd(), PATIENCE), "the stage says nothing");
        let mut bytes = [0; 8192];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::net::recvmsg(
            &self.control,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )
        .unwrap();
        if received.bytes == 0 {
            return None;
        }
        let fds = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(fds) => fds.collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        Some((Report::decode(&bytes[..received.bytes]).unwrap(), fds.collect()))
    }

    /// Waits until the program runs.
    pub fn ready(&self) -> Result<Ready, Fault> {
        let Some((report, fds)) = self.report() else {
            return Err(Fault::new(greenroom_sandbox::layer::Layer::Plan, "hear anything", 0));
        };
        let mut fds = fds.into_iter();
        let ready = match report {
            Report::Fault(fault) => return Err(fault),
            Report::Ready { inner, listener } => Ready {
                master: fds.next().unwrap(),
                inner: inner.then(|| fds.next().unwrap()),
                listener: listener.then(|| fds.next().unwrap()),
            },
        };
        assert!(fds.next().is_none());
        match self.report() {
            None => Ok(ready),
            Some((Report::Fault(fault), _)) => Err(fault),
            Some(other) => panic!("{other:?}"),
        }
    }

    pub fn end(self) -> Outcome {
        match self.ready() {
            Err(fault) => self.over(Some(fault), String::new()),
            Ok(ready) => self.end_after(ready.master),
        }
    }

    /// As `end`, for one that is known to run.
    pub fn end_after(self, master: OwnedFd) -> Outcome {
        let text = read_all(master);
        self.over(None, text)
    }

    fn over(mut self, fault: Option<Fault>, text: String) -> Outcome {
        let status = self.wait();
        Outcome { fault, text, code: status.code(), signal: status.signal() }
    }

    pub fn wait(&mut self) -> std::process::ExitStatus {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).unwrap();
        let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        if !readable(fd.as_fd(), PATIENCE) {
            let _ = self.child.kill();
            panic!("the stage does not end");
        }
        self.child.wait().unwrap()
    }
}

/// Everything a terminal shows until its other side is gone.
pub fn read_all(master: OwnedFd) -> String {
    let mut text = Vec::new();
    let begun = Instant::now();
    let mut file = std::fs::File::from(master);
    loop {
        assert!(begun.elapsed() < PATIENCE, "no end of {}", String::from_utf8_lossy(&text));
        readable(file.as_fd(), PATIENCE);
        let mut bytes = [0; 4096];
        match file.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => text.extend(&bytes[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            // EIO: the last slave is closed.
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&text).replace('\r', "")
}

pub fn readable(fd: std::os::fd::BorrowedFd<'_>, patience: Duration) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: 0 };
    rustix::event::poll(&mut fds, Some(&timeout)).unwrap() > 0
}

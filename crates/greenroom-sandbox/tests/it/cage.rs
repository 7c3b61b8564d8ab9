//! A place to be caged in: directories to keep safe, a program to run inside, and what came of it.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;

use greenroom_sandbox::control::{Report, StageError};
use greenroom_sandbox::launch::Launch;
use greenroom_sandbox::plan::{Plan, compile};
use greenroom_sandbox::policy::{Level, Policy};
use greenroom_sandbox::probe::Probe;
use greenroom_sandbox::wire::Wire;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::Pid;
use tempfile::TempDir;
use test_kit::place::{self, example, link_or_copy};
use test_kit::process::gone_within;
pub use test_kit::terminal::read_all;
pub use test_kit::user::User;
pub use test_kit::wait::{PATIENCE, readable};

/// Directories: `work` to write in, `out` to keep safe, `home`, `state` to hide, `tmp` to become
/// `/tmp`.
pub struct World {
    pub user: User,
    dir: TempDir,
}

impl World {
    pub fn new(user: User) -> World {
        World::within(user, place::public())
    }

    pub fn below(user: User, parent: &Path) -> World {
        let dir = tempfile::Builder::new().prefix("greenroom-cage-").tempdir_in(parent).unwrap();
        place::set_mode(dir.path(), 0o755);
        World::within(user, dir)
    }

    fn within(user: User, dir: TempDir) -> World {
        let world = World { user, dir };
        // The build's own directory may be out of reach for others.
        link_or_copy(&example("escapee"), &world.escapee());
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
            self.user.owns(&self.path(name));
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
    pub fault: Option<StageError>,
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
        let launch = Launch::new(argv, env, plan.policy.cwd.clone(), 80, 24);
        let sealed = plan.seal(&launch).unwrap();
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
        assert!(readable(&self.control, PATIENCE), "the stage says nothing");
        let mut bytes = [0; 8192];
        let (count, fds) = test_kit::socket::receive(&self.control, &mut bytes);
        (count > 0).then(|| (Report::decode(&bytes[..count]).unwrap(), fds))
    }

    /// Waits until the program runs.
    pub fn ready(&self) -> Result<Ready, StageError> {
        let Some((report, fds)) = self.report() else {
            return Err(StageError::new(greenroom_sandbox::layer::Layer::Plan, "hear anything", 0));
        };
        let mut fds = fds.into_iter();
        let ready = match report {
            Report::Failed(fault) => return Err(fault),
            Report::Ready { inner, listener } => Ready {
                master: fds.next().unwrap(),
                inner: inner.then(|| fds.next().unwrap()),
                listener: listener.then(|| fds.next().unwrap()),
            },
        };
        assert!(fds.next().is_none());
        match self.report() {
            None => Ok(ready),
            Some((Report::Failed(fault), _)) => Err(fault),
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
        let text = read_all(master).replace('\r', "");
        self.over(None, text)
    }

    fn over(mut self, fault: Option<StageError>, text: String) -> Outcome {
        let status = self.wait();
        Outcome { fault, text, code: status.code(), signal: status.signal() }
    }

    pub fn wait(&mut self) -> std::process::ExitStatus {
        if !gone_within(Pid::from_child(&self.child), PATIENCE) {
            let _ = self.child.kill();
            panic!("the stage does not end");
        }
        self.child.wait().unwrap()
    }
}

//! A keeper as some user, a plugin's directory, and the level its programs get.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use greenroom_daemon::keeper::{Keeper, Notes, Workers};
use greenroom_keeper::KeeperLink;
use greenroom_plugins::runtime::profile::{Enforcement, Profiled, Profiles, Wish};
use greenroom_plugins::runtime::{Launch, Terms};
use greenroom_protocol::manifest::{Allowed, Format, Runtime};
use greenroom_sandbox::layer::Layer;
use greenroom_sandbox::policy::Level;
use greenroom_sandbox::probe::{Outcome, Probe, probe};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use tempfile::TempDir;

/// Nobody on any machine we know.
const OTHER_UID: u32 = 61_001;
/// Far longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Who runs the keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    Root,
    Ordinary,
}

pub struct Scene {
    /// Both ends of the keeper's life hang on it.
    _daemon: UnixStream,
    keeper_process: Child,
    pub workers: Workers,
    dir: TempDir,
    uid: u32,
    level: Level,
    pub mark: String,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.keeper_process);
        for _ in 0..2 {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.keeper_process.wait();
    }
}

impl Scene {
    /// `None`, and said, where this machine cannot test it.
    pub fn new(user: User, level: Level) -> Option<Scene> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let root = rustix::process::geteuid().is_root();
        let uid = match user {
            User::Root if !root => {
                eprintln!("NOT RUN as root: the tests run as an ordinary user");
                return None;
            }
            User::Root => 0,
            User::Ordinary if root => OTHER_UID,
            User::Ordinary => rustix::process::geteuid().as_raw(),
        };
        // Not in `/tmp`, which the sandbox replaces.
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        for name in ["keeper", "state", "home", "home/plugin"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("home/secret"), "a secret").unwrap();
        let image = dir.path().join("worker-host");
        std::fs::copy(program(), &image).unwrap();
        let control = UnixListener::bind(dir.path().join("keeper/control")).unwrap();
        give(dir.path(), uid);
        // A net under the fork bomb: should it get away, the machine is still there.
        let mut command = Command::new("bash");
        command.args(["-c", "ulimit -u 3000; exec \"$0\" \"$@\""]).arg(&image);
        command.arg("keeper").arg(dir.path().join("keeper")).stdin(Stdio::null());
        if uid != rustix::process::geteuid().as_raw() {
            command.uid(uid).gid(uid);
        }
        let keeper_process = command.spawn().unwrap();
        let (daemon, _) = control.accept().unwrap();
        let link = KeeperLink::new(receive(&daemon)).unwrap();
        let keeper = Arc::new(Keeper::meet(link, Notes::below(dir.path())).unwrap().0);
        // Nobody has sessions here.
        drop(keeper.listen().unwrap());
        let workers = Workers::new(keeper, dir.path().join("proxy.jsonl"));
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("86400.{:07}{number:03}", std::process::id());
        Some(Scene { _daemon: daemon, keeper_process, workers, dir, uid, level, mark })
    }

    /// What this machine would say if it had only this level.
    fn probe(&self) -> Probe {
        let mut probe = probe();
        probe.uid = self.uid;
        let lacks: &[Layer] = match self.level {
            Level::Full => &[],
            Level::Reduced => &[Layer::UserNamespace],
            Level::Bare => &[Layer::UserNamespace, Layer::Seccomp],
        };
        for trial in probe.trials.iter_mut().filter(|trial| lacks.contains(&trial.layer)) {
            trial.outcome = Outcome::Failed { errno: libc_eperm(), step: "try it".into() };
        }
        probe
    }

    /// A plugin with this program, as the host would start it.
    pub fn launch(&self, script: &str, grants: &Allowed) -> Launch {
        let main = self.dir.path().join("home/plugin/main");
        let _ = std::fs::remove_file(&main);
        // Nothing binds root without a fence but the watcher: should it fail, a bomb ends by itself.
        let depth = if (self.level, self.uid) == (Level::Bare, 0) { "8" } else { "1000000" };
        let script = script.replace("MARK", &self.mark).replace("DEPTH", depth);
        std::fs::write(&main, script).unwrap();
        std::fs::set_permissions(&main, PermissionsExt::from_mode(0o755)).unwrap();
        let probe = self.probe();
        let at = |name: &str| self.dir.path().join(name);
        let hidden = vec![at("keeper"), at("state")];
        let prober = Arc::new(move || Ok(probe.clone()));
        let profiles =
            Profiles::new(at("home"), at("state"), hidden, Enforcement::Advisory, prober);
        let runtime = Runtime { command: vec!["./main".into()], ..Runtime::default() };
        let wish = Wish {
            plugin: "hostile",
            root: &at("home/plugin"),
            format: Format::Datawatch,
            runtime: &runtime,
            grants,
            env: Vec::new(),
        };
        let Profiled { mut launch, level } = profiles.launch(wish).unwrap();
        assert_eq!(launch.plan.steps.level, self.level, "{}", self.name());
        let expected = match self.level {
            Level::Full => Enforcement::Enforced,
            Level::Reduced => Enforcement::Partial,
            Level::Bare => Enforcement::Advisory,
        };
        assert_eq!(level, expected);
        launch.terms = Terms::NATIVE;
        give(&at("state"), self.uid);
        give(&at("home/plugin"), self.uid);
        launch
    }

    pub fn sh(&self, script: &str) -> Launch {
        self.launch(&format!("#!/bin/sh\n{script}\n"), &Allowed::new())
    }

    /// What the proxies of its programs decided.
    pub fn proxy_log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("proxy.jsonl")).unwrap_or_default()
    }

    pub fn name(&self) -> String {
        format!("level {} as {}", self.level, self.uid)
    }

    /// Who still has our mark, however it left.
    pub fn left(&self) -> Vec<i32> {
        let entries = std::fs::read_dir("/proc").unwrap();
        let pids = entries.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
        let marked = |pid: &i32| {
            std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
                line.windows(self.mark.len()).any(|part| part == self.mark.as_bytes())
            })
        };
        pids.filter(marked).collect()
    }

    /// Children of the keeper besides its daemon: workers, and orphans that came home.
    fn children(&self) -> usize {
        let pid = self.keeper_process.id();
        let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        text.split_whitespace().count() - 1
    }

    /// Nothing of it runs at this time, at the latest.
    pub async fn gone_by(&self, until: Instant, what: &str) {
        loop {
            let (left, children) = (self.left(), self.children());
            if left.is_empty() && children == 0 {
                return;
            }
            let name = self.name();
            let left = left.len();
            assert!(Instant::now() < until, "{name}: {what}: {left} and {children} are left");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub async fn gone(&self, what: &str) {
        self.gone_by(Instant::now() + PATIENCE, what).await;
    }
}

fn libc_eperm() -> i32 {
    rustix::io::Errno::PERM.raw_os_error()
}

/// The example that is keeper and lent daemon; built beside the tests.
fn program() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let path = exe.ancestors().nth(2).unwrap().join("examples/worker-host");
    assert!(path.exists(), "{} is missing: build the examples too", path.display());
    path
}

fn give(path: &Path, uid: u32) {
    std::os::unix::fs::lchown(path, Some(uid), Some(uid)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), uid);
        }
    }
}

fn receive(control: &UnixStream) -> OwnedFd {
    let mut pid = [0; 4];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut pid)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(control, &mut parts, &mut ancillary, flags).unwrap();
    let mut fds = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    fds.next().unwrap().next().unwrap()
}

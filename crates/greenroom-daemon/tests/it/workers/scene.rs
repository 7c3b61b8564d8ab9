//! A keeper as some user, a plugin's directory, and the level its programs get.

use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use greenroom_daemon::keeper::{Keeper, KeeperLauncher, Notes};
use greenroom_formats::manifest::{Allowed, Format, Runtime};
use greenroom_keeper::KeeperLink;
use greenroom_plugins::runtime::profile::{Enforcement, Profiled, Profiles, ProgramSpec};
use greenroom_plugins::runtime::{Launch, Terms};
use greenroom_sandbox::layer::Layer;
use greenroom_sandbox::policy::Level;
use greenroom_sandbox::probe::{Probe, TrialResult, probe};
use tempfile::TempDir;
pub use test_kit::user::User;
use test_kit::wait::PATIENCE;
use test_kit::{place, process};

pub struct Scene {
    /// Both ends of the keeper's life hang on it.
    _daemon: UnixStream,
    keeper_process: Child,
    pub workers: KeeperLauncher,
    dir: TempDir,
    user: User,
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
        if !user.can_be() {
            return None;
        }
        let dir = place::public();
        for name in ["keeper", "state", "home", "home/plugin"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("home/secret"), "a secret").unwrap();
        let image = dir.path().join("worker-host");
        std::fs::copy(place::example("worker-host"), &image).unwrap();
        let control = UnixListener::bind(dir.path().join("keeper/control")).unwrap();
        user.owns(dir.path());
        // A net under the fork bomb: should it get away, the machine is still there.
        let mut command = user.command("bash");
        command.args(["-c", "ulimit -u 3000; exec \"$0\" \"$@\""]).arg(&image);
        command.arg("keeper").arg(dir.path().join("keeper")).stdin(Stdio::null());
        let keeper_process = command.spawn().unwrap();
        let (daemon, _) = control.accept().unwrap();
        let link = KeeperLink::new(receive(&daemon)).unwrap();
        let keeper = Arc::new(Keeper::meet(link, Notes::below(dir.path())).unwrap().0);
        // Nobody has sessions here.
        drop(keeper.listen().unwrap());
        let workers = KeeperLauncher::new(keeper, dir.path().join("proxy.jsonl"));
        let mark = process::sleep_mark();
        Some(Scene { _daemon: daemon, keeper_process, workers, dir, user, level, mark })
    }

    /// What this machine would say if it had only this level.
    fn probe(&self) -> Probe {
        let mut probe = probe();
        probe.uid = self.user.uid();
        let lacks: &[Layer] = match self.level {
            Level::Full => &[],
            Level::Reduced => &[Layer::UserNamespace],
            Level::Bare => &[Layer::UserNamespace, Layer::Seccomp],
        };
        for trial in probe.trials.iter_mut().filter(|trial| lacks.contains(&trial.layer)) {
            trial.outcome = TrialResult::Failed { errno: libc_eperm(), step: "try it".into() };
        }
        probe
    }

    /// A plugin with this program, as the host would start it.
    pub fn launch(&self, script: &str, grants: &Allowed) -> Launch {
        let main = self.dir.path().join("home/plugin/main");
        let _ = std::fs::remove_file(&main);
        // Nothing binds root without a fence but the watcher: should it fail, a bomb ends by
        // itself.
        let unbound = (self.level, self.user) == (Level::Bare, User::Root);
        let depth = if unbound { "8" } else { "1000000" };
        let script = script.replace("MARK", &self.mark).replace("DEPTH", depth);
        place::program(&main, &script);
        let at = |name: &str| self.dir.path().join(name);
        let hidden = vec![at("keeper"), at("state")];
        let profiles = Profiles {
            home: at("home"),
            state: at("state"),
            hidden,
            least: Enforcement::Advisory,
            probe: self.probe().into(),
        };
        let runtime = Runtime { command: vec!["./main".into()], ..Runtime::default() };
        let spec = ProgramSpec {
            plugin: "hostile",
            root: &at("home/plugin"),
            format: Format::Datawatch,
            runtime: &runtime,
            grants,
            env: Vec::new(),
        };
        let Profiled { mut launch, level } = profiles.launch(spec).unwrap();
        assert_eq!(launch.plan.steps.level, self.level, "{}", self.name());
        let expected = match self.level {
            Level::Full => Enforcement::Enforced,
            Level::Reduced => Enforcement::Partial,
            Level::Bare => Enforcement::Advisory,
        };
        assert_eq!(level, expected);
        launch.terms = Terms::NATIVE;
        self.user.owns(&at("state"));
        self.user.owns(&at("home/plugin"));
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
        format!("level {} as {:?}", self.level, self.user)
    }

    /// Who still has our mark, however it left.
    pub fn left(&self) -> Vec<i32> {
        process::mentioning(&self.mark)
    }

    /// Children of the keeper besides its daemon: workers, and orphans that came home.
    fn children(&self) -> usize {
        process::children(self.keeper_process.id() as i32).len() - 1
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

fn receive(control: &UnixStream) -> OwnedFd {
    let (_, fds) = test_kit::socket::receive(control, &mut [0; 4]);
    fds.into_iter().next().unwrap()
}

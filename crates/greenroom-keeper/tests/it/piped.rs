//! Programs of plugins on pipes: at every level, as root and as an ordinary user, nothing of them
//! stays.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use greenroom_keeper::{ExitStatus, KeeperEvent, PipedId, SpawnStep};
use greenroom_sandbox::launch::Launch;
use greenroom_sandbox::plan::compile;
use greenroom_sandbox::policy::{Level, Policy};
use greenroom_sandbox::probe::probe;
use tempfile::TempDir;
use test_kit::user::User;
use test_kit::{place, process, wait};

use crate::host::{FakeDaemon, Host, PATIENCE, alive, program, readable};

/// Without any grace, on a busy machine.
const SOON: Duration = Duration::from_secs(5);
const KILLED: ExitStatus = ExitStatus::Signal { signo: 9, core_dumped: false };

/// Leaves by two forks and a session of its own, deaf, with no environment and none of our fds.
const DAEMONISED: &str = "(setsid sh -c 'trap \"\" HUP TERM INT; exec env -i /bin/sleep MARK' </dev/null >/dev/null 2>&1 &)";

/// Doubles, and leaves something behind at each turn.
const BOMB: &str = "b() { sh -c 'sleep MARK' & (setsid sleep MARK &) ; \
    [ $1 -gt 0 ] && { b $(($1-1)) & b $(($1-1)) & } ; wait; }; echo up; b DEPTH";

struct Scene {
    host: Host,
    daemon: FakeDaemon,
    dir: TempDir,
    user: User,
    level: Level,
    mark: String,
}

/// Every user and level this machine can test.
fn scenes() -> Vec<Scene> {
    let of_level = |level| User::all().into_iter().map(move |user| (user, level));
    let all = [Level::Full, Level::Reduced, Level::Bare].into_iter().flat_map(of_level);
    let tested = all.filter(|it| *it != (User::Root, Level::Reduced));
    tested.map(|(user, level)| Scene::new(user, level)).collect()
}

impl Scene {
    fn new(user: User, level: Level) -> Scene {
        let own = user.uid() == rustix::process::geteuid().as_raw();
        let (host, daemon) = if own { Host::start() } else { Host::start_as(user) };
        assert!(daemon.hello.piped);
        let dir = place::public();
        std::fs::create_dir(dir.path().join("tmp")).unwrap();
        user.owns(dir.path());
        Scene { host, daemon, dir, user, level, mark: process::sleep_mark() }
    }

    fn plan(&self, script: &str) -> OwnedFd {
        let dir = self.dir.path().canonicalize().unwrap();
        let mut policy = Policy::new(self.level, &dir, dir.join("tmp"));
        policy.pipes = true;
        policy.limits.processes = Some(64);
        let mut probe = probe();
        probe.uid = self.user.uid();
        let launch = Launch::new(
            ["/bin/sh", "-c", &script.replace("MARK", &self.mark)].map(Into::into).to_vec(),
            vec![("PATH".into(), "/usr/bin:/bin".into())],
            dir,
            1,
            1,
        );
        compile(&policy, &probe).unwrap().seal(&launch).unwrap()
    }

    /// stdin, stdout and stderr, our ends.
    fn ask(&self, id: u64, script: &str) -> [std::fs::File; 3] {
        let plan = self.plan(script);
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let ((stdin, to), (from, stdout), (said, stderr)) = (pipe(), pipe(), pipe());
        let stdio = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        let watched = self.level != Level::Full;
        self.daemon.link.start_piped(PipedId(id), watched, plan.as_fd(), stdio).unwrap();
        [to.into(), from.into(), said.into()]
    }

    fn start(&self, id: u64, script: &str) -> (i32, [std::fs::File; 3]) {
        let pipes = self.ask(id, script);
        match self.daemon.next() {
            KeeperEvent::PipedStarted { id: got, pid, listener: None } if got.0 == id => {
                (pid, pipes)
            }
            other => panic!("{}: expected it to run {id}, got {other:?}", self.name()),
        }
    }

    fn ended(&self, id: u64) -> ExitStatus {
        match self.daemon.next() {
            KeeperEvent::PipedEnded { id: got, status } if got.0 == id => status,
            other => panic!("{}: expected the end of {id}, got {other:?}", self.name()),
        }
    }

    fn name(&self) -> String {
        format!("level {} as {:?}", self.level, self.user)
    }

    /// Who still has our mark, however it left.
    fn left(&self) -> Vec<i32> {
        process::mentioning(&self.mark)
    }

    fn nothing_is_left(&self) {
        assert_eq!(self.left(), [0_i32; 0], "{}", self.name());
    }

    /// Waits until a mark is seen: what leaves takes a moment.
    fn seen(&self) {
        until(|| !self.left().is_empty(), self);
    }
}

fn line(from: &mut std::fs::File) -> String {
    let mut line = Vec::new();
    loop {
        assert!(readable(from.as_fd(), PATIENCE), "no line");
        let mut byte = [0];
        if from.read(&mut byte).unwrap() == 0 || byte[0] == b'\n' {
            return String::from_utf8(line).unwrap();
        }
        line.push(byte[0]);
    }
}

#[test]
fn it_reads_and_writes_pipes_and_its_end_is_told() {
    for scene in scenes() {
        let fds = scene.host.fd_count();
        let script =
            "read x; echo got $x; echo oops >&2; [ -t 0 ] || echo none; tty; read y; exit 7";
        let (_, [mut to, mut from, mut said]) = scene.start(1, script);
        to.write_all(b"hello\n").unwrap();
        assert_eq!(line(&mut from), "got hello", "{}", scene.name());
        assert_eq!((line(&mut said), line(&mut from)), ("oops".into(), "none".into()));
        drop(to);
        let mut rest = String::new();
        from.read_to_string(&mut rest).unwrap();
        assert_eq!(scene.ended(1), ExitStatus::Code(7), "{}", scene.name());
        assert_eq!(scene.host.fd_count(), fds, "{}", scene.name());
        assert_eq!(scene.daemon.list(), [], "piped are no sessions");
    }
}

#[test]
fn one_that_ends_at_once_is_told_in_order() {
    for scene in scenes() {
        for id in 0..20 {
            let (_, [_, mut from, _]) = scene.start(id, "echo done; exit 3");
            assert_eq!(scene.ended(id), ExitStatus::Code(3), "{}", scene.name());
            assert_eq!(line(&mut from), "done");
        }
        assert_eq!(scene.host.children(), [scene.daemon.pid], "{}", scene.name());
    }
}

#[test]
fn everything_it_started_ends_with_it() {
    for scene in scenes() {
        let script = format!("{DAEMONISED}; sleep MARK & echo up; read x; exit 4");
        let (_, [to, mut from, _said]) = scene.start(1, &script);
        assert_eq!(line(&mut from), "up");
        scene.seen();
        drop(to);
        assert_eq!(scene.ended(1), ExitStatus::Code(4), "{}", scene.name());
        scene.nothing_is_left();
    }
}

#[test]
fn one_word_ends_all_of_it() {
    for scene in scenes() {
        let script =
            format!("trap '' TERM HUP INT; {DAEMONISED}; sleep MARK & echo up; wait; wait");
        let (pid, [_to, mut from, _said]) = scene.start(1, &script);
        assert_eq!(line(&mut from), "up");
        scene.seen();
        let asked = Instant::now();
        scene.daemon.link.end_piped(PipedId(1)).unwrap();
        assert_eq!(scene.ended(1), KILLED, "{}", scene.name());
        assert!(asked.elapsed() < SOON, "{}: {:?}", scene.name(), asked.elapsed());
        assert!(!alive(pid));
        scene.nothing_is_left();
        // Again, and of one that never was.
        scene.daemon.link.end_piped(PipedId(1)).unwrap();
        scene.daemon.link.end_piped(PipedId(99)).unwrap();
        assert_eq!(scene.daemon.list(), []);
    }
}

#[test]
fn a_fork_bomb_is_ended_while_it_grows() {
    for scene in scenes() {
        // Nothing binds root without a fence but the watcher: should it fail, the bomb ends by
        // itself at 8 generations.
        let bomb = match (scene.level, scene.user) {
            (Level::Bare, User::Root) => BOMB.replace("DEPTH", "8"),
            _ => BOMB.replace("DEPTH", "1000000"),
        };
        let (_, [_to, mut from, _said]) = scene.start(1, &bomb);
        assert_eq!(line(&mut from), "up");
        scene.seen();
        let asked = Instant::now();
        scene.daemon.link.end_piped(PipedId(1)).unwrap();
        scene.ended(1);
        assert!(asked.elapsed() < SOON, "{}: {:?}", scene.name(), asked.elapsed());
        scene.nothing_is_left();
    }
}

#[test]
fn too_many_processes_are_stopped_without_being_asked() {
    for scene in scenes() {
        // At level full forks fail, unless for root; elsewhere all of it is ended.
        let script = "i=0; while [ $i -lt 300 ]; do sleep MARK & i=$((i+1)); done; echo all; wait";
        let (_, [_to, mut from, _said]) = scene.start(1, script);
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        if scene.level != Level::Full || scene.user == User::Root {
            assert_eq!(scene.ended(1), KILLED, "{}", scene.name());
        } else {
            assert_eq!(text, "", "{}", scene.name());
            let status = scene.ended(1);
            assert!(matches!(status, ExitStatus::Code(1..)), "{}: {status:?}", scene.name());
        }
        scene.nothing_is_left();
    }
}

#[test]
fn they_end_with_the_daemon() {
    for mut scene in scenes() {
        let script = format!("trap '' TERM HUP; {DAEMONISED}; sleep MARK & echo up; wait; wait");
        let (pid, [_to, mut from, _said]) = scene.start(1, &script);
        assert_eq!(line(&mut from), "up");
        scene.seen();
        let old = rustix::process::Pid::from_raw(scene.daemon.pid).unwrap();
        rustix::process::kill_process(old, rustix::process::Signal::KILL).unwrap();
        scene.daemon = scene.host.daemon();
        // The end of its stdout is the end of the last one that had it.
        let mut rest = String::new();
        from.read_to_string(&mut rest).unwrap();
        until(|| !alive(pid), &scene);
        until(|| scene.left().is_empty(), &scene);
        assert_eq!(scene.daemon.list(), []);
    }
}

#[test]
fn they_end_with_the_keeper() {
    for mut scene in scenes() {
        let script = format!("trap '' TERM HUP; {DAEMONISED}; sleep MARK & echo up; wait; wait");
        let (_, [_to, mut from, _said]) = scene.start(1, &script);
        assert_eq!(line(&mut from), "up");
        scene.seen();
        scene.host.keeper.kill().unwrap();
        let mut rest = String::new();
        from.read_to_string(&mut rest).unwrap();
        until(|| scene.left().is_empty(), &scene);
    }
}

#[test]
fn a_new_image_ends_the_piped_programs_of_the_old_daemon() {
    for mut scene in scenes() {
        let script = format!("trap '' TERM HUP; {DAEMONISED}; sleep MARK & echo up; wait; wait");
        let (pid, [_to, mut from, _said]) = scene.start(1, &script);
        assert_eq!(line(&mut from), "up");
        scene.seen();
        let image = scene.host.dir.path().join("new-image");
        std::fs::copy(program(), &image).unwrap();
        scene.daemon.link.replace(&image).unwrap();
        let told = scene.daemon.next();
        assert!(matches!(told, KeeperEvent::Replaced { result: Ok(()) }), "{told:?}");
        scene.daemon = scene.host.daemon();
        assert_eq!(scene.daemon.hello.generation, 1);
        let mut rest = String::new();
        from.read_to_string(&mut rest).unwrap();
        until(|| !alive(pid), &scene);
        until(|| scene.left().is_empty(), &scene);
        // And it has its own.
        let (_, [_, mut from, _]) = scene.start(1, "echo new");
        assert_eq!(line(&mut from), "new");
        assert_eq!(scene.ended(1), ExitStatus::Code(0));
        until(|| scene.host.children() == [scene.daemon.pid], &scene);
    }
}

#[track_caller]
fn until(done: impl Fn() -> bool, scene: &Scene) {
    wait::until(&scene.name(), done);
}

#[test]
fn what_cannot_start_says_why() {
    for scene in scenes() {
        let plan = {
            let dir = scene.dir.path().canonicalize().unwrap();
            let mut policy = Policy::new(scene.level, &dir, dir.join("tmp"));
            policy.pipes = true;
            let launch = Launch::new(vec!["/no/such".into()], Vec::new(), dir, 1, 1);
            let mut probe = probe();
            probe.uid = scene.user.uid();
            compile(&policy, &probe).unwrap().seal(&launch).unwrap()
        };
        let null = std::fs::File::open("/dev/null").unwrap();
        let stdio = [null.as_fd(); 3];
        let watched = scene.level != Level::Full;
        scene.daemon.link.start_piped(PipedId(1), watched, plan.as_fd(), stdio).unwrap();
        match scene.daemon.next() {
            KeeperEvent::PipedFailed { id: PipedId(1), step, errno, why } => {
                assert_eq!((step, errno), (SpawnStep::Sandbox, libc::ENOENT), "{why}");
                assert!(why.contains("run /no/such"), "{why}");
            }
            other => panic!("{}: {other:?}", scene.name()),
        }
        // The number is free again.
        let (_, [_, mut from, _]) = scene.start(1, "echo up");
        assert_eq!(line(&mut from), "up");
        assert_eq!(scene.ended(1), ExitStatus::Code(0));
        until(|| scene.host.children() == [scene.daemon.pid], &scene);
    }
}

//! Sessions in a sandbox: the same life as any other, with a stage in between.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use greenroom_keeper::message::ToKeeper;
use greenroom_keeper::{
    ExitStatus, KeeperEvent, SessionFds, SessionId, SessionState, SignalTarget, SpawnSpec,
    SpawnStep, tree,
};
use greenroom_sandbox::launch::Launch;
use greenroom_sandbox::plan::compile;
use greenroom_sandbox::policy::{GitRules, HostPattern, Level, Network, Policy, Refs};
use greenroom_sandbox::probe::{Probe, probe};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::host::{
    FakeDaemon, Host, PATIENCE, alive, program, read_all, read_until, readable, sh, write,
};

const RING: u32 = 65536;

/// Where sessions may write, and plans for them.
struct Cage {
    dir: TempDir,
    probe: Probe,
}

impl Cage {
    fn new() -> Cage {
        let dir = test_kit::place::public();
        for name in ["work", "tmp"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Cage { dir, probe: probe() }
    }

    fn policy(&self) -> Policy {
        let dir = self.dir.path().canonicalize().unwrap();
        Policy::new(Level::Full, dir.join("work"), dir.join("tmp"))
    }

    fn plan(&self, policy: &Policy, argv: &[&str]) -> OwnedFd {
        let launch = Launch::new(
            argv.iter().map(Into::into).collect(),
            vec![("PATH".into(), "/usr/bin:/bin".into()), ("TERM".into(), "xterm".into())],
            policy.cwd.clone(),
            101,
            33,
        );
        compile(policy, &self.probe).unwrap().seal(&launch).unwrap()
    }

    fn sh(&self, script: &str) -> OwnedFd {
        self.plan(&self.policy(), &["/bin/sh", "-c", script])
    }
}

fn spawn(daemon: &FakeDaemon, id: u64, plan: &OwnedFd) -> (i32, SessionFds) {
    daemon.link.spawn_sandboxed(SessionId(id), RING, plan.as_fd()).unwrap();
    match daemon.next() {
        KeeperEvent::Spawned { id: got, pid, fds, .. } if got.0 == id => (pid, fds),
        other => panic!("expected spawned {id}, got {other:?}"),
    }
}

#[track_caller]
fn failed(event: KeeperEvent) -> (SpawnStep, i32, String) {
    match event {
        KeeperEvent::SpawnFailed { step, errno, why, .. } => (step, errno, why),
        other => panic!("expected a failed spawn, got {other:?}"),
    }
}

#[test]
fn it_runs_on_its_own_terminal_and_its_end_is_told() {
    let (host, daemon) = Host::start();
    let cage = Cage::new();
    let fds_before = host.fd_count();
    let script = "tty; stty size; echo $GREENROOM_SANDBOX; touch /usr/x; touch here; read line; echo got $line; exit 7";
    let (_, fds) = spawn(&daemon, 1, &cage.sh(script));
    write(&fds.master, "hello\n");
    let text = read_all(&fds.master);
    for part in ["/dev/pts/0", "33 101", "full", "Read-only", "got hello"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(daemon.exited(1), ExitStatus::Code(7));
    assert!(cage.dir.path().join("work/here").exists());
    daemon.link.release(SessionId(1)).unwrap();
    drop(fds);
    assert_eq!(daemon.list(), []);
    // One waits with namespaces for the next.
    assert!(host.fd_count() <= fds_before + 1, "fds leak");
}

/// Whether namespaces were waiting for it or not, a session has its own: a user namespace with this
/// user in it, and a network with a loopback that nobody shares.
#[test]
fn namespaces_made_in_advance_are_used_once() {
    let (host, daemon) = Host::start();
    let cage = Cage::new();
    let script = "cat /proc/self/uid_map /proc/self/setgroups; cat /proc/net/dev /proc/net/tcp; echo up; exec cat";
    let mut seen = std::collections::BTreeSet::new();
    let uid = rustix::process::geteuid().as_raw();
    for id in 1..=6 {
        let (pid, fds) = spawn(&daemon, id, &cage.sh(script));
        let text = read_until(&fds.master, "up");
        let map = text.lines().next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(map, format!("{uid} {uid} 1"), "{text}");
        assert!(text.contains("deny") && text.contains("lo:") && !text.contains("eth"), "{text}");
        for name in ["user", "net", "mnt", "pid", "ipc", "uts"] {
            let link = if name == "pid" { "pid_for_children" } else { name };
            let link = std::fs::read_link(format!("/proc/{pid}/ns/{link}")).unwrap();
            assert!(seen.insert((name, link)), "session {id} shares its {name} namespace");
        }
        // Every other one finds namespaces that wait: whoever makes them is gone.
        if id % 2 == 0 {
            let others = |host: &Host| host.children().len() > 1 + id as usize;
            while others(&host) {}
        }
    }
    assert_eq!(seen.len(), 6 * 6);
}

#[test]
fn signals_reach_the_program_and_its_death_by_one_is_told() {
    let (_host, daemon) = Host::start();
    let cage = Cage::new();
    for (id, to) in
        [(1, SignalTarget::Leader), (2, SignalTarget::Group), (3, SignalTarget::Foreground)]
    {
        let (_, fds) = spawn(
            &daemon,
            id,
            &cage.sh("trap 'echo winch' WINCH; echo up; while :; do read x; done"),
        );
        read_until(&fds.master, "up");
        daemon.link.signal(SessionId(id), libc::SIGWINCH, to).unwrap();
        assert!(matches!(daemon.next(), KeeperEvent::Signalled { errno: 0, .. }), "{to:?}");
        read_until(&fds.master, "winch");
        daemon.link.signal(SessionId(id), libc::SIGHUP, to).unwrap();
        assert!(matches!(daemon.next(), KeeperEvent::Signalled { errno: 0, .. }), "{to:?}");
        let status = ExitStatus::Signal { signo: libc::SIGHUP, core_dumped: false };
        assert_eq!(daemon.exited(id), status, "{to:?}");
    }
}

#[test]
fn a_kill_ends_all_of_it() {
    let (_host, daemon) = Host::start();
    let cage = Cage::new();
    let hidden = "(setsid sh -c 'trap \"\" HUP TERM; echo hidden; while :; do sleep 9; done' &); exec sleep 9";
    for (id, way) in ["leader", "group", "tree", "stage"].into_iter().enumerate() {
        let id = id as u64;
        let (pid, fds) = spawn(&daemon, id, &cage.sh(hidden));
        read_until(&fds.master, "hidden");
        let tree = tree::Tree { warden: tree::Process::of(pid), ..tree::Tree::default() };
        let members = tree.members();
        assert!(members.len() >= 3, "first, program, the hidden one: {members:?}");
        let handle = |it: &tree::Process| {
            let pid = Pid::from_raw(it.pid).unwrap();
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap()
        };
        let ends: Vec<OwnedFd> = members.iter().map(handle).collect();
        match way {
            "tree" => drop(tree.signal(libc::SIGKILL).unwrap()),
            "stage" => {
                rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
            }
            way => {
                let to = if way == "leader" { SignalTarget::Leader } else { SignalTarget::Group };
                daemon.link.signal(SessionId(id), libc::SIGKILL, to).unwrap();
                assert!(matches!(daemon.next(), KeeperEvent::Signalled { errno: 0, .. }));
            }
        }
        let killed = ExitStatus::Signal { signo: libc::SIGKILL, core_dumped: false };
        assert_eq!(daemon.exited(id), killed, "{way}");
        for (process, end) in members.iter().zip(&ends) {
            assert!(readable(end.as_fd(), PATIENCE), "{way}: {process:?} lives on");
        }
        read_all(&fds.master);
    }
}

#[test]
fn a_term_to_the_tree_lets_the_program_end_by_itself() {
    let (_host, daemon) = Host::start();
    let cage = Cage::new();
    let script = "trap 'echo bye; exit 3' TERM; echo up; while :; do read x; done";
    let (pid, fds) = spawn(&daemon, 1, &cage.sh(script));
    read_until(&fds.master, "up");
    let tree = tree::Tree { warden: tree::Process::of(pid), ..tree::Tree::default() };
    tree.signal(libc::SIGTERM).unwrap();
    assert!(read_all(&fds.master).contains("bye"));
    assert_eq!(daemon.exited(1), ExitStatus::Code(3));
}

#[test]
fn a_fault_names_its_layer_and_the_program_never_runs() {
    let (host, daemon) = Host::start();
    let cage = Cage::new();
    let fds_before = host.fd_count();
    let mut policy = cage.policy();
    policy.writable.push(cage.dir.path().join("missing"));
    let proof = cage.dir.path().join("work/ran");
    let plan = cage.plan(&policy, &["/bin/touch", proof.to_str().unwrap()]);
    daemon.link.spawn_sandboxed(SessionId(1), RING, plan.as_fd()).unwrap();
    let (step, errno, why) = failed(daemon.next());
    assert_eq!((step, errno), (SpawnStep::Sandbox, libc::ENOENT));
    assert!(why.starts_with("paths: cannot open") && why.contains("/missing"), "{why}");
    assert!(!proof.exists());
    // A program that is not there is told as such.
    let plan = cage.plan(&cage.policy(), &["/no/such"]);
    daemon.link.spawn_sandboxed(SessionId(2), RING, plan.as_fd()).unwrap();
    let (step, errno, why) = failed(daemon.next());
    assert_eq!((step, errno), (SpawnStep::Sandbox, libc::ENOENT));
    assert!(why.starts_with("exec: cannot run /no/such"), "{why}");
    assert_eq!(daemon.list(), []);
    assert!(host.fd_count() <= fds_before, "fds leak");
}

#[test]
fn a_plan_and_a_spec_go_together_or_not_at_all() {
    let (_host, daemon) = Host::start();
    let cage = Cage::new();
    let plan = cage.sh("true");
    let plain = sh("true").to_memfd().unwrap();
    let sandboxed = SpawnSpec::sandboxed(RING).to_memfd().unwrap();
    let loose = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let send = |with_plan, fds: &[&OwnedFd]| {
        let message = ToKeeper::Spawn { id: SessionId(9), with_cgroup: false, with_plan };
        let fds: Vec<_> = fds.iter().map(|fd| fd.as_fd()).collect();
        daemon.link.send(&message, &fds).unwrap();
        let (step, errno, _) = failed(daemon.next());
        (step, errno)
    };
    assert_eq!(send(true, &[&plain, &plan]), (SpawnStep::Spec, libc::EINVAL));
    assert_eq!(send(false, &[&sandboxed]), (SpawnStep::Spec, libc::EINVAL));
    assert_eq!(send(false, &[&sandboxed, &plan]), (SpawnStep::Spec, libc::EBADF));
    assert_eq!(send(true, &[&sandboxed]), (SpawnStep::Spec, libc::EBADF));
    // What is not a sealed plan is found by the stage.
    assert_eq!(send(true, &[&sandboxed, &loose]), (SpawnStep::Sandbox, libc::EINVAL));
}

#[test]
fn the_proxys_listener_comes_first_and_comes_again() {
    let (mut host, daemon) = Host::start();
    let cage = Cage::new();
    let hosts = vec![HostPattern::parse("example.com").unwrap()];
    let policy = Policy { network: Network::Hosts(hosts), ..cage.policy() };
    let plan = cage.plan(&policy, &["/bin/sh", "-c", "exec cat"]);
    daemon.link.spawn_sandboxed(SessionId(1), RING, plan.as_fd()).unwrap();
    assert!(matches!(daemon.next(), KeeperEvent::Listener { id: SessionId(1), .. }));
    assert!(matches!(daemon.next(), KeeperEvent::Spawned { .. }));
    let (_, plain) = spawn(&daemon, 2, &cage.sh("exec cat"));
    drop(plain);
    daemon.kill();
    let daemon = host.daemon();
    daemon.link.take(&[SessionId(1), SessionId(2)]).unwrap();
    let KeeperEvent::Listener { id: SessionId(1), listener } = daemon.next() else {
        panic!("no listener");
    };
    let address = rustix::net::getsockname(&listener).unwrap();
    let address = std::net::SocketAddr::try_from(address).unwrap();
    assert_eq!(address.to_string(), "127.0.0.1:3128");
    let KeeperEvent::Taken { sessions } = daemon.next() else { panic!("not taken") };
    assert_eq!(sessions.len(), 2);
    write(&sessions[0].1.master, "still here\n");
    read_until(&sessions[0].1.master, "still here");
}

#[test]
fn a_new_image_keeps_sandboxes() {
    let (mut host, daemon) = Host::start();
    let cage = Cage::new();
    let hosts = vec![HostPattern::parse("example.com").unwrap()];
    let policy = Policy { network: Network::Hosts(hosts), ..cage.policy() };
    let script = "trap 'echo bye; exit 5' TERM; echo up; while :; do read x; done";
    let plan = cage.plan(&policy, &["/bin/sh", "-c", script]);
    daemon.link.spawn_sandboxed(SessionId(1), RING, plan.as_fd()).unwrap();
    assert!(matches!(daemon.next(), KeeperEvent::Listener { .. }));
    assert!(matches!(daemon.next(), KeeperEvent::Spawned { .. }));
    replace(&host, &daemon);
    let daemon = host.daemon();
    assert_eq!(daemon.hello.generation, 1);
    daemon.link.take(&[SessionId(1)]).unwrap();
    assert!(matches!(daemon.next(), KeeperEvent::Listener { .. }));
    let KeeperEvent::Taken { sessions } = daemon.next() else { panic!("not taken") };
    read_until(&sessions[0].1.master, "up");
    // The new image still knows who the program is.
    daemon.link.signal(SessionId(1), libc::SIGTERM, SignalTarget::Leader).unwrap();
    assert!(matches!(daemon.next(), KeeperEvent::Signalled { errno: 0, .. }));
    assert_eq!(daemon.exited(1), ExitStatus::Code(5));
}

fn replace(host: &Host, daemon: &FakeDaemon) {
    let image = host.dir.path().join("new-image");
    if !image.exists() {
        std::fs::copy(program(), &image).unwrap();
    }
    daemon.link.replace(&image).unwrap();
    assert!(matches!(daemon.next(), KeeperEvent::Replaced { result: Ok(()) }));
}

/// A session whose stage waits: it reads which branches are packed, and that file is a pipe nobody
/// has opened yet.
struct Waiting {
    stage: Pid,
    packed: std::path::PathBuf,
}

impl Waiting {
    fn start(host: &Host, daemon: &FakeDaemon, cage: &Cage, id: u64) -> Waiting {
        let mut policy = cage.policy();
        let common = policy.cwd.with_file_name("repo").join(".git");
        let admin = common.join("worktrees/w");
        for dir in [&admin, &common.join("objects"), &common.join("refs/heads")] {
            std::fs::create_dir_all(dir).unwrap();
        }
        let worktree = policy.cwd.clone();
        for file in [worktree.join(".git"), admin.join("commondir"), admin.join("gitdir")] {
            std::fs::write(file, "").unwrap();
        }
        let packed = common.join("packed-refs");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &packed, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let (refs, common_dir) = (Refs::Shared { branch: "b".into() }, common);
        policy.git = Some(GitRules::Worktree { worktree, common_dir, admin_dir: admin, refs });
        let known = host.children();
        let plan = cage.plan(&policy, &["/bin/sh", "-c", "echo inside; exec cat"]);
        daemon.link.spawn_sandboxed(SessionId(id), RING, plan.as_fd()).unwrap();
        assert_eq!(daemon_state(daemon, id), SessionState::Starting);
        let stage = host.children().into_iter().find(|pid| !known.contains(pid)).unwrap();
        Waiting { stage: Pid::from_raw(stage).unwrap(), packed }
    }

    fn go_on(&self) {
        drop(std::fs::OpenOptions::new().write(true).open(&self.packed).unwrap());
    }
}

/// Passes over `Spawned`.
fn daemon_state(daemon: &FakeDaemon, id: u64) -> SessionState {
    daemon.link.list().unwrap();
    loop {
        match daemon.next() {
            KeeperEvent::Sessions { sessions, .. } => {
                return sessions.iter().find(|it| it.id.0 == id).unwrap().state;
            }
            KeeperEvent::Spawned { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_new_image_waits_for_a_stage_and_loses_nothing() {
    let (mut host, daemon) = Host::start();
    let cage = Cage::new();
    let waiting = Waiting::start(&host, &daemon, &cage, 1);
    let exe = std::fs::read_link(format!("/proc/{}/exe", host.pid())).unwrap();
    replace(&host, &daemon);
    // Told, and yet still the old image: the stage is not ready. Another sandbox has to wait for
    // the next one.
    let plan = cage.sh("true");
    daemon.link.spawn_sandboxed(SessionId(5000), RING, plan.as_fd()).unwrap();
    let (step, errno, _) = failed(daemon.next());
    assert_eq!((step, errno), (SpawnStep::Id, libc::EAGAIN));
    assert_eq!(std::fs::read_link(format!("/proc/{}/exe", host.pid())).unwrap(), exe);
    waiting.go_on();
    let daemon = host.daemon();
    assert_eq!(daemon.hello.generation, 1);
    let taken = daemon.take(&[1]);
    read_until(&taken[0].1.master, "inside");
    assert!(alive(waiting.stage.as_raw_nonzero().get()));
}

/// The stage is a copy of the keeper: nothing of what the keeper was started with is seen inside,
/// nor any of its fds, and signals are as in any new program.
#[test]
fn nothing_of_the_keeper_is_seen_inside() {
    let (host, daemon) = Host::start();
    let cage = Cage::new();
    let place = host.dir.path().to_str().unwrap();
    let args = std::fs::read_to_string(format!("/proc/{}/cmdline", host.pid())).unwrap();
    assert!(args.contains(place));
    let script = "tr '\\0' ' ' < /proc/1/cmdline; echo; cat /proc/1/environ /proc/1/maps && echo SEEN; \
                  for try in $(seq 200); do set -- $(ls /proc/1/fd); [ $# -le 4 ] && break; sleep 0.05; done; \
                  echo of first $(ls /proc/1/fd) own $(ls /proc/self/fd); \
                  while read name mask; do case $name in Sig[BI]*) echo $name $mask; esac; done \
                  < /proc/self/status";
    let (pid, fds) = spawn(&daemon, 1, &cage.sh(script));
    let told = read_all(&fds.master);
    assert!(told.starts_with("greenroom __sandbox-exec "), "{told}");
    assert!(!told.contains(place) && !told.contains("SEEN"), "{told}");
    // The first process closes the rest once it has started the program, which may be quicker; it
    // keeps: whom it tells, masks, signals, mounts. The last of its own is how `ls` looks.
    assert!(told.contains("of first 0 1 2 3 own 0 1 2 3\r\n"), "{told}");
    for mask in ["SigBlk", "SigIgn"] {
        assert!(told.contains(&format!("{mask}: 0000000000000000")), "{told}");
    }
    assert_eq!(daemon.exited(1), ExitStatus::Code(0));
    assert!(!alive(pid));
}

#[test]
fn a_killed_stage_is_a_failed_start() {
    let (host, daemon) = Host::start();
    let cage = Cage::new();
    let waiting = Waiting::start(&host, &daemon, &cage, 1);
    assert_eq!(daemon.take(&[1]).len(), 0, "its terminal is still to come");
    rustix::process::kill_process(waiting.stage, Signal::KILL).unwrap();
    let (step, errno, why) = failed(daemon.next());
    assert_eq!((step, errno), (SpawnStep::Sandbox, libc::ECHILD), "{why}");
}

#[test]
fn the_end_of_the_keeper_asks_the_programs_first() {
    let (mut host, daemon) = Host::start();
    let cage = Cage::new();
    let script = "trap 'echo bye; exit 3' TERM; trap '' HUP; echo up; while :; do read x; done";
    let (_, fds) = spawn(&daemon, 1, &cage.sh(script));
    read_until(&fds.master, "up");
    daemon.link.shutdown().unwrap();
    assert!(read_all(&fds.master).contains("bye"));
    assert_eq!(daemon.exited(1), ExitStatus::Code(3));
    daemon.exit(greenroom_keeper::EXIT_SHUTDOWN as u8);
    assert_eq!(host.wait(), Some(0));
    assert!(!Path::new("/proc").join(host.pid().to_string()).join("fd/3").exists());
}

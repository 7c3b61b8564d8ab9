//! What a session's child is born with, and every way it can fail to be born.

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;

use greenroom_keeper::message::ToKeeper;
use greenroom_keeper::{
    ExitStatus, KeeperEvent, SessionId, SessionState, SignalTarget, SpawnSpec, SpawnStep,
};

use crate::host::{FakeDaemon, Host, read_all, read_until, sh, spec, write};

#[test]
fn a_child_echoes_and_its_exit_code_is_told() {
    let (_host, daemon) = Host::start();
    let (_, fds) = daemon.spawn(1, &sh("read line; echo got $line; exit 7"));
    write(&fds.master, "hello\n");
    assert!(read_until(&fds.master, "got hello").contains("got hello"));
    assert_eq!(daemon.exited(1), ExitStatus::Code(7));
}

#[test]
fn a_signal_is_told_as_a_signal() {
    let (_host, daemon) = Host::start();
    for (id, to) in
        [(1, SignalTarget::Leader), (2, SignalTarget::Group), (3, SignalTarget::Foreground)]
    {
        let (_, fds) = daemon.spawn(id, &sh("echo up; exec cat"));
        read_until(&fds.master, "up");
        daemon.link.signal(SessionId(id), libc::SIGTERM, to).unwrap();
        assert!(matches!(daemon.next(), KeeperEvent::Signalled { errno: 0, .. }), "{to:?}");
        assert_eq!(
            daemon.exited(id),
            ExitStatus::Signal { signo: libc::SIGTERM, core_dumped: false }
        );
        // Its number may be anybody's now.
        daemon.link.signal(SessionId(id), libc::SIGTERM, to).unwrap();
        assert!(matches!(daemon.next(), KeeperEvent::Signalled { errno: libc::ESRCH, .. }));
    }
}

#[track_caller]
fn fails(daemon: &FakeDaemon, spec: &SpawnSpec, expected: (SpawnStep, i32)) {
    daemon.link.spawn(SessionId(9), spec).unwrap();
    match daemon.next() {
        KeeperEvent::SpawnFailed { id, step, errno, why } => {
            assert_eq!(why, "");
            assert_eq!((id, step, errno), (SessionId(9), expected.0, expected.1));
        }
        other => panic!("expected a failed spawn, got {other:?}"),
    }
    assert_eq!(daemon.list(), [], "a failed session is not held");
}

#[test]
fn every_failed_start_names_its_step() {
    let (host, daemon) = Host::start();
    let file = host.dir.path().join("plain");
    std::fs::write(&file, "text").unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let plain = file.to_str().unwrap();
    let in_cwd = |cwd: &str| {
        let mut spec = sh("true");
        spec.launch.cwd = cwd.into();
        spec
    };
    let fds_before = host.fd_count();
    fails(&daemon, &in_cwd("/no/such"), (SpawnStep::Cwd, libc::ENOENT));
    fails(&daemon, &in_cwd(plain), (SpawnStep::Cwd, libc::ENOTDIR));
    fails(&daemon, &spec(&["/no/such"]), (SpawnStep::Exec, libc::ENOENT));
    fails(&daemon, &spec(&["no-such-program"]), (SpawnStep::Exec, libc::ENOENT));
    fails(&daemon, &spec(&[plain]), (SpawnStep::Exec, libc::EACCES));
    let long = "x".repeat(200_000);
    fails(&daemon, &spec(&["/bin/echo", &long]), (SpawnStep::Exec, libc::E2BIG));
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    fails(&daemon, &spec(&[plain]), (SpawnStep::Exec, libc::ENOEXEC));
    // The start-up may still have held one when it was counted.
    assert!(host.fd_count() <= fds_before, "fds leak");
}

#[test]
fn a_spec_that_can_change_or_lies_is_refused() {
    let (_host, daemon) = Host::start();
    let memfd = rustix::fs::memfd_create("x", rustix::fs::MemfdFlags::ALLOW_SEALING).unwrap();
    let message = ToKeeper::Spawn { id: SessionId(9), with_cgroup: false, with_plan: false };
    for (fds, errno) in [
        (vec![memfd.as_fd()], libc::EPERM),
        (vec![], libc::EBADF),
        (vec![daemon.listener.as_fd()], libc::EINVAL),
        (vec![memfd.as_fd(), memfd.as_fd()], libc::EBADF),
    ] {
        daemon.link.send(&message, &fds).unwrap();
        match daemon.next() {
            KeeperEvent::SpawnFailed { step: SpawnStep::Spec, errno: got, .. } => {
                assert_eq!(got, errno)
            }
            other => panic!("expected a refused spec, got {other:?}"),
        }
    }
}

#[test]
fn a_cgroup_that_an_older_daemon_asks_for_is_refused() {
    let (_host, daemon) = Host::start();
    let memfd = sh("true").to_memfd().unwrap();
    let message = ToKeeper::Spawn { id: SessionId(9), with_cgroup: true, with_plan: false };
    daemon.link.send(&message, &[memfd.as_fd(), memfd.as_fd()]).unwrap();
    let refused = daemon.next();
    assert!(
        matches!(refused, KeeperEvent::SpawnFailed { step: SpawnStep::Cgroup, .. }),
        "{refused:?}"
    );
}

#[test]
fn an_id_is_held_once() {
    let (_host, daemon) = Host::start();
    let (pid, _fds) = daemon.spawn(1, &sh("exec cat"));
    daemon.link.spawn(SessionId(1), &sh("true")).unwrap();
    assert!(matches!(
        daemon.next(),
        KeeperEvent::SpawnFailed { step: SpawnStep::Id, errno: libc::EEXIST, .. }
    ));
    daemon.link.release(SessionId(1)).unwrap();
    let held = daemon.list();
    assert_eq!(held.len(), 1, "a living session is not released");
    assert_eq!((held[0].pid, held[0].state), (pid, SessionState::Running));
}

#[test]
fn the_terminal_is_the_childs_own() {
    let (_host, daemon) = Host::start();
    let script = "tty; stty size; stty -a | grep -o -- '[-]*iutf8'; ps -o pid=,pgid=,sid=,tpgid= -p $$; echo leader $$";
    let (pid, fds) = daemon.spawn(1, &sh(script));
    let text = read_all(&fds.master);
    assert!(text.contains("/dev/pts/"), "{text}");
    assert!(text.contains("24 80"), "{text}");
    assert!(text.contains("\r\niutf8"), "{text}");
    let ids = text
        .lines()
        .find(|line| line.split_whitespace().count() == 4)
        .unwrap_or_else(|| panic!("{text}"));
    let ids: Vec<i32> = ids.split_whitespace().map(|id| id.parse().unwrap()).collect();
    // ps is in the leader's group here: sh without job control.
    assert_eq!(ids, [pid; 4]);
    assert!(text.contains(&format!("leader {pid}")));
}

#[test]
fn job_control_works_and_the_foreground_gets_the_signal() {
    let (_host, daemon) = Host::start();
    let script = "set -m; sh -c 'trap \"echo fg-hit; exit 3\" INT; echo fg-up; while :; do read x; done'; echo job $?; exec cat";
    let (_, fds) = daemon.spawn(1, &sh(script));
    read_until(&fds.master, "fg-up");
    daemon.link.signal(SessionId(1), libc::SIGINT, SignalTarget::Foreground).unwrap();
    let text = read_until(&fds.master, "job 3");
    assert!(text.contains("fg-hit"), "{text}");
    // The terminal's own key reaches the foreground too.
    write(&fds.master, "\u{3}");
    assert!(matches!(daemon.next(), KeeperEvent::Signalled { errno: 0, .. }));
    assert_eq!(daemon.exited(1), ExitStatus::Signal { signo: libc::SIGINT, core_dumped: false });
}

#[test]
fn the_child_has_nothing_of_the_keepers() {
    let (host, daemon) = Host::start();
    // Others held meanwhile must not show through.
    for id in 10..15 {
        let _ = daemon.spawn(id, &sh("exec cat"));
    }
    let mut spec = sh(
        "ls /proc/self/fd | tr '\\n' ' '; echo; exec cat /proc/self/status /proc/self/limits /proc/self/environ",
    );
    spec.launch.env.push(("ODD".into(), "a=b c".into()));
    let (_, fds) = daemon.spawn(1, &spec);
    let text = read_all(&fds.master);
    // ls itself opens the directory as 3.
    assert!(text.starts_with("0 1 2 3 \r\n"), "{text}");
    for field in ["SigBlk", "SigIgn", "SigPnd", "ShdPnd"] {
        assert!(text.contains(&format!("{field}:\t0000000000000000")), "{field}: {text}");
    }
    let own = std::fs::read_to_string("/proc/self/limits").unwrap();
    let limit = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("Max open files"));
        line.unwrap().trim_end().to_owned()
    };
    assert_eq!(limit(&text), limit(&own), "the raised limit is the keeper's only");
    let keeper = std::fs::read_to_string(format!("/proc/{}/limits", host.pid())).unwrap();
    let soft: u64 = limit(&keeper).split_whitespace().nth(3).unwrap().parse().unwrap();
    assert!(soft >= 4096, "{soft}");
    assert!(text.contains("ODD=a=b c\0"), "{text}");
    assert!(!text.contains("CARGO"), "nothing is added: {text}");
}

#[test]
fn env_is_exactly_what_was_given() {
    let (_host, daemon) = Host::start();
    let mut spec = spec(&["env"]);
    spec.launch.env = vec![
        ("PATH".into(), "/nowhere:/usr/bin:/bin".into()),
        ("B".into(), "".into()),
        ("A".into(), "ü=1".into()),
    ];
    let (_, fds) = daemon.spawn(1, &spec);
    assert_eq!(read_all(&fds.master), "PATH=/nowhere:/usr/bin:/bin\r\nB=\r\nA=ü=1\r\n");
}

#[test]
fn ring_and_pipe_are_as_asked() {
    let (_host, daemon) = Host::start();
    let (_, fds) = daemon.spawn(1, &sh("exec cat"));
    assert_eq!(rustix::fs::fstat(&fds.ring).unwrap().st_size, 65536);
    assert!(rustix::fs::ftruncate(&fds.ring, 4096).is_err(), "sealed");
    assert_eq!(rustix::pipe::fcntl_getpipe_size(&fds.pipe_write).unwrap(), 16384);
    for fd in [&fds.master, &fds.pipe_read, &fds.pipe_write] {
        let flags = rustix::fs::fcntl_getfl(fd).unwrap();
        assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
    }
    rustix::io::write(&fds.pipe_write, b"x").unwrap();
    let mut byte = [0];
    assert_eq!(rustix::io::read(&fds.pipe_read, &mut byte).unwrap(), 1);
}

/// The lease of a file: whoever opens it waits until the lease is given up.
#[expect(unsafe_code, reason = "no safe call sets a lease")]
fn lease(file: &std::fs::File, kind: i32) {
    /// Linux's, on every machine.
    const F_SETSIG: i32 = 10;
    // Told by a signal that nobody minds.
    for (command, value) in [(F_SETSIG, libc::SIGURG), (libc::F_SETLEASE, kind)] {
        // SAFETY: calls on numbers.
        let done = unsafe { libc::fcntl(file.as_raw_fd(), command, value) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}

#[test]
fn a_child_that_hangs_in_exec_freezes_nobody() {
    let (host, daemon) = Host::start();
    // A program on a FUSE or NFS server that does not answer hangs like this.
    let program = host.dir.path().join("slow");
    std::fs::write(&program, "#!/bin/sh\nexec cat\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let held = std::fs::File::open(&program).unwrap();
    lease(&held, libc::F_WRLCK);
    daemon.link.spawn(SessionId(1), &spec(&[program.to_str().unwrap()])).unwrap();
    let (_, fds) = daemon.spawn(2, &sh("echo other; exec cat"));
    read_until(&fds.master, "other");
    let states: Vec<_> = daemon.list().iter().map(|entry| entry.state).collect();
    assert_eq!(states, [SessionState::Starting, SessionState::Running]);
    // The hung one goes on when it can, and is told then.
    lease(&held, libc::F_UNLCK);
    assert!(matches!(daemon.next(), KeeperEvent::Spawned { id: SessionId(1), .. }));
    drop(host);
}

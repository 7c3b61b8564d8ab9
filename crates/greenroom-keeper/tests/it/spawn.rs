//! What a session's child is born with, and every way it can fail to be born.

use std::os::fd::AsFd;
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
    daemon.link.spawn(SessionId(9), spec, None).unwrap();
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
    let in_cwd = |cwd: &str| SpawnSpec { cwd: cwd.into(), ..sh("true") };
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
fn an_id_is_held_once() {
    let (_host, daemon) = Host::start();
    let (pid, _fds) = daemon.spawn(1, &sh("exec cat"));
    daemon.link.spawn(SessionId(1), &sh("true"), None).unwrap();
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
    spec.env.push((b"ODD".to_vec(), b"a=b c".to_vec()));
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
    spec.env = vec![
        (b"PATH".to_vec(), b"/nowhere:/usr/bin:/bin".to_vec()),
        (b"B".to_vec(), b"".to_vec()),
        (b"A".to_vec(), "ü=1".as_bytes().to_vec()),
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

#[test]
fn a_child_that_hangs_before_exec_freezes_nobody() {
    let (host, daemon) = Host::start();
    // Opening a FIFO as the program blocks nobody, but a FUSE or NFS server would; a cgroup file that is a full pipe does
    // the same with the means of a test.
    let (read, write) = rustix::pipe::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&write).unwrap();
    rustix::fs::fcntl_setfl(&write, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    while rustix::io::write(&write, &[b'x'; 4096]).is_ok() {}
    while rustix::io::write(&write, b"x").is_ok() {}
    rustix::fs::fcntl_setfl(&write, flags).unwrap();
    daemon.link.spawn(SessionId(1), &sh("exec cat"), Some(write.as_fd())).unwrap();
    let (_, fds) = daemon.spawn(2, &sh("echo other; exec cat"));
    read_until(&fds.master, "other");
    let states: Vec<_> = daemon.list().iter().map(|entry| entry.state).collect();
    assert_eq!(states, [SessionState::Starting, SessionState::Running]);
    // The hung one goes on when it can, and is told then.
    let mut bytes = [0; 8192];
    rustix::io::read(&read, &mut bytes).unwrap();
    assert!(matches!(daemon.next(), KeeperEvent::Spawned { id: SessionId(1), .. }));
    drop(host);
}

//! Keeper and daemon: start, death, restart, end.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};

use greenroom_keeper::{
    EXIT_SHUTDOWN, EXIT_UPGRADE, ExitStatus, KeeperEvent, PROTOCOL_VERSION, SessionId, SessionState,
};
use rustix::process::Signal;
use test_kit::process::{is_zombie, signal};
use test_kit::wait::until;

use crate::host::{FakeDaemon, Host, alive, keeper_command, read_until, sh, write};

#[test]
fn hello_says_who_and_how_often() {
    let (mut host, daemon) = Host::start();
    let first = daemon.hello;
    assert_eq!(first.version, PROTOCOL_VERSION);
    assert_eq!(first.keeper_pid, host.pid());
    assert_eq!((first.generation, first.daemon_starts), (0, 1));
    assert_eq!(first.last_exit, None);
    daemon.kill();
    let second = host.daemon();
    assert_eq!(second.hello.daemon_starts, 2);
    let last = second.hello.last_exit.expect("a reason");
    assert!(matches!(last.status, ExitStatus::Signal { signo: libc::SIGKILL, .. }));
    second.exit(42);
    let third = host.daemon();
    assert_eq!(third.hello.last_exit.unwrap().status, ExitStatus::Code(42));
    assert_eq!(third.hello.keeper_started_unix_ms, first.keeper_started_unix_ms);
}

#[test]
fn sessions_outlive_a_killed_daemon_while_they_print() {
    let (mut host, daemon) = Host::start();
    let script = "i=0; while :; do echo line $i; i=$((i+1)); done";
    let (pid, fds) = daemon.spawn(1, &sh(script));
    let (_, echo) = daemon.spawn(2, &sh("exec cat"));
    read_until(&fds.master, "line 100");
    drop((fds, echo));
    daemon.kill();
    let daemon = host.daemon();
    assert!(alive(pid));
    let held = daemon.list();
    assert_eq!(held.len(), 2);
    assert!(held.iter().all(|entry| entry.state == SessionState::Running));
    let taken = daemon.take(&[1, 77, 2]);
    let ids: Vec<u64> = taken.iter().map(|(id, _)| id.0).collect();
    assert_eq!(ids, [1, 2], "an id that is not held is left out");
    read_until(&taken[0].1.master, "line ");
    write(&taken[1].1.master, "still there\n");
    read_until(&taken[1].1.master, "still there");
}

#[test]
fn an_exit_while_no_daemon_listens_is_told_until_released() {
    let (mut host, daemon) = Host::start();
    let (pid, fds) = daemon.spawn(1, &sh("echo up; read x; echo last words; exit 5"));
    read_until(&fds.master, "up");
    // The daemon's process stops first, so its successor cannot have been started when the child
    // ends.
    write(&fds.master, "go\n");
    daemon.kill();
    let mut daemon = host.daemon();
    for _ in 0..3 {
        let held = loop {
            let held = daemon.list();
            if held[0].state != SessionState::Running {
                break held;
            }
            assert_eq!(daemon.exited(1), ExitStatus::Code(5));
        };
        assert_eq!(held[0].state, SessionState::Exited(ExitStatus::Code(5)));
        assert_eq!(held[0].pid, pid);
        daemon.kill();
        daemon = host.daemon();
    }
    let taken = daemon.take(&[1]);
    assert!(read_until(&taken[0].1.master, "last words").contains("last words"));
    daemon.link.release(SessionId(1)).unwrap();
    assert_eq!(daemon.list(), []);
}

#[test]
fn a_request_sent_before_death_counts_but_starts_nothing() {
    let (mut host, daemon) = Host::start();
    let (_, _fds) = daemon.spawn(1, &sh("exit 0"));
    daemon.exited(1);
    signal(host.pid(), Signal::STOP);
    daemon.link.release(SessionId(1)).unwrap();
    daemon.link.spawn(SessionId(2), &sh("exec cat")).unwrap();
    let pid = daemon.pid;
    daemon.kill();
    // The keeper wakes up to a dead daemon and a full link.
    until("the daemon has ended", || is_zombie(pid));
    signal(host.pid(), Signal::CONT);
    let daemon = host.daemon();
    let held = daemon.list();
    // Whether the link or the death was noticed first decides about session 2, never about
    // session 1.
    assert!(held.iter().all(|entry| entry.id == SessionId(2)), "{held:?}");
}

#[test]
fn clients_that_connect_without_a_daemon_wait() {
    let (mut host, daemon) = Host::start();
    let socket = host.dir.path().join("run/greenroom.sock");
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(socket.clone()), 0o600);
    assert_eq!(mode(host.dir.path().join("run")), 0o700);
    assert_eq!(mode(host.dir.path().join("logs/keeper.log")), 0o600);
    daemon.kill();
    let mut client = UnixStream::connect(&socket).unwrap();
    let daemon = host.daemon();
    daemon.listener.set_nonblocking(false).unwrap();
    let (mut server, _) = daemon.listener.accept().unwrap();
    server.write_all(b"hi").unwrap();
    let mut hi = [0; 2];
    client.read_exact(&mut hi).unwrap();
    assert_eq!(&hi, b"hi");
}

#[test]
fn a_daemon_that_fails_at_first_tells_the_starter() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("fail"), "config.toml:3: unknown key").unwrap();
    let output = keeper_command(dir.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text,
        "the daemon ended before it was ready (exit code 1)\nconfig.toml:3: unknown key\n"
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(!dir.path().join("run/greenroom.sock").exists());
}

#[test]
fn a_second_keeper_is_refused_and_the_first_goes_on() {
    let (host, daemon) = Host::start();
    let output = keeper_command(host.dir.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        text,
        format!(
            "held {0}\nanother keeper (pid {0}) already holds {1}\n",
            host.pid(),
            host.dir.path().display()
        )
    );
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(daemon.list(), []);
}

#[test]
fn a_live_socket_without_a_lock_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    std::fs::create_dir(&run).unwrap();
    std::fs::set_permissions(&run, PermissionsExt::from_mode(0o700)).unwrap();
    let _live = UnixListener::bind(run.join("greenroom.sock")).unwrap();
    let output = keeper_command(dir.path()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("held 0\nsomebody already listens on "), "{text}");
}

/// An orphan holds the listening socket until it is really gone.
fn end(daemon: FakeDaemon) {
    let orphan = daemon.pid;
    daemon.kill();
    while alive(orphan) {
        std::thread::yield_now();
    }
}

#[test]
fn a_socket_left_by_a_dead_keeper_is_cleaned() {
    let (mut host, daemon) = Host::start();
    signal(host.pid(), Signal::KILL);
    host.keeper.wait().unwrap();
    end(daemon);
    assert!(host.dir.path().join("run/greenroom.sock").exists());
    host.keeper = keeper_command(host.dir.path()).spawn().unwrap();
    let daemon = host.daemon();
    assert_eq!(daemon.hello.daemon_starts, 1);
    UnixStream::connect(host.dir.path().join("run/greenroom.sock")).unwrap();
}

#[test]
fn a_killed_keeper_leaves_the_daemon_and_ends_the_sessions() {
    let (mut host, daemon) = Host::start();
    let (pid, fds) = daemon.spawn(1, &sh("trap '' HUP TERM; echo up; while :; do read x; done"));
    read_until(&fds.master, "up");
    signal(host.pid(), Signal::KILL);
    host.keeper.wait().unwrap();
    assert!(daemon.link.recv().unwrap().is_none(), "the link says so");
    // The terminal is still open here: it is the warden that ends the program.
    until("the program ends", || !alive(pid));
    assert!(alive(daemon.pid));
    end(daemon);
    host.keeper = keeper_command(host.dir.path()).spawn().unwrap();
    host.daemon();
}

#[test]
fn shutdown_ends_every_session_and_tells_each() {
    let (mut host, daemon) = Host::start();
    let (_, soft) = daemon.spawn(1, &sh("exec cat"));
    let (_, hard) =
        daemon.spawn(2, &sh("trap '' HUP TERM; echo up; while :; do read x || :; done"));
    let (_, stopped) = daemon.spawn(3, &sh("kill -STOP $$; exec cat"));
    read_until(&hard.master, "up");
    daemon.link.shutdown().unwrap();
    daemon.link.spawn(SessionId(4), &sh("true")).unwrap();
    let mut ended = Vec::new();
    while ended.len() < 3 {
        match daemon.next() {
            KeeperEvent::Exited { id, status } => ended.push((id.0, status)),
            KeeperEvent::SpawnFailed { errno, .. } => assert_eq!(errno, libc::ESHUTDOWN),
            other => panic!("{other:?}"),
        }
    }
    ended.sort_by_key(|(id, _)| *id);
    assert!(matches!(ended[1].1, ExitStatus::Signal { signo: libc::SIGKILL, .. }));
    assert!(!matches!(ended[0].1, ExitStatus::Signal { signo: libc::SIGKILL, .. }));
    daemon.exit(EXIT_SHUTDOWN as u8);
    assert_eq!(host.wait(), Some(0));
    drop((soft, hard, stopped));
}

#[test]
fn a_daemon_that_exits_0_ends_everything() {
    let (mut host, daemon) = Host::start();
    let (pid, fds) = daemon.spawn(1, &sh("exec cat"));
    daemon.exit(0);
    assert_eq!(host.wait(), Some(0));
    assert!(!alive(pid));
    assert!(!host.dir.path().join("run/greenroom.sock").exists());
    drop(fds);
}

#[test]
fn the_first_sigterm_asks_the_daemon_and_the_second_ends_at_once() {
    let (mut host, daemon) = Host::start();
    let (pid, fds) =
        daemon.spawn(1, &sh("trap '' HUP TERM; echo up; while :; do read x || :; done"));
    read_until(&fds.master, "up");
    let daemon_pid = daemon.pid;
    signal(host.pid(), Signal::TERM);
    // The example dies of the forwarded signal; the keeper then ends sessions gracefully, which
    // this one refuses.
    daemon.wait_for_end();
    let begun = std::time::Instant::now();
    signal(host.pid(), Signal::TERM);
    assert_eq!(host.wait(), Some(0));
    // Sooner than the two seconds of grace that the first gives.
    assert!(begun.elapsed() < std::time::Duration::from_millis(1900), "{:?}", begun.elapsed());
    assert!(!alive(pid) && !alive(daemon_pid));
}

#[test]
fn an_upgrade_exit_is_no_failure() {
    let (mut host, mut daemon) = Host::start();
    let begun = std::time::Instant::now();
    for _ in 0..12 {
        daemon.exit(EXIT_UPGRADE as u8);
        daemon = host.daemon();
    }
    // With back-off these would take more than ten seconds.
    assert!(begun.elapsed() < std::time::Duration::from_secs(5));
}

#[test]
fn unknown_and_broken_messages_are_skipped() {
    let (host, daemon) = Host::start();
    for bytes in [&[0xff_u8, 0xff, 1, 2, 3][..], &[3, 0], &[1], &[5, 0, 255, 255, 255, 255]] {
        rustix::net::send(&daemon.link, bytes, rustix::net::SendFlags::empty()).unwrap();
    }
    assert_eq!(daemon.list(), []);
    assert_eq!(host.log().matches("skipped a message").count(), 4);
}

#[test]
fn nothing_of_argv_or_environment_is_logged() {
    let (host, daemon) = Host::start();
    let mut spec = sh("true # s3cret-argument");
    spec.launch.env.push(("TOKEN".into(), "s3cret-value".into()));
    let _fds = daemon.spawn(1, &spec);
    daemon.exited(1);
    spec.launch.argv[0] = "/no/s3cret".into();
    daemon.link.spawn(SessionId(2), &spec).unwrap();
    assert!(matches!(daemon.next(), KeeperEvent::SpawnFailed { .. }));
    let log = host.log();
    assert!(log.contains("session 2: not started"), "{log}");
    assert!(!log.contains("s3cret"), "{log}");
}

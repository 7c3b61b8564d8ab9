//! Exec in place: a new image, or nothing changed.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use greenroom_keeper::{ExitStatus, KeeperEvent, SessionState};

use crate::host::{FakeDaemon, Host, alive, program, read_until, sh, write};

/// The same program under another name.
fn new_image(host: &Host) -> PathBuf {
    let path = host.dir.path().join("new-image");
    std::fs::copy(program(), &path).unwrap();
    path
}

fn script(host: &Host, text: &str) -> PathBuf {
    let path = host.dir.path().join("script");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

fn replaced(daemon: &FakeDaemon) -> Option<String> {
    loop {
        match daemon.next() {
            KeeperEvent::Replaced { result } => return result.err(),
            KeeperEvent::Exited { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_image_changes_and_nothing_else() {
    let (mut host, daemon) = Host::start();
    let (pid, fds) = daemon.spawn(1, &sh("i=0; while :; do echo line $i; i=$((i+1)); done"));
    let (_, echo) = daemon.spawn(2, &sh("exec cat"));
    let (_, ended) = daemon.spawn(3, &sh("exit 9"));
    daemon.exited(3);
    let image = new_image(&host);
    let fds_before = host.fd_count();
    daemon.link.replace(&image).unwrap();
    assert_eq!(replaced(&daemon), None);
    // The old daemon is asked to leave by the new image.
    let old = daemon.pid;
    drop((fds, echo, ended));
    let daemon = host.daemon();
    assert!(!alive(old));
    assert_eq!(std::fs::read_link(format!("/proc/{}/exe", host.pid())).unwrap(), image);
    assert_eq!(
        std::fs::read_link(format!("/proc/{}/exe", daemon.pid)).unwrap(),
        image,
        "the new daemon is of the new image"
    );
    assert_eq!((daemon.hello.generation, daemon.hello.daemon_starts), (1, 2));
    let states: Vec<_> = daemon.list().iter().map(|entry| entry.state).collect();
    assert_eq!(
        states,
        [SessionState::Running, SessionState::Running, SessionState::Exited(ExitStatus::Code(9))]
    );
    let taken = daemon.take(&[1, 2]);
    read_until(&taken[0].1.master, "line ");
    write(&taken[1].1.master, "after\n");
    read_until(&taken[1].1.master, "after");
    assert!(alive(pid));
    assert_eq!(host.fd_count(), fds_before);
    // A child of the new image still inherits nothing.
    let (_, fds) = daemon.spawn(4, &sh("ls /proc/self/fd | tr '\\n' ' '"));
    assert!(read_until(&fds.master, "3 ").starts_with("0 1 2 3 "));
}

#[test]
fn an_exit_during_the_exec_is_told_by_the_new_image() {
    let (mut host, mut daemon) = Host::start();
    let image = new_image(&host);
    for round in 0..20_u64 {
        // Each ends at its own time around the exec.
        let script = format!("i=0; while [ $i -lt {} ]; do i=$((i+1)); done; exit 4", round * 1500);
        let ids: Vec<u64> = (0..4).map(|n| round * 4 + n).collect();
        let mut early = 0;
        for id in &ids {
            daemon.link.spawn(greenroom_keeper::SessionId(*id), &sh(&script)).unwrap();
        }
        daemon.link.replace(&image).unwrap();
        loop {
            match daemon.next() {
                KeeperEvent::Replaced { result } => {
                    assert_eq!(result, Ok(()));
                    break;
                }
                KeeperEvent::Spawned { .. } => {}
                KeeperEvent::Exited { status, .. } => {
                    assert_eq!(status, ExitStatus::Code(4));
                    early += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(early <= 4);
        daemon = host.daemon();
        let mut ended = loop {
            let held = daemon_list(&daemon);
            if held.iter().all(|(_, state)| matches!(state, SessionState::Exited(_))) {
                break held;
            }
        };
        ended.retain(|(id, _)| ids.contains(id));
        assert_eq!(ended.len(), 4);
        for (id, state) in ended {
            assert_eq!(state, SessionState::Exited(ExitStatus::Code(4)), "session {id}");
            daemon.link.release(greenroom_keeper::SessionId(id)).unwrap();
        }
        assert_eq!(daemon.hello.generation as u64, round + 1);
    }
    while host.children() != [daemon.pid] {
        daemon.list();
    }
}

/// `list` in between exits.
fn daemon_list(daemon: &FakeDaemon) -> Vec<(u64, SessionState)> {
    daemon.link.list().unwrap();
    loop {
        match daemon.next() {
            KeeperEvent::Sessions { sessions, more } => {
                assert!(!more);
                return sessions.iter().map(|it| (it.id.0, it.state)).collect();
            }
            KeeperEvent::Exited { .. } | KeeperEvent::Spawned { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

#[track_caller]
fn refused(path: &Path, host: &Host, daemon: &FakeDaemon, fragment: &str) {
    daemon.link.replace(path).unwrap();
    let why = replaced(daemon).expect("a refusal");
    assert!(why.contains(fragment), "{why}");
    assert!(alive(daemon.pid));
    assert_eq!(daemon.list().len(), 1, "{}", host.log());
}

#[test]
fn an_image_that_fails_its_check_changes_nothing() {
    let (host, daemon) = Host::start();
    let (_, fds) = daemon.spawn(1, &sh("exec cat"));
    let exe = std::fs::read_link(format!("/proc/{}/exe", host.pid())).unwrap();
    let fd_count = host.fd_count();
    let image = script(&host, "echo cannot read version 9 >&2; exit 1");
    refused(&image, &host, &daemon, "(exit code 1): cannot read version 9");
    let image = script(&host, "echo chatty");
    refused(&image, &host, &daemon, "(exit code 0): chatty");
    // A program that is no keeper at all, and content with any arguments.
    refused(Path::new("/bin/true"), &host, &daemon, "(exit code 0)");
    let image = script(&host, "kill -SEGV $$");
    refused(&image, &host, &daemon, "(signal 11)");
    refused(Path::new("/no/such"), &host, &daemon, "cannot run /no/such");
    refused(Path::new("relative"), &host, &daemon, "not an absolute path");
    write(&fds.master, "same\n");
    read_until(&fds.master, "same");
    assert_eq!(std::fs::read_link(format!("/proc/{}/exe", host.pid())).unwrap(), exe);
    assert_eq!(host.fd_count(), fd_count);
}

#[test]
fn an_exec_that_fails_after_its_check_is_undone() {
    let (host, daemon) = Host::start();
    let (_, fds) = daemon.spawn(1, &sh("exec cat"));
    // Passes its check, and is gone when it matters.
    let image = script(&host, "rm -f \"$0\"; echo the state is sound");
    daemon.link.replace(&image).unwrap();
    assert_eq!(replaced(&daemon), None);
    let why = replaced(&daemon).expect("the exec itself fails");
    assert!(why.contains("cannot exec "), "{why}");
    write(&fds.master, "same\n");
    read_until(&fds.master, "same");
    // CLOEXEC is back: a new child sees nothing.
    let (_, fds) = daemon.spawn(2, &sh("ls /proc/self/fd | tr '\\n' ' '"));
    assert!(read_until(&fds.master, "3 ").starts_with("0 1 2 3 "));
    assert!(test_kit::process::open_files(daemon.pid) < 10);
}

#[test]
fn a_check_that_hangs_is_ended_and_the_keeper_serves_meanwhile() {
    let (host, daemon) = Host::start();
    let image = script(&host, "exec sleep 1000");
    daemon.link.replace(&image).unwrap();
    let (_, fds) = daemon.spawn(1, &sh("echo meanwhile; exec cat"));
    read_until(&fds.master, "meanwhile");
    let why = replaced(&daemon).expect("a refusal");
    assert!(why.contains("signal 9"), "{why}");
}

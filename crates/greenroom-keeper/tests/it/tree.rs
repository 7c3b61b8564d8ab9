//! Whole trees, however their processes tried to leave.

use std::os::fd::AsFd;

use greenroom_keeper::SessionId;
use greenroom_keeper::cgroup::{self, SessionCgroup};
use greenroom_keeper::tree::{Process, signal_tree, tree_of};

use crate::host::{Host, alive, read_all, read_until, sh};

/// Tests run beside each other: each has its own key.
fn marker(key: &str) -> Vec<u8> {
    format!("GREENROOM_SESSION_KEY={key}").into_bytes()
}

/// A leader with a child, and a grandchild that left by setsid and two forks, ignoring the hang-up.
const ESCAPE: &str =
    "(setsid sh -c \"trap '' HUP TERM; echo far \\$\\$ end; while :; do sleep 1000; done\" &)
sh -c 'echo near $$ end; exec sleep 1000' & echo up; wait";

fn pid_after(text: &str, word: &str) -> i32 {
    let mut words = text.split_whitespace().skip_while(|it| *it != word);
    words.nth(1).unwrap().parse().unwrap()
}

fn marked(key: &str, script: &str) -> greenroom_keeper::SpawnSpec {
    let mut spec = sh(script);
    spec.env.push((b"GREENROOM_SESSION_KEY".to_vec(), key.into()));
    spec
}

#[test]
fn a_double_forked_grandchild_is_found_by_the_marker_only() {
    let (host, daemon) = Host::start();
    let marker = marker("k-1f2e");
    let (pid, fds) = daemon.spawn(1, &marked("k-1f2e", ESCAPE));
    let mut text = String::new();
    while text.matches(" end").count() < 2 || !text.contains("up") {
        text.push_str(&read_until(&fds.master, "\n"));
    }
    let (near, far) = (pid_after(&text, "near"), pid_after(&text, "far"));
    let leader = Process::of(pid).unwrap();
    let pids = |marker: Option<&[u8]>| -> Vec<i32> {
        let tree = tree_of(leader, marker);
        tree.iter().map(|process| process.pid).collect()
    };
    let without = pids(None);
    assert!(without.contains(&pid) && without.contains(&near), "{without:?}");
    assert!(!without.contains(&far), "it has left session and parents");
    let with = pids(Some(&marker));
    assert!(with.contains(&far), "{with:?}");
    assert!(!with.contains(&host.pid()) && !with.contains(&daemon.pid));
    // TERM reaches everybody, and the one who ignores it is still there for KILL.
    let told = signal_tree(leader, Some(&marker), libc::SIGTERM).unwrap();
    assert!(told.complete && told.denied.is_empty());
    assert!(told.processes.iter().any(|process| process.pid == far));
    daemon.exited(1);
    assert!(alive(far));
    let killed = signal_tree(leader, Some(&marker), libc::SIGKILL).unwrap();
    assert!(killed.complete);
    assert!(killed.processes.iter().any(|process| process.pid == far));
    // Its end is the end of the terminal's last user; the keeper reaps it.
    read_all(&fds.master);
    while !tree_of(leader, Some(&marker)).is_empty() {
        daemon.list();
    }
}

#[test]
fn a_tree_that_keeps_forking_is_ended() {
    let (host, daemon) = Host::start();
    let marker = marker("k-77aa");
    // Each generation starts the next and dies: the pid moves on all the time.
    let script = "f() { (f) & (f) & wait; }; echo up; while :; do (sleep 0.01; :) & (setsid sleep 0.02) & (sh -c 'sleep 0.01 & sleep 0.02') & wait -n; done";
    let (pid, fds) = daemon.spawn(1, &marked("k-77aa", script));
    read_until(&fds.master, "up");
    let leader = Process::of(pid).unwrap();
    let killed = signal_tree(leader, Some(&marker), libc::SIGKILL).unwrap();
    assert!(killed.complete, "{killed:?}");
    daemon.exited(1);
    while host.children() != [daemon.pid] {
        daemon.list();
    }
    assert_eq!(tree_of(leader, Some(&marker)), []);
}

#[test]
fn a_cgroup_holds_what_hides_from_every_other_rule() {
    let (_host, daemon) = Host::start();
    let Ok(parent) = cgroup::own() else { return };
    let name = format!("greenroom-test-{}", std::process::id());
    let group = match SessionCgroup::create(&parent, &name) {
        Ok(group) => group,
        Err(error) => {
            // No delegated cgroup here: the probe must say the same.
            let probed = cgroup::probe(&parent).unwrap_err();
            assert_eq!(std::mem::discriminant(&probed), std::mem::discriminant(&error));
            return;
        }
    };
    let procs = group.procs().unwrap();
    let script = "(env -i /usr/bin/setsid /bin/sh -c 'trap \"\" HUP; echo far; while :; do /bin/sleep 1000; done' &); exec cat";
    daemon.link.spawn(SessionId(1), &sh(script), Some(procs.as_fd())).unwrap();
    let greenroom_keeper::KeeperEvent::Spawned { fds, .. } = daemon.next() else {
        panic!("expected spawned");
    };
    read_until(&fds.master, "far");
    assert!(!group.is_empty().unwrap());
    group.kill().unwrap();
    daemon.exited(1);
    while !group.is_empty().unwrap() {
        daemon.list();
    }
    group.remove().unwrap();
}

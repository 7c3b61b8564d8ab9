//! Many sessions, many cycles, a daemon that does not read.

use greenroom_keeper::{ExitStatus, KeeperEvent, SessionId, SessionState};

use crate::host::{Host, read_all, read_until, sh, spec, write};

#[test]
fn a_thousand_cycles_leave_no_zombie_and_no_fd() {
    let (host, daemon) = Host::start();
    let cycle = |id: u64| {
        let (_, fds) = daemon.spawn(id, &spec(&["/bin/true"]));
        assert_eq!(daemon.exited(id), ExitStatus::Code(0));
        drop(fds);
        daemon.link.release(SessionId(id)).unwrap();
    };
    cycle(0);
    assert_eq!(daemon.list(), []);
    let fds = host.fd_count();
    for id in 1..=1000 {
        cycle(id);
    }
    assert_eq!(daemon.list(), []);
    daemon.over(1000);
    assert_eq!(host.fd_count(), fds);
    // A warden's reaping follows its last word, and each list lets the loop turn once.
    while host.children() != [daemon.pid] {
        daemon.list();
    }
}

#[test]
fn orphans_come_home_and_are_reaped() {
    let (host, daemon) = Host::start();
    // The grandchild leaves the session, outlives its parents, and ends when its pipe does.
    let (_, fds) = daemon.spawn(
        1,
        &sh("(setsid sh -c 'trap \"\" HUP; echo orphan; read x' </dev/null &) ; read go"),
    );
    read_until(&fds.master, "orphan");
    // Not before: an orphan that has not yet trapped it would die of the hang-up.
    write(&fds.master, "\n");
    daemon.exited(1);
    read_all(&fds.master);
    daemon.link.release(SessionId(1)).unwrap();
    // The orphan's end closed the terminal; its reaping follows, and each list lets the loop turn
    // once.
    while host.children() != [daemon.pid] {
        daemon.list();
    }
}

#[test]
fn five_hundred_sessions_are_held_and_taken() {
    let (mut host, daemon) = Host::start();
    let count = 500_u64;
    for id in 0..count {
        let (_, fds) = daemon.spawn(id, &spec(&["/bin/cat"]));
        drop(fds);
    }
    daemon.kill();
    let daemon = host.daemon();
    let held = daemon.list();
    assert_eq!(held.len(), 500);
    let ids: Vec<u64> = held.iter().map(|entry| entry.id.0).collect();
    let mut taken = Vec::new();
    for ids in ids.chunks(greenroom_keeper::MAX_TAKE) {
        taken.extend(daemon.take(ids));
    }
    assert_eq!(taken.len(), 500);
    for (id, fds) in &taken {
        write(&fds.master, &format!("I am {id}\n"));
        read_until(&fds.master, &format!("I am {id}"));
    }
}

#[test]
fn takes_sent_all_at_once_are_all_answered() {
    let (_host, daemon) = Host::start();
    for id in 0..60 {
        daemon.spawn(id, &spec(&["/bin/cat"]));
    }
    let ids: Vec<SessionId> = (0..60).map(SessionId).collect();
    // 100 × 240 fds: more than may be in flight for an ordinary user, and more than the socket's
    // buffer.
    for _ in 0..100 {
        daemon.link.take(&ids).unwrap();
    }
    for _ in 0..100 {
        match daemon.next() {
            KeeperEvent::Taken { sessions } => assert_eq!(sessions.len(), 60),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_daemon_that_does_not_read_loses_nothing_and_blocks_nobody() {
    let (host, daemon) = Host::start();
    let link = daemon.link.try_clone().unwrap();
    let count = 3000_u64;
    // The sender fills both directions; only the reader below lets it go on.
    let sender = std::thread::spawn(move || {
        for id in 0..count {
            link.signal(SessionId(id), 0, greenroom_keeper::SignalTarget::Leader).unwrap();
        }
    });
    // The keeper stops taking requests at its limit, and still turns: it reaps its stopped daemon's
    // siblings and sleeps.
    for id in 0..count {
        match daemon.next() {
            KeeperEvent::Signalled { id: got, errno } => {
                assert_eq!((got.0, errno), (id, libc::ESRCH));
            }
            other => panic!("{other:?}"),
        }
    }
    sender.join().unwrap();
    assert_eq!(daemon.list(), []);
    drop(host);
}

#[test]
fn sessions_of_every_state_survive_many_kills() {
    let (mut host, mut daemon) = Host::start();
    for round in 0..10_u64 {
        daemon.spawn(round * 2, &sh("exec cat"));
        let (_, fds) = daemon.spawn(round * 2 + 1, &sh("exit 3"));
        drop(fds);
        daemon.exited(round * 2 + 1);
        daemon.kill();
        daemon = host.daemon();
        let held = daemon.list();
        let running = held.iter().filter(|it| it.state == SessionState::Running);
        assert_eq!(running.count() as u64, round + 1);
        assert_eq!(held.len() as u64, 2 * (round + 1));
        daemon.exit(75);
        daemon = host.daemon();
    }
}

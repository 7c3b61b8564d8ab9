//! Whole trees, however their processes tried to leave; and nobody else.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};

use greenroom_keeper::tree::{Process, Tree};
use greenroom_keeper::{ExitStatus, KeeperEvent, SessionFds, SessionId};
use rustix::process::{Pid, Signal};

use crate::host::{FakeDaemon, Host, PATIENCE, alive, read_until, readable, sh};

/// A child, and one that left by setsid, two forks and an empty environment, ignoring what can be
/// ignored. Both tell their pid.
const ESCAPE: &str = "(env -i /usr/bin/setsid /bin/sh -c 'trap \"\" HUP TERM INT; echo far $$ end; while :; do /bin/sleep 1000; done' &)
sh -c 'echo near $$ end; exec sleep 1000' & ";

fn pid_after(text: &str, word: &str) -> i32 {
    let mut words = text.split_whitespace().skip_while(|it| *it != word);
    words.nth(1).unwrap().parse().unwrap()
}

/// Both of `ESCAPE`.
fn escaped(fds: &SessionFds) -> [i32; 2] {
    let mut text = String::new();
    while text.matches(" end").count() < 2 {
        text.push_str(&read_until(&fds.master, "\n"));
    }
    ["near", "far"].map(|word| pid_after(&text, word))
}

fn handle(pid: i32) -> OwnedFd {
    let pid = Pid::from_raw(pid).unwrap();
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap()
}

#[track_caller]
fn ends(handles: &[OwnedFd]) {
    for end in handles {
        assert!(readable(end.as_fd(), PATIENCE), "it lives on");
    }
}

fn kill(pid: i32) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

fn below(warden: i32) -> Tree {
    Tree { warden: Process::of(warden), ..Tree::default() }
}

#[test]
fn what_the_program_left_lives_on_and_is_ended_on_demand() {
    let (host, daemon) = Host::start();
    let (pid, warden, fds) = daemon.spawn_held(1, &sh(&format!("{ESCAPE} read x; exit 3")));
    let [near, far] = escaped(&fds);
    let pids = |tree: &Tree| -> Vec<i32> { tree.members().iter().map(|it| it.pid).collect() };
    let tree = below(warden);
    let members = pids(&tree);
    assert!([pid, near, far].iter().all(|it| members.contains(it)), "{members:?}");
    assert!(![host.pid(), daemon.pid, warden].iter().any(|it| members.contains(it)));
    rustix::io::write(&fds.master, b"\n").unwrap();
    assert_eq!(daemon.exited(1), ExitStatus::Code(3));
    // The end of the terminal reached those who mind it.
    daemon.link.release(SessionId(1)).unwrap();
    assert!(daemon.list().is_empty());
    assert!(alive(far));
    assert_eq!(daemon.wardens(), [(1, warden)]);
    let handles = [handle(far), handle(warden)];
    daemon.link.end(SessionId(1)).unwrap();
    ends(&handles);
    daemon.over(1);
    assert_eq!(daemon.wardens(), []);
    assert_eq!(tree.members(), []);
    assert_eq!(host.children(), [daemon.pid]);
}

#[test]
fn a_tree_that_keeps_forking_is_ended() {
    let (host, daemon) = Host::start();
    // Each generation starts the next and dies: the pid moves on all the time.
    let script = "echo up; while :; do (sleep 0.01; :) & (setsid sleep 0.02) & (sh -c 'sleep 0.01 & sleep 0.02') & wait -n; done";
    for (id, by_warden) in [(1, true), (2, false)] {
        let (_, warden, fds) = daemon.spawn_held(id, &sh(script));
        read_until(&fds.master, "up");
        match by_warden {
            true => daemon.link.end(SessionId(id)).unwrap(),
            false => assert!(below(warden).signal(libc::SIGKILL).unwrap().complete),
        }
        daemon.exited(id);
        daemon.over(id);
        assert_eq!(host.children(), [daemon.pid]);
    }
}

#[test]
fn everything_ends_with_the_keeper() {
    let (host, daemon) = Host::start();
    let (pid, warden, fds) = daemon.spawn_held(1, &sh(&format!("trap '' HUP; {ESCAPE} read x")));
    let [near, far] = escaped(&fds);
    let handles = [pid, warden, near, far].map(handle);
    kill(host.pid());
    ends(&handles);
}

#[test]
fn a_killed_daemon_ends_nothing() {
    let (mut host, daemon) = Host::start();
    let (pid, warden, fds) = daemon.spawn_held(1, &sh(&format!("{ESCAPE} read x; exit 4")));
    let [near, far] = escaped(&fds);
    daemon.kill();
    let daemon = host.daemon();
    assert!([pid, warden, near, far].into_iter().all(alive));
    assert_eq!(daemon.wardens(), [(1, warden)]);
    rustix::io::write(&fds.master, b"\n").unwrap();
    assert_eq!(daemon.exited(1), ExitStatus::Code(4));
    daemon.link.end(SessionId(1)).unwrap();
    daemon.over(1);
}

#[test]
fn a_session_ends_with_its_warden() {
    let (host, daemon) = Host::start();
    let (other, ..) = daemon.spawn_held(2, &sh("read x"));
    let (pid, warden, fds) = daemon.spawn_held(1, &sh(&format!("trap '' HUP; {ESCAPE} read x")));
    let [near, far] = escaped(&fds);
    let handles = [pid, near, far].map(handle);
    kill(warden);
    let killed = ExitStatus::Signal { signo: libc::SIGKILL, core_dumped: false };
    assert_eq!(daemon.exited(1), killed);
    ends(&handles);
    assert!(alive(other), "another session's");
    while host.children().len() > 2 {
        daemon.list();
    }
}

#[test]
fn a_stopped_tree_and_a_stopped_warden_are_ended() {
    let (_host, daemon) = Host::start();
    let (pid, warden, fds) = daemon.spawn_held(1, &sh(&format!("{ESCAPE} read x")));
    let [near, far] = escaped(&fds);
    let handles = [pid, near, far, warden].map(handle);
    for pid in [pid, near, far, warden] {
        rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
    }
    daemon.link.end(SessionId(1)).unwrap();
    daemon.exited(1);
    ends(&handles);
}

/// Numbers of terminals repeat in every private devpts.
#[test]
fn a_stranger_with_the_same_number_of_terminal_is_none_of_ours() {
    let (_host, daemon) = Host::start();
    let (_, warden, fds) = daemon.spawn_held(1, &sh("ps -o tty= -p $$; exec sleep 1000"));
    let name = read_until(&fds.master, "\n");
    let number: u32 = name.trim().trim_start_matches("pts/").parse().unwrap();
    let mut stranger = match Command::new("unshare")
        .args(["-m", "sh", "-c"])
        .arg(format!(
            "mount -t devpts -o newinstance none /dev/pts && exec python3 -c '
import os, pty, time
for i in range({number} + 1):
    pid, fd = pty.fork()
    if pid == 0:
        print(1, flush=True)
        time.sleep(1000)
    os.read(fd, 1)
print(\"up\", flush=True)
time.sleep(1000)'"
        ))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
    {
        Ok(stranger) => stranger,
        Err(_) => return,
    };
    let out: OwnedFd = stranger.stdout.take().unwrap().into();
    let mut word = [0; 2];
    // Refused to all but root.
    if matches!(rustix::io::read(&out, &mut word), Ok(2)) {
        let theirs = Tree { warden: Process::of(stranger.id() as i32), ..Tree::default() };
        let strangers = theirs.members();
        let same = |it: &Process| {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", it.pid)).unwrap();
            let terminal = stat.rsplit(')').next().unwrap().split_whitespace().nth(4).unwrap();
            terminal == (34816 + number).to_string()
        };
        assert!(strangers.iter().any(same), "one of them has our number");
        below(warden).signal(libc::SIGKILL).unwrap();
        daemon.exited(1);
        assert_eq!(theirs.members(), strangers);
        theirs.signal(libc::SIGKILL).unwrap();
    }
    let _ = stranger.kill();
    let _ = stranger.wait();
}

/// What a keeper and its wardens, all killed at once, leave behind is found by what was noted.
#[test]
fn without_a_warden_the_notes_count_and_nothing_else() {
    let marker = b"GREENROOM_SESSION_KEY=k-1f2e".to_vec();
    let marked = |key: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & wait"]).env("GREENROOM_SESSION_KEY", key);
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let (mut program, mut stray, mut stranger) = (marked("other"), marked("k-1f2e"), marked("b"));
    let process = |child: &std::process::Child| Process::of(child.id() as i32).unwrap();
    let tree = |program: Process, noted: Vec<Process>| {
        let marker = Some(marker.clone());
        Tree {
            warden: Some(Process { pid: 1, start_time: 1 }),
            program: Some(program),
            noted,
            marker,
        }
    };
    let found = |tree: &Tree| -> Vec<i32> { tree.members().iter().map(|it| it.pid).collect() };
    let members = found(&tree(process(&program), Vec::new()));
    assert!(members.contains(&(program.id() as i32)) && members.contains(&(stray.id() as i32)));
    assert!(!members.contains(&(stranger.id() as i32)));
    // A number that is somebody else's now counts for nothing.
    let recycled = Process { start_time: 1, ..process(&program) };
    assert!(!found(&tree(recycled, Vec::new())).contains(&(program.id() as i32)));
    assert!(found(&tree(recycled, vec![process(&program)])).contains(&(program.id() as i32)));
    let all = tree(process(&program), Vec::new());
    let handles: Vec<OwnedFd> = found(&all).into_iter().map(handle).collect();
    all.signal(libc::SIGKILL).unwrap();
    ends(&handles);
    assert_eq!(found(&all), [] as [i32; 0]);
    assert!(process(&stranger).lives());
    let own = Tree { noted: vec![process(&stranger)], ..Tree::default() };
    own.signal(libc::SIGKILL).unwrap();
    for child in [&mut program, &mut stray, &mut stranger] {
        child.wait().unwrap();
    }
}

fn status_of(pid: i32, field: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().to_owned()
}

fn file_of(pid: i32, name: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap().trim().to_owned()
}

#[test]
#[expect(unsafe_code, reason = "no safe call takes any number of a signal")]
fn signals_that_are_not_for_the_keeper_do_not_end_it() {
    let (host, daemon) = Host::start();
    let (pid, fds) = daemon.spawn(1, &sh("echo up; exec sleep 1000"));
    read_until(&fds.master, "up");
    let ended_by_a_fault = [
        libc::SIGKILL,
        libc::SIGTERM,
        libc::SIGILL,
        libc::SIGABRT,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGSEGV,
        libc::SIGSYS,
    ];
    let stops = [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    // The fake daemon minds a hang-up, which the keeper passes on to it.
    let others = (1..=64)
        .filter(|it| !ended_by_a_fault.contains(it) && !stops.contains(it) && *it != libc::SIGHUP);
    for signo in others {
        // SAFETY: a signal to the keeper this test started.
        assert_eq!(unsafe { libc::kill(host.pid(), signo) }, 0);
    }
    assert_eq!(daemon.list().len(), 1);
    assert!(alive(pid));
    // And sessions know nothing of it.
    assert_eq!(status_of(pid, "SigIgn:"), "0".repeat(16));
    assert_eq!(status_of(pid, "SigBlk:"), "0".repeat(16));
}

#[test]
fn names_and_scores_say_who_is_who() {
    let (host, daemon) = Host::start();
    let (pid, warden, _fds) = daemon.spawn_held(7, &sh("exec sleep 1000"));
    let command = |pid: i32| file_of(pid, "cmdline").replace('\0', " ");
    assert_eq!(file_of(host.pid(), "comm"), "greenroom");
    assert!(command(daemon.pid).starts_with("greenroom daemon "), "{}", command(daemon.pid));
    assert_eq!(file_of(warden, "comm"), "session-s7");
    assert_eq!(command(warden).trim_end(), "greenroom session s7");
    let score = |pid: i32| -> i32 { file_of(pid, "oom_score_adj").parse().unwrap() };
    assert_eq!(score(pid), (score(host.pid()) + 200).min(1000));
    assert_eq!([score(daemon.pid), score(warden)], [score(host.pid()); 2]);
    assert_eq!(test_kit::process::open_files(warden), 1, "the pipe to the keeper");
}

#[test]
fn a_fork_that_outlives_an_upgrade_is_still_held() {
    let (mut host, daemon) = Host::start();
    let (_, warden, fds) = daemon.spawn_held(1, &sh(&format!("{ESCAPE} read x; exit 5")));
    let (running, _, _other) =
        daemon.spawn_held(2, &sh("trap 'exit 6' USR1; echo up; while :; do sleep 0.01; done"));
    let [_, far] = escaped(&fds);
    rustix::io::write(&fds.master, b"\n").unwrap();
    assert_eq!(daemon.exited(1), ExitStatus::Code(5));
    daemon.link.release(SessionId(1)).unwrap();
    daemon.link.replace(&crate::host::program()).unwrap();
    let KeeperEvent::Replaced { result: Ok(()) } = daemon.next() else { panic!("not replaced") };
    daemon.wait_for_end();
    let daemon: FakeDaemon = host.daemon();
    let mut wardens = daemon.wardens();
    wardens.sort_unstable();
    assert_eq!(wardens[0], (1, warden));
    assert_eq!(wardens[1].0, 2);
    assert!(alive(far));
    // Signals reach the program, and its end is told, as under the old image.
    daemon
        .link
        .signal(SessionId(2), libc::SIGUSR1, greenroom_keeper::SignalTarget::Leader)
        .unwrap();
    assert!(matches!(daemon.next(), KeeperEvent::Signalled { errno: 0, .. }), "{running}");
    assert_eq!(daemon.exited(2), ExitStatus::Code(6));
    daemon.link.end(SessionId(1)).unwrap();
    daemon.over(1);
    assert!(!alive(far));
}

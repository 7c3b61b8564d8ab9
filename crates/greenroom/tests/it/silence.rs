//! A client that cannot get an answer says so; a host that is short of something still answers.

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Home, Said, eventually};

/// What a person waits for before they reach for Ctrl-C.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn beside_a_stopped_daemon_every_verb_says_so() {
    let home = Home::new();
    home.shell("read x");
    let daemon = Pid::from_raw(home.daemon_pid()).unwrap();
    kill_process(daemon, Signal::STOP).unwrap();
    let verbs: [&[&str]; 4] =
        [&["ls"], &["wait", "s1", "--until", "exit"], &["kill", "s1"], &["events", "--follow"]];
    // At once: each of them waits for itself.
    let began = Instant::now();
    let spawn = |args: &&[&str]| {
        let mut command = home.command(args);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let clients: Vec<_> = verbs.iter().map(spawn).collect();
    for (args, client) in verbs.iter().zip(clients) {
        let said = Said::of(client.wait_with_output().unwrap());
        assert_eq!(said.code, 7, "{args:?}: {said:?}");
        let expected = format!("its daemon (pid {}) is stopped", daemon.as_raw_nonzero());
        assert!(said.err.contains(&expected) && said.err.contains("kill -CONT"), "{said:?}");
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    kill_process(daemon, Signal::CONT).unwrap();
    assert!(home.ok(&["ls"]).contains("s1"));
}

#[test]
fn a_daemon_that_does_not_come_up_is_told_with_its_reason() {
    let home = Home::new();
    home.shell("read x");
    let daemon = Pid::from_raw(home.daemon_pid()).unwrap();
    let lock = home.path().join("state/daemon.lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    kill_process(daemon, Signal::KILL).unwrap();
    let began = Instant::now();
    let said = home.run(&["ls"]);
    assert_eq!(said.code, 7, "{said:?}");
    assert!(said.err.contains("ends again and again"), "{said:?}");
    assert!(said.err.contains("daemon.lock"), "the reason is told: {said:?}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    std::fs::remove_dir(&lock).unwrap();
    eventually("the host is back", || home.run(&["ls"]).out.contains("s1").then_some(()));
}

#[test]
fn the_last_descriptors_are_for_answers() {
    let home = Home::new();
    let scant = |args: &[&str]| {
        let plain = home.command(args);
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""]).arg(plain.get_program());
        command.args(args).env_clear().current_dir(home.path());
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap());
        }
        Said::of(command.output().unwrap())
    };
    let mut made = 0;
    let refused = loop {
        let said = scant(&["new", "--", "cat"]);
        if said.code != 0 {
            break said;
        }
        made += 1;
        assert!(made < 64, "nothing is refused");
    };
    assert!(made > 0 && refused.err.contains("file descriptors are in use"), "{made}: {refused:?}");
    let began = Instant::now();
    assert!(scant(&["ls"]).out.contains("s1"));
    let killed = scant(&["kill", "s1"]);
    assert_eq!(killed.code, 0, "{killed:?}");
    assert!(scant(&["doctor"]).out.contains(" running"));
    assert_eq!(scant(&["new", "--", "cat"]).code, 0, "there is room again");
    let stopped = scant(&["shutdown"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

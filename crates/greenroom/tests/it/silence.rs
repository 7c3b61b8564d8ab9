//! A client that cannot get an answer says so; a host that is short of something still answers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::attach::Outer;
use crate::support::{Home, Said, eventually, gone_within};

/// What a person waits for before they reach for Ctrl-C.
const SOON: Duration = Duration::from_secs(10);

#[test]
fn beside_a_stopped_daemon_every_verb_says_so() {
    let home = Home::new();
    home.shell("read x");
    let daemon = Pid::from_raw(home.daemon_pid()).unwrap();
    kill_process(daemon, Signal::STOP).unwrap();
    let verbs: [&[&str]; 8] = [
        &["ls"],
        &["wait", "s1", "--until", "exit"],
        &["kill", "s1"],
        &["new", "--name", "late", "--", "cat"],
        &["events", "--follow"],
        &["serve", "--stdio", "--shared"],
        &["shutdown"],
        &["shutdown", "--json"],
    ];
    // At once: each of them waits for itself.
    let began = Instant::now();
    let clients: Vec<_> = verbs.iter().map(|args| (asked(&home, args), *args)).collect();
    for (client, args) in clients {
        let said = Said::of(client.wait_with_output().unwrap());
        say_stopped(&said, "daemon", daemon);
        let changes = ["kill", "new", "shutdown"].contains(&args[0]);
        assert_eq!(said.err.contains("may still happen"), changes, "{args:?}: {said:?}");
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    kill_process(daemon, Signal::CONT).unwrap();
}

/// With a request on its stdin, for those that read it.
fn asked(home: &Home, args: &[&str]) -> Child {
    let mut command = home.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut client = command.spawn().unwrap();
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"session.list"}"#;
    // Others end without having read it.
    let _ = writeln!(client.stdin.take().unwrap(), "{request}");
    client
}

#[track_caller]
fn say_stopped(said: &Said, process: &str, pid: Pid) {
    assert_eq!(said.code, 7, "{said:?}");
    let pid = pid.as_raw_nonzero();
    assert!(said.err.contains(&format!("{process} (pid {pid}) is stopped")), "{said:?}");
    assert!(said.err.contains(&format!("kill -CONT {pid}")), "{said:?}");
}

#[test]
fn whoever_listens_to_a_daemon_learns_that_it_is_stopped() {
    let home = Home::new();
    home.shell("read x");
    let daemon = Pid::from_raw(home.daemon_pid()).unwrap();
    let verbs: [&[&str]; 3] = [
        &["events", "--follow", "--since", "0"],
        &["wait", "s1", "--until", "exit", "--timeout", "1h"],
        &["serve", "--stdio", "--shared"],
    ];
    let spawn = |args: &&[&str]| {
        let mut command = home.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut clients: Vec<Child> = verbs.iter().map(spawn).collect();
    // The proxy has asked and was answered; the others are at work once the host counts them.
    writeln!(
        clients[2].stdin.as_mut().unwrap(),
        r#"{{"jsonrpc":"2.0","id":1,"method":"server.hello"}}"#
    )
    .unwrap();
    let mut answer = String::new();
    BufReader::new(clients[2].stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
    let outer = Outer::new(&home);
    outer.type_line(&format!("{} attach s1; echo code=$?", crate::support::BIN));
    eventually("all are there", || {
        let stats = home.call("server.stats", serde_json::json!({}));
        (stats["clients"].as_u64() >= Some(7) && stats["attached"] == 1).then_some(())
    });
    kill_process(daemon, Signal::STOP).unwrap();
    let began = Instant::now();
    for client in clients {
        say_stopped(&Said::of(client.wait_with_output().unwrap()), "daemon", daemon);
    }
    outer.sees("is stopped[^$]*code=7");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    kill_process(daemon, Signal::CONT).unwrap();
    assert!(home.ok(&["ls"]).contains("running"));
}

#[test]
fn a_stopped_keeper_is_named() {
    let home = Home::new();
    home.shell("read x");
    let stats = home.call("server.stats", serde_json::json!({}));
    let keeper = i32::try_from(stats["keeper_pid"].as_i64().unwrap()).unwrap();
    let keeper = Pid::from_raw(keeper).unwrap();
    kill_process(keeper, Signal::STOP).unwrap();
    let began = Instant::now();
    let clients = [&["new", "--", "cat"][..], &["kill", "s1"]].map(|args| asked(&home, args));
    for client in clients {
        say_stopped(&Said::of(client.wait_with_output().unwrap()), "keeper", keeper);
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(home.ok(&["ls"]).contains("s1"), "the daemon answers by itself");
    let began = Instant::now();
    say_stopped(&home.run(&["shutdown", "--grace", "100ms"]), "keeper", keeper);
    assert!(began.elapsed() < 2 * SOON, "{:?}", began.elapsed());
    kill_process(keeper, Signal::CONT).unwrap();
}

#[test]
fn too_few_descriptors_for_a_host_are_told_at_once() {
    // How many are enough depends on how many we have from our own starter.
    let mut refused = 0;
    for limit in (10..32).step_by(2) {
        let home = Home::new();
        let began = Instant::now();
        let said = scant(&home, &limit.to_string(), &["ls"]);
        assert!(began.elapsed() < SOON, "{limit}: {:?}", began.elapsed());
        if said.code != 0 {
            refused += 1;
            assert!(said.err.contains("greenroom: cannot "), "{limit}: {said:?}");
        }
        // A host that came up may have no descriptor left to be asked with.
        let lock = std::fs::read_to_string(home.path().join("run/greenroom.lock"));
        let keeper = lock.ok().and_then(|pid| Pid::from_raw(pid.trim().parse().ok()?));
        if let Some(keeper) = keeper.filter(|keeper| kill_process(*keeper, Signal::TERM).is_ok()) {
            assert!(gone_within(keeper, SOON), "{limit}: {keeper:?} stays");
        }
    }
    assert!(refused > 0, "a host in ten descriptors");
}

/// The binary where few files may be open.
fn scant(home: &Home, limit: &str, args: &[&str]) -> Said {
    let plain = home.command(args);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")]);
    command.arg(plain.get_program()).args(args).env_clear().current_dir(home.path());
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap());
    }
    Said::of(command.output().unwrap())
}

#[test]
fn a_daemon_that_does_not_come_up_is_told_with_its_reason() {
    let home = Home::new();
    home.shell("read x");
    let daemon = Pid::from_raw(home.daemon_pid()).unwrap();
    let lock = home.path().join("state/daemon.lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    // It cannot be moved aside either.
    for number in 1..=100 {
        std::fs::write(lock.with_extension(format!("lock.damaged-{number}")), "").unwrap();
    }
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

/// What the daemon has open.
fn open_files(home: &Home) -> Vec<PathBuf> {
    let fds = std::fs::read_dir(format!("/proc/{}/fd", home.daemon_pid())).unwrap();
    fds.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok()).collect()
}

#[test]
fn the_last_descriptors_are_for_answers() {
    let home = Home::new();
    let scant = |args: &[&str]| scant(&home, "64", args);
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
    let again = scant(&["new", "--", "cat"]);
    assert_eq!(again.code, 0, "there is room again: {again:?}; open: {:#?}", open_files(&home));
    let stopped = scant(&["shutdown"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

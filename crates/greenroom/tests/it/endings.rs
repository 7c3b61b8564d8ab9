//! The end of sessions: everything of theirs and nothing else, whoever dies first.

mod trees;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use test_kit::process::{self, sleep_mark, with_argument};

use crate::support::{Home, eventually, gone_within};

#[track_caller]
fn wait_for(mark: &str, count: usize) {
    eventually("its processes run", || (with_argument(mark).len() >= count).then_some(()));
}

#[track_caller]
fn none_left(mark: &str) {
    eventually("nothing is left", || with_argument(mark).is_empty().then_some(()));
}

fn kill_9(pid: i32) {
    let pid = Pid::from_raw(pid).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    assert!(gone_within(pid, Duration::from_secs(20)));
}

fn keeper_pid(home: &Home) -> i32 {
    process::parent(home.daemon_pid()).unwrap()
}

/// Somebody else's program, which ends with this value.
struct Stranger(Child);

impl Stranger {
    fn start(mark: &str, uid: Option<u32>) -> Stranger {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new("/bin/sleep");
        command.arg(mark).stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(uid) = uid.filter(|_| rustix::process::geteuid().is_root()) {
            command.uid(uid);
        }
        Stranger(command.spawn().unwrap())
    }

    #[track_caller]
    fn lives(&mut self) {
        assert!(self.0.try_wait().unwrap().is_none(), "a stranger was ended");
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program that outlives its parent, its terminal and its environment.
fn stubborn(mark: &str) -> String {
    format!(
        "(env -i /usr/bin/setsid /bin/sh -c 'trap \"\" HUP TERM INT; exec /bin/sleep {mark}' >/dev/null 2>&1 &);"
    )
}

#[test]
fn kill_ends_what_ignores_the_hang_up_after_the_first_process_died() {
    let home = Home::new();
    let mark = sleep_mark();
    let script = format!("(trap '' HUP TERM; exec sleep {mark}) & {} wait", stubborn(&mark));
    home.ok(&["new", "--name", "k", "--", "sh", "-c", &script]);
    wait_for(&mark, 2);
    home.ok(&["kill", "k", "--grace", "100ms"]);
    assert_eq!(with_argument(&mark), [] as [i32; 0]);
}

#[test]
fn what_a_session_left_is_listed_and_ended_by_kill() {
    let home = Home::new();
    let mark = sleep_mark();
    let script = format!("{} {} read x; exit 3", stubborn(&mark), stubborn(&mark));
    let id = home.ok(&["new", "--name", "left", "--", "sh", "-c", &script]);
    wait_for(&mark, 2);
    home.ok(&["send", "left", "--enter", "go"]);
    home.run(&["wait", "left", "--until", "exit", "--timeout", "30s"]);
    assert_eq!(home.json(&["info", "left", "--json"])["processes_left"], 2);
    let shown = home.ok(&["ls"]);
    assert!(shown.contains("exited 3, 2 processes left"), "{shown}");
    assert!(home.ok(&["info", "left"]).contains("2 processes left"));
    let refused = home.run(&["rm", "left"]);
    assert_ne!(refused.code, 0);
    assert!(refused.err.contains("left 2 processes") && refused.err.contains("greenroom kill"));
    // The next daemon, and the next image, know it too.
    kill_9(home.daemon_pid());
    assert_eq!(home.json(&["info", &id, "--json"])["processes_left"], 2);
    home.ok(&["upgrade"]);
    assert_eq!(home.json(&["info", &id, "--json"])["processes_left"], 2);
    assert_eq!(with_argument(&mark).len(), 2);
    let said = home.ok(&["kill", "left", "--grace", "100ms"]);
    assert!(said.contains("2 processes"), "{said}");
    assert_eq!(with_argument(&mark), [] as [i32; 0]);
    assert!(home.run(&["kill", "left"]).err.contains("has ended already"));
    home.ok(&["rm", "left"]);
}

#[test]
fn a_time_limit_holds_for_what_was_left_too() {
    let home = Home::new();
    let mark = sleep_mark();
    let script = format!("(sleep {mark} >/dev/null 2>&1 &); setsid sleep {mark} & exit 0");
    home.ok(&["new", "--name", "t", "--timeout", "3s", "--", "sh", "-c", &script]);
    none_left(&mark);
}

#[test]
fn shutdown_ends_what_was_left() {
    let home = Home::new();
    let mark = sleep_mark();
    home.ok(&["new", "--name", "s", "--", "sh", "-c", &format!("{} read x", stubborn(&mark))]);
    wait_for(&mark, 1);
    home.ok(&["send", "s", "--enter", "go"]);
    home.run(&["wait", "s", "--until", "exit", "--timeout", "30s"]);
    assert_eq!(with_argument(&mark).len(), 1);
    home.ok(&["shutdown", "--grace", "100ms"]);
    none_left(&mark);
}

/// Numbers of terminals repeat in every sandbox, which has a devpts of its own.
#[test]
fn kill_ends_no_other_session_with_the_same_number_of_terminal() {
    let home = Home::new();
    let (plain, boxed) = (sleep_mark(), sleep_mark());
    let sleep = |mark: &str| format!("sleep {mark}");
    let work = home.path().join("work");
    std::fs::create_dir(&work).unwrap();
    let cwd = work.to_str().unwrap();
    let started = home.run(&[
        "new",
        "--name",
        "b",
        "--sandbox",
        "--cwd",
        cwd,
        "--",
        "sh",
        "-c",
        &sleep(&boxed),
    ]);
    if started.code != 0 {
        assert!(started.err.contains("sandbox"), "{started:?}");
        return;
    }
    // As many plain ones as it takes to have its number.
    for number in 0..4 {
        home.ok(&["new", "--name", &format!("p{number}"), "--", "sh", "-c", &sleep(&plain)]);
    }
    wait_for(&plain, 4);
    wait_for(&boxed, 1);
    for number in 0..4 {
        home.ok(&["kill", &format!("p{number}"), "--grace", "100ms"]);
    }
    assert_eq!(with_argument(&plain), [] as [i32; 0]);
    assert_eq!(home.json(&["info", "b", "--json"])["state"], "running");
    home.ok(&["kill", "b", "--grace", "100ms"]);
    none_left(&boxed);
}

#[test]
fn a_killed_keeper_leaves_nothing() {
    let home = Home::new();
    let mark = sleep_mark();
    let script = format!("trap '' HUP; {} sleep {mark}", stubborn(&mark));
    home.ok(&["new", "--name", "g", "--", "sh", "-c", &script]);
    wait_for(&mark, 2);
    kill_9(keeper_pid(&home));
    none_left(&mark);
    let lost = eventually("the next host", || {
        let said = home.run(&["ls", "--json"]);
        (said.code == 0).then_some(said.out)
    });
    assert!(lost.contains("\"lost\"") && !lost.contains("processes_left"), "{lost}");
}

/// Keeper, daemon and wardens at once, as `pkill -9 -f greenroom` would.
#[test]
fn what_outlives_keeper_and_wardens_is_found_by_the_next_host() {
    let home = Home::new();
    let mark = sleep_mark();
    let script =
        format!("trap '' HUP; (setsid sh -c 'trap \"\" HUP; sleep {mark}' &) ; sleep {mark}");
    home.ok(&["new", "--name", "g", "--", "sh", "-c", &script]);
    wait_for(&mark, 2);
    let (keeper, daemon) = (keeper_pid(&home), home.daemon_pid());
    let mut all = process::children(keeper);
    all.retain(|pid| *pid != daemon);
    // Stopped first, so that none of them acts on the death of another.
    for pid in all.iter().chain([&keeper, &daemon]) {
        kill_process(Pid::from_raw(*pid).unwrap(), Signal::STOP).unwrap();
    }
    for pid in all.into_iter().chain([keeper, daemon]) {
        kill_9(pid);
    }
    assert!(!with_argument(&mark).is_empty(), "they ignore the hang-up");
    let info = eventually("the next host", || {
        let said = home.run(&["info", "g", "--json"]);
        (said.code == 0).then_some(said.out)
    });
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!(info["state"], "lost");
    assert!(info["processes_left"].as_u64().unwrap() >= 2, "{info}");
    home.ok(&["kill", "g", "--grace", "100ms"]);
    none_left(&mark);
}

#[test]
fn signals_that_are_not_for_the_host_end_neither_of_its_processes() {
    let home = Home::new();
    home.ok(&["new", "--name", "s", "--", "sh", "-c", "echo up; exec sleep 1000"]);
    home.wait_text("s", "up");
    let (keeper, daemon) = (keeper_pid(&home), home.daemon_pid());
    let names = "HUP USR1 USR2 QUIT ALRM VTALRM PROF IO XCPU XFSZ PWR STKFLT PIPE";
    for pid in [keeper, daemon] {
        let script = format!(
            "for s in {names}; do kill -$s {pid}; done; for s in $(seq 34 64); do kill -$s {pid}; done"
        );
        let sent = Command::new("bash").args(["-c", &script]).status().unwrap();
        assert!(sent.success());
    }
    assert_eq!(home.json(&["info", "s", "--json"])["state"], "running");
    assert_eq!((keeper_pid(&home), home.daemon_pid()), (keeper, daemon));
}

#[test]
fn ps_shows_who_is_who() {
    let home = Home::new();
    home.ok(&["new", "--name", "s", "--", "sleep", "1000"]);
    let line = |pid: i32| process::arguments(pid).join(" ").trim_end().to_owned();
    let comm = |pid: i32| String::from_utf8(process::about(pid, "comm")).unwrap();
    let (keeper, daemon) = (keeper_pid(&home), home.daemon_pid());
    for _ in 0..2 {
        assert!(line(keeper).starts_with("greenroom keeper"), "{}", line(keeper));
        assert_eq!(line(home.daemon_pid()), "greenroom daemon");
        assert_eq!(comm(keeper), "greenroom\n");
        assert_eq!(comm(home.daemon_pid()), "greenroom\n");
        // Also under a new image.
        home.ok(&["upgrade"]);
    }
    assert_ne!(home.daemon_pid(), daemon);
}

/// An orphan of a confined session, and what that starts, has parents that tell nothing; it is not
/// served all the same.
#[test]
fn no_orphan_of_a_confined_session_is_served() {
    let own = rustix::process::geteuid().as_raw();
    let user = if own == 0 { 12_345 } else { own };
    let dir = tempfile::Builder::new().prefix("gr-").tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let home = Home::of(user, dir, "home");
    let work = home.around().join("work");
    std::fs::create_dir(&work).unwrap();
    std::os::unix::fs::chown(&work, Some(user), Some(user)).unwrap();
    let mark = sleep_mark();
    let call = "greenroom new --no-start --name escaped -- sleep 1000";
    let orphan = format!(
        "while [ ! -e go ]; do sleep 0.05; done; {call} >by-orphan 2>&1; echo done >>by-orphan; exec sleep {mark}"
    );
    let script = format!(
        "(setsid sh -c '{orphan}' >/dev/null 2>&1 &); {call} >by-program 2>&1; echo done >>by-program; read x"
    );
    let started = home.run(&[
        "new",
        "--name",
        "r",
        "--sandbox=reduced",
        "--sandbox-allow",
        "unix",
        "--cwd",
        work.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        &script,
    ]);
    if started.code != 0 {
        // No Landlock here.
        assert!(started.err.contains("sandbox"), "{started:?}");
        return;
    }
    std::fs::write(work.join("go"), "").unwrap();
    for name in ["by-program", "by-orphan"] {
        let said = eventually(name, || {
            let text = std::fs::read_to_string(work.join(name)).ok()?;
            text.ends_with("done\n").then_some(text)
        });
        assert!(said.contains("not served"), "{name}: {said}");
    }
    assert_ne!(home.run(&["info", "escaped"]).code, 0);
    wait_for(&mark, 1);
    // It does not outlive its session either, and people outside are served as ever.
    home.ok(&["send", "r", "--enter", "go"]);
    none_left(&mark);
    home.ok(&["new", "--name", "after", "--", "true"]);
}

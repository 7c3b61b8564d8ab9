//! Starting, dying, upgrading, stopping.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{BIN, Home, gone_within};

#[test]
fn many_starters_at_once_share_one_host() {
    let home = Home::new();
    let children: Vec<_> = (0..8)
        .map(|_| {
            home.command(&["new", "--", "sh", "-c", "read x"])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut ids: Vec<String> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        })
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 8, "{ids:?}");
}

#[test]
fn the_host_outlives_its_starter_and_its_terminal() {
    let home = Home::new();
    home.shell("read x");
    let stats = home.call("server.stats", json!({}));
    for pid in [&stats["daemon_pid"], &stats["keeper_pid"]] {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        assert_eq!(fields[4], "0", "{pid} has a controlling terminal");
        assert_ne!(fields[3], std::process::id().to_string(), "{pid} is in our session");
        let stdin = std::fs::read_link(format!("/proc/{pid}/fd/0")).unwrap();
        assert_eq!(stdin.to_str(), Some("/dev/null"));
    }
}

#[test]
fn verbs_work_across_a_killed_daemon() {
    let home = Home::new();
    let id = home.shell("i=0; while read x; do i=$((i+1)); echo got $i; done");
    for round in 1..=5 {
        kill_process(Pid::from_raw(home.daemon_pid()).unwrap(), Signal::KILL).unwrap();
        home.ok(&["send", &id, "x", "--enter"]);
        home.wait_text(&id, &format!("got {round}"));
    }
}

#[test]
fn a_wait_survives_the_daemon() {
    let home = Home::new();
    let id = home.shell("echo up; read x; echo heard; read y");
    home.wait_text(&id, "up");
    let wait = home
        .command(&["wait", &id, "--until", "text=heard"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    crate::support::eventually("the wait is there", || {
        (home.call("server.stats", json!({}))["waits"].as_u64() >= Some(1)).then_some(())
    });
    kill_process(Pid::from_raw(home.daemon_pid()).unwrap(), Signal::KILL).unwrap();
    home.ok(&["send", &id, "go", "--enter"]);
    let output = wait.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "heard\n");
}

#[test]
fn upgrade_replaces_daemon_and_keeper_and_keeps_sessions() {
    let home = Home::new();
    let id = home.shell("echo up; while read x; do echo got $x; done");
    home.wait_text(&id, "up");
    let pid = home.json(&["info", &id, "--json"])["pid"].clone();
    let before = home.call("server.stats", json!({}));
    let copy = home.path().join("greenroom-new");
    std::fs::copy(BIN, &copy).unwrap();
    let text = home.ok(&["upgrade", "--binary", copy.to_str().unwrap()]);
    assert!(
        text.starts_with("upgraded daemon and keeper from 0.")
            && text.contains("1 session went on"),
        "{text}"
    );
    let after = home.call("server.stats", json!({}));
    assert_ne!(after["daemon_pid"], before["daemon_pid"]);
    assert_eq!(after["keeper_pid"], before["keeper_pid"]);
    let exe = std::fs::read_link(format!("/proc/{}/exe", after["daemon_pid"])).unwrap();
    assert_eq!(exe.file_name().unwrap(), "greenroom-new");
    assert_eq!(home.json(&["info", &id, "--json"])["pid"], pid);
    home.ok(&["send", &id, "more", "--enter"]);
    home.wait_text(&id, "got more");
    let value = home.json(&["upgrade", "--json"]);
    assert_eq!(value["generation"], 2, "{value}");
}

#[test]
fn an_upgrade_to_something_else_is_refused() {
    let home = Home::new();
    let id = home.shell("read x");
    let said = home.run(&["upgrade", "--binary", "/bin/true"]);
    assert_ne!(said.code, 0, "{said:?}");
    assert!(said.err.contains("cannot upgrade"), "{said:?}");
    let said = home.run(&["upgrade", "--binary", "/no/such/file"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(home.ok(&["ls"]).contains(&id));
    let other = Home::new();
    assert_eq!(other.run(&["upgrade"]).code, 7, "there is nothing to upgrade");
}

#[test]
fn shutdown_ends_everything() {
    let home = Home::new();
    home.shell("read x");
    let pid = home.json(&["info", "s1", "--json"])["pid"].as_i64().unwrap();
    let said = home.run(&["shutdown", "--if-idle"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(home.ok(&["shutdown"]), "the host has stopped; 1 session ended");
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    assert!(gone_within(pid, std::time::Duration::from_secs(5)));
    assert!(!home.socket().exists());
    assert_eq!(home.run(&["shutdown"]).code, 0, "there is nothing to stop");
    // The next verb starts a new one, which still knows the old session.
    assert!(home.ok(&["ls"]).contains("s1"));
}

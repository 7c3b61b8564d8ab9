//! Settings: read again while sessions go on, and what a mistake in them costs.

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Home, eventually};

fn configure(home: &Home, text: &str) {
    std::fs::write(home.path().join("config.toml"), text).unwrap();
}

fn term(home: &Home) -> String {
    let id = home.shell("echo term=$TERM");
    home.ok(&["wait", &id, "--until", "exit"]);
    home.screen(&id)
}

#[test]
fn reload_says_what_holds_now_and_what_later() {
    let home = Home::new();
    assert!(home.ok(&["reload"]).starts_with("no host runs"));
    let running = home.shell("read x");
    assert!(home.ok(&["reload"]).starts_with("nothing changed in "));
    configure(&home, "[sessions]\nterm = \"vt220\"\n[log]\nlevel = \"debug\"\n");
    let said = home.ok(&["reload"]);
    assert_eq!(said, "holds from now on: sessions.term\nholds after greenroom upgrade: log.level");
    assert_eq!(term(&home), "term=vt220");
    // Said again until it is so.
    let again = home.json(&["reload", "--json"]);
    assert_eq!(
        (&again["changed"], &again["restart"]),
        (&serde_json::json!([]), &serde_json::json!(["log.level"]))
    );
    home.ok(&["upgrade"]);
    assert!(home.ok(&["reload"]).starts_with("nothing changed in "));
    assert_eq!(home.json(&["info", &running, "--json"])["state"], "running");
}

#[test]
fn a_broken_file_changes_nothing_and_is_told_by_line() {
    let home = Home::new();
    configure(&home, "[sessions]\nterm = \"vt220\"\n");
    home.shell("read x");
    configure(&home, "[sessions]\nterm = \"vt100\"\nkill_grace = \"soon\"\n");
    let said = home.run(&["reload"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(
        said.err.contains("the old ones stay") && said.err.contains("config.toml:3: "),
        "{said:?}"
    );
    assert_eq!(term(&home), "term=vt220");
}

#[test]
fn sighup_to_either_process_is_a_reload_and_ends_nothing() {
    let home = Home::new();
    let running = home.shell("read x");
    let stats = home.call("server.stats", serde_json::json!({}));
    for (name, wanted) in [("daemon_pid", "vt220"), ("keeper_pid", "vt100")] {
        configure(&home, &format!("[sessions]\nterm = \"{wanted}\"\n"));
        let pid = i32::try_from(stats[name].as_i64().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::HUP).unwrap();
        eventually("the settings hold", || {
            home.ok(&["events"])
                .matches("daemon.reloaded")
                .count()
                .gt(&usize::from(wanted == "vt100"))
                .then_some(())
        });
        assert_eq!(term(&home), format!("term={wanted}"));
    }
    // A broken file is no reason to go, either.
    configure(&home, "[sessions\n");
    for name in ["daemon_pid", "keeper_pid"] {
        let pid = i32::try_from(stats[name].as_i64().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::HUP).unwrap();
    }
    assert_eq!(term(&home), "term=vt100");
    let now = home.call("server.stats", serde_json::json!({}));
    assert_eq!(
        (&now["daemon_pid"], &now["keeper_pid"]),
        (&stats["daemon_pid"], &stats["keeper_pid"])
    );
    assert_eq!(home.json(&["info", &running, "--json"])["state"], "running");
}

#[test]
fn a_bad_setting_is_the_first_thing_said() {
    let home = Home::new();
    configure(&home, "[attach]\nprefix = \"shift-b\"\n");
    let said = home.run(&["doctor"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("config.toml:2: `prefix`"), "{said:?}");
    let said = home.run(&["ls"]);
    assert_eq!(said.code, 7, "{said:?}");
    let first = said.err.lines().next().unwrap();
    assert!(
        first.starts_with("greenroom: cannot start the host: ") && first.contains("config.toml:2"),
        "{said:?}"
    );
}

#[test]
fn beside_a_broken_file_every_verb_warns() {
    let home = Home::new();
    let running = home.shell("read x");
    configure(&home, "[sessions]\nkill_grace = \"soon\"\n");
    for args in [
        &["ls"][..],
        &["stats"],
        &["info", &running],
        &["upgrade"],
        &["ls", "--json"],
        &["stats", "--json"],
        &["shutdown", "--json"],
    ] {
        let said = home.run(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        assert!(said.err.contains("config.toml:2: "), "{args:?}: {said:?}");
        assert!(said.err.contains("starts no session"), "{args:?}: {said:?}");
        if args.contains(&"--json") {
            let warning: serde_json::Value = serde_json::from_str(&said.err).unwrap();
            assert!(warning["warning"]["message"].is_string(), "{said:?}");
            let _: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        }
        assert!(!said.out.contains("warning"), "{args:?}: {said:?}");
    }
}

#[test]
fn the_hint_names_the_file_that_was_read() {
    let home = Home::new();
    let yaml = home.path().join("config.yaml");
    std::fs::write(&yaml, "sessions:\n  kill_grace: soon\n").unwrap();
    let hint = format!("hint: edit {}", yaml.display());
    assert!(home.run(&["reload"]).err.contains(&hint));
    std::fs::write(&yaml, "").unwrap();
    home.shell("read x");
    std::fs::write(&yaml, "sessions:\n  kill_grace: soon\n").unwrap();
    let said = home.run(&["reload"]);
    assert!(said.code == 1 && said.err.contains(&hint), "{said:?}");
    assert!(home.run(&["doctor"]).out.contains(&format!("edit {}", yaml.display())));
}

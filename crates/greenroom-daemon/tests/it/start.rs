//! The start: modes, other users, configuration, places that cannot be written.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::host::{Host, first_words, keeper_command};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn nobody_else_can_read_anything() {
    let host = Host::start();
    let mut client = host.client();
    let id = host.session(&mut client, "echo secret; cat");
    crate::host::wait_for(&mut client, &id, "secret");
    client.ok("session.transcript", json!({ "session": id, "since": 0 }));
    assert_eq!(mode(&host.paths.socket()), 0o600);
    for dir in
        [host.paths.runtime(), host.paths.state(), &host.paths.sessions(), &host.paths.logs()]
    {
        assert_eq!(mode(dir), 0o700, "{}", dir.display());
    }
    let mut open = vec![host.paths.state().to_owned()];
    let mut files = 0;
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
                files += 1;
            }
        }
    }
    assert!(files > 3);
}

#[test]
fn another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let host = Host::start();
    for dir in [host.home.path(), host.paths.runtime()] {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::fs::set_permissions(host.paths.socket(), PermissionsExt::from_mode(0o666)).unwrap();
    let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\nsys.stdout.write(s.recv(4096).decode())";
    let output = Command::new("python3")
        .args(["-c", script])
        .arg(host.paths.socket())
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("permission_denied"),
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(host.client().ok("server.stats", json!({}))["counters"]["connections_refused"], 1);
}

#[test]
fn a_mistake_in_the_configuration_is_told_with_its_line() {
    let home = test_kit::place::private();
    let file = home.path().join("config.toml");
    std::fs::write(&file, "[sessions]\n\ndefault_sise = \"80x24\"\n").unwrap();
    let mut keeper = keeper_command(home.path()).spawn().unwrap();
    let words = first_words(&mut keeper);
    let expected =
        format!("{}:3: unknown key `default_sise`, did you mean `default_size`?", file.display());
    assert!(words.contains(&expected), "{words}");
    assert!(!keeper.wait().unwrap().success());
}

#[test]
fn the_configuration_is_obeyed_and_a_later_mistake_does_not_stop_a_restart() {
    let host =
        Host::with_config("[sessions]\ndefault_size = \"66x11\"\nmax = 1\nshell = \"/bin/cat\"\n");
    let mut client = host.client();
    client.ok("session.create", json!({}));
    let info = client.ok("session.info", json!({ "session": "s1" }));
    assert_eq!(info["size"]["cols"], 66);
    assert_eq!(info["command"], json!(["/bin/cat"]));
    assert_eq!(client.fault("session.create", json!({}))["data"]["kind"], "busy");
    std::fs::write(host.home.path().join("config.toml"), "nonsense = \n").unwrap();
    host.kill_daemon();
    assert_eq!(host.client().ok("session.info", json!({ "session": "s1" }))["state"], "running");
}

#[test]
fn a_home_that_cannot_be_used_is_one_sentence() {
    let home = test_kit::place::private();
    std::fs::write(home.path().join("state"), "a file in the way").unwrap();
    let mut keeper = keeper_command(home.path()).spawn().unwrap();
    let words = first_words(&mut keeper);
    assert!(
        words.starts_with("cannot ") && words.contains("state") && words.lines().count() == 1,
        "{words}"
    );
    assert!(!keeper.wait().unwrap().success());
}

#[test]
fn the_log_names_no_text_and_no_variable() {
    let host = Host::start();
    let mut client = host.client();
    let params = json!({ "command": ["sh", "-c", "echo TEXT-OF-SESSION; cat"], "cwd": "/",
                         "env": { "SECRET": "VALUE-OF-VARIABLE" } });
    let id = client.ok("session.create", params)["session"].as_str().unwrap().to_owned();
    crate::host::wait_for(&mut client, &id, "TEXT-OF-SESSION");
    client.ok("session.close", json!({ "session": id }));
    drop(client);
    host.kill_daemon();
    let log = host.log();
    assert!(log.contains("serving"), "{log}");
    assert!(!log.contains("TEXT-OF-SESSION") && !log.contains("VALUE-OF-VARIABLE"), "{log}");
}

//! A host in a temporary home. Ended, with everything it started, when the test is.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use greenroom_config::Paths;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;
use test_kit::process::gone_within;
pub use test_kit::process::signal;
use test_kit::{place, wait};

use crate::client::Client;

pub struct Host {
    pub home: TempDir,
    pub paths: Paths,
    keeper: Child,
}

/// The example that is keeper and daemon.
pub fn keeper_command(home: &Path) -> Command {
    let mut command = Command::new(place::example("daemon-host"));
    command
        .arg("keeper")
        .env("GREENROOM_HOME", home)
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command
}

/// What the keeper says when it serves, or why it does not.
pub fn first_words(keeper: &mut Child) -> String {
    let mut words = String::new();
    keeper.stdout.as_mut().unwrap().read_to_string(&mut words).unwrap();
    words
}

impl Host {
    pub fn start() -> Host {
        Host::with_config("")
    }

    pub fn with_config(config: &str) -> Host {
        let home = place::private();
        if !config.is_empty() {
            std::fs::write(home.path().join("config.toml"), config).unwrap();
        }
        Host::in_home(home, &[])
    }

    /// With variables for the daemon; their values are files in the home.
    pub fn in_home(home: TempDir, env: &[(&str, &str)]) -> Host {
        let mut command = keeper_command(home.path());
        for (name, file) in env {
            command.env(name, home.path().join(file));
        }
        let mut keeper = command.spawn().unwrap();
        let words = first_words(&mut keeper);
        assert_eq!(words, "ok\n", "the host did not start");
        Host { paths: Paths::below(home.path()), home, keeper }
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.paths.socket())
    }

    pub fn keeper_pid(&self) -> i32 {
        self.keeper.id() as i32
    }

    /// The daemon that answers now.
    pub fn daemon_pid(&self) -> i32 {
        self.client().ok("server.hello", json!({}))["daemon_pid"].as_i64().unwrap() as i32
    }

    /// Kills the daemon and gives back the pid of the one that answers next.
    pub fn kill_daemon(&self) -> i32 {
        let old = self.daemon_pid();
        signal(old, Signal::KILL);
        // Until then it may still accept a connection, and take it along.
        assert!(gone_within(Pid::from_raw(old).unwrap(), wait::PATIENCE));
        let new = self.daemon_pid();
        assert_ne!(new, old);
        new
    }

    /// A session that runs `script` and does not end by itself before the script does.
    pub fn session(&self, client: &mut Client, script: &str) -> String {
        let created =
            client.ok("session.create", json!({ "command": ["sh", "-c", script], "cwd": "/" }));
        created["session"].as_str().unwrap().to_owned()
    }

    pub fn log(&self) -> String {
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        [self.paths.keeper_log(), self.paths.daemon_err(), self.paths.daemon_log()]
            .map(read)
            .join("\n----\n")
    }

    /// Waits for the keeper's end and keeps its home.
    pub fn ended(&mut self) {
        self.keeper.wait().unwrap();
    }

    /// Waits for the keeper's end.
    pub fn wait(mut self) -> Option<i32> {
        self.keeper.wait().unwrap().code()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        if let Ok(None) = self.keeper.try_wait() {
            // Twice: at once, without grace.
            signal(self.keeper_pid(), Signal::TERM);
            signal(self.keeper_pid(), Signal::TERM);
            let _ = self.keeper.wait();
        }
    }
}

/// The screen's text.
pub fn screen(client: &mut Client, session: &str) -> String {
    let shot = client.ok("session.snapshot", json!({ "session": session, "format": "text" }));
    shot["text"].as_str().unwrap().to_owned()
}

/// Waits until the output holds this text.
pub fn wait_for(client: &mut Client, session: &str, text: &str) -> Value {
    let matcher = json!({ "type": "transcript_contains", "value": text });
    client.ok(
        "session.wait",
        json!({ "session": session, "matcher": matcher, "timeout_ms": 20_000, "snapshot": false }),
    )
}

pub fn wait_exit(client: &mut Client, session: &str) {
    let matcher = json!({ "type": "process_exited" });
    let params =
        json!({ "session": session, "matcher": matcher, "timeout_ms": 20_000, "snapshot": false });
    client.ok("session.wait", params);
}

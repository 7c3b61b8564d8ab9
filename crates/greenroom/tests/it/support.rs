//! A home, the binary in it, and the certainty that nothing is left running.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use test_kit::place;
pub use test_kit::place::link_or_copy;
pub use test_kit::process::gone_within;
pub use test_kit::run::Said;
pub use test_kit::wait::eventually;

pub const BIN: &str = env!("CARGO_BIN_EXE_greenroom");

/// A private home; its host ends with it.
pub struct Home {
    dir: tempfile::TempDir,
    /// Below the directory, or the directory itself.
    path: PathBuf,
    /// The binary, where its user can reach it.
    bin: PathBuf,
    /// Whose home it is, if not ours.
    user: Option<u32>,
}

impl Home {
    pub fn new() -> Home {
        let dir = place::private();
        let path = dir.path().to_owned();
        Home { dir, path, bin: BIN.into(), user: None }
    }

    /// One of somebody else's, in a directory that holds more than it. The binary is taken along to
    /// `bin`: the build's own directory may be out of reach for others.
    pub fn of(user: u32, dir: tempfile::TempDir, name: &str) -> Home {
        let bin = dir.path().join("bin/greenroom");
        std::fs::create_dir_all(dir.path().join("bin")).unwrap();
        link_or_copy(Path::new(BIN), &bin);
        let path = dir.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        std::os::unix::fs::chown(&path, Some(user), Some(user)).unwrap();
        let user = (user != rustix::process::geteuid().as_raw()).then_some(user);
        Home { dir, path, bin, user }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory it lies in, if it is not all of it.
    pub fn around(&self) -> &Path {
        self.dir.path()
    }

    pub fn socket(&self) -> PathBuf {
        self.path().join("run/greenroom.sock")
    }

    /// The binary with a clean environment of this home.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = test_kit::run::plain(&self.bin, self.path());
        command.args(args).current_dir(self.path());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let bin_dir = self.bin.parent().unwrap().display();
        command.env("PATH", format!("{bin_dir}:{}:/usr/games", test_kit::run::PATH));
        command.env("GREENROOM_HOME", self.path()).env("PS1", "ready> ");
        command
    }

    pub fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).output().unwrap())
    }

    pub fn run_with_input(&self, args: &[&str], input: &str) -> Said {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        Said::of(child.wait_with_output().unwrap())
    }

    /// Runs it and expects success; answers stdout without its last newline.
    #[track_caller]
    pub fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args);
        assert_eq!(said.code, 0, "{args:?}: {said:?}");
        said.out.strip_suffix('\n').map(str::to_owned).unwrap_or(said.out)
    }

    /// The one JSON document of a run.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(args);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
    }

    /// Starts a shell command in a session and answers its id.
    #[track_caller]
    pub fn shell(&self, script: &str) -> String {
        self.ok(&["new", "--", "sh", "-c", script])
    }

    /// Waits until the session shows the text.
    #[track_caller]
    pub fn wait_text(&self, session: &str, pattern: &str) {
        let until = format!("text={pattern}");
        let said = self.run(&["wait", session, "--until", &until, "--timeout", "30s"]);
        assert_eq!(
            said.code,
            0,
            "{pattern:?} did not come: {}\n{}",
            said.err,
            self.run(&["read", session]).out
        );
    }

    pub fn screen(&self, session: &str) -> String {
        self.ok(&["read", session])
    }

    /// `server.stats` and such, through the API itself.
    #[track_caller]
    pub fn call(&self, method: &str, params: Value) -> Value {
        let request =
            serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut command = self.command(&["serve", "--stdio", "--shared", "--no-start"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "{request}").unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        drop(stdin);
        child.wait().unwrap();
        let reply: Value =
            serde_json::from_str(&line).unwrap_or_else(|error| panic!("{method}: {error}: {line}"));
        assert!(reply.get("error").is_none(), "{reply}");
        reply["result"].clone()
    }

    pub fn daemon_pid(&self) -> i32 {
        i32::try_from(
            self.call("server.stats", serde_json::json!({}))["daemon_pid"].as_i64().unwrap(),
        )
        .unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let lock =
            std::fs::read_to_string(self.path().join("run/greenroom.lock")).unwrap_or_default();
        let keeper = lock.trim().parse().ok().and_then(Pid::from_raw);
        let Some(keeper) = keeper else { return };
        drop(self.run(&["shutdown", "--no-start", "--grace", "100ms"]));
        if !gone_within(keeper, Duration::from_secs(10)) {
            // Ours: its pid stands in our own lock file.
            let _ = kill_process(keeper, Signal::TERM);
            if !gone_within(keeper, Duration::from_secs(10)) {
                let _ = kill_process(keeper, Signal::KILL);
            }
            if !std::thread::panicking() {
                panic!("the keeper {keeper:?} did not end by itself");
            }
        }
    }
}

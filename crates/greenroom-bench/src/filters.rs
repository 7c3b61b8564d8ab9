//! Filters: what a plugin between a session and its readers costs, by how its program is run.
//!
//! In: the release binary. Out: lines answered per second, and how long a session takes with and without a filter. A host of
//! its own: plugins are off in the one the other rows measure. The plugin is the same Python in both forms.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::wire::Connection;

/// Looked at this often until all lines are answered for.
const LOOK: Duration = Duration::from_millis(2);

/// A filter that takes longer is broken, not slow.
const LIMIT: Duration = Duration::from_secs(120);

/// One answer for one line, or edits for many; started for each call or kept.
const FILTER: &str = r#"#!/usr/bin/env python3
import json, sys
def answer(ask):
    if "items" in ask:
        edits = [[i["n"], "[redacted]"] for i in ask["items"] if "PASSWORD" in i["line"]]
        return {"id": ask["id"], "edits": edits}
    if "PASSWORD" in ask.get("line", ""):
        return {"action": "replace", "line": "[redacted]"}
    return {"action": "pass"}
for text in sys.stdin:
    ask = json.loads(text)
    if "hello" in ask:
        ask = {"hello": {"features": ["filter.batch"]}}
        print(json.dumps(ask), flush=True)
        continue
    print(json.dumps(answer(ask)), flush=True)
"#;

/// How a plugin's program is run.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    Oneshot,
    Jsonl,
    /// Kept, and asked only about lines that have the word.
    Prefiltered,
}

impl Form {
    const ALL: [Form; 3] = [Form::Oneshot, Form::Jsonl, Form::Prefiltered];

    fn name(self) -> &'static str {
        match self {
            Form::Oneshot => "oneshot",
            Form::Jsonl => "jsonl",
            Form::Prefiltered => "prefiltered",
        }
    }

    fn manifest(self) -> String {
        let kind = if matches!(self, Form::Oneshot) { "oneshot" } else { "jsonl" };
        let when = match self {
            Form::Prefiltered => "when = { regex = \"PASSWORD\" }\n",
            _ => "",
        };
        format!(
            "schema = 1\n[plugin]\nname = \"{}\"\nversion = \"1\"\n[[runtime]]\nid = \"main\"\nkind = \"{kind}\"\ncommand = [\"./filter\"]\n[[hooks]]\nhook = \"output.filter\"\nstage = \"redact\"\ntimeout_ms = 10000\n{when}",
            self.name()
        )
    }
}

pub struct Filtering {
    bin: PathBuf,
    home: tempfile::TempDir,
    connection: Connection,
}

impl Filtering {
    pub fn start(bin: &Path) -> Result<Filtering> {
        let home = tempfile::tempdir().context("cannot make a home for the host")?;
        std::fs::write(home.path().join("config.toml"), "[plugins]\nenabled = true\n")?;
        for form in Form::ALL {
            let dir = home.path().join("plugins").join(form.name());
            std::fs::create_dir_all(&dir)?;
            std::fs::write(dir.join("plugin.toml"), form.manifest())?;
            let program = dir.join("filter");
            std::fs::write(&program, FILTER)?;
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755))?;
        }
        let status = Command::new(bin)
            .arg("ls")
            .env("GREENROOM_HOME", home.path())
            .stdout(Stdio::null())
            .status()
            .with_context(|| format!("cannot run {}", bin.display()))?;
        ensure!(status.success(), "the host did not start ({status})");
        let mut connection = Connection::open(&home.path().join("run/greenroom.sock"))?;
        for form in Form::ALL {
            let _: Value = connection.call("plugin.grant", &json!({ "name": form.name() }))?;
        }
        Ok(Filtering { bin: bin.to_owned(), home, connection })
    }

    /// Exactly this one, or none.
    fn only(&mut self, form: Option<Form>) -> Result<()> {
        for other in Form::ALL {
            let on = form.is_some_and(|form| form.name() == other.name());
            let method = if on { "plugin.enable" } else { "plugin.disable" };
            let _: Value = self.connection.call(method, &json!({ "name": other.name() }))?;
        }
        Ok(())
    }

    fn session(&mut self, lines: usize) -> Result<String> {
        let command = json!(["seq", "-f", "line %g of the output", lines.to_string()]);
        let params = json!({ "command": command, "cwd": "/" });
        let created: Value = self.connection.call("session.create", &params)?;
        created["session"].as_str().map(str::to_owned).context("no session")
    }

    /// Lines per second until a reader has them all.
    pub fn answered(&mut self, form: Form, lines: usize) -> Result<f64> {
        self.only(Some(form))?;
        // Not measured: the first start of the program.
        self.read_all(100)?;
        let began = Instant::now();
        self.read_all(lines)?;
        Ok(lines as f64 / began.elapsed().as_secs_f64())
    }

    fn read_all(&mut self, lines: usize) -> Result<()> {
        let session = self.session(lines)?;
        let began = Instant::now();
        let (mut since, mut seen) = (0, 0);
        while seen < lines {
            ensure!(began.elapsed() < LIMIT, "{seen} of {lines} lines after {LIMIT:?}");
            let params = json!({
                "session": session, "since": since, "max_bytes": 1_000_000, "format": "text",
            });
            let page: Value = self.connection.call("session.transcript", &params)?;
            seen += page["text"].as_str().unwrap_or_default().matches('\n').count();
            let next = page["next_seq"].as_u64().context("no next_seq")?;
            if next == since {
                std::thread::park_timeout(LOOK);
            }
            since = next;
        }
        self.close(&session)
    }

    /// How long a session takes to print this many lines.
    pub fn runs(&mut self, form: Option<Form>, lines: usize) -> Result<Duration> {
        self.only(form)?;
        let began = Instant::now();
        let session = self.session(lines)?;
        let wait = json!({
            "session": session, "matcher": { "type": "process_exited" }, "timeout_ms": 60_000,
            "snapshot": false,
        });
        let _: Value = self.connection.call("session.wait", &wait)?;
        let took = began.elapsed();
        self.close(&session)?;
        Ok(took)
    }

    fn close(&mut self, session: &str) -> Result<()> {
        let _: Value = self.connection.call("session.close", &json!({ "session": session }))?;
        Ok(())
    }
}

impl Drop for Filtering {
    fn drop(&mut self) {
        let mut shutdown = Command::new(&self.bin);
        shutdown.args(["--no-start", "shutdown"]).env("GREENROOM_HOME", self.home.path());
        let _ = shutdown.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

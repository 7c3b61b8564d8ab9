//! Filters: what a plugin between a session and its readers costs, by how its program is run.
//!
//! In: the release binary. Out: lines answered per second, and how long a session takes with and
//! without a filter. A host of its own: plugins are off in the one the other rows measure. The
//! plugin is the same Python in both forms.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use greenroom_protocol::methods::{Method as _, method};
use serde_json::json;

use crate::contender::Programs;
use crate::greenroom::Greenroom;

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

/// A host with these plugins, all granted: a name, a manifest and a program each.
pub fn host_with<'a>(
    bin: &Path,
    programs: Programs,
    plugins: impl Iterator<Item = (&'a str, String, &'a str)>,
) -> Result<Greenroom> {
    let home = tempfile::tempdir().context("cannot make a home for the host")?;
    std::fs::write(home.path().join("config.toml"), "[plugins]\nenabled = true\n")?;
    let mut names = Vec::new();
    for (name, manifest, program) in plugins {
        let dir = home.path().join("plugins").join(name);
        std::fs::create_dir_all(&dir)?;
        std::fs::write(dir.join("plugin.toml"), manifest)?;
        let path = dir.join("filter");
        std::fs::write(&path, program)?;
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755))?;
        names.push(name);
    }
    let mut host = Greenroom::start_in(bin, programs, home)?;
    for name in names {
        host.call(method::PluginGrant::NAME, &json!({ "name": name }))?;
    }
    Ok(host)
}

pub struct Filtering {
    host: Greenroom,
}

impl Filtering {
    pub fn start(bin: &Path, programs: Programs) -> Result<Filtering> {
        let plugins = Form::ALL.into_iter().map(|form| (form.name(), form.manifest(), FILTER));
        Ok(Filtering { host: host_with(bin, programs, plugins)? })
    }

    /// Exactly this one, or none.
    fn only(&mut self, form: Option<Form>) -> Result<()> {
        for other in Form::ALL {
            let on = form.is_some_and(|form| form.name() == other.name());
            let method = if on { method::PluginEnable::NAME } else { method::PluginDisable::NAME };
            self.host.call(method, &json!({ "name": other.name() }))?;
        }
        Ok(())
    }

    fn session(&mut self, lines: usize) -> Result<String> {
        let command = json!(["seq", "-f", "line %g of the output", lines.to_string()]);
        let params = json!({ "command": command, "cwd": "/" });
        let created = self.host.call(method::SessionCreate::NAME, &params)?;
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
            let page = self.host.call(method::SessionTranscript::NAME, &params)?;
            seen += page["text"].as_str().unwrap_or_default().matches('\n').count();
            let next = page["next_seq"].as_u64().context("no next_seq")?;
            if next == since {
                std::thread::park_timeout(LOOK);
            }
            since = next;
        }
        self.host.close(&session)
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
        self.host.call(method::SessionWait::NAME, &wait)?;
        let took = began.elapsed();
        self.host.close(&session)?;
        Ok(took)
    }
}

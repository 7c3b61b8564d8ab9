//! A host with plugins: written into its home, agreed to, asked by what sessions do.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;
use test_kit::place;
pub use test_kit::wait::eventually;

use crate::client::Client;
use crate::host::Host;
pub use crate::host::wait_exit;

pub const CONFIG: &str = "[plugins]\nenabled = true\nidle = \"300ms\"\n";

/// A home in which plugins may run.
pub fn home(config: &str) -> TempDir {
    let home = place::private();
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    home
}

fn place(home: &Path, name: &str, script: &str) -> PathBuf {
    let dir = home.join("plugins").join(name);
    std::fs::create_dir_all(&dir).unwrap();
    place::set_mode(&dir, 0o700);
    place::program(&dir.join("run"), script);
    dir
}

/// A plugin in datawatch's form.
pub fn datawatch(home: &Path, name: &str, hooks: &[&str], script: &str) {
    let dir = place(home, name, script);
    let manifest = format!(
        "name: {name}\nversion: 0.1.0\nentry: ./run\nhooks: [{}]\ntimeout_ms: 5000\n",
        hooks.join(", ")
    );
    std::fs::write(dir.join("manifest.yaml"), manifest).unwrap();
}

/// Hides lines, rows and titles with a password in them. Answers batches and single lines, kept or
/// started for each.
pub const REDACTOR: &str = r#"#!/usr/bin/env python3
import json, sys
for text in sys.stdin:
    ask = json.loads(text)
    if "hello" in ask:
        print(json.dumps({"hello": {"features": ["filter.batch"]}}), flush=True)
    elif "items" in ask:
        edits = [[i["n"], "[redacted]"] for i in ask["items"] if "PASSWORD" in i["line"]]
        print(json.dumps({"id": ask["id"], "edits": edits}), flush=True)
    else:
        secret = "PASSWORD" in ask["line"]
        print(json.dumps({"action": "replace", "line": "[redacted]"} if secret else {"action": "pass"}), flush=True)
"#;

/// A plugin in our own form, with `more` below each hook and a runtime of this kind.
pub fn native(home: &Path, name: &str, kind: &str, hooks: &[&str], more: &str, script: &str) {
    let dir = place(home, name, script);
    let mut manifest = format!(
        "schema = 1\n[plugin]\nname = \"{name}\"\nversion = \"1\"\n[[runtime]]\nid = \"main\"\nkind = \"{kind}\"\ncommand = [\"./run\"]\n"
    );
    for hook in hooks {
        manifest.push_str(&format!("[[hooks]]\nhook = \"{hook}\"\n{more}\n"));
    }
    std::fs::write(dir.join("plugin.toml"), manifest).unwrap();
}

/// Answers `answer` to everything and writes down what it was asked.
pub fn noting(answer: &str) -> String {
    format!(
        "#!/bin/sh\nread -r line\nprintf '%s\\n' \"$line\" >> \"$GREENROOM_PLUGIN_DATA/log\"\necho '{answer}'\n"
    )
}

pub fn grant(client: &mut Client, name: &str) {
    let granted = client.ok("plugin.grant", json!({ "name": name }));
    assert_eq!(granted["state"], "idle", "{granted}");
}

/// What a noting plugin was asked, so far.
pub fn notes(host: &Host, name: &str) -> Vec<Value> {
    let path = host.home.path().join("state/plugin-data/data").join(name).join("log");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until a noting plugin has been asked this often about a hook.
pub fn noted(host: &Host, name: &str, hook: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{name} asked about {hook} {count} times"), || {
        let about: Vec<Value> =
            notes(host, name).into_iter().filter(|note| note["hook"] == hook).collect();
        (about.len() >= count).then_some(about)
    })
}

/// Events of a kind in the log.
pub fn events(client: &mut Client, kind: &str) -> Vec<Value> {
    let page =
        client.ok("server.subscribe", json!({ "since": 0, "kinds": [kind], "follow": false }));
    page["events"].as_array().cloned().unwrap_or_default()
}

/// Waits for an event.
pub fn event(client: &mut Client, kind: &str) -> Value {
    eventually(kind, || events(client, kind).into_iter().next())
}

//! datawatch's `manifest.yaml`: `name`, `entry` and `hooks`, an executable per call.
//!
//! The plugin keeps its hook names, so it gets datawatch's payloads and fails as datawatch
//! promises. Keys for which there is nothing here (chat verbs, mobile, sampling) are kept under `x`
//! and told.

use std::collections::BTreeMap;
use std::path::Path;

use greenroom_plugin_api::file::{
    Docs, Format, HookEntry, Identity, Manifest, Runtime, RuntimeKind,
};
use greenroom_plugin_api::hook::HookName;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::form;
use crate::manifest::check::{check_inside, check_name};
use crate::manifest::load::{Doubt, Read};
use crate::manifest::{ENV_MAX, HOOKS_MAX, TIMEOUT_MS_MAX};
use crate::tree::{At, Node, Step, meant};

/// Its documents name it, its code never calls it.
const NEVER_FIRED: [&str; 1] = ["on_guardrail"];

/// Keys that are read by nothing here.
const KEPT: [&str; 5] =
    ["comm_commands", "cli_subcommands", "mobile", "session_injection", "sampling_triggers"];

#[derive(Debug, Deserialize, JsonSchema)]
struct Form {
    name: String,
    entry: String,
    #[schemars(length(max = HOOKS_MAX))]
    hooks: Vec<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    version: Option<Loose>,
    #[serde(default)]
    #[schemars(range(max = TIMEOUT_MS_MAX))]
    timeout_ms: Option<u64>,
    #[serde(default)]
    mode: Option<Mode>,
    #[serde(default)]
    env: Option<BTreeMap<String, Loose>>,
    #[serde(default)]
    docs: Option<Documents>,
    #[serde(default)]
    author: Option<String>,
    #[serde(default)]
    license: Option<String>,
    #[serde(default)]
    comm_commands: Option<Value>,
    #[serde(default)]
    cli_subcommands: Option<Value>,
    #[serde(default)]
    mobile: Option<Value>,
    #[serde(default)]
    session_injection: Option<Value>,
    #[serde(default)]
    sampling_triggers: Option<Value>,
}

/// A text that YAML may take for something else.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Loose {
    Text(String),
    Number(serde_json::Number),
    Flag(bool),
}

impl Loose {
    fn text(&self) -> String {
        match self {
            Loose::Text(text) => text.clone(),
            Loose::Number(number) => number.to_string(),
            Loose::Flag(flag) => flag.to_string(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
enum Mode {
    #[serde(rename = "oneshot")]
    Oneshot,
    #[serde(rename = "long-lived")]
    LongLived,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Documents {
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    howtos: Option<Value>,
}

pub(in crate::manifest) fn load(root: &Node<'_>, text: &str) -> Read {
    let (form, mut doubts) = form::<Form>(root)?;
    let mut problems = Vec::new();
    let at = |key| root.find(&[Step::Key(key)]);
    if let Err(why) = check_name(&form.name) {
        problems.push(At::new(at("name"), why));
    }
    entry(&form.entry, at("entry"), &mut problems, &mut doubts);
    let hooks = hooks(&form, root, &mut problems, &mut doubts);
    let files = form.docs.as_ref().map(|docs| docs.files.clone()).unwrap_or_default();
    if let Some(bad) = files.iter().find(|file| check_inside(file).is_err()) {
        problems.push(At::new(at("docs"), format!("{bad:?} must be a path inside the plugin")));
    }
    let env = form.env.as_ref().map(BTreeMap::len).unwrap_or_default();
    if env > ENV_MAX {
        problems.push(At::new(at("env"), format!("\"env\" must have at most {ENV_MAX} entries")));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let (x, kept) = kept(&form);
    doubts.extend(kept.into_iter().map(|key| {
        Doubt::new("W-IGNORED", at(key), format!("{key:?} is kept and has no effect here"))
    }));
    let kind = match form.mode {
        Some(Mode::LongLived) => RuntimeKind::Jsonl,
        _ => RuntimeKind::Oneshot,
    };
    let manifest = Manifest {
        schema: 1,
        plugin: Identity {
            name: form.name.clone(),
            version: clipped(version(&form, root, text), 64),
            description: clipped(form.description.clone().unwrap_or_default(), 500),
            author: form.author.clone(),
            license: form.license.clone(),
            ..Identity::default()
        },
        runtime: vec![Runtime {
            id: "main".to_owned(),
            kind,
            command: vec![form.entry.clone()],
            timeout_ms: form.timeout_ms.filter(|timeout| *timeout > 0),
            env: form.env.iter().flatten().map(|(k, v)| (k.clone(), v.text())).collect(),
            hello: false,
            ..Runtime::default()
        }],
        hooks,
        docs: Docs { files },
        x,
        format: Format::Datawatch,
        ..Manifest::default()
    };
    Ok((manifest, doubts))
}

fn entry(entry: &str, at: usize, problems: &mut Vec<At>, doubts: &mut Vec<Doubt>) {
    if Path::new(entry).is_absolute() && !entry.contains('\0') {
        let text = "the program is outside the plugin: what it is there is what runs";
        doubts.push(Doubt::new("W-OUTSIDE", at, text));
    } else if let Err(why) = check_inside(entry) {
        problems.push(At::new(at, format!("\"entry\" {why}")));
    }
}

fn hooks(
    form: &Form,
    root: &Node<'_>,
    problems: &mut Vec<At>,
    doubts: &mut Vec<Doubt>,
) -> Vec<HookEntry> {
    let mut entries: Vec<HookEntry> = Vec::new();
    for (index, name) in form.hooks.iter().enumerate() {
        let at = root.find(&[Step::Key("hooks"), Step::Index(index)]);
        match HookName::parse(name) {
            Some(hook) if entries.iter().any(|entry| entry.hook == hook) => {
                doubts.push(Doubt::new("W-TWICE", at, format!("{name} is named twice")));
            }
            Some(hook) => entries.push(HookEntry::new(hook)),
            None if NEVER_FIRED.contains(&name.as_str()) => {
                doubts.push(Doubt::new("W-IGNORED", at, format!("{name} is never fired")));
            }
            None => {
                let meant = meant(name, HookName::all());
                problems.push(At::new(at, format!("there is no hook {name:?}{meant}")));
            }
        }
    }
    entries
}

/// YAML takes `1.10` for a number and forgets the nought; the file has not.
fn version(form: &Form, root: &Node<'_>, text: &str) -> String {
    let Some(version) = &form.version else { return "0".to_owned() };
    let at = root.find(&[Step::Key("version")]);
    match version {
        Loose::Text(text) if text.is_empty() => "0".to_owned(),
        Loose::Number(_) => {
            let end = |c: char| c.is_whitespace() || matches!(c, ',' | '}' | '#');
            let source = text.get(at..).unwrap_or_default();
            source.split(end).next().unwrap_or_default().to_owned()
        }
        other => other.text(),
    }
}

/// It sets no limit; ours is for listings.
fn clipped(text: String, max: usize) -> String {
    text.chars().take(max).collect()
}

fn kept(form: &Form) -> (Option<Value>, Vec<&'static str>) {
    let values = [
        &form.comm_commands,
        &form.cli_subcommands,
        &form.mobile,
        &form.session_injection,
        &form.sampling_triggers,
    ];
    let mut kept = Map::new();
    let mut keys = Vec::new();
    for (key, value) in KEPT.into_iter().zip(values) {
        if let Some(value) = value {
            kept.insert(key.to_owned(), value.clone());
            keys.push(key);
        }
    }
    if let Some(howtos) = form.docs.as_ref().and_then(|docs| docs.howtos.as_ref()) {
        kept.insert("howtos".to_owned(), howtos.clone());
    }
    ((!kept.is_empty()).then(|| json!({"datawatch": kept})), keys)
}

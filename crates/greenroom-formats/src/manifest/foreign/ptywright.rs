//! ptywright's manifest, TOML or JSON: a Lua file that drives a program.

use std::collections::BTreeMap;

use greenroom_plugin_api::capability::{Allow, Capabilities};
use greenroom_plugin_api::faces::{Adapter, AdapterKind, Target};
use greenroom_plugin_api::file::{Format, Identity, Manifest, Runtime, RuntimeKind};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::form;
use crate::manifest::check::{check_inside, check_name};
use crate::manifest::load::Read;
use crate::tree::{At, Node, Step};

#[derive(Debug, Deserialize, JsonSchema)]
struct Form {
    #[schemars(length(min = 1))]
    name: String,
    kind: AdapterKind,
    #[schemars(length(min = 1))]
    version: String,
    #[serde(default)]
    runtime: Option<Language>,
    #[serde(default)]
    entrypoint: Option<String>,
    #[serde(default)]
    #[schemars(schema_with = "permissions")]
    permissions: Vec<String>,
    #[serde(default)]
    default_target: Option<DefaultTarget>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Language {
    Lua,
    Wasm,
}

/// What it may ask for, in its order.
pub const PERMISSIONS: [&str; 7] = [
    "session.spawn",
    "session.kill",
    "session.resize",
    "screen.read",
    "transcript.read",
    "input.write",
    "matcher.wait",
];

fn permissions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": { "type": "string", "enum": PERMISSIONS } })
}

#[derive(Debug, Deserialize, JsonSchema)]
struct DefaultTarget {
    #[schemars(length(min = 1))]
    program: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    rows: Option<u16>,
    #[serde(default)]
    cols: Option<u16>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    required_env: BTreeMap<String, String>,
}

pub(in crate::manifest) fn load(root: &Node<'_>) -> Read {
    let (form, doubts) = form::<Form>(root)?;
    let problems = check(&form, root);
    if !problems.is_empty() {
        return Err(problems);
    }
    let runtime = form.entrypoint.iter().map(|entry| Runtime {
        id: "main".to_owned(),
        kind: RuntimeKind::Lua,
        entry: Some(entry.clone()),
        ..Runtime::default()
    });
    let target = form.default_target.map(|target| Target {
        program: target.program,
        args: target.args,
        rows: target.rows,
        cols: target.cols,
        env: target.env,
        required_env: target.required_env,
    });
    let program = target.as_ref().and_then(|target| target.program.rsplit('/').next());
    let asked = form.permissions.iter();
    let manifest = Manifest {
        schema: 1,
        plugin: Identity { name: form.name, version: form.version, ..Identity::default() },
        runtime: runtime.collect(),
        adapter: Some(Adapter {
            kind: form.kind,
            programs: program.map(str::to_owned).into_iter().collect(),
            target,
            ..Adapter::default()
        }),
        capabilities: Capabilities {
            asked: asked.map(|one| (one.clone(), Allow::Flag(true))).collect(),
            ..Capabilities::default()
        },
        format: Format::Ptywright,
        ..Manifest::default()
    };
    Ok((manifest, doubts))
}

fn check(form: &Form, root: &Node<'_>) -> Vec<At> {
    let mut problems = Vec::new();
    let at = |key| root.find(&[Step::Key(key)]);
    if let Err(why) = check_name(&form.name) {
        problems.push(At::new(at("name"), why));
    }
    if form.version.trim().is_empty() {
        problems.push(At::new(at("version"), "\"version\" must not be blank"));
    }
    match (form.runtime, &form.entrypoint) {
        (Some(Language::Wasm), _) => {
            problems.push(At::new(at("runtime"), "\"wasm\" is not supported: use \"lua\""));
        }
        (Some(Language::Lua), None) => {
            problems
                .push(At::new(at("runtime"), "the key \"entrypoint\" is missing: the Lua file"));
        }
        (None, Some(_)) => {
            let text = "an \"entrypoint\" needs runtime = \"lua\"";
            problems.push(At::new(at("entrypoint"), text));
        }
        (None, None) | (Some(Language::Lua), Some(_)) => {}
    }
    if let Some(Err(why)) = form.entrypoint.as_deref().map(check_inside) {
        problems.push(At::new(at("entrypoint"), format!("\"entrypoint\" {why}")));
    }
    for (index, one) in form.permissions.iter().enumerate() {
        if form.permissions[..index].contains(one) {
            let at = root.find(&[Step::Key("permissions"), Step::Index(index)]);
            problems.push(At::new(at, format!("{one:?} is given twice")));
        }
    }
    problems
}

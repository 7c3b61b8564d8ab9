//! ptywright's manifest, TOML or JSON: a Lua file that drives a program.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::form;
use crate::manifest::capability::{Allow, Capabilities};
use crate::manifest::check::{check_inside, check_name};
use crate::manifest::faces::{Adapter, AdapterKind, Target};
use crate::manifest::file::{Format, Identity, Manifest, Runtime, RuntimeKind};
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
    permissions: Vec<Permission>,
    #[serde(default)]
    default_target: Option<DefaultTarget>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Language {
    Lua,
    Wasm,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
enum Permission {
    #[serde(rename = "session.spawn")]
    SessionSpawn,
    #[serde(rename = "session.kill")]
    SessionKill,
    #[serde(rename = "session.resize")]
    SessionResize,
    #[serde(rename = "screen.read")]
    ScreenRead,
    #[serde(rename = "transcript.read")]
    TranscriptRead,
    #[serde(rename = "input.write")]
    InputWrite,
    #[serde(rename = "matcher.wait")]
    MatcherWait,
}

impl Permission {
    fn word(self) -> &'static str {
        match self {
            Permission::SessionSpawn => "session.spawn",
            Permission::SessionKill => "session.kill",
            Permission::SessionResize => "session.resize",
            Permission::ScreenRead => "screen.read",
            Permission::TranscriptRead => "transcript.read",
            Permission::InputWrite => "input.write",
            Permission::MatcherWait => "matcher.wait",
        }
    }
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
            asked: asked.map(|one| (one.word().to_owned(), Allow::Flag(true))).collect(),
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
            problems.push(At::new(at, format!("{:?} is given twice", one.word())));
        }
    }
    problems
}

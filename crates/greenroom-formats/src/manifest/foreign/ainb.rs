//! `manifest.toml` of agents-in-a-box, ABI 2: a program with screens, verbs and topics.
//!
//! Its capabilities become ours of the same reach; the two paths it knows by name are spelled out.

use std::collections::BTreeMap;

use greenroom_plugin_api::capability::{Allow, Capabilities, LIST_MAX};
use greenroom_plugin_api::faces::{Capsule, CapsuleScreen, Setting, Subscription, TopicMode};
use greenroom_plugin_api::file::{
    Format, IDLE_REAP_MS, Identity, Manifest, Runtime, RuntimeKind, Spawn,
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::form;
use crate::manifest::check::check_name;
use crate::manifest::load::Read;
use crate::manifest::{NAMES_MAX, SETTINGS_MAX};
use crate::tree::{At, Node, Step};

#[derive(Debug, Deserialize, JsonSchema)]
struct Form {
    plugin: Who,
    #[serde(default)]
    capabilities: Asked,
    #[serde(default)]
    provides: Provides,
    #[serde(default)]
    subscribes: Subscribes,
    #[serde(default)]
    lifecycle: Lifecycle,
    #[serde(default)]
    #[schemars(length(max = SETTINGS_MAX))]
    config: Vec<Setting>,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Who {
    name: String,
    version: String,
    #[expect(dead_code, reason = "told apart by it; the value is known to be 2")]
    abi_version: u32,
    #[serde(default)]
    description: String,
}

/// What it asks for. A misspelt name would be a permission that silently is not asked for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Asked {
    read_sessions: Option<Ask>,
    read_claude_logs: Option<Ask>,
    read_codex_logs: Option<Ask>,
    read_paths: Option<Ask>,
    write_plugin_data: Option<Ask>,
    event_bus: Option<Ask>,
    event_stream_subscribe: Option<Ask>,
    network: Option<Ask>,
    spawn_subprocess: Option<Ask>,
    spawn_managed_subprocess: Option<Ask>,
    unix_socket_dial: Option<Ask>,
    #[serde(rename = "secrets:read")]
    secrets_read: Option<Ask>,
    #[serde(rename = "workspace:write")]
    workspace_write: Option<Ask>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Ask {
    Flag(bool),
    List(#[schemars(length(max = LIST_MAX))] Vec<String>),
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Provides {
    #[schemars(length(max = NAMES_MAX))]
    screens: Vec<String>,
    #[schemars(length(max = NAMES_MAX))]
    commands: Vec<String>,
    #[schemars(length(max = NAMES_MAX))]
    cli_namespaces: Vec<String>,
    #[schemars(length(max = NAMES_MAX))]
    snapshots: Vec<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Subscribes {
    #[schemars(length(max = NAMES_MAX))]
    snapshots: Vec<String>,
    #[schemars(length(max = NAMES_MAX))]
    latest_state: Vec<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Lifecycle {
    spawn: Option<When>,
    idle_reap_secs: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum When {
    Eager,
    Lazy,
}

pub(in crate::manifest) fn load(root: &Node<'_>) -> Read {
    let (form, doubts) = form::<Form>(root)?;
    let problems = check(&form, root);
    if !problems.is_empty() {
        return Err(problems);
    }
    let capabilities = capabilities(&form);
    let Form { plugin, provides, subscribes, lifecycle, config, .. } = form;
    let screens = provides.screens.into_iter().map(|id| CapsuleScreen {
        title: id.clone(),
        id,
        ..CapsuleScreen::default()
    });
    let subscribe = subscribes.snapshots.iter().map(|topic| Subscription {
        topic: topic.clone(),
        mode: if subscribes.latest_state.contains(topic) {
            TopicMode::State
        } else {
            TopicMode::Stream
        },
        wake: false,
    });
    let manifest = Manifest {
        schema: 1,
        runtime: vec![Runtime {
            id: "main".to_owned(),
            kind: RuntimeKind::Framed,
            command: vec![format!("./{}", plugin.name)],
            abi: Some(2),
            spawn: match lifecycle.spawn {
                Some(When::Eager) => Spawn::Eager,
                _ => Spawn::Lazy,
            },
            // Its host never reaps earlier than this.
            idle_reap_ms: lifecycle.idle_reap_secs.map_or(IDLE_REAP_MS, |secs| {
                (u64::from(secs) * 1000).clamp(IDLE_REAP_MS, 86_400_000)
            }),
            ..Runtime::default()
        }],
        plugin: Identity {
            name: plugin.name,
            version: plugin.version,
            description: plugin.description,
            ..Identity::default()
        },
        capsule: Some(Capsule {
            screens: screens.collect(),
            commands: provides.commands,
            cli: provides.cli_namespaces,
            publish: provides.snapshots,
            subscribe: subscribe.collect(),
            ..Capsule::default()
        }),
        capabilities,
        config,
        format: Format::Ainb2,
        ..Manifest::default()
    };
    Ok((manifest, doubts))
}

fn check(form: &Form, root: &Node<'_>) -> Vec<At> {
    let mut problems = Vec::new();
    let within = |table, key| root.find(&[Step::Key(table), Step::Key(key)]);
    if let Err(why) = check_name(&form.plugin.name) {
        problems.push(At::new(within("plugin", "name"), why));
    }
    if form.plugin.version.is_empty() || form.plugin.version.len() > 64 {
        problems
            .push(At::new(within("plugin", "version"), "\"version\" must have 1 to 64 characters"));
    }
    let foreign = |topic: &&String| !form.subscribes.snapshots.contains(topic);
    if let Some(topic) = form.subscribes.latest_state.iter().find(foreign) {
        let text = format!("{topic:?} must be in \"snapshots\" as well");
        problems.push(At::new(within("subscribes", "latest_state"), text));
    }
    let asked = &form.capabilities;
    for (key, ask) in [
        ("read_paths", &asked.read_paths),
        ("spawn_managed_subprocess", &asked.spawn_managed_subprocess),
        ("unix_socket_dial", &asked.unix_socket_dial),
    ] {
        if matches!(ask, Some(Ask::Flag(true))) {
            let text = format!("{key:?} must be a list of what is needed, not true");
            problems.push(At::new(within("capabilities", key), text));
        }
    }
    problems
}

fn capabilities(form: &Form) -> Capabilities {
    let asked = &form.capabilities;
    let mut allowed = BTreeMap::new();
    let allow = |ask: &Option<Ask>| match ask {
        Some(Ask::Flag(flag)) => Allow::Flag(*flag),
        Some(Ask::List(list)) => Allow::List(list.clone()),
        None => Allow::Flag(false),
    };
    let is = |ask: &Option<Ask>| allow(ask).any();
    let mut read = Vec::new();
    for (ask, path) in [
        (&asked.read_sessions, "~/.agents-in-a-box/sessions"),
        (&asked.read_claude_logs, "~/.claude/projects"),
        (&asked.read_codex_logs, "~/.codex/sessions"),
    ] {
        if is(ask) {
            read.push(path.to_owned());
        }
    }
    if let Some(Ask::List(paths)) = &asked.read_paths {
        read.extend(paths.iter().cloned());
    }
    if !read.is_empty() {
        allowed.insert("fs.read".to_owned(), Allow::List(read));
    }
    let topics = is(&asked.event_bus);
    for (name, ask) in [
        ("bus.publish", &asked.event_bus),
        ("net.connect", &asked.network),
        ("proc.exec", &asked.spawn_subprocess),
        ("proc.managed", &asked.spawn_managed_subprocess),
        ("socket.dial", &asked.unix_socket_dial),
        ("secrets.read", &asked.secrets_read),
        ("workspace.write", &asked.workspace_write),
    ] {
        if is(ask) {
            allowed.insert(name.to_owned(), allow(ask));
        }
    }
    let stream = &asked.event_stream_subscribe;
    if topics || is(stream) {
        let subscribe = if topics { Allow::Flag(true) } else { allow(stream) };
        allowed.insert("bus.subscribe".to_owned(), subscribe);
    }
    if !form.provides.screens.is_empty() {
        allowed.insert("ui.screen".to_owned(), Allow::Flag(true));
    }
    if !form.provides.cli_namespaces.is_empty() {
        allowed
            .insert("cli.namespace".to_owned(), Allow::List(form.provides.cli_namespaces.clone()));
    }
    Capabilities { asked: allowed, ..Capabilities::default() }
}

//! The native file as types: identity, runtimes, hooks. The doc comments are the descriptions of
//! the published schema; [`crate::faces`] holds the other three faces.
//!
//! Tables where a slip could open something are closed to unknown keys (`deny_unknown_fields`):
//! hooks, session, capabilities, runtimes. In the others an unknown key is only a warning.

use std::collections::BTreeMap;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::capability::Capabilities;
pub use crate::entry::{
    Batch, Hold, HookEntry, Overflow, PRIORITY, Queue, SinkName, Then, Unit, When,
};
use crate::faces::{Adapter, Capsule, SessionFace, Setting};
use crate::is_default;

/// A plugin: who it is, what runs, where it takes part, what it may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
#[cfg_attr(feature = "schema", schemars(extend("required" = ["schema", "plugin"])))]
pub struct Manifest {
    /// Where this schema is, for editors.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<String>,
    /// Version of the format: 1.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1)))]
    pub schema: u32,
    /// Who it is.
    pub plugin: Identity,
    /// Who executes; faces refer to these by id.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::RUNTIMES_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runtime: Vec<Runtime>,
    /// Changes how sessions start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionFace>,
    /// Takes part in events.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::HOOKS_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookEntry>,
    /// Drives a program on a terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Adapter>,
    /// Shows screens, adds verbs, publishes topics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capsule: Option<Capsule>,
    /// What it may do; what is absent is denied.
    #[serde(skip_serializing_if = "Capabilities::is_empty")]
    pub capabilities: Capabilities,
    /// Settings a person may change.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::SETTINGS_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<Setting>,
    /// Documents to read.
    #[serde(skip_serializing_if = "is_default")]
    pub docs: Docs,
    /// Anything; the host does not look here. Keys beginning with `x-` are free as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<Value>,
    /// In which form it was written; not part of the file.
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub format: Format,
}

/// In which form a manifest was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// `plugin.toml`, `plugin.yaml` or `plugin.json`.
    #[default]
    Native,
    /// datawatch's `manifest.yaml`.
    Datawatch,
    /// ptywright's `manifest.toml` or JSON.
    Ptywright,
    /// `manifest.toml` of agents-in-a-box, ABI 2.
    Ainb2,
}

words! { Format {
    Native "native", Datawatch "datawatch", Ptywright "ptywright", Ainb2 "ainb2",
} }

/// Who a plugin is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
#[cfg_attr(feature = "schema", schemars(extend("required" = ["name", "version"])))]
pub struct Identity {
    /// Lower-case letters, digits, `.`, `_`, `-`; begins with a letter or digit; at most 64.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64)))]
    pub name: String,
    /// Any text; `1.10` must be in quotes.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64)))]
    pub version: String,
    /// One line for listings.
    #[cfg_attr(feature = "schema", schemars(length(max = 500)))]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What the host must have.
    #[serde(skip_serializing_if = "is_default")]
    pub requires: Requires,
    /// Where it runs, such as `linux-x86_64`; everywhere if empty.
    #[cfg_attr(feature = "schema", schemars(length(max = 32)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<String>,
    /// Who made it.
    #[cfg_attr(feature = "schema", schemars(length(max = 200)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Under which licence.
    #[cfg_attr(feature = "schema", schemars(length(max = 100)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Where to read more.
    #[cfg_attr(feature = "schema", schemars(length(max = 500)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub homepage: Option<String>,
}

/// What the host must have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct Requires {
    /// Features by name.
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub features: Vec<String>,
    /// A version, as a last resort.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub host: Option<String>,
}

/// Documents to read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct Docs {
    /// Paths inside the plugin.
    #[cfg_attr(feature = "schema", schemars(length(max = 64)))]
    pub files: Vec<String>,
}

/// What kind of thing executes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RuntimeKind {
    /// In the daemon itself; only plugins that ship with it.
    Builtin,
    /// A program per call: one JSON line in, one out.
    #[default]
    Oneshot,
    /// A program that stays: the same lines, with ids.
    Jsonl,
    /// A program that stays: JSON-RPC with Content-Length frames, both ways.
    Framed,
    /// A confined Lua worker.
    Lua,
}

words! { RuntimeKind {
    Builtin "builtin", Oneshot "oneshot", Jsonl "jsonl", Framed "framed", Lua "lua",
} }

/// When a program that stays is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Spawn {
    /// At the first call.
    #[default]
    Lazy,
    /// With the host.
    Eager,
    /// One for each session.
    PerSession,
}

/// Who executes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "schema", schemars(extend("required" = ["id", "kind"])))]
pub struct Runtime {
    /// What the faces call it.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64)))]
    pub id: String,
    /// What kind of thing.
    pub kind: RuntimeKind,
    /// The program and its arguments, never a shell line; the program is inside the plugin.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::COMMAND_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// `lua`: the file, inside the plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// `framed`: 2 is the wire of agents-in-a-box, 3 is ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 2, max = 3)))]
    pub abi: Option<u32>,
    /// When it is started.
    #[serde(skip_serializing_if = "is_default")]
    pub spawn: Spawn,
    /// How long a call may take where the hook does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = crate::TIMEOUT_MS_MAX)))]
    pub timeout_ms: Option<u64>,
    /// How long it may take to say hello.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = crate::TIMEOUT_MS_MAX)))]
    #[serde(skip_serializing_if = "is_init_timeout")]
    pub init_timeout_ms: u64,
    /// Ended after so long without a call; 0 is never.
    #[cfg_attr(feature = "schema", schemars(range(max = 86_400_000)))]
    #[serde(skip_serializing_if = "is_idle_reap")]
    pub idle_reap_ms: u64,
    /// Variables of its environment; `${secret:name}` is filled in.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::ENV_MAX)))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Variables taken from the host's environment; needs `env.inherit` beyond PATH, HOME, LANG,
    /// TZ.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::ENV_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inherit_env: Vec<String>,
    /// What it may use at most.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: Limits,
    /// `jsonl`: whether it is greeted. A loop that knows only requests says no.
    #[serde(skip_serializing_if = "is_true")]
    pub hello: bool,
}

/// Enough for a program to load its modules.
pub const INIT_TIMEOUT_MS: u64 = 5_000;
/// As agents-in-a-box.
pub const IDLE_REAP_MS: u64 = 600_000;

impl Default for Runtime {
    fn default() -> Runtime {
        Runtime {
            id: String::new(),
            kind: RuntimeKind::default(),
            command: Vec::new(),
            entry: None,
            abi: None,
            spawn: Spawn::default(),
            timeout_ms: None,
            init_timeout_ms: INIT_TIMEOUT_MS,
            idle_reap_ms: IDLE_REAP_MS,
            env: BTreeMap::new(),
            inherit_env: Vec::new(),
            limits: Limits::default(),
            hello: true,
        }
    }
}

/// What a runtime may use at most; what is absent is the host's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 65_536)))]
    pub memory_mb: Option<u64>,
    /// Open files.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 8, max = 65_536)))]
    pub files: Option<u64>,
    /// Processes and threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 4_096)))]
    pub procs: Option<u64>,
    /// What is kept of its error output.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_024)))]
    pub stderr_kb_per_s: Option<u64>,
    /// The longest answer; 1 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 16)))]
    pub reply_mb: Option<u64>,
    /// `lua`: per call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 5_000_000)))]
    pub instructions: Option<u64>,
    /// `lua`: per call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 5_000)))]
    pub wall_ms: Option<u64>,
}

impl Manifest {
    /// The runtime of this id; an empty id is the only one.
    pub fn runtime(&self, id: &str) -> Option<&Runtime> {
        match self.runtime.as_slice() {
            [only] if id.is_empty() => Some(only),
            all => all.iter().find(|runtime| runtime.id == id),
        }
    }

    /// The runtime that answers this hook.
    pub fn runtime_of(&self, entry: &HookEntry) -> Option<&Runtime> {
        self.runtime(&entry.runtime)
    }
}

fn is_init_timeout(value: &u64) -> bool {
    *value == INIT_TIMEOUT_MS
}

fn is_idle_reap(value: &u64) -> bool {
    *value == IDLE_REAP_MS
}

fn is_true(value: &bool) -> bool {
    *value
}

//! The other three faces as types: session transform, adapter, capsule; and settings.

use std::collections::BTreeMap;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::entry::PRIORITY;
use crate::is_default;

/// What a session transform may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// Variables.
    Env,
    /// Programs put before the command.
    ArgvWrap,
    /// The command itself.
    Argv,
    /// The directory it works in.
    Cwd,
    /// What it may write.
    WritablePaths,
    /// What it may read.
    ReadablePaths,
    /// Where it may connect.
    Network,
    /// How long it may run.
    TimeoutMs,
    /// Labels.
    Labels,
    /// Size of the terminal.
    Size,
    /// What it is about.
    Task,
    /// For which program.
    Backend,
    /// How hard it shall try.
    Effort,
}

/// What happens to the session when a transform fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TransformFailure {
    /// It does not start.
    #[default]
    Block,
    /// It starts without.
    Skip,
}

/// When a transform cleans up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cleanup {
    /// At least once after each session, also after a crash of the daemon.
    #[default]
    Always,
    /// There is nothing to clean up.
    Never,
}

/// Changes how sessions start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SessionFace {
    /// Who answers; the only runtime if there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    /// The only things it may change.
    #[cfg_attr(feature = "schema", schemars(length(max = 16)))]
    pub edits: Vec<Edit>,
    /// Lower first; 500 unless said.
    #[cfg_attr(feature = "schema", schemars(range(max = 1000)))]
    pub priority: u32,
    /// Plugins that come after this one.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::AFTER_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// Plugins that come before this one.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::AFTER_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// How long it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = crate::TIMEOUT_MS_MAX)))]
    pub timeout_ms: Option<u64>,
    /// What a failure means.
    #[serde(skip_serializing_if = "is_default")]
    pub on_failure: TransformFailure,
    /// When it cleans up.
    #[serde(skip_serializing_if = "is_default")]
    pub cleanup: Cleanup,
}

impl Default for SessionFace {
    fn default() -> SessionFace {
        SessionFace {
            runtime: String::new(),
            edits: Vec::new(),
            priority: PRIORITY,
            before: Vec::new(),
            after: Vec::new(),
            timeout_ms: None,
            on_failure: TransformFailure::default(),
            cleanup: Cleanup::default(),
        }
    }
}

/// What an adapter does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AdapterKind {
    /// Drives a program.
    #[default]
    Adapter,
    /// Types something.
    Macro,
    /// Knows when something is shown.
    Matcher,
}

/// Drives a program on a terminal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct Adapter {
    /// Who answers; the only runtime if there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    /// What it does.
    #[serde(skip_serializing_if = "is_default")]
    pub kind: AdapterKind,
    /// Programs it knows, by file name.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::NAMES_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// Hosts these programs need in a sandbox.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::NAMES_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// What it starts unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

/// What an adapter starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
#[cfg_attr(feature = "schema", schemars(extend("required" = ["program"])))]
pub struct Target {
    /// The program that is run.
    #[cfg_attr(feature = "schema", schemars(length(min = 1)))]
    pub program: String,
    /// The program's arguments.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::COMMAND_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Rows of the terminal.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// Columns of the terminal.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// Variables a caller may change.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::ENV_MAX)))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Variables a caller may not change.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::ENV_MAX)))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub required_env: BTreeMap<String, String>,
}

/// Shows screens, adds verbs, publishes topics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
pub struct Capsule {
    /// Who answers; the only runtime if there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    /// Screens.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::NAMES_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub screens: Vec<CapsuleScreen>,
    /// Slash commands.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::NAMES_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Verbs of the command line.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::NAMES_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cli: Vec<String>,
    /// Topics shown in the status line.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::NAMES_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statusline: Vec<String>,
    /// Topics it publishes.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::NAMES_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub publish: Vec<String>,
    /// Topics it reads.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::NAMES_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subscribe: Vec<Subscription>,
}

/// A screen of a capsule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
#[cfg_attr(feature = "schema", schemars(extend("required" = ["id"])))]
pub struct CapsuleScreen {
    /// What it is called in calls.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64)))]
    pub id: String,
    /// What it is called in the palette.
    #[cfg_attr(feature = "schema", schemars(length(max = 100)))]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Below this it is not drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_cols: Option<u16>,
    /// Below this it is not drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rows: Option<u16>,
}

/// How a topic is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TopicMode {
    /// The last value.
    #[default]
    State,
    /// Each in its order.
    Stream,
}

/// A topic a capsule reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
#[cfg_attr(feature = "schema", schemars(extend("required" = ["topic"])))]
pub struct Subscription {
    /// Its name; `*` at the end is a prefix.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 128)))]
    pub topic: String,
    /// How it is read.
    pub mode: TopicMode,
    /// Whether it starts the plugin.
    #[serde(skip_serializing_if = "is_default")]
    pub wake: bool,
}

/// What a setting holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SettingKind {
    /// Any text.
    #[default]
    String,
    /// A path of a file.
    Path,
    /// Yes or no.
    Bool,
    /// One of `choices`.
    Enum,
    /// A whole number.
    Int,
}

/// A setting a person may change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default)]
#[cfg_attr(feature = "schema", schemars(extend("required" = ["key", "kind"])))]
pub struct Setting {
    /// The setting's name.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 64)))]
    pub key: String,
    /// What it holds.
    pub kind: SettingKind,
    /// What a person reads.
    #[cfg_attr(feature = "schema", schemars(length(max = 200)))]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Its value unless changed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub default: String,
    /// The values of an enum.
    #[cfg_attr(feature = "schema", schemars(length(max = crate::NAMES_MAX)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

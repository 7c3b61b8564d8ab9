//! The other three faces as types: session transform, adapter, capsule; and settings.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::file::{PRIORITY, is_default};
use super::{AFTER_MAX, COMMAND_MAX, ENV_MAX, NAMES_MAX};

/// What a session transform may change.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// Variables.
    Env,
    /// Programs put before the command.
    ArgvWrap,
    /// The command itself.
    Argv,
    /// The directory.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransformFailure {
    /// It does not start.
    #[default]
    Block,
    /// It starts without.
    Skip,
}

/// When a transform cleans up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cleanup {
    /// At least once after each session, also after a crash of the daemon.
    #[default]
    Always,
    /// There is nothing to clean up.
    Never,
}

/// Changes how sessions start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SessionFace {
    /// Who answers; the only runtime if there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    /// The only things it may change.
    #[schemars(length(max = 16))]
    pub edits: Vec<Edit>,
    /// Lower first; 500 unless said.
    #[schemars(range(max = 1000))]
    pub priority: u32,
    /// Plugins that come after this one.
    #[schemars(length(max = AFTER_MAX))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<String>,
    /// Plugins that come before this one.
    #[schemars(length(max = AFTER_MAX))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// How long it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = super::TIMEOUT_MS_MAX))]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Adapter {
    /// Who answers; the only runtime if there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    /// What it does.
    #[serde(skip_serializing_if = "is_default")]
    pub kind: AdapterKind,
    /// Programs it knows, by file name.
    #[schemars(length(max = NAMES_MAX))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// Hosts these programs need in a sandbox.
    #[schemars(length(max = NAMES_MAX))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// What it starts unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

/// What an adapter starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["program"]))]
pub struct Target {
    /// The program.
    #[schemars(length(min = 1))]
    pub program: String,
    /// Its arguments.
    #[schemars(length(max = COMMAND_MAX))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Rows of the terminal.
    #[schemars(range(min = 1, max = 1_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// Columns of the terminal.
    #[schemars(range(min = 1, max = 1_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// Variables a caller may change.
    #[schemars(length(max = ENV_MAX))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Variables a caller may not change.
    #[schemars(length(max = ENV_MAX))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub required_env: BTreeMap<String, String>,
}

/// Shows screens, adds verbs, publishes topics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Capsule {
    /// Who answers; the only runtime if there is one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    /// Screens.
    #[schemars(length(max = NAMES_MAX))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub screens: Vec<CapsuleScreen>,
    /// Slash commands.
    #[schemars(length(max = NAMES_MAX))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
    /// Verbs of the command line.
    #[schemars(length(max = NAMES_MAX))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cli: Vec<String>,
    /// Topics shown in the status line.
    #[schemars(length(max = NAMES_MAX))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statusline: Vec<String>,
    /// Topics it publishes.
    #[schemars(length(max = NAMES_MAX))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub publish: Vec<String>,
    /// Topics it reads.
    #[schemars(length(max = NAMES_MAX))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subscribe: Vec<Subscription>,
}

/// A screen of a capsule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["id"]))]
pub struct CapsuleScreen {
    /// What it is called in calls.
    #[schemars(length(min = 1, max = 64))]
    pub id: String,
    /// What it is called in the palette.
    #[schemars(length(max = 100))]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TopicMode {
    /// The last value.
    #[default]
    State,
    /// Each in its order.
    Stream,
}

/// A topic a capsule reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["topic"]))]
pub struct Subscription {
    /// Its name; `*` at the end is a prefix.
    #[schemars(length(min = 1, max = 128))]
    pub topic: String,
    /// How it is read.
    pub mode: TopicMode,
    /// Whether it starts the plugin.
    #[serde(skip_serializing_if = "is_default")]
    pub wake: bool,
}

/// What a setting holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingKind {
    /// A text.
    #[default]
    String,
    /// A path.
    Path,
    /// Yes or no.
    Bool,
    /// One of `choices`.
    Enum,
    /// A whole number.
    Int,
}

/// A setting a person may change.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["key", "kind"]))]
pub struct Setting {
    /// Its name.
    #[schemars(length(min = 1, max = 64))]
    pub key: String,
    /// What it holds.
    pub kind: SettingKind,
    /// What a person reads.
    #[schemars(length(max = 200))]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Its value unless changed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub default: String,
    /// Of an enum.
    #[schemars(length(max = NAMES_MAX))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

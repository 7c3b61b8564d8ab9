//! `plugin.*`: what plugins there are, what they may do, and asking one by hand.
//!
//! A plugin is shown with datawatch's names for what datawatch has (`invoke_count`, `last_error`,
//! `resolved_entry`), so that its clients read us, and more beside them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::is_false;
use crate::Timestamp;
use greenroom_plugin_api::Allow;

/// One plugin by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginParams {
    /// As `plugin.list` has it.
    #[serde(alias = "plugin")]
    #[schemars(extend("x-aliases" = ["plugin"]))]
    pub name: String,
}

/// Result of `plugin.list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginListResult {
    /// By name.
    pub plugins: Vec<PluginView>,
    /// The plugins that are part of the host.
    pub native: Vec<NativePlugin>,
    /// The operator's directory.
    #[serde(default)]
    pub dir: String,
    /// What is wrong with the files that say which plugins there are, and who is missed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<String>,
}

/// A plugin that is part of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NativePlugin {
    /// The plugin's name.
    pub name: String,
    /// Always `native`.
    pub kind: String,
    /// What it does.
    pub description: String,
    /// Always.
    pub enabled: bool,
}

/// A plugin as listings show it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginView {
    /// The name in its manifest; its directory's where that cannot be read.
    pub name: String,
    /// The version in its manifest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The description in its manifest.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// `native`, `datawatch`, `ptywright` or `ainb2`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub format: String,
    /// Names of its hooks, as its manifest has them.
    #[serde(default)]
    pub hooks: Vec<String>,
    /// The program, as its manifest has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// `oneshot`, `jsonl`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The deadline in its manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Where the operator put it.
    pub dir: String,
    /// What runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_entry: Option<String>,
    /// Unless somebody turned it off.
    pub enabled: bool,
    /// `idle`, `running`, `needs_consent`, `modified`, `invalid`, …
    pub state: String,
    /// Why it is in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Runs whatever lies in its directory.
    #[serde(default, skip_serializing_if = "is_false")]
    pub linked: bool,
    /// How strongly its program is held: `enforced`, `partial`, `advisory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The digest of all its files.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Calls.
    pub invoke_count: u64,
    /// Calls without an answer.
    pub error_count: u64,
    /// When it was last called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub last_invoke_at: Option<Timestamp>,
    /// Why the last failed call had no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Mistakes of its manifest, each with file and line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// What is doubtful in its manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Result of `plugin.get`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginGetResult {
    /// As in the list.
    #[serde(flatten)]
    pub view: PluginView,
    /// In the native form; values of its environment are hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<Value>,
    /// Its hooks as they act.
    pub hook_details: Vec<HookView>,
    /// What it asks for and what it has.
    pub capabilities: Vec<CapabilityView>,
    /// Counted since it was first seen.
    pub stats: PluginStats,
    /// Counts reloads that changed it.
    pub generation: u64,
    /// Where it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// When it was agreed to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_at: Option<String>,
    /// Who agreed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_by: Option<String>,
}

/// A hook as it acts: manifest, table and operator together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookView {
    /// As the manifest names it.
    pub hook: String,
    /// `gate`, `filter` or `observe`.
    pub class: String,
    /// `redact`, `transform` or `observe`.
    pub stage: String,
    /// Lower first.
    pub priority: u32,
    /// How long one call may take.
    pub deadline_ms: u64,
    /// What a failure means.
    pub on_failure: String,
}

/// A capability that is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapabilityView {
    /// The capability's name.
    pub name: String,
    /// What it allows, in words.
    pub means: String,
    /// What is asked for.
    pub asked: Allow,
    /// What was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<Allow>,
    /// Why, as the plugin says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How strongly it is enforced here.
    pub level: String,
}

/// What a plugin has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginStats {
    /// Calls.
    pub calls: u64,
    /// Without an answer.
    pub errors: u64,
    /// How many of these ran out of time.
    pub timeouts: u64,
    /// Events and lines it was not asked about for lack of room.
    pub drops: u64,
    /// Starts after an end nobody asked for.
    pub restarts: u64,
    /// Half of the calls took no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<f64>,
    /// Nearly all took no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// Why it last failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it last failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub last_error_at: Option<Timestamp>,
    /// By hook.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hooks: BTreeMap<String, HookCounts>,
}

/// The counts of one hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HookCounts {
    /// Calls.
    pub calls: u64,
    /// Without an answer.
    pub errors: u64,
}

/// Result of `plugin.enable` and `plugin.disable`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginSwitched {
    /// `ok`.
    pub status: String,
    /// The plugin's name.
    pub name: String,
    /// `enable` or `disable`.
    pub action: String,
    /// What it is in now.
    pub state: String,
}

/// Params of `plugin.reload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PluginReloadParams {
    /// Only this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Result of `plugin.reload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginReloadResult {
    /// `ok`.
    pub status: String,
    /// Plugins known now.
    pub count: u64,
    /// New ones.
    pub added: Vec<String>,
    /// The changed ones; the operator's scripts among them are taken as they are now.
    pub changed: Vec<String>,
    /// The ones that are gone.
    pub removed: Vec<String>,
    /// The broken ones, each with why.
    pub failed: Vec<String>,
}

/// Params of `plugin.test`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginTestParams {
    /// The plugin's name.
    #[serde(alias = "plugin")]
    #[schemars(extend("x-aliases" = ["plugin"]))]
    pub name: String,
    /// The hook, by either name.
    pub hook: String,
    /// What the hook tells; an object, or its JSON as a text.
    #[serde(default)]
    pub payload: TestPayload,
}

/// An object, or the JSON of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum TestPayload {
    /// The payload as an object.
    Object(Map<String, Value>),
    /// The payload as JSON in a text.
    Text(String),
}

impl Default for TestPayload {
    fn default() -> TestPayload {
        TestPayload::Object(Map::new())
    }
}

/// Result of `plugin.test`: what the plugin answered, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginTestResult {
    /// What it comes to: `pass`, `replace`, `block`, …; the policy's word where the plugin failed.
    pub action: String,
    /// Why there was no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// How long it took.
    pub took_ms: f64,
    /// What it printed on its error output.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// The rest of its answer: `line`, `fields`, `reason`, …
    #[serde(flatten)]
    pub answer: Map<String, Value>,
}

/// Params of `plugin.grant`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginGrantParams {
    /// The plugin's name.
    #[serde(alias = "plugin")]
    #[schemars(extend("x-aliases" = ["plugin"]))]
    pub name: String,
    /// Only if its files have this digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Only these capabilities, `name` or `name=value`; all it asks for if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Vec<String>>,
}

/// Result of `plugin.grant` and `plugin.revoke`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginGranted {
    /// The plugin's name.
    pub name: String,
    /// What it is in now.
    pub state: String,
    /// To which bytes it is bound.
    pub digest: String,
}

/// What a person is asked to agree to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Consent {
    /// The plugin's name.
    pub name: String,
    /// The plugin's version.
    pub version: String,
    /// What it says of itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// `needs_consent` or `modified`.
    pub state: String,
    /// Where it came from.
    pub source: String,
    /// The bytes in question.
    pub digest: String,
    /// In which form it is written.
    pub format: String,
    /// Programs and arguments that would run, one a line.
    pub runs: Vec<String>,
    /// Where it takes part, each with what a failure means.
    pub hooks: Vec<HookView>,
    /// What it asks for.
    pub capabilities: Vec<CapabilityView>,
    /// What is doubtful in its manifest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Result of `plugin.pending`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginPendingResult {
    /// By name.
    pub pending: Vec<Consent>,
}

/// Params of `plugin.add`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginAddParams {
    /// An absolute path of a directory or an archive, or `https://…[#branch]`.
    pub source: String,
}

/// Result of `plugin.add`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginAddResult {
    /// The plugin's name.
    pub name: String,
    /// It is the same as before, and was agreed to.
    pub trusted: bool,
    /// What to agree to.
    pub consent: Consent,
}

/// Params of `plugin.link`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginLinkParams {
    /// An absolute path of a directory.
    pub path: String,
}

/// Params of `plugin.order`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginOrderParams {
    /// The hook, by either name.
    pub hook: String,
}

/// Result of `plugin.order`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginOrderResult {
    /// The hook's name.
    pub hook: String,
    /// Who is asked, in order.
    pub order: Vec<OrderEntry>,
    /// Wishes that could not be met.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A plugin's place at a hook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OrderEntry {
    /// The plugin's name.
    pub plugin: String,
    /// How it is asked.
    #[serde(flatten)]
    pub hook: HookView,
    /// Whether it would be asked now.
    pub asked: bool,
    /// Why it stands here.
    pub why: String,
}

/// Params of `plugin.stats`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PluginStatsParams {
    /// Only this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Result of `plugin.stats`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginStatsResult {
    /// By name.
    pub plugins: BTreeMap<String, PluginStats>,
}

/// Params of `plugin.logs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginLogsParams {
    /// The plugin's name.
    #[serde(alias = "plugin")]
    #[schemars(extend("x-aliases" = ["plugin"]))]
    pub name: String,
    /// How many lines from the end; 100 unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u32>,
}

/// Result of `plugin.logs`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginLogsResult {
    /// Oldest first.
    pub lines: Vec<PluginLogLine>,
}

/// What a plugin said, or what was noted about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginLogLine {
    /// When.
    #[schemars(with = "String")]
    pub at: Timestamp,
    /// `stderr`, `failure` or `state`.
    pub kind: String,
    /// The text of one line.
    pub text: String,
}

/// Result of `plugin.capabilities`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginCapabilitiesResult {
    /// ptywright's seven.
    pub permissions: Vec<String>,
    /// Whether adapters in Lua run here.
    pub embedded_lua: bool,
    /// Never.
    pub wasm: bool,
    /// Manifests of adapters that are part of the host.
    pub builtin_plugins: Vec<Value>,
    /// All capabilities a manifest may ask for.
    pub capabilities: Vec<String>,
    /// All hooks a manifest may name.
    pub hooks: Vec<String>,
    /// Kinds of runtime that run here.
    pub runtimes: Vec<String>,
    /// `plugins.enabled`.
    pub enabled: bool,
}

/// Params of `plugin.validate_manifest`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValidateManifestParams {
    /// The manifest, in any of the four forms.
    pub manifest: Map<String, Value>,
}

/// Result of `plugin.validate_manifest`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ValidateManifestResult {
    /// A manifest with mistakes is a fault instead.
    pub valid: bool,
    /// What is doubtful in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// Result of `plugin.describe`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PluginDescribeResult {
    /// The plugin's name.
    pub plugin: String,
    /// In the native form.
    pub manifest: Value,
    /// What an adapter can be told.
    pub intents: Vec<Value>,
    /// What an adapter can wait for.
    pub wait_matchers: Vec<Value>,
    /// What an adapter can be in.
    pub states: Vec<Value>,
}

/// Params of `plugin.load`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginLoadParams {
    /// An absolute path.
    pub manifest_path: String,
}

/// Result of `plugin.load`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginLoadResult {
    /// The plugin's name.
    pub plugin: String,
}

/// Params of `plugin.unload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginUnloadParams {
    /// The plugin's name.
    #[serde(alias = "name")]
    #[schemars(extend("x-aliases" = ["name"]))]
    pub plugin: String,
}

/// Result of `plugin.unload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginUnloadResult {
    /// It is gone.
    pub unloaded: bool,
}

/// Result of `plugin.remove`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginRemoved {
    /// The plugin's name.
    pub name: String,
    /// It is gone.
    pub removed: bool,
}

/// Something that is allowed but probably not meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// `W-…`, stable.
    pub code: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What, and what to do.
    pub text: String,
}

//! One hook of a plugin as a type: what fires, who answers, when it is asked, what a failure means.

use std::collections::BTreeMap;
use std::time::Duration;

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file::Runtime;
use crate::hook::{Class, HookName, OnFailure, Stage};
use crate::is_default;

/// In which order entries of one stage stand unless they say.
pub const PRIORITY: u32 = 500;

/// What a filter is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Lines of the stream.
    #[default]
    Line,
    /// Rows of the screen.
    Rows,
}

/// What becomes of an event for which there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// The oldest gives way.
    #[default]
    DropOldest,
    /// It is lost.
    DropNewest,
}

/// One hook of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HookEntry {
    /// What fires.
    pub hook: HookName,
    /// Who answers; the only runtime if there is one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub runtime: String,
    /// redact < transform < observe.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stage: Stage,
    /// Lower first; 500 unless said.
    #[serde(default = "priority", skip_serializing_if = "is_priority")]
    #[cfg_attr(feature = "schema", schemars(range(max = 1000)))]
    pub priority: u32,
    /// Plugins that come after this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = crate::AFTER_MAX)))]
    pub before: Vec<String>,
    /// Plugins that come before this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = crate::AFTER_MAX)))]
    pub after: Vec<String>,
    /// Whether the plugin's absence counts as failure.
    #[serde(default, skip_serializing_if = "is_default")]
    pub required: bool,
    /// Filters: what it is given.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unit: Unit,
    /// When to ask at all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub when: When,
    /// Filters: how many lines at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<Batch>,
    /// Observers: what waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// How long a call may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = crate::TIMEOUT_MS_MAX)))]
    pub timeout_ms: Option<u64>,
    /// What a failure means; see the table of hooks for what it means unsaid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// With `on_failure = "hold"`: how long, how much, and then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
}

impl HookEntry {
    /// With everything unsaid.
    pub fn new(hook: HookName) -> HookEntry {
        HookEntry {
            hook,
            runtime: String::new(),
            stage: Stage::default(),
            priority: PRIORITY,
            before: Vec::new(),
            after: Vec::new(),
            required: false,
            unit: Unit::default(),
            when: When::default(),
            batch: None,
            queue: None,
            timeout_ms: None,
            on_failure: None,
            hold: None,
        }
    }

    /// What a failure means: said, or by the table. A filter fails closed where it redacts and open
    /// where it decorates.
    pub fn policy(&self) -> OnFailure {
        let row = self.hook.hook.row();
        match (self.on_failure, row.datawatch) {
            (Some(said), _) => said,
            (None, Some(datawatch)) if self.hook.datawatch => datawatch.on_failure,
            _ if row.class == Class::Filter && self.stage != Stage::Redact => OnFailure::Pass,
            _ => row.on_failure,
        }
    }

    /// How long a call may take: said here, by its runtime, by the operator for hooks under
    /// datawatch's names (`plugins.timeout_ms`), by the table.
    pub fn deadline(&self, runtime: &Runtime, operator: Duration) -> Duration {
        match self.timeout_ms.or(runtime.timeout_ms) {
            Some(said) => Duration::from_millis(said),
            None if self.hook.datawatch => operator,
            None => self.hook.hook.row().deadline,
        }
    }
}

/// When a hook is called at all; what does not fit never leaves the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct When {
    /// Filters: lines in which this is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = crate::REGEX_MAX)))]
    pub regex: Option<String>,
    /// Filters: sinks by name; `*` is all, also the local attach stream. None named: all but that
    /// one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 16)))]
    pub sinks: Vec<SinkName>,
    /// Sessions with these labels; `*` is any value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 32)))]
    pub labels: BTreeMap<String, String>,
}

/// A sink as manifests name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", schemars(transform = older_spelling))]
pub enum SinkName {
    /// Every sink.
    #[serde(rename = "*")]
    All,
    /// The terminal of the person at this machine.
    #[serde(rename = "attach.local", alias = "attach_local")]
    AttachLocal,
    /// Terminals elsewhere, and the web page.
    #[serde(rename = "attach.remote", alias = "attach_remote")]
    AttachRemote,
    /// Output pushed to programs.
    Stream,
    /// Output read afterwards.
    Transcript,
    /// Recordings.
    Recording,
    /// Screens.
    Snapshot,
    /// Events and notifications.
    Event,
    /// The host's own log.
    Log,
}

/// The two sinks with a dot in their name were once written with an underscore.
#[cfg(feature = "schema")]
fn older_spelling(schema: &mut schemars::Schema) {
    let forms = schema.get_mut("oneOf").and_then(serde_json::Value::as_array_mut);
    let older = ["attach_local", "attach_remote"];
    forms.into_iter().for_each(|forms| {
        forms.extend(older.map(|name| serde_json::json!({ "const": name, "deprecated": true })));
    });
}

/// How many lines a filter is given at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Batch {
    /// Lines.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 256)))]
    pub max_items: u32,
    /// Bytes.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 65_536)))]
    pub max_bytes: u32,
    /// How long to wait for more.
    #[cfg_attr(feature = "schema", schemars(range(max = 100)))]
    pub linger_ms: u32,
    /// Batches unanswered at once.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 4)))]
    pub in_flight: u32,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch { max_items: 256, max_bytes: 65_536, linger_ms: 8, in_flight: 4 }
    }
}

/// What waits for an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Queue {
    /// Events.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_024)))]
    pub max_items: u32,
    /// What becomes of one too many.
    pub overflow: Overflow,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue { max_items: 1_024, overflow: Overflow::default() }
    }
}

/// What a held sink does in the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Then {
    /// Stars.
    #[default]
    Mask,
    /// The held lines are left out.
    Drop,
    /// Closed.
    Seal,
}

/// How long and how much is held back, and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Hold {
    /// How long.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 60_000)))]
    pub max_ms: u64,
    /// How much.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_048_576)))]
    pub max_bytes: u64,
    /// And then.
    pub then: Then,
}

impl Default for Hold {
    fn default() -> Hold {
        Hold { max_ms: 2_000, max_bytes: 1_048_576, then: Then::default() }
    }
}

fn priority() -> u32 {
    PRIORITY
}

fn is_priority(value: &u32) -> bool {
    *value == PRIORITY
}

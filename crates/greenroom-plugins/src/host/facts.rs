//! What the host is made of and what it tells: plain types.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use greenroom_engine::SessionId;
use greenroom_formats::manifest::{HookName, OnFailure};
use greenroom_plugin_api::words;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::catalog::{Catalog, CatalogError, Found};
use crate::runtime::profile::Profiles;
use crate::runtime::{CallFailure, Launcher};

/// What the operator decided.
#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// Whether plugins are looked for and run at all.
    pub enabled: bool,
    /// How long a call of a hook under datawatch's name may take.
    pub timeout: Duration,
    /// By name: found and listed, not asked.
    pub disabled: Vec<String>,
    /// `HOOK` or `PLUGIN/HOOK` to the policy that wins over manifests.
    pub policy: BTreeMap<String, OnFailure>,
}

impl Default for HostConfig {
    fn default() -> HostConfig {
        HostConfig {
            enabled: false,
            timeout: Duration::from_secs(2),
            disabled: Vec::new(),
            policy: BTreeMap::new(),
        }
    }
}

/// What a host is made of.
pub struct HostParts {
    pub config: HostConfig,
    pub catalog: Arc<dyn Catalog>,
    pub launcher: Arc<dyn Launcher>,
    pub profiles: Arc<Profiles>,
    pub listener: Arc<dyn NewsListener>,
    /// Ours alone, 0700: statistics and the audit log.
    pub state: PathBuf,
}

/// Is told what happens to plugins. Must not block.
pub trait NewsListener: Send + Sync {
    fn on_news(&self, news: News);
}

/// What happened to a plugin.
#[derive(Clone, Debug, PartialEq)]
pub enum News {
    State {
        plugin: String,
        before: State,
        after: State,
        why: Option<String>,
    },
    /// A call failed: there was no answer, or none that counts.
    Failed(Failed),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Failed {
    pub plugin: String,
    pub hook: HookName,
    pub session: Option<SessionId>,
    pub why: CallFailure,
    /// What is done instead of what it would have answered.
    pub policy: OnFailure,
    /// The breaker opened with this one: it is not asked for a while.
    pub gave_up: bool,
    /// Lines a filter did not answer for.
    pub lines: usize,
}

/// Where a plugin is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Invalid,
    NeedsConsent,
    /// Its bytes are not those that were agreed to.
    Modified,
    Disabled,
    /// Nothing of it runs; it starts when it is asked.
    Idle,
    Spawning,
    Running,
    /// Its breaker is open.
    Degraded,
    Draining,
    Stopped,
    /// Its program ended; the next start waits.
    Backoff,
    /// Its program ended too often: it stays down until a reload.
    Quarantined,
}

words! { State {
    Invalid "invalid", NeedsConsent "needs_consent", Modified "modified", Disabled "disabled",
    Idle "idle", Spawning "spawning", Running "running", Degraded "degraded", Draining "draining",
    Stopped "stopped", Backoff "backoff", Quarantined "quarantined",
} }

/// What is known of one plugin.
#[derive(Clone, Debug)]
pub struct PluginInfo {
    pub found: Arc<Found>,
    /// Whether the operator left it turned on.
    pub enabled: bool,
    pub state: State,
    /// Why it is in this state, where that is not the usual one.
    pub why: Option<String>,
    /// How strongly its program is held: `enforced`, `partial`, `advisory`.
    pub level: Option<&'static str>,
    /// Counts reloads that changed it.
    pub generation: u64,
    /// Its hooks as they act: manifest, table and operator together.
    pub hooks: Vec<HookInfo>,
    pub stats: Statistics,
}

#[derive(Clone, Debug, PartialEq)]
pub struct HookInfo {
    pub hook: HookName,
    pub stage: &'static str,
    pub priority: u32,
    pub deadline: Duration,
    pub on_failure: OnFailure,
}

/// Counted since the plugin was first seen; survives restarts and reloads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Statistics {
    pub calls: u64,
    pub errors: u64,
    pub timeouts: u64,
    /// Events and lines it was not asked about for lack of room.
    pub drops: u64,
    pub restarts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Milliseconds since 1970, as the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_call_ms: Option<u64>,
    /// Calls and errors by hook.
    pub hooks: BTreeMap<String, (u64, u64)>,
    /// Calls by how long they took; trailing zeros are left out. [`Statistics::quantile`] reads
    /// them.
    pub(super) took: Vec<u64>,
}

/// How a reload went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Plugins known now.
    pub count: usize,
    pub added: Vec<String>,
    pub changed: Vec<String>,
    pub removed: Vec<String>,
    /// Those whose new form is broken; the old one goes on where there was one.
    pub failed: Vec<(String, String)>,
}

/// One call by hand.
#[derive(Clone, Debug, PartialEq)]
pub struct Tested {
    /// As the plugin gave it.
    pub answer: Map<String, Value>,
    /// The action it comes to; the policy's where it failed.
    pub action: String,
    pub failure: Option<String>,
    pub stderr: String,
    pub took: Duration,
}

/// What a plugin said on stderr, or what was noted about it.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine {
    pub at: SystemTime,
    /// `stderr`, `failure`, `state`.
    pub kind: &'static str,
    pub text: String,
}

/// A hook of a plugin, in the order in which they are asked.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderedHook {
    pub plugin: String,
    pub hook: HookInfo,
    /// Whether it would be asked now.
    pub asked: bool,
    pub why: String,
}

/// What a gate decided.
#[derive(Clone, Debug, PartialEq)]
pub enum GateOutcome {
    /// Go on with these fields.
    Pass {
        /// Those of the payload that plugins may change, as they are now.
        fields: Map<String, Value>,
        /// Who changed what, in order.
        changed: Vec<Changed>,
        /// Changes that were not made, as sentences.
        refused: Vec<String>,
        /// Who said yes where that differs from having no opinion.
        allowed_by: Option<String>,
    },
    /// Do not.
    Block { plugin: String, reason: String },
    /// A person decides; nobody has blocked it.
    Ask {
        plugin: String,
        reason: String,
        /// As in `Pass`.
        fields: Map<String, Value>,
        changed: Vec<Changed>,
        refused: Vec<String>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    pub plugin: String,
    pub fields: Vec<String>,
}

/// What decides whether a filter is asked about a session.
#[derive(Clone, Debug)]
pub struct SessionFacts {
    pub id: SessionId,
    pub labels: BTreeMap<String, String>,
}

#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("plugins are disabled: set plugins.enabled = true in the configuration")]
    Disabled,
    #[error("there is no plugin `{name}`")]
    Unknown { name: String, nearest: Option<String> },
    #[error("plugin {name} cannot run: {why}")]
    CannotRun { name: String, why: String },
    #[error("plugin {name} has no hook {hook}")]
    NoSuchHook { name: String, hook: String },
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    #[error("cannot keep the state of plugins in {}: {source}", path.display())]
    Keep { path: PathBuf, source: std::io::Error },
}

//! The `server` group: who is there, what can it do, how is it, and the event log.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::event::Event;
use crate::time::Timestamp;

/// Params of `server.hello`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HelloParams {
    /// Versions the client speaks; empty = 1.
    #[serde(default)]
    pub protocol: Vec<u32>,
    /// Who is calling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientInfo>,
}

/// Who is calling: a name, or a name with a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ClientInfo {
    /// Just a name.
    Name(String),
    /// More about it.
    Full {
        /// The program's name.
        name: String,
        /// The program's version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
    },
}

impl ClientInfo {
    /// The program's name.
    pub fn name(&self) -> &str {
        match self {
            ClientInfo::Name(name) | ClientInfo::Full { name, .. } => name,
        }
    }
}

/// Result of `server.hello`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HelloResult {
    /// The version both speak.
    pub protocol: u32,
    /// Always `greenroom`.
    pub name: String,
    /// The host's version.
    pub version: String,
    /// Optional abilities, such as `attach`, `events`, `binary`.
    #[serde(default)]
    pub features: Vec<String>,
    /// Process id of the daemon: changes with a restart.
    #[serde(default)]
    pub daemon_pid: u32,
}

/// Result of `server.capabilities`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CapabilitiesResult {
    /// Always `greenroom`.
    pub name: String,
    /// The host's version.
    pub version: String,
    /// `ndjson` and `lsp`.
    pub framing: Vec<String>,
    /// Names of the methods.
    pub methods: Vec<String>,
    /// Names of what can be pushed.
    pub notifications: Vec<String>,
    /// Versions of the API.
    #[serde(default)]
    pub protocol: Vec<u32>,
    /// Optional abilities.
    #[serde(default)]
    pub features: Vec<String>,
}

/// Params and result of `server.set_notifications`. Empty filters = everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SetNotifications {
    /// On or off.
    pub enabled: bool,
    /// Only of these adapters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapters: Option<Vec<String>>,
    /// Only of these sessions; they need not exist yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Vec<String>>,
}

/// Params of `server.web`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WebParams {
    /// Where to listen, such as `127.0.0.1:7878`; only this machine's own addresses. Without it as
    /// configured, or on any free port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
}

/// Result of `server.web`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WebResult {
    /// Where REST, MCP and WebSocket are, such as `http://127.0.0.1:7878`.
    pub url: String,
    /// What every request has to show.
    pub token: String,
    /// The file it is in, for programs that start later.
    pub token_file: String,
}

/// The token is a secret.
impl std::fmt::Debug for WebResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebResult").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Params of `server.subscribe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubscribeParams {
    /// Events with a greater id; without it only new ones. 0 = all that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Only these kinds; `session.*` is every kind of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<String>>,
    /// Only about these sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<Vec<String>>,
    /// true: push what is kept and then what comes, as `server.event`. false: answer one page.
    #[serde(default = "super::yes")]
    pub follow: bool,
    /// Most events of the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// With `follow: false`: wait this long for a first event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

impl SubscribeParams {
    /// Events of a page when `limit` is not given.
    pub const DEFAULT_LIMIT: u32 = 1000;
    /// Most events of a page.
    pub const MAX_LIMIT: u32 = 10_000;
}

impl Default for SubscribeParams {
    fn default() -> SubscribeParams {
        SubscribeParams {
            since: None,
            kinds: None,
            sessions: None,
            follow: true,
            limit: None,
            wait_ms: None,
        }
    }
}

/// Result of `server.subscribe`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubscribeResult {
    /// With `follow`: names the pushed events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
    /// Without `follow`: one page.
    #[serde(default)]
    pub events: Vec<Event>,
    /// Ask `since` this for what follows the page. With `follow`: the id of the newest event now.
    #[serde(default)]
    pub next_since: u64,
    /// There is more than this page.
    #[serde(default)]
    pub has_more: bool,
    /// Events that were asked for and are no longer kept.
    #[serde(default)]
    pub dropped: u64,
}

/// Params of `server.unsubscribe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnsubscribeParams {
    /// What `server.subscribe` or `session.subscribe` answered on the same connection.
    pub subscription: String,
}

/// Result of `server.unsubscribe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnsubscribeResult {
    /// False if there was no such subscription.
    pub unsubscribed: bool,
}

/// Result of `server.stats`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatsResult {
    /// The version of the daemon's program.
    pub version: String,
    /// The same as `daemon.pid`.
    pub daemon_pid: u32,
    /// The same as `keeper.pid`.
    pub keeper_pid: u32,
    /// How long this daemon has been running.
    pub uptime_ms: u64,
    /// The daemon's process.
    pub daemon: ProcessStats,
    /// The keeper's process.
    pub keeper: KeeperStats,
    /// Sessions by count.
    pub sessions: SessionCounts,
    /// Connections now.
    pub clients: u64,
    /// Attached clients now.
    #[serde(default)]
    pub attached: u64,
    /// Requests answered since the daemon started.
    #[serde(default)]
    pub requests: u64,
    /// Waits in flight.
    #[serde(default)]
    pub waits: u64,
    /// Output read since the daemon started.
    #[serde(default)]
    pub output_bytes: u64,
    /// What is wrong with files of the host, and what holds instead; sessions whose output is
    /// withheld.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<String>,
    /// Recordings on disk.
    #[serde(default)]
    pub journal_bytes: u64,
    /// Id of the newest event.
    #[serde(default)]
    pub last_event: u64,
    /// Drops and such by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// What could not be cleaned up after sessions yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cleanups: Vec<PendingCleanup>,
}

/// A clean-up that failed and is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PendingCleanup {
    /// Whose; it may be forgotten already.
    pub session: String,
    /// Which session plugin.
    pub plugin: String,
    /// What went wrong the last time.
    pub why: String,
    /// How often it was tried by this daemon.
    pub tries: u32,
    /// When it is tried next.
    pub next_at: Timestamp,
}

/// A process of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessStats {
    /// Process id.
    pub pid: u32,
    /// When it started.
    pub started_at: Timestamp,
    /// For how long it has been running.
    pub uptime_ms: u64,
    /// Resident memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// Open file descriptors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_fds: Option<u64>,
}

/// What is known of the keeper.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeeperStats {
    /// Process id.
    pub pid: u32,
    /// When it started.
    pub started_at: Timestamp,
    /// For how long it has been running.
    pub uptime_ms: u64,
    /// Resident memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// How often it replaced itself.
    #[serde(default)]
    pub generation: u64,
    /// How many daemons it has started.
    #[serde(default)]
    pub daemon_starts: u64,
    /// How the daemon before this one ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<LastExit>,
}

/// How the last daemon ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LastExit {
    /// Its status, if it exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal, if one killed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// How long it had lived.
    pub lived_ms: u64,
}

/// Sessions by count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionCounts {
    /// All the host knows.
    pub total: u64,
    /// With a live process.
    pub running: u64,
    /// Ended and still readable.
    pub ended: u64,
}

/// Params of `server.shutdown`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShutdownParams {
    /// Refuse (`conflict`) while a session runs.
    #[serde(default)]
    pub if_idle: bool,
    /// How long sessions get between TERM and KILL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// Result of `server.shutdown`, sent before the host goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShutdownResult {
    /// Always true.
    pub stopping: bool,
    /// Sessions that are being ended.
    #[serde(default)]
    pub sessions: u64,
}

/// Params of `server.upgrade`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpgradeParams {
    /// The new program; without it the one the host was started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Leave the keeper as it is.
    #[serde(default)]
    pub daemon_only: bool,
}

/// Result of `server.upgrade`, sent before the daemon restarts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UpgradeResult {
    /// Always true.
    pub upgrading: bool,
    /// The version of the running program.
    pub from: String,
    /// The version of the new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The keeper replaced itself, too.
    #[serde(default)]
    pub keeper: bool,
}

/// Result of `server.reload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReloadResult {
    /// Always true.
    pub reloaded: bool,
    /// The file that was read.
    pub file: String,
    /// Settings that changed and hold from now on.
    pub changed: Vec<String>,
    /// Settings that changed and hold once the daemon was replaced (`server.upgrade`).
    pub restart: Vec<String>,
    /// Settings that changed and hold once the host was stopped and started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next_start: Vec<String>,
    /// Plugins that came, changed or went.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<String>,
    /// Plugins that could not be taken up, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugins_failed: Vec<String>,
}

/// Params of `server.schema`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SchemaParams {
    /// One method only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
}

/// Result of `server.schema`: the table of methods, events and faults.
pub type SchemaResult = Value;

//! The one table of methods.
//!
//! Every surface (JSON-RPC, REST, MCP, command line, `greenroom schema`) is a view of [`METHODS`];
//! tests walk it and fail where a surface is missing. Each row is a type too ([`method`]), which
//! router, client and verbs go by, so that a name, its params and its result are stated here and
//! nowhere else. Absent on purpose: handlers, which the daemon's router maps to [`MethodId`]s.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::api::Empty;
use crate::api::fence::*;
use crate::api::notice::*;
use crate::api::plugin::*;
use crate::api::redact::*;
use crate::api::run::*;
use crate::api::screen::Snapshot;
use crate::api::server::*;
use crate::api::session::*;
use crate::events;
use crate::fault::FAULTS;

/// What a caller must be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Look.
    Read,
    /// Type into sessions.
    Input,
    /// Start, end and change sessions.
    Control,
    /// Stop or replace the host.
    Admin,
}

/// Whether a call may be sent again when its answer was lost with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeat {
    /// The second has no effect the first had not.
    Safe,
    /// Each has an effect: the caller must be told that it is unknown.
    Once,
}

/// Where a method appears besides JSON-RPC, which has them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Surfaces {
    /// `METHOD /path`.
    pub rest: Option<&'static str>,
    /// Name of the tool.
    pub mcp: Option<&'static str>,
    /// Verb of the command line.
    pub cli: Option<&'static str>,
}

/// A method as a type: its name, what is sent and what is answered. Router, client and verbs go by
/// it.
pub trait Method {
    /// Which row it is.
    const ID: MethodId;
    /// `group.verb`.
    const NAME: &'static str;
    /// What is sent.
    type Params: Serialize + DeserializeOwned + Send + Sync;
    /// What is answered.
    type Result: Serialize + DeserializeOwned + Send;

    /// What the table says of it.
    fn row() -> &'static MethodRow {
        Self::ID.row()
    }
}

impl MethodId {
    /// What the table says of it.
    pub fn row(self) -> &'static MethodRow {
        &METHODS[self as usize]
    }
}

/// One row of the table.
pub struct MethodRow {
    /// Which method.
    pub id: MethodId,
    /// `group.verb`.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// What the caller needs.
    pub scope: Scope,
    /// What to do when the answer is lost.
    pub repeat: Repeat,
    /// Where else it appears.
    pub surfaces: Surfaces,
    /// Params that work.
    pub example: &'static str,
    /// Schema of the params.
    pub params: fn(&mut SchemaGenerator) -> Schema,
    /// Schema of the result.
    pub result: fn(&mut SchemaGenerator) -> Schema,
    /// Whether params decode; the handler decodes them again into the type itself.
    pub check: fn(&str) -> Result<(), serde_json::Error>,
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

fn decodes<T: DeserializeOwned>(text: &str) -> Result<(), serde_json::Error> {
    serde_json::from_str::<T>(text).map(drop)
}

macro_rules! methods {
    ($($id:ident $name:literal $scope:ident $repeat:ident ($params:ty) -> $result:ty,
        rest $rest:expr, mcp $mcp:expr, cli $cli:expr,
        $example:literal, $summary:literal;)*) => {
        /// Which method, for whoever must not forget one: a `match` over it is complete or does not
        /// compile.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum MethodId {
            $(#[doc = concat!("`", $name, "`: ", $summary, ".")] $id,)*
        }

        /// A type for each row, to call it by: `client.call::<method::SessionList>(&params)`.
        pub mod method {
            $(#[doc = concat!("`", $name, "`: ", $summary, ".")] pub struct $id;)*
        }

        $(impl Method for method::$id {
            const ID: MethodId = MethodId::$id;
            const NAME: &'static str = $name;
            type Params = $params;
            type Result = $result;
        })*

        /// Every method of the client API, by group.
        pub const METHODS: &[MethodRow] = &[$(MethodRow {
            id: MethodId::$id,
            name: $name,
            summary: $summary,
            scope: Scope::$scope,
            repeat: Repeat::$repeat,
            surfaces: Surfaces { rest: $rest, mcp: $mcp, cli: $cli },
            example: $example,
            params: schema_of::<$params>,
            result: schema_of::<$result>,
            check: decodes::<$params>,
        },)*];
    };
}

methods! {
    ServerHello "server.hello" Read Safe (HelloParams) -> HelloResult,
        rest None, mcp None, cli None,
        r#"{"protocol": [1], "client": "docs"}"#,
        "agrees on a version and says who is calling; optional";
    ServerCapabilities "server.capabilities" Read Safe (Empty) -> CapabilitiesResult,
        rest Some("GET /api/capabilities"), mcp None, cli None,
        "{}",
        "names what this host can do";
    ServerSetNotifications "server.set_notifications" Read Safe (SetNotifications) -> SetNotifications,
        rest None, mcp None, cli None,
        r#"{"enabled": true, "sessions": ["s1"]}"#,
        "turns pushes of session.changed, session.output and session.exited on or off";
    ServerSubscribe "server.subscribe" Read Safe (SubscribeParams) -> SubscribeResult,
        rest Some("GET /api/events"), mcp Some("events_read"), cli Some("events"),
        r#"{"since": 0, "kinds": ["session.*"], "follow": false}"#,
        "reads the event log: one page, or everything from a point on, pushed";
    ServerUnsubscribe "server.unsubscribe" Read Safe (UnsubscribeParams) -> UnsubscribeResult,
        rest None, mcp None, cli None,
        r#"{"subscription": "e1"}"#,
        "ends a subscription of this connection";
    ServerStats "server.stats" Read Safe (Empty) -> StatsResult,
        rest Some("GET /api/stats"), mcp None, cli Some("stats"),
        "{}",
        "answers process ids, uptime, counts and memory";
    ServerShutdown "server.shutdown" Admin Once (ShutdownParams) -> ShutdownResult,
        rest None, mcp None, cli Some("shutdown"),
        r#"{"if_idle": true}"#,
        "ends every session and then the host";
    ServerReload "server.reload" Admin Safe (Empty) -> ReloadResult,
        rest None, mcp None, cli Some("reload"),
        "{}",
        "reads the settings again; answers what changed, and what holds only after server.upgrade";
    ServerUpgrade "server.upgrade" Admin Once (UpgradeParams) -> UpgradeResult,
        rest None, mcp None, cli Some("upgrade"),
        "{}",
        "replaces the running programs; sessions go on";
    ServerSchema "server.schema" Read Safe (SchemaParams) -> SchemaResult,
        rest Some("GET /api/schema"), mcp None, cli Some("schema"),
        r#"{"method": "session.create"}"#,
        "answers this table with JSON Schemas";
    ServerWeb "server.web" Admin Safe (WebParams) -> WebResult,
        rest None, mcp None, cli Some("web"),
        "{}",
        "starts the HTTP listener if it does not run, and answers its address and token";

    SessionCreate "session.create" Control Once (CreateParams) -> CreateResult,
        rest Some("POST /api/sessions"), mcp Some("session_start"), cli Some("new"),
        r#"{"command": ["bash", "-l"], "name": "work", "size": "120x40"}"#,
        "starts a program on a terminal of its own";
    SessionList "session.list" Read Safe (ListParams) -> ListResult,
        rest Some("GET /api/sessions"), mcp Some("sessions_list"), cli Some("ls"),
        r#"{"detail": true}"#,
        "lists sessions: ids, or objects with detail";
    SessionInfo "session.info" Read Safe (InfoParams) -> SessionInfo,
        rest Some("GET /api/sessions/{id}"), mcp None, cli Some("info"),
        r#"{"session": "s1"}"#,
        "describes one session";
    SessionInput "session.input" Input Once (InputParams) -> InputResult,
        rest Some("POST /api/sessions/{id}/input"), mcp Some("session_send"), cli Some("send"),
        r#"{"session": "s1", "action": {"type": "text", "value": "ls\n"}}"#,
        "types, pastes, presses keys, moves the mouse";
    SessionWait "session.wait" Read Safe (WaitParams) -> WaitResult,
        rest Some("POST /api/sessions/{id}/wait"), mcp Some("session_wait"), cli Some("wait"),
        r#"{"session": "s1", "matcher": {"type": "screen_regex", "value": "\\$ $"}, "timeout_ms": 5000, "snapshot": "text"}"#,
        "waits until a condition holds";
    SessionCancelWait "session.cancel_wait" Read Safe (CancelWaitParams) -> CancelWaitResult,
        rest None, mcp None, cli None,
        r#"{"wait_id": "w1"}"#,
        "ends a wait of any connection by its wait_id";
    SessionSnapshot "session.snapshot" Read Safe (SnapshotParams) -> Snapshot,
        rest Some("GET /api/sessions/{id}/screen"), mcp Some("session_read"), cli Some("read"),
        r#"{"session": "s1", "format": "text"}"#,
        "answers the screen as it is now";
    SessionTranscript "session.transcript" Read Safe (TranscriptParams) -> TranscriptResult,
        rest Some("GET /api/sessions/{id}/transcript"), mcp Some("session_read"), cli Some("read"),
        r#"{"session": "s1", "since": 0, "max_bytes": 65536, "format": "text"}"#,
        "answers output from a point on";
    SessionResize "session.resize" Control Safe (ResizeParams) -> ResizeResult,
        rest Some("POST /api/sessions/{id}/resize"), mcp None, cli None,
        r#"{"session": "s1", "rows": 40, "cols": 120}"#,
        "changes the size of the terminal";
    SessionKill "session.kill" Control Once (KillParams) -> KillResult,
        rest Some("POST /api/sessions/{id}/kill"), mcp Some("session_kill"), cli Some("kill"),
        r#"{"session": "s1", "grace_ms": 2000}"#,
        "ends the program and all it started; the session stays readable";
    SessionClose "session.close" Control Once (CloseParams) -> CloseResult,
        rest Some("DELETE /api/sessions/{id}"), mcp None, cli Some("rm"),
        r#"{"session": "s1", "if_ended": true}"#,
        "ends the session if it runs, and forgets it with its recording";
    SessionRename "session.rename" Control Once (RenameParams) -> RenameResult,
        rest Some("POST /api/sessions/{id}/rename"), mcp None, cli Some("rename"),
        r#"{"session": "s1", "name": "work"}"#,
        "gives the session another name";
    SessionSignal "session.signal" Control Once (SignalParams) -> SignalResult,
        rest Some("POST /api/sessions/{id}/signal"), mcp None, cli None,
        r#"{"session": "s1", "signal": "int", "to": "foreground"}"#,
        "sends one signal";
    SessionAttach "session.attach" Input Safe (AttachParams) -> AttachResult,
        rest Some("GET /api/sessions/{id}/attach"), mcp None, cli Some("attach"),
        r#"{"session": "s1", "size": {"rows": 40, "cols": 120}}"#,
        "turns the connection into a binary stream of the terminal";
    SessionSubscribe "session.subscribe" Read Safe (OutputSubscribeParams) -> OutputSubscribeResult,
        rest None, mcp None, cli None,
        r#"{"session": "s1", "since": 0, "format": "text"}"#,
        "pushes output from a point on";
    SessionMark "session.mark" Input Once (MarkParams) -> MarkResult,
        rest Some("POST /api/sessions/{id}/mark"), mcp None, cli None,
        r#"{"session": "s1", "label": "before the tests"}"#,
        "puts a label into the recording";
    SessionReplay "session.replay" Read Safe (ReplayParams) -> ReplayResult,
        rest Some("GET /api/sessions/{id}/replay"), mcp None, cli Some("replay"),
        r#"{"session": "s1", "at_ms": 1500, "format": "text"}"#,
        "answers the screen at a past moment of the recording";
    SessionExport "session.export" Read Safe (ExportParams) -> ExportResult,
        rest Some("GET /api/sessions/{id}/recording"), mcp None, cli Some("record"),
        r#"{"session": "s1", "format": "asciicast-v3"}"#,
        "answers the recording as a file, in pages";

    WorktreeList "worktree.list" Read Safe (Empty) -> WorktreeListResult,
        rest Some("GET /api/worktrees"), mcp None, cli Some("worktree"),
        "{}",
        "lists the worktrees that sessions left, and why each is kept";
    WorktreeClean "worktree.clean" Control Once (WorktreeCleanParams) -> WorktreeCleanResult,
        rest Some("POST /api/worktrees/clean"), mcp None, cli Some("worktree"),
        r#"{"dry_run": true}"#,
        "removes the worktrees that hold no work";
    WorktreeInfo "worktree.info" Read Safe (WorktreeParams) -> WorktreeEntry,
        rest Some("GET /api/worktrees/{id}"), mcp None, cli Some("worktree"),
        r#"{"worktree": "feat-x"}"#,
        "describes one worktree, by its slug, branch, path or session";
    WorktreeDiff "worktree.diff" Read Safe (WorktreeDiffParams) -> WorktreeDiffResult,
        rest Some("GET /api/worktrees/{id}/diff"), mcp None, cli Some("worktree"),
        r#"{"worktree": "feat-x", "stat": true}"#,
        "shows what a worktree has that its base has not, committed or not";
    WorktreeMerge "worktree.merge" Control Once (WorktreeMergeParams) -> WorktreeMergeResult,
        rest Some("POST /api/worktrees/{id}/merge"), mcp None, cli Some("worktree"),
        r#"{"worktree": "feat-x", "squash": true}"#,
        "merges a worktree's branch into what is checked out, or changes nothing and says why";
    WorktreeRemove "worktree.remove" Control Once (WorktreeRemoveParams) -> WorktreeRemoveResult,
        rest Some("DELETE /api/worktrees/{id}"), mcp None, cli Some("worktree"),
        r#"{"worktree": "feat-x"}"#,
        "removes one worktree if nothing is lost; with force its work is put under a ref first";

    SandboxDoctor "sandbox.doctor" Read Safe (Empty) -> SandboxDoctorResult,
        rest Some("GET /api/sandbox"), mcp None, cli Some("sandbox"),
        "{}",
        "tries each layer of the sandbox and says what is missing";
    SandboxExplain "sandbox.explain" Read Safe (CreateParams) -> SandboxExplainResult,
        rest Some("POST /api/sandbox/explain"), mcp None, cli Some("sandbox"),
        r#"{"cwd": "/srv", "sandbox": "full"}"#,
        "says what would be enforced on such a session";

    RedactTest "redact.test" Read Safe (RedactTestParams) -> RedactTestResult,
        rest Some("POST /api/redact/test"), mcp None, cli Some("redact"),
        r#"{"text": "API_KEY=abcdefgh12345678"}"#,
        "says what would be masked in a text, by which rule";

    PluginList "plugin.list" Read Safe (Empty) -> PluginListResult,
        rest Some("GET /api/plugins"), mcp Some("plugins_list"), cli Some("plugin"),
        "{}",
        "lists plugins: what they hook, their state, what they have done";
    PluginGet "plugin.get" Read Safe (PluginParams) -> PluginGetResult,
        rest Some("GET /api/plugins/{name}"), mcp Some("plugin_get"), cli Some("plugin"),
        r#"{"name": "my-filter"}"#,
        "describes one plugin: manifest, hooks as they act, grants, statistics";
    PluginReload "plugin.reload" Control Once (PluginReloadParams) -> PluginReloadResult,
        rest Some("POST /api/plugins/reload"), mcp Some("plugins_reload"), cli Some("plugin"),
        r#"{"name": "my-filter"}"#,
        "looks at the files again; the operator's scripts are taken as they are now";
    PluginEnable "plugin.enable" Control Once (PluginParams) -> PluginSwitched,
        rest Some("POST /api/plugins/{name}/enable"), mcp Some("plugin_enable"), cli Some("plugin"),
        r#"{"name": "my-filter"}"#,
        "lets a plugin take part again; lasts";
    PluginDisable "plugin.disable" Control Once (PluginParams) -> PluginSwitched,
        rest Some("POST /api/plugins/{name}/disable"), mcp Some("plugin_disable"), cli Some("plugin"),
        r#"{"name": "my-filter"}"#,
        "keeps a plugin from taking part; lasts";
    PluginTest "plugin.test" Control Once (PluginTestParams) -> PluginTestResult,
        rest Some("POST /api/plugins/{name}/test"), mcp Some("plugin_test"), cli Some("plugin"),
        r#"{"name": "my-filter", "hook": "post_session_output", "payload": {"line": "hello"}}"#,
        "asks one plugin by hand and answers what it says";
    PluginOrder "plugin.order" Read Safe (PluginOrderParams) -> PluginOrderResult,
        rest None, mcp None, cli Some("plugin"),
        r#"{"hook": "output.filter"}"#,
        "answers in which order the plugins of a hook are asked, and why";
    PluginStats "plugin.stats" Read Safe (PluginStatsParams) -> PluginStatsResult,
        rest None, mcp None, cli Some("plugin"),
        r#"{"name": "my-filter"}"#,
        "answers calls, errors, times and drops; they survive restarts";
    PluginLogs "plugin.logs" Read Safe (PluginLogsParams) -> PluginLogsResult,
        rest None, mcp None, cli Some("plugin"),
        r#"{"name": "my-filter", "lines": 20}"#,
        "answers what a plugin said on stderr and what was noted about it";
    PluginAdd "plugin.add" Admin Once (PluginAddParams) -> PluginAddResult,
        rest None, mcp None, cli Some("plugin"),
        r#"{"source": "/srv/guard"}"#,
        "copies a plugin into the store; it does not run before it is granted";
    PluginLink "plugin.link" Admin Once (PluginLinkParams) -> PluginGranted,
        rest None, mcp None, cli Some("plugin"),
        r#"{"path": "/srv/guard"}"#,
        "runs a plugin where it lies, whatever lies there: for whoever writes it";
    PluginRemove "plugin.remove" Admin Once (PluginParams) -> PluginRemoved,
        rest None, mcp None, cli Some("plugin"),
        r#"{"name": "guard"}"#,
        "forgets a plugin that was added or linked";
    PluginGrant "plugin.grant" Admin Once (PluginGrantParams) -> PluginGranted,
        rest None, mcp None, cli Some("plugin"),
        r#"{"name": "guard", "only": ["screen.read"]}"#,
        "agrees to a plugin, bound to the bytes it has now";
    PluginRevoke "plugin.revoke" Admin Once (PluginParams) -> PluginGranted,
        rest None, mcp None, cli Some("plugin"),
        r#"{"name": "guard"}"#,
        "takes an agreement back";
    PluginPending "plugin.pending" Read Safe (Empty) -> PluginPendingResult,
        rest None, mcp None, cli Some("plugin"),
        "{}",
        "lists plugins that wait for consent, with what there is to agree to";
    PluginCapabilities "plugin.capabilities" Read Safe (Empty) -> PluginCapabilitiesResult,
        rest None, mcp None, cli None,
        "{}",
        "names what manifests may ask for and what runs here";
    PluginValidateManifest "plugin.validate_manifest" Read Safe (ValidateManifestParams) -> ValidateManifestResult,
        rest None, mcp None, cli None,
        r#"{"manifest": {"name": "demo", "entry": "./run", "hooks": ["on_alert"]}}"#,
        "checks a manifest in any of the four forms";
    PluginDescribe "plugin.describe" Read Safe (PluginParams) -> PluginDescribeResult,
        rest None, mcp None, cli None,
        r#"{"plugin": "echo"}"#,
        "describes what a plugin offers";
    PluginLoad "plugin.load" Admin Once (PluginLoadParams) -> PluginLoadResult,
        rest None, mcp None, cli None,
        r#"{"manifest_path": "/srv/echo/manifest.toml"}"#,
        "takes a plugin for this host's lifetime, if the host was started to allow that";
    PluginUnload "plugin.unload" Admin Once (PluginUnloadParams) -> PluginUnloadResult,
        rest None, mcp None, cli None,
        r#"{"plugin": "echo"}"#,
        "forgets a plugin that was loaded";

    AlertRaise "alert.raise" Control Once (AlertParams) -> AlertResult,
        rest Some("POST /api/alerts"), mcp None, cli Some("alert"),
        r#"{"text": "the build is red", "severity": "error"}"#,
        "raises an alert: an event, and whatever plugins make of it";
    HookEmit "hook.emit" Input Once (EmitParams) -> EmitResult,
        rest Some("POST /api/hooks"), mcp None, cli Some("hook"),
        r#"{"session": "s1", "agent": "claude", "data": {"hook_event_name": "Stop"}}"#,
        "takes what an agent's own hook was told, for plugins that observe agents";
    ApprovalList "approval.list" Read Safe (Empty) -> ApprovalsResult,
        rest Some("GET /api/approvals"), mcp None, cli Some("approval"),
        "{}",
        "lists what waits for a person's decision, and what was decided last";
    ApprovalResolve "approval.resolve" Control Once (ResolveParams) -> ResolveResult,
        rest Some("POST /api/approvals/{id}"), mcp None, cli Some("approval"),
        r#"{"approval": "a1", "allow": true}"#,
        "decides an approval";

    RunStart "run.start" Control Once (RunStartParams) -> RunStartResult,
        rest Some("POST /api/runs"), mcp None, cli Some("run"),
        r#"{"connector": {"models": {"m": {"command": ["echo"]}}, "prompt": "hello"}, "cwd": "/", "dry_run": true}"#,
        "carries out a connector file: phases of workers, each an ordinary session";
    RunList "run.list" Read Safe (RunListParams) -> RunListResult,
        rest Some("GET /api/runs"), mcp None, cli Some("run"),
        r#"{"detail": false}"#,
        "lists runs, also those that have ended";
    RunInfo "run.info" Read Safe (RunParams) -> RunInfo,
        rest Some("GET /api/runs/{id}"), mcp None, cli Some("run"),
        r#"{"run": "r1"}"#,
        "describes a run with its phases and workers";
    RunCancel "run.cancel" Control Safe (RunParams) -> RunCancelResult,
        rest Some("POST /api/runs/{id}/cancel"), mcp None, cli Some("run"),
        r#"{"run": "r1"}"#,
        "stops a run and its workers; answers when nothing of it runs any more";
}

/// The row of this method.
pub fn find(name: &str) -> Option<&'static MethodRow> {
    METHODS.iter().find(|method| method.name == name)
}

/// The whole table as JSON with schemas, or one method of it. `None`: no such method.
pub fn document(only: Option<&str>) -> Option<Value> {
    if only.is_some_and(|name| find(name).is_none()) {
        return None;
    }
    let mut generator = SchemaGenerator::default();
    let methods: Vec<Value> = METHODS
        .iter()
        .filter(|method| only.is_none_or(|name| method.name == name))
        .map(|method| describe(method, &mut generator))
        .collect();
    let pushes: Map<String, Value> = events::PUSHES
        .iter()
        .map(|push| (push.kind.to_owned(), (push.schema)(&mut generator).to_value()))
        .collect();
    let faults: Vec<Value> = FAULTS
        .iter()
        .map(|row| json!({"kind": row.word, "code": row.code, "exit": row.exit, "status": row.status, "summary": row.summary}))
        .collect();
    Some(json!({
        "protocol": crate::PROTOCOL_VERSIONS,
        "methods": methods,
        "events": events::all().collect::<Vec<_>>(),
        "notifications": pushes,
        "faults": faults,
        "$defs": generator.take_definitions(true),
    }))
}

fn describe(method: &MethodRow, generator: &mut SchemaGenerator) -> Value {
    json!({
        "name": method.name,
        "summary": method.summary,
        "scope": method.scope,
        "repeat": method.repeat,
        "surfaces": method.surfaces,
        "example": serde_json::from_str::<Value>(method.example).unwrap_or(Value::Null),
        "params": (method.params)(generator),
        "result": (method.result)(generator),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_well_formed() {
        let mut seen = HashSet::new();
        for method in METHODS {
            assert!(seen.insert(method.name), "{} twice", method.name);
            let (group, verb) = method.name.split_once('.').unwrap();
            let word = |text: &str| {
                !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
            };
            assert!(word(group) && word(verb), "{}", method.name);
            let parts = method.name.split(['.', '_']);
            let camel: String = parts.map(|part| part[..1].to_uppercase() + &part[1..]).collect();
            assert_eq!(format!("{:?}", method.id), camel);
            assert_eq!(method.id.row().name, method.name);
        }
    }

    /// Clients call these. A new method need not be here: `docs/api.md` shows that it came.
    #[test]
    fn no_method_of_the_contract_is_gone() {
        let server = "hello capabilities set_notifications subscribe unsubscribe stats shutdown upgrade reload schema web";
        let session = "create list info input wait cancel_wait snapshot transcript resize kill close rename signal \
                       attach subscribe mark replay export";
        let run = "start list info cancel";
        let plugin = "capabilities validate_manifest describe load unload list get enable disable reload test grant revoke \
                      pending stats logs order add link remove";
        for (group, verbs) in [
            ("server", server),
            ("session", session),
            ("run", run),
            ("worktree", "list clean info diff merge remove"),
            ("sandbox", "doctor explain"),
            ("alert", "raise"),
            ("hook", "emit"),
            ("approval", "list resolve"),
            ("plugin", plugin),
        ] {
            for verb in verbs.split_whitespace() {
                let name = format!("{group}.{verb}");
                assert!(find(&name).is_some(), "{name} is gone");
            }
        }
    }

    #[test]
    fn examples_decode_and_summaries_are_sentences() {
        for method in METHODS {
            (method.check)(method.example)
                .unwrap_or_else(|error| panic!("{}: {error}", method.name));
            assert!(method.summary.chars().next().unwrap().is_lowercase(), "{}", method.name);
            assert!(!method.summary.ends_with('.'), "{}", method.name);
        }
    }

    #[test]
    fn wrong_types_do_not_decode() {
        for method in METHODS.iter().filter(|method| method.example != "{}") {
            let mut example: Value = serde_json::from_str(method.example).unwrap();
            for (key, value) in example.as_object_mut().unwrap().clone() {
                let mut wrong = example.clone();
                wrong[&key] = json!([[{"no": "such"}]]);
                assert!(
                    (method.check)(&wrong.to_string()).is_err(),
                    "{}: {key} was {value}",
                    method.name
                );
            }
            example["unknown_member"] = json!(1);
            assert!((method.check)(&example.to_string()).is_ok(), "{}", method.name);
        }
    }

    #[test]
    fn every_rest_row_is_unique_and_has_a_verb() {
        let mut seen = HashSet::new();
        for rest in METHODS.iter().filter_map(|method| method.surfaces.rest) {
            assert!(seen.insert(rest), "{rest} twice");
            let (verb, path) = rest.split_once(' ').unwrap();
            assert!(
                ["GET", "POST", "DELETE"].contains(&verb) && path.starts_with("/api/"),
                "{rest}"
            );
        }
    }

    #[test]
    fn what_may_be_repeated_changes_nothing() {
        for method in METHODS.iter().filter(|method| method.scope == Scope::Read) {
            assert_eq!(method.repeat, Repeat::Safe, "{}", method.name);
        }
        for name in ["session.create", "session.input", "session.kill", "server.shutdown"] {
            assert_eq!(find(name).unwrap().repeat, Repeat::Once);
        }
    }

    #[test]
    fn the_document_resolves_its_references() {
        let document = document(None).unwrap();
        let text = document.to_string();
        let definitions = document["$defs"].as_object().unwrap();
        assert!(text.contains("#/$defs/Matcher"));
        for reference in text.split("\"#/$defs/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(definitions.contains_key(name), "{name}");
        }
        assert!(super::document(Some("no.such")).is_none());
        assert_eq!(
            super::document(Some("session.wait")).unwrap()["methods"].as_array().unwrap().len(),
            1
        );
    }
}

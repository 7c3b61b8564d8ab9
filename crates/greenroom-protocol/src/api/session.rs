//! The `session` group except input, screens and matchers, which have their own files.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::OneOrMany;
use super::matcher::{Matcher, Outcome};
use super::screen::{Size, Snapshot, SnapshotFormat, TranscriptFormat};
use crate::time::Timestamp;

/// Params of `session.create`. The program is `command`, else `program` with `args`, else the
/// user's shell. The size is `size`, else `rows` and `cols`, else 80x24.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CreateParams {
    /// The program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Program and arguments in one list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Where to start it; must exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Set on top of the inherited environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Inherit nothing.
    #[serde(skip_serializing_if = "super::is_false")]
    pub clear_env: bool,
    /// The caller's whole environment, used in place of the host's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherit_env: Option<BTreeMap<String, String>>,
    /// Lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// Columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// For programs that draw pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pixel_width: Option<u16>,
    /// For programs that draw pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pixel_height: Option<u16>,
    /// `"120x40"` or `{rows, cols}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// A name to call it by; must be free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Free for the caller.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What the session is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// How much of the transcript `session.transcript` answers without `max_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript_max_chars: Option<u64>,
    /// Copy the raw output into this file; must not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_transcript_path: Option<String>,
    /// Append to it instead.
    #[serde(skip_serializing_if = "super::is_false")]
    pub raw_transcript_append: bool,
    /// End it after this long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// End it after this long without output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Session plugin: work in a git worktree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Value>,
    /// Session plugin: confine it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Value>,
    /// Session plugin: a directory shared by several sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scratchpad: Option<Value>,
    /// More session plugins by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<Value>,
}

impl CreateParams {
    /// The name of a session plugin this asks for. A host that cannot give it must refuse with
    /// `unsupported`: a session started without its sandbox would be a lie.
    pub fn asks_for(&self) -> Option<&'static str> {
        let off =
            |value: &Option<Value>| matches!(value, None | Some(Value::Null | Value::Bool(false)));
        [("worktree", &self.worktree), ("sandbox", &self.sandbox), ("scratchpad", &self.scratchpad)]
            .into_iter()
            .find(|(_, value)| !off(value))
            .map(|(name, _)| name)
            .or((!self.with.is_empty()).then_some("with"))
    }

    /// Program and arguments, if the caller named any.
    pub fn argv(&self) -> Option<Vec<String>> {
        if let Some(command) = self.command.as_ref().filter(|command| !command.is_empty()) {
            return Some(command.clone());
        }
        let program = self.program.as_ref().filter(|program| !program.is_empty())?;
        Some(std::iter::once(program).chain(&self.args).cloned().collect())
    }

    /// The size asked for.
    pub fn size(&self) -> Size {
        let default = Size::default();
        self.size.unwrap_or(Size {
            rows: self.rows.unwrap_or(default.rows),
            cols: self.cols.unwrap_or(default.cols),
            pixel_width: self.pixel_width.unwrap_or(0),
            pixel_height: self.pixel_height.unwrap_or(0),
        })
    }
}

/// Result of `session.create`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CreateResult {
    /// Its id.
    pub session: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// Params of methods that take a session and nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
}

/// Params of `session.list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ListParams {
    /// Objects instead of ids.
    pub detail: bool,
    /// Only in this state, or one of these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<OneOrMany<String>>,
    /// Only with all of these labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Result of `session.list`, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ListResult {
    /// Ids, or objects with `detail`.
    pub sessions: Vec<Listed>,
}

/// One entry of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Listed {
    /// Without `detail`.
    Id(String),
    /// With it.
    Info(Box<SessionInfo>),
}

impl Listed {
    /// The session's id.
    pub fn id(&self) -> &str {
        match self {
            Listed::Id(id) => id,
            Listed::Info(info) => &info.id,
        }
    }
}

/// Params of `session.info`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InfoParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// Say how each setting came about.
    #[serde(default)]
    pub explain: bool,
}

/// A session as it is now. Also the result of `session.info`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionInfo {
    /// Such as `s3`; never used again for another session.
    pub id: String,
    /// A name to call it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where it is in its life.
    pub state: SessionState,
    /// Of the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it was started, or where the program says it is now.
    pub cwd: String,
    /// The branch checked out there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Of the terminal.
    pub size: Size,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When the program ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// The window title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the session is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Free for the caller.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Bytes of output so far.
    pub seq: u64,
    /// The oldest byte still kept.
    pub first_seq: u64,
    /// When it last wrote something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_output_at: Option<Timestamp>,
    /// Whether output is being kept.
    #[serde(default)]
    pub recording: Recording,
    /// Who is attached.
    #[serde(default)]
    pub clients: Vec<ClientEntry>,
    /// The client whose size holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_owner: Option<String>,
    /// Session plugins in its chain.
    #[serde(default)]
    pub plugins: Vec<Value>,
    /// With `explain`: how each setting came about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<Value>,
}

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// Asked for, no process yet.
    #[default]
    Starting,
    /// The process lives.
    Running,
    /// The process has ended; everything can still be read.
    Exited,
    /// The process could not be started.
    Failed,
    /// The host lost sight of the process (the machine was restarted).
    Lost,
}

impl SessionState {
    /// As on the wire.
    pub fn word(self) -> &'static str {
        match self {
            SessionState::Starting => "starting",
            SessionState::Running => "running",
            SessionState::Exited => "exited",
            SessionState::Failed => "failed",
            SessionState::Lost => "lost",
        }
    }

    /// No process any more.
    pub fn has_ended(self) -> bool {
        matches!(self, SessionState::Exited | SessionState::Failed | SessionState::Lost)
    }
}

impl fmt::Display for SessionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How a process ended. Also the payload of the attach frame EXIT.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExitStatus {
    /// Its status, if it exited by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// The signal that killed it, such as `SIGKILL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Status 0.
    pub success: bool,
}

impl ExitStatus {
    /// Exited by itself.
    pub fn code(code: i32) -> ExitStatus {
        ExitStatus { code: Some(code), signal: None, success: code == 0 }
    }

    /// Killed by a signal.
    pub fn signal(name: impl Into<String>) -> ExitStatus {
        ExitStatus { code: None, signal: Some(name.into()), success: false }
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.code, &self.signal) {
            (Some(code), _) => write!(f, "status {code}"),
            (None, Some(signal)) => write!(f, "killed by {signal}"),
            (None, None) => f.write_str("status unknown"),
        }
    }
}

/// Whether output is being kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Recording {
    /// Everything is written.
    On,
    /// The disk refused; the session goes on and a gap marks what is missing.
    Paused {
        /// Why.
        why: String,
        /// Since when.
        since: Timestamp,
    },
}

impl Default for Recording {
    fn default() -> Recording {
        Recording::On
    }
}

/// An attached client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClientEntry {
    /// Such as `c2`.
    pub id: String,
    /// What it calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// It cannot type.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub read_only: bool,
    /// Of its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Since when.
    pub attached_at: Timestamp,
}

/// Params of `session.wait`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// What to wait for.
    pub matcher: Matcher,
    /// For how long.
    #[serde(default = "WaitParams::default_timeout")]
    pub timeout_ms: u64,
    /// A name to cancel it by from any connection; must be free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_id: Option<String>,
    /// The screen in the result: true (cells), false (none), or a format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotChoice>,
    /// Scope of the whole matcher, the same as its own `since`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Hide secrets.
    #[serde(default = "super::yes")]
    pub redact: bool,
}

impl WaitParams {
    /// When `timeout_ms` is not given.
    pub const DEFAULT_TIMEOUT_MS: u64 = 30_000;
    /// Longest wait: a day; a forgotten one must end.
    pub const MAX_TIMEOUT_MS: u64 = 86_400_000;

    /// Waits half a minute for this.
    pub fn new(session: impl Into<String>, matcher: impl Into<Matcher>) -> WaitParams {
        WaitParams {
            session: session.into(),
            matcher: matcher.into(),
            timeout_ms: WaitParams::DEFAULT_TIMEOUT_MS,
            wait_id: None,
            snapshot: None,
            since: None,
            redact: true,
        }
    }

    /// The form of the screen in the result, if any.
    pub fn snapshot_format(&self) -> Option<SnapshotFormat> {
        match self.snapshot {
            None | Some(SnapshotChoice::Flag(true)) => Some(SnapshotFormat::Cells),
            Some(SnapshotChoice::Flag(false)) => None,
            Some(SnapshotChoice::Format(format)) => Some(format),
        }
    }

    fn default_timeout() -> u64 {
        WaitParams::DEFAULT_TIMEOUT_MS
    }
}

/// Whether to return the screen, or in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SnapshotChoice {
    /// Every cell, or none.
    Flag(bool),
    /// In this form.
    Format(SnapshotFormat),
}

/// Result of `session.wait`. A wait that does not match is a fault, never a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitResult {
    /// Always true.
    pub matched: bool,
    /// The sequence number at which it held.
    pub sequence: u64,
    /// How long it took.
    pub elapsed_ms: u64,
    /// The screen that matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
    /// The end of the output.
    #[serde(default)]
    pub transcript_tail: String,
    /// Which condition held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// How long nothing visible had changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable_for_ms: Option<u64>,
    /// How the process ended, if it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// As given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_id: Option<String>,
}

/// Params of `session.cancel_wait`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelWaitParams {
    /// As given to `session.wait`.
    pub wait_id: String,
}

/// Result of `session.cancel_wait`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelWaitResult {
    /// False if no such wait is in flight.
    pub cancelled: bool,
    /// Whose wait it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// As given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_id: Option<String>,
}

/// Params of `session.resize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResizeParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// Lines.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
    /// 0 = unknown.
    #[serde(default)]
    pub pixel_width: u16,
    /// 0 = unknown.
    #[serde(default)]
    pub pixel_height: u16,
}

/// Result of `session.resize`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResizeResult {
    /// Always true.
    pub resized: bool,
}

/// Params of `session.kill`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KillParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// The first signal; without it HUP then TERM. KILL follows after the grace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalName>,
    /// Time between the first signal and KILL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_ms: Option<u64>,
}

/// Result of `session.kill`, sent when the process has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KillResult {
    /// Always true.
    pub killed: bool,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// It had ended before.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub already_ended: bool,
}

/// Result of `session.close`: ended and forgotten, its recording deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloseResult {
    /// Always true.
    pub closed: bool,
}

/// Params of `session.close`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CloseParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// Refuse (`conflict`) while its process lives.
    #[serde(default)]
    pub if_ended: bool,
}

/// Params of `session.rename`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenameParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// The new name; must be free.
    pub name: String,
}

/// Result of `session.rename`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RenameResult {
    /// Always true.
    pub renamed: bool,
    /// Its id.
    pub session: String,
    /// Its name now.
    pub name: String,
}

/// A signal by name (`term`, `SIGTERM`, `user1`) or number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SignalName {
    /// In any case, with or without `SIG`.
    Name(String),
    /// As the system counts.
    Number(i32),
}

impl SignalName {
    /// The name without `SIG`, in upper case; `user1` and `user2` as the system calls them.
    pub fn canonical(&self) -> Option<String> {
        let SignalName::Name(name) = self else { return None };
        let upper = name.trim().to_ascii_uppercase();
        let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
        Some(match bare {
            "USER1" => "USR1".to_owned(),
            "USER2" => "USR2".to_owned(),
            bare => bare.to_owned(),
        })
    }
}

impl fmt::Display for SignalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SignalName::Name(name) => f.write_str(name),
            SignalName::Number(number) => number.fmt(f),
        }
    }
}

/// Whom a signal goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignalTarget {
    /// The program that was started.
    Leader,
    /// Its process group.
    #[default]
    Group,
    /// The group in the foreground of the terminal.
    Foreground,
}

/// Params of `session.signal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignalParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// Which.
    pub signal: SignalName,
    /// Whom.
    #[serde(default)]
    pub to: SignalTarget,
}

/// Result of `session.signal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignalResult {
    /// Always true.
    pub signalled: bool,
}

/// Params of `session.attach`: the connection carries attach frames after the reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttachParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// Input and resize frames are ignored.
    #[serde(default)]
    pub read_only: bool,
    /// Of the client's window; without it the client has no say in the size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Go on after this sequence number if it is recent enough; else, and without it, a keyframe
    /// comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// What the client calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Detach everybody else.
    #[serde(default)]
    pub exclusive: bool,
}

/// Result of `session.attach`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttachResult {
    /// Its id.
    pub session: String,
    /// The name of this client, such as `c2`.
    pub client: String,
    /// The sequence number now.
    pub seq: u64,
    /// Of the terminal now.
    pub size: Size,
    /// As asked.
    #[serde(default)]
    pub read_only: bool,
}

/// Params of `session.subscribe`: output is pushed as `session.output`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputSubscribeParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// Output from this sequence number on; without it only new output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Form of the output.
    #[serde(default)]
    pub format: TranscriptFormat,
}

/// Result of `session.subscribe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputSubscribeResult {
    /// Names the pushes; end it with `server.unsubscribe`.
    pub subscription: String,
    /// Its id.
    pub session: String,
    /// The pushes begin here.
    pub seq: u64,
}

/// Params of `session.mark`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MarkParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// Put into the recording here.
    pub label: String,
}

/// Result of `session.mark`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MarkResult {
    /// Always true.
    pub marked: bool,
    /// Where it was put.
    pub sequence: u64,
}

/// Params of `session.replay`: the screen at a past moment of the recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// After this much time since the session started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
    /// After this much output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_seq: Option<u64>,
    /// Form of the screen.
    #[serde(default)]
    pub format: SnapshotFormat,
}

/// Result of `session.replay`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayResult {
    /// The screen then.
    pub snapshot: Snapshot,
    /// The moment found, since the session started.
    pub at_ms: u64,
    /// Length of the whole recording.
    pub duration_ms: u64,
}

/// The form of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ExportFormat {
    /// asciicast v3.
    #[default]
    #[serde(rename = "asciicast-v3", alias = "asciicast", alias = "cast")]
    AsciicastV3,
    /// Output without escape sequences.
    #[serde(rename = "text")]
    Text,
}

/// Params of `session.export`: the recording as a file, in pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// Form of the file.
    #[serde(default)]
    pub format: ExportFormat,
    /// Of the page before; without it from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Most bytes of this page, roughly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
}

/// Result of `session.export`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportResult {
    /// A piece of the file: join them.
    pub data: String,
    /// Ask for the next page with this; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Output from the start of the session that is no longer kept.
    #[serde(default)]
    pub dropped: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn argv_and_program_forms() {
        let read = |value| serde_json::from_value::<CreateParams>(value).unwrap();
        assert_eq!(
            read(json!({"program": "ls", "args": ["-l"]})).argv(),
            Some(vec!["ls".into(), "-l".into()])
        );
        assert_eq!(
            read(json!({"command": ["ls", "-l"]})).argv(),
            Some(vec!["ls".into(), "-l".into()])
        );
        assert_eq!(read(json!({})).argv(), None);
        assert_eq!(read(json!({"rows": 5})).size(), Size::new(80, 5));
        assert_eq!(read(json!({"rows": 5, "size": "9x9"})).size(), Size::new(9, 9));
    }

    #[test]
    fn unknown_fields_pass_and_wrong_types_do_not() {
        assert!(
            serde_json::from_value::<CreateParams>(json!({"program": "ls", "colour": 3})).is_ok()
        );
        assert!(serde_json::from_value::<CreateParams>(json!({"program": 3})).is_err());
        assert!(serde_json::from_value::<CreateParams>(json!({"rows": "many"})).is_err());
        assert!(serde_json::from_value::<CreateParams>(json!({"rows": -1})).is_err());
    }

    #[test]
    fn what_cannot_be_ignored_is_named() {
        let read = |value| serde_json::from_value::<CreateParams>(value).unwrap().asks_for();
        assert_eq!(read(json!({"sandbox": true})), Some("sandbox"));
        assert_eq!(read(json!({"sandbox": false, "worktree": null})), None);
        assert_eq!(read(json!({"with": ["x"]})), Some("with"));
    }

    #[test]
    fn lists_in_both_forms() {
        let list: ListResult = serde_json::from_value(json!({"sessions": ["s1"]})).unwrap();
        assert_eq!(list.sessions, [Listed::Id("s1".into())]);
        let info = SessionInfo { id: "s2".into(), ..SessionInfo::default() };
        let list = ListResult { sessions: vec![Listed::Info(Box::new(info))] };
        let again: ListResult =
            serde_json::from_value(serde_json::to_value(&list).unwrap()).unwrap();
        assert_eq!(again, list);
    }

    #[test]
    fn wait_defaults() {
        let wait: WaitParams =
            serde_json::from_value(json!({"session": "s1", "matcher": {"type": "process_exited"}}))
                .unwrap();
        assert_eq!(wait.timeout_ms, 30_000);
        assert_eq!(wait.snapshot_format(), Some(SnapshotFormat::Cells));
        let choice = |value| serde_json::from_value::<SnapshotChoice>(value).unwrap();
        assert_eq!(choice(json!(false)), SnapshotChoice::Flag(false));
        assert_eq!(choice(json!("text")), SnapshotChoice::Format(SnapshotFormat::Text));
    }

    #[test]
    fn signals_by_any_name() {
        let canonical = |name: &str| SignalName::Name(name.into()).canonical().unwrap();
        assert_eq!(canonical("sigterm"), "TERM");
        assert_eq!(canonical("user1"), "USR1");
        assert_eq!(canonical("HUP"), "HUP");
    }
}

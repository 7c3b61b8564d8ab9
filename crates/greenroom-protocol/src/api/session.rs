//! The `session` group: making, listing and describing sessions.
//!
//! The other methods of the group have their own files and are named from here.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::OneOrMany;
use super::ask::SessionAsk;
pub use super::control::*;
pub use super::input::{InputParams, InputResult};
use super::screen::Size;
pub use super::screen::{SnapshotParams, TranscriptParams, TranscriptResult};
pub use super::stream::*;
pub use super::wait::*;
use crate::time::Timestamp;

/// Params of `session.create`. The program is `command`, else `program` with `args`, else the
/// user's shell. The size is `size`, else `rows` and `cols`, else 80x24.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CreateParams {
    /// The program to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// The program's arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Program and arguments in one list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Where to start it; must exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
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
    /// A name to call it by; no other live session may have it. Without it one is made from the
    /// worktree's slug or the program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Free for the caller.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What the session is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Which agent does it, such as `claude`; told to plugins before the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// How hard it shall think; told to plugins before the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// How much of the transcript `session.transcript` answers without `max_bytes`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript_max_chars: Option<u64>,
    /// Copy the raw output into this file; must not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_transcript_path: Option<String>,
    /// Append to it instead.
    #[serde(skip_serializing_if = "super::is_false")]
    pub raw_transcript_append: bool,
    /// What is asked for around it.
    #[serde(flatten)]
    pub ask: SessionAsk,
    /// More session plugins by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<String>,
    /// The run this session is a worker of: workers of a run share a scratchpad.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Start nothing; answer what the session would be and which plugin changed what.
    #[serde(skip_serializing_if = "super::is_false")]
    pub dry_run: bool,
}

/// Values of variables may be secrets: only their names are shown.
impl fmt::Debug for CreateParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateParams")
            .field("command", &self.argv())
            .field("cwd", &self.cwd)
            .field("size", &self.size)
            .field("name", &self.name)
            .field("labels", &self.labels)
            .field("ask", &self.ask)
            .finish_non_exhaustive()
    }
}

impl CreateParams {
    /// Program and arguments, if the caller named any.
    pub fn argv(&self) -> Option<Vec<String>> {
        if let Some(command) = self.command.as_ref().filter(|command| !command.is_empty()) {
            return Some(command.clone());
        }
        let program = self.program.as_ref().filter(|program| !program.is_empty())?;
        Some(std::iter::once(program).chain(&self.args).cloned().collect())
    }

    /// What it says of the session. A member that nobody can give at the start is empty here.
    pub fn about(&self) -> About {
        About {
            task: self.task.clone(),
            backend: self.backend.clone(),
            effort: self.effort.clone(),
            labels: self.labels.clone(),
        }
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
    /// The session's id.
    pub session: String,
    /// The session's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The program's pid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// What its plugins want to be known, such as that a worktree was resumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// With `dry_run`: what the session would be. `session` is empty then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<Box<DryRun>>,
}

/// A session that was not started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DryRun {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it would start.
    pub cwd: String,
    /// Variables that plugins set; those whose value may not be seen have none.
    pub env: BTreeMap<String, Option<String>>,
    /// The terminal's size.
    pub size: Size,
    /// The branch it would work on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What would hold it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// How long it may live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// How long without output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Who changed what, in the order in which the plugins run.
    pub plugins: Vec<PluginEntry>,
    /// What plugins want to be known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One plugin of a session's chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginEntry {
    /// Such as `worktree`.
    pub name: String,
    /// What it did to the session, for people, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// After the session's end: what it left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Left>,
}

/// What a plugin left after the session's end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Left {
    /// There was nothing to clean up.
    Nothing,
    /// It was cleaned up.
    Removed {
        /// What is gone.
        what: String,
    },
    /// It holds work, so it stays.
    Kept {
        /// What and where.
        what: String,
        /// Why it was not removed.
        why: String,
    },
    /// It could not be cleaned up; the host tries again when it starts next.
    Failed {
        /// What is in the way.
        why: String,
    },
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

    /// The session, with `detail`.
    pub fn info(&self) -> Option<&SessionInfo> {
        match self {
            Listed::Id(_) => None,
            Listed::Info(info) => Some(info),
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
    /// If the session has ended, answer once its plugins have cleaned up.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub settled: bool,
}

impl InfoParams {
    /// Just the session.
    pub fn of(session: &str) -> InfoParams {
        InfoParams { session: session.to_owned(), explain: false, settled: false }
    }
}

/// A session as it is now. Also the result of `session.info`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionInfo {
    /// Such as `s3`; never used again for another session.
    pub id: String,
    /// A name to call it by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it was called before a later session took that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_name: Option<String>,
    /// Where it is in its life.
    pub state: SessionState,
    /// The program's pid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Where it was started, or where the program says it is now.
    pub cwd: String,
    /// The branch checked out there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The terminal's size.
    pub size: Size,
    /// When it was made.
    pub created_at: Timestamp,
    /// When the program was started, to the millisecond. The times of a recording count from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// Processes that its program left behind when it ended, and that live on. `session.kill` ends
    /// them.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub processes_left: u64,
    /// The window title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What is said of it: the members of `About` stand beside the others.
    #[serde(flatten)]
    pub about: About,
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
    /// Session plugins in its chain, in order.
    #[serde(default)]
    pub plugins: Vec<PluginEntry>,
    /// The level of its sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// When it will be ended at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_at: Option<Timestamp>,
    /// What its plugins want to be known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What was denied to it, such as hosts it may not reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
    /// Why its output is masked although it would be shown if all were well: what governs it is
    /// damaged or missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withheld: Option<String>,
    /// With `explain`: how each setting came about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<Value>,
}

/// What people and agents say of a session. A member of it is stored with the session, stands in
/// `session.info`, in lists and in `greenroom info`, and is stated here and nowhere else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct About {
    /// What the session is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Which agent does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// How hard it shall think.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Free for the caller.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

impl About {
    /// As it is stored.
    pub fn written(&self) -> String {
        serde_json::to_string(self).expect("texts and maps of texts are JSON")
    }

    /// What was stored. A text that makes no sense costs the session its labels, not the host its
    /// sessions.
    pub fn read(stored: &str) -> About {
        serde_json::from_str(stored).unwrap_or_default()
    }
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
    /// Every state, in the order of a life.
    pub const ALL: [SessionState; 5] = [
        SessionState::Starting,
        SessionState::Running,
        SessionState::Exited,
        SessionState::Failed,
        SessionState::Lost,
    ];

    /// The state of this name, or what is wrong with it.
    pub fn named(word: &str) -> Result<SessionState, String> {
        let words = || SessionState::ALL.map(SessionState::word);
        SessionState::ALL.into_iter().find(|state| state.word() == word).ok_or_else(|| {
            let shown: String = word.chars().take(80).collect();
            let shown = shown.escape_debug();
            match crate::nearest(&word.to_ascii_lowercase(), words()) {
                Some(meant) => format!("there is no state {shown}; did you mean {meant}?"),
                None => format!("there is no state {shown}; states are {}", words().join(", ")),
            }
        })
    }

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

    /// Its process lives, or is about to.
    pub fn is_live(self) -> bool {
        matches!(self, SessionState::Starting | SessionState::Running)
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Recording {
    /// Everything is written.
    #[default]
    On,
    /// The disk refused; the session goes on and a gap marks what is missing.
    Paused {
        /// Why.
        why: String,
        /// Since when.
        since: Timestamp,
    },
}

/// An attached client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClientEntry {
    /// Such as `c2`.
    pub id: String,
    /// What it calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The pid of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// It cannot type.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub read_only: bool,
    /// The size of its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Since when.
    pub attached_at: Timestamp,
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
    fn plugins_are_asked_for_as_people_write_it() {
        let read = |value| serde_json::from_value::<CreateParams>(value);
        let params = read(json!({
            "worktree": "feat-x", "sandbox": true, "scratchpad": true,
            "env": { "API_KEY": "sk-123456" }, "timeout_ms": 3_600_000
        }))
        .unwrap();
        assert_eq!(params.ask.worktree.yes().unwrap().slug, "feat-x");
        assert!(params.ask.sandbox.yes().is_some() && params.ask.scratchpad.yes().is_some());
        assert!(!format!("{params:?}").contains("sk-123456"));
        let off = read(json!({"sandbox": false, "worktree": null, "scratchpad": false})).unwrap();
        assert_eq!(off.ask.asked().count(), 0);
        assert_eq!(read(json!({"worktree": null})).unwrap(), CreateParams::default());
        let error = read(json!({"sandbox": "none"})).unwrap_err().to_string();
        assert!(error.contains("full"), "{error}");
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
}

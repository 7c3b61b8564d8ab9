//! The `run` group: connector files being carried out. [`RunInfo`] is also what `run.json` holds.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::session::ExitStatus;
use super::words;
use crate::time::Timestamp;

/// Params of `run.start`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunStartParams {
    /// The file: its text, so that mistakes are told by line, or the object itself.
    pub connector: Document,
    /// What the file is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where the sessions start; must exist. The home directory if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The caller's whole environment, used in place of the host's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inherit_env: Option<BTreeMap<String, String>>,
    /// Only these phases; what they need is taken as done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Start nothing, answer the plan.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub dry_run: bool,
    /// Go on with this run, or with the `last`, which failed or was stopped: where it was started,
    /// in its scratchpad, without the workers that succeeded. The file has to have the same phases
    /// and workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
    /// Go on in worktrees that an earlier run left. Otherwise a name that is taken gets the run's
    /// id: `feat-x-r2`.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub reuse_worktrees: bool,
}

impl fmt::Debug for RunStartParams {
    /// Both the file and the environment may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunStartParams")
            .field("file", &self.file)
            .field("cwd", &self.cwd)
            .field("only", &self.only)
            .field("dry_run", &self.dry_run)
            .field("resume", &self.resume)
            .field("reuse_worktrees", &self.reuse_worktrees)
            .finish_non_exhaustive()
    }
}

/// A connector file as text or as the object it is.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Document {
    /// As it stands in the file.
    Text(String),
    /// As it was read.
    Object(Map<String, Value>),
}

impl Default for Document {
    fn default() -> Document {
        Document::Object(Map::new())
    }
}

impl Document {
    /// As text.
    pub fn text(&self) -> String {
        match self {
            Document::Text(text) => text.clone(),
            Document::Object(object) => Value::Object(object.clone()).to_string(),
        }
    }
}

/// Result of `run.start`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunStartResult {
    /// Its id; absent from a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The directory its workers share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratchpad: Option<String>,
    /// What the user should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// With `dry_run`: phases, workers and their sessions in order, values of variables hidden.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Value>,
}

/// Params of `run.list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RunListParams {
    /// With phases and workers.
    pub detail: bool,
}

/// Result of `run.list`, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunListResult {
    /// Runs that are kept.
    pub runs: Vec<RunInfo>,
}

/// Params of `run.info`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunParams {
    /// The run's id.
    pub run: String,
}

/// Result of `run.cancel`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunCancelResult {
    /// Nothing of it runs any more.
    pub cancelled: bool,
    /// It had ended before.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub already_ended: bool,
    /// How it stands now.
    pub state: RunState,
}

/// A run as it stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunInfo {
    /// Such as `r3`; never used again.
    pub run: String,
    /// As the file calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The file it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// How it stands.
    pub state: RunState,
    /// Why it did not go well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The directory its workers share.
    pub scratchpad: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How long it took, or has taken until now.
    pub duration_ms: u64,
    /// In order; only with detail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseInfo>,
}

/// A phase as it stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseInfo {
    /// Unique within the run.
    pub name: String,
    /// How it stands.
    pub state: StepState,
    /// Why it was left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// In order.
    pub workers: Vec<WorkerInfo>,
}

/// A worker as it stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerInfo {
    /// Unique within its phase.
    pub worker: String,
    /// How it stands.
    pub state: StepState,
    /// Whom it asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its session; the last one, if it was tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// How its program ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<ExitStatus>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// How long the last try took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The branch of its worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

words! {
    /// How a run stands.
    #[derive(Default)]
    RunState {
        /// Work is being done.
        #[default]
        Running "running",
        /// Everything went well.
        Done "done",
        /// A worker failed.
        Failed "failed",
        /// Somebody stopped it.
        Cancelled "cancelled",
    }
}

words! {
    /// How a phase or a worker stands.
    #[derive(Default)]
    StepState {
        /// Not begun.
        #[default]
        Waiting "waiting",
        /// Its session is being made.
        Starting "starting",
        /// At work.
        Running "running",
        /// Went well.
        Done "done",
        /// Did not.
        Failed "failed",
        /// Left out because something before it failed.
        Skipped "skipped",
        /// Stopped by somebody.
        Cancelled "cancelled",
    }
}

impl StepState {
    /// Nothing more will happen to it.
    pub fn is_over(self) -> bool {
        !matches!(self, StepState::Waiting | StepState::Starting | StepState::Running)
    }
}

//! The file as types. The doc comments are the descriptions of the published schema.
//!
//! What a field may hold besides its type (lengths, ranges) is said in attributes, so that an
//! editor with the schema and the host refuse the same things. Templates, references between parts
//! and everything else that needs a second look are `check`'s.

use std::collections::BTreeMap;

use greenroom_protocol::api::OneOrMany;
use greenroom_protocol::api::ask::{Asked, SessionAsk, WorktreeAsk};
use greenroom_protocol::api::matcher::Matcher;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    COMMAND_MAX, NAME_MAX, PARTICIPANTS_MAX, PHASES_MAX, PROMPT_MAX, RETRIES_MAX, ROUNDS_MAX,
    WORKERS_MAX,
};

/// A team of sessions: who works, on what, in which order, in what surroundings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Connector {
    /// Where this schema is, for editors.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Version of the format.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["2.0", "2"]))]
    pub connector: Option<String>,
    /// What to call the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 200))]
    pub name: Option<String>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How the agents work together; phases one after another unless said otherwise.
    #[serde(rename = "type")]
    pub kind: Shape,
    /// Surroundings of every session; phases and workers may change them.
    pub session: SessionSettings,
    /// Names for programs.
    pub models: BTreeMap<String, ModelEntry>,
    /// Tools the agents may use. Accepted and told to nobody yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Tools>,
    /// What to do, in phases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Pipeline>,
    /// Without a pipeline: the program of the one session. Its shell if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Without a pipeline: what to say to it, or what a dialogue is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = PROMPT_MAX))]
    pub prompt: Option<String>,
    /// Another word for `prompt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = PROMPT_MAX))]
    pub task: Option<String>,
    /// `dialogue` and `meeting`: who speaks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = PARTICIPANTS_MAX))]
    pub participants: Vec<Participant>,
    /// `dialogue` and `meeting`: how often each speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = ROUNDS_MAX))]
    pub rounds: Option<u32>,
}

/// How the agents of a file work together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Phases of workers.
    #[default]
    Pipeline,
    /// Participants speak in turn.
    Dialogue,
    /// The same with more than two; everybody hears everybody.
    Meeting,
}

/// Surroundings of a session. A phase's settings go over the file's, a worker's over the phase's,
/// each field by itself; variables are put together by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SessionSettings {
    /// The same as in `session.create`.
    #[serde(flatten)]
    pub ask: SessionAsk,
    /// Handed to the program as `GREENROOM_PERMISSION`, and to Claude Code as its permission mode.
    /// Nothing else enforces it: that is what `sandbox` is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = NAME_MAX))]
    pub permission: Option<String>,
    /// Go on in the worktree with this name; the same as `worktree` with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub resume: Option<String>,
    /// Where to start it, from where the run was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub cwd: Option<String>,
}

impl SessionSettings {
    /// These settings with `over` on top of them.
    #[must_use]
    pub fn with(&self, over: &SessionSettings) -> SessionSettings {
        // `resume` and `worktree` name the same thing: the later of the two words counts.
        let named = over.ask.worktree != Asked::Unsaid || over.resume.is_some();
        let from = if named { over } else { self };
        SessionSettings {
            ask: SessionAsk { worktree: from.ask.worktree.clone(), ..over.ask.over(&self.ask) },
            resume: from.resume.clone(),
            permission: over.permission.clone().or_else(|| self.permission.clone()),
            cwd: over.cwd.clone().or_else(|| self.cwd.clone()),
        }
    }

    /// The worktree asked for by either word; its slug still with templates.
    pub fn worktree(&self) -> Option<WorktreeAsk> {
        match (&self.ask.worktree, &self.resume) {
            (Asked::No, _) => None,
            (Asked::Yes(ask), None) => Some(ask.clone()),
            (Asked::Yes(ask), Some(_)) if ask.slug != WorktreeAsk::OWN => Some(ask.clone()),
            (Asked::Yes(_) | Asked::Unsaid, resume) => resume.clone().map(WorktreeAsk::of),
        }
    }
}

/// The name of a program, or the program itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ModelEntry {
    /// A known program such as `claude`, `opus`, `codex`, `ollama/llama3`, or another name of this
    /// file.
    Name(String),
    /// A program with all it needs.
    Full(Model),
}

/// A program that takes a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// Program and arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = COMMAND_MAX))]
    pub command: Option<Vec<String>>,
    /// Who knows how to talk to it. Without `command`: the known program of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<String>,
    /// How the prompt reaches it. The default: by the adapter where there is one, else as the last
    /// argument.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_via: Option<PromptVia>,
    /// What to use where this program cannot be started: names, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<OneOrMany<String>>,
}

/// How a prompt reaches a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptVia {
    /// By its adapter; as the last argument where there is none.
    #[default]
    Adapter,
    /// As the last argument.
    Arg,
    /// Typed, with Enter, once its screen rests.
    Stdin,
}

/// Tools the agents may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tools {
    /// Names of MCP servers.
    pub mcp: Vec<String>,
}

/// What to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pipeline {
    /// In order, unless they say what they need.
    #[schemars(length(min = 1, max = PHASES_MAX))]
    pub phases: Vec<Phase>,
    /// Share the run's directory in every phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratchpad: Option<bool>,
}

/// A step of the work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Phase {
    /// Unique within the file; `phase-1` and so on if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = NAME_MAX))]
    pub name: Option<String>,
    /// Workers, unless it is a dialogue.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<PhaseKind>,
    /// Whom to ask: a name of `models`, or a known program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What to say; `{worker}`, `{phase}`, `{run}` and `{scratchpad}` are filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = PROMPT_MAX))]
    pub prompt: Option<String>,
    /// How many, or each by itself; one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<Workers>,
    /// All at once (the default), one after another, or so many at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Parallel>,
    /// Over the file's.
    pub session: SessionSettings,
    /// Share the run's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scratchpad: Option<bool>,
    /// Phases that must be over before this one begins. If absent: the one before. `[]`: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = PHASES_MAX))]
    pub needs: Option<Vec<String>>,
    /// How often a worker that failed is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = RETRIES_MAX))]
    pub retries: Option<u32>,
    /// What a failed worker means for the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
    /// When a worker is done although its program still runs: `exit`, `stable[=MS]`, `text=REGEX`,
    /// `state=NAME`, or a matcher as in `session.wait`. The program is then ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<UntilForm>")]
    pub until: Option<Value>,
    /// In a dialogue: who speaks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = PARTICIPANTS_MAX))]
    pub participants: Vec<Participant>,
    /// In a dialogue: how often each speaks; once if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = ROUNDS_MAX))]
    pub rounds: Option<u32>,
}

/// A condition in the short or in the long form.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used; `until` reads the value")]
enum UntilForm {
    /// As on the command line.
    Short(String),
    /// As in `session.wait`.
    Long(Matcher),
}

/// What kind of phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PhaseKind {
    /// Each by itself.
    #[default]
    Workers,
    /// They speak in turn and hear each other.
    Dialogue,
}

/// How many workers, or who they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Workers {
    /// So many of the same.
    Count(#[schemars(range(min = 1, max = WORKERS_MAX))] u32),
    /// Each by itself.
    Each(#[schemars(length(min = 1, max = WORKERS_MAX))] Vec<Worker>),
}

/// One worker; what it does not say is the phase's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Worker {
    /// Whom to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = PROMPT_MAX))]
    pub prompt: Option<String>,
    /// Only `local`: a run stays on its machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Over the phase's.
    pub session: SessionSettings,
}

/// All at once, one after another, or so many at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Parallel {
    /// All or one.
    Switch(bool),
    /// So many.
    Most(#[schemars(range(min = 1, max = WORKERS_MAX))] u32),
}

/// What a failed worker means for the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// Nothing more is started; what runs may finish.
    #[default]
    Stop,
    /// The run goes on as if nothing had happened, and is a failed one in the end.
    Continue,
    /// Phases that need this one are left out; the others go on.
    SkipDependents,
}

/// Who speaks in a dialogue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Participant {
    /// Its name for the others; the role or model if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = NAME_MAX))]
    pub id: Option<String>,
    /// Whom to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Who it is to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4096))]
    pub role: Option<String>,
    /// Over the phase's.
    pub session: SessionSettings,
}

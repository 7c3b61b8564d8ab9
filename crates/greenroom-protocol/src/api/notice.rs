//! What people are told and asked, and what agents say of themselves: `alert.*`, `approval.*`,
//! `hook.*`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::words;
use crate::time::Timestamp;

words! {
    /// How urgent an alert is.
    #[derive(Default)]
    Severity {
        /// Good to know.
        #[default]
        Info "info",
        /// Somebody should look.
        Warn "warn",
        /// Something failed.
        Error "error",
    }
}

impl Severity {
    /// By its word.
    pub fn named(word: &str) -> Option<Severity> {
        Severity::ALL.iter().copied().find(|severity| severity.word() == word)
    }
}

/// Params of `alert.raise`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AlertParams {
    /// What to say.
    pub text: String,
    /// How urgent.
    #[serde(default)]
    pub severity: Severity,
    /// Which session it is about: id, name or unambiguous prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// A word by which plugins tell alerts apart; `user` if none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

/// Result of `alert.raise`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AlertResult {
    /// False if a plugin dropped it.
    pub raised: bool,
    /// The plugin that did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_by: Option<String>,
}

/// Params of `hook.emit`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EmitParams {
    /// The session the agent runs in.
    pub session: String,
    /// Which agent, such as `claude` or `codex`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The name of its event; taken from `data` if that names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// What the agent's own hook was given.
    pub data: serde_json::Map<String, Value>,
}

/// Result of `hook.emit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EmitResult {
    /// Always true.
    pub emitted: bool,
}

words! {
    /// Where an approval stands.
    ApprovalState {
        /// A person has to decide.
        Open "open",
        /// Yes.
        Allowed "allowed",
        /// No.
        Denied "denied",
        /// Nobody decided in time, which is a no.
        Expired "expired",
        /// The program that asked went away.
        Withdrawn "withdrawn",
    }
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// Its name, such as `a1`.
    pub approval: String,
    /// The session it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Who asks about what.
    pub title: String,
    /// Why.
    pub text: String,
    /// The hook it comes from.
    pub source: String,
    /// When.
    pub asked: Timestamp,
    /// Where it stands.
    pub state: ApprovalState,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Result of `approval.list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalsResult {
    /// Open ones first, then the last decided ones.
    pub approvals: Vec<Approval>,
}

/// Params of `approval.resolve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolveParams {
    /// The approval's name.
    pub approval: String,
    /// Yes or no.
    pub allow: bool,
    /// Why; told to whoever asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Result of `approval.resolve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolveResult {
    /// Always true.
    pub resolved: bool,
}

//! `session.wait`: what to wait for, for how long, and what came of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::matcher::{Matcher, Outcome};
use super::screen::{Snapshot, SnapshotFormat};
use super::session::ExitStatus;

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
    /// The screen that matched; absent also if filters did not answer for it in time.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
}

//! What changes or ends a session: resize, rename, signal, kill, close.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::session::ExitStatus;

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
    /// Its program had ended before; these it had left, and they have been ended now.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub processes_ended: u64,
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
    /// The session's id.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_by_any_name() {
        let canonical = |name: &str| SignalName::Name(name.into()).canonical().unwrap();
        assert_eq!(canonical("sigterm"), "TERM");
        assert_eq!(canonical("user1"), "USR1");
        assert_eq!(canonical("HUP"), "HUP");
    }
}

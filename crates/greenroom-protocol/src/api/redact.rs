//! `redact.test`: what the rules that mask secrets find in a text.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Params of `redact.test`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RedactTestParams {
    /// What to look at, escape sequences and all. It is not kept.
    pub text: String,
    /// Values to look for as those of a session's variables; at least 6 bytes each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// Answer with the masked text, too.
    #[serde(default)]
    pub show: bool,
}

impl RedactTestParams {
    /// Longest text.
    pub const TEXT_MAX: usize = 8 * 1024 * 1024;
}

/// Result of `redact.test`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RedactTestResult {
    /// In the order of the text.
    pub findings: Vec<Finding>,
    /// The text as a reader would see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Names of the rules that are on.
    pub rules: Vec<String>,
}

/// Something that would be masked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Name of the rule; `value` for a value of the session.
    pub rule: String,
    /// From 1.
    pub line: u64,
    /// From 1, in characters.
    pub column: u64,
    /// Characters masked.
    pub length: u64,
    /// The line around it, masked.
    pub preview: String,
}

//! The table of wire errors: one row per kind, with its JSON-RPC code, the
//! CLI's exit code and the HTTP status.
//!
//! In: what went wrong in some room. Out: a [`Fault`] every client can act on without reading
//! English: `data.kind` is a stable word, `data.hint` is for people.
//! Absent on purpose: conversions from the rooms' own errors (the daemon has one file for that).

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Exit codes of the command line, the same for every verb.
pub mod exit {
    /// Done.
    pub const OK: u8 = 0;
    /// Tried and failed.
    pub const FAILED: u8 = 1;
    /// The command line or a parameter is wrong.
    pub const USAGE: u8 = 2;
    /// A wait ran out of time.
    pub const TIMEOUT: u8 = 3;
    /// The session waits for a person.
    pub const NEEDS_INPUT: u8 = 4;
    /// Not allowed.
    pub const DENIED: u8 = 5;
    /// No such thing, or it has ended already.
    pub const NOT_FOUND: u8 = 6;
    /// The host cannot be reached or cannot do it now.
    pub const UNAVAILABLE: u8 = 7;
    /// Our bug.
    pub const BUG: u8 = 70;
}

/// One row of the table of errors.
#[derive(Debug)]
pub struct FaultRow {
    /// The kind this row describes.
    pub kind: FaultKind,
    /// The stable word in `data.kind`.
    pub word: &'static str,
    /// JSON-RPC error code.
    pub code: i64,
    /// Exit code of the command line.
    pub exit: u8,
    /// Status of an HTTP answer.
    pub status: u16,
    /// When it is used.
    pub summary: &'static str,
}

macro_rules! faults {
    ($($kind:ident $word:literal $code:literal $exit:ident $status:literal $summary:literal;)*) => {
        /// What went wrong, as a closed list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FaultKind {
            $(#[doc = $summary] $kind,)*
        }

        /// Every kind, in the order of [`FaultKind`].
        pub const FAULTS: &[FaultRow] = &[
            $(FaultRow { kind: FaultKind::$kind, word: $word, code: $code, exit: exit::$exit, status: $status, summary: $summary },)*
        ];
    };
}

faults! {
    Parse "parse" -32700 BUG 400 "the frame is not JSON";
    InvalidRequest "invalid_request" -32600 BUG 400 "the frame is JSON but not a request";
    UnknownMethod "unknown_method" -32601 UNAVAILABLE 404 "the host has no such method";
    InvalidParams "invalid_params" -32602 USAGE 400 "a parameter is missing or has the wrong type or range";
    UnknownSession "unknown_session" -32602 NOT_FOUND 404 "no session has this id or name";
    Ambiguous "ambiguous" -32602 USAGE 400 "the prefix names more than one session";
    BadPattern "bad_pattern" -32602 USAGE 400 "a regular expression does not compile";
    Internal "internal" -32603 BUG 500 "a defect of the host";
    Timeout "timeout" -32001 TIMEOUT 504 "the wait ran out of time; the evidence is in data";
    SessionClosed "session_closed" -32002 NOT_FOUND 410 "the session has ended";
    PermissionDenied "permission_denied" -32004 DENIED 403 "the caller may not do this";
    Cancelled "cancelled" -32005 FAILED 409 "the caller or another client cancelled it";
    NotFound "not_found" -32020 NOT_FOUND 404 "no such thing";
    Unavailable "unavailable" -32021 UNAVAILABLE 503 "the host cannot be reached, is starting or is stopping";
    TooLarge "too_large" -32022 FAILED 413 "a frame, a request or an answer is over its limit";
    Conflict "conflict" -32023 FAILED 409 "it does not fit the present state, such as a name in use";
    SpawnFailed "spawn_failed" -32024 FAILED 422 "the program could not be started";
    Disk "disk" -32025 FAILED 507 "the disk refused: full, read-only or broken";
    Busy "busy" -32026 UNAVAILABLE 503 "a limit on things at once is reached; try again later";
    Unsupported "unsupported" -32027 FAILED 501 "this host or platform cannot do it";
    Refused "refused" -32029 FAILED 422 "a session plugin could not prepare the session; nothing was started or left behind";
    NeedsInput "needs_input" -32028 NEEDS_INPUT 409 "the session waits for a person";
    PluginsDisabled "plugins_disabled" -32030 UNAVAILABLE 503 "plugins are off: plugins.enabled is not true";
    NeedsConsent "needs_consent" -32031 TIMEOUT 409 "nobody has agreed to this plugin, or its bytes have changed since";
}

impl FaultKind {
    /// The row of this kind.
    pub fn row(self) -> &'static FaultRow {
        &FAULTS[self as usize]
    }

    /// The stable word in `data.kind`.
    pub fn word(self) -> &'static str {
        self.row().word
    }

    /// JSON-RPC error code.
    pub fn code(self) -> i64 {
        self.row().code
    }

    /// Exit code of the command line.
    pub fn exit(self) -> u8 {
        self.row().exit
    }

    /// Status of an HTTP answer.
    pub fn status(self) -> u16 {
        self.row().status
    }

    /// The kind with this word.
    pub fn from_word(word: &str) -> Option<FaultKind> {
        FAULTS.iter().find(|row| row.word == word).map(|row| row.kind)
    }

    /// The first kind with this code: what to assume of a host that sends no `data.kind`.
    pub fn from_code(code: i64) -> Option<FaultKind> {
        FAULTS.iter().find(|row| row.code == code).map(|row| row.kind)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The `error` member of a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// JSON-RPC error code.
    pub code: i64,
    /// One sentence: what was attempted, on what, and why not.
    pub message: String,
    /// The machine's part.
    #[serde(default)]
    pub data: FaultData,
}

/// The `error.data` member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultData {
    /// A stable word, see `FAULTS`. Empty only from a foreign host.
    #[serde(default)]
    pub kind: String,
    /// What to do about it: a command or a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// More, by kind: `method`, `required_permission`, `last_text`, `nearest`, …
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What a wait saw last, attached to its timeout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The text of the screen when time ran out.
    pub last_text: String,
    /// What came nearest to a match, if anything did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<String>,
    /// The sequence number of that screen.
    #[serde(default)]
    pub sequence: u64,
    /// How long the wait lasted.
    #[serde(default)]
    pub elapsed_ms: u64,
    /// Bytes of output that filters had not answered for, and which therefore were not looked at.
    #[serde(default)]
    pub behind: u64,
}

impl Fault {
    /// A fault of this kind, with its sentence.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        let data = FaultData { kind: kind.word().to_owned(), ..FaultData::default() };
        Fault { code: kind.code(), message: message.into(), data }
    }

    /// The fault of a parameter that decodes and still makes no sense.
    pub fn invalid_params(why: impl std::fmt::Display) -> Fault {
        Fault::new(FaultKind::InvalidParams, format!("invalid params: {why}"))
    }

    /// Adds the one hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Fault {
        self.data.hint = Some(hint.into());
        self
    }

    /// Adds a member to `data`. `kind` and `hint` have their own place and are ignored here.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Fault {
        if key != "kind" && key != "hint" {
            self.data.more.insert(key.to_owned(), value.into());
        }
        self
    }

    /// A timeout with what was seen last.
    pub fn timeout(message: impl Into<String>, evidence: &Evidence) -> Fault {
        let mut fault = Fault::new(FaultKind::Timeout, message);
        if let Ok(Value::Object(members)) = serde_json::to_value(evidence) {
            fault.data.more = members;
        }
        fault
    }

    /// The evidence of a timeout.
    pub fn evidence(&self) -> Option<Evidence> {
        serde_json::from_value(Value::Object(self.data.more.clone())).ok()
    }

    /// Time was up before filters had answered for all there is: what was waited for may be in the
    /// rest.
    pub fn is_behind(&self) -> bool {
        self.kind() == FaultKind::Timeout && self.evidence().is_some_and(|seen| seen.behind > 0)
    }

    /// `session` as the caller wrote it names no session.
    pub fn unknown_session(session: &str) -> Fault {
        Fault::new(FaultKind::UnknownSession, format!("unknown session: {session}"))
            .with("session", session)
            .hint("list sessions with greenroom ls")
    }

    /// The kind by its word, else by its code, else internal.
    pub fn kind(&self) -> FaultKind {
        FaultKind::from_word(&self.data.kind)
            .or_else(|| FaultKind::from_code(self.code))
            .unwrap_or(FaultKind::Internal)
    }

    /// Exit code of the command line.
    pub fn exit(&self) -> u8 {
        self.kind().exit()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_table_is_in_order_and_unique() {
        let mut words = HashSet::new();
        for (at, row) in FAULTS.iter().enumerate() {
            assert_eq!(row.kind as usize, at);
            assert!(words.insert(row.word), "{} twice", row.word);
            assert_eq!(FaultKind::from_word(row.word), Some(row.kind));
            assert!(!row.summary.is_empty());
            assert!(row.word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
        }
    }

    #[test]
    fn every_kind_has_an_exit_code_of_the_contract() {
        for row in FAULTS {
            assert!(matches!(row.exit, 1..=7 | 70), "{}: {}", row.word, row.exit);
            assert!(matches!(row.status, 400..=599), "{}: {}", row.word, row.status);
        }
    }

    #[test]
    fn codes_of_the_contract() {
        let code = |word| FaultKind::from_word(word).map(FaultKind::code);
        assert_eq!(code("timeout"), Some(-32001));
        assert_eq!(code("session_closed"), Some(-32002));
        assert_eq!(code("permission_denied"), Some(-32004));
        assert_eq!(code("cancelled"), Some(-32005));
        assert_eq!(code("unknown_session"), Some(-32602));
        for row in FAULTS {
            let known = [-32700, -32600, -32601, -32602, -32603, -32001, -32002, -32004, -32005];
            assert!(
                known.contains(&row.code) || (-32099..=-32020).contains(&row.code),
                "{}",
                row.word
            );
        }
    }

    #[test]
    fn evidence_survives_the_wire() {
        let evidence = Evidence {
            last_text: "$ ".into(),
            nearest: Some("row 3".into()),
            sequence: 7,
            elapsed_ms: 30,
            behind: 9,
        };
        let text = serde_json::to_string(&Fault::timeout("no match in 30 ms", &evidence)).unwrap();
        let fault: Fault = serde_json::from_str(&text).unwrap();
        assert_eq!(fault.kind(), FaultKind::Timeout);
        assert!(fault.is_behind());
        assert_eq!(fault.evidence(), Some(evidence));
    }

    #[test]
    fn a_foreign_error_without_data_is_understood() {
        let fault: Fault = serde_json::from_str(r#"{"code":-32002,"message":"closed"}"#).unwrap();
        assert_eq!(fault.kind(), FaultKind::SessionClosed);
        assert_eq!(fault.exit(), exit::NOT_FOUND);
    }
}

//! What a verb can fail with, and how the user hears of it.
//!
//! In: wire faults, client errors, input/output errors, each with what was attempted. Out: one
//! sentence and at most one `hint:` on stderr (one JSON object with `--json`), and the exit code.
//! Absent on purpose: a table of kinds of its own; the protocol's table of faults is the only one.

use std::fmt;
use std::io;

use greenroom_protocol::fault::exit;
use greenroom_protocol::{Fault, FaultKind};
use serde_json::{Map, Value, json};

/// How a verb ended: with an exit code that is not a failure to report (0 mostly), or with a
/// failure.
pub type ExitResult = Result<u8, Failure>;

/// Why a verb did not do what it was asked.
#[derive(Clone, Debug)]
pub struct Failure {
    /// A stable word, see the protocol's table of faults.
    pub kind: String,
    /// One sentence: what was attempted, on what, and why not.
    pub message: String,
    /// A command or a file that helps.
    pub hint: Option<String>,
    /// Exit code of the process.
    pub exit: u8,
    /// More for machines, such as the evidence of a timeout.
    pub data: Map<String, Value>,
    /// The reader of our output went away: nothing to say, nobody to hear it.
    pub quiet: bool,
}

impl Failure {
    /// A failure of a kind of the protocol's table.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Failure {
        Failure {
            kind: kind.word().to_owned(),
            message: message.into(),
            hint: None,
            exit: kind.exit(),
            data: Map::new(),
            quiet: false,
        }
    }

    /// Tried and failed, for a reason outside of the table.
    pub fn failed(message: impl Into<String>) -> Failure {
        let kind = "failed".to_owned();
        Failure { kind, exit: exit::FAILED, ..Failure::new(FaultKind::Internal, message) }
    }

    /// The command line is wrong in a way the parser cannot see.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { kind: "usage".to_owned(), ..Failure::new(FaultKind::InvalidParams, message) }
    }

    /// The host cannot be reached.
    pub fn unavailable(message: impl Into<String>) -> Failure {
        Failure::new(FaultKind::Unavailable, message)
    }

    /// `attempt` met an error of the system, such as `cannot read x.cast`.
    pub fn io(attempt: impl fmt::Display, error: &io::Error) -> Failure {
        let quiet = error.kind() == io::ErrorKind::BrokenPipe;
        Failure { quiet, ..Failure::failed(format!("{attempt}: {}", plain(error))) }
    }

    /// So many bytes of output are missing from the answer, because filters are slower than the
    /// program.
    pub fn behind(message: impl Into<String>, bytes: u64) -> Failure {
        let mut failure = Failure::new(FaultKind::Timeout, message);
        failure.data.insert("behind".to_owned(), bytes.into());
        failure
    }

    /// Adds the one hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// The host refused `attempt` ("send to s3"); its own sentence is kept where it is a whole one.
    pub fn refused(attempt: &str, fault: Fault) -> Failure {
        let kind = fault.kind();
        let reason = match kind {
            FaultKind::UnknownSession => "no session has this id or name".to_owned(),
            _ => without_errno(&fault.message),
        };
        let message = if reason.starts_with("cannot ") {
            reason
        } else {
            format!("cannot {attempt}: {reason}")
        };
        Failure { hint: fault.data.hint, data: fault.data.more, ..Failure::new(kind, message) }
    }

    /// Is it of this kind?
    pub fn is(&self, kind: FaultKind) -> bool {
        self.kind == kind.word()
    }

    /// What `--json` puts on stderr.
    pub fn to_json(&self) -> Value {
        let mut error = json!({ "kind": self.kind, "message": self.message, "hint": self.hint, "code": self.exit });
        if let (Some(members), false) = (error.as_object_mut(), self.data.is_empty()) {
            members.insert("data".to_owned(), Value::Object(self.data.clone()));
        }
        json!({ "error": error })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

/// Rust's " (os error 2)" is noise to a user, wherever it stands.
pub fn without_errno(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(" (os error ") {
        kept.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    kept + rest
}

/// An error of the system without Rust's " (os error 2)", in lower case as our sentences are.
pub fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(first), Some(second)) if first.is_uppercase() && second.is_lowercase() => {
            first.to_lowercase().chain(text[first.len_utf8()..].chars()).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_keeps_its_exit_code_and_hint() {
        let failure = Failure::refused("send to s9", Fault::unknown_session("s9"));
        assert_eq!(failure.exit, exit::NOT_FOUND);
        assert_eq!(
            failure.to_string(),
            "cannot send to s9: no session has this id or name\nhint: list sessions with greenroom ls"
        );
    }

    #[test]
    fn a_whole_sentence_is_not_wrapped_again() {
        let fault = Fault::new(FaultKind::SpawnFailed, "cannot start `x`: exec: no such file");
        assert_eq!(
            Failure::refused("start a session", fault).message,
            "cannot start `x`: exec: no such file"
        );
    }

    #[test]
    fn system_errors_read_like_a_sentence() {
        let error = io::Error::from_raw_os_error(2);
        assert_eq!(plain(&error), "no such file or directory");
        assert!(Failure::io("cannot write", &io::Error::from(io::ErrorKind::BrokenPipe)).quiet);
    }

    #[test]
    fn error_numbers_are_left_out() {
        let fault = Fault::new(FaultKind::Disk, "cannot x: No space (os error 28), so y");
        assert_eq!(Failure::refused("x", fault).message, "cannot x: No space, so y");
    }

    #[test]
    fn json_has_the_four_members() {
        let value = Failure::unavailable("x").hint("y").to_json();
        assert_eq!(
            value,
            json!({"error": {"kind": "unavailable", "message": "x", "hint": "y", "code": 7}})
        );
    }
}

//! What the agent in a session is doing, as one word.
//!
//! In: evidence. Out: an [`AgentState`]. So far the process is the only source of evidence, so a
//! program that lives is `Running`; what an agent tells of itself, its hooks and its screen will be
//! weighed here too, and their words (`working`, `needs_input`, …) are then rows of this enum.
//! Pure: no clock, no I/O. Deliberately absent: the names on the wire, which the daemon's
//! conversions know.

use crate::process::ExitStatus;
use crate::store::RecordState;

/// The word that people see, wait for and are told when it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    Starting,
    Running,
    Exited,
    Failed,
    /// It ended while nobody could see how.
    Lost,
}

impl From<&RecordState> for AgentState {
    fn from(record: &RecordState) -> AgentState {
        match record {
            RecordState::Starting => AgentState::Starting,
            RecordState::Running { .. } => AgentState::Running,
            RecordState::Ended { status: ExitStatus::Unknown, .. } => AgentState::Lost,
            RecordState::Ended { .. } => AgentState::Exited,
            RecordState::Failed { .. } => AgentState::Failed,
        }
    }
}

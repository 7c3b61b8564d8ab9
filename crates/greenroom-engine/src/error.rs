//! Everything that can go wrong with a session, as one sentence each.

use std::time::SystemTime;

use crate::id::SessionId;
use crate::journal::JournalError;
use crate::process::{ExitStatus, ProcessError};
use crate::session::InputError;
use crate::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("there is no session `{name}`")]
    NotFound { name: String, nearest: Option<String> },
    #[error("`{name}` could be any of {}", candidates.join(", "))]
    Ambiguous { name: String, candidates: Vec<String> },
    #[error("the name `{name}` is taken by session {by}")]
    NameTaken { name: String, by: SessionId },
    #[error("the name `{name}` is being taken by a session that starts just now")]
    NameClaimed { name: String },
    #[error("`{name}` is not a session name: {why}")]
    BadName { name: String, why: &'static str },
    #[error("cannot start a session: {0}")]
    BadSpec(String),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error("cannot write down what session {id} must not show: {source}")]
    KeepHidden { id: SessionId, source: std::io::Error },
    #[error("cannot keep what filters answer about session {id}: {source}")]
    KeepAnswers { id: SessionId, source: std::io::Error },
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot {verb} session {id}: it exited {} ago ({status})", ago(*at))]
    Ended { verb: &'static str, id: SessionId, status: ExitStatus, at: SystemTime },
    #[error("cannot write to session {id}: {source}")]
    Input { id: SessionId, source: InputError },
    #[error("cannot write to session {id}: the program does not read its input")]
    NotReading { id: SessionId },
    #[error("session {id} is gone")]
    Gone { id: SessionId },
    #[error("cannot remove session {id}: it is still running")]
    StillRunning { id: SessionId },
    #[error("cannot remove session {id}: its program ended and left {}", processes(*left))]
    LeftBehind { id: SessionId, left: usize },
    #[error("session {id} did not end: still there after KILL: {}", some_of(left))]
    WillNotDie { id: SessionId, left: Vec<String> },
    #[error("removing the files of session {id}: {source}")]
    RemoveFiles { id: SessionId, source: std::io::Error },
    #[error("the host holds {0} sessions and takes no more")]
    TooMany(usize),
    #[error("our bug: {0}")]
    Panicked(String),
}

fn ago(at: SystemTime) -> String {
    let seconds = at.elapsed().unwrap_or_default().as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

fn processes(count: usize) -> String {
    match count {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    }
}

/// A sentence must not grow with a fork bomb.
const NAMED_MAX: usize = 5;

fn some_of(names: &[String]) -> String {
    let mut text = names[..names.len().min(NAMED_MAX)].join(", ");
    if names.len() > NAMED_MAX {
        text.push_str(&format!(" and {} more", names.len() - NAMED_MAX));
    }
    text
}

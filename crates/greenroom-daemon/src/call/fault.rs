//! Every error that can leave through the API, as its wire fault, in one place.

use std::io;

use greenroom_engine::egress::{Egress, Raw};
use greenroom_engine::process::{ExitStatus, ProcessError};
use greenroom_engine::wait::WaitError;
use greenroom_engine::{EngineError, SessionId};
use greenroom_protocol::fault::Evidence;
use greenroom_protocol::{Fault, FaultKind};

use crate::convert;
use crate::keeper::KeeperError;

pub(crate) fn engine(error: EngineError) -> Fault {
    let message = error.to_string();
    match error {
        EngineError::NotFound { name, nearest } => {
            let fault = Fault::unknown_session(&name);
            match nearest {
                Some(nearest) => {
                    fault.hint(format!("did you mean {nearest}? greenroom ls lists them"))
                }
                None => fault,
            }
        }
        EngineError::Ambiguous { candidates, .. } => {
            Fault::new(FaultKind::Ambiguous, message).with("candidates", candidates)
        }
        EngineError::NameTaken { name, by } => {
            Fault::new(FaultKind::Conflict, message).hint(format!(
                "attach to it with greenroom new -A {name}, or end it with greenroom kill {by}"
            ))
        }
        EngineError::NameClaimed { .. } => {
            Fault::new(FaultKind::Conflict, message).hint("choose another name, or try again")
        }
        EngineError::BadName { .. } | EngineError::BadSpec(_) => {
            Fault::new(FaultKind::InvalidParams, message)
        }
        EngineError::Process(error) => process(&error),
        EngineError::Journal(error) => disk(&error),
        EngineError::Store(error) => disk(&error),
        EngineError::Ended { id, status, .. } => ended(message, id, status),
        EngineError::Gone { .. } => Fault::new(FaultKind::SessionClosed, message),
        EngineError::Input { .. } | EngineError::NotReading { .. } => {
            Fault::new(FaultKind::Busy, message)
        }
        EngineError::StillRunning { id } => Fault::new(FaultKind::Conflict, message)
            .hint(format!("end it first with greenroom kill {id}")),
        EngineError::LeftBehind { id, .. } => Fault::new(FaultKind::Conflict, message)
            .hint(format!("end them with greenroom kill {id}")),
        EngineError::WillNotDie { .. } => Fault::new(FaultKind::Unavailable, message),
        EngineError::RemoveFiles { .. }
        | EngineError::KeepHidden { .. }
        | EngineError::KeepAnswers { .. } => Fault::new(FaultKind::Disk, message),
        EngineError::TooMany(_) => Fault::new(FaultKind::Busy, message)
            .hint("end some with greenroom kill, or raise sessions.max in config.toml"),
        EngineError::Panicked(_) => Fault::new(FaultKind::Internal, message),
    }
}

fn process(error: &ProcessError) -> Fault {
    let message = error.to_string();
    match error {
        ProcessError::Spawn { step, source, program } => {
            let fault = Fault::new(FaultKind::SpawnFailed, message).with("step", *step);
            // In a sandbox the fence's own steps may miss something, too: only its last one is the
            // program's.
            let program_is_missing = source.kind() == io::ErrorKind::NotFound
                && (*step == "exec" || source.to_string().starts_with("exec: "));
            if !program_is_missing {
                return fault;
            }
            fault.hint(format!("is {program} installed and in the PATH of the session?"))
        }
        ProcessError::Signal { .. } => Fault::new(FaultKind::Conflict, message),
        ProcessError::Keeper(_) => Fault::new(FaultKind::Unavailable, message),
    }
}

fn ended(message: String, id: SessionId, status: ExitStatus) -> Fault {
    Fault::new(FaultKind::SessionClosed, message)
        .with("exit", serde_json::to_value(convert::exit(status)).unwrap_or_default())
        .hint(format!("read its last screen with greenroom read {id}"))
}

/// The state could not be read or written: a journal, a record, the event log.
pub(crate) fn disk(error: &impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::Disk, error.to_string())
        .hint("greenroom doctor shows where the state is; running sessions go on")
}

pub(crate) fn keeper(error: &KeeperError) -> Fault {
    let kind = match error {
        KeeperError::Replace(_) => FaultKind::Conflict,
        _ => FaultKind::Unavailable,
    };
    Fault::new(kind, error.to_string())
}

/// A wait that did not match.
pub(crate) fn wait(error: WaitError, elapsed_ms: u64) -> Fault {
    let message = error.to_string();
    match error {
        WaitError::Timeout(seen) => {
            let evidence = Evidence {
                last_text: seen.last_text.into_inner(),
                nearest: seen.nearest.map(|line| line.into_inner()),
                sequence: seen.seq.0,
                elapsed_ms,
                behind: seen.behind,
            };
            Fault::timeout(message, &evidence)
        }
        WaitError::Ended { id, status } => ended(message, id, status),
        WaitError::Engine(error) => engine(error),
        WaitError::Matcher(error) => convert::matcher::refused(&error),
    }
}

/// A reader did not get what it asked for in time, because filters of plugins are slower than the
/// program.
pub(crate) fn behind(what: &str, within: std::time::Duration, behind: u64) -> Fault {
    let within = within.as_millis();
    let message = match behind {
        0 => format!("filters did not answer for {what} within {within} ms"),
        _ => {
            format!("filters did not answer for {what} within {within} ms: {behind} bytes to go")
        }
    };
    Fault::new(FaultKind::Timeout, message)
        .with("behind", behind)
        .hint("try again, or see how slow they are with greenroom plugin stats")
}

/// An error as it may leave: what it repeats of a request or a system may be a secret.
pub(crate) fn masked(mut fault: Fault) -> Fault {
    let egress = Egress::built_in();
    let masked = |text: String| egress.text(Raw::new(text)).into_inner();
    fault.data.hint = fault.data.hint.map(&masked);
    Fault { message: masked(std::mem::take(&mut fault.message)), ..fault }
}

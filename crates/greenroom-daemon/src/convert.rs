//! Between the engine's types and the wire's: one place, both ways.
//!
//! Text of sessions comes in as `Filtered` only; this room cannot reach any other.

pub(crate) mod matcher;
pub(crate) mod screen;
pub(crate) mod signal;

use std::time::Duration;

use greenroom_engine::AgentState;
use greenroom_engine::id::ClientId;
use greenroom_engine::journal::RecordingState;
use greenroom_engine::process::ExitStatus;
use greenroom_engine::session::{SessionInfo, SessionState};
use greenroom_engine::term::Size;
use greenroom_protocol::api::screen as wire_screen;
use greenroom_protocol::api::session as wire;
use greenroom_protocol::{Fault, FaultKind, Timestamp};

/// Refuses a text that is empty or longer than `max` bytes.
pub(crate) fn short(what: &str, text: &str, max: usize) -> Result<(), Fault> {
    if text.is_empty() || text.len() > max {
        return Err(Fault::invalid_params(format!("{what} has 1 to {max} bytes")));
    }
    Ok(())
}

/// The wire's name of an attached client.
pub(crate) fn client(client: ClientId) -> String {
    format!("c{}", client.0)
}

/// The wire counts time in whole milliseconds.
pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn size(size: Size) -> wire_screen::Size {
    wire_screen::Size::new(size.cols(), size.rows())
}

/// A caller's size, if a terminal can have it.
pub(crate) fn size_in(size: wire_screen::Size) -> Result<Size, Fault> {
    Size::new(size.cols, size.rows).ok_or_else(|| {
        let max = greenroom_engine::term::MAX_SIDE;
        Fault::new(
            FaultKind::InvalidParams,
            format!("invalid params: size {size} is not within 1x1 and {max}x{max}"),
        )
    })
}

pub(crate) fn exit(status: ExitStatus) -> wire::ExitStatus {
    match status {
        ExitStatus::Code(code) => wire::ExitStatus::code(code),
        ExitStatus::Signal(number) => wire::ExitStatus::signal(signal::full_name(number)),
        ExitStatus::Unknown => wire::ExitStatus::default(),
    }
}

pub(crate) fn state(state: impl Into<AgentState>) -> wire::SessionState {
    match state.into() {
        AgentState::Starting => wire::SessionState::Starting,
        AgentState::Running => wire::SessionState::Running,
        AgentState::Exited => wire::SessionState::Exited,
        AgentState::Failed => wire::SessionState::Failed,
        AgentState::Lost => wire::SessionState::Lost,
    }
}

pub(crate) fn state_in(state: wire::SessionState) -> AgentState {
    match state {
        wire::SessionState::Starting => AgentState::Starting,
        wire::SessionState::Running => AgentState::Running,
        wire::SessionState::Exited => AgentState::Exited,
        wire::SessionState::Failed => AgentState::Failed,
        wire::SessionState::Lost => AgentState::Lost,
    }
}

/// A session as the wire describes it, with those attached to it.
pub(crate) fn info(info: SessionInfo, clients: Vec<wire::ClientEntry>) -> wire::SessionInfo {
    let SessionInfo { record, .. } = info;
    let ended = match &info.state {
        SessionState::Exited { at, status } => Some((*at, *status)),
        _ => None,
    };
    let words = |words: &[std::ffi::OsString]| {
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    };
    wire::SessionInfo {
        id: record.id.to_string(),
        name: Some(record.name).filter(|name| *name != record.id.to_string()),
        former_name: record.former,
        state: state(&record.state),
        pid: info.pid,
        command: words(&record.argv),
        cwd: record.cwd.to_string_lossy().into_owned(),
        branch: None,
        size: size(record.size),
        created_at: Timestamp::from_system(record.created),
        started_at: Some(Timestamp::from_system(record.created)),
        ended_at: ended.map(|(at, _)| Timestamp::from_system(at)),
        exit: ended.map(|(_, status)| exit(status)),
        processes_left: 0,
        title: info.title.map(|title| title.into_inner()),
        about: wire::About::read(&record.about),
        seq: info.seq.0,
        first_seq: info.first_seq.0,
        last_output_at: info.last_output.map(Timestamp::from_system),
        recording: recording(&info.recording),
        clients,
        size_owner: info.size_owner.map(client),
        plugins: Vec::new(),
        sandbox: None,
        deadline_at: None,
        notes: Vec::new(),
        denied: Vec::new(),
        withheld: info.withheld,
        explain: None,
    }
}

fn recording(state: &RecordingState) -> wire::Recording {
    match state {
        RecordingState::Recording => wire::Recording::On,
        RecordingState::Paused { why, since } => {
            wire::Recording::Paused { why: why.to_string(), since: Timestamp::from_system(*since) }
        }
    }
}

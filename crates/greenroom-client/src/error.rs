//! Everything that can go wrong on the client's side, with its kind, exit code and hint.
//!
//! Absent on purpose: printing.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use greenroom_protocol::attach::AttachError;
use greenroom_protocol::frame::FrameError;
use greenroom_protocol::{Fault, FaultKind};

/// Why a call or a stream did not work.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens, or not to us.
    #[error("cannot reach the host at {}: {source}", path.display())]
    Unreachable { path: PathBuf, source: io::Error },
    /// Somebody listens, but it is not our own host.
    #[error("cannot use the host at {}: it belongs to user {owner}, not to us", path.display())]
    Foreign { path: PathBuf, owner: u32 },
    /// The connection ended after the request was written and before it was answered.
    #[error("the host went away during {method}; whether it took effect is unknown")]
    EffectUnknown { method: String },
    /// The daemon goes away each time this is asked.
    #[error("the host went away {times} times in a row during {method}")]
    KeepsFailing { method: String, times: u32 },
    /// Connected, but no answer came.
    #[error("no answer to {method} within {} s", after.as_secs())]
    NoAnswer { method: String, after: Duration },
    /// The daemon does not run, though it is there; or the keeper, which should start the next one.
    #[error("the host does not answer: its {process} (pid {pid}) is stopped")]
    Stopped {
        /// `daemon` or `keeper`.
        process: &'static str,
        pid: i32,
    },
    /// The daemon does not come up.
    #[error("the host does not answer: its daemon ends again and again")]
    KeepsDying,
    /// What was asked lies in the socket, and whoever reads it next does it.
    #[error("{why}; what was asked may still happen")]
    Late { why: Box<ClientError> },
    /// Too many calls at once on one client.
    #[error("cannot call {method}: {limit} calls are in flight already")]
    Busy { method: String, limit: usize },
    /// The host answered with a fault.
    #[error("{0}")]
    Fault(#[from] Fault),
    /// The params cannot be written as JSON.
    #[error("cannot write the params of {method}: {source}")]
    Params { method: String, source: serde_json::Error },
    /// The request is over the frame cap.
    #[error("cannot call {method}: {source}")]
    Request { method: String, source: FrameError },
    /// The result has another shape than we know.
    #[error("cannot read the answer to {method}: {source}")]
    Answer { method: String, source: serde_json::Error },
    /// The host said something that is no answer.
    #[error("cannot read what the host sent: {0}")]
    Garbled(#[from] Garbled),
    /// The host is away and too much input waits for it.
    #[error("cannot send to the session: {waiting} bytes wait for the host to come back")]
    Congested { waiting: usize },
    /// Input that cannot be sent.
    #[error("cannot send to the session: {0}")]
    Send(AttachError),
}

/// What was wrong with the host's bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Garbled {
    /// Not a frame.
    #[error("{0}")]
    Frame(#[from] FrameError),
    /// Not an attach frame.
    #[error("{0}")]
    Attach(#[from] AttachError),
    /// A frame, but not the answer.
    #[error("expected the answer to {method}")]
    NotTheAnswer { method: &'static str },
}

impl ClientError {
    /// The kind in the words of the wire.
    pub fn kind(&self) -> FaultKind {
        match self {
            ClientError::Unreachable { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                FaultKind::PermissionDenied
            }
            ClientError::Foreign { .. } => FaultKind::PermissionDenied,
            ClientError::Late { why } => why.kind(),
            ClientError::Unreachable { .. }
            | ClientError::EffectUnknown { .. }
            | ClientError::KeepsFailing { .. }
            | ClientError::Stopped { .. }
            | ClientError::KeepsDying
            | ClientError::NoAnswer { .. } => FaultKind::Unavailable,
            ClientError::Busy { .. } | ClientError::Congested { .. } => FaultKind::Busy,
            ClientError::Fault(fault) => fault.kind(),
            ClientError::Request { .. } | ClientError::Send(_) => FaultKind::TooLarge,
            ClientError::Params { .. } | ClientError::Answer { .. } | ClientError::Garbled(_) => {
                FaultKind::Internal
            }
        }
    }

    /// Exit code of the command line.
    pub fn exit(&self) -> u8 {
        self.kind().exit()
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ClientError::Fault(fault) => fault.data.hint.clone(),
            ClientError::Late { why } => why.hint(),
            ClientError::Unreachable { path, source } => Some(way_to(path, source)),
            ClientError::Foreign { .. } => {
                Some("nothing was sent; run greenroom as that user, or look at HOME, GREENROOM_HOME and GREENROOM_SOCKET".to_owned())
            }
            ClientError::EffectUnknown { .. } => {
                Some("look with greenroom ls before trying again".to_owned())
            }
            ClientError::Stopped { pid, .. } => Some(format!("let it go on with kill -CONT {pid}")),
            ClientError::KeepsDying
            | ClientError::KeepsFailing { .. }
            | ClientError::NoAnswer { .. } => {
                Some("look into greenroom logs".to_owned())
            }
            ClientError::Answer { .. } | ClientError::Garbled(_) => {
                Some("host and client may differ in version: try greenroom upgrade".to_owned())
            }
            _ => None,
        }
    }

    /// For a call that changes something: no answer does not mean that it was not heard.
    pub(crate) fn or_late(self) -> ClientError {
        match self {
            ClientError::Stopped { .. }
            | ClientError::KeepsDying
            | ClientError::NoAnswer { .. } => ClientError::Late { why: Box::new(self) },
            error => error,
        }
    }

    /// The fault, if the host answered with one.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            ClientError::Fault(fault) => Some(fault),
            _ => None,
        }
    }
}

/// What to do about a socket that cannot be reached.
fn way_to(socket: &Path, source: &io::Error) -> String {
    // The last on the way that can be seen is the one that leads no further.
    let seen = socket.ancestors().find(|path| path.symlink_metadata().is_ok()).unwrap_or(socket);
    match source.kind() {
        io::ErrorKind::NotADirectory => {
            format!("{} must be a directory: move what is there away", seen.display())
        }
        io::ErrorKind::PermissionDenied => {
            format!("let yourself in again with chmod u+rwx {}", seen.display())
        }
        _ => "start the host with greenroom serve".to_owned(),
    }
}

//! What must be remembered of a session beyond its journal.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::SystemTime;

use greenroom_term::Size;

use crate::id::SessionId;
use crate::process::{BoxFuture, ExitStatus};

/// The durable part of a session. Holds no environment: values may be secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionRecord {
    pub id: SessionId,
    /// Its id, if it has none.
    pub name: String,
    /// Somebody chose the name; otherwise it was made up.
    pub chosen: bool,
    /// What it was called before a later session took the name.
    pub former: Option<String>,
    pub argv: Vec<OsString>,
    pub cwd: PathBuf,
    pub size: Size,
    /// What people and agents say of it, as the host writes it. Kept with the session and never
    /// read here.
    pub about: String,
    /// When its program was started; before that, when it was asked for.
    pub created: SystemTime,
    /// Random word in the child's environment; finds strays of its tree.
    pub key: String,
    pub state: RecordState,
}

impl SessionRecord {
    /// The record of a session of which only the id is known.
    pub fn new(id: SessionId) -> SessionRecord {
        SessionRecord {
            id,
            name: id.to_string(),
            chosen: false,
            former: None,
            argv: Vec::new(),
            cwd: "/".into(),
            size: Size::new(80, 24).expect("80x24 is a size"),
            about: String::new(),
            created: SystemTime::now(),
            key: String::new(),
            state: RecordState::Starting,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum RecordState {
    /// Written before the keeper is asked: a crash in between leaves this.
    Starting,
    Running {
        pid: u32,
    },
    Failed {
        why: String,
    },
    Ended {
        pid: u32,
        at: SystemTime,
        status: ExitStatus,
    },
}

#[derive(Debug, thiserror::Error)]
#[error("cannot {step} the record of session {id}: {source}")]
pub struct StoreError {
    pub id: SessionId,
    pub step: &'static str,
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

pub trait Store: Send + Sync {
    /// A fresh id, never given before in this state directory.
    fn next_id(&self) -> BoxFuture<'_, Result<SessionId, StoreError>>;
    /// Takes the record up when called, not when polled: calls keep their order.
    fn save(&self, record: SessionRecord) -> BoxFuture<'_, Result<(), StoreError>>;
    fn remove(&self, id: SessionId) -> BoxFuture<'_, Result<(), StoreError>>;
}

//! Facts that leave the engine, in the past tense.
//!
//! The engine hands each fact to an [`Events`] sink and goes on; numbering,
//! keeping and pushing them is the daemon's business.

use greenroom_term::Size;

use crate::egress::Filtered;
use crate::id::{ClientId, Seq, SessionId};
use crate::process::ExitStatus;

#[derive(Clone, Debug)]
pub struct Event {
    pub session: SessionId,
    pub fact: Fact,
}

#[derive(Clone, Debug)]
pub enum Fact {
    Created {
        name: String,
    },
    Started {
        pid: u32,
    },
    StartFailed {
        why: String,
    },
    /// The daemon came back and took the session over again.
    Recovered {
        seq: Seq,
        lost: Option<String>,
    },
    Renamed {
        name: String,
    },
    Resized {
        size: Size,
    },
    Exited {
        status: ExitStatus,
        seq: Seq,
    },
    Removed,
    ClientAttached {
        client: ClientId,
        read_only: bool,
    },
    ClientDetached {
        client: ClientId,
    },
    RecordingPaused {
        why: String,
    },
    RecordingResumed,
    ScreenRebuilt {
        why: &'static str,
    },
    Marked {
        label: String,
        seq: Seq,
    },
    /// Filters were too slow: this output is masked for those they govern.
    FiltersBehind {
        from: Seq,
        to: Seq,
    },
    Title(Filtered<String>),
    Cwd(Filtered<String>),
    Bell,
    Notified {
        title: Option<Filtered<String>>,
        body: Filtered<String>,
    },
    Progress {
        state: u8,
        percent: Option<u8>,
    },
    ClipboardSet {
        selection: String,
        data: Filtered<Vec<u8>>,
    },
    PromptStarted,
    CommandStarted,
    CommandEnded {
        exit: Option<i32>,
    },
}

/// Takes facts without waiting. A full queue drops and counts; it never blocks a session.
pub trait Events: Send + Sync {
    fn emit(&self, event: Event);
}

//! What the three parties of a journal have in common: the actor (`Journal`),
//! the helper thread (`Spiller`) and any number of readers.
//!
//! [`Shared`] is all a reader needs and outlives the ring; [`Session`] is the
//! ring plus the helper's files. Deliberately absent: behaviour.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use greenroom_term::Size;
use tokio::sync::Notify;

use super::files::Files;
use super::limits::Limits;
use super::ring::Ring;
use crate::lock::lock;

/// Whether output reaches the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RecordingState {
    #[default]
    Recording,
    /// The session goes on; what does not fit in memory until the disk is
    /// back becomes a visible gap.
    Paused { why: PauseReason, since: SystemTime },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseReason {
    /// No space, or a quota.
    NoSpace,
    /// The journal's files were removed while the session ran.
    Removed,
    /// No file can begin before the actor gives a keyframe (`roll_due`).
    AwaitingKeyframe,
    /// Any other failure of the disk.
    Io { errno: i32 },
}

impl PauseReason {
    pub(super) fn of(error: &io::Error) -> PauseReason {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => PauseReason::NoSpace,
            io::ErrorKind::NotFound => PauseReason::Removed,
            _ => PauseReason::Io { errno: error.raw_os_error().unwrap_or(0) },
        }
    }
}

impl fmt::Display for PauseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PauseReason::NoSpace => f.write_str("the disk is full"),
            PauseReason::Removed => f.write_str("its files were removed"),
            PauseReason::AwaitingKeyframe => f.write_str("a new file waits for a keyframe"),
            PauseReason::Io { errno } => io::Error::from_raw_os_error(*errno).fmt(f),
        }
    }
}

/// Seen by actor, helper and readers.
#[derive(Default)]
pub(super) struct Shared {
    pub dir: PathBuf,
    /// First byte still in files.
    pub oldest: AtomicU64,
    /// End of the output.
    pub tail: AtomicU64,
    /// End of what is in files, gaps recorded. Not the ring's `Spilled`,
    /// which the actor may move before the gap is in an index.
    pub readable: AtomicU64,
    pub index_bytes: AtomicU64,
    /// A gap, a lost key file or lost files: the next roll is due now.
    pub needs_keyframe: AtomicBool,
    pub roll_pending: AtomicBool,
    pub paused: AtomicBool,
    /// An exit note was written.
    pub ended: AtomicBool,
    pub state: Mutex<RecordingState>,
    pub progress: Arc<Notify>,
}

impl Shared {
    pub(super) fn new(dir: PathBuf, oldest: u64, tail: u64, readable: u64) -> Shared {
        Shared {
            dir,
            oldest: AtomicU64::new(oldest),
            tail: AtomicU64::new(tail),
            readable: AtomicU64::new(readable),
            ..Shared::default()
        }
    }

    pub(super) fn set_paused(&self, why: Option<PauseReason>) {
        let mut state = lock(&self.state);
        match (why, &*state) {
            (None, _) => *state = RecordingState::Recording,
            (Some(new), RecordingState::Paused { why: old, .. }) if *old == new => return,
            (Some(why), RecordingState::Paused { since, .. }) => {
                *state = RecordingState::Paused { why, since: *since };
            }
            (Some(why), RecordingState::Recording) => {
                *state = RecordingState::Paused { why, since: SystemTime::now() };
            }
        }
        drop(state);
        self.paused.store(why.is_some(), Ordering::Release);
    }
}

/// A request for a new segment.
pub(super) struct Roll {
    pub at: u64,
    /// Notes below this ordinal belong to the segment before.
    pub ord: u64,
    pub time_ns: u64,
    pub keyframe: Vec<u8>,
    pub size: Size,
}

/// What the helper works on.
pub(super) struct Session {
    pub id: u64,
    pub shared: Arc<Shared>,
    pub ring: Arc<Ring>,
    pub limits: Limits,
    /// At most one: `roll_due` is false while it waits.
    pub roll: Mutex<Option<Roll>>,
    /// Only the helper locks it, after `create` or `recover` filled it.
    pub files: Mutex<Files>,
    /// 0 not queued, 1 with the lazy ones, 2 urgent: queued at most once.
    pub queued: AtomicU8,
    /// The `Journal` is gone; spill the rest and let go.
    pub closing: AtomicBool,
}

//! Every number the journal is bounded by, with its reason.
//!
//! Nothing comes in but configuration ([`Limits`], [`Budget`]); constants go
//! out. Deliberately absent: the code that enforces them (`files`, `spill`).

use std::time::Duration;

/// Bytes of the control page: magic, version and the words that survive a kill.
pub(super) const CONTROL_BYTES: usize = 4096;

/// Notes (resizes, input marks, times …) that no index holds yet. At one time record per
/// millisecond and a spill every 20 ms about 1 KiB is in use; the rest is for a stalled disk.
pub(super) const NOTE_BYTES: usize = 16 * 1024;

/// What lies in front of the data in the ring.
pub(super) const HEADER_BYTES: usize = CONTROL_BYTES + NOTE_BYTES;

/// Output that is in memory and not yet in a file: some milliseconds of flood,
/// enough for the helper to be scheduled and for the screen to be fed behind
/// the reader's back. Given back to the system when a session is idle.
pub const DATA_BYTES: usize = 1024 * 1024;

/// Size of the memfd that the keeper must make for a session.
pub const RING_BYTES: usize = HEADER_BYTES + DATA_BYTES;

/// Accepted data sizes when a ring made by another version is mapped.
pub(super) const DATA_MIN: usize = 16 * 1024;
pub(super) const DATA_MAX: usize = 64 * 1024 * 1024;

/// One splice: the capacity of the session's pipe (`F_SETPIPE_SZ`).
pub const PIPE_BYTES: usize = 16 * 1024;

/// A first splice that gives less than this ends the pump as `Short`: it is
/// an echo or a small repaint, and its delivery must not wait for the system
/// call that learns that nothing more is there.
pub(super) const SHORT_BYTES: usize = 1024;

/// Unspilled bytes that are worth waking the helper for at once.
pub(super) const WAKE_BYTES: u64 = 256 * 1024;

/// Fewer bytes wait this long for company: a wake-up costs more than the bytes.
pub(super) const LAZY_SPILL: Duration = Duration::from_millis(20);

/// Time records closer than this are one record.
pub(super) const TIME_APART_NS: u64 = 1_000_000;

/// … but never more bytes than this under one time.
pub(super) const TIME_BYTES: u64 = 64 * 1024;

/// How often a paused recording tries the disk again.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// A full ring without spill progress for this long is given up as a gap.
pub(super) const STALL: Duration = Duration::from_secs(2);

/// How often it is looked whether the files were removed under us.
pub(super) const REMOVED_CHECK: Duration = Duration::from_secs(1);

/// A closed journal whose disk stays broken is let go after this long.
pub(super) const CLOSE_PATIENCE: Duration = Duration::from_secs(30);

/// The longest a reader waits in `flush`.
pub(super) const FLUSH_DEADLINE: Duration = Duration::from_secs(5);

/// Longest text of a mark; longer ones are cut at a character.
pub const MARK_BYTES: usize = 1024;

/// Largest keyframe: a 1000 × 1000 screen with a style change per cell.
pub(super) const KEYFRAME_BYTES: usize = 32 * 1024 * 1024;

/// Largest index that is read into memory; a roll is due at [`INDEX_ROLL`].
pub(super) const INDEX_BYTES: u64 = 64 * 1024 * 1024;

/// An index of this size makes a roll due, so that a session with much input
/// and no output stays bounded too.
pub(super) const INDEX_ROLL: u64 = 1024 * 1024;

/// Most segments that one directory is believed to hold.
pub(super) const SEGMENTS_MAX: usize = 100_000;

/// Bounds of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Whole segments drop from the front above this. The newest segment
    /// always stays, so the true bound is this plus one segment.
    pub session_bytes: u64,
    /// A roll is due when the newest segment has this many bytes. A restart
    /// replays at most one segment.
    pub segment_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { session_bytes: 64 * 1024 * 1024, segment_bytes: 4 * 1024 * 1024 }
    }
}

/// Bound of all sessions together, ended ones included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    pub total_bytes: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { total_bytes: 4 * 1024 * 1024 * 1024 }
    }
}

//! What a directory tells of a journal without reading it: names, lengths, times.
//!
//! For a daemon that takes over many journals at once. In: a session's directory. Out: how far its output goes and
//! when the last of it came. Deliberately absent: contents; of the newest index only the beginning is read, since a
//! gap may be the end of the output.

use std::path::Path;
use std::time::SystemTime;

use crate::id::Seq;

use super::read::gaps_of;
use super::segment::{self, IDX, SEG};

/// Indexes are mostly smaller than this.
const INDEX_GLANCE: u64 = 64 * 1024;

/// A journal from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// The oldest byte kept, and the end of the output.
    pub span: (Seq, Seq),
    /// When output was last written.
    pub last_output: Option<SystemTime>,
}

/// `None` if there is no journal.
pub fn glance(dir: &Path) -> Option<Glance> {
    let listing = segment::list(dir).ok()?;
    let (first, last) = (listing.segments.first()?, listing.segments.last()?);
    let index = segment::read_capped(&segment::path(dir, last.start, IDX), INDEX_GLANCE);
    let gaps = gaps_of(&index.unwrap_or_default());
    let in_gaps = gaps.into_iter().map(|(_, to)| to).max().unwrap_or(0);
    let tail = (last.start + last.len).max(in_gaps);
    // A segment that has just begun has no output of its own.
    let written = listing.segments.iter().rev().find(|segment| segment.len > 0).unwrap_or(last);
    let modified = || {
        let file = segment::path(dir, written.start, SEG).symlink_metadata().ok()?;
        file.modified().ok()
    };
    let last_output = (tail > 0).then(modified).flatten();
    Some(Glance { span: (Seq(first.start), Seq(tail)), last_output })
}

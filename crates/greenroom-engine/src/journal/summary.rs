//! What a directory tells of a journal without reading it: names, lengths, times.
//!
//! For a daemon that takes over many journals at once. In: a session's directory. Out: how far its
//! output goes and when the last of it came. Deliberately absent: contents; of the newest index
//! only the beginning is read, since a gap may be the end of the output.

use std::path::Path;
use std::time::SystemTime;

use crate::id::Seq;

use super::read::span_of;
use super::segment::{self, SEG};

/// Indexes are mostly smaller than this.
const INDEX_BYTES: u64 = 64 * 1024;

/// A journal from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The oldest byte kept, and the end of the output.
    pub span: (Seq, Seq),
    /// When output was last written.
    pub last_output: Option<SystemTime>,
}

/// `None` if there is no journal.
pub fn summarize(dir: &Path) -> Option<Summary> {
    let listing = segment::list(dir).ok()?;
    let (oldest, tail) = span_of(dir, &listing, INDEX_BYTES)?;
    // A segment that has just begun has no output of its own.
    let mut newest_first = listing.segments.iter().rev();
    let written = newest_first.clone().find(|segment| segment.len > 0).or(newest_first.next())?;
    let modified = || {
        let file = segment::path(dir, written.start, SEG).symlink_metadata().ok()?;
        file.modified().ok()
    };
    let last_output = (tail > 0).then(modified).flatten();
    Some(Summary { span: (Seq(oldest), Seq(tail)), last_output })
}

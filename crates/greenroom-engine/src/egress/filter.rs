//! The role of a filter from outside (L3): lines in, one edit for each out.
//!
//! The engine defines the role; whoever hosts plugins plays it. Lines come after the built-in
//! rules: a filter sees masks where those hid something, and cannot bring back what they took.
//! Deliberately absent: order of plugins, deadlines, failure policy. The one who answers applies
//! them and always answers.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::egress::Sink;
use crate::id::{Seq, SessionId};
use crate::process::BoxFuture;
use crate::store::SessionRecord;

/// So far behind is minutes of work for most filters.
pub const BEHIND_MAX: u64 = 64 * 1024 * 1024;

/// Knows who filters a session. Asked when one starts or is taken over, before its first byte can
/// be read.
pub trait Filters: Send + Sync {
    /// `None`: nobody filters such a session. `noted` is what [`LineFilter::note`] said when
    /// somebody last did: whoever is named there and cannot be had counts as one who fails, never
    /// as one who is not needed. An error says that the note cannot be understood.
    fn filter_for(
        &self,
        session: &SessionRecord,
        noted: Option<&[u8]>,
    ) -> Result<Option<Arc<dyn LineFilter>>, String>;

    /// Where the work behind the session's back is done; `None` where the session is started.
    fn place(&self) -> Option<Handle>;

    /// Output that is so many bytes ahead of what was answered is masked instead of asked about.
    fn behind_max(&self) -> u64 {
        BEHIND_MAX
    }
}

/// Does work behind a session's back: where `filters` want it done, else where the caller is.
pub(crate) fn spawn_beside(
    filters: Option<&Arc<dyn Filters>>,
    work: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    match filters.and_then(|filters| filters.place()) {
        Some(place) => place.spawn(work),
        None => tokio::spawn(work),
    }
}

/// Decides about lines of a session before a governed sink shows them.
pub trait LineFilter: Send + Sync {
    /// Whether `sink` may show only what was answered. Asked once per reader, not per line.
    fn governs(&self, sink: Sink) -> bool;

    /// One edit per line, in order. A missing one counts as [`Edit::Mask`], so that a short answer
    /// cannot let anything out. Several calls may be under way at once; their lines are in order
    /// within a call.
    fn filter<'a>(&'a self, session: SessionId, lines: &'a [Line]) -> BoxFuture<'a, Vec<Edit>>;

    /// What every line would be answered with now, whatever it says: then none need be read. Never
    /// a text.
    fn foregone(&self) -> Option<Edit> {
        None
    }

    /// Who filters here, to be kept with the session for [`Filters::filter_for`] of the next
    /// daemon; `None` from one who is not missed.
    fn note(&self) -> Option<Vec<u8>> {
        None
    }

    /// Changes whenever the note may be another.
    fn edition(&self) -> u64 {
        0
    }

    /// Who is named in the note and cannot be had now, as a sentence for people.
    fn absent(&self) -> Option<String> {
        None
    }
}

/// What a filter is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where it begins in the session's output; for a row of a screen, the output that screen
    /// shows.
    pub seq: Seq,
    pub unit: Unit,
    /// Without escape sequences and line end, after the built-in rules.
    pub text: String,
    /// No line end yet: it was sent because the program paused. The rest comes as a line of its
    /// own.
    pub partial: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Up to a line feed; of a line redrawn with carriage returns, the last drawing.
    Line,
    /// Rows of a screen that belong together because the terminal wrapped them.
    Rows,
}

/// What a governed sink shows of a line. This is the one form of an answer: whoever reads a
/// plugin's answer makes it, and the ledger keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// As it is.
    Pass,
    /// This text in its place. Controls in it are removed and the built-in rules see it too.
    Replace(String),
    /// Nothing, not even the line end.
    Drop,
    /// As many columns, all of them masked; escape sequences stay.
    Mask,
}

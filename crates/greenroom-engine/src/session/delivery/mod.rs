//! Delivery: how output reaches whoever subscribed to it.
//!
//! In: what the actor has to tell ([`RawPush`]). Out: what a reader may see ([`Push`]), in the same
//! order. The actor only ever tries to send (`subscriber`); what it sent is made fit on the task of
//! the reader (`subscription`), by one of three treatments: as it is, with its secrets masked
//! (`masking`), or as pictures that filters from outside have answered for (`painter`). What the
//! actor itself does for subscribers is in `actor`.
//!
//! A subscriber is whoever receives output: an attached client, a stream of the API, a wait. A
//! viewer is a subscriber with a window. A slow subscriber is cut: nothing more is queued for it
//! until it has read what it has, and then it asks to be resynced. So one that stops reading costs
//! a bounded queue and nobody's time.

mod actor;
mod masking;
mod painter;
mod subscriber;
mod subscription;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use greenroom_term::{AnnotatedKeyframe, Frame, Size};

use crate::egress::{Filtered, Raw};
use crate::id::Seq;
use crate::process::ExitStatus;

pub(super) use subscriber::Subscriber;
pub use subscription::Subscription;

/// What a subscriber wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriberKind {
    /// One with a window: keyframes first and after every cut.
    Viewer { size: Size, read_only: bool },
    /// A reader of bytes: only what comes, with gaps told.
    Stream,
}

#[derive(Clone, Debug)]
pub enum Push {
    Output {
        seq: Seq,
        bytes: Filtered<Arc<[u8]>>,
    },
    Keyframe {
        seq: Seq,
        size: Size,
        bytes: Filtered<Vec<u8>>,
    },
    /// Output from `from` to `to` was not sent: the subscriber was too slow.
    Lagged {
        from: Seq,
        to: Seq,
    },
    Resized {
        size: Size,
    },
    Exited {
        status: ExitStatus,
        seq: Seq,
    },
    /// The session was removed, or the host is going down.
    Closed,
}

/// A push on its way, as the actor made it.
pub(super) enum RawPush {
    Output {
        seq: Seq,
        bytes: Raw<Arc<[u8]>>,
    },
    Keyframe {
        seq: Seq,
        size: Size,
        weight: usize,
        picture: Raw<Picture>,
    },
    /// With the output before `to`.
    Lagged {
        from: Seq,
        to: Seq,
        before: Raw<Vec<u8>>,
    },
    /// One with nothing in it that the program printed.
    Plain(Push),
}

impl RawPush {
    /// About how many bytes it takes.
    fn weight(&self) -> usize {
        match self {
            RawPush::Output { bytes, .. } => bytes.len(),
            RawPush::Keyframe { weight, .. } => *weight,
            RawPush::Lagged { before, .. } => before.len(),
            RawPush::Plain(_) => 0,
        }
    }
}

/// A screen, in the form that its treatment needs.
pub(super) enum Picture {
    /// For a viewer with a window of the session's size who sees everything: fit for its terminal.
    Finished(Vec<u8>),
    /// For one who does not: to be masked first. With the output before it.
    Keyframe { keyframe: AnnotatedKeyframe, size: Size, before: Vec<u8> },
    /// To be painted into a window.
    Grid { frame: Arc<Frame>, window: Size, before: Vec<u8> },
}

impl Picture {
    /// About how many bytes it takes.
    fn weight(&self) -> usize {
        match self {
            Picture::Finished(bytes) => bytes.len(),
            Picture::Keyframe { keyframe, before, .. } => keyframe.bytes.len() + before.len(),
            Picture::Grid { frame, before, .. } => {
                usize::from(frame.size.cols()) * usize::from(frame.size.rows()) + before.len()
            }
        }
    }
}

//! The boundary every text crosses on its way out of the core.
//!
//! Inside, what a program printed is [`Raw`]: it cannot be serialised and its
//! `Debug` hides the content. What may leave is [`Filtered`]. [`Egress`] is the
//! one place that turns one into the other; a sink that takes `Filtered<T>`
//! therefore cannot be reached by a text that no filter saw.
//!
//! The filter is a pass-through: no rules exist yet. What is deliberately
//! absent is any other way to make a `Filtered`.

mod filter;

use std::fmt;

pub use filter::{Line, LineFilter, Unit, Verdict};

/// Text or bytes of a session as the program printed them.
#[derive(Clone)]
pub struct Raw<T>(T);

impl<T> Raw<T> {
    pub fn new(value: T) -> Raw<T> {
        Raw(value)
    }
}

impl<T> fmt::Debug for Raw<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Raw(hidden)")
    }
}

/// Text or bytes that went through [`Egress`] and may reach a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filtered<T>(T);

impl<T> Filtered<T> {
    pub fn get(&self) -> &T {
        &self.0
    }

    pub fn into_inner(self) -> T {
        self.0
    }
}

/// Who will read what is let out; decides which filters apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sink {
    /// The attach stream of the human at this machine; raw unless the configuration says otherwise.
    AttachLocal,
    /// An attach stream that leaves the machine or goes to a browser.
    AttachRemote,
    /// Output pushed to a subscriber of the client API.
    Stream,
    /// Pages of output, scrollback, and what a wait saw in them.
    Transcript,
    /// Recordings and exports.
    Recording,
    /// Screens, and what a wait saw on them.
    Snapshot,
    /// Titles, notifications and other facts in the event log; hook payloads and alerts.
    Event,
    /// The host's own logs and error texts.
    Log,
}

impl Sink {
    /// Every sink there is.
    pub const ALL: [Sink; 8] = [
        Sink::AttachLocal,
        Sink::AttachRemote,
        Sink::Stream,
        Sink::Transcript,
        Sink::Recording,
        Sink::Snapshot,
        Sink::Event,
        Sink::Log,
    ];

    /// Its name in configuration and manifests.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Sink::AttachLocal => "attach.local",
            Sink::AttachRemote => "attach.remote",
            Sink::Stream => "stream",
            Sink::Transcript => "transcript",
            Sink::Recording => "recording",
            Sink::Snapshot => "snapshot",
            Sink::Event => "event",
            Sink::Log => "log",
        }
    }
}

/// The filters of one session.
#[derive(Clone, Debug, Default)]
pub struct Egress {
    _no_rules_yet: (),
}

impl Egress {
    #[must_use]
    pub fn new() -> Egress {
        Egress::default()
    }

    /// Lets `value` out to `sink`.
    pub fn pass<T>(&self, _sink: Sink, value: Raw<T>) -> Filtered<T> {
        Filtered(value.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_hides_its_content_and_passes_unchanged() {
        let raw = Raw::new("token".to_owned());
        assert_eq!(format!("{raw:?}"), "Raw(hidden)");
        assert_eq!(Egress::new().pass(Sink::Transcript, raw).into_inner(), "token");
    }
}

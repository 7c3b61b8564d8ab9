//! The boundary every text crosses on its way out of the core.
//!
//! Inside, what a program printed is [`Raw`]: it cannot be serialised and its `Debug` hides the content. What may
//! leave is [`Filtered`]. [`Egress`] is the one place that turns one into the other; a sink that takes `Filtered<T>`
//! therefore cannot be reached by a text that no filter saw.
//!
//! Four layers: [`lexer`] (text and what is between), [`rules`] and [`literals`] (what is a secret), both in
//! [`redactor`] for streams and [`grid`] for screens, always on; then [`filter`]s from outside, whose answers are kept
//! in a [`ledger`]. Deliberately absent: any other way to make a `Filtered`, and anything that could make the session
//! wait: all of this runs where the reader is.

mod charset;
mod filter;
mod finder;
pub(crate) mod flow;
mod grid;
mod lane;
mod lexer;
mod literals;
mod redactor;
mod rules;
mod test_file;
mod vault;

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use greenroom_term::{Frame, Row};

pub use filter::{Line, LineFilter, Unit, Verdict};
pub use flow::{EXPIRE, PAUSE};
pub use lane::VALUE;
pub use literals::{Literals, VALUE_MIN};
pub use redactor::{HOLD_MAX, LOOK_AHEAD, LOOK_BACK, Masked, Redactor, Shield};
pub use rules::Rules;
pub use test_file::{Spotted, spot};
pub use vault::HostKey;

use crate::id::Seq;

/// Text or bytes of a session as the program printed them.
#[derive(Clone)]
pub struct Raw<T>(T);

impl<T> Raw<T> {
    pub fn new(value: T) -> Raw<T> {
        Raw(value)
    }
}

impl<T: AsRef<[u8]>> Raw<T> {
    /// How much there is.
    pub fn len(&self) -> usize {
        self.0.as_ref().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
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

    /// A part or another form of it is as filtered as the whole.
    pub fn map<U>(self, form: impl FnOnce(T) -> U) -> Filtered<U> {
        Filtered(form(self.0))
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

/// Whether a reader sees masks or what they hide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sight {
    #[default]
    Masked,
    /// Only for a caller who may see secrets: whoever builds this has checked that.
    Bare,
}

/// How a host filters.
#[derive(Clone, Debug)]
pub struct Redaction {
    /// For all sessions that were given no values.
    common: Arc<Shield>,
    /// The local human's own attach stream, too.
    attach: bool,
    /// For the values that sessions are given.
    pub(crate) key: HostKey,
}

impl Redaction {
    #[must_use]
    pub fn new(rules: Arc<Rules>, attach: bool, key: HostKey) -> Redaction {
        Redaction { common: Arc::new(Shield::new(rules, Literals::default())), attach, key }
    }
}

/// The filters of one session.
#[derive(Clone)]
pub struct Egress(Arc<Inner>);

struct Inner {
    shield: RwLock<Arc<Shield>>,
    attach: bool,
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("attach", &self.0.attach).finish_non_exhaustive()
    }
}

impl Egress {
    #[must_use]
    pub fn new(redaction: &Redaction, literals: Literals) -> Egress {
        let shield = match literals.is_empty() {
            true => redaction.common.clone(),
            false => Arc::new(redaction.common.with(literals)),
        };
        Egress(Arc::new(Inner { shield: RwLock::new(shield), attach: redaction.attach }))
    }

    /// The built-in rules alone, for texts that belong to no session.
    #[must_use]
    pub fn built_in() -> Egress {
        let shield = Arc::new(Shield::new(Rules::built_in(), Literals::default()));
        Egress(Arc::new(Inner { shield: RwLock::new(shield), attach: true }))
    }

    pub(crate) fn shield(&self) -> Arc<Shield> {
        self.0.shield.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A stream to `sink` from `at` on; `None` if it is not filtered.
    pub fn redactor(&self, sink: Sink, at: Seq) -> Option<Redactor> {
        (sink != Sink::AttachLocal || self.0.attach).then(|| self.redactor_at(at))
    }

    pub(crate) fn redactor_at(&self, at: Seq) -> Redactor {
        Redactor::new(self.shield(), at)
    }

    pub(crate) fn filters_attach(&self) -> bool {
        self.0.attach
    }

    /// A text as a whole.
    pub fn text(&self, _sink: Sink, text: Raw<String>) -> Filtered<String> {
        Filtered(grid::text(&self.shield(), &text.0))
    }

    /// Bytes as a whole, as many as there were.
    pub fn bytes(&self, _sink: Sink, bytes: Raw<Vec<u8>>) -> Filtered<Vec<u8>> {
        Filtered(Redactor::whole(self.shield(), &bytes.0))
    }

    /// A screen.
    pub fn frame(&self, _sink: Sink, frame: Raw<Arc<Frame>>) -> Filtered<Arc<Frame>> {
        Filtered(grid::frame(&self.shield(), &frame.0))
    }

    /// Rows of scrollback, `cols` wide.
    pub fn rows(&self, _sink: Sink, rows: Raw<Vec<Row>>, cols: u16) -> Filtered<Vec<Row>> {
        Filtered(grid::rows(&self.shield(), rows.0, usize::from(cols)))
    }

    /// What was made of filtered text only.
    pub(crate) fn made_of_filtered<T>(&self, value: T) -> Filtered<T> {
        Filtered(value)
    }

    /// As it is, for a caller who may see secrets.
    pub(crate) fn bare<T>(&self, value: Raw<T>) -> Filtered<T> {
        Filtered(value.0)
    }
}

#[cfg(test)]
mod tests;

//! Facts of the engine as rows of the event log.
//!
//! In: [`greenroom_engine::events::Event`] from sessions, which never wait. Out: [`NewEvent`]s in
//! the store's queue. Reading them again, by page or live, is [`Storage`]'s. Deliberately absent:
//! what a clipboard held; a log is read by more people than a clipboard is meant for.

mod observations;

use greenroom_engine::SessionId;
use greenroom_engine::events::{Event, Events, Fact};
use greenroom_protocol::events::{self as payload, Payload};

use crate::convert;
use crate::store::{NewEvent, Storage};
pub(crate) use observations::{Observation, Observations};

/// Longest text of one field: titles and notifications come from programs.
const TEXT_MAX: usize = 4096;

/// The engine's sink.
pub(crate) struct Facts {
    storage: Storage,
    observations: Observations,
}

impl Facts {
    pub(crate) fn new(storage: Storage, observations: Observations) -> Facts {
        Facts { storage, observations }
    }
}

impl Events for Facts {
    fn emit(&self, event: Event) {
        if matters(&event.fact) {
            self.observations.push(Observation::Fact(event.clone()));
        }
        self.storage.log(about(event.session, row(event.fact)));
    }
}

/// What a hook may be about; the rest is only logged.
fn matters(fact: &Fact) -> bool {
    matches!(
        fact,
        Fact::Started { .. }
            | Fact::StartFailed { .. }
            | Fact::Exited { .. }
            | Fact::Removed
            | Fact::Title(_)
    )
}

/// An event about one session.
pub(crate) fn about(session: SessionId, event: impl Into<Payload>) -> NewEvent {
    about_any(Some(session), event)
}

/// An event about the host itself.
pub(crate) fn of_the_host(event: impl Into<Payload>) -> NewEvent {
    about_any(None, event)
}

/// An event about a session, or about the host where there is none.
pub(crate) fn about_any(session: Option<SessionId>, event: impl Into<Payload>) -> NewEvent {
    NewEvent::now(session.map(|id| id.0), event.into())
}

fn row(fact: Fact) -> Payload {
    match fact {
        Fact::Created { name } => payload::SessionCreated { name }.into(),
        Fact::Started { pid } => payload::SessionStarted { pid }.into(),
        Fact::StartFailed { why } => payload::SessionFailed { why: text(why) }.into(),
        Fact::Recovered { seq, lost } => {
            payload::SessionReattached { seq: seq.0, lost: lost.map(text) }.into()
        }
        Fact::Renamed { name } => payload::SessionRenamed { name }.into(),
        Fact::Resized { size } => payload::SessionResized { size: convert::size(size) }.into(),
        Fact::Exited { status, seq } => {
            payload::SessionExited { exit: convert::exit(status), seq: seq.0 }.into()
        }
        Fact::Removed => payload::SessionClosed {}.into(),
        Fact::ClientAttached { client, read_only } => {
            payload::ClientAttached { client: convert::client(client), read_only }.into()
        }
        Fact::ClientDetached { client } => {
            payload::ClientDetached { client: convert::client(client) }.into()
        }
        Fact::RecordingPaused { why } => payload::SessionRecordingPaused { why: text(why) }.into(),
        Fact::RecordingResumed => payload::SessionRecordingResumed {}.into(),
        Fact::FiltersBehind { from, to } => {
            payload::SessionOutputMasked { from: from.0, to: to.0 }.into()
        }
        Fact::ScreenRebuilt { why } => payload::SessionRebuilt { why: why.to_owned() }.into(),
        Fact::Marked { label, seq } => {
            payload::SessionMarked { label: text(label), seq: seq.0 }.into()
        }
        // What a program told through its terminal.
        Fact::Title(title) => payload::SessionTitle { title: text(title.into_inner()) }.into(),
        Fact::Cwd(cwd) => payload::SessionCwd { cwd: text(cwd.into_inner()) }.into(),
        Fact::Bell => payload::SessionBell {}.into(),
        Fact::Notified { title, body } => {
            let title = title.map(|title| text(title.into_inner()));
            payload::SessionNotified { title, body: text(body.into_inner()) }.into()
        }
        Fact::Progress { state, percent } => payload::SessionProgress { state, percent }.into(),
        Fact::ClipboardSet { selection, data } => {
            let bytes = data.get().len();
            payload::SessionClipboard { selection: text(selection), bytes }.into()
        }
        Fact::PromptStarted => payload::SessionPrompt {}.into(),
        Fact::CommandStarted => payload::SessionCommandStarted {}.into(),
        Fact::CommandEnded { exit } => payload::SessionCommand { exit }.into(),
    }
}

fn text(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_MAX));
    text
}

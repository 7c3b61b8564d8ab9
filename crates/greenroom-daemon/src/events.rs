//! Facts of the engine as rows of the event log.
//!
//! In: [`greenroom_engine::events::Event`] from sessions, which never wait. Out: [`NewEvent`]s in
//! the store's queue. Reading them again, by page or live, is [`Storage`]'s. Deliberately absent:
//! what a clipboard held; a log is read by more people than a clipboard is meant for.

use std::sync::Arc;
use std::time::SystemTime;

use greenroom_engine::SessionId;
use greenroom_engine::events::{Event, Events, Fact};
use greenroom_protocol::Timestamp;
use serde_json::{Value, json};

use crate::chains::Ends;
use crate::convert;
use crate::hooks::{Happened, Happenings};
use crate::store::{NewEvent, Storage};

/// Longest text of one field: titles and notifications come from programs.
const TEXT_MAX: usize = 4096;

/// The engine's sink.
pub struct Facts {
    storage: Storage,
    ends: Arc<Ends>,
    happenings: Happenings,
}

impl Facts {
    pub fn new(storage: Storage, ends: Arc<Ends>, happenings: Happenings) -> Facts {
        Facts { storage, ends, happenings }
    }
}

impl Events for Facts {
    fn emit(&self, event: Event) {
        if let Fact::Exited { .. } = event.fact {
            self.ends.ended(event.session);
        }
        if matters(&event.fact) {
            self.happenings.tell(Happened::Fact(event.clone()));
        }
        let (kind, data) = row(event.fact);
        self.storage.log(about(event.session, kind, data));
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
pub fn about(session: SessionId, kind: &'static str, data: Value) -> NewEvent {
    NewEvent { session: Some(session.0), ..of_the_host(kind, data) }
}

/// An event about the host itself.
pub fn of_the_host(kind: &'static str, data: Value) -> NewEvent {
    NewEvent { time: Timestamp::from_system(SystemTime::now()), kind, session: None, data }
}

fn row(fact: Fact) -> (&'static str, Value) {
    match fact {
        Fact::Created { name } => ("session.created", json!({ "name": name })),
        Fact::Started { pid } => ("session.started", json!({ "pid": pid })),
        Fact::StartFailed { why } => ("session.failed", json!({ "why": text(why) })),
        Fact::Recovered { seq, lost } => {
            ("session.reattached", json!({ "seq": seq.0, "lost": lost.map(text) }))
        }
        Fact::Renamed { name } => ("session.renamed", json!({ "name": name })),
        Fact::Resized { size } => ("session.resized", json!({ "size": convert::size(size) })),
        Fact::Exited { status, seq } => {
            ("session.exited", json!({ "exit": convert::exit(status), "seq": seq.0 }))
        }
        Fact::Removed => ("session.closed", Value::Null),
        Fact::ClientAttached { client, read_only } => (
            "client.attached",
            json!({ "client": convert::client(client), "read_only": read_only }),
        ),
        Fact::ClientDetached { client } => {
            ("client.detached", json!({ "client": convert::client(client) }))
        }
        Fact::RecordingPaused { why } => ("session.recording_paused", json!({ "why": text(why) })),
        Fact::RecordingResumed => ("session.recording_resumed", Value::Null),
        Fact::FiltersBehind { from, to } => {
            ("session.output_masked", json!({ "from": from.0, "to": to.0 }))
        }
        Fact::ScreenRebuilt { why } => ("session.rebuilt", json!({ "why": why })),
        Fact::Marked { label, seq } => {
            ("session.marked", json!({ "label": text(label), "seq": seq.0 }))
        }
        told => program_said(told),
    }
}

/// What a program told through its terminal.
fn program_said(fact: Fact) -> (&'static str, Value) {
    match fact {
        Fact::Title(title) => ("session.title", json!({ "title": text(title.into_inner()) })),
        Fact::Cwd(cwd) => ("session.cwd", json!({ "cwd": text(cwd.into_inner()) })),
        Fact::Bell => ("session.bell", Value::Null),
        Fact::Notified { title, body } => (
            "session.notified",
            json!({
                "title": title.map(|title| text(title.into_inner())),
                "body": text(body.into_inner()),
            }),
        ),
        Fact::Progress { state, percent } => {
            ("session.progress", json!({ "state": state, "percent": percent }))
        }
        Fact::ClipboardSet { selection, data } => (
            "session.clipboard",
            json!({ "selection": text(selection), "bytes": data.get().len() }),
        ),
        Fact::PromptStarted => ("session.prompt", Value::Null),
        Fact::CommandStarted => ("session.command_started", Value::Null),
        Fact::CommandEnded { exit } => ("session.command", json!({ "exit": exit })),
        other => unreachable!("told by the engine itself: {other:?}"),
    }
}

fn text(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_MAX));
    text
}

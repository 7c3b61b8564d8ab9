//! The one table of events: when each happens and what it carries. A row is a type: whoever tells
//! of an event makes it, so that the table says what is really sent.
//!
//! What is pushed besides has types, too ([`crate::api::event`]), and a row in [`PUSHES`]. Absent
//! on purpose: the log itself, which is the daemon's.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::api::event::{ChangedPush, EventPush, ExitedPush, OutputPush};
use crate::api::is_false;
use crate::api::run::{RunState, StepState};
use crate::api::screen::Size;
use crate::api::session::{ExitStatus, Left};

/// What an event carries, and its kind.
pub trait EventData: Serialize {
    /// `group.past_tense`.
    const KIND: &'static str;
}

/// An event without time and session, as it goes into the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Payload {
    /// `group.past_tense`.
    pub kind: &'static str,
    /// Null if it carries nothing.
    pub data: Value,
}

impl<E: EventData> From<E> for Payload {
    fn from(event: E) -> Payload {
        let data = serde_json::to_value(event).unwrap_or_default();
        let empty = data.as_object().is_some_and(serde_json::Map::is_empty);
        Payload { kind: E::KIND, data: if empty { Value::Null } else { data } }
    }
}

/// One row of the table of events and other pushes.
#[derive(Clone, Copy, Serialize)]
pub struct EventRow {
    /// `group.past_tense`.
    pub kind: &'static str,
    /// When.
    pub summary: &'static str,
    /// In the event log, with replay; else only pushed to those connected.
    pub logged: bool,
    /// Members of `data`, or of what is pushed.
    pub data: &'static [&'static str],
    /// Schema of `data`, or of what is pushed.
    #[serde(skip)]
    pub schema: fn(&mut SchemaGenerator) -> Schema,
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

macro_rules! events {
    ($($event:ident $kind:literal $summary:literal {
        $($(#[$meta:meta])* $field:ident: $type:ty,)*
    })*) => {
        $(
            #[doc = $summary]
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
            pub struct $event {
                $($(#[$meta])* #[allow(missing_docs, reason = "the row says it")] pub $field: $type,)*
            }

            impl EventData for $event {
                const KIND: &'static str = $kind;
            }
        )*

        /// Everything in the event log.
        pub const EVENTS: &[EventRow] = &[$(EventRow {
            kind: $kind,
            summary: $summary,
            logged: true,
            data: &[$(stringify!($field),)*],
            schema: schema_of::<$event>,
        },)*];
    };
}

events! {
    DaemonStarted "daemon.started" "the daemon serves" {
        pid: u32, version: String, restart: bool, sessions: usize,
    }
    DaemonRestarted "daemon.restarted" "a daemon died and this one took over" {
        pid: u32, last_exit: String, sessions: usize, took_ms: u64,
    }
    DaemonStopping "daemon.stopping" "the host goes down" { why: String, }
    DaemonUpgraded "daemon.upgraded" "the programs are being replaced" { from: String, keeper: bool, }
    DaemonReloaded "daemon.reloaded" "the settings were read again" {
        changed: Vec<String>, restart: Vec<String>, by: String,
    }
    EventsDropped "events.dropped" "events came faster than they could be kept" { count: u64, }
    SessionCreated "session.created" "a session was asked for" { name: String, }
    SessionPreparing "session.preparing" "a plugin prepares it" { plugin: String, }
    SessionPrepared "session.prepared" "all its plugins are done" {}
    SessionRefused "session.refused" "a plugin could not prepare it" { plugin: String, why: String, }
    SessionStarted "session.started" "its program runs" { pid: u32, }
    SessionFailed "session.failed" "its program could not be started" { why: String, }
    SessionExited "session.exited" "its program ended" { exit: ExitStatus, seq: u64, }
    SessionCleaned "session.cleaned" "a plugin cleaned up after it" {
        plugin: String, left: Left,
    }
    SessionExpiring "session.expiring" "nine tenths of its time are over" {
        limit: String, left_ms: u64,
    }
    SessionTimedOut "session.timed_out" "its time is over and it is being ended" { limit: String, }
    SessionDenied "session.denied" "its sandbox denied something" { what: String, why: String, }
    SessionClosed "session.closed" "the session was forgotten" {}
    SessionRenamed "session.renamed" "it has another name" { name: String, }
    SessionTitle "session.title" "the window title changed" { title: String, }
    SessionCwd "session.cwd" "the program says where it is" { cwd: String, }
    SessionResized "session.resized" "its terminal has another size" { size: Size, }
    SessionBell "session.bell" "the program rang" {}
    SessionNotified "session.notified" "the program asked for attention" {
        title: Option<String>, body: String,
    }
    SessionMarked "session.marked" "somebody put a label into the recording" {
        label: String, seq: u64,
    }
    SessionProgress "session.progress" "the program says how far it is" {
        state: u8, percent: Option<u8>,
    }
    SessionClipboard "session.clipboard" "the program set the clipboard" {
        selection: String, bytes: usize,
    }
    SessionPrompt "session.prompt" "a shell with marks shows its prompt" {}
    SessionCommandStarted "session.command_started" "a shell with marks runs a command" {}
    SessionCommand "session.command" "a shell with marks ended a command" { exit: Option<i32>, }
    SessionKilled "session.killed" "somebody asked to end it" {
        by: Option<String>, signal: Option<String>,
    }
    SessionRecordingPaused "session.recording_paused" "the disk refused" { why: String, }
    SessionRecordingResumed "session.recording_resumed" "the disk takes recordings again" {}
    SessionOutputMasked "session.output_masked"
        "filters were too slow: output was masked instead of filtered" { from: u64, to: u64, }
    SessionRebuilt "session.rebuilt" "the screen was rebuilt from the recording" { why: String, }
    SessionReattached "session.reattached" "a new daemon took the session over" {
        seq: u64, lost: Option<String>,
    }
    SessionIdle "session.idle" "it printed nothing for a while" { idle_ms: u64, }
    SessionMasked "session.masked" "a filter did not answer and its policy hides lines" {
        plugin: String, lines: usize, policy: String,
    }
    AlertRaised "alert.raised" "somebody should know" {
        severity: String, channel: String, text: String, source: String,
    }
    AlertDropped "alert.dropped" "a plugin dropped an alert" { by: String, source: String, }
    ApprovalRequested "approval.requested" "a person must decide" {
        approval: String, title: String, text: String, source: String,
    }
    ApprovalResolved "approval.resolved" "it was decided" {
        approval: String, allowed: bool, by: String, source: String,
    }
    AgentEvent "agent.event"
        "an agent's own hook told something: `data` is what the hook was given, filtered; `cut` if it was shortened" {
        agent: String,
        event: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
        #[serde(default, skip_serializing_if = "is_false")]
        cut: bool,
    }
    PluginState "plugin.state" "a plugin's state changed" {
        plugin: String, state: String, before: String, why: Option<String>,
    }
    PluginFailed "plugin.failed" "a plugin did not answer a hook" {
        plugin: String, hook: String, why: String, policy: String, gave_up: bool,
    }
    HooksDropped "hooks.dropped" "events came faster than plugins could be told" { count: u64, }
    ClientAttached "client.attached" "a client attached to it" { client: String, read_only: bool, }
    ClientDetached "client.detached" "a client left" { client: String, }
    RunStarted "run.started" "a connector file is being carried out" {
        run: String, name: Option<String>, phases: usize, workers: usize,
    }
    RunPhase "run.phase" "a phase began or ended" {
        run: String, phase: String, state: StepState, why: Option<String>,
    }
    RunWorker "run.worker" "a worker goes on" {
        run: String,
        phase: String,
        worker: String,
        state: StepState,
        session: Option<String>,
        model: Option<String>,
        attempt: u32,
        exit: Option<ExitStatus>,
        why: Option<String>,
        branch: Option<String>,
        took_ms: Option<u64>,
    }
    RunEnded "run.ended" "a run is over" {
        run: String, state: RunState, why: Option<String>, took_ms: u64,
    }
}

/// What a connection is sent without having asked for it each time.
pub trait Push: Serialize {
    /// Its name as a notification.
    const METHOD: &'static str;
}

macro_rules! pushes {
    ($($push:ident $method:literal $summary:literal [$($member:literal)*];)*) => {
        $(impl Push for $push {
            const METHOD: &'static str = $method;
        })*

        /// Everything that is pushed to those connected.
        pub const PUSHES: &[EventRow] = &[$(EventRow {
            kind: $method,
            summary: $summary,
            logged: false,
            data: &[$($member,)*],
            schema: schema_of::<$push>,
        },)*];
    };
}

pushes! {
    ChangedPush "session.changed" "something visible changed" ["session" "sequence"];
    OutputPush "session.output" "new output"
        ["session" "subscription" "sequence" "output" "data" "dropped"];
    ExitedPush "session.exited" "its program ended" ["session" "sequence" "exit"];
    EventPush "server.event" "a row of the event log" ["subscription" "event"];
}

/// Every row once: one that is in the log, or is only pushed.
pub fn all() -> impl Iterator<Item = &'static EventRow> {
    let logged = |push: &&EventRow| EVENTS.iter().any(|event| event.kind == push.kind);
    EVENTS.iter().chain(PUSHES.iter().filter(move |push| !logged(push)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn kinds_are_unique_and_sentences_are_short() {
        let mut seen = HashSet::new();
        for event in all() {
            assert!(seen.insert(event.kind), "{} twice", event.kind);
            assert!(event.summary.len() > 3 && !event.summary.ends_with('.'), "{}", event.kind);
        }
    }

    #[test]
    fn an_event_without_members_has_no_data() {
        assert_eq!(Payload::from(SessionBell {}).data, Value::Null);
        let told = Payload::from(SessionIdle { idle_ms: 7 });
        assert_eq!((told.kind, &told.data["idle_ms"]), ("session.idle", &7.into()));
    }

    #[test]
    fn the_members_of_a_row_are_those_of_its_schema() {
        for event in EVENTS.iter().chain(PUSHES) {
            let mut generator = SchemaGenerator::default();
            let reference = (event.schema)(&mut generator).to_value();
            let definitions = generator.take_definitions(true);
            let name = reference["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
            let members: HashSet<&str> = definitions[name]["properties"]
                .as_object()
                .into_iter()
                .flat_map(|members| members.keys().map(String::as_str))
                .collect();
            assert_eq!(members, event.data.iter().copied().collect(), "{}", event.kind);
        }
    }
}

//! Facts the host tells: the event log and what is pushed to a connection.
//!
//! An [`Event`] is a row of the event log: it has an id that only grows, also across restarts of
//! the daemon, and can be replayed from any id still kept. Pushed notifications that are not in
//! the log (`session.changed`, `session.output`) have their own types here.
//! Absent on purpose: the payload of each kind; `crate::events` has a type for each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Base64;
use crate::time::Timestamp;

/// One fact of the event log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Grows by at least one with each event.
    pub id: u64,
    /// When it happened.
    pub time: Timestamp,
    /// Such as `session.exited`, see `EVENTS`.
    pub kind: String,
    /// The session it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// More, by kind.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// Params of the pushed `server.event`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventPush {
    /// As `server.subscribe` answered.
    pub subscription: String,
    /// The event that happened.
    pub event: Event,
}

/// Params of the pushed `session.changed`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedPush {
    /// Which session.
    pub session: String,
    /// Its sequence number now.
    pub sequence: u64,
}

/// Params of the pushed `session.output`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutputPush {
    /// Which session.
    pub session: String,
    /// As `session.subscribe` answered; absent for `server.set_notifications`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<String>,
    /// The sequence number after this output.
    pub sequence: u64,
    /// The new output as text.
    #[serde(default)]
    pub output: String,
    /// The new output as bytes, when `raw` was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Base64>,
    /// Bytes lost before this output because the client was slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
}

/// Params of the pushed `session.exited`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExitedPush {
    /// Which session.
    pub session: String,
    /// Its last sequence number.
    pub sequence: u64,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<super::session::ExitStatus>,
}

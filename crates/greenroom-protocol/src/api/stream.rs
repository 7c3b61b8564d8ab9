//! A session as a stream, live and recorded: attach, subscribe, mark, replay, export.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::screen::{Size, Snapshot, SnapshotFormat, TranscriptFormat};
use super::words;

/// Params of `session.attach`: the connection carries attach frames after the reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttachParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// Input and resize frames are ignored.
    #[serde(default)]
    pub read_only: bool,
    /// The size of the client's window; without it the client has no say in the size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// Go on after this sequence number if it is recent enough; else, and without it, a keyframe
    /// comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// What the client calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// Detach everybody else.
    #[serde(default)]
    pub exclusive: bool,
}

/// Result of `session.attach`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttachResult {
    /// The session's id.
    pub session: String,
    /// The name of this client, such as `c2`.
    pub client: String,
    /// The sequence number now.
    pub seq: u64,
    /// The terminal's size now.
    pub size: Size,
    /// As asked.
    #[serde(default)]
    pub read_only: bool,
}

/// Params of `session.subscribe`: output is pushed as `session.output`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputSubscribeParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// Output from this sequence number on; without it only new output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Form of the output.
    #[serde(default)]
    pub format: TranscriptFormat,
}

/// Result of `session.subscribe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputSubscribeResult {
    /// Names the pushes; end it with `server.unsubscribe`.
    pub subscription: String,
    /// The session's id.
    pub session: String,
    /// The pushes begin here.
    pub seq: u64,
}

/// Params of `session.mark`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MarkParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// Put into the recording here.
    pub label: String,
}

/// Result of `session.mark`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MarkResult {
    /// Always true.
    pub marked: bool,
    /// Where it was put.
    pub sequence: u64,
}

/// Params of `session.replay`: the screen at a past moment of the recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// After this much time since the session started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
    /// After this much output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_seq: Option<u64>,
    /// Form of the screen.
    #[serde(default)]
    pub format: SnapshotFormat,
    /// How long to wait for filters that are behind: 30000 if left out, 100000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Result of `session.replay`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayResult {
    /// The screen then.
    pub snapshot: Snapshot,
    /// The moment found, since the session started.
    pub at_ms: u64,
    /// Length of the whole recording.
    pub duration_ms: u64,
}

words! {
    /// The form of an export.
    #[derive(Default)]
    ExportFormat {
        /// asciicast v3.
        #[default]
        #[serde(alias = "asciicast", alias = "cast")]
        AsciicastV3 "asciicast-v3",
        /// Output without escape sequences.
        Text "text",
    }
}

/// Params of `session.export`: the recording as a file, in pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// Form of the file.
    #[serde(default)]
    pub format: ExportFormat,
    /// The cursor of the page before; without it from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Most bytes of this page, roughly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// How long to wait for filters that are behind: 30000 if left out, 100000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Result of `session.export`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportResult {
    /// A piece of the file: join them.
    pub data: String,
    /// Ask for the next page with this; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Output that is no longer kept, where this page would have it.
    #[serde(default)]
    pub dropped: u64,
    /// Bytes printed that filters had not answered for in time. The page is shorter for it, perhaps
    /// empty; the rest comes with `cursor`.
    #[serde(default)]
    pub behind: u64,
}

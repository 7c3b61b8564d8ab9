//! What a client can do to a session's terminal: `session.input`.
//!
//! The wire form is `{"type": …, "value": …}`. Key names are texts here; the terminal room knows
//! them and their encoding by mode.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Base64, is_false, screen::Size, session::SignalName};

/// Params of `session.input`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InputParams {
    /// Id, name or unambiguous prefix.
    pub session: String,
    /// What to do.
    pub action: Action,
    /// Presses Enter after the text. Plugins that guard input are asked about the text before any
    /// of it is typed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub submit: bool,
}

/// Result of `session.input`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InputResult {
    /// Always true: the terminal has taken it.
    pub sent: bool,
    /// The session's sequence number just before, to wait `since`.
    #[serde(default)]
    pub sequence: u64,
}

/// One act of input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum Action {
    /// Types text as it is.
    Text(String),
    /// Presses one key, such as `enter`, `ctrl-c`, `shift-f5`, `page_up`.
    Key(String),
    /// Presses keys one after the other.
    Keys(Vec<String>),
    /// Pastes: bracketed if the program asked for that.
    Paste(String),
    /// Pastes bracketed whether the program asked or not.
    BracketedPaste(String),
    /// Types slowly, for programs that mistake a burst for a paste.
    StreamText(StreamText),
    /// Writes bytes as they are.
    Raw(Base64),
    /// A mouse event, if the program listens to the mouse.
    Mouse(Mouse),
    /// Focus gained (true) or lost, if the program asked to know.
    Focus(bool),
    /// Changes the size.
    Resize(Size),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D.
    Eof,
    /// Sends a signal.
    Signal(SignalName),
    /// Ends the session as `session.kill` does.
    Kill,
    /// Puts a label into the recording.
    MarkTranscript(MarkLabel),
}

/// The value of `mark_transcript`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MarkLabel {
    /// The text of the label.
    pub label: String,
}

/// The value of `stream_text`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StreamText {
    /// What to type.
    pub text: String,
    /// Characters at once, 1 to 1024.
    #[serde(default = "StreamText::default_chunk")]
    pub chunk_chars: u32,
    /// Pause between chunks, at most 100.
    #[serde(default = "StreamText::default_delay")]
    pub delay_ms: u32,
}

impl StreamText {
    /// Most characters at once.
    pub const CHUNK_MAX: u32 = 1024;
    /// Longest pause: with it a page of text still takes seconds, not minutes.
    pub const DELAY_MAX_MS: u32 = 100;

    fn default_chunk() -> u32 {
        64
    }

    fn default_delay() -> u32 {
        2
    }
}

/// The value of `mouse`. Cells count from 0 at the top left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mouse {
    /// What the mouse does.
    #[serde(default)]
    pub event: MouseEvent,
    /// With which button; moving with none is a hover.
    #[serde(default)]
    pub button: MouseButton,
    /// Cell row.
    pub row: u16,
    /// Cell column.
    pub col: u16,
    /// Held shift.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shift: bool,
    /// Held alt.
    #[serde(default, skip_serializing_if = "is_false")]
    pub alt: bool,
    /// Held control.
    #[serde(default, skip_serializing_if = "is_false")]
    pub ctrl: bool,
}

/// What a mouse does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MouseEvent {
    /// Press and release at the same place.
    #[default]
    Click,
    /// Button down.
    Press,
    /// Button up.
    Release,
    /// Motion, with or without a button held.
    Move,
}

/// A mouse button or wheel direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MouseButton {
    /// The left button.
    #[default]
    Left,
    /// The wheel pressed.
    Middle,
    /// The right button.
    Right,
    /// No button.
    None,
    /// Wheel away from the user.
    WheelUp,
    /// Wheel towards the user.
    WheelDown,
    /// Wheel to the left.
    WheelLeft,
    /// Wheel to the right.
    WheelRight,
}

//! What the program inside the terminal asked input to look like.
//!
//! In: nothing; [`Screen`](crate::Screen) fills an [`InputModes`] from the mode sequences it has
//! seen. Out: one small `Copy` value that [`encode_key`](crate::encode_key),
//! [`encode_paste`](crate::encode_paste), [`encode_mouse`](crate::encode_mouse) and
//! [`encode_focus`](crate::encode_focus) read.
//!
//! Deliberately absent: modes that only change output (autowrap, origin, insert), and the keyboard
//! stacks: only the value in force matters to an encoder.

/// The input modes in force. The default is a terminal just after a reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputModes {
    /// DECCKM (`CSI ? 1 h`): cursor keys send SS3.
    pub app_cursor: bool,
    /// DECNKM (`ESC =`, `CSI ? 66 h`): keypad keys send SS3.
    pub app_keypad: bool,
    /// `CSI ? 2004 h`: a paste is wrapped in `CSI 200 ~` and `CSI 201 ~`.
    pub bracketed_paste: bool,
    /// `CSI ? 1004 h`: the program wants to know when the terminal gains or loses focus.
    pub focus: bool,
    /// The kitty keyboard flags in force (`CSI > flags u`); see [`kitty`]. Bits that the protocol
    /// does not define are ignored by the encoder.
    pub kitty_flags: u8,
    /// xterm's modifyOtherKeys (`CSI > 4 ; n m`): 0 off, 1 keys without a well-known sequence,
    /// 2 every modified key.
    pub modify_other_keys: u8,
    /// Which mouse events are reported.
    pub mouse: MouseMode,
    /// How a mouse event is written.
    pub mouse_encoding: MouseEncoding,
    /// `CSI ? 1007 h`: on the alternate screen the wheel sends cursor keys while the mouse is not
    /// reported.
    pub alternate_scroll: bool,
    /// DECBKM (`CSI ? 67 h`): backspace sends BS instead of DEL.
    pub backarrow: bool,
}

/// Which mouse events the program wants to see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MouseMode {
    /// None.
    #[default]
    Off,
    /// `CSI ? 9 h`: presses of the three buttons, without modifiers.
    X10,
    /// `CSI ? 1000 h`: presses, releases and the wheel.
    Normal,
    /// `CSI ? 1002 h`: also motion while a button is held.
    Button,
    /// `CSI ? 1003 h`: also motion without a button.
    Any,
}

impl MouseMode {
    /// The number of the private mode that switches it on.
    pub(crate) fn private_mode(self) -> Option<u16> {
        match self {
            MouseMode::Off => None,
            MouseMode::X10 => Some(9),
            MouseMode::Normal => Some(1000),
            MouseMode::Button => Some(1002),
            MouseMode::Any => Some(1003),
        }
    }
}

/// How mouse events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MouseEncoding {
    /// `CSI M` and three bytes; cannot say more than column or row 223.
    #[default]
    Legacy,
    /// `CSI ? 1005 h`: the three values as UTF-8, up to 2015.
    Utf8,
    /// `CSI ? 1006 h`: `CSI < b ; x ; y M` or `m`.
    Sgr,
    /// `CSI ? 1016 h`: as SGR, in pixels.
    SgrPixels,
}

impl MouseEncoding {
    /// The number of the private mode that switches it on.
    pub(crate) fn private_mode(self) -> Option<u16> {
        match self {
            MouseEncoding::Legacy => None,
            MouseEncoding::Utf8 => Some(1005),
            MouseEncoding::Sgr => Some(1006),
            MouseEncoding::SgrPixels => Some(1016),
        }
    }
}

/// The bits of [`InputModes::kitty_flags`].
pub mod kitty {
    /// Keys that were ambiguous (Esc, alt-x, ctrl-x) become `CSI … u`.
    pub const DISAMBIGUATE: u8 = 1;
    /// Press, repeat and release are told apart. We only ever send presses.
    pub const EVENT_TYPES: u8 = 2;
    /// The shifted key is reported beside the key.
    pub const ALTERNATE_KEYS: u8 = 4;
    /// Plain text keys become escapes as well.
    pub const ALL_AS_ESCAPES: u8 = 8;
    /// The text a key produces is reported with it (needs [`ALL_AS_ESCAPES`]).
    pub const ASSOCIATED_TEXT: u8 = 16;
}

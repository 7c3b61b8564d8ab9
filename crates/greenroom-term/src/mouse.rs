//! The mouse and the focus of a terminal, as the program asked to hear of them.
//!
//! In: an event in cells (and pixels, where the sender knows them) and the modes. Out: bytes, or
//! nothing when the program did not ask for such an event or the encoding cannot say it. Source:
//! xterm's `ctlseqs`, "Mouse Tracking".
//!
//! Deliberately absent: highlight tracking (mode 1001), the DEC locator, and the urxvt encoding
//! (1015): nothing alive asks for them.

use crate::input_modes::{InputModes, MouseEncoding, MouseMode};
use crate::keys::{Key, KeyPress, Mods, encode_key};

/// Something the mouse did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MouseEvent {
    pub kind: MouseKind,
    pub mods: Mods,
    /// The cell, from 0.
    pub col: u16,
    pub row: u16,
    /// The pixel, from 0. Without it nothing is sent in [`MouseEncoding::SgrPixels`].
    pub pixel: Option<(u32, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MouseKind {
    Press(MouseButton),
    Release(MouseButton),
    /// With the button that is held, if one is.
    Motion(Option<MouseButton>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MouseButton {
    Left,
    Middle,
    Right,
    WheelUp,
    WheelDown,
    WheelLeft,
    WheelRight,
    Back,
    Forward,
}

/// The largest position the legacy encoding can say: 255 less the offset 32.
const LEGACY_MAX: u32 = 223;
/// The same for UTF-8: two bytes hold up to 2047.
const UTF8_MAX: u32 = 2015;
/// How many lines one turn of the wheel moves a pager, as xterm and VTE have it.
const LINES_PER_TURN: usize = 3;

/// The report of a mouse event, if the program wants it and the encoding can hold it.
pub fn encode_mouse(event: &MouseEvent, modes: &InputModes) -> Option<Vec<u8>> {
    if !is_wanted(event.kind, modes.mouse) {
        return None;
    }
    let released = matches!(event.kind, MouseKind::Release(_));
    let mods = if modes.mouse == MouseMode::X10 { Mods::NONE } else { event.mods };
    let (x, y) = (u32::from(event.col) + 1, u32::from(event.row) + 1);
    match modes.mouse_encoding {
        MouseEncoding::Legacy => {
            let code = anonymous(event.kind, mods);
            let fits = x <= LEGACY_MAX && y <= LEGACY_MAX;
            let byte = |value: u32| u8::try_from(value + 32).ok();
            fits.then_some(())?;
            Some(vec![0x1b, b'[', b'M', byte(code)?, byte(x)?, byte(y)?])
        }
        MouseEncoding::Utf8 => {
            (x <= UTF8_MAX && y <= UTF8_MAX).then_some(())?;
            let mut out = String::from("\x1b[M");
            for value in [anonymous(event.kind, mods), x, y] {
                out.push(char::from_u32(value + 32)?);
            }
            Some(out.into_bytes())
        }
        MouseEncoding::Sgr => Some(sgr(named(event.kind, mods), x, y, released)),
        MouseEncoding::SgrPixels => {
            let (x, y) = event.pixel?;
            Some(sgr(named(event.kind, mods), x.saturating_add(1), y.saturating_add(1), released))
        }
    }
}

/// The report of gained or lost focus, if the program wants it.
pub fn encode_focus(focused: bool, modes: &InputModes) -> Option<Vec<u8>> {
    let report: &[u8] = if focused { b"\x1b[I" } else { b"\x1b[O" };
    modes.focus.then(|| report.to_vec())
}

/// What a turn of the wheel sends on the alternate screen while the mouse is not reported: cursor
/// keys, so that pagers scroll. Ask only while the alternate screen is shown.
pub fn encode_alternate_scroll(up: bool, modes: &InputModes) -> Option<Vec<u8>> {
    if !modes.alternate_scroll || modes.mouse != MouseMode::Off {
        return None;
    }
    let key = KeyPress::from(if up { Key::Up } else { Key::Down });
    Some(encode_key(&key, modes).repeat(LINES_PER_TURN))
}

fn is_wanted(kind: MouseKind, mode: MouseMode) -> bool {
    use MouseButton::{Left, Middle, Right};
    match (mode, kind) {
        (MouseMode::Off, _) => false,
        // A wheel has no release.
        (_, MouseKind::Release(button)) if button.is_wheel() => false,
        (MouseMode::X10, kind) => matches!(kind, MouseKind::Press(Left | Middle | Right)),
        (MouseMode::Normal, kind) => !matches!(kind, MouseKind::Motion(_)),
        (MouseMode::Button, kind) => !matches!(kind, MouseKind::Motion(None)),
        (MouseMode::Any, _) => true,
    }
}

/// The code where a release does not say which button it was.
fn anonymous(kind: MouseKind, mods: Mods) -> u32 {
    match kind {
        MouseKind::Release(_) => 3 + modifier_bits(mods),
        other => named(other, mods),
    }
}

fn named(kind: MouseKind, mods: Mods) -> u32 {
    let button = match kind {
        MouseKind::Press(button) | MouseKind::Release(button) => button.code(),
        MouseKind::Motion(Some(button)) => 32 + button.code(),
        MouseKind::Motion(None) => 32 + 3,
    };
    button + modifier_bits(mods)
}

fn modifier_bits(mods: Mods) -> u32 {
    let bit = |modifier, value| if mods.contains(modifier) { value } else { 0 };
    bit(Mods::SHIFT, 4) + bit(Mods::ALT, 8) + bit(Mods::CTRL, 16)
}

fn sgr(code: u32, x: u32, y: u32, released: bool) -> Vec<u8> {
    format!("\x1b[<{code};{x};{y}{}", if released { 'm' } else { 'M' }).into_bytes()
}

impl MouseButton {
    fn code(self) -> u32 {
        match self {
            Self::Left => 0,
            Self::Middle => 1,
            Self::Right => 2,
            Self::WheelUp => 64,
            Self::WheelDown => 65,
            Self::WheelLeft => 66,
            Self::WheelRight => 67,
            Self::Back => 128,
            Self::Forward => 129,
        }
    }

    fn is_wheel(self) -> bool {
        matches!(self, Self::WheelUp | Self::WheelDown | Self::WheelLeft | Self::WheelRight)
    }
}

//! xterm's key tables, with DECCKM, the application keypad, DECBKM and modifyOtherKeys.
//!
//! In: a canonical press and the modes. Out: bytes. Sources: xterm's `ctlseqs` ("PC-Style Function
//! Keys", "VT220-Style Function Keys") and its page on modified keys. Deliberately absent: Sun, HP
//! and SCO keyboards, 8-bit controls, and a meta key that sets the eighth bit.

use super::{Key, KeyPress, Keypad, Mods, only};
use crate::input_modes::{InputModes, kitty as flags};

/// Modifiers the old encodings have no word for.
const MODERN: [Mods; 2] = [Mods::SUPER, Mods::HYPER];

/// A key that sends a sequence: the number before `~`, or the letter of CSI and SS3.
pub(super) enum Function {
    Number(u8),
    /// Follows DECCKM.
    Cursor(u8),
    /// F1 to F4: SS3 always, CSI only when modified.
    Pf(u8),
}

pub(super) fn encode(press: &KeyPress, modes: &InputModes) -> Vec<u8> {
    let mods = press.mods;
    match press.key {
        Key::Char(c) => text(c, mods, modes),
        Key::Enter => control_key(b"\r", 13, mods, modes),
        Key::Escape => control_key(b"\x1b", 27, mods, modes),
        Key::Tab => tab(mods, modes),
        Key::Backspace => backspace(mods, modes),
        Key::Keypad(key) => keypad(key, mods, modes),
        Key::CapsLock
        | Key::ScrollLock
        | Key::NumLock
        | Key::PrintScreen
        | Key::Pause
        | Key::Menu => super::kitty::encode(press, modes),
        other => function_of(other).map(|f| function(f, mods, modes)).unwrap_or_default(),
    }
}

/// The sequence of a function, editing or cursor key; none for a key without one.
pub(super) fn function_of(key: Key) -> Option<Function> {
    Some(match key {
        Key::Up => Function::Cursor(b'A'),
        Key::Down => Function::Cursor(b'B'),
        Key::Right => Function::Cursor(b'C'),
        Key::Left => Function::Cursor(b'D'),
        Key::Keypad(Keypad::Begin) => Function::Cursor(b'E'),
        Key::End => Function::Cursor(b'F'),
        Key::Home => Function::Cursor(b'H'),
        Key::Insert => Function::Number(2),
        Key::Delete => Function::Number(3),
        Key::PageUp => Function::Number(5),
        Key::PageDown => Function::Number(6),
        Key::F(n @ 1..=4) => Function::Pf(b'P' + n - 1),
        // The gaps are DEC's: 16, 22, 27 and 30 were never keys.
        Key::F(5) => Function::Number(15),
        Key::F(n @ 6..=10) => Function::Number(n + 11),
        Key::F(n @ 11..=14) => Function::Number(n + 12),
        Key::F(n @ 15..=16) => Function::Number(n + 13),
        Key::F(n @ 17..=20) => Function::Number(n + 14),
        Key::F(n @ 21..=24) => Function::Number(n + 21),
        _ => return None,
    })
}

fn function(function: Function, mods: Mods, modes: &InputModes) -> Vec<u8> {
    match function {
        Function::Number(n) => numbered(n, mods),
        Function::Cursor(letter) if mods.is_empty() => {
            // Reporting event types is already the new protocol's form.
            let application = modes.app_cursor && modes.kitty_flags & flags::EVENT_TYPES == 0;
            vec![0x1b, if application { b'O' } else { b'[' }, letter]
        }
        Function::Pf(letter) if mods.is_empty() => vec![0x1b, b'O', letter],
        Function::Cursor(letter) | Function::Pf(letter) => lettered(letter, mods),
    }
}

pub(super) fn numbered(number: u8, mods: Mods) -> Vec<u8> {
    if mods.is_empty() {
        format!("\x1b[{number}~").into_bytes()
    } else {
        format!("\x1b[{number};{}~", mods.parameter()).into_bytes()
    }
}

pub(super) fn lettered(letter: u8, mods: Mods) -> Vec<u8> {
    let letter = char::from(letter);
    if mods.is_empty() {
        format!("\x1b[{letter}").into_bytes()
    } else {
        format!("\x1b[1;{}{letter}", mods.parameter()).into_bytes()
    }
}

fn text(c: char, mods: Mods, modes: &InputModes) -> Vec<u8> {
    if MODERN.iter().any(|modern| mods.contains(*modern)) {
        return csi_u(c, mods);
    }
    if is_other_key(c, mods, modes.modify_other_keys) {
        let typed = if mods.contains(Mods::SHIFT) { shifted(c) } else { c };
        return modified_other(u32::from(typed), mods);
    }
    let mut bytes = Vec::with_capacity(5);
    if mods.contains(Mods::ALT) {
        bytes.push(0x1b);
    }
    let control = mods.contains(Mods::CTRL).then(|| control_of(c)).flatten();
    match control {
        Some(byte) => bytes.push(byte),
        None => {
            let typed = if mods.contains(Mods::SHIFT) { shifted(c) } else { c };
            bytes.extend_from_slice(typed.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    bytes
}

/// Whether modifyOtherKeys at this level turns a text key into a sequence.
fn is_other_key(c: char, mods: Mods, level: u8) -> bool {
    match level {
        0 => false,
        // What has worked for ever goes on: shift types, alt prefixes, ctrl makes C0 controls.
        1 => {
            let rest = mods.without(Mods::ALT);
            if rest.contains(Mods::CTRL | Mods::SHIFT) {
                true
            } else {
                rest.contains(Mods::CTRL) && control_of(c).is_none()
            }
        }
        _ => {
            let only_shift = mods == Mods::SHIFT;
            !mods.is_empty() && (!only_shift || c == ' ')
        }
    }
}

/// Enter and Escape: ctrl and shift were never told apart before modifyOtherKeys.
fn control_key(plain: &[u8], code: u32, mods: Mods, modes: &InputModes) -> Vec<u8> {
    if modes.modify_other_keys > 0 && !mods.is_empty() {
        return modified_other(code, mods);
    }
    prefixed(plain, mods)
}

fn tab(mods: Mods, modes: &InputModes) -> Vec<u8> {
    let shift = mods.contains(Mods::SHIFT);
    let other = match modes.modify_other_keys {
        0 => false,
        1 => !mods.is_empty() && !shift,
        _ => !mods.is_empty() && mods != Mods::SHIFT,
    };
    if other {
        return modified_other(9, mods);
    }
    prefixed(if shift { b"\x1b[Z" } else { b"\t" }, mods)
}

fn backspace(mods: Mods, modes: &InputModes) -> Vec<u8> {
    if modes.modify_other_keys >= 2 && !mods.without(Mods::CTRL).is_empty() {
        return modified_other(127, mods);
    }
    // ctrl sends the other of the two, whichever DECBKM made the first.
    let bs = modes.backarrow != mods.contains(Mods::CTRL);
    prefixed(if bs { b"\x08" } else { b"\x7f" }, mods)
}

fn keypad(key: Keypad, mods: Mods, modes: &InputModes) -> Vec<u8> {
    let Some((application, plain)) = keypad_of(key) else {
        return function_of(Key::Keypad(key))
            .map(|begin| function(begin, mods, modes))
            .unwrap_or_default();
    };
    match plain {
        _ if modes.app_keypad && mods.is_empty() => vec![0x1b, b'O', application],
        _ if modes.app_keypad => {
            format!("\x1bO{}{}", mods.parameter(), char::from(application)).into_bytes()
        }
        '\r' => control_key(b"\r", 13, mods, modes),
        // Shift on a keypad digit does not type the symbol above the other digit.
        c => text(c, mods.without(Mods::SHIFT), modes),
    }
}

/// The letter in application mode and the character otherwise.
pub(super) fn keypad_of(key: Keypad) -> Option<(u8, char)> {
    Some(match key {
        Keypad::Digit(n @ 0..=9) => (b'p' + n, char::from(b'0' + n)),
        Keypad::Decimal => (b'n', '.'),
        Keypad::Divide => (b'o', '/'),
        Keypad::Multiply => (b'j', '*'),
        Keypad::Subtract => (b'm', '-'),
        Keypad::Add => (b'k', '+'),
        Keypad::Enter => (b'M', '\r'),
        Keypad::Equal => (b'X', '='),
        Keypad::Separator => (b'l', ','),
        Keypad::Begin | Keypad::Digit(_) => return None,
    })
}

fn prefixed(plain: &[u8], mods: Mods) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(plain.len() + 1);
    if mods.contains(Mods::ALT) {
        bytes.push(0x1b);
    }
    bytes.extend_from_slice(plain);
    bytes
}

fn modified_other(code: u32, mods: Mods) -> Vec<u8> {
    format!("\x1b[27;{};{code}~", mods.parameter()).into_bytes()
}

fn csi_u(c: char, mods: Mods) -> Vec<u8> {
    format!("\x1b[{};{}u", u32::from(c), mods.parameter()).into_bytes()
}

/// The C0 control that ctrl makes of a key, as xterm and the X library have it.
pub(super) fn control_of(c: char) -> Option<u8> {
    Some(match c {
        'a'..='z' => c as u8 & 0x1f,
        ' ' | '@' | '`' | '2' => 0,
        '[' | '{' | '3' => 0x1b,
        '\\' | '|' | '4' => 0x1c,
        ']' | '}' | '5' => 0x1d,
        '^' | '~' | '6' => 0x1e,
        '_' | '/' | '7' => 0x1f,
        '?' | '8' => 0x7f,
        _ => return None,
    })
}

/// The symbols of a US keyboard, and what the same keys type with shift.
const PLAIN: &str = r"`1234567890-=[]\;',./";
const SHIFTED: &str = r#"~!@#$%^&*()_+{}|:"<>?"#;

/// What stands in `to` where `from` has the character.
fn across(from: &str, to: &str, c: char) -> Option<char> {
    from.chars().zip(to.chars()).find(|(key, _)| *key == c).map(|(_, typed)| typed)
}

/// What the key types with shift.
pub(super) fn shifted(c: char) -> char {
    across(PLAIN, SHIFTED, c).or_else(|| only(c.to_uppercase())).unwrap_or(c)
}

/// The key that types this symbol with shift.
pub(super) fn unshifted(c: char) -> Option<char> {
    across(SHIFTED, PLAIN, c)
}

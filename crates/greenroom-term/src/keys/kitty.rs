//! The kitty keyboard protocol: `CSI code[:shifted] [; modifiers [; text]] u` and its relatives.
//!
//! In: a canonical press and the modes with at least one of the flags 1 and 8. Out: bytes. Source:
//! the protocol's public description. Only presses are sent, so flag 2 (event types) adds nothing:
//! a press is the default event. Deliberately absent: the base-layout key (the third part of the
//! first field), since we know no layout but US.

use super::legacy::{self, Function, lettered, numbered};
use super::{Key, KeyPress, Keypad, Mods};
use crate::input_modes::{InputModes, kitty as flags};

pub(super) fn encode(press: &KeyPress, modes: &InputModes) -> Vec<u8> {
    let all = modes.kitty_flags & flags::ALL_AS_ESCAPES != 0;
    match press.key {
        Key::Char(c) => text(c, press.mods, modes, all),
        // So that `reset` can still be typed into a shell after a crash of the program.
        Key::Enter if !all && press.mods.is_empty() => b"\r".to_vec(),
        Key::Tab if !all && press.mods.is_empty() => b"\t".to_vec(),
        Key::Backspace if !all && press.mods.is_empty() => legacy::encode(press, modes),
        Key::Keypad(Keypad::Begin) => lettered(b'E', press.mods),
        Key::Keypad(key) => keypad(key, press.mods, modes),
        // F3 as `CSI R` would look like a cursor report.
        Key::F(3) => numbered(13, press.mods),
        Key::F(n @ 13..=24) => coded(57_363 + u32::from(n), press.mods),
        other => match code_of(other) {
            Some(code) => coded(code, press.mods),
            None => match legacy::function_of(other) {
                Some(Function::Number(n)) => numbered(n, press.mods),
                Some(Function::Cursor(letter) | Function::Pf(letter)) => {
                    lettered(letter, press.mods)
                }
                None => Vec::new(),
            },
        },
    }
}

fn code_of(key: Key) -> Option<u32> {
    Some(match key {
        Key::Escape => 27,
        Key::Enter => 13,
        Key::Tab => 9,
        Key::Backspace => 127,
        Key::CapsLock => 57_358,
        Key::ScrollLock => 57_359,
        Key::NumLock => 57_360,
        Key::PrintScreen => 57_361,
        Key::Pause => 57_362,
        Key::Menu => 57_363,
        _ => return None,
    })
}

fn text(c: char, mods: Mods, modes: &InputModes, all: bool) -> Vec<u8> {
    let (key, mods) = match legacy::unshifted(c) {
        Some(lower) => (lower, mods | Mods::SHIFT),
        None => (c, mods),
    };
    let shift = mods.contains(Mods::SHIFT);
    let typed = if shift { legacy::shifted(key) } else { key };
    let types_text = mods.without(Mods::SHIFT).is_empty();
    if types_text && !all {
        return typed.to_string().into_bytes();
    }
    let alternate = (modes.kitty_flags & flags::ALTERNATE_KEYS != 0 && shift && typed != key)
        .then_some(u32::from(typed));
    let text = (all && types_text && modes.kitty_flags & flags::ASSOCIATED_TEXT != 0)
        .then_some(u32::from(typed));
    report(u32::from(key), alternate, mods, text)
}

fn keypad(key: Keypad, mods: Mods, modes: &InputModes) -> Vec<u8> {
    let code = match key {
        Keypad::Digit(n @ 0..=9) => 57_399 + u32::from(n),
        Keypad::Decimal => 57_409,
        Keypad::Divide => 57_410,
        Keypad::Multiply => 57_411,
        Keypad::Subtract => 57_412,
        Keypad::Add => 57_413,
        Keypad::Enter => 57_414,
        Keypad::Equal => 57_415,
        Keypad::Separator => 57_416,
        Keypad::Begin | Keypad::Digit(_) => return Vec::new(),
    };
    let wants_text = flags::ALL_AS_ESCAPES | flags::ASSOCIATED_TEXT;
    let text = (modes.kitty_flags & wants_text == wants_text && mods.is_empty())
        .then(|| legacy::keypad_of(key))
        .flatten()
        .filter(|(_, c)| !c.is_control())
        .map(|(_, c)| u32::from(c));
    report(code, None, mods, text)
}

fn report(key: u32, alternate: Option<u32>, mods: Mods, text: Option<u32>) -> Vec<u8> {
    let mut out = format!("\x1b[{key}");
    if let Some(alternate) = alternate {
        out += &format!(":{alternate}");
    }
    if !mods.is_empty() {
        out += &format!(";{}", mods.parameter());
    }
    if let Some(text) = text {
        out += if mods.is_empty() { ";;" } else { ";" };
        out += &text.to_string();
    }
    out.push('u');
    out.into_bytes()
}

fn coded(code: u32, mods: Mods) -> Vec<u8> {
    report(code, None, mods, None)
}

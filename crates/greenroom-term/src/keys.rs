//! Keys: from the names people and scripts write to the bytes a program expects.
//!
//! In: a [`KeyPress`], built or parsed from any of the usual spellings (`ctrl-c`, `C-c`, `ctrl_c`,
//! `^c`, `shift-enter`, `page_up`, `f5`, `é`). Out: the bytes for the modes in force
//! ([`encode_key`]). Names are in `keys/names.rs`, xterm's tables and modifyOtherKeys in
//! `keys/legacy.rs`, the kitty keyboard protocol in `keys/kitty.rs`.
//!
//! Deliberately absent: key releases and repeats (a host that types for somebody only presses),
//! keyboard layouts other than US for shifted symbols, and text longer than one character: that is
//! text or a paste, not a key.

use std::fmt;

use crate::input_modes::{InputModes, kitty as flags};

mod kitty;
mod legacy;
mod names;

pub use names::KeyError;
use names::MODIFIERS;

/// A key with the modifiers held. Always canonical: see [`KeyPress::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyPress {
    key: Key,
    mods: Mods,
}

/// A key on the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A key that types this character.
    Char(char),
    Enter,
    Escape,
    Tab,
    Backspace,
    Delete,
    Insert,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    /// F1 to F24. Other numbers are no key and encode to nothing.
    F(u8),
    Keypad(Keypad),
    CapsLock,
    ScrollLock,
    NumLock,
    PrintScreen,
    Pause,
    Menu,
}

/// A key of the numeric keypad, with Num Lock on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keypad {
    /// 0 to 9. Other numbers are no key and encode to nothing.
    Digit(u8),
    Decimal,
    Divide,
    Multiply,
    Subtract,
    Add,
    Enter,
    Equal,
    Separator,
    /// The middle key without Num Lock.
    Begin,
}

/// A set of modifiers; the bits are those xterm and kitty put on the wire.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Mods(u8);

/// The bytes a terminal in these modes sends for the key; empty for a key that does not exist
/// ([`Key::F`] beyond 24).
pub fn encode_key(press: &KeyPress, modes: &InputModes) -> Vec<u8> {
    if modes.kitty_flags & (flags::DISAMBIGUATE | flags::ALL_AS_ESCAPES) != 0 {
        kitty::encode(press, modes)
    } else {
        legacy::encode(press, modes)
    }
}

impl KeyPress {
    /// One press, one value: an upper-case letter becomes its lower-case key with shift, a control
    /// character the key that types it. A C1 control is no key and becomes U+FFFD, so that no
    /// encoding ever carries it.
    pub fn new(key: Key, mods: Mods) -> Self {
        let Key::Char(c) = key else { return Self { key, mods } };
        match c {
            '\r' | '\n' => Self { key: Key::Enter, mods },
            '\t' => Self { key: Key::Tab, mods },
            '\u{1b}' => Self { key: Key::Escape, mods },
            '\u{7f}' => Self { key: Key::Backspace, mods },
            '\0' => Self { key: Key::Char(' '), mods: mods | Mods::CTRL },
            '\u{1}'..='\u{1f}' => {
                let typed = char::from(c as u8 | 0x40).to_ascii_lowercase();
                Self { key: Key::Char(typed), mods: mods | Mods::CTRL }
            }
            '\u{80}'..='\u{9f}' => Self { key: Key::Char(char::REPLACEMENT_CHARACTER), mods },
            _ => match lower_of(c) {
                Some(lower) => Self { key: Key::Char(lower), mods: mods | Mods::SHIFT },
                None => Self { key, mods },
            },
        }
    }

    pub fn key(&self) -> Key {
        self.key
    }

    pub fn mods(&self) -> Mods {
        self.mods
    }
}

impl From<Key> for KeyPress {
    fn from(key: Key) -> Self {
        Self::new(key, Mods::NONE)
    }
}

impl Mods {
    pub const NONE: Self = Self(0);
    pub const SHIFT: Self = Self(1);
    pub const ALT: Self = Self(2);
    pub const CTRL: Self = Self(4);
    pub const SUPER: Self = Self(8);
    pub const HYPER: Self = Self(16);

    /// The parameter of xterm and kitty sequences: one more than the bits.
    pub(crate) fn parameter(self) -> u8 {
        self.0 + 1
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl std::ops::BitOr for Mods {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Mods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            MODIFIERS.iter().filter(|(_, m)| self.contains(*m)).map(|(name, _)| *name).collect();
        write!(f, "Mods({})", names.join("|"))
    }
}

/// The lower-case letter on the same key, if there is exactly one.
fn lower_of(c: char) -> Option<char> {
    let lower = only(c.to_lowercase())?;
    (lower != c && only(lower.to_uppercase()) == Some(c)).then_some(lower)
}

/// The character, if it is a single one.
fn only(mut chars: impl Iterator<Item = char>) -> Option<char> {
    chars.next().filter(|_| chars.next().is_none())
}

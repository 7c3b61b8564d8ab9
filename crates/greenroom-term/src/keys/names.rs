//! Names of keys, both ways.
//!
//! In: any of the usual spellings. Out: a [`KeyPress`], or an error that suggests the nearest name;
//! and back, in one spelling that reads again as the same press. Three tables hold every name.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::{Key, KeyPress, Keypad, Mods, lower_of};

/// Why a key name was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    #[error("a key name is empty")]
    Empty,
    #[error("cannot read key {name:?}: it names modifiers but no key")]
    OnlyModifiers { name: String },
    #[error("cannot read key {name:?}: the control character U+{code:04X} is no key")]
    Control { name: String, code: u32 },
    #[error("unknown key {name:?}{}", did_you_mean(.nearest))]
    Unknown { name: String, nearest: Option<String> },
}

impl Key {
    /// The names of all keys that are not written as the character they type, for completion.
    pub fn names() -> impl Iterator<Item = &'static str> {
        named().map(|(name, _)| name)
    }
}

impl fmt::Display for KeyPress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, modifier) in MODIFIERS {
            if self.mods.contains(*modifier) {
                write!(f, "{name}-")?;
            }
        }
        match (named().find(|(_, key)| *key == self.key), self.key) {
            (Some((name, _)), _) => f.write_str(name),
            (None, Key::Char(c)) => write!(f, "{c}"),
            (None, other) => write!(f, "{other:?}"),
        }
    }
}

impl FromStr for KeyPress {
    type Err = KeyError;

    fn from_str(name: &str) -> Result<Self, KeyError> {
        if name.is_empty() {
            return Err(KeyError::Empty);
        }
        let (mut mods, rest) = split_modifiers(name);
        if rest.is_empty() {
            return Err(KeyError::OnlyModifiers { name: name.into() });
        }
        let mut key = key_of(rest).ok_or_else(|| unknown(name, rest))?;
        if let Key::Char(c @ '\u{80}'..='\u{9f}') = key {
            return Err(KeyError::Control { name: name.into(), code: c.into() });
        }
        // People write Ctrl-C and mean the key that interrupts, not ctrl-shift-c.
        if let Key::Char(c) = key
            && mods.contains(Mods::CTRL)
        {
            key = Key::Char(lower_of(c).unwrap_or(c));
        }
        // `backtab` is shift-tab's other name.
        if squash(rest) == "backtab" {
            mods = mods | Mods::SHIFT;
        }
        Ok(Self::new(key, mods))
    }
}

/// In the order they are written.
pub(super) const MODIFIERS: &[(&str, Mods)] = &[
    ("ctrl", Mods::CTRL),
    ("alt", Mods::ALT),
    ("shift", Mods::SHIFT),
    ("super", Mods::SUPER),
    ("hyper", Mods::HYPER),
];

/// `meta` means alt, as in Emacs and tmux.
const MODIFIER_ALIASES: &[(&str, Mods)] = &[
    ("control", Mods::CTRL),
    ("c", Mods::CTRL),
    ("option", Mods::ALT),
    ("opt", Mods::ALT),
    ("meta", Mods::ALT),
    ("m", Mods::ALT),
    ("a", Mods::ALT),
    ("s", Mods::SHIFT),
    ("cmd", Mods::SUPER),
    ("command", Mods::SUPER),
    ("win", Mods::SUPER),
];

/// `f1` is the first.
const FUNCTION_KEYS: [&str; 24] = [
    "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12", "f13", "f14", "f15",
    "f16", "f17", "f18", "f19", "f20", "f21", "f22", "f23", "f24",
];

/// `kp-0` is the first.
const KEYPAD_DIGITS: [&str; 10] =
    ["kp-0", "kp-1", "kp-2", "kp-3", "kp-4", "kp-5", "kp-6", "kp-7", "kp-8", "kp-9"];

/// Every key with a name, in the spelling we print. Case, `-` and `_` do not matter when reading.
fn named() -> impl Iterator<Item = (&'static str, Key)> {
    let function_keys = FUNCTION_KEYS.into_iter().zip(1..).map(|(name, n)| (name, Key::F(n)));
    let digits = KEYPAD_DIGITS.into_iter().zip(0..);
    let digits = digits.map(|(name, n)| (name, Key::Keypad(Keypad::Digit(n))));
    NAMES.iter().copied().chain(function_keys).chain(digits)
}

/// The keys that are not numbered.
const NAMES: &[(&str, Key)] = &[
    ("enter", Key::Enter),
    ("escape", Key::Escape),
    ("tab", Key::Tab),
    ("backspace", Key::Backspace),
    ("delete", Key::Delete),
    ("insert", Key::Insert),
    ("space", Key::Char(' ')),
    ("up", Key::Up),
    ("down", Key::Down),
    ("left", Key::Left),
    ("right", Key::Right),
    ("home", Key::Home),
    ("end", Key::End),
    ("pageup", Key::PageUp),
    ("pagedown", Key::PageDown),
    ("kp-decimal", Key::Keypad(Keypad::Decimal)),
    ("kp-divide", Key::Keypad(Keypad::Divide)),
    ("kp-multiply", Key::Keypad(Keypad::Multiply)),
    ("kp-subtract", Key::Keypad(Keypad::Subtract)),
    ("kp-add", Key::Keypad(Keypad::Add)),
    ("kp-enter", Key::Keypad(Keypad::Enter)),
    ("kp-equal", Key::Keypad(Keypad::Equal)),
    ("kp-separator", Key::Keypad(Keypad::Separator)),
    ("kp-begin", Key::Keypad(Keypad::Begin)),
    ("caps-lock", Key::CapsLock),
    ("scroll-lock", Key::ScrollLock),
    ("num-lock", Key::NumLock),
    ("print-screen", Key::PrintScreen),
    ("pause", Key::Pause),
    ("menu", Key::Menu),
];

/// Other spellings, already squashed.
const ALIASES: &[(&str, Key)] = &[
    ("return", Key::Enter),
    ("ret", Key::Enter),
    ("cr", Key::Enter),
    ("esc", Key::Escape),
    ("backtab", Key::Tab),
    ("bs", Key::Backspace),
    ("bspace", Key::Backspace),
    ("del", Key::Delete),
    ("dc", Key::Delete),
    ("ins", Key::Insert),
    ("ic", Key::Insert),
    ("spc", Key::Char(' ')),
    ("pgup", Key::PageUp),
    ("ppage", Key::PageUp),
    ("prior", Key::PageUp),
    ("pgdn", Key::PageDown),
    ("pgdown", Key::PageDown),
    ("npage", Key::PageDown),
    ("next", Key::PageDown),
    ("kpplus", Key::Keypad(Keypad::Add)),
    ("kpminus", Key::Keypad(Keypad::Subtract)),
    ("kpdot", Key::Keypad(Keypad::Decimal)),
    ("plus", Key::Char('+')),
    ("minus", Key::Char('-')),
    ("hyphen", Key::Char('-')),
    ("underscore", Key::Char('_')),
    ("equals", Key::Char('=')),
    ("comma", Key::Char(',')),
    ("dot", Key::Char('.')),
    ("period", Key::Char('.')),
    ("slash", Key::Char('/')),
    ("backslash", Key::Char('\\')),
    ("semicolon", Key::Char(';')),
    ("colon", Key::Char(':')),
    ("quote", Key::Char('\'')),
    ("backtick", Key::Char('`')),
    ("tilde", Key::Char('~')),
    ("pipe", Key::Char('|')),
];

/// Takes modifiers off the front as long as a separator follows them.
fn split_modifiers(name: &str) -> (Mods, &str) {
    let mut mods = Mods::NONE;
    let mut rest = name;
    // `^c`, but not the key `^` itself.
    if let Some(caret) = rest.strip_prefix('^')
        && caret.chars().count() == 1
    {
        return (Mods::CTRL, caret);
    }
    'next: loop {
        for (modifier, bit) in MODIFIERS.iter().chain(MODIFIER_ALIASES) {
            let Some((head, tail)) = rest.split_at_checked(modifier.len()) else { continue };
            // A single letter is only a modifier before a dash: `a_b` is nothing.
            let separators: &[char] = if modifier.len() == 1 { &['-'] } else { &['-', '_', '+'] };
            if head.eq_ignore_ascii_case(modifier)
                && let Some(after) = tail.strip_prefix(separators)
            {
                mods = mods | *bit;
                rest = after;
                continue 'next;
            }
        }
        return (mods, rest);
    }
}

fn key_of(name: &str) -> Option<Key> {
    let mut chars = name.chars();
    if let (Some(c), None) = (chars.next(), chars.next()) {
        return Some(Key::Char(c));
    }
    let wanted = squash(name);
    let aliases = ALIASES.iter().copied().filter(|(known, _)| *known == wanted);
    named().filter(|(known, _)| squash(known) == wanted).chain(aliases).next().map(|(_, key)| key)
}

/// A name without what does not matter in it.
fn squash(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
}

/// Names longer than this are not compared: no key comes near, and the comparison is quadratic.
const LONGEST_COMPARED: usize = 24;

fn unknown(name: &str, rest: &str) -> KeyError {
    let wanted = squash(rest);
    let prefix = &name[..name.len() - rest.len()];
    let nearest = (wanted.chars().count() <= LONGEST_COMPARED)
        .then(|| {
            named()
                .chain(ALIASES.iter().copied())
                .map(|(known, _)| (strsim::levenshtein(&wanted, &squash(known)), known))
                .min_by_key(|(distance, _)| *distance)
        })
        .flatten()
        .filter(|(distance, known)| *distance <= 1 + known.len() / 4)
        .map(|(_, known)| format!("{prefix}{known}"));
    KeyError::Unknown { name: shortened(name), nearest }
}

/// What an error repeats of a name somebody sent.
fn shortened(name: &str) -> String {
    let mut short: String = name.chars().take(LONGEST_COMPARED + 8).collect();
    if short.len() < name.len() {
        short.push('…');
    }
    short
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default()
}

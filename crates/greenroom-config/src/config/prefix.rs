//! The key that starts a command while attached: how it is named.

use std::fmt;
use std::str::FromStr;

/// A key with Ctrl; `None` turns commands off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefix(Option<char>);

impl Prefix {
    /// The key that is pressed with Ctrl, in lower case.
    pub fn key(self) -> Option<char> {
        self.0
    }

    /// The byte a terminal without a keyboard protocol sends for it.
    pub fn byte(self) -> Option<u8> {
        self.0.map(|key| if key == ' ' { 0 } else { (key as u8).to_ascii_uppercase() & 0x1f })
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let lower = text.to_ascii_lowercase();
        if lower == "none" {
            return Ok(Prefix(None));
        }
        let names = ["ctrl-", "ctrl+", "ctrl_", "c-", "^"];
        let key =
            names.iter().find_map(|name| lower.strip_prefix(name)).filter(|key| !key.is_empty());
        let key = key.map(|key| if key == "space" { " " } else { key });
        let mut chars = key.unwrap_or_default().chars();
        // Ctrl-[ is Escape itself, and the sequences we look for begin with it.
        match (chars.next(), chars.next()) {
            (Some(key @ ('a'..='z' | '@' | '\\' | ']' | '^' | '_' | ' ')), None) => {
                Ok(Prefix(Some(key)))
            }
            _ => Err("a key with ctrl is wanted, such as ctrl-b, or none".to_owned()),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("none"),
            Some(' ') => f.write_str("Ctrl-space"),
            Some(key) => write!(f, "Ctrl-{key}"),
        }
    }
}

//! The names of objects.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of an object: 40 or 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Oid(String);

impl Oid {
    pub fn parse(text: &[u8]) -> Option<Oid> {
        let hex = matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit);
        let text = std::str::from_utf8(text).ok()?;
        (hex && text.bytes().any(|digit| digit != b'0')).then(|| Oid(text.to_ascii_lowercase()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As people write it.
    pub fn short(&self) -> &str {
        &self.0[..10]
    }

    /// "No object", in as many digits.
    pub(super) fn zero(&self) -> String {
        "0".repeat(self.0.len())
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

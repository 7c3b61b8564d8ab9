//! Names for things that are counted: sessions, clients, bytes of output.
//!
//! Newtypes, so that a sequence number cannot be passed where an id is meant.

use std::fmt;
use std::str::FromStr;

/// A session, written `s3`. Never reused within one state directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

impl FromStr for SessionId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.strip_prefix('s').ok_or(())?;
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(());
        }
        digits.parse().map(SessionId).map_err(|_| ())
    }
}

/// Position in a session's output: the number of bytes before this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seq(pub u64);

impl Seq {
    #[must_use]
    pub fn plus(self, bytes: u64) -> Seq {
        Seq(self.0 + bytes)
    }

    /// Bytes from `earlier` up to here; 0 when `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Seq) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An attached viewer of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_read_back_as_written() {
        assert_eq!("s12".parse(), Ok(SessionId(12)));
        assert_eq!(SessionId(12).to_string(), "s12");
        for wrong in ["", "s", "12", "s-1", "s1x", "S1", "s99999999999999999999999"] {
            assert_eq!(wrong.parse::<SessionId>(), Err(()), "{wrong}");
        }
    }
}

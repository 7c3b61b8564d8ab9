//! What governs the output of one session, noted beside its journal when it starts.
//!
//! A journal outlives the daemon that knew what must not be shown of it: which values there are,
//! who filters it, and whether its own terminal is filtered. The next daemon learns it here, and
//! shows nothing if it cannot be had. In: those facts. Out: the same, or the error that they are
//! damaged: the file has a checksum, and the session's number is in it. Deliberately absent: the
//! values themselves (`vault`), and what filters mean by their note.

use std::io;
use std::path::{Path, PathBuf};

use crate::id::SessionId;
use crate::keep::{self, Lasting};

/// The file in a session's directory.
const FILE: &str = "terms";

const MAGIC: &[u8; 8] = b"grterms1";

/// Notes of all filters of a session: far more than any have.
const FILE_MAX: u64 = 4 * 1024 * 1024;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The local human's own attach stream is filtered, too.
    pub attach: bool,
    /// How many values are sealed beside it.
    pub values: u32,
    /// Who filters it, in their own words; `None` if nobody did.
    pub filters: Option<Vec<u8>>,
}

impl Terms {
    pub(crate) fn file(dir: &Path) -> PathBuf {
        dir.join(FILE)
    }

    /// Whether there is anything that must not be lost.
    fn matter(&self) -> bool {
        *self != Terms::default()
    }

    pub(crate) fn write(&self, dir: &Path, id: SessionId) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(u8::from(self.attach));
        bytes.extend(self.values.to_le_bytes());
        bytes.push(u8::from(self.filters.is_some()));
        let filters = self.filters.as_deref().unwrap_or_default();
        bytes.extend(u32::try_from(filters.len()).map_err(io::Error::other)?.to_le_bytes());
        bytes.extend(filters);
        bytes.extend(keep::checksum(&id.0.to_le_bytes(), &bytes).to_le_bytes());
        let lasting = if self.matter() { Lasting::Machine } else { Lasting::Process };
        keep::write(&Terms::file(dir), &bytes, lasting)
    }

    /// `None` if there is no such file.
    pub(crate) fn read(dir: &Path, id: SessionId) -> io::Result<Option<Terms>> {
        let Some(bytes) = keep::read(&Terms::file(dir), FILE_MAX)? else { return Ok(None) };
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "it is damaged");
        let (body, sum) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
        // The session is in the sum: another session's file is as good as a damaged one.
        if u32::from_le_bytes(*sum) != keep::checksum(&id.0.to_le_bytes(), body) {
            return Err(damaged());
        }
        Terms::parse(body).map(Some).ok_or_else(damaged)
    }

    fn parse(body: &[u8]) -> Option<Terms> {
        let rest = body.strip_prefix(MAGIC)?;
        let (attach, rest) = rest.split_first()?;
        let (values, rest) = rest.split_first_chunk::<4>()?;
        let (filtered, rest) = rest.split_first()?;
        let (len, filters) = rest.split_first_chunk::<4>()?;
        let whole = filters.len() == u32::from_le_bytes(*len) as usize;
        whole.then(|| Terms {
            attach: *attach != 0,
            values: u32::from_le_bytes(*values),
            filters: (*filtered != 0).then(|| filters.to_vec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_come_back_and_every_damage_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let id = SessionId(7);
        assert_eq!(Terms::read(dir.path(), id).unwrap(), None);
        let many = Terms { attach: true, values: 3, filters: Some(b"guard".to_vec()) };
        for terms in [Terms::default(), many] {
            terms.write(dir.path(), id).unwrap();
            assert_eq!(Terms::read(dir.path(), id).unwrap(), Some(terms));
            assert!(Terms::read(dir.path(), SessionId(8)).is_err(), "another session's");
            let path = Terms::file(dir.path());
            let whole = std::fs::read(&path).unwrap();
            for at in 0..whole.len() {
                let mut flipped = whole.clone();
                flipped[at] ^= 0x20;
                for broken in [&flipped[..], &whole[..at]] {
                    std::fs::write(&path, broken).unwrap();
                    assert!(Terms::read(dir.path(), id).is_err(), "{at}");
                }
            }
        }
    }
}

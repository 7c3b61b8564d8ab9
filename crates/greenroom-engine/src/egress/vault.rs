//! The values of a session, kept for the next daemon: sealed with the host's key, beside the
//! journal.
//!
//! A journal outlives the process whose secrets are in it, and the daemon that knew them; whoever
//! reads it later must know them, too. The file does not show a value to whoever looks through the
//! directory, a backup or a crash dump of it. It is no protection against someone who may read all
//! of the state directory: the journal lies there as well.

use std::io;
use std::path::{Path, PathBuf};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

use crate::id::SessionId;
use crate::keep::{self, Lasting};

/// The host's key: 32 random bytes, made once per state directory.
#[derive(Clone, PartialEq, Eq)]
pub struct HostKey([u8; 32]);

impl std::fmt::Debug for HostKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostKey(hidden)")
    }
}

/// The file in a session's directory.
const FILE: &str = "values";

/// As an older version wrote it: not bound to its session.
const MAGIC_OLD: &[u8; 8] = b"grvals\0\x01";
const MAGIC: &[u8; 8] = b"grvalue2";

/// All values of a session: as much as an environment may have.
const FILE_MAX: u64 = 4 * 1024 * 1024;

/// The key's file: this, the key, a checksum of both. An older version wrote the key alone.
const KEY_MAGIC: &[u8; 8] = b"grvalkey";

/// A key, and what there is to say about how it was had.
#[derive(Debug)]
pub struct LoadedKey {
    pub key: HostKey,
    /// The old one cannot be used: what was sealed with it cannot be opened any more.
    pub trouble: Option<String>,
}

impl HostKey {
    /// Reads the key in `file`, or makes one. An unusable file is set aside: the host needs a key
    /// more than it needs that one.
    pub fn load(file: &Path) -> io::Result<LoadedKey> {
        let why = match keep::read(file, 4096) {
            Ok(None) => None,
            Ok(Some(bytes)) => match HostKey::parse(&bytes) {
                Some(key) => return Ok(LoadedKey { key, trouble: None }),
                None => Some("it is damaged".to_owned()),
            },
            Err(error) => Some(error.to_string()),
        };
        let key = HostKey::passing()?;
        let made = HostKey::replace(file, why.is_some(), &key);
        let trouble = match (why, made) {
            (None, Ok(_)) => None,
            (Some(why), Ok(aside)) => {
                let aside = aside.map(|aside| format!(", set aside as {}", aside.display()));
                let aside = aside.unwrap_or_default();
                Some(format!("the key {} cannot be used ({why}){aside}", file.display()))
            }
            (why, Err(error)) => {
                let why = why.map_or(String::new(), |why| format!(" ({why})"));
                let file = file.display();
                Some(format!("the key {file} cannot be used{why} nor made anew ({error})"))
            }
        };
        Ok(LoadedKey { key, trouble })
    }

    fn replace(file: &Path, occupied: bool, key: &HostKey) -> io::Result<Option<PathBuf>> {
        let aside = if occupied { Some(keep::set_aside(file)?) } else { None };
        let mut bytes = KEY_MAGIC.to_vec();
        bytes.extend(key.0);
        keep::write(file, &keep::checked(&bytes), Lasting::Machine)?;
        Ok(aside)
    }

    fn parse(bytes: &[u8]) -> Option<HostKey> {
        if let Ok(old) = <[u8; 32]>::try_from(bytes) {
            return Some(HostKey(old));
        }
        let key = keep::unchecked(bytes)?.strip_prefix(KEY_MAGIC)?;
        Some(HostKey(key.try_into().ok()?))
    }

    /// A key for this process only.
    pub fn passing() -> io::Result<HostKey> {
        Ok(HostKey(random()?))
    }

    /// Writes the values of session `id` into its directory, which must exist; none make no file.
    pub fn seal(&self, dir: &Path, id: SessionId, values: &[Vec<u8>]) -> io::Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let nonce: [u8; 24] = random()?;
        let mut body = Vec::new();
        for value in values {
            let len = u32::try_from(value.len()).map_err(io::Error::other)?;
            body.extend(len.to_le_bytes());
            body.extend_from_slice(value);
        }
        let payload = Payload { msg: &body, aad: &id.0.to_le_bytes() };
        let sealed = self.cipher().encrypt(&XNonce::from(nonce), payload);
        let sealed = sealed.map_err(|_| io::Error::other("too many values to seal"))?;
        let mut file = MAGIC.to_vec();
        file.extend(nonce);
        file.extend(sealed);
        keep::write(&HostKey::file(dir), &file, Lasting::Machine)
    }

    /// Where the values of the session in `dir` are.
    pub fn file(dir: &Path) -> PathBuf {
        dir.join(FILE)
    }

    /// The values sealed in `dir` for session `id`; `None` if there is no file.
    pub fn open(&self, dir: &Path, id: SessionId) -> io::Result<Option<Vec<Vec<u8>>>> {
        let Some(bytes) = keep::read(&HostKey::file(dir), FILE_MAX)? else { return Ok(None) };
        let damaged = || {
            let what = "it is damaged, or was sealed with another key";
            io::Error::new(io::ErrorKind::InvalidData, what)
        };
        let id = id.0.to_le_bytes();
        let (rest, aad) = match (bytes.strip_prefix(MAGIC), bytes.strip_prefix(MAGIC_OLD)) {
            (Some(rest), _) => (rest, &id[..]),
            (None, Some(rest)) => (rest, &[][..]),
            (None, None) => return Err(damaged()),
        };
        let (nonce, sealed) = rest.split_first_chunk::<24>().ok_or_else(damaged)?;
        let payload = Payload { msg: sealed, aad };
        let opened = self.cipher().decrypt(&XNonce::from(*nonce), payload);
        let body = opened.map_err(|_| damaged())?;
        let mut values = Vec::new();
        let mut rest = body.as_slice();
        while let Some((len, after)) = rest.split_first_chunk::<4>() {
            let len = u32::from_le_bytes(*len) as usize;
            values.push(after.get(..len).ok_or_else(damaged)?.to_vec());
            rest = &after[len..];
        }
        Ok(Some(values))
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.0.into())
    }
}

pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        let flags = rustix::rand::GetRandomFlags::empty();
        let rest = &mut bytes[filled..];
        filled += rustix::io::retry_on_intr(|| rustix::rand::getrandom(&mut *rest, flags))?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SessionId = SessionId(1);

    fn load(file: &Path) -> HostKey {
        let LoadedKey { key, trouble } = HostKey::load(file).unwrap();
        assert_eq!(trouble, None);
        key
    }

    #[test]
    fn values_come_back_and_are_not_to_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let key = load(&dir.path().join("key"));
        assert_eq!(load(&dir.path().join("key")), key);
        let values = vec![b"hunter2 hunter2".to_vec(), vec![], vec![7; 100]];
        key.seal(dir.path(), ONE, &values).unwrap();
        assert_eq!(key.open(dir.path(), ONE).unwrap(), Some(values));
        let file = std::fs::read(dir.path().join(FILE)).unwrap();
        assert!(!file.windows(7).any(|seven| seven == b"hunter2"));
        assert!(HostKey::passing().unwrap().open(dir.path(), ONE).is_err(), "another key");
        assert!(key.open(dir.path(), SessionId(2)).is_err(), "another session");
    }

    #[test]
    fn no_values_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let key = HostKey::passing().unwrap();
        key.seal(dir.path(), ONE, &[]).unwrap();
        assert_eq!(key.open(dir.path(), ONE).unwrap(), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_key_that_cannot_be_used_gives_way_to_another_and_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        let first = load(&file);
        let whole = std::fs::read(&file).unwrap();
        let mut flipped = whole.clone();
        flipped[20] ^= 1;
        for (number, broken) in [&b""[..], b"short", &whole[..31], &flipped].iter().enumerate() {
            std::fs::write(&file, broken).unwrap();
            let LoadedKey { key, trouble } = HostKey::load(&file).unwrap();
            assert!(key != first);
            let said = trouble.unwrap();
            let aside = dir.path().join(format!("key.damaged-{}", number + 1));
            assert!(said.contains("cannot be used") && said.contains(&*aside.to_string_lossy()));
            assert_eq!(std::fs::read(aside).unwrap(), *broken);
            assert_eq!(load(&file), key, "the new one stays");
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(HostKey::load(&file).unwrap().trouble.is_some());
        // As an older version wrote it.
        std::fs::write(&file, [7; 32]).unwrap();
        assert_eq!(load(&file), HostKey([7; 32]));
    }
}

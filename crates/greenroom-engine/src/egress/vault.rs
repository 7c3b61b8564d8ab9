//! The values of a session, kept for the next daemon: sealed with the host's key, beside the journal.
//!
//! A journal outlives the process whose secrets are in it, and the daemon that knew them; whoever reads it later must
//! know them, too. The file does not show a value to whoever looks through the directory, a backup or a crash dump of
//! it. It is no protection against someone who may read all of the state directory: the journal lies there as well.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};

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

const MAGIC: &[u8; 8] = b"grvals\0\x01";

/// All values of a session: as much as an environment may have.
const FILE_MAX: u64 = 4 * 1024 * 1024;

impl HostKey {
    /// Reads the key in `file`, or makes one.
    pub fn load(file: &Path) -> io::Result<HostKey> {
        match OpenOptions::new().read(true).open(file) {
            Ok(opened) => {
                let mut key = [0; 32];
                opened.take(32).read_exact(&mut key)?;
                Ok(HostKey(key))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key = random()?;
                write(file, &key)?;
                Ok(HostKey(key))
            }
            Err(error) => Err(error),
        }
    }

    /// A key for this process only.
    pub fn passing() -> io::Result<HostKey> {
        Ok(HostKey(random()?))
    }

    /// Writes the values of the session in `dir`, which must exist; none make no file.
    pub fn seal(&self, dir: &Path, values: &[Vec<u8>]) -> io::Result<()> {
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
        let sealed = self.cipher().encrypt(&XNonce::from(nonce), body.as_slice());
        let sealed = sealed.map_err(|_| io::Error::other("too many values to seal"))?;
        let mut file = MAGIC.to_vec();
        file.extend(nonce);
        file.extend(sealed);
        write(&dir.join(FILE), &file)
    }

    /// The values sealed in `dir`; none if there is no file.
    pub fn open(&self, dir: &Path) -> io::Result<Vec<Vec<u8>>> {
        let mut bytes = Vec::new();
        match std::fs::File::open(dir.join(FILE)) {
            Ok(file) => file.take(FILE_MAX).read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let damaged =
            || io::Error::new(io::ErrorKind::InvalidData, "the file of values is damaged");
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(damaged)?;
        let (nonce, sealed) = rest.split_first_chunk::<24>().ok_or_else(damaged)?;
        let opened = self.cipher().decrypt(&XNonce::from(*nonce), sealed);
        let body = opened.map_err(|_| damaged())?;
        let mut values = Vec::new();
        let mut rest = body.as_slice();
        while let Some((len, after)) = rest.split_first_chunk::<4>() {
            let len = u32::from_le_bytes(*len) as usize;
            values.push(after.get(..len).ok_or_else(damaged)?.to_vec());
            rest = &after[len..];
        }
        Ok(values)
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(&self.0.into())
    }
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled +=
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(bytes);
    if written.is_err() {
        // Half a file would be taken for a damaged one.
        let _ = std::fs::remove_file(path);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_are_not_to_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let key = HostKey::load(&dir.path().join("key")).unwrap();
        assert_eq!(HostKey::load(&dir.path().join("key")).unwrap(), key);
        let values = vec![b"hunter2 hunter2".to_vec(), vec![], vec![7; 100]];
        key.seal(dir.path(), &values).unwrap();
        assert_eq!(key.open(dir.path()).unwrap(), values);
        let file = std::fs::read(dir.path().join(FILE)).unwrap();
        assert!(!file.windows(7).any(|seven| seven == b"hunter2"));
        assert!(HostKey::passing().unwrap().open(dir.path()).is_err(), "another key");
    }

    #[test]
    fn no_values_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let key = HostKey::passing().unwrap();
        key.seal(dir.path(), &[]).unwrap();
        assert_eq!(key.open(dir.path()).unwrap(), Vec::<Vec<u8>>::new());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

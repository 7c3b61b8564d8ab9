//! The token every request has to show, and the two files in the runtime directory that let the next daemon go on.
//!
//! The directory is 0700 and hidden from confined sessions; the files are 0600. Deliberately absent: the token in any
//! `Debug`, log or URL.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::rand::{GetRandomFlags, getrandom};

use super::{HttpError, loopback};

/// Bytes of randomness: not to be guessed.
const RANDOM_BYTES: usize = 32;
/// As text, two digits each.
const TEXT_BYTES: usize = RANDOM_BYTES * 2;
/// Neither file is longer.
const FILE_MAX: u64 = 256;

/// Sixty-four hexadecimal digits.
#[derive(Clone)]
pub struct Token(Arc<str>);

impl Token {
    pub fn fresh() -> Result<Token, HttpError> {
        let mut bytes = [0; RANDOM_BYTES];
        let mut filled = 0;
        while filled < RANDOM_BYTES {
            filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())
                .map_err(|errno| HttpError::Random { source: errno.into() })?;
        }
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()))
    }

    fn parse(text: &str) -> Option<Token> {
        let digits = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (text.len() == TEXT_BYTES && digits).then(|| Token(text.into()))
    }

    /// For whoever may know it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Takes as long for a nearly right one as for a wrong one.
    pub fn is(&self, shown: &[u8]) -> bool {
        let differing = |sum, (ours, theirs): (&u8, &u8)| sum | (ours ^ theirs);
        let right = self.0.as_bytes();
        let sum = right.iter().zip(shown).fold(0, differing);
        std::hint::black_box(sum) == 0 && shown.len() == right.len()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// `token` and `http` (the address) in the runtime directory.
pub struct Files {
    token: PathBuf,
    address: PathBuf,
}

impl Files {
    pub fn below(runtime: &Path) -> Files {
        Files { token: runtime.join("token"), address: runtime.join("http") }
    }

    pub fn token(&self) -> &Path {
        &self.token
    }

    pub fn write(&self, address: SocketAddr, token: &Token) -> Result<(), HttpError> {
        write(&self.token, token.reveal())?;
        write(&self.address, &address.to_string())
    }

    /// What an earlier daemon of this host left, if both files are ours alone and whole.
    pub fn read(&self) -> Option<(SocketAddr, Token)> {
        let token = Token::parse(&read(&self.token)?)?;
        let address = loopback(&read(&self.address)?).ok()?;
        Some((address, token))
    }

    pub fn remove(&self) {
        for path in [&self.token, &self.address] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(%error, path = %path.display(), "removing a file of HTTP");
                }
                _ => {}
            }
        }
    }
}

/// Whole or not at all: a reader sees the old text or the new one.
fn write(path: &Path, text: &str) -> Result<(), HttpError> {
    let failed = |source| HttpError::File { path: path.to_owned(), source };
    let beside = path.with_extension("new");
    let _ = std::fs::remove_file(&beside);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)
        .and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()))
        .and_then(|()| std::fs::rename(&beside, path));
    written.map_err(failed)
}

fn read(path: &Path) -> Option<String> {
    let flags = OFlags::NOFOLLOW.bits() as i32;
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let meta = file.metadata().ok()?;
    let ours = meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o077 == 0;
    if !ours || !meta.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(FILE_MAX).read_to_string(&mut text).ok()?;
    Some(text.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn tokens_differ_and_only_the_whole_one_counts() {
        let (token, other) = (Token::fresh().unwrap(), Token::fresh().unwrap());
        assert_ne!(token.reveal(), other.reveal());
        assert_eq!(token.reveal().len(), TEXT_BYTES);
        assert!(token.is(token.reveal().as_bytes()));
        for wrong in ["", &token.reveal()[1..], &format!("{}0", token.reveal()), other.reveal()] {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
        assert!(!format!("{token:?}").contains(token.reveal()));
    }

    #[test]
    fn files_of_others_are_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::below(dir.path());
        assert!(files.read().is_none());
        let token = Token::fresh().unwrap();
        let address: SocketAddr = "127.0.0.1:7878".parse().unwrap();
        files.write(address, &token).unwrap();
        files.write(address, &token).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(files.token()), 0o600);
        let (again, shown) = files.read().unwrap();
        assert_eq!((again, shown.reveal()), (address, token.reveal()));
        let wide = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(files.token(), wide).unwrap();
        assert!(files.read().is_none());
        for text in ["", "abc", &"z".repeat(TEXT_BYTES), &"a".repeat(4096)] {
            write(files.token(), text).unwrap();
            assert!(files.read().is_none(), "{text}");
        }
        files.remove();
        files.remove();
        assert!(!files.token().exists());
    }
}

//! The token every request has to show, and the two files in the runtime directory that let the
//! next daemon go on.
//!
//! The directory is 0700 and hidden from confined sessions; the files are 0600. Deliberately
//! absent: the token in any `Debug`, log or URL.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use greenroom_engine::keep::{self, Lasting};
use rustix::rand::{GetRandomFlags, getrandom};

use super::HttpError;

/// Bytes of randomness: not to be guessed.
const RANDOM_BYTES: usize = 32;
/// As text, two digits each.
const TEXT_BYTES: usize = RANDOM_BYTES * 2;
/// Neither file is longer.
const FILE_MAX: u64 = 256;

/// Sixty-four hexadecimal digits.
#[derive(Clone)]
pub(crate) struct Token(Arc<str>);

impl Token {
    pub(crate) fn fresh() -> Result<Token, HttpError> {
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
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Takes as long for a nearly right one as for a wrong one.
    pub(crate) fn is(&self, shown: &[u8]) -> bool {
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
pub(crate) struct Files {
    token: PathBuf,
    address: PathBuf,
}

impl Files {
    pub(crate) fn below(runtime: &Path) -> Files {
        Files { token: runtime.join("token"), address: runtime.join("http") }
    }

    pub(crate) fn token(&self) -> &Path {
        &self.token
    }

    pub(crate) fn write(&self, address: SocketAddr, token: &Token) -> Result<(), HttpError> {
        write(&self.token, token.reveal())?;
        write(&self.address, &address.to_string())
    }

    /// What an earlier daemon of this host left, if both files are ours alone and whole.
    pub(crate) fn read(&self) -> Option<(SocketAddr, Token)> {
        let token = Token::parse(&read(&self.token)?)?;
        let address = greenroom_config::loopback(&read(&self.address)?).ok()?;
        Some((address, token))
    }

    pub(crate) fn remove(&self) {
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

fn write(path: &Path, text: &str) -> Result<(), HttpError> {
    keep::write(path, format!("{text}\n").as_bytes(), Lasting::Process)
        .map_err(|source| HttpError::File { path: path.to_owned(), source })
}

fn read(path: &Path) -> Option<String> {
    let private = std::fs::symlink_metadata(path).ok()?.mode() & 0o077 == 0;
    let bytes = keep::read(path, FILE_MAX).ok()?.filter(|_| private)?;
    Some(String::from_utf8(bytes).ok()?.trim_end().to_owned())
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

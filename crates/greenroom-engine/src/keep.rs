//! Small files of ours that must be whole or be known not to be.
//!
//! In: bytes. Out: a file that is either the old one or the new one, whatever happens in between;
//! and, on the way back, bytes of a plain file of our own, or an error. A file that cannot be used
//! is set aside, never written over: a person may want to look at it. Deliberately absent: what is
//! in the files, and how damage inside them is found.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Names tried for something set aside.
const ASIDE_MAX: u32 = 1000;

/// Whether a machine's death may cost the last writing of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasting {
    /// It is on the disk before this returns.
    Machine,
    /// It outlives this process.
    Process,
}

/// Puts `bytes` in the place of `path`, mode 0600.
pub fn write(path: &Path, bytes: &[u8], lasting: Lasting) -> io::Result<()> {
    let beside = named(path, "new");
    // What a crash left there is nobody's.
    let _ = std::fs::remove_file(&beside);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32)
            .open(&beside)?;
        file.write_all(bytes)?;
        if lasting == Lasting::Machine {
            file.sync_all()?;
        }
        std::fs::rename(&beside, path)?;
        match (lasting, path.parent()) {
            (Lasting::Machine, Some(dir)) => File::open(dir)?.sync_all(),
            _ => Ok(()),
        }
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// The bytes of a plain file that belongs to us, at most `max` of them; `None` if there is nothing
/// of that name.
pub fn read(path: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    // Neither a link nor a pipe somebody put there may lead or hold us elsewhere.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let meta = file.metadata()?;
    let odd = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    if !meta.is_file() {
        return Err(odd("it is not a plain file".to_owned()));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(odd(format!("it belongs to user {}", meta.uid())));
    }
    if meta.len() > max {
        return Err(odd(format!("it is larger than {max} bytes")));
    }
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// A checksum over two parts, as if they were one.
pub(crate) fn checksum(head: &[u8], body: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(head);
    sum.update(body);
    sum.finalize()
}

/// The same bytes with a checksum at their end.
#[must_use]
pub fn checked(bytes: &[u8]) -> Vec<u8> {
    [bytes, &crc32fast::hash(bytes).to_le_bytes()].concat()
}

/// The bytes that [`checked`] was given, if they are those.
#[must_use]
pub fn unchecked(bytes: &[u8]) -> Option<&[u8]> {
    let (body, sum) = bytes.split_last_chunk::<4>()?;
    (crc32fast::hash(body) == u32::from_le_bytes(*sum)).then_some(body)
}

/// Moves what lies at `path`, whatever it is, to a free name beside it, and says which.
pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
    for number in 1..=ASIDE_MAX {
        let aside = named(path, &format!("damaged-{number}"));
        if std::fs::symlink_metadata(&aside).is_err() {
            std::fs::rename(path, &aside)?;
            return Ok(aside);
        }
    }
    Err(io::Error::other(format!("{ASIDE_MAX} damaged files lie beside it already")))
}

/// Its whole name and `more`, so that no two files share a name beside them.
fn named(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(more);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_old_one_or_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        assert_eq!(read(&path, 9).unwrap(), None);
        for bytes in [&b"one"[..], b"another"] {
            write(&path, bytes, Lasting::Machine).unwrap();
            assert_eq!(read(&path, 9).unwrap().as_deref(), Some(bytes));
        }
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(read(&path, 3).unwrap_err().to_string().contains("larger than 3"));
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_is_no_plain_file_is_an_error_and_can_be_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("dir/below")).unwrap();
        std::fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        for name in ["dir", "link", "pipe"] {
            assert!(read(&at(name), 9).is_err(), "{name}");
            assert_eq!(set_aside(&at(name)).unwrap(), at(&format!("{name}.damaged-1")));
            write(&at(name), b"new", Lasting::Process).unwrap();
        }
        assert_eq!(set_aside(&at("dir")).unwrap(), at("dir.damaged-2"));
    }
}

//! The files of one session: names, modes, the key file, what a directory holds.
//!
//! `<start>.seg` raw bytes, `<start>.idx` records, `<start>.key` the screen at
//! `start`; start has 20 digits. The `.seg` is made last and removed first, so
//! its presence is what makes the segment exist: anything else without one is
//! an unfinished roll or an unfinished drop.
//! In come a directory and bytes of any origin, out go open files (0600,
//! never through a link) and sound key frames. Deliberately absent: fsync. The
//! page cache survives the death of a process; a crash of the machine ends the
//! sessions anyway.

use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use greenroom_term::Size;
use rustix::fs::{AtFlags, Mode, OFlags};

use super::limits::{INDEX_BYTES, KEYFRAME_BYTES, SEGMENTS_MAX};
use super::note::FORMAT;
use crate::keep::checksum;

pub(super) const SEG: &str = "seg";
pub(super) const IDX: &str = "idx";
pub(super) const KEY: &str = "key";
/// A key on its way to replace another.
pub(super) const NEW_KEY: &str = "key.new";
/// Suffix of files that are not ours to trust and not ours to delete.
const ASIDE: &str = "set-aside";

pub(super) fn path(dir: &Path, start: u64, ext: &str) -> PathBuf {
    dir.join(format!("{start:020}.{ext}"))
}

/// The directory, 0700, with its parents.
pub(crate) fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a plain file"));
    }
    Ok(file)
}

pub(super) fn open_new(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::NONBLOCK)
}

pub(super) fn open_write(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDWR | OFlags::CREATE | OFlags::NONBLOCK)
}

pub(super) fn open_read(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDONLY | OFlags::NONBLOCK)
}

/// A whole small file, at most `cap` bytes of it.
pub(super) fn read_capped(path: &Path, cap: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    open_read(path)?.take(cap).read_to_end(&mut out)?;
    Ok(out)
}

pub(super) fn read_index(dir: &Path, start: u64) -> io::Result<Vec<u8>> {
    read_capped(&path(dir, start, IDX), INDEX_BYTES)
}

const KEY_MAGIC: [u8; 4] = *b"gkey";
const KEY_HEADER: usize = 36;

/// A screen to start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key<'a> {
    pub size: Size,
    /// Notes below this ordinal are in the screen already.
    pub ord: u64,
    pub bytes: &'a [u8],
}

/// magic, format u16, cols u16, rows u16, 0 u16, seq u64, ord u64, len u32, crc u32, bytes.
pub(super) fn encode_key(seq: u64, key: Key<'_>) -> Vec<u8> {
    let Key { size, ord, bytes } = key;
    let mut out = Vec::with_capacity(KEY_HEADER + bytes.len());
    out.extend_from_slice(&KEY_MAGIC);
    for half in [FORMAT, size.cols(), size.rows(), 0] {
        out.extend_from_slice(&half.to_le_bytes());
    }
    out.extend_from_slice(&seq.to_le_bytes());
    out.extend_from_slice(&ord.to_le_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    let crc = checksum(&out, bytes);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(bytes);
    out
}

/// The screen in a key file, if every byte of it is as written.
pub(super) fn decode_key(file: &[u8], seq: u64) -> Option<Key<'_>> {
    let (header, bytes) = file.split_at_checked(KEY_HEADER)?;
    let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    let word = |at: usize| header[at..at + 4].try_into().ok().map(u32::from_le_bytes);
    let sound = header[..4] == KEY_MAGIC
        && half(4) == FORMAT
        && header[12..20] == seq.to_le_bytes()
        && word(28)? as usize == bytes.len()
        && word(32)? == checksum(&header[..32], bytes);
    if !sound {
        return None;
    }
    let ord = u64::from_le_bytes(header[20..28].try_into().ok()?);
    Some(Key { size: Size::new(half(6), half(8))?, ord, bytes })
}

pub(super) fn read_key(dir: &Path, start: u64) -> io::Result<Vec<u8>> {
    read_capped(&path(dir, start, KEY), (KEYFRAME_BYTES + KEY_HEADER) as u64)
}

/// A segment as the directory shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub start: u64,
    /// Disk bytes of its three files.
    pub bytes: u64,
    /// Length of its `.seg` when it was listed.
    pub len: u64,
    pub has_key: bool,
}

/// What a directory holds, ordered by start.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub segments: Vec<Segment>,
    /// Starts that have an index or a key but no bytes.
    pub debris: Vec<u64>,
    /// Files whose names are not ours.
    pub foreign: u64,
}

fn parse_name(name: &str) -> Option<(u64, &str)> {
    let (digits, ext) = name.split_once('.')?;
    let ours = digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit());
    if !ours || ![SEG, IDX, KEY].contains(&ext) {
        return None;
    }
    Some((digits.parse().ok()?, ext))
}

/// Disk bytes and length of a plain file; `None` for anything else. Disk bytes
/// are what it takes, not how long it is: gaps are holes.
fn plain_bytes(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = path.symlink_metadata().ok()?;
    found.is_file().then(|| (found.len().min(found.blocks() * 512), found.len()))
}

/// Numbers above are not ours: the ring's tail word has 63 bits for them, and
/// sums must not overflow.
pub(super) const SEQ_MAX: u64 = 1 << 62;

pub(super) fn list(dir: &Path) -> io::Result<Listing> {
    let mut starts = std::collections::BTreeMap::<u64, (bool, Segment)>::new();
    let mut foreign = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.ends_with(NEW_KEY)) {
            continue; // a kill left it; the next one is written over it
        }
        let ours = name.to_str().and_then(parse_name).filter(|(start, _)| *start < SEQ_MAX);
        let found = ours.and_then(|ours| Some((ours, plain_bytes(&entry.path())?)));
        let room = starts.len() < SEGMENTS_MAX;
        let Some(((start, ext), (bytes, len))) =
            found.filter(|((start, _), _)| room || starts.contains_key(start))
        else {
            foreign += 1;
            continue;
        };
        let fresh = Segment { start, bytes: 0, len: 0, has_key: false };
        let (exists, known) = starts.entry(start).or_insert((false, fresh));
        known.bytes += bytes;
        known.has_key |= ext == KEY;
        if ext == SEG {
            *exists = true;
            known.len = len.min(SEQ_MAX);
        }
    }
    let mut listing = Listing { foreign, ..Listing::default() };
    for (start, (exists, segment)) in starts {
        if exists {
            listing.segments.push(segment);
        } else {
            listing.debris.push(start);
        }
    }
    Ok(listing)
}

/// Removes a segment; the `.seg` first, so that a kill leaves only debris.
pub(super) fn remove(dir: &Path, start: u64) {
    for ext in [SEG, KEY, IDX, NEW_KEY] {
        let path = path(dir, start, ext);
        unless_gone(std::fs::remove_file(&path), &path, "cannot remove");
    }
}

/// Renames a segment's files out of our way, keeping them.
pub(super) fn set_aside(dir: &Path, start: u64) {
    for ext in [SEG, KEY, IDX] {
        let from = path(dir, start, ext);
        let to = from.with_extension(format!("{ext}.{ASIDE}"));
        unless_gone(std::fs::rename(&from, &to), &from, "cannot set aside");
    }
}

fn unless_gone(done: io::Result<()>, path: &Path, failed: &str) {
    if let Err(error) = done
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "{failed}");
    }
}

/// Whether the file still has a name.
pub(super) fn is_linked(file: &File) -> bool {
    rustix::fs::statat(file, "", AtFlags::EMPTY_PATH).is_ok_and(|found| found.st_nlink > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_files_read_back_and_no_bit_may_change() {
        let size = Size::new(80, 24).unwrap();
        let key = Key { size, ord: 3, bytes: b"\x1b[2Jhello" };
        let file = encode_key(77, key);
        assert_eq!(decode_key(&file, 77), Some(key));
        assert_eq!(decode_key(&file, 78), None);
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 1;
            assert_eq!(decode_key(&bad, 77), None, "flipped {at}");
            assert_eq!(decode_key(&file[..at], 77), None, "cut at {at}");
        }
    }

    #[test]
    fn only_our_names_count() {
        assert_eq!(parse_name("00000000000000000012.seg"), Some((12, SEG)));
        for wrong in
            ["12.seg", "00000000000000000012.seg.set-aside", "x", "0000000000000000001a.idx"]
        {
            assert_eq!(parse_name(wrong), None, "{wrong}");
        }
    }
}

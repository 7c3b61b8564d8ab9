//! Bytes ↔ numbers, byte strings and lists, little-endian, for the sealed plan and the stage's reports.
//!
//! In: a byte slice that may be anything. Out: values or a [`WireError`]; never a panic, never an allocation larger than the
//! slice. Absent on purpose: versions and meaning.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("it ends too early")]
    Short,
    #[error("it has the unknown value {0}")]
    Unknown(u64),
    #[error("it is of version {0}")]
    Version(u16),
}

#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) -> &mut Writer {
        self.bytes.push(value);
        self
    }
    pub(crate) fn u16(&mut self, value: u16) -> &mut Writer {
        self.bytes.extend(value.to_le_bytes());
        self
    }
    pub(crate) fn u32(&mut self, value: u32) -> &mut Writer {
        self.bytes.extend(value.to_le_bytes());
        self
    }
    pub(crate) fn u64(&mut self, value: u64) -> &mut Writer {
        self.bytes.extend(value.to_le_bytes());
        self
    }
    pub(crate) fn text(&mut self, value: impl AsRef<OsStr>) -> &mut Writer {
        let bytes = value.as_ref().as_bytes();
        self.u32(u32::try_from(bytes.len()).expect("far below 4 GiB"));
        self.bytes.extend(bytes);
        self
    }
    pub(crate) fn list<T>(&mut self, items: &[T], put: impl Fn(&mut Writer, &T)) -> &mut Writer {
        self.u32(u32::try_from(items.len()).expect("far below 4 billion"));
        for item in items {
            put(self, item);
        }
        self
    }
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Reader<'a> {
        Reader { rest }
    }
    fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(WireError::Short)?;
        self.rest = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        self.take(N)?.try_into().map_err(|_| WireError::Short)
    }
    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(u8::from_le_bytes)
    }
    pub(crate) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_le_bytes)
    }
    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_le_bytes)
    }
    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_le_bytes)
    }
    pub(crate) fn flag(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(WireError::Unknown(other.into())),
        }
    }
    pub(crate) fn text(&mut self) -> Result<OsString, WireError> {
        let length = self.u32()? as usize;
        Ok(OsString::from_vec(self.take(length)?.to_vec()))
    }
    pub(crate) fn path(&mut self) -> Result<PathBuf, WireError> {
        self.text().map(PathBuf::from)
    }
    pub(crate) fn list<T>(
        &mut self,
        get: impl Fn(&mut Reader<'a>) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let count = self.u32()? as usize;
        // Every item has a byte at least, so a count beyond the rest is a lie; the vector grows as items are read.
        if count > self.rest.len() {
            return Err(WireError::Short);
        }
        (0..count).map(|_| get(self)).collect()
    }
    pub(crate) fn optional<T>(
        &mut self,
        get: impl Fn(&mut Reader<'a>) -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        if self.flag()? { get(self).map(Some) } else { Ok(None) }
    }
}

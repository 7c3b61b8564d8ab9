//! Bytes ↔ integers and byte strings, little-endian, for everything the keeper writes down: messages, spawn specs, and the
//! state it hands to its next image.
//!
//! In: a byte slice that may be anything. Out: values, or a `DecodeError`; never a panic and never an allocation larger than
//! the slice itself. Absent on purpose: schemas, strings (paths and arguments are bytes), optional fields.

/// Why bytes could not be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("ends {missing} bytes too early while reading {field}")]
    Short { field: &'static str, missing: usize },
    #[error("{field} is {value}, the limit is {limit}")]
    OverLimit { field: &'static str, value: u64, limit: u64 },
    #[error("{field} has the unknown value {value}")]
    BadValue { field: &'static str, value: u64 },
    #[error("message kind {0} is unknown")]
    UnknownKind(u16),
    #[error("version {found} of {what}, this build reads {expected}")]
    Version { what: &'static str, found: u16, expected: u16 },
}

pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(crate) fn peek(&self) -> &'a [u8] {
        self.rest
    }

    fn take(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(len) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(DecodeError::Short { field, missing: len - self.rest.len() }),
        }
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(field, N)?);
        Ok(out)
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        Ok(self.array::<1>(field)?[0])
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        Ok(i32::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// A number below 2 is a flag, anything else is a fault: a lenient reader would hide a misaligned one.
    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, DecodeError> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::BadValue { field, value: u64::from(value) }),
        }
    }

    /// A count, checked against its limit before anybody allocates for it.
    pub(crate) fn count(
        &mut self,
        field: &'static str,
        limit: usize,
    ) -> Result<usize, DecodeError> {
        let value = self.u32(field)? as usize;
        if value > limit {
            return Err(DecodeError::OverLimit { field, value: value as u64, limit: limit as u64 });
        }
        Ok(value)
    }

    pub(crate) fn bytes(
        &mut self,
        field: &'static str,
        limit: usize,
    ) -> Result<&'a [u8], DecodeError> {
        let len = self.count(field, limit)?;
        self.take(field, len)
    }
}

#[derive(Default)]
pub(crate) struct Writer {
    out: Vec<u8>,
}

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.out.push(value);
        self
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.out.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.out.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn i32(&mut self, value: i32) -> &mut Self {
        self.out.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.out.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn flag(&mut self, value: bool) -> &mut Self {
        self.u8(u8::from(value))
    }

    pub(crate) fn count(&mut self, value: usize) -> &mut Self {
        self.u32(u32::try_from(value).expect("counts are capped far below 2^32"))
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.count(value.len());
        self.out.extend_from_slice(value);
        self
    }

    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }
}

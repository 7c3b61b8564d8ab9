//! Bytes ↔ values, little-endian: the messages between keeper and daemon, the specs and plans they
//! seal, what a stage reports, and the state that one image of the keeper leaves to the next.
//!
//! In: a byte slice that may be anything, and the fds that came with it. Out: values, or a
//! [`WireError`] that names the field; never a panic, never an allocation larger than the slice.
//! [`layout!`](crate::layout) states the fields of a type once, for both directions;
//! [`numbered!`](crate::numbered) is for enums without fields. Absent on purpose: versions and
//! meaning.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The field that is named when the first number of a message is unknown.
pub const KIND: &str = "kind";

/// Why bytes could not be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("ends {missing} bytes too early while reading {field}")]
    Short { field: &'static str, missing: usize },
    #[error("{field} has the length {value}, the limit is {limit}")]
    OverLimit { field: &'static str, value: usize, limit: usize },
    #[error("{field} has the unknown value {value}")]
    BadValue { field: &'static str, value: u64 },
    #[error("version {found} of {what}, this build reads {expected}")]
    Version { what: &'static str, found: u16, expected: u16 },
    #[error("{field} came without its fd")]
    NoFd { field: &'static str },
}

/// A value with a form in bytes.
pub trait Wire: Sized {
    fn put(&self, w: &mut Writer);
    fn get(r: &mut Reader<'_>) -> Result<Self, WireError>;

    /// The items of a list, after its length. Bytes override both, to be copied in one piece.
    fn put_all(items: &[Self], w: &mut Writer) {
        for item in items {
            item.put(w);
        }
    }

    fn get_all(count: usize, r: &mut Reader<'_>) -> Result<Vec<Self>, WireError> {
        // `collect` grows as items are read: a count that lies allocates nothing.
        (0..count).map(|_| Self::get(r)).collect()
    }

    fn encode(&self) -> Vec<u8> {
        Writer::default().put(self).finish()
    }

    /// Bytes after the known fields are ignored: a newer peer may add some.
    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        Self::get(&mut Reader::new(bytes, Vec::new()))
    }
}

#[derive(Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub fn put(&mut self, value: &impl Wire) -> &mut Writer {
        value.put(self);
        self
    }

    fn list<T: Wire>(&mut self, items: &[T]) {
        u32::try_from(items.len()).expect("lengths are capped far below 2^32").put(self);
        T::put_all(items, self);
    }

    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

pub struct Reader<'a> {
    rest: &'a [u8],
    fds: std::vec::IntoIter<OwnedFd>,
    /// What is being read.
    field: &'static str,
    /// The most entries of the list that is being read.
    limit: usize,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], fds: Vec<OwnedFd>) -> Reader<'a> {
        Reader { rest: bytes, fds: fds.into_iter(), field: KIND, limit: usize::MAX }
    }

    pub fn get<T: Wire>(&mut self, field: &'static str) -> Result<T, WireError> {
        self.get_at_most(field, usize::MAX)
    }

    /// A list or a string, whose length is checked before anybody allocates for it.
    pub fn get_at_most<T: Wire>(
        &mut self,
        field: &'static str,
        limit: usize,
    ) -> Result<T, WireError> {
        (self.field, self.limit) = (field, limit);
        T::get(self)
    }

    /// A field that older peers do not know: their message ends before it.
    pub fn get_added<T: Wire + Default>(&mut self, field: &'static str) -> Result<T, WireError> {
        if self.rest.is_empty() { Ok(T::default()) } else { self.get(field) }
    }

    pub fn bad_value(&self, value: impl Into<u64>) -> WireError {
        WireError::BadValue { field: self.field, value: value.into() }
    }

    /// Fds that no field has taken.
    pub fn fds_left(&self) -> usize {
        self.fds.len()
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], WireError> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            let missing = count - self.rest.len();
            return Err(WireError::Short { field: self.field, missing });
        };
        self.rest = rest;
        Ok(taken)
    }

    fn list<T: Wire>(&mut self) -> Result<Vec<T>, WireError> {
        let (field, limit) = (self.field, std::mem::replace(&mut self.limit, usize::MAX));
        let value = u32::get(self)? as usize;
        if value > limit {
            return Err(WireError::OverLimit { field, value, limit });
        }
        // Every item has a byte at least, so a count beyond the rest is a lie.
        match value.checked_sub(self.rest.len()) {
            None | Some(0) => T::get_all(value, self),
            Some(missing) => Err(WireError::Short { field, missing }),
        }
    }
}

macro_rules! integers {
    ($($integer:ty),*) => {$(
        impl Wire for $integer {
            fn put(&self, w: &mut Writer) {
                w.bytes.extend_from_slice(&self.to_le_bytes());
            }
            fn get(r: &mut Reader<'_>) -> Result<Self, WireError> {
                let mut bytes = [0; size_of::<$integer>()];
                bytes.copy_from_slice(r.take(size_of::<$integer>())?);
                Ok(Self::from_le_bytes(bytes))
            }
        }
    )*};
}

integers!(u16, u32, u64, i32);

impl Wire for u8 {
    fn put(&self, w: &mut Writer) {
        w.bytes.push(*self);
    }
    fn get(r: &mut Reader<'_>) -> Result<u8, WireError> {
        Ok(r.take(1)?[0])
    }
    fn put_all(items: &[u8], w: &mut Writer) {
        w.bytes.extend_from_slice(items);
    }
    fn get_all(count: usize, r: &mut Reader<'_>) -> Result<Vec<u8>, WireError> {
        Ok(r.take(count)?.to_vec())
    }
}

impl Wire for bool {
    fn put(&self, w: &mut Writer) {
        u8::from(*self).put(w);
    }
    /// Anything above 1 is a fault: a lenient reader would hide a misaligned one.
    fn get(r: &mut Reader<'_>) -> Result<bool, WireError> {
        match u8::get(r)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(r.bad_value(other)),
        }
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, w: &mut Writer) {
        w.list(self);
    }
    fn get(r: &mut Reader<'_>) -> Result<Vec<T>, WireError> {
        r.list()
    }
}

impl<T: Wire, const N: usize> Wire for [T; N] {
    fn put(&self, w: &mut Writer) {
        T::put_all(self, w);
    }
    fn get(r: &mut Reader<'_>) -> Result<[T; N], WireError> {
        let items = T::get_all(N, r)?;
        Ok(items.try_into().unwrap_or_else(|_| unreachable!("as many as were asked for")))
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, w: &mut Writer) {
        self.is_some().put(w);
        if let Some(value) = self {
            value.put(w);
        }
    }
    fn get(r: &mut Reader<'_>) -> Result<Option<T>, WireError> {
        if bool::get(r)? { T::get(r).map(Some) } else { Ok(None) }
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, w: &mut Writer) {
        w.put(&self.0).put(&self.1);
    }
    fn get(r: &mut Reader<'_>) -> Result<(A, B), WireError> {
        Ok((A::get(r)?, B::get(r)?))
    }
}

/// Paths and arguments are bytes.
impl Wire for OsString {
    fn put(&self, w: &mut Writer) {
        w.list(self.as_bytes());
    }
    fn get(r: &mut Reader<'_>) -> Result<OsString, WireError> {
        r.list().map(OsString::from_vec)
    }
}

impl Wire for PathBuf {
    fn put(&self, w: &mut Writer) {
        w.list(self.as_os_str().as_bytes());
    }
    fn get(r: &mut Reader<'_>) -> Result<PathBuf, WireError> {
        OsString::get(r).map(PathBuf::from)
    }
}

/// For people: what is no UTF-8 is replaced.
impl Wire for String {
    fn put(&self, w: &mut Writer) {
        w.list(self.as_bytes());
    }
    fn get(r: &mut Reader<'_>) -> Result<String, WireError> {
        Ok(String::from_utf8_lossy(&r.list()?).into_owned())
    }
}

/// Whether it worked, and the reason, which is empty if it did.
impl Wire for Result<(), String> {
    fn put(&self, w: &mut Writer) {
        w.put(&self.is_ok()).list(self.as_ref().err().map_or(&[][..], String::as_bytes));
    }
    fn get(r: &mut Reader<'_>) -> Result<Result<(), String>, WireError> {
        let (worked, why) = Wire::get(r)?;
        Ok(if worked { Ok(()) } else { Err(why) })
    }
}

/// Stands for an fd where only the bytes are of interest.
impl Wire for () {
    fn put(&self, _: &mut Writer) {}
    fn get(_: &mut Reader<'_>) -> Result<(), WireError> {
        Ok(())
    }
}

/// Is beside the bytes: whoever sends them attaches it.
impl Wire for OwnedFd {
    fn put(&self, _: &mut Writer) {}
    fn get(r: &mut Reader<'_>) -> Result<OwnedFd, WireError> {
        r.fds.next().ok_or(WireError::NoFd { field: r.field })
    }
}

/// States how a type lies on the wire: its fields in order, or the number and the fields of each
/// variant.
///
/// `field <= LIMIT` caps the length of a list or a string. Fields after a `;` were added later:
/// older peers do not send them, and their default is taken. `else Variant` takes numbers that this
/// build does not know, in its field `kind`.
#[macro_export]
macro_rules! layout {
    (struct $name:ident { $($field:ident $(<= $limit:expr)?),+ }) => {
        impl $crate::wire::Wire for $name {
            fn put(&self, w: &mut $crate::wire::Writer) {
                $(w.put(&self.$field);)+
            }
            fn get(r: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::wire::WireError> {
                Ok(Self {
                    $($field: r.get_at_most(
                        stringify!($field),
                        $crate::layout!(@limit $($limit)?),
                    )?,)+
                })
            }
        }
    };
    (enum $name:ident $(<$($of:ident),+>)?: $tag:ty { $(
        $number:literal $variant:ident
            $({ $($field:ident $(<= $limit:expr)?),+ $(; $($added:ident),+)? })?
            $(($inner:ident))?
    ),+ $(; else $unknown:ident)? }) => {
        impl$(<$($of: $crate::wire::Wire),+>)? $crate::wire::Wire for $name$(<$($of),+>)? {
            fn put(&self, w: &mut $crate::wire::Writer) {
                match self {
                    $(Self::$variant $({ $($field),+ $(, $($added),+)? })? $(($inner))? => {
                        let number: $tag = $number;
                        w.put(&number);
                        $($(w.put($field);)+ $($(w.put($added);)+)?)?
                        $(w.put($inner);)?
                    })+
                    $(Self::$unknown { kind } => {
                        w.put(kind);
                    })?
                }
            }
            fn get(r: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::wire::WireError> {
                let number: $tag = $crate::wire::Wire::get(r)?;
                Ok(match number {
                    $($number => Self::$variant
                        $({
                            $($field: r.get_at_most(
                                stringify!($field),
                                $crate::layout!(@limit $($limit)?),
                            )?,)+
                            $($($added: r.get_added(stringify!($added))?,)+)?
                        })?
                        $((r.get(stringify!($inner))?))?,)+
                    other => $crate::layout!(@unknown r other $($unknown)?),
                })
            }
        }
    };
    (@limit) => { usize::MAX };
    (@limit $limit:expr) => { $limit };
    (@unknown $r:ident $number:ident) => { return Err($r.bad_value($number)) };
    (@unknown $r:ident $number:ident $unknown:ident) => { Self::$unknown { kind: $number } };
}

/// An enum whose variants are numbered by their place, on the wire too (append only), and named for
/// people.
#[macro_export]
macro_rules! numbered {
    ($(#[$about:meta])* pub enum $name:ident {
        $($(#[$doc:meta])* $variant:ident $text:literal,)+
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            pub const ALL: [$name; [$($text),+].len()] = [$($name::$variant),+];

            pub fn name(self) -> &'static str {
                [$($text),+][self as usize]
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl $crate::wire::Wire for $name {
            fn put(&self, w: &mut $crate::wire::Writer) {
                w.put(&(*self as u8));
            }
            fn get(r: &mut $crate::wire::Reader<'_>) -> Result<Self, $crate::wire::WireError> {
                let number = <u8 as $crate::wire::Wire>::get(r)?;
                Self::ALL.get(usize::from(number)).copied().ok_or_else(|| r.bad_value(number))
            }
        }
    };
}

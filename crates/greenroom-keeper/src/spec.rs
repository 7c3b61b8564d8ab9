//! What to run: a `SpawnSpec` and its form in a sealed memfd.
//!
//! In (daemon): argv, the complete environment, directory, size. Out (keeper): the same, read from an fd that nobody can
//! change any more. A memfd because an environment does not fit a datagram; sealed because the keeper must not read bytes
//! that move. Absent on purpose: defaults. The keeper adds no variable and picks no shell and no directory. `Debug` shows
//! counts only: argv and environment may hold secrets.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, SealFlags};

use crate::wire::{DecodeError, Reader, Writer};

/// Layout of the spec's bytes.
const SPEC_VERSION: u16 = 1;
/// Larger than what the kernel takes at exec with an ordinary stack limit (2 MiB), so E2BIG is told by the kernel.
pub const MAX_SPEC_BYTES: usize = 4 * 1024 * 1024;
/// Entries in argv or in the environment.
pub const MAX_SPEC_ENTRIES: usize = 65_536;
/// Largest ring a daemon may ask for: 64 KiB is usual, and each one is held in memory by the keeper.
pub const MAX_RING_BYTES: u32 = 16 * 1024 * 1024;
/// A ring has at least its header page.
pub const MIN_RING_BYTES: u32 = 4096;

/// A sandbox plan comes with this spec and has program, environment and directory; argv here is only a name. A keeper that
/// does not know it must not start anything.
pub const FLAG_SANDBOXED: u32 = 1;

const SPEC_SEALS: SealFlags =
    SealFlags::SEAL.union(SealFlags::SHRINK).union(SealFlags::GROW).union(SealFlags::WRITE);

/// One program to start. `argv[0]` is both the program and its name; without a slash it is looked up in the `PATH` of `env`.
#[derive(Clone, PartialEq, Eq)]
pub struct SpawnSpec {
    pub argv: Vec<Vec<u8>>,
    /// The complete environment.
    pub env: Vec<(Vec<u8>, Vec<u8>)>,
    pub cwd: Vec<u8>,
    pub cols: u16,
    pub rows: u16,
    /// Size of the ring memfd, header included.
    pub ring_bytes: u32,
    /// `FLAG_SANDBOXED`; a bit the keeper does not know is refused.
    pub flags: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error("cannot {step} the spawn spec")]
    Io { step: &'static str, source: io::Error },
    #[error("the spawn spec is not sealed")]
    Unsealed,
    #[error("the spawn spec is {bytes} bytes, the limit is {MAX_SPEC_BYTES}")]
    TooLarge { bytes: u64 },
    #[error("the spawn spec is malformed")]
    Malformed(#[from] DecodeError),
    #[error("the spawn spec has no {0}")]
    Missing(&'static str),
    #[error("{0} in the spawn spec holds a NUL byte or a misplaced '='")]
    BadBytes(&'static str),
    #[error("{field} in the spawn spec is {value}")]
    OutOfRange { field: &'static str, value: u32 },
}

impl SpecError {
    /// The errno that tells this fault over the link.
    pub fn errno(&self) -> i32 {
        match self {
            SpecError::Io { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
            SpecError::Unsealed => libc::EPERM,
            SpecError::TooLarge { .. } => libc::E2BIG,
            _ => libc::EINVAL,
        }
    }
}

impl SpawnSpec {
    /// What goes with a sandbox plan. Size and program are in the plan.
    pub fn sandboxed(ring_bytes: u32) -> SpawnSpec {
        SpawnSpec {
            argv: vec![b"sandboxed".to_vec()],
            env: Vec::new(),
            cwd: b"/".to_vec(),
            cols: 1,
            rows: 1,
            ring_bytes,
            flags: FLAG_SANDBOXED,
        }
    }

    pub(crate) fn is_sandboxed(&self) -> bool {
        self.flags & FLAG_SANDBOXED != 0
    }

    /// Writes the spec into a sealed memfd, to be attached to `Spawn`.
    pub fn to_memfd(&self) -> Result<OwnedFd, SpecError> {
        self.check()?;
        let bytes = self.encode();
        if bytes.len() > MAX_SPEC_BYTES {
            return Err(SpecError::TooLarge { bytes: bytes.len() as u64 });
        }
        let fd = rustix::fs::memfd_create(
            "greenroom-spec",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )
        .map_err(io_error("create"))?;
        let mut file = File::from(fd);
        file.write_all(&bytes).map_err(|source| SpecError::Io { step: "write", source })?;
        rustix::fs::fcntl_add_seals(&file, SPEC_SEALS).map_err(io_error("seal"))?;
        Ok(file.into())
    }

    /// Reads a spec back; only from a memfd that can no longer change.
    pub fn from_memfd(fd: BorrowedFd<'_>) -> Result<SpawnSpec, SpecError> {
        // Not a memfd at all: EINVAL.
        let seals = rustix::fs::fcntl_get_seals(fd).map_err(io_error("check the seals of"))?;
        if !seals.contains(SPEC_SEALS) {
            return Err(SpecError::Unsealed);
        }
        let size = rustix::fs::fstat(fd).map_err(io_error("measure"))?.st_size;
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        if size > MAX_SPEC_BYTES as u64 {
            return Err(SpecError::TooLarge { bytes: size });
        }
        let file = File::from(
            fd.as_fd()
                .try_clone_to_owned()
                .map_err(|source| SpecError::Io { step: "open", source })?,
        );
        let mut bytes = vec![0; size as usize];
        file.read_exact_at(&mut bytes, 0)
            .map_err(|source| SpecError::Io { step: "read", source })?;
        let spec = SpawnSpec::decode(&bytes)?;
        spec.check()?;
        Ok(spec)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        w.u16(SPEC_VERSION)
            .u32(self.flags)
            .u16(self.cols)
            .u16(self.rows)
            .u32(self.ring_bytes)
            .bytes(&self.cwd)
            .count(self.argv.len());
        for arg in &self.argv {
            w.bytes(arg);
        }
        w.count(self.env.len());
        for (name, value) in &self.env {
            w.bytes(name).bytes(value);
        }
        w.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<SpawnSpec, DecodeError> {
        let mut r = Reader::new(bytes);
        let version = r.u16("spec version")?;
        if version != SPEC_VERSION {
            return Err(DecodeError::Version {
                what: "the spawn spec",
                found: version,
                expected: SPEC_VERSION,
            });
        }
        let flags = r.u32("flags")?;
        let cols = r.u16("cols")?;
        let rows = r.u16("rows")?;
        let ring_bytes = r.u32("ring size")?;
        let cwd = r.bytes("cwd", MAX_SPEC_BYTES)?.to_vec();
        let count = r.count("argv length", MAX_SPEC_ENTRIES)?;
        let argv = (0..count)
            .map(|_| Ok(r.bytes("argument", MAX_SPEC_BYTES)?.to_vec()))
            .collect::<Result<_, DecodeError>>()?;
        let count = r.count("environment length", MAX_SPEC_ENTRIES)?;
        let env = (0..count)
            .map(|_| {
                let name = r.bytes("variable name", MAX_SPEC_BYTES)?.to_vec();
                Ok((name, r.bytes("variable", MAX_SPEC_BYTES)?.to_vec()))
            })
            .collect::<Result<_, DecodeError>>()?;
        Ok(SpawnSpec { argv, env, cwd, cols, rows, ring_bytes, flags })
    }

    fn check(&self) -> Result<(), SpecError> {
        let clean = |bytes: &[u8]| !bytes.contains(&0);
        if self.argv.first().is_none_or(Vec::is_empty) {
            return Err(SpecError::Missing("program"));
        }
        if self.cwd.is_empty() {
            return Err(SpecError::Missing("working directory"));
        }
        if !self.argv.iter().all(|arg| clean(arg)) {
            return Err(SpecError::BadBytes("argv"));
        }
        if !clean(&self.cwd) {
            return Err(SpecError::BadBytes("cwd"));
        }
        let named = |name: &[u8]| !name.is_empty() && clean(name) && !name.contains(&b'=');
        if !self.env.iter().all(|(name, value)| named(name) && clean(value)) {
            return Err(SpecError::BadBytes("the environment"));
        }
        for (field, value, range) in [
            ("the ring size", self.ring_bytes, MIN_RING_BYTES..=MAX_RING_BYTES),
            ("cols", u32::from(self.cols), 1..=u32::from(u16::MAX)),
            ("rows", u32::from(self.rows), 1..=u32::from(u16::MAX)),
            ("flags", self.flags, 0..=FLAG_SANDBOXED),
        ] {
            if !range.contains(&value) {
                return Err(SpecError::OutOfRange { field, value });
            }
        }
        Ok(())
    }
}

impl fmt::Debug for SpawnSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpawnSpec")
            .field("args", &self.argv.len())
            .field("variables", &self.env.len())
            .field("cols", &self.cols)
            .field("rows", &self.rows)
            .field("ring_bytes", &self.ring_bytes)
            .finish_non_exhaustive()
    }
}

fn io_error(step: &'static str) -> impl FnOnce(rustix::io::Errno) -> SpecError {
    move |errno| SpecError::Io { step, source: errno.into() }
}

#[cfg(test)]
mod tests;

//! What to run: a `SpawnSpec` and its form in a sealed memfd.
//!
//! In (daemon): argv, the complete environment, directory, size. Out (keeper): the same, read from
//! an fd that nobody can change any more. A memfd because an environment does not fit a datagram;
//! sealed because the keeper must not read bytes that move. Absent on purpose: defaults. The keeper
//! adds no variable and picks no shell and no directory.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use greenroom_sandbox::launch::Launch;
use greenroom_sandbox::memfd::{self, MemfdError};
use greenroom_sandbox::wire::{Reader, Wire, WireError, Writer};

/// Layout of the spec's bytes.
const SPEC_VERSION: u16 = 1;
/// Larger than what the kernel takes at exec with an ordinary stack limit (2 MiB), so E2BIG is told
/// by the kernel.
pub const MAX_SPEC_BYTES: usize = 4 * 1024 * 1024;
/// Entries in argv or in the environment.
pub const MAX_SPEC_ENTRIES: usize = 65_536;
/// Largest ring a daemon may ask for: 64 KiB is usual, and each one is held in memory by the
/// keeper.
pub const MAX_RING_BYTES: u32 = 16 * 1024 * 1024;
/// A ring has at least its header page.
pub const MIN_RING_BYTES: u32 = 4096;

/// A sandbox plan comes with this spec and has program, environment and directory; argv here is
/// only a name. A keeper that does not know it must not start anything.
pub const FLAG_SANDBOXED: u32 = 1;

/// For errors, and the memfd's name.
const SPEC: &str = "spawn spec";

/// What to start, and the ring for what it prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnSpec {
    pub launch: Launch,
    /// Size of the ring memfd, header included.
    pub ring_bytes: u32,
    /// `FLAG_SANDBOXED`; a bit the keeper does not know is refused.
    pub flags: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error(transparent)]
    Memfd(#[from] MemfdError),
    #[error("the spawn spec is malformed: {0}")]
    Malformed(#[from] WireError),
    #[error("{0} in the spawn spec is empty, or holds a NUL byte or a misplaced '='")]
    BadLaunch(&'static str),
    #[error("{field} in the spawn spec is {value}")]
    OutOfRange { field: &'static str, value: u32 },
}

impl SpecError {
    /// The errno that tells this fault over the link.
    pub fn errno(&self) -> i32 {
        match self {
            SpecError::Memfd(MemfdError::Io { source, .. }) => {
                source.raw_os_error().unwrap_or(libc::EIO)
            }
            SpecError::Memfd(MemfdError::Unsealed(_)) => libc::EPERM,
            SpecError::Memfd(MemfdError::TooLarge { .. }) => libc::E2BIG,
            _ => libc::EINVAL,
        }
    }
}

impl SpawnSpec {
    /// What goes with a sandbox plan. Size and program are in the plan.
    pub fn sandboxed(ring_bytes: u32) -> SpawnSpec {
        let launch = Launch::new(vec!["sandboxed".into()], Vec::new(), "/", 1, 1);
        SpawnSpec { launch, ring_bytes, flags: FLAG_SANDBOXED }
    }

    pub(crate) fn is_sandboxed(&self) -> bool {
        self.flags & FLAG_SANDBOXED != 0
    }

    /// Writes the spec into a sealed memfd, to be attached to `Spawn`.
    pub fn to_memfd(&self) -> Result<OwnedFd, SpecError> {
        self.check()?;
        Ok(memfd::seal(SPEC, &self.encode(), MAX_SPEC_BYTES as u64)?)
    }

    /// Reads a spec back; only from a memfd that can no longer change.
    pub fn from_memfd(fd: BorrowedFd<'_>) -> Result<SpawnSpec, SpecError> {
        let spec = SpawnSpec::decode(&memfd::unseal(SPEC, fd, MAX_SPEC_BYTES as u64)?)?;
        spec.check()?;
        Ok(spec)
    }

    fn check(&self) -> Result<(), SpecError> {
        self.launch.check().map_err(SpecError::BadLaunch)?;
        for (field, value, range) in [
            ("the ring size", self.ring_bytes, MIN_RING_BYTES..=MAX_RING_BYTES),
            ("cols", u32::from(self.launch.cols), 1..=u32::from(u16::MAX)),
            ("rows", u32::from(self.launch.rows), 1..=u32::from(u16::MAX)),
            ("flags", self.flags, 0..=FLAG_SANDBOXED),
        ] {
            if !range.contains(&value) {
                return Err(SpecError::OutOfRange { field, value });
            }
        }
        Ok(())
    }
}

impl Wire for SpawnSpec {
    fn put(&self, w: &mut Writer) {
        let Launch { argv, env, cwd, cols, rows } = &self.launch;
        w.put(&SPEC_VERSION).put(&self.flags).put(cols).put(rows);
        w.put(&self.ring_bytes).put(cwd).put(argv).put(env);
    }

    fn get(r: &mut Reader<'_>) -> Result<SpawnSpec, WireError> {
        let found = r.get("version")?;
        if found != SPEC_VERSION {
            let (what, expected) = ("the spawn spec", SPEC_VERSION);
            return Err(WireError::Version { what, found, expected });
        }
        let (flags, cols, rows) = (r.get("flags")?, r.get("cols")?, r.get("rows")?);
        let (ring_bytes, cwd) = (r.get("ring size")?, r.get::<PathBuf>("cwd")?);
        let argv = r.get_at_most("argv", MAX_SPEC_ENTRIES)?;
        let env = r.get_at_most("the environment", MAX_SPEC_ENTRIES)?;
        let launch = Launch::new(argv, env, cwd, cols, rows);
        Ok(SpawnSpec { launch, ring_bytes, flags })
    }
}

#[cfg(test)]
mod tests;

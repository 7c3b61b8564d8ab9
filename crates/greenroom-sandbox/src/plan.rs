//! Exact steps, compiled from a policy; and their sealed form.
//!
//! In: `compile(&Policy, &Probe)` (see `compile.rs`). Out: a [`Plan`], which [`Plan::seal`] writes into a memfd together with
//! the program it is for. A memfd because arguments are seen by everybody and files can be changed; sealed because the
//! stage must not read what moves. Absent on purpose: anything decided late. What a stage finds different, it refuses.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

pub use crate::compile::{Refused, compile};
pub use crate::explain::{Explanation, explain};
use crate::policy::{Level, Policy};
use crate::wire::{Reader, WireError, Writer};

/// Where the proxy listens inside, if hosts are allowed. The usual number, so that people know what it is.
pub const PROXY_PORT: u16 = 3128;
/// Layout of the sealed bytes. Both sides are the same binary; a keeper that is older refuses instead of guessing.
const PLAN_VERSION: u16 = 2;
/// Above what the kernel takes at exec with an ordinary stack limit (2 MiB) and any list of paths.
const MAX_PLAN_BYTES: u64 = 8 * 1024 * 1024;

/// A policy that this machine can enforce, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What it was made from.
    pub policy: Policy,
    pub steps: Steps,
}

/// What a stage does, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    pub level: Level,
    /// No terminal: stdin, stdout and stderr stay as they were given.
    pub pipes: bool,
    /// Made on the host first, if missing.
    pub make: Vec<Make>,
    /// Shallow before deep, so that each lands on what the ones before made. Empty at level reduced.
    pub mounts: Vec<Mount>,
    pub network: NetworkStep,
    pub landlock: Option<LandlockRules>,
    /// Instructions for seccomp.
    pub filter: Vec<u64>,
    /// (RLIMIT_*, value).
    pub limits: Vec<(u32, u64)>,
    /// Processes a program on pipes may have, where no limit of the kernel counts them.
    pub processes: Option<u64>,
    pub unset_env: Vec<OsString>,
    pub set_env: Vec<(OsString, OsString)>,
    /// Configuration for git, by environment.
    pub git_config: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Make {
    pub path: PathBuf,
    pub what: MakeWhat,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MakeWhat {
    /// With its parents.
    Dir,
    /// With this content.
    File(Vec<u8>),
    /// Nothing: it must be there.
    Nothing,
    /// Branches in this directory that exist only in the packed list: as files of their own, which can be protected.
    LooseRefs {
        /// `packed-refs`.
        packed: PathBuf,
        /// Full name of the directory with a slash: `refs/heads/greenroom/`.
        prefix: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub at: PathBuf,
    pub what: Place,
    /// Missing is fine.
    pub optional: bool,
}

/// What is found at a place inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The same as outside, writable.
    Writable,
    /// The same as outside, read-only.
    ReadOnly,
    /// The same, writable, but as a mount of its own: it cannot be renamed.
    Pinned,
    /// Every entry of this directory except one becomes read-only.
    OthersReadOnly { except: OsString },
    /// Nothing: an empty directory, or an empty file.
    Masked,
    /// What is in this directory as the session starts, read-only and without these names, whoever makes them later. A mask
    /// on a file ends when somebody outside replaces the file; this is about names.
    Without { names: Vec<OsString> },
    /// This directory of the host instead.
    Replaced { from: PathBuf },
    /// This of the host instead, read-only.
    View { from: PathBuf },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkStep {
    /// The machine's (level reduced has no sockets for it unless the network is open).
    Host,
    /// A network of its own with a loopback, and a listener for the proxy.
    Own { listener: bool },
}

/// Path rules for Landlock, applied inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandlockRules {
    /// Exactly this version is applied; less is a fault.
    pub abi: u32,
    /// Trees that may be read and run. What is missing is passed over.
    pub read: Vec<PathBuf>,
    /// Not below these: each of their neighbours gets its own rule instead.
    pub except: Vec<PathBuf>,
    /// Trees that may be changed.
    pub write: Vec<PathBuf>,
    /// A git object store of which only the fan-out directories may be changed.
    pub objects: Option<PathBuf>,
    /// Programs come from here only.
    pub execute: Option<Vec<PathBuf>>,
    /// TCP is refused here too.
    pub deny_tcp: bool,
}

/// The program a plan is for.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload {
    /// `argv[0]` is the program and its name; without a slash it is looked up in the `PATH` of `env`, inside.
    pub argv: Vec<OsString>,
    /// Complete, before what the plan sets and unsets. May hold secrets: never shown.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
    pub cols: u16,
    pub rows: u16,
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Payload")
            .field("args", &self.argv.len())
            .field("variables", &self.env.len())
            .finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("cannot {step} the sandbox plan: {source}")]
    Io { step: &'static str, source: std::io::Error },
    #[error("the sandbox plan is {0} bytes, the limit is {MAX_PLAN_BYTES}")]
    TooLarge(u64),
    #[error("the sandbox plan is not sealed")]
    Unsealed,
    #[error("the sandbox plan cannot be read: {0}")]
    Malformed(#[from] WireError),
    #[error("{0} of the program to sandbox is empty or holds a NUL byte")]
    BadPayload(&'static str),
}

impl Plan {
    /// The plan and its program in a sealed memfd, to go with `Spawn`.
    pub fn seal(&self, payload: &Payload) -> Result<OwnedFd, SealError> {
        check(payload)?;
        let payload = Payload { env: self.steps.environment(&payload.env), ..payload.clone() };
        let mut w = Writer::default();
        w.u16(PLAN_VERSION);
        put_steps(&mut w, &self.steps);
        put_payload(&mut w, &payload);
        let bytes = w.finish();
        if bytes.len() as u64 > MAX_PLAN_BYTES {
            return Err(SealError::TooLarge(bytes.len() as u64));
        }
        into_memfd(&bytes)
    }
}

fn check(payload: &Payload) -> Result<(), SealError> {
    use std::os::unix::ffi::OsStrExt;
    let clean = |text: &OsString| !text.as_bytes().contains(&0);
    if payload.argv.first().is_none_or(|it| it.is_empty()) || !payload.argv.iter().all(clean) {
        return Err(SealError::BadPayload("the argument list"));
    }
    let named = |name: &OsString| !name.is_empty() && !name.as_bytes().contains(&b'=');
    if !payload.env.iter().all(|(name, value)| named(name) && clean(name) && clean(value)) {
        return Err(SealError::BadPayload("the environment"));
    }
    if payload.cwd.as_os_str().is_empty() || payload.cwd.as_os_str().as_bytes().contains(&0) {
        return Err(SealError::BadPayload("the working directory"));
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn into_memfd(bytes: &[u8]) -> Result<OwnedFd, SealError> {
    use rustix::fs::MemfdFlags;
    let io = |step| move |errno: rustix::io::Errno| SealError::Io { step, source: errno.into() };
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("greenroom-plan", flags).map_err(io("create"))?;
    let mut file = File::from(fd);
    file.write_all(bytes).map_err(|source| SealError::Io { step: "write", source })?;
    rustix::fs::fcntl_add_seals(&file, seals()).map_err(io("seal"))?;
    Ok(file.into())
}

#[cfg(not(target_os = "linux"))]
fn into_memfd(_bytes: &[u8]) -> Result<OwnedFd, SealError> {
    Err(SealError::Io { step: "seal", source: std::io::ErrorKind::Unsupported.into() })
}

#[cfg(target_os = "linux")]
fn seals() -> rustix::fs::SealFlags {
    use rustix::fs::SealFlags;
    SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE
}

/// Reads a plan back; only from a memfd that can no longer change.
#[cfg(target_os = "linux")]
pub(crate) fn unseal(fd: BorrowedFd<'_>) -> Result<(Steps, Payload), SealError> {
    let io = |step| move |errno: rustix::io::Errno| SealError::Io { step, source: errno.into() };
    let found = rustix::fs::fcntl_get_seals(fd).map_err(io("check the seals of"))?;
    if !found.contains(seals()) {
        return Err(SealError::Unsealed);
    }
    let size = rustix::fs::fstat(fd).map_err(io("measure"))?.st_size as u64;
    if size > MAX_PLAN_BYTES {
        return Err(SealError::TooLarge(size));
    }
    let mut bytes = vec![0; size as usize];
    let file = fd.try_clone_to_owned().map(File::from);
    file.and_then(|file| file.read_exact_at(&mut bytes, 0))
        .map_err(|source| SealError::Io { step: "read", source })?;
    Ok(decode(&bytes)?)
}

fn decode(bytes: &[u8]) -> Result<(Steps, Payload), WireError> {
    let mut r = Reader::new(bytes);
    match r.u16()? {
        PLAN_VERSION => Ok((get_steps(&mut r)?, get_payload(&mut r)?)),
        other => Err(WireError::Version(other)),
    }
}

fn put_steps(w: &mut Writer, steps: &Steps) {
    // Plans for terminals are as they always were, so that a stage which knows no others still reads them.
    w.u8(match (steps.level, steps.pipes) {
        (Level::Full, false) => 0,
        (Level::Reduced, false) => 1,
        (Level::Full, true) => 2,
        (Level::Reduced, true) => 3,
        (Level::Bare, _) => 4,
    });
    if steps.pipes || steps.level == Level::Bare {
        w.u64(steps.processes.unwrap_or(u64::MAX));
    }
    w.list(&steps.make, |w, make| {
        w.text(&make.path);
        match &make.what {
            MakeWhat::Dir => w.u8(0),
            MakeWhat::File(content) => w.u8(1).list(content, |w, byte| {
                w.u8(*byte);
            }),
            MakeWhat::Nothing => w.u8(2),
            MakeWhat::LooseRefs { packed, prefix } => w.u8(3).text(packed).text(prefix),
        };
    });
    w.list(&steps.mounts, put_mount);
    w.u8(match steps.network {
        NetworkStep::Host => 0,
        NetworkStep::Own { listener: false } => 1,
        NetworkStep::Own { listener: true } => 2,
    });
    w.u8(steps.landlock.is_some().into());
    if let Some(rules) = &steps.landlock {
        put_landlock(w, rules);
    }
    w.list(&steps.filter, |w, it| {
        w.u64(*it);
    });
    w.list(&steps.limits, |w, (resource, value)| {
        w.u32(*resource).u64(*value);
    });
}

fn put_mount(w: &mut Writer, mount: &Mount) {
    w.text(&mount.at).u8(mount.optional.into());
    match &mount.what {
        Place::Writable => w.u8(0),
        Place::ReadOnly => w.u8(1),
        Place::Pinned => w.u8(2),
        Place::OthersReadOnly { except } => w.u8(3).text(except),
        Place::Masked => w.u8(4),
        Place::Without { names } => w.u8(6).list(names, |w, name| {
            w.text(name);
        }),
        Place::Replaced { from } => w.u8(5).text(from),
        Place::View { from } => w.u8(7).text(from),
    };
}

fn put_landlock(w: &mut Writer, rules: &LandlockRules) {
    let path = |w: &mut Writer, path: &PathBuf| {
        w.text(path);
    };
    w.u32(rules.abi).list(&rules.read, path).list(&rules.except, path).list(&rules.write, path);
    w.u8(rules.objects.is_some().into());
    if let Some(objects) = &rules.objects {
        w.text(objects);
    }
    w.u8(rules.execute.is_some().into());
    if let Some(execute) = &rules.execute {
        w.list(execute, path);
    }
    w.u8(rules.deny_tcp.into());
}

fn put_payload(w: &mut Writer, payload: &Payload) {
    w.list(&payload.argv, |w, it| {
        w.text(it);
    });
    w.list(&payload.env, |w, (name, value)| {
        w.text(name).text(value);
    });
    w.text(&payload.cwd).u16(payload.cols).u16(payload.rows);
}

fn get_steps(r: &mut Reader<'_>) -> Result<Steps, WireError> {
    let (level, pipes) = match r.u8()? {
        0 => (Level::Full, false),
        1 => (Level::Reduced, false),
        2 => (Level::Full, true),
        3 => (Level::Reduced, true),
        4 => (Level::Bare, true),
        other => return Err(WireError::Unknown(other.into())),
    };
    let processes = if pipes { Some(r.u64()?).filter(|most| *most != u64::MAX) } else { None };
    let make = r.list(|r| {
        let path = r.path()?;
        let what = match r.u8()? {
            0 => MakeWhat::Dir,
            1 => MakeWhat::File(r.list(Reader::u8)?),
            2 => MakeWhat::Nothing,
            3 => MakeWhat::LooseRefs {
                packed: r.path()?,
                prefix: r.text()?.to_string_lossy().into_owned(),
            },
            other => return Err(WireError::Unknown(other.into())),
        };
        Ok(Make { path, what })
    })?;
    let mounts = r.list(get_mount)?;
    let network = match r.u8()? {
        0 => NetworkStep::Host,
        1 => NetworkStep::Own { listener: false },
        2 => NetworkStep::Own { listener: true },
        other => return Err(WireError::Unknown(other.into())),
    };
    Ok(Steps {
        level,
        pipes,
        processes,
        make,
        mounts,
        network,
        landlock: r.optional(get_landlock)?,
        filter: r.list(Reader::u64)?,
        limits: r.list(|r| Ok((r.u32()?, r.u64()?)))?,
        // Already in the payload's environment.
        unset_env: Vec::new(),
        set_env: Vec::new(),
        git_config: Vec::new(),
    })
}

fn get_mount(r: &mut Reader<'_>) -> Result<Mount, WireError> {
    let at = r.path()?;
    let optional = r.flag()?;
    let what = match r.u8()? {
        0 => Place::Writable,
        1 => Place::ReadOnly,
        2 => Place::Pinned,
        3 => Place::OthersReadOnly { except: r.text()? },
        4 => Place::Masked,
        5 => Place::Replaced { from: r.path()? },
        6 => Place::Without { names: r.list(|r| r.text())? },
        7 => Place::View { from: r.path()? },
        other => return Err(WireError::Unknown(other.into())),
    };
    Ok(Mount { at, what, optional })
}

fn get_landlock(r: &mut Reader<'_>) -> Result<LandlockRules, WireError> {
    Ok(LandlockRules {
        abi: r.u32()?,
        read: r.list(Reader::path)?,
        except: r.list(Reader::path)?,
        write: r.list(Reader::path)?,
        objects: r.optional(Reader::path)?,
        execute: r.optional(|r| r.list(Reader::path))?,
        deny_tcp: r.flag()?,
    })
}

fn get_payload(r: &mut Reader<'_>) -> Result<Payload, WireError> {
    Ok(Payload {
        argv: r.list(Reader::text)?,
        env: r.list(|r| Ok((r.text()?, r.text()?)))?,
        cwd: r.path()?,
        cols: r.u16()?,
        rows: r.u16()?,
    })
}

#[cfg(test)]
mod tests;

//! Exact steps, compiled from a policy; and their sealed form.
//!
//! In: `compile(&Policy, &Probe)` (see `compile.rs`). Out: a [`Plan`], which [`Plan::seal`] writes
//! into a memfd together with the program it is for; sealed because the stage must not read what
//! moves. Absent on purpose: anything decided late. What a stage finds different, it refuses.

use std::ffi::OsString;
#[cfg(target_os = "linux")]
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

pub use crate::compile::{Refused, compile};
pub use crate::explain::{Explanation, explain};
use crate::launch::Launch;
use crate::layout;
use crate::memfd::{self, MemfdError};
use crate::policy::{Level, Policy};
use crate::wire::{Reader, Wire, WireError, Writer};

/// Where the proxy listens inside, if hosts are allowed. The usual number, so that people know what
/// it is.
pub const PROXY_PORT: u16 = 3128;
/// Layout of the sealed bytes. Both sides are the same binary; a keeper that is older refuses
/// instead of guessing.
const PLAN_VERSION: u16 = 2;
/// For errors, and the memfd's name.
const PLAN: &str = "sandbox plan";
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
    /// Shallow before deep, so that each lands on what the ones before made. Empty at level
    /// reduced.
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

layout!(struct Make { path, what });

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MakeWhat {
    /// With its parents.
    Dir,
    /// With this content.
    File(Vec<u8>),
    /// Nothing: it must be there.
    Nothing,
    /// Branches in this directory that exist only in the packed list: as files of their own, which
    /// can be protected.
    LooseRefs {
        /// `packed-refs`.
        packed: PathBuf,
        /// Full name of the directory with a slash: `refs/heads/greenroom/`.
        prefix: String,
    },
}

layout!(enum MakeWhat: u8 { 0 Dir, 1 File(content), 2 Nothing, 3 LooseRefs { packed, prefix } });

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    pub at: PathBuf,
    pub what: Place,
    /// Missing is fine.
    pub optional: bool,
}

layout!(struct Mount { at, optional, what });

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
    /// What is in this directory as the session starts, read-only and without these names, whoever
    /// makes them later. A mask on a file ends when somebody outside replaces the file; this is
    /// about names.
    Without { names: Vec<OsString> },
    /// This directory of the host instead.
    Replaced { from: PathBuf },
    /// This of the host instead, read-only.
    View { from: PathBuf },
}

layout!(enum Place: u8 {
    0 Writable,
    1 ReadOnly,
    2 Pinned,
    3 OthersReadOnly { except },
    4 Masked,
    5 Replaced { from },
    6 Without { names },
    7 View { from }
});

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkStep {
    /// The machine's (level reduced has no sockets for it unless the network is open).
    Host,
    /// A network of its own with a loopback.
    Own,
    /// The same, and a listener for the proxy.
    OwnWithListener,
}

layout!(enum NetworkStep: u8 { 0 Host, 1 Own, 2 OwnWithListener });

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

layout!(struct LandlockRules { abi, read, except, write, objects, execute, deny_tcp });

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error(transparent)]
    Memfd(#[from] MemfdError),
    #[error("the sandbox plan cannot be read: {0}")]
    Malformed(#[from] WireError),
    #[error("{0} of the program to sandbox is empty or holds a NUL byte")]
    BadLaunch(&'static str),
}

impl Plan {
    /// The plan and its program in a sealed memfd, to go with `Spawn`.
    pub fn seal(&self, launch: &Launch) -> Result<OwnedFd, SealError> {
        launch.check().map_err(SealError::BadLaunch)?;
        let launch = Launch { env: self.steps.environment(&launch.env), ..launch.clone() };
        let bytes = Writer::default().put(&PLAN_VERSION).put(&self.steps).put(&launch).finish();
        Ok(memfd::seal(PLAN, &bytes, MAX_PLAN_BYTES)?)
    }
}

/// Reads a plan back; only from a memfd that can no longer change.
#[cfg(target_os = "linux")]
pub(crate) fn unseal(fd: BorrowedFd<'_>) -> Result<(Steps, Launch), SealError> {
    Ok(decode(&memfd::unseal(PLAN, fd, MAX_PLAN_BYTES)?)?)
}

fn decode(bytes: &[u8]) -> Result<(Steps, Launch), WireError> {
    let mut r = Reader::new(bytes, Vec::new());
    match r.get("version")? {
        PLAN_VERSION => Wire::get(&mut r),
        found => Err(WireError::Version { what: "the plan", found, expected: PLAN_VERSION }),
    }
}

impl Wire for Steps {
    fn put(&self, w: &mut Writer) {
        // Plans for terminals are as they always were, so that a stage which knows no others still
        // reads them.
        let kind: u8 = match (self.level, self.pipes) {
            (Level::Full, false) => 0,
            (Level::Reduced, false) => 1,
            (Level::Full, true) => 2,
            (Level::Reduced, true) => 3,
            (Level::Bare, _) => 4,
        };
        w.put(&kind);
        if self.pipes || self.level == Level::Bare {
            w.put(&self.processes.unwrap_or(u64::MAX));
        }
        w.put(&self.make).put(&self.mounts).put(&self.network).put(&self.landlock);
        w.put(&self.filter).put(&self.limits);
    }

    fn get(r: &mut Reader<'_>) -> Result<Steps, WireError> {
        let (level, pipes) = match r.get::<u8>("level")? {
            0 => (Level::Full, false),
            1 => (Level::Reduced, false),
            2 => (Level::Full, true),
            3 => (Level::Reduced, true),
            4 => (Level::Bare, true),
            other => return Err(r.bad_value(other)),
        };
        let processes = if pipes { Some(r.get("processes")?) } else { None };
        Ok(Steps {
            level,
            pipes,
            processes: processes.filter(|most| *most != u64::MAX),
            make: r.get("make")?,
            mounts: r.get("mounts")?,
            network: r.get("network")?,
            landlock: r.get("landlock")?,
            filter: r.get("filter")?,
            limits: r.get("limits")?,
            // Already in the payload's environment.
            unset_env: Vec::new(),
            set_env: Vec::new(),
            git_config: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests;

//! Policy and probe compiled to exact steps.
//!
//! In: a [`Policy`] and what the machine can do. Out: a [`Plan`] that a stage carries out step by step, or [`Refused`]: the
//! policy contradicts itself, or a layer it needs is missing. Pure: the same input gives the same plan anywhere. Absent on
//! purpose: the program. [`Plan::seal`] adds it at the end, together with the environment it gets.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::layer::Layer;
use crate::policy::{Level, Policy};
use crate::probe::{Outcome, Probe};

/// Where the proxy listens inside, if hosts are allowed. The usual number, so that people know what it is.
pub const PROXY_PORT: u16 = 3128;

/// Exact steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub level: Level,
    /// The policy it was made from, for `explain`.
    pub policy: Policy,
    /// Landlock version to apply; 0: none.
    pub landlock_abi: u32,
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

/// Why there is no plan. The session must not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the sandbox cannot allow writing to all of {}: {why}", path.display())]
    TooWide { path: PathBuf, why: &'static str },
    #[error("{} in the sandbox policy must be an absolute path without `.` or `..`", .0.display())]
    NotAbsolute(PathBuf),
    #[error("{} is both hidden and writable in the sandbox policy", .0.display())]
    Contradiction(PathBuf),
    #[error(
        "allowed hosts need sandbox level full: at level reduced nothing could hold a program to the proxy"
    )]
    HostsNeedFull,
    #[error("sandbox level reduced is not available to root: use level full")]
    ReducedAsRoot,
    #[error("sandbox level {level} cannot be enforced on this machine")]
    Missing { level: Level, layers: Vec<(Layer, Outcome)> },
}

/// Compiles. Pure.
pub fn compile(policy: &Policy, probe: &Probe) -> Result<Plan, Refused> {
    Ok(Plan { level: policy.level, policy: policy.clone(), landlock_abi: probe.landlock_abi })
}

#[derive(Debug, thiserror::Error)]
pub enum SealError {
    #[error("cannot {step} the sandbox plan")]
    Io { step: &'static str, source: std::io::Error },
}

impl Plan {
    /// The plan and its program in a sealed memfd, to go with `Spawn`.
    pub fn seal(&self, _payload: &Payload) -> Result<OwnedFd, SealError> {
        Err(SealError::Io { step: "write", source: std::io::ErrorKind::Unsupported.into() })
    }
}

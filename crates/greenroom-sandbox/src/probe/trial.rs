//! Each layer, tried in a child as a stage would apply it, with the stage's own code.
//!
//! In: nothing. Out: what worked and what was refused at which step. One child tries namespaces and
//! mounts, another what works without them, so that one missing layer hides no other. Landlock and
//! the filter are not only applied but asked to hold something back. Absent on purpose: anything
//! that would outlive the children.
//!
//! The children of a process with many threads may allocate (the C library sees to that) but touch
//! nothing shared.

use std::io::Read;
use std::path::PathBuf;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use super::{Probe, Trial, TrialResult};
use crate::control::StageError;
use crate::filter::{self, FilterOptions};
use crate::layer::Layer;
use crate::plan::{LandlockRules, Mount, NetworkStep, Place};
use crate::stage::terminal::Terminal;
use crate::stage::{Failing, mounts, namespaces, privileges, sys};
use crate::wire::Wire;

/// Far above what the children say.
const MAX_TOLD_BYTES: u64 = 64 * 1024;

/// Inside of namespaces, in the order in which each stands on the one before.
const NAMESPACED: [Layer; 11] = [
    Layer::UserNamespace,
    Layer::MountNamespace,
    Layer::IpcNamespace,
    Layer::PidNamespace,
    Layer::NetworkNamespace,
    Layer::Loopback,
    Layer::Processes,
    Layer::Mounts,
    Layer::Terminal,
    Layer::Proc,
    Layer::Capabilities,
];
const NETWORK: [Layer; 2] = [Layer::NetworkNamespace, Layer::Loopback];
const PLAIN: [Layer; 3] = [Layer::NoNewPrivileges, Layer::Landlock, Layer::Seccomp];

pub(super) fn probe() -> Probe {
    let landlock_abi = sys::landlock_version().unwrap_or(0);
    let with_network = in_child(|| namespaced(NetworkStep::OwnWithListener));
    let mut trials = judge(&NAMESPACED, &with_network);
    if with_network.as_ref().is_err_and(|fault| NETWORK.contains(&fault.layer)) {
        // The rest does not stand on the network.
        let without = in_child(|| namespaced(NetworkStep::Host));
        let rest = judge(&NAMESPACED, &without);
        trials.retain(|trial| NETWORK.contains(&trial.layer));
        trials.extend(rest.into_iter().filter(|trial| !NETWORK.contains(&trial.layer)));
    }
    for layer in PLAIN {
        let tried = in_child(|| plain(layer, landlock_abi));
        trials.push(Trial { layer, outcome: outcome(&tried) });
    }
    trials.sort_by_key(|trial| trial.layer);
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    Probe { kernel, uid: rustix::process::geteuid().as_raw(), landlock_abi, trials }
}

/// Everything before the fault worked, everything after it was not tried.
fn judge(layers: &[Layer], result: &Result<(), StageError>) -> Vec<Trial> {
    let failed = result.as_ref().err();
    // A path of the trial itself is part of the mounts.
    let blamed =
        failed.map(|fault| if fault.layer == Layer::Paths { Layer::Mounts } else { fault.layer });
    let at = blamed.and_then(|blamed| layers.iter().position(|layer| *layer == blamed));
    let judged = layers.iter().enumerate().map(|(place, layer)| {
        let outcome = match (failed, at) {
            (None, _) => TrialResult::Works,
            (Some(_), Some(at)) if place < at => TrialResult::Works,
            (Some(_), Some(at)) if place > at => TrialResult::NotTried { needs: layers[at] },
            (Some(fault), _) => outcome(&Err(fault.clone())),
        };
        Trial { layer: *layer, outcome }
    });
    judged.collect()
}

fn outcome(result: &Result<(), StageError>) -> TrialResult {
    match result {
        Ok(()) => TrialResult::Works,
        Err(fault) => TrialResult::Failed { errno: fault.errno, step: fault.step.clone() },
    }
}

fn namespaced(network: NetworkStep) -> Result<(), StageError> {
    namespaces::enter(network, None)?;
    // The first process of the new pid namespace does the rest, as in a stage.
    in_child(|| {
        let place = |at: &str, what| Mount { at: PathBuf::from(at), what, optional: true };
        let from = PathBuf::from("/tmp");
        let tried = [place("/run", Place::Masked), place("/tmp", Place::Replaced { from })];
        mounts::build(&tried)?;
        let opened = Terminal::open(80, 24).map(drop);
        opened.failing(Layer::Terminal, || "open a terminal".into())?;
        privileges::drop_capabilities(true)
    })
}

fn plain(layer: Layer, abi: u32) -> Result<(), StageError> {
    privileges::no_new_privileges()?;
    match layer {
        Layer::Landlock => landlock(abi),
        Layer::Seccomp => seccomp(),
        _ => Ok(()),
    }
}

fn landlock(abi: u32) -> Result<(), StageError> {
    if abi == 0 {
        let errno = sys::landlock_version().err().unwrap_or(Errno::NOSYS);
        return Err(StageError::new(Layer::Landlock, "ask for it", errno.raw_os_error()));
    }
    let terminal =
        rustix::fs::openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| {
                StageError::new(Layer::Landlock, "open /dev/null", errno.raw_os_error())
            })?;
    let rules = LandlockRules {
        abi,
        read: vec!["/".into()],
        except: Vec::new(),
        write: Vec::new(),
        objects: None,
        execute: None,
        deny_tcp: true,
    };
    privileges::restrict_paths(&rules, &privileges::Terminals::Only(&terminal))?;
    let name = format!("/tmp/.greenroom-trial-{}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, name.as_str(), flags, Mode::RUSR) {
        Err(Errno::ACCESS) => Ok(()),
        // Not denied by it, but not written either: there is nothing to hold back on this machine.
        Err(_) => Ok(()),
        Ok(_) => {
            let _ = rustix::fs::unlink(name.as_str());
            Err(StageError::new(Layer::Landlock, "hold a write back", libc::ENOTSUP))
        }
    }
}

fn seccomp() -> Result<(), StageError> {
    let options =
        FilterOptions { inet: false, unix: false, debug: false, spawn: true, namespaces: false };
    privileges::filter(&filter::build(options))?;
    match sys::unshare(0) {
        Err(Errno::PERM) => Ok(()),
        _ => Err(StageError::new(Layer::Seccomp, "hold a call back", libc::ENOTSUP)),
    }
}

/// Runs `trial` in a child and hears its result.
fn in_child(trial: impl FnOnce() -> Result<(), StageError>) -> Result<(), StageError> {
    let fault = |errno: Errno| StageError::new(Layer::Processes, "fork", errno.raw_os_error());
    let (hear, tell) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(fault)?;
    match sys::fork().map_err(fault)? {
        None => {
            drop(hear);
            let _ = rustix::io::write(&tell, &trial().err().encode());
            sys::exit(0)
        }
        Some(child) => {
            drop(tell);
            let mut bytes = Vec::new();
            let _ = std::fs::File::from(hear).take(MAX_TOLD_BYTES).read_to_end(&mut bytes);
            let _ = sys::wait(child);
            match Option::<StageError>::decode(&bytes) {
                Ok(fault) => fault.map_or(Ok(()), Err),
                // It was killed at the first step, or by its own filter.
                Err(_) => Err(StageError::new(Layer::Processes, "hear from a trial", libc::ECHILD)),
            }
        }
    }
}

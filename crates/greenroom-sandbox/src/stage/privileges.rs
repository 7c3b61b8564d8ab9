//! Giving up: capabilities, new privileges, paths (Landlock), system calls (seccomp). In this
//! order, each for ever.
//!
//! In: the plan's rules. Out: nothing, or a fault; after a fault the program does not run. Landlock
//! comes after the mounts, which it would refuse, and before seccomp, which is last because
//! everything before needs some call it takes away.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{Failing, paths, sys};
use crate::control::StageError;
use crate::layer::Layer;
use crate::plan::LandlockRules;

/// The newest version whose rules have been tried; newer kernels offer it too.
pub(crate) const TRIED_ABI: u32 = 7;
/// Most entries of one directory that get rules of their own around something hidden.
const MAX_NEIGHBOURS: usize = 4096;

/// No capability now or later. `namespaced`: there are some to lose, and the right to lose them for
/// ever.
pub(crate) fn drop_capabilities(namespaced: bool) -> Result<(), StageError> {
    let layer = Layer::Capabilities;
    if namespaced {
        sys::drop_bounding_set().failing(layer, || "empty the bounding set".into())?;
        sys::lock_secure_bits().failing(layer, || "lock the secure bits".into())?;
    }
    rustix::thread::clear_ambient_capability_set()
        .failing(layer, || "empty the ambient set".into())?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).failing(layer, || "drop all".into())
}

/// For the process that puts mounts back, and nothing else; without `mounts` not even that.
pub(crate) fn keep_for_mounts(mounts: bool) -> Result<(), StageError> {
    let layer = Layer::Capabilities;
    rustix::thread::clear_ambient_capability_set()
        .failing(layer, || "empty the ambient set".into())?;
    let kept = if mounts { CapabilitySet::SYS_ADMIN } else { CapabilitySet::empty() };
    let inheritable = CapabilitySet::empty();
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable };
    rustix::thread::set_capabilities(None, sets).failing(layer, || "drop the rest".into())
}

pub(crate) fn no_new_privileges() -> Result<(), StageError> {
    rustix::thread::set_no_new_privs(true).failing(Layer::NoNewPrivileges, || "set it".into())
}

pub(crate) fn filter(instructions: &[u64]) -> Result<(), StageError> {
    sys::install_filter(instructions).failing(Layer::Seccomp, || "install the filter".into())
}

/// Which terminals a program may open.
pub(crate) enum Terminals<'a> {
    /// Every one of a devpts of its own.
    Own,
    /// One, since others can be seen.
    Only(&'a OwnedFd),
    None,
}

/// Applies the rules to this process, for ever.
pub(crate) fn restrict_paths(
    rules: &LandlockRules,
    terminals: &Terminals<'_>,
) -> Result<(), StageError> {
    let abi = abi(rules.abi);
    let mut set = ruleset(rules, abi).map_err(|error| landlock_error("make the rules", &error))?;
    let all = AccessFs::from_all(abi);
    let files = AccessFs::from_file(abi);
    let mut allow = Allow { set: &mut set, all, files };
    let read = reading(rules);
    for path in &rules.read {
        readable(&mut allow, path, &rules.except, read)?;
    }
    for path in rules.execute.iter().flatten() {
        allow.below(path, AccessFs::Execute.into(), true)?;
    }
    let changing = all & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let changing = if rules.execute.is_some() { changing & !AccessFs::Execute } else { changing };
    for path in &rules.write {
        // `/dev/shm` may be missing; everything else has been opened before.
        allow.below(path, changing, path == Path::new("/dev/shm"))?;
    }
    if let Some(objects) = &rules.objects {
        fan_out(&mut allow, objects, changing)?;
    }
    devices(&mut allow, terminals)?;
    let status =
        set.restrict_self().map_err(|error| landlock_error("restrict this process", &error))?;
    match status.ruleset {
        landlock::RulesetStatus::FullyEnforced => Ok(()),
        _ => Err(StageError::new(Layer::Landlock, "enforce every rule", libc::ENOTSUP)),
    }
}

pub(crate) fn abi(number: u32) -> ABI {
    match number.min(TRIED_ABI) {
        0 => ABI::Unsupported,
        1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        6 => ABI::V6,
        _ => ABI::V7,
    }
}

fn ruleset(rules: &LandlockRules, abi: ABI) -> Result<RulesetCreated, landlock::RulesetError> {
    let mut set = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(abi))?;
    // Refused if empty, which it is in older versions.
    if !Scope::from_all(abi).is_empty() {
        set = set.scope(Scope::from_all(abi))?;
    }
    if rules.deny_tcp && !AccessNet::from_all(abi).is_empty() {
        set = set.handle_access(AccessNet::from_all(abi))?;
    }
    set.create()
}

fn reading(rules: &LandlockRules) -> BitFlags<AccessFs> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    if rules.execute.is_some() { read } else { read | AccessFs::Execute }
}

struct Allow<'a> {
    set: &'a mut RulesetCreated,
    all: BitFlags<AccessFs>,
    files: BitFlags<AccessFs>,
}

impl Allow<'_> {
    fn below(
        &mut self,
        path: &Path,
        access: BitFlags<AccessFs>,
        optional: bool,
    ) -> Result<(), StageError> {
        let failing = || format!("open {} for a rule", path.display());
        match rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) if optional => Ok(()),
            fd => self.at(&fd.failing(Layer::Landlock, failing)?, access),
        }
    }

    fn at(&mut self, fd: &OwnedFd, access: BitFlags<AccessFs>) -> Result<(), StageError> {
        let kind = paths::kind(fd.as_fd()).failing(Layer::Landlock, || "look at a path".into())?;
        let access = if kind == FileType::Directory { access } else { access & self.files };
        let rule = PathBeneath::new(fd, access & self.all);
        (&mut *self.set)
            .add_rule(rule)
            .map(drop)
            .map_err(|error| landlock_error("add a rule", &error))
    }
}

/// A tree is readable, but not what is hidden in it: a rule for the tree would include it, so each
/// neighbour of each hidden path gets one instead. Names can be listed everywhere; contents not.
fn readable(
    allow: &mut Allow<'_>,
    tree: &Path,
    except: &[PathBuf],
    access: BitFlags<AccessFs>,
) -> Result<(), StageError> {
    // Resolved, because rules are about places and not about names.
    let resolved: Vec<PathBuf> =
        except.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone())).collect();
    let hidden: Vec<&Path> =
        resolved.iter().map(PathBuf::as_path).filter(|path| path.starts_with(tree)).collect();
    if hidden.is_empty() {
        return allow.below(tree, access, true);
    }
    allow.below(tree, AccessFs::ReadDir.into(), true)?;
    around(allow, tree, &hidden, access)
}

fn around(
    allow: &mut Allow<'_>,
    dir: &Path,
    hidden: &[&Path],
    access: BitFlags<AccessFs>,
) -> Result<(), StageError> {
    if hidden.contains(&dir) {
        return Ok(());
    }
    if !hidden.iter().any(|path| path.starts_with(dir)) {
        return allow.below(dir, access, true);
    }
    let Ok(fd) = paths::open(dir) else {
        return Ok(());
    };
    let names = match paths::entries(fd.as_fd(), MAX_NEIGHBOURS) {
        // What cannot be listed cannot be opened one by one either.
        Err(Errno::ACCESS) => return Ok(()),
        names => names.failing(Layer::Landlock, || format!("list {}", dir.display()))?,
    };
    for name in names {
        around_entry(allow, &dir.join(name), hidden, access)?;
    }
    Ok(())
}

fn around_entry(
    allow: &mut Allow<'_>,
    path: &Path,
    hidden: &[&Path],
    access: BitFlags<AccessFs>,
) -> Result<(), StageError> {
    // A symlink needs no rule: what it leads to has its own, or none.
    match paths::open_real(path) {
        Ok(_) => around(allow, path, hidden, access),
        Err(_) => Ok(()),
    }
}

/// Loose objects live in 256 directories; packs and alternates beside them stay out.
fn fan_out(
    allow: &mut Allow<'_>,
    objects: &Path,
    access: BitFlags<AccessFs>,
) -> Result<(), StageError> {
    for number in 0..=255 {
        let dir = objects.join(format!("{number:02x}"));
        let fd =
            paths::make_dirs(&dir).failing(Layer::Paths, || format!("make {}", dir.display()))?;
        allow.at(&fd, access)?;
    }
    Ok(())
}

/// Harmless devices, and terminals.
fn devices(allow: &mut Allow<'_>, terminals: &Terminals<'_>) -> Result<(), StageError> {
    let mut access = AccessFs::ReadFile | AccessFs::WriteFile;
    access |= allow.all & (AccessFs::IoctlDev | AccessFs::Truncate);
    for name in ["null", "zero", "full", "random", "urandom", "tty"] {
        allow.below(&Path::new("/dev").join(name), access, true)?;
    }
    match terminals {
        Terminals::None => Ok(()),
        Terminals::Only(terminal) => allow.at(terminal, access),
        Terminals::Own => {
            allow.below(Path::new("/dev/ptmx"), access, false)?;
            allow.below(Path::new("/dev/pts"), access | AccessFs::ReadDir, false)
        }
    }
}

/// The crate's errors are a chain whose end is the system's.
pub(crate) fn landlock_error(step: &str, error: &(dyn std::error::Error + 'static)) -> StageError {
    let mut source = Some(error);
    let mut errno = libc::ENOTSUP;
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref::<std::io::Error>().and_then(|it| it.raw_os_error())
        {
            errno = found;
        }
        source = error.source();
    }
    StageError::new(Layer::Landlock, step, errno)
}

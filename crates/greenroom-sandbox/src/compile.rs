//! Policy and probe → plan. Pure: the same input gives the same plan on any machine.
//!
//! In: a [`Policy`] and what this machine can do. Out: a [`Plan`], or [`Refused`] with the reason
//! and what to do about it. Absent on purpose: the file system. Whether a path is there, and is no
//! symlink, is the stage's to find.

mod git;
mod places;

use std::fmt;
use std::path::{Component, Path, PathBuf};

use crate::environment;
use crate::layer::Layer;
use crate::plan::{LandlockRules, NetworkStep, Plan, Steps};
use crate::policy::{Level, Network, Policy, Reads};
use crate::probe::{NEEDED_LANDLOCK, Probe, TrialResult};

/// Why there is no plan. The session must not start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("a sandbox cannot make all of {} writable: {why}", path.display())]
    TooWide { path: PathBuf, why: &'static str },
    #[error("{} in the sandbox policy is not an absolute path without `.` and `..`", .0.display())]
    NotAbsolute(PathBuf),
    #[error("{} is both hidden and writable in the sandbox policy, or both the user's and the session's own", .0.display())]
    Contradiction(PathBuf),
    #[error("{} is not below {}: the worktree's git data is not where it should be", inner.display(), outer.display())]
    GitLayout { inner: PathBuf, outer: PathBuf },
    #[error("`{0}` is no branch a sandboxed session could have")]
    BadBranch(String),
    #[error(
        "allowed hosts need sandbox level full: at level reduced nothing holds a program to the proxy"
    )]
    HostsNeedFull,
    #[error("sandbox level reduced is not for root: use level full")]
    ReducedAsRoot,
    #[error("sandbox level bare is no fence, and not for sessions")]
    BareWithTerminal,
    #[error("{0}")]
    Missing(Missing),
}

/// Layers a level needs and this machine does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    pub level: Level,
    pub layers: Vec<(Layer, TrialResult)>,
    /// Version of Landlock that was found.
    pub landlock_abi: u32,
    /// The other level would work.
    pub reduced_works: bool,
}

impl Missing {
    /// One line for each layer.
    pub fn lines(&self) -> Vec<String> {
        let line = |(layer, outcome): &(Layer, TrialResult)| match (layer, self.landlock_abi) {
            (Layer::Landlock, 1..NEEDED_LANDLOCK) => format!(
                "landlock: version {} is too old, {NEEDED_LANDLOCK} is needed (Linux 6.2)",
                self.landlock_abi
            ),
            _ => format!("{layer}: {outcome}"),
        };
        self.layers.iter().map(line).collect()
    }

    /// What the user can do, the likeliest first.
    pub fn remedies(&self) -> Vec<&'static str> {
        let lacks = |layer: Layer| self.layers.iter().any(|(it, _)| *it == layer);
        let namespaces =
            Layer::ALL[Layer::UserNamespace as usize..=Layer::Terminal as usize].iter();
        let mut remedies = Vec::new();
        if namespaces.copied().any(lacks) {
            remedies.push("Ubuntu 23.10 and later: allow greenroom user namespaces with the AppArmor profile in docs/sandbox.md");
            remedies.push("other systems: sysctl user.max_user_namespaces and kernel.unprivileged_userns_clone must not be 0");
            remedies.push("in a container: run greenroom on the host, or start the container with user namespaces and an unmasked /proc");
            if self.reduced_works {
                remedies.push("use --sandbox=reduced, which this machine can enforce (weaker: see docs/sandbox.md)");
            }
        }
        if lacks(Layer::Landlock) {
            remedies.push("Landlock: Linux 6.2 or later, with landlock in the kernel's lsm= list");
        }
        if lacks(Layer::Seccomp) || lacks(Layer::NoNewPrivileges) {
            remedies.push("seccomp: a kernel with CONFIG_SECCOMP_FILTER, and no container policy that forbids seccomp(2)");
        }
        remedies.push("leave out --sandbox to run without a sandbox");
        remedies
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sandbox level {} cannot be enforced on this machine", self.level)?;
        for line in self.lines() {
            write!(f, "; {line}")?;
        }
        Ok(())
    }
}

/// Compiles.
pub fn compile(policy: &Policy, probe: &Probe) -> Result<Plan, Refused> {
    check_paths(policy)?;
    if policy.level == Level::Reduced && probe.uid == 0 {
        return Err(Refused::ReducedAsRoot);
    }
    if policy.level == Level::Bare && !policy.pipes {
        return Err(Refused::BareWithTerminal);
    }
    if policy.level != Level::Full && matches!(policy.network, Network::Hosts(_)) {
        return Err(Refused::HostsNeedFull);
    }
    check_layers(policy, probe)?;
    let git = policy.git.as_ref().map(git::rules).transpose()?.unwrap_or_default();
    let full = policy.level == Level::Full;
    let places = places::arrange(policy, &git)?;
    let fenced = policy.level != Level::Bare;
    let steps = Steps {
        level: policy.level,
        pipes: policy.pipes,
        // The kernel's own limit counts at level full only, and never for root.
        processes: policy.limits.processes.filter(|_| policy.pipes && (!full || probe.uid == 0)),
        make: if full { places.make } else { git.make_reduced() },
        mounts: if full { places.mounts } else { Vec::new() },
        network: match policy.network {
            _ if !full => NetworkStep::Host,
            Network::Open => NetworkStep::Host,
            Network::None => NetworkStep::Own,
            Network::Hosts(_) => NetworkStep::OwnWithListener,
        },
        landlock: landlock(policy, probe, &git).filter(|_| fenced),
        filter: if fenced { filter(policy) } else { Vec::new() },
        limits: limits(policy),
        unset_env: environment::unset(policy),
        set_env: environment::set(policy),
        git_config: environment::git_config(policy),
    };
    Ok(Plan { policy: policy.clone(), steps })
}

pub(crate) fn check_paths(policy: &Policy) -> Result<(), Refused> {
    let protected = policy.protected.iter().map(|it| &it.path);
    let reads = match &policy.reads {
        Reads::All => &Vec::new(),
        Reads::Only(paths) => paths,
    };
    for path in [&policy.cwd, &policy.tmp_dir]
        .into_iter()
        .chain(&policy.writable)
        .chain(protected)
        .chain(&policy.hidden)
        .chain(&policy.visible)
        .chain(policy.private.iter().flat_map(|it| [&it.at, &it.from]))
        .chain(policy.private.iter().flat_map(|it| it.views.iter().map(|(_, from)| from)))
        .chain(policy.home.as_ref())
        .chain(reads)
    {
        check_absolute(path)?;
    }
    for path in &policy.writable {
        if path.parent().is_none() {
            return Err(too_wide(path, "it is the root directory"));
        }
        if policy.home.as_ref().is_some_and(|home| home == path) {
            return Err(too_wide(path, "it is your home directory: start in a project directory"));
        }
        if policy.home.as_ref().is_some_and(|home| home.starts_with(path)) {
            return Err(too_wide(path, "your home directory is in it"));
        }
        if RESERVED.iter().any(|reserved| Path::new(reserved) == path) {
            return Err(too_wide(path, "it belongs to the system"));
        }
        if policy.hidden.contains(path) {
            return Err(Refused::Contradiction(path.clone()));
        }
    }
    for private in &policy.private {
        if policy.hidden.contains(&private.at) || policy.writable.contains(&private.at) {
            return Err(Refused::Contradiction(private.at.clone()));
        }
    }
    Ok(())
}

/// Replaced or made anew inside, or never a session's.
const RESERVED: [&str; 10] =
    ["/tmp", "/run", "/proc", "/dev", "/sys", "/usr", "/etc", "/bin", "/lib", "/var"];

fn too_wide(path: &Path, why: &'static str) -> Refused {
    Refused::TooWide { path: path.to_owned(), why }
}

pub(crate) fn check_absolute(path: &Path) -> Result<(), Refused> {
    use std::os::unix::ffi::OsStrExt;
    let mut components = path.components();
    let rooted = components.next() == Some(Component::RootDir);
    let plain = components.all(|it| matches!(it, Component::Normal(_)));
    // `components` passes over `.` and doubled slashes; they are no canonical path all the same.
    let canonical = path.as_os_str().as_bytes();
    let doubled = canonical.windows(2).any(|pair| pair == b"//")
        || canonical.windows(3).any(|three| three == b"/./")
        || canonical.ends_with(b"/.");
    if rooted && plain && !doubled && !canonical.contains(&0) {
        Ok(())
    } else {
        Err(Refused::NotAbsolute(path.to_owned()))
    }
}

fn check_layers(policy: &Policy, probe: &Probe) -> Result<(), Refused> {
    let missing = missing(policy, policy.level, probe);
    if missing.is_empty() {
        return Ok(());
    }
    let reduced_works = policy.level == Level::Full
        && probe.uid != 0
        && !matches!(policy.network, Network::Hosts(_))
        && self::missing(policy, Level::Reduced, probe).is_empty();
    let (level, landlock_abi) = (policy.level, probe.landlock_abi);
    Err(Refused::Missing(Missing { level, layers: missing, landlock_abi, reduced_works }))
}

fn missing(policy: &Policy, level: Level, probe: &Probe) -> Vec<(Layer, TrialResult)> {
    let mut needed = vec![Layer::NoNewPrivileges];
    if level != Level::Bare {
        needed.push(Layer::Seccomp);
    }
    if level == Level::Reduced || (level == Level::Full && !policy.without_landlock) {
        needed.push(Layer::Landlock);
    }
    if level == Level::Full {
        needed.extend([
            Layer::UserNamespace,
            Layer::MountNamespace,
            Layer::PidNamespace,
            Layer::IpcNamespace,
            Layer::Processes,
            Layer::Mounts,
            Layer::Proc,
            Layer::Terminal,
            Layer::Capabilities,
        ]);
        if policy.network != Network::Open {
            needed.extend([Layer::NetworkNamespace, Layer::Loopback]);
        }
    }
    let enough = |layer: Layer| {
        probe.works(layer) && (layer != Layer::Landlock || probe.landlock_abi >= NEEDED_LANDLOCK)
    };
    needed.sort_unstable();
    let outcome = |layer: Layer| probe.trials.iter().find(|it| it.layer == layer);
    let untried = || TrialResult::Failed { errno: libc::ENOSYS, step: "try it".to_owned() };
    needed
        .into_iter()
        .filter(|layer| !enough(*layer))
        .map(|layer| (layer, outcome(layer).map_or_else(untried, |it| it.outcome.clone())))
        .collect()
}

/// The system's programs and libraries, and what they read to start.
const SYSTEM: [&str; 21] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/dev",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/run/systemd/resolve",
];

fn landlock(policy: &Policy, probe: &Probe, git: &git::Places) -> Option<LandlockRules> {
    if probe.landlock_abi < NEEDED_LANDLOCK {
        return None;
    }
    let full = policy.level == Level::Full;
    let mut write = policy.writable.clone();
    write.extend(["/tmp", "/dev/shm"].map(PathBuf::from));
    if full {
        write.extend(policy.private.iter().map(|it| it.at.clone()));
        write.extend(git.writable.iter().cloned());
        write.extend(git.objects.clone());
    } else {
        write.extend(policy.private.iter().map(|it| it.from.clone()));
        write.push(policy.tmp_dir.clone());
        write.extend(git.writable.iter().cloned());
    }
    write.dedup();
    let read = match &policy.reads {
        Reads::All => vec![PathBuf::from("/")],
        Reads::Only(paths) => {
            let own = full.then(|| PathBuf::from("/proc"));
            SYSTEM.iter().map(PathBuf::from).chain(own).chain(paths.iter().cloned()).collect()
        }
    };
    let execute = (!policy.spawn).then(|| {
        let loaders = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store"];
        let own = match &policy.reads {
            Reads::All => Vec::new(),
            Reads::Only(paths) => paths.clone(),
        };
        loaders.into_iter().map(PathBuf::from).chain(own).collect()
    });
    Some(LandlockRules {
        abi: probe.landlock_abi,
        read,
        except: if full { Vec::new() } else { policy.hidden.clone() },
        write,
        objects: if full { None } else { git.objects.clone() },
        execute,
        // In a network of its own this would only break local servers.
        deny_tcp: !full && policy.network == Network::None,
    })
}

#[cfg(target_os = "linux")]
fn filter(policy: &Policy) -> Vec<u64> {
    let full = policy.level == Level::Full;
    crate::filter::build(crate::filter::FilterOptions {
        inet: full || policy.network == Network::Open,
        unix: policy.allow.unix,
        debug: policy.allow.debug,
        spawn: policy.spawn,
        namespaces: full,
    })
}

#[cfg(not(target_os = "linux"))]
fn filter(_policy: &Policy) -> Vec<u64> {
    Vec::new()
}

#[cfg(target_os = "linux")]
fn limits(policy: &Policy) -> Vec<(u32, u64)> {
    let limits = &policy.limits;
    let asked = [
        (libc::RLIMIT_NOFILE, limits.open_files),
        (libc::RLIMIT_FSIZE, limits.file_bytes),
        (libc::RLIMIT_AS, limits.address_bytes),
        (libc::RLIMIT_DATA, limits.data_bytes),
        (libc::RLIMIT_CPU, limits.cpu_seconds),
        // Outside of a user namespace it would count all of the user's processes.
        (libc::RLIMIT_NPROC, limits.processes.filter(|_| policy.level == Level::Full)),
    ];
    let asked = asked.into_iter().filter_map(|(resource, value)| Some((resource, value?)));
    [(libc::RLIMIT_CORE, 0), (libc::RLIMIT_MSGQUEUE, 0)].into_iter().chain(asked).collect()
}

#[cfg(not(target_os = "linux"))]
fn limits(_policy: &Policy) -> Vec<(u32, u64)> {
    Vec::new()
}

#[cfg(test)]
mod tests;

//! A cgroup of its own for a session: the one container no process can leave.
//!
//! In: a writable cgroup v2 directory (delegated by systemd, or ours as root). Out: a child group whose `cgroup.procs` goes
//! with `Spawn`, which can be killed whole and removed. Optional: `probe` says why there is none, and the daemon then relies
//! on `tree.rs`. Absent on purpose: limits and controllers.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// `CGROUP2_SUPER_MAGIC`.
const CGROUP2_MAGIC: i64 = 0x6367_7270;
/// Where v2 is mounted: alone, or beside v1 (systemd's hybrid layout).
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error("{} is not cgroup v2", .0.display())]
    NotVersion2(PathBuf),
    #[error("the kernel cannot kill a cgroup at once (it is older than 5.14)")]
    NoKill,
    #[error("cannot {step} {}", path.display())]
    Io { step: &'static str, path: PathBuf, source: io::Error },
    #[error("{0:?} is no name for a cgroup")]
    BadName(String),
}

/// The cgroup this process is in: the natural parent, if it is delegated.
pub fn own() -> Result<PathBuf, CgroupError> {
    let path = Path::new("/proc/self/cgroup");
    let text = std::fs::read_to_string(path).map_err(at("read", path))?;
    // The v2 line is `0::/path`.
    let own = text.lines().find_map(|line| line.strip_prefix("0::/"));
    let mount = MOUNTS.iter().map(Path::new).find(|mount| is_version_2(mount).unwrap_or(false));
    let mount = mount.ok_or_else(|| CgroupError::NotVersion2(MOUNTS[0].into()))?;
    Ok(own.map_or_else(|| mount.to_owned(), |own| mount.join(own)))
}

/// Tries for real: makes, checks and removes a group below `parent`.
pub fn probe(parent: &Path) -> Result<(), CgroupError> {
    let group = SessionCgroup::create(parent, &format!("greenroom-probe-{}", std::process::id()))?;
    let kill = group.dir.join("cgroup.kill");
    let can_kill = kill.exists();
    group.procs()?;
    group.remove()?;
    if can_kill { Ok(()) } else { Err(CgroupError::NoKill) }
}

#[derive(Debug)]
pub struct SessionCgroup {
    dir: PathBuf,
}

impl SessionCgroup {
    /// Makes `parent/name`, or takes over what an earlier daemon made.
    pub fn create(parent: &Path, name: &str) -> Result<SessionCgroup, CgroupError> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            return Err(CgroupError::BadName(name.to_owned()));
        }
        if !is_version_2(parent)? {
            return Err(CgroupError::NotVersion2(parent.to_owned()));
        }
        let dir = parent.join(name);
        match std::fs::create_dir(&dir) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(at("create", &dir)(source)),
        }
        Ok(SessionCgroup { dir })
    }

    /// To hand over with `KeeperLink::spawn`.
    pub fn procs(&self) -> Result<OwnedFd, CgroupError> {
        let path = self.dir.join("cgroup.procs");
        let file = OpenOptions::new().write(true).open(&path).map_err(at("open", &path))?;
        Ok(file.into())
    }

    /// SIGKILL to every process in it, in one act of the kernel; forks cannot race it.
    pub fn kill(&self) -> Result<(), CgroupError> {
        let path = self.dir.join("cgroup.kill");
        let mut file = OpenOptions::new().write(true).open(&path).map_err(at("open", &path))?;
        file.write_all(b"1").map_err(at("write", &path))
    }

    /// No living process in it or below.
    pub fn is_empty(&self) -> Result<bool, CgroupError> {
        let path = self.dir.join("cgroup.events");
        let text = io::read_to_string(File::open(&path).map_err(at("open", &path))?)
            .map_err(at("read", &path))?;
        Ok(text.lines().any(|line| line == "populated 0"))
    }

    /// Fails with EBUSY while a process is in it.
    pub fn remove(self) -> Result<(), CgroupError> {
        std::fs::remove_dir(&self.dir).map_err(at("remove", &self.dir))
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }
}

fn is_version_2(dir: &Path) -> Result<bool, CgroupError> {
    let stat = rustix::fs::statfs(dir).map_err(|errno| at("look at", dir)(errno.into()))?;
    Ok(stat.f_type as i64 == CGROUP2_MAGIC)
}

fn at(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CgroupError {
    let path = path.to_owned();
    move |source| CgroupError::Io { step, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_cgroup_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = probe(dir.path()).unwrap_err();
        assert_eq!(error.to_string(), format!("{} is not cgroup v2", dir.path().display()));
        for name in ["", "..", "a/b", "a\0b"] {
            let error = SessionCgroup::create(dir.path(), name).unwrap_err();
            assert!(matches!(error, CgroupError::BadName(_)), "{name:?}");
        }
    }

    #[test]
    fn the_probe_leaves_nothing_or_says_why() {
        let Ok(parent) = own() else {
            assert!(MOUNTS.iter().all(|mount| !is_version_2(Path::new(mount)).unwrap_or(false)));
            return;
        };
        let name = format!("greenroom-probe-{}", std::process::id());
        match probe(&parent) {
            Ok(()) => assert!(!parent.join(name).exists()),
            Err(error) => assert!(error.to_string().contains("cgroup"), "{error}"),
        }
    }
}

//! Where everything lies on disk.
//!
//! In: the environment (`GREENROOM_HOME`, else the XDG variables and `HOME`). Out: [`Paths`], and
//! directories that only their owner can enter. Every directory is made 0700, an existing one of
//! ours that others may enter is closed, and one that belongs to somebody else is refused.
//!
//! The socket lies with the state: whoever finds the state finds its host, with or without a
//! login. Links are followed first, so that two spellings of one directory are one path; a relative
//! `GREENROOM_HOME` would be another home in every directory and is refused. What the host believes
//! (settings, plugins, secrets) must be ours, or the system's, and nobody else's to change.
//! Deliberately absent: `/tmp`, and any file's content.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use greenroom_keeper::KeeperPaths;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

/// The owner of whatever has none in a user namespace: there, the system's files are its.
const OVERFLOW_UID: u32 = 65534;

const SOCKET: &str = "greenroom.sock";
const LOCK: &str = "greenroom.lock";

/// Everything of ours on disk. Cheap to clone, makes nothing until [`Paths::prepare`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    config: PathBuf,
    data: PathBuf,
    runtime: PathBuf,
    state: PathBuf,
    /// The login's own directory, if there is one: a second way to the socket is there.
    login: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum PathsError {
    #[error("cannot find a home: neither GREENROOM_HOME nor HOME is set")]
    NoHome,
    #[error("cannot find a home: HOME={} is a relative path", path.display())]
    RelativeHome { path: PathBuf },
    #[error(
        "cannot use GREENROOM_HOME={}: a relative path would be another home, with another host, in every directory",
        path.display()
    )]
    Relative { path: PathBuf },
    #[error("cannot create {}: {source}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("cannot use {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot use {}: it belongs to user {owner}, not to us", path.display())]
    Foreign { path: PathBuf, owner: u32 },
    #[error(
        "cannot use {}: others may write to it (mode {mode:o}), so what is in it may not be yours",
        path.display()
    )]
    Writable { path: PathBuf, mode: u32 },
    #[error("cannot use {}: it is a symbolic link", path.display())]
    Symlink { path: PathBuf },
    #[error("cannot write into {}: {source}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
}

impl Paths {
    /// From this process's environment.
    pub fn from_env() -> Result<Paths, PathsError> {
        let paths = Paths::resolve(&|name| std::env::var_os(name))?;
        paths.believed()?;
        Ok(paths)
    }

    /// From any environment; an empty variable counts as unset.
    pub fn resolve(lookup: &dyn Fn(&str) -> Option<OsString>) -> Result<Paths, PathsError> {
        let set = |name: &str| lookup(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(home) = set("GREENROOM_HOME") {
            if home.is_relative() {
                return Err(PathsError::Relative { path: home });
            }
            return Ok(Paths::below(&settled(&home)));
        }
        // The XDG rules: a relative path in one of these variables is ignored.
        let base = |name: &str| set(name).filter(|path| path.is_absolute());
        let home = base("HOME");
        let fallback = |below: &str| home.as_ref().map(|home| home.join(below));
        let place = |name: &str, below: &str| {
            base(name)
                .or_else(|| fallback(below))
                .map(|dir| settled(&dir.join("greenroom")))
                .ok_or_else(|| match set("HOME") {
                    Some(path) => PathsError::RelativeHome { path },
                    None => PathsError::NoHome,
                })
        };
        let state = place("XDG_STATE_HOME", ".local/state")?;
        Ok(Paths {
            config: place("XDG_CONFIG_HOME", ".config")?,
            data: place("XDG_DATA_HOME", ".local/share")?,
            runtime: state.join("run"),
            state,
            login: base("XDG_RUNTIME_DIR").map(|dir| dir.join("greenroom")),
        })
    }

    /// Everything below one directory.
    pub fn below(home: &Path) -> Paths {
        Paths {
            config: home.to_owned(),
            data: home.to_owned(),
            runtime: home.join("run"),
            state: home.join("state"),
            login: None,
        }
    }

    /// Refuses what somebody else could have put where we would believe it.
    fn believed(&self) -> Result<(), PathsError> {
        for dir in [&self.config, &self.data, &self.state] {
            judge_directory(dir)?;
        }
        for inside in [self.config_file(), self.config.join("secrets"), self.plugins()] {
            if let Ok(meta) = std::fs::metadata(&inside) {
                judge(&inside, &meta, &[0])?;
            }
        }
        Ok(())
    }

    /// What a keeper of this state claims and where it listens.
    pub fn of_keeper(&self) -> KeeperPaths {
        let user = rustix::process::getuid().as_raw();
        // Earlier versions had lock and socket in the login's directory.
        let usual = PathBuf::from(format!("/run/user/{user}/greenroom"));
        let own = self.state.join("run");
        // A home of its own had its lock where it still is.
        let earlier = self.login.iter().chain([&usual]).filter(|_| self.runtime == own);
        KeeperPaths {
            state: self.state.clone(),
            lock: self.lock(),
            socket: self.socket(),
            alias: self.alias(),
            earlier_locks: earlier.map(|dir| dir.join(LOCK)).collect(),
        }
    }

    /// The configuration file; it need not exist.
    pub fn config_file(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// With the configuration file and `secrets/`.
    pub fn config(&self) -> &Path {
        &self.config
    }

    pub fn plugins(&self) -> PathBuf {
        self.data.join("plugins")
    }

    pub fn runtime(&self) -> &Path {
        &self.runtime
    }

    pub fn state(&self) -> &Path {
        &self.state
    }

    pub fn socket(&self) -> PathBuf {
        self.runtime.join(SOCKET)
    }

    /// A link to the socket, in the login's runtime directory.
    pub fn alias(&self) -> Option<PathBuf> {
        self.login.as_ref().map(|login| login.join(SOCKET))
    }

    /// Held by the keeper while it lives.
    pub fn lock(&self) -> PathBuf {
        self.runtime.join(LOCK)
    }

    /// Held by the daemon while it works on the state.
    pub fn daemon_lock(&self) -> PathBuf {
        self.state.join("daemon.lock")
    }

    /// One directory per session below.
    pub fn sessions(&self) -> PathBuf {
        self.state.join("sessions")
    }

    pub fn database(&self) -> PathBuf {
        self.state.join("greenroom.db")
    }

    /// A copy of the last configuration file without a mistake.
    pub fn good_config(&self) -> PathBuf {
        self.state.join("config.good")
    }

    pub fn logs(&self) -> PathBuf {
        self.state.join("logs")
    }

    /// The daemon's log: JSON lines, rotated.
    pub fn daemon_log(&self) -> PathBuf {
        self.logs().join("daemon.log")
    }

    /// The daemon's stdout and stderr: what it says before it has a log.
    pub fn daemon_err(&self) -> PathBuf {
        self.logs().join("daemon.err")
    }

    pub fn keeper_log(&self) -> PathBuf {
        self.logs().join("keeper.log")
    }

    /// Makes every directory the host needs, each entered by its owner only.
    pub fn prepare(&self) -> Result<(), PathsError> {
        make_above(&self.state)?;
        make_above(&self.runtime)?;
        for dir in [&self.state, &self.sessions(), &self.logs()] {
            own(dir, Links::Followed)?;
        }
        // Clients trust whatever listens here, so nobody may have put a link in its place.
        own(&self.runtime, Links::Refused)
    }
}

/// The directory itself, whatever links lead to it; what does not exist yet is spelled out.
fn settled(path: &Path) -> PathBuf {
    let mut missing: Vec<Component<'_>> = Vec::new();
    let mut ancestors = path.components();
    loop {
        if let Ok(found) = ancestors.as_path().canonicalize() {
            return missing.iter().rev().fold(found, |mut path, part| {
                match part {
                    // Nothing that is missing can be a link.
                    Component::ParentDir => drop(path.pop()),
                    part => path.push(part),
                }
                path
            });
        }
        match ancestors.next_back() {
            Some(part) => missing.push(part),
            None => return path.to_owned(),
        }
    }
}

/// A directory must be ours; one that is still to be made must not come below somebody else's.
fn judge_directory(path: &Path) -> Result<(), PathsError> {
    if let Ok(meta) = std::fs::metadata(path) {
        return judge(path, &meta, &[]);
    }
    let above = path.ancestors().skip(1).find_map(|dir| Some((dir, std::fs::metadata(dir).ok()?)));
    match above {
        Some((dir, meta)) => owned(dir, &meta, &[0, OVERFLOW_UID]),
        None => Ok(()),
    }
}

fn owned(path: &Path, meta: &std::fs::Metadata, others: &[u32]) -> Result<(), PathsError> {
    let owner = meta.uid();
    if owner == rustix::process::geteuid().as_raw() || others.contains(&owner) {
        return Ok(());
    }
    Err(PathsError::Foreign { path: path.to_owned(), owner })
}

fn judge(path: &Path, meta: &std::fs::Metadata, others: &[u32]) -> Result<(), PathsError> {
    owned(path, meta, others)?;
    // A group of one's own, as many systems give everybody, is no other.
    let own_group = meta.gid() == rustix::process::getegid().as_raw() && meta.gid() == meta.uid();
    let open = if own_group { 0o002 } else { 0o022 };
    if meta.mode() & open != 0 {
        return Err(PathsError::Writable { path: path.to_owned(), mode: meta.mode() & 0o7777 });
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Links {
    /// People put their state on another disk by a link.
    Followed,
    Refused,
}

fn make_above(path: &Path) -> Result<(), PathsError> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
        return Ok(());
    };
    let mut builder = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .recursive(true)
        .create(parent)
        .map_err(|source| PathsError::Create { path: parent.to_owned(), source })
}

/// Makes `path` or takes the one that is there, if it is ours; closes it to everybody else.
fn own(path: &Path, links: Links) -> Result<(), PathsError> {
    match rustix::fs::mkdir(path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => {
            return Err(PathsError::Create { path: path.to_owned(), source: errno.into() });
        }
    }
    let open = |errno: Errno| PathsError::Open { path: path.to_owned(), source: errno.into() };
    if links == Links::Refused {
        let found = rustix::fs::lstat(path).map_err(open)?;
        if FileType::from_raw_mode(found.st_mode) == FileType::Symlink {
            return Err(PathsError::Symlink { path: path.to_owned() });
        }
    }
    let mut flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    if links == Links::Refused {
        flags |= OFlags::NOFOLLOW;
    }
    // Judged and changed through one descriptor: what is checked is what is used.
    let dir = rustix::fs::open(path, flags, Mode::empty()).map_err(open)?;
    let stat = rustix::fs::fstat(&dir).map_err(open)?;
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(PathsError::Foreign { path: path.to_owned(), owner: stat.st_uid });
    }
    if stat.st_mode & 0o777 != 0o700 {
        rustix::fs::fchmod(&dir, Mode::RWXU).map_err(open)?;
    }
    writable(&dir, path)
}

/// Tries it: permission bits say nothing of a read-only mount.
fn writable(dir: &impl std::os::fd::AsFd, path: &Path) -> Result<(), PathsError> {
    let name = OsStr::new(".probe");
    let unwritable =
        |errno: Errno| PathsError::Unwritable { path: path.to_owned(), source: errno.into() };
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR) {
        Ok(_) => {}
        // A full disk is told where it hurts, and must not keep the host from starting.
        Err(Errno::NOSPC | Errno::DQUOT) => return Ok(()),
        Err(errno) => return Err(unwritable(errno)),
    }
    match rustix::fs::unlinkat(dir, name, rustix::fs::AtFlags::empty()) {
        // Another starter looks at the same time, and was faster.
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(unwritable(errno)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn resolve(variables: &[(&str, &str)]) -> Result<Paths, PathsError> {
        Paths::resolve(&|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        })
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn one_home_holds_everything() {
        let paths = resolve(&[("GREENROOM_HOME", "/g"), ("HOME", "/h")]).unwrap();
        assert_eq!(paths.socket(), Path::new("/g/run/greenroom.sock"));
        assert_eq!(paths.config_file(), Path::new("/g/config.toml"));
        assert_eq!(paths.database(), Path::new("/g/state/greenroom.db"));
        assert_eq!(paths.plugins(), Path::new("/g/plugins"));
    }

    #[test]
    fn xdg_and_its_defaults() {
        let paths = resolve(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", "/run/user/1")]).unwrap();
        let socket = Path::new("/h/.local/state/greenroom/run/greenroom.sock");
        assert_eq!(paths.socket(), socket);
        let alias = paths.alias().unwrap();
        assert_eq!(alias, Path::new("/run/user/1/greenroom/greenroom.sock"));
        let elder = Path::new("/run/user/1/greenroom/greenroom.lock").to_owned();
        assert!(paths.of_keeper().earlier_locks.contains(&elder));
        assert_eq!(paths.config_file(), Path::new("/h/.config/greenroom/config.toml"));
        assert_eq!(paths.logs(), Path::new("/h/.local/state/greenroom/logs"));
        assert_eq!(paths.plugins(), Path::new("/h/.local/share/greenroom/plugins"));
        let bare = resolve(&[("HOME", "/h"), ("XDG_STATE_HOME", "relative")]).unwrap();
        assert_eq!((bare.socket().as_path(), bare.alias()), (socket, None));
        assert!(matches!(resolve(&[("HOME", "")]), Err(PathsError::NoHome)));
        assert!(matches!(resolve(&[("HOME", "h")]), Err(PathsError::RelativeHome { .. })));
    }

    #[test]
    fn a_relative_home_is_refused() {
        for relative in ["g", "./g", "../g"] {
            let error = resolve(&[("GREENROOM_HOME", relative)]).unwrap_err();
            assert!(matches!(error, PathsError::Relative { .. }), "{error}");
        }
    }

    #[test]
    fn two_spellings_are_one_directory() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        std::fs::create_dir(dir.join("real")).unwrap();
        symlink(dir.join("real"), dir.join("link")).unwrap();
        let spelled = |home: &str| {
            let home = format!("{}/{home}", dir.display());
            (
                resolve(&[("GREENROOM_HOME", &home)]).unwrap(),
                resolve(&[("HOME", &home)]).unwrap(),
                resolve(&[("HOME", "/h"), ("XDG_STATE_HOME", &home)]).unwrap().socket(),
            )
        };
        let plain = spelled("real");
        for other in ["link", "real/", "link//", "./real", "link/.", "none/../real"] {
            assert_eq!(spelled(other), plain, "{other}");
        }
    }

    #[test]
    fn what_others_could_have_written_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        let paths = Paths::below(&home);
        paths.believed().unwrap();
        std::fs::create_dir_all(paths.plugins()).unwrap();
        std::fs::write(paths.config_file(), "").unwrap();
        paths.believed().unwrap();
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        };
        for path in [&home, &paths.config_file(), &paths.plugins()] {
            let before = mode(path);
            set(path, 0o777);
            let error = paths.believed().unwrap_err();
            assert!(matches!(error, PathsError::Writable { .. }), "{error}");
            set(path, before);
        }
        if rustix::process::geteuid().is_root() {
            for path in [paths.config_file(), paths.plugins(), home] {
                std::os::unix::fs::chown(&path, Some(4711), None).unwrap();
                let error = paths.believed().unwrap_err();
                assert!(matches!(error, PathsError::Foreign { owner: 4711, .. }), "{error}");
                let below = Paths::below(&path.join("deep/er")).believed().unwrap_err();
                assert!(matches!(below, PathsError::Foreign { .. }), "{below}");
                std::os::unix::fs::chown(&path, Some(0), None).unwrap();
            }
        }
    }

    #[test]
    fn directories_are_closed_to_others() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::below(&home.path().join("deep/er"));
        paths.prepare().unwrap();
        std::fs::set_permissions(paths.runtime(), PermissionsExt::from_mode(0o755)).unwrap();
        paths.prepare().unwrap();
        for dir in [paths.runtime(), paths.state(), &paths.sessions(), &paths.logs()] {
            assert_eq!(mode(dir), 0o700, "{}", dir.display());
        }
    }

    #[test]
    fn a_link_in_place_of_the_runtime_directory_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let paths = Paths::below(home.path());
        symlink(elsewhere.path(), paths.runtime()).unwrap();
        assert!(matches!(paths.prepare(), Err(PathsError::Symlink { .. })));
        std::fs::remove_file(paths.runtime()).unwrap();
        std::fs::remove_dir_all(paths.state()).unwrap();
        symlink(elsewhere.path(), paths.state()).unwrap();
        paths.prepare().unwrap();
    }

    #[test]
    fn an_unusable_home_is_one_sentence() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("state"), "a file").unwrap();
        let error = Paths::below(home.path()).prepare().unwrap_err().to_string();
        assert!(error.starts_with("cannot use ") && !error.contains('\n'), "{error}");
        let error = Paths::below(Path::new("/proc/nowhere")).prepare().unwrap_err().to_string();
        assert!(error.starts_with("cannot create /proc/nowhere"), "{error}");
    }
}

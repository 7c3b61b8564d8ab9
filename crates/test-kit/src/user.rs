//! Who runs a program: tests that root runs try things as an ordinary user too.

use std::ffi::OsStr;
use std::os::unix::fs::lchown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

/// Nobody on any machine we know.
pub const OTHER_UID: u32 = 61_001;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    Root,
    /// Somebody without any rights: whoever runs the tests, or another user if that is root.
    Ordinary,
}

impl User {
    /// The users this machine can test; a missing one is said.
    pub fn all() -> Vec<User> {
        [User::Ordinary, User::Root].into_iter().filter(|user| user.can_be()).collect()
    }

    /// Whether the tests can run programs as this user; if not, that is said.
    pub fn can_be(self) -> bool {
        let can = self == User::Ordinary || geteuid().is_root();
        if !can {
            eprintln!("NOT RUN as root: the tests run as an ordinary user");
        }
        can
    }

    pub fn uid(self) -> u32 {
        match self {
            User::Ordinary if geteuid().is_root() => OTHER_UID,
            _ => geteuid().as_raw(),
        }
    }

    /// A program that will run as this user.
    pub fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        if self.uid() != geteuid().as_raw() {
            command.uid(self.uid()).gid(self.uid());
        }
        command
    }

    /// Makes this user the owner of a file, or of a directory and all below it.
    pub fn owns(self, path: &Path) {
        give(path, self.uid());
    }
}

/// Makes a user the owner of a file, or of a directory and all below it, if it is there.
pub fn give(path: &Path, uid: u32) {
    let Ok(about) = path.symlink_metadata() else { return };
    lchown(path, Some(uid), Some(uid)).unwrap();
    if about.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn an_ordinary_user_is_never_root_and_owns_what_is_given() {
        assert!(User::all().contains(&User::Ordinary));
        let uid = User::Ordinary.uid();
        assert_ne!(uid, 0);
        let said = User::Ordinary.command("id").arg("-u").output().unwrap();
        assert_eq!(String::from_utf8(said.stdout).unwrap().trim(), uid.to_string());
        let dir = crate::place::public();
        std::fs::write(dir.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("link")).unwrap();
        User::Ordinary.owns(dir.path());
        for name in ["", "file", "link"] {
            assert_eq!(dir.path().join(name).symlink_metadata().unwrap().uid(), uid, "{name}");
        }
    }
}

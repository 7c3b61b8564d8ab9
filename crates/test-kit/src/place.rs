//! Where tests make files, and the programs they find or write there.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempDir};

/// For its owner only. The name is short: a socket below it must fit into an address.
pub fn private() -> TempDir {
    let dir = Builder::new().prefix("gr-").tempdir().unwrap();
    set_mode(dir.path(), 0o700);
    dir
}

/// Everybody may look into it. Not below `/tmp`: a sandbox has one of its own there.
pub fn public() -> TempDir {
    let dir = Builder::new().prefix("gr-").tempdir_in("/var/tmp").unwrap();
    set_mode(dir.path(), 0o755);
    dir
}

/// In memory where there is such a place, for tests that make thousands of files.
pub fn in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}

pub fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Writes a program that everybody may run.
pub fn program(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    set_mode(path, 0o755);
}

/// An example of the crate under test, which cargo builds beside the tests.
pub fn example(name: &str) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let path = exe.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is missing: build the examples too", path.display());
    path
}

/// A second name for a file, or a second file where that cannot be.
pub fn link_or_copy(from: &Path, to: &Path) {
    if std::fs::hard_link(from, to).is_err() {
        std::fs::copy(from, to).unwrap();
    }
}

/// Everything below a directory that is no directory, sorted. What is not there has nothing below.
pub fn files_below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten() {
            let entry = entry.unwrap();
            let more = if entry.file_type().unwrap().is_dir() { &mut left } else { &mut found };
            more.push(entry.path());
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_sees_a_private_place_and_everybody_a_public_one() {
        let mode = |dir: &TempDir| dir.path().metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&private()), mode(&public())), (0o700, 0o755));
    }

    #[test]
    fn files_are_found_at_any_depth() {
        let dir = in_memory();
        std::fs::create_dir_all(dir.path().join("b/c/empty")).unwrap();
        for name in ["b/c/d", "a"] {
            program(&dir.path().join(name), "");
        }
        link_or_copy(&dir.path().join("a"), &dir.path().join("b/second"));
        let expected = ["a", "b/c/d", "b/second"].map(|name| dir.path().join(name));
        assert_eq!(files_below(dir.path()), expected);
        assert_eq!(files_below(&dir.path().join("gone")), [] as [PathBuf; 0]);
    }
}

//! The git directories of a repository's submodules, for `GitRules::Checkout`.
//!
//! In: a repository's `.git`. Out: every git directory below its `modules`, nested ones too; names
//! of submodules may have slashes in them, so not every directory there is one. Follows no symlink.
//! Absent on purpose: asking git, which would read configuration on the way.

use std::path::{Path, PathBuf};

/// More than any repository has. A list that is cut would leave some unprotected, so there is none
/// then.
const MAX_MODULES: usize = 1024;
/// Directories that are looked at before giving up.
const MAX_LOOKS: usize = 16 * 1024;

/// `None` if there are too many to protect them all.
pub fn of(git_dir: &Path) -> Option<Vec<PathBuf>> {
    let (mut found, mut looks) = (Vec::new(), 0);
    let mut open = vec![git_dir.join("modules")];
    while let Some(dir) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            looks += 1;
            if looks > MAX_LOOKS || found.len() > MAX_MODULES {
                return None;
            }
            // The kind of the entry itself: a symlink is no directory.
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let path = entry.path();
            if path.join("HEAD").is_file() && path.join("config").is_file() {
                open.push(path.join("modules"));
                found.push(path);
            } else {
                open.push(path);
            }
        }
    }
    found.sort();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_modules_and_names_with_slashes_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let git_dir = dir.path().join(".git");
        let make = |name: &str| {
            let path = git_dir.join("modules").join(name);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("HEAD"), "").unwrap();
            std::fs::write(path.join("config"), "").unwrap();
            path
        };
        assert_eq!(of(&git_dir), Some(vec![]));
        let expected = vec![make("a"), make("a/modules/deep"), make("libs/b")];
        std::fs::create_dir_all(git_dir.join("modules/empty/dir")).unwrap();
        std::os::unix::fs::symlink(&expected[0], git_dir.join("modules/link")).unwrap();
        assert_eq!(of(&git_dir), Some(expected));
    }
}

//! The tracked files of the repository, read once.
//!
//! In: `git ls-files`. Out: paths and texts. Untracked files are not looked at: they are not the
//! repository yet.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Where the repository is and what is in it.
pub struct Tree {
    pub root: PathBuf,
    /// Relative paths with `/`, sorted, only those that exist in the working tree.
    pub files: Vec<String>,
}

impl Tree {
    pub fn open() -> Result<Tree> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("xtask sits in a folder of the repository")?
            .to_path_buf();
        let output = Command::new("git")
            .args(["ls-files", "-z"])
            .current_dir(&root)
            .output()
            .context("cannot run git ls-files")?;
        if !output.status.success() {
            bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let mut files: Vec<String> = String::from_utf8_lossy(&output.stdout)
            .split_terminator('\0')
            .filter(|path| root.join(path).is_file())
            .map(str::to_owned)
            .collect();
        files.sort();
        Ok(Tree { root, files })
    }

    /// The text of a tracked file, or `None` when it is not UTF-8 (recorded corpora are not).
    pub fn text(&self, path: &str) -> Result<Option<String>> {
        let bytes =
            std::fs::read(self.root.join(path)).with_context(|| format!("cannot read {path}"))?;
        Ok(String::from_utf8(bytes).ok())
    }

    /// Paths that end in `suffix`.
    pub fn with_suffix<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = &'a str> {
        self.files.iter().map(String::as_str).filter(move |path| path.ends_with(suffix))
    }

    /// Whether a tracked file or a folder of tracked files has this path.
    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let folder = format!("{path}/");
        self.files.iter().any(|file| file == path || file.starts_with(&folder))
    }
}

/// A tree made of given files, for the tests of the checks.
#[cfg(test)]
pub fn fake(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let full = dir.path().join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, text).unwrap();
    }
    let mut names: Vec<String> = files.iter().map(|(path, _)| (*path).to_owned()).collect();
    names.sort();
    let tree = Tree { root: dir.path().to_path_buf(), files: names };
    (dir, tree)
}

//! Where a directory belongs: the only discovery, done where the user asked to start. Everything
//! after uses what it found.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::error::{GitError, text_of};
use super::hardened::{Hardened, find_git};

/// Where a directory belongs, as git sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoPaths {
    /// The git directory of this checkout: the repository's own, or one below its `worktrees`.
    pub git_dir: PathBuf,
    pub common_dir: PathBuf,
    /// The checkout's top; `None` in a bare repository.
    pub top: Option<PathBuf>,
    pub shallow: bool,
}

impl RepoPaths {
    /// Discovers.
    pub fn find(cwd: &Path) -> Result<RepoPaths, GitError> {
        let not_there = || GitError::NotARepository { path: cwd.to_owned() };
        let real = cwd.canonicalize().map_err(|_| not_there())?;
        // For `safe.directory`; `rev-parse` runs nothing of it.
        let git = Hardened::new(find_git()?, &real).of(cwd).with_users_configuration();
        let version = git.tell("version", &[], b"")?;
        if !is_new_enough(&String::from_utf8_lossy(&version)) {
            return Err(GitError::TooOld { found: text_of(&version) });
        }
        let found = ask(&git, QUESTIONS, cwd)?;
        let path = |line: &[u8]| -> Result<PathBuf, GitError> {
            let path = PathBuf::from(OsString::from_vec(line.to_vec()));
            real.join(path).canonicalize().map_err(|_| not_there())
        };
        let top = match (found[0].as_slice(), found[1].as_slice()) {
            (_, b"true") => Some(path(&ask(&git, "--show-toplevel", cwd)?[0])?),
            (b"true", _) => None,
            // Inside `.git` itself.
            _ => return Err(not_there()),
        };
        let shallow = found[2] == b"true";
        Ok(RepoPaths { git_dir: path(&found[3])?, common_dir: path(&found[4])?, top, shallow })
    }
}

const QUESTIONS: &str = "--is-bare-repository --is-inside-work-tree --is-shallow-repository \
                         --absolute-git-dir --git-common-dir";

/// The first that can list worktrees whatever their paths contain.
const OLDEST: (u32, u32) = (2, 36);

/// Reads `git version 2.47.3 (whatever)`. A version that cannot be read is taken to be new.
fn is_new_enough(said: &str) -> bool {
    let version = said.split_whitespace().nth(2).unwrap_or_default();
    let mut parts = version.split('.').map_while(|part| part.parse::<u32>().ok());
    match (parts.next(), parts.next()) {
        (Some(major), Some(minor)) => (major, minor) >= OLDEST,
        _ => true,
    }
}

/// One line for each question.
fn ask(git: &Hardened, questions: &str, cwd: &Path) -> Result<Vec<Vec<u8>>, GitError> {
    let said = git.ask(&format!("rev-parse {questions}"), &[], b"")?;
    if !said.status.success() {
        if text_of(&said.err).contains("not a git repository") {
            return Err(GitError::NotARepository { path: cwd.to_owned() });
        }
        return Err(git.failed("rev-parse", &said));
    }
    let text = said.out.strip_suffix(b"\n").unwrap_or(&said.out);
    let lines: Vec<Vec<u8>> = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    // A path with a line break in it: we could not tell where it ends.
    if lines.len() == questions.split_whitespace().count() {
        Ok(lines)
    } else {
        Err(GitError::Answer { verb: "rev-parse".into(), answer: text_of(&said.out) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for new in
            ["git version 2.36.0", "git version 3.0", "git version 2.50.1 (Apple Git-155)", "?"]
        {
            assert!(is_new_enough(new), "{new}");
        }
        for old in ["git version 2.35.9", "git version 1.99.1"] {
            assert!(!is_new_enough(old), "{old}");
        }
    }
}

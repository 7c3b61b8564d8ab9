//! Where a directory belongs: the only discovery, done where the user asked to start. Everything after uses what it found.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::error::{GitError, text_of};
use super::hardened::{Hardened, find_git};

/// Where a directory belongs, as git sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Of this checkout: the repository's own, or one below its `worktrees`.
    pub git_dir: PathBuf,
    pub common_dir: PathBuf,
    /// The checkout's top; `None` in a bare repository.
    pub top: Option<PathBuf>,
    pub shallow: bool,
}

impl Place {
    /// Discovers. The user's own configuration is read, for `safe.directory`; `rev-parse` runs nothing of it.
    pub fn find(cwd: &Path) -> Result<Place, GitError> {
        let not_there = || GitError::NotARepository { path: cwd.to_owned() };
        let real = cwd.canonicalize().map_err(|_| not_there())?;
        let mut git = Hardened::new(find_git()?, &real)
            .without_env("GIT_CONFIG_GLOBAL")
            .without_env("GIT_CONFIG_NOSYSTEM");
        for name in ["HOME", "XDG_CONFIG_HOME"] {
            if let Some(value) = std::env::var_os(name) {
                git = git.env(name, value);
            }
        }
        let bare = ask_line(&git, "--is-bare-repository", cwd)?;
        let inside = ask_line(&git, "--is-inside-work-tree", cwd)?;
        let path = |what: &str| -> Result<PathBuf, GitError> {
            let path = PathBuf::from(OsString::from_vec(ask_line(&git, what, cwd)?));
            real.join(path).canonicalize().map_err(|_| not_there())
        };
        let top = match (inside.as_slice(), bare.as_slice()) {
            (b"true", _) => Some(path("--show-toplevel")?),
            (_, b"true") => None,
            // Inside `.git` itself.
            _ => return Err(not_there()),
        };
        let shallow = ask_line(&git, "--is-shallow-repository", cwd)? == b"true";
        Ok(Place {
            git_dir: path("--absolute-git-dir")?,
            common_dir: path("--git-common-dir")?,
            top,
            shallow,
        })
    }
}

fn ask_line(git: &Hardened, what: &str, cwd: &Path) -> Result<Vec<u8>, GitError> {
    let said = git.ask(&["rev-parse".into(), what.into()], b"")?;
    if said.status.success() {
        let line = said.out.strip_suffix(b"\n").unwrap_or(&said.out);
        return Ok(line.to_owned());
    }
    let words = text_of(&said.err);
    if words.contains("not a git repository") {
        return Err(GitError::NotARepository { path: cwd.to_owned() });
    }
    Err(GitError::failed("rev-parse", said.status.to_string(), &said.err, cwd))
}

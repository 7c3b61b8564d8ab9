//! What can go wrong when git is asked.

use std::path::PathBuf;
use std::time::Duration;

use super::command::CommandError;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("cannot run git: it is not in PATH")]
    Missing,
    #[error("git is too old: {found}")]
    TooOld { found: String },
    #[error("cannot run git {verb}: {source}")]
    Run { verb: String, source: CommandError },
    #[error("git {verb} did not end within {} s", after.as_secs())]
    TooSlow { verb: String, after: Duration },
    #[error("git {verb} said more than {cap} bytes")]
    TooMuch { verb: String, cap: usize },
    #[error("git {verb} ended with {status}: {said}")]
    Failed { verb: String, status: String, said: String },
    #[error("git {verb} warned: {said}")]
    Warned { verb: String, said: String },
    #[error("git {verb} answered something unexpected: {answer}")]
    Answer { verb: String, answer: String },
    #[error("{} is not in a git repository", path.display())]
    NotARepository { path: PathBuf },
    #[error("git does not trust {}: it belongs to another user", path.display())]
    DubiousOwner { path: PathBuf },
    #[error("cannot write to the repository {}: it is read-only", path.display())]
    ReadOnly { path: PathBuf },
    #[error("cannot write: no space left on the disk ({said})")]
    DiskFull { said: String },
}

impl GitError {
    /// A command or a file that helps.
    pub fn hint(&self) -> Option<String> {
        match self {
            GitError::Missing => Some("install git, or start without --worktree".into()),
            GitError::TooOld { .. } => Some("install git 2.36 or later".into()),
            GitError::NotARepository { .. } => {
                Some("start inside a repository, run git init, or leave out --worktree".into())
            }
            GitError::DubiousOwner { path } => {
                Some(format!("git config --global --add safe.directory {}", path.display()))
            }
            GitError::ReadOnly { .. } => {
                Some("make the repository writable, or start without --worktree".into())
            }
            GitError::DiskFull { .. } => {
                Some("free some space; greenroom worktree clean removes what is safe".into())
            }
            _ => None,
        }
    }

    /// Puts the causes users can act on apart from the rest.
    pub(super) fn failed(
        verb: &str,
        status: String,
        said: &[u8],
        place: &std::path::Path,
    ) -> GitError {
        let said = text_of(said);
        if said.contains("No space left on device") || said.contains("Disk quota exceeded") {
            GitError::DiskFull { said }
        } else if said.contains("Read-only file system") || is_closed(&said, place) {
            GitError::ReadOnly { path: place.to_owned() }
        } else if said.contains("dubious ownership") {
            GitError::DubiousOwner { path: place.to_owned() }
        } else {
            GitError::Failed { verb: verb.into(), status, said }
        }
    }
}

/// Git does not always say why it could not make a file; the directory does.
fn is_closed(said: &str, place: &std::path::Path) -> bool {
    let making = ["nable to create", "could not create", "cannot lock ref"];
    making.iter().any(|words| said.contains(words))
        && rustix::fs::access(place, rustix::fs::Access::WRITE_OK).is_err()
}

/// The first lines of what git said, for a sentence; its advice is for somebody who types git.
pub(super) fn text_of(said: &[u8]) -> String {
    const SHOWN: usize = 300;
    let text = String::from_utf8_lossy(said);
    let says = |line: &&str| !line.is_empty() && !line.starts_with("hint:");
    let line: Vec<&str> = text.lines().map(str::trim).filter(says).take(3).collect();
    line.join("; ").chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

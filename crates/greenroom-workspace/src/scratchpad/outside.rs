//! Keeps git outside of the session from seeing the link, too: whoever says `git status` or
//! `git add -A` in a live worktree knows nothing of the session's environment.
//!
//! Git has one list of patterns that is neither tracked nor configuration: the repository's
//! `info/exclude`, which all its checkouts share. While the session lives, a few lines of it name
//! the link. They stand first, so that the user's own lines win, and leave out directories: a
//! directory of that name in another checkout is seen as before. A list that is not a plain file of
//! a sensible size is left alone: then only git in the session knows.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use greenroom_engine::SessionId;

use crate::worktree::escaped;

/// Far more than anybody writes by hand.
const LIST_MAX: u64 = 1024 * 1024;

/// The list that git reads for the checkout at `top`.
pub fn list(top: &Path) -> Option<PathBuf> {
    let common = common_dir(&top.join(".git"))?;
    let is_repository = common.join("HEAD").is_file() && common.join("objects").is_dir();
    is_repository.then(|| common.join("info/exclude"))
}

fn common_dir(dot_git: &Path) -> Option<PathBuf> {
    if fs::symlink_metadata(dot_git).ok()?.is_dir() {
        return Some(dot_git.to_owned());
    }
    let text = fs::read_to_string(dot_git).ok()?;
    let git_dir = dot_git.parent()?.join(text.strip_prefix("gitdir:")?.trim());
    match fs::read_to_string(git_dir.join("commondir")) {
        Ok(common) => git_dir.join(common.trim()).canonicalize().ok(),
        Err(_) => Some(git_dir),
    }
}

/// Names the link, `below` its checkout's top, in the list.
pub fn hide(list: &Path, id: SessionId, link: &Path, below: &str) -> io::Result<()> {
    let Some(mark) = mark(id, link).filter(|_| !below.contains('\n')) else { return Ok(()) };
    let pattern = escaped(below);
    rewrite(list, &mark, &format!("{mark}\n/{pattern}\n!/{pattern}/\n"))
}

/// Takes the session's lines out again.
pub fn show(list: &Path, id: SessionId, link: &Path) -> io::Result<()> {
    match mark(id, link) {
        Some(mark) => rewrite(list, &mark, ""),
        None => Ok(()),
    }
}

/// The line before ours: no other session, also of another host, has the same.
fn mark(id: SessionId, link: &Path) -> Option<String> {
    let link = link.to_str().filter(|link| !link.contains('\n'))?;
    Some(format!("# greenroom {id}, until it ends: {link}"))
}

/// Puts `lines` in front, in place of those of the same mark.
fn rewrite(list: &Path, mark: &str, lines: &str) -> io::Result<()> {
    let old = match fs::symlink_metadata(list) {
        Ok(meta) if meta.is_file() && meta.len() <= LIST_MAX => fs::read(list)?,
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut new = lines.as_bytes().to_vec();
    let mut ours = 0;
    for line in old.split_inclusive(|byte| *byte == b'\n') {
        if line.strip_suffix(b"\n").unwrap_or(line) == mark.as_bytes() {
            ours = 3;
        }
        match ours {
            0 => new.extend_from_slice(line),
            _ => ours -= 1,
        }
    }
    if new == old {
        return Ok(());
    }
    let Some(dir) = list.parent() else { return Ok(()) };
    fs::create_dir_all(dir)?;
    let mut file = tempfile::Builder::new().prefix(".exclude-").tempfile_in(dir)?;
    let mode = fs::metadata(list).map_or(0o644, |meta| meta.permissions().mode() & 0o7777);
    file.as_file().set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(&new)?;
    file.persist(list).map(drop).map_err(|error| error.error)
}

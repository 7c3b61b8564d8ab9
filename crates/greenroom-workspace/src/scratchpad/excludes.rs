//! Keeps git in the session from seeing the link: neither the repository's nor the user's files
//! change.
//!
//! A worktree of ours already has an exclude file of its own, named in the session's environment:
//! the link is added to it. Elsewhere in a repository the session gets a file of its own.

use std::path::{Path, PathBuf};

use crate::git::session_config;
use crate::spec::SessionSpec;
use crate::worktree::{WorktreeError, exclude_in_session};

/// Whether a file of the session's own has to be made.
pub fn needed(spec: &SessionSpec) -> bool {
    named(spec).is_none() && repository(&spec.base.cwd).is_some()
}

/// The exclude file the session's environment names.
fn named(spec: &SessionSpec) -> Option<PathBuf> {
    session_config::get(&spec.base.env, "core.excludesFile").map(PathBuf::from)
}

/// The top of the checkout `cwd` lies in.
pub fn repository(cwd: &Path) -> Option<&Path> {
    cwd.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok())
}

/// The link as git would name it.
pub fn below(cwd: &Path, link: &Path) -> String {
    let top = repository(cwd).unwrap_or(cwd);
    link.strip_prefix(top).unwrap_or(link).to_string_lossy().into_owned()
}

/// Lets git in the session know: by the session's own file, or by adding to the one it has.
pub fn apply(spec: &mut SessionSpec, link: &Path, own: Option<&Path>) -> Result<(), WorktreeError> {
    let Some(file) = own.map(Path::to_owned).or_else(|| named(spec)) else { return Ok(()) };
    let below = below(&spec.base.cwd, link);
    exclude_in_session(&mut spec.base.env, &file, &[&below])
}

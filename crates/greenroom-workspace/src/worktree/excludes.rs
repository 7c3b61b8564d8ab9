//! Patterns that git ignores in one session only.
//!
//! Git has no exclude file per worktree: `info/exclude` is shared by all checkouts, and settings
//! per worktree need a change to the repository's configuration. So the session's own environment
//! names a file of patterns, which lies with the worktree's data in the repository and goes with
//! it. The user's global patterns are copied into it, since it takes their place.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::error::WorktreeError;
use crate::git::{session_config, user_excludes};

const KEY: &str = "core.excludesFile";

/// Makes git ignore `paths` (from the checkout's top) in sessions with this environment. `file` is
/// made, or added to.
pub fn exclude_in_session(
    env: &mut BTreeMap<OsString, OsString>,
    file: &Path,
    paths: &[&str],
) -> Result<(), WorktreeError> {
    let mut text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(_) => {
            user_excludes().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default()
        }
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    for path in paths {
        let line = format!("/{}\n", escaped(path));
        if !text.lines().any(|known| known == line.trim_end_matches('\n')) {
            text.push_str(&line);
        }
    }
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir).map_err(WorktreeError::io("make", dir))?;
    }
    fs::write(file, text).map_err(WorktreeError::io("write", file))?;
    use_file(env, file);
    Ok(())
}

/// Names the file to the session's git.
pub fn use_file(env: &mut BTreeMap<OsString, OsString>, file: &Path) {
    if session_config::get(env, KEY) != Some(file.as_os_str()) {
        session_config::add(env, KEY, file);
    }
}

/// A path as a pattern that means nothing but itself.
pub fn escaped(path: &str) -> String {
    let special = |c: char| "\\*?[]!# ".contains(c);
    path.chars().flat_map(|c| special(c).then_some('\\').into_iter().chain([c])).collect()
}

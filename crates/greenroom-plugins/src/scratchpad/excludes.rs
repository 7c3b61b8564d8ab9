//! Keeps git in the session from seeing the link: neither the repository's nor the user's files change.
//!
//! A worktree of ours already has an exclude file of its own, named in the session's environment: the link is added
//! to it. Elsewhere in a repository the session gets a file with the user's own patterns and the link.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::git::{session_config, user_excludes};
use crate::spec::SessionSpec;

const SETTING: &str = "core.excludesFile";

/// The user's own patterns; a larger file is something else.
const USER_FILE_MAX: u64 = 1024 * 1024;

/// Whether a file of the session's own has to be made.
pub fn needed(spec: &SessionSpec) -> bool {
    named(spec).is_none() && repository(&spec.base.cwd).is_some()
}

/// The exclude file the session's environment names.
fn named(spec: &SessionSpec) -> Option<PathBuf> {
    session_config::get(&spec.base.env, SETTING).map(PathBuf::from)
}

/// The top of the checkout `cwd` lies in.
fn repository(cwd: &Path) -> Option<&Path> {
    cwd.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok())
}

/// The pattern that means the link and nothing else.
fn pattern(cwd: &Path) -> String {
    let top = repository(cwd).unwrap_or(cwd);
    let below = cwd.strip_prefix(top).unwrap_or(Path::new(""));
    let mut text = String::from("/");
    for part in below.components() {
        for letter in part.as_os_str().to_string_lossy().chars() {
            if "*?[]\\ #!".contains(letter) {
                text.push('\\');
            }
            text.push(letter);
        }
        text.push('/');
    }
    text.push_str(super::LINK);
    text
}

/// Makes the session's own file.
pub fn write(file: &Path, cwd: &Path) -> io::Result<()> {
    super::private_dir(file.parent().unwrap_or(Path::new("/")))?;
    let mut text = Vec::new();
    if let Some(theirs) = user_excludes().and_then(|path| std::fs::File::open(path).ok()) {
        theirs.take(USER_FILE_MAX).read_to_end(&mut text)?;
    }
    if text.last().is_some_and(|byte| *byte != b'\n') {
        text.push(b'\n');
    }
    writeln!(text, "{}", pattern(cwd))?;
    let mut out =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file)?;
    out.write_all(&text)
}

/// Lets git in the session know: by the session's own file, or by adding to the one it has.
pub fn apply(spec: &mut SessionSpec, own: Option<&Path>) -> io::Result<()> {
    if let Some(own) = own {
        session_config::add(&mut spec.base.env, SETTING, own.as_os_str());
        return Ok(());
    }
    let Some(file) = named(spec) else { return Ok(()) };
    let line = pattern(&spec.base.cwd);
    let text = std::fs::read_to_string(&file)?;
    if text.lines().any(|known| known == line) {
        return Ok(());
    }
    let mut out = OpenOptions::new().append(true).open(&file)?;
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    out.write_all(format!("{gap}{line}\n").as_bytes())
}

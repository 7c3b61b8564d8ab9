//! One commit of a repository elsewhere, as plain files.
//!
//! The one command here that talks to a network. Only `https` and `file`: other transports run programs of the caller's
//! (`ssh`, helpers). No submodules, no templates, no hooks, no filters; the tree's own `.git` holds nothing we did not put there.

use std::ffi::OsString;
use std::path::Path;

use super::error::GitError;
use super::hardened::{Hardened, find_git};
use super::oid::Oid;

/// Clones `url` into `into`, which must not exist, at `revision` (a branch or tag) or its default. Answers the commit.
pub fn clone(url: &str, revision: Option<&str>, into: &Path) -> Result<Oid, GitError> {
    let parent = into.parent().unwrap_or(Path::new("/"));
    let git = Hardened::new(find_git()?, parent)
        .env("GIT_ALLOW_PROTOCOL", "https:file")
        .set("protocol.https.allow", "always")
        .set("protocol.file.allow", "always")
        .set("init.templateDir", "")
        .set("http.followRedirects", "initial");
    let mut args: Vec<OsString> = [
        "clone",
        "--quiet",
        "--depth=1",
        "--no-tags",
        "--no-recurse-submodules",
        "--single-branch",
    ]
    .iter()
    .map(OsString::from)
    .collect();
    if let Some(revision) = revision {
        args.push(format!("--branch={revision}").into());
    }
    args.extend([OsString::from("--"), url.into(), into.as_os_str().to_owned()]);
    git.tell(&args, b"", into)?;
    let head = Hardened::new(find_git()?, into).env("GIT_DIR", into.join(".git")).tell(
        &["rev-parse", "--verify", "HEAD"].map(OsString::from),
        b"",
        into,
    )?;
    let line = head.strip_suffix(b"\n").unwrap_or(&head);
    Oid::parse(line).ok_or_else(|| GitError::Answer {
        verb: "rev-parse".into(),
        answer: String::from_utf8_lossy(line).into_owned(),
    })
}

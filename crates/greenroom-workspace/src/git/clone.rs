//! One commit of a repository elsewhere, as plain files.
//!
//! The one command here that talks to a network. Only `https` and `file`: other transports run
//! programs of the caller's (`ssh`, helpers). No submodules, no templates, no hooks, no filters;
//! the tree's own `.git` holds nothing we did not put there.

use std::ffi::OsStr;
use std::path::Path;

use super::error::GitError;
use super::hardened::{Hardened, args, find_git};
use super::oid::Oid;
use super::repo::first_oid;

/// Clones `url` into `into`, which must not exist, at `revision` (a branch or tag) or its default.
/// Answers the commit.
pub fn clone(url: &str, revision: Option<&str>, into: &Path) -> Result<Oid, GitError> {
    let parent = into.parent().unwrap_or(Path::new("/"));
    let git = Hardened::new(find_git()?, parent)
        .env("GIT_ALLOW_PROTOCOL", "https:file")
        .set("protocol.https.allow", "always")
        .set("protocol.file.allow", "always")
        .set("init.templateDir", "")
        .set("http.followRedirects", "initial");
    let branch = revision.map(|revision| format!("--branch={revision}"));
    let mut args: Vec<&OsStr> = branch.iter().map(OsStr::new).collect();
    args.extend(args!["--", url, into]);
    let words = "clone --quiet --depth=1 --no-tags --no-recurse-submodules --single-branch";
    git.of(into).tell(words, &args, b"")?;
    let git = Hardened::new(find_git()?, into).env("GIT_DIR", into.join(".git"));
    first_oid("rev-parse", &git.tell("rev-parse --verify HEAD", &[], b"")?)
}

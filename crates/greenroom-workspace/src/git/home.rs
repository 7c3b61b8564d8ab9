//! Bringing work home: what differs, what two branches make together, and moving a branch there.
//!
//! Everything that decides is worked out among objects, where nothing can be lost; only
//! [`Repo::fast_forward`] touches files, and git refuses it whole if one of them would be
//! overwritten. Deliberately absent: a merge that stops in the middle.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::error::{GitError, text_of};
use super::hardened::{CHECKOUT_DEADLINE, args};
use super::oid::Oid;
use super::repo::{Repo, first_oid, lines, zeros};

/// What two commits make together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Together {
    Tree(Oid),
    /// Paths that a person must look at.
    Conflicts(Vec<Vec<u8>>),
}

/// Who a commit is by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub name: String,
    pub email: String,
}

/// An entry to be put into an index.
#[derive(Clone, Debug)]
pub struct Entry {
    pub path: Vec<u8>,
    /// `None`: the path goes.
    pub content: Option<(&'static str, Oid)>,
}

impl Repo {
    /// Whether `old` can be reached from `new`.
    pub fn is_ancestor(&self, old: &Oid, new: &Oid) -> Result<bool, GitError> {
        Ok(self
            .git
            .decide("merge-base --is-ancestor", &args![old.as_str(), new.as_str()], b"")?
            .is_some())
    }

    /// Where two histories part; `None` if they never met.
    pub fn fork(&self, one: &Oid, other: &Oid) -> Result<Option<Oid>, GitError> {
        let met = self.git.decide("merge-base", &args![one.as_str(), other.as_str()], b"")?;
        met.map(|out| first_oid("merge-base", &out)).transpose()
    }

    /// What becomes of `ours` with `theirs`. Only objects are written.
    pub fn together(&self, ours: &Oid, theirs: &Oid) -> Result<Together, GitError> {
        let words = "merge-tree --write-tree --name-only --no-messages -z";
        let said = self.git.ask(words, &args![ours.as_str(), theirs.as_str()], b"")?;
        let mut parts = zeros(&said.out);
        let tree = parts.next().and_then(Oid::parse);
        match (said.status.code(), tree) {
            (Some(0), Some(tree)) => Ok(Together::Tree(tree)),
            (Some(1), Some(_)) => {
                let mut paths: Vec<Vec<u8>> = parts.map(<[u8]>::to_vec).collect();
                paths.dedup();
                Ok(Together::Conflicts(paths))
            }
            _ if text_of(&said.err).contains("usage:") => {
                Err(GitError::TooOld { found: "merging needs git 2.38".into() })
            }
            _ => Err(self.git.failed("merge-tree", &said)),
        }
    }

    /// The tree of a commit.
    pub fn tree_of(&self, commit: &Oid) -> Result<Oid, GitError> {
        let name = format!("{commit}^{{tree}}");
        first_oid("rev-parse", &self.git.check("rev-parse --verify", &args![&name], b"")?)
    }

    /// First lines of the messages of what `tip` has and `base` has not, newest first.
    pub fn subjects(&self, base: &Oid, tip: &Oid, max: usize) -> Result<Vec<String>, GitError> {
        let range = format!("{base}..{tip}");
        let max = format!("--max-count={max}");
        let out = self.git.check(
            "rev-list --no-commit-header --format=%s",
            &args![&max, &range, "--"],
            b"",
        )?;
        Ok(lines(&out).map(|line| String::from_utf8_lossy(line).into_owned()).collect())
    }

    /// Makes a commit that nothing leads to yet.
    pub fn commit_tree(
        &self,
        tree: &Oid,
        parents: &[Oid],
        message: &str,
        by: &Identity,
    ) -> Result<Oid, GitError> {
        let mut args = args![tree.as_str()].to_vec();
        args.extend(parents.iter().flat_map(|parent| args!["-p", parent.as_str()]));
        let mut git = self.git.clone();
        for who in ["AUTHOR", "COMMITTER"] {
            git = git.env(&format!("GIT_{who}_NAME"), &by.name);
            git = git.env(&format!("GIT_{who}_EMAIL"), &by.email);
        }
        first_oid(
            "commit-tree",
            &git.tell("commit-tree -F -", &args, format!("{message}\n").as_bytes())?,
        )
    }

    /// Whom the user says they are here; greenroom where they say nothing. Their settings are read,
    /// and run nothing.
    pub fn identity(&self) -> Identity {
        let git = self.git.clone().with_users_configuration();
        let ask = |key: &str| -> Option<String> {
            let out = git.tell("config --get", &args![key], b"").ok()?;
            let text = String::from_utf8(out).ok()?.trim().to_owned();
            (!text.is_empty() && !text.contains(['\n', '<', '>'])).then_some(text)
        };
        match (ask("user.name"), ask("user.email")) {
            (Some(name), Some(email)) => Identity { name, email },
            _ => Identity { name: "greenroom".into(), email: "greenroom@localhost".into() },
        }
    }

    /// The branch a checkout is on, as `refs/heads/…`; `None` if it is on none.
    pub fn head_branch(&self) -> Result<Option<String>, GitError> {
        let on = self.git.decide("symbolic-ref --quiet HEAD", &[], b"")?;
        Ok(on.map(|out| text_of(&out)))
    }

    /// Moves a ref that still names `from`; `None`: it must not exist.
    pub fn move_ref(
        &self,
        name: &str,
        to: &Oid,
        from: Option<&Oid>,
        reason: &str,
    ) -> Result<(), GitError> {
        let from = from.map_or_else(|| to.zero(), |oid| oid.as_str().to_owned());
        self.git
            .tell("update-ref --no-deref -m", &args![reason, name, to.as_str(), &from], b"")
            .map(drop)
    }

    /// Moves this checkout's branch and files to `to`, which must follow what is checked out. All
    /// of it or nothing: a file that is modified, untracked or ignored and would be overwritten
    /// stops it.
    pub fn fast_forward(&self, to: &Oid, reason: &str) -> Result<(), GitError> {
        let git = self
            .git
            .clone()
            .within(CHECKOUT_DEADLINE)
            .env("GIT_REFLOG_ACTION", reason)
            .set("merge.verifySignatures", "false")
            .set("rerere.enabled", "false");
        let words = "merge --ff-only --no-overwrite-ignore --no-stat --quiet --no-autostash";
        git.tell(words, &args![to.as_str()], b"").map(drop)
    }

    /// Paths that differ between two commits.
    pub fn differing(&self, one: &Oid, other: &Oid) -> Result<Vec<Vec<u8>>, GitError> {
        let words = "diff-tree -r -z --name-only --no-renames --no-ext-diff";
        let out = self.git.check(words, &args![one.as_str(), other.as_str(), "--"], b"")?;
        Ok(zeros(&out).map(<[u8]>::to_vec).collect())
    }

    /// Those of `paths` that pass through a filter when they are checked out.
    pub fn filtered(&self, paths: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, GitError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let input = paths.join(&b"\0"[..]);
        let out = self.git.check("check-attr -z --stdin filter", &[], &input)?;
        let parts: Vec<&[u8]> = out.split(|byte| *byte == 0).collect();
        let is_set = |value: &[u8]| !matches!(value, b"unspecified" | b"unset" | b"set");
        Ok(parts.chunks_exact(3).filter(|row| is_set(row[2])).map(|row| row[0].to_vec()).collect())
    }

    /// With another file as index: the checkout's own stays as it is.
    pub fn with_index(mut self, file: &Path) -> Repo {
        self.git = self.git.env("GIT_INDEX_FILE", file);
        self
    }

    /// Lets a diff show files that are not tracked. For an index of one's own.
    pub fn show_untracked(&self, paths: &[Vec<u8>]) -> Result<(), GitError> {
        if paths.is_empty() {
            return Ok(());
        }
        let words = "add --intent-to-add --force --pathspec-from-file=- --pathspec-file-nul";
        let git = self.git.clone().env("GIT_LITERAL_PATHSPECS", "1");
        git.tell(words, &[], &paths.join(&b"\0"[..])).map(drop)
    }

    /// What the files of this checkout are against `base`. Submodules are not entered.
    pub fn diff(&self, base: &Oid, stat: bool) -> Result<Vec<u8>, GitError> {
        let form = if stat { "--stat=100" } else { "--patch" };
        let words = "diff --no-ext-diff --no-textconv --no-color --find-renames \
                     --ignore-submodules=dirty --src-prefix=a/ --dst-prefix=b/";
        self.git.tell(words, &args![form, base.as_str(), "--"], b"")
    }

    /// Puts bytes into the repository, such as what a link says; their name as an object.
    pub fn store_bytes(&self, bytes: &[u8]) -> Result<Oid, GitError> {
        first_oid(
            "hash-object",
            &self.git.check("hash-object -w --no-filters --stdin", &[], bytes)?,
        )
    }

    /// Changes the index; for one of one's own. `like` is any object of this repository.
    pub fn put(&self, entries: &[Entry], like: &Oid) -> Result<(), GitError> {
        if entries.is_empty() {
            return Ok(());
        }
        let zero = like.zero();
        let mut input = Vec::new();
        for Entry { path, content } in entries {
            let (mode, oid) = match content {
                Some((mode, oid)) => (*mode, oid.as_str()),
                None => ("0", zero.as_str()),
            };
            input.extend_from_slice(format!("{mode} {oid}\t").as_bytes());
            input.extend_from_slice(path);
            input.push(0);
        }
        self.git.tell("update-index -z --index-info", &[], &input).map(drop)
    }

    /// The index as a tree.
    pub fn write_tree(&self) -> Result<Oid, GitError> {
        first_oid("write-tree", &self.git.tell("write-tree", &[], b"")?)
    }
}

/// A path as an argument of a command a person would type.
pub fn quoted(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,:@%=".contains(byte);
    let bytes = path.as_os_str().as_bytes();
    let text = path.to_string_lossy();
    if !bytes.is_empty() && bytes.iter().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

//! A repository at recorded paths: its refs, branches, worktrees and history. What concerns the files of a checkout is in `tree`.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{GitError, text_of};
use super::hardened::{CHECKOUT_DEADLINE, Hardened, find_git};
use super::oid::Oid;

/// A ref and what it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ref {
    pub name: String,
    pub oid: Oid,
    /// It is only another name for a ref.
    pub symbolic: bool,
}

/// A checkout as `git worktree list` has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    pub path: PathBuf,
    pub head: Option<Oid>,
    /// `refs/heads/…`; `None` if detached.
    pub branch: Option<String>,
}

/// A stash and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StashEntry {
    pub oid: Oid,
    pub message: String,
}

/// Git on recorded paths.
#[derive(Clone, Debug)]
pub struct Repo {
    pub(super) git: Hardened,
    pub(super) common_dir: PathBuf,
    /// Sections of the repository's configuration that name drivers or branches.
    names: Vec<String>,
}

impl Repo {
    /// The repository as such, without a checkout.
    pub fn open(common_dir: &Path) -> Result<Repo, GitError> {
        let git = Hardened::new(find_git()?, common_dir)
            .env("GIT_DIR", common_dir)
            .env("GIT_COMMON_DIR", common_dir);
        Repo::with(git, common_dir)
    }

    /// One checkout of it. `git_dir` is `<common_dir>/worktrees/<name>`, or `common_dir`.
    pub fn open_tree(common_dir: &Path, git_dir: &Path, top: &Path) -> Result<Repo, GitError> {
        let git = Hardened::new(find_git()?, top)
            .env("GIT_DIR", git_dir)
            .env("GIT_COMMON_DIR", common_dir)
            .env("GIT_WORK_TREE", top);
        Repo::with(git, common_dir)
    }

    /// One checkout whose directory is gone.
    pub fn open_admin(common_dir: &Path, git_dir: &Path) -> Result<Repo, GitError> {
        let git = Hardened::new(find_git()?, common_dir)
            .env("GIT_DIR", git_dir)
            .env("GIT_COMMON_DIR", common_dir);
        Repo::with(git, common_dir)
    }

    fn with(git: Hardened, common_dir: &Path) -> Result<Repo, GitError> {
        let args = words(&["config", "-z", "--name-only", "--get-regexp"]);
        let args = [args, vec![r"^(filter|hook|diff|merge|branch)\..*\..*".into()]].concat();
        let said = git.ask(&args, b"")?;
        // 1: nothing of that name.
        if !matches!(said.status.code(), Some(0 | 1)) {
            let status = said.status.to_string();
            return Err(GitError::failed("config", status, &said.err, common_dir));
        }
        let names: Vec<String> = said
            .out
            .split(|byte| *byte == 0)
            .filter(|name| !name.is_empty())
            .map(|name| String::from_utf8(name.to_vec()))
            .collect::<Result<_, _>>()
            .map_err(|_| answer("config", b"a name that is not UTF-8"))?;
        let git = git.without_drivers(&names).set("core.excludesFile", "/dev/null");
        Ok(Repo { git, common_dir: common_dir.to_owned(), names })
    }

    /// With a file of patterns to ignore besides the repository's own.
    pub fn ignoring(mut self, file: Option<&Path>) -> Repo {
        if let Some(file) = file {
            self.git = self.git.set("core.excludesFile", file);
        }
        self
    }

    /// What it starts holds the lock too: a git that outlives us must end before the next one of us begins.
    pub fn holding(mut self, lock: &Arc<File>) -> Repo {
        self.git = self.git.holding(lock.clone());
        self
    }

    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// The commit a revision names.
    pub fn commit(&self, revision: &str) -> Result<Option<Oid>, GitError> {
        let revision = format!("{revision}^{{commit}}");
        let args = words(&["rev-parse", "--verify", "--quiet", "--end-of-options", &revision]);
        let said = self.git.ask(&args, b"")?;
        if !said.status.success() {
            return Ok(None);
        }
        let line = said.out.strip_suffix(b"\n").unwrap_or(&said.out);
        Oid::parse(line).map(Some).ok_or_else(|| answer("rev-parse", line))
    }

    /// Every ref seen from here.
    pub fn refs(&self) -> Result<Vec<Ref>, GitError> {
        let args = words(&["for-each-ref", "--format=%(objectname) %(refname) %(symref)"]);
        let out = self.git.check(&args, b"", &self.common_dir)?;
        let line = |line: &[u8]| -> Option<Ref> {
            let text = std::str::from_utf8(line).ok()?;
            let mut parts = text.splitn(3, ' ');
            let oid = Oid::parse(parts.next()?.as_bytes())?;
            let name = parts.next()?.to_owned();
            Some(Ref { oid, name, symbolic: !parts.next()?.is_empty() })
        };
        lines(&out).map(|text| line(text).ok_or_else(|| answer("for-each-ref", text))).collect()
    }

    /// Whether refs are files whose logs can be read as such.
    pub fn has_plain_refs(&self) -> Result<bool, GitError> {
        let args = words(&["rev-parse", "--show-ref-format"]);
        let said = self.git.ask(&args, b"")?;
        // Before 2.44 git knew only files, and not this question.
        Ok(!said.status.success() || said.out.trim_ascii() != b"reftable")
    }

    /// Makes a branch that must not exist.
    pub fn create_branch(&self, branch: &str, at: &Oid, reason: &str) -> Result<(), GitError> {
        let name = format!("refs/heads/{branch}");
        let zero = at.zero();
        let args = ["update-ref", "--create-reflog", "-m", reason, &name, at.as_str(), &zero];
        self.git.tell(&words(&args), b"", &self.common_dir).map(drop)
    }

    /// Removes a branch if it still names `tip`.
    pub fn delete_branch(&self, branch: &str, tip: &Oid) -> Result<(), GitError> {
        let name = format!("refs/heads/{branch}");
        let args = words(&["update-ref", "--no-deref", "-d", &name, tip.as_str()]);
        self.git.tell(&args, b"", &self.common_dir)?;
        let section = format!("branch.{branch}");
        if self.names.iter().any(|name| name.strip_prefix(&section).is_some_and(is_one_part)) {
            // What `git push -u` left. Not worth an error: the branch is gone.
            let args = words(&["config", "--local", "--remove-section", &section]);
            let _ = self.git.ask(&args, b"");
        }
        Ok(())
    }

    /// Checks `branch` out at `path`, which must not exist.
    pub fn add_worktree(&self, path: &Path, branch: &str) -> Result<(), GitError> {
        let mut args = words(&["worktree", "add", "--quiet", "--no-guess-remote", "--"]);
        args.extend([path.into(), branch.into()]);
        let git = self.git.clone().within(CHECKOUT_DEADLINE);
        git.tell(&args, b"", &self.common_dir).map(drop).map_err(|error| match error {
            // Git removes what it had written, and does not say why it could not write more.
            GitError::Failed { said, .. } if self.lacks_room(&said, path, branch) => {
                GitError::DiskFull { said }
            }
            error => error,
        })
    }

    fn lacks_room(&self, said: &str, path: &Path, branch: &str) -> bool {
        let writing = said.contains("unable to write") || said.contains("unable to create file");
        let dir = path.parent().unwrap_or(path);
        let Ok(room) = rustix::fs::statvfs(dir) else { return false };
        let free = room.f_bavail.saturating_mul(room.f_frsize);
        writing && self.checkout_bytes(branch).is_ok_and(|bytes| bytes > free)
    }

    /// What the files of a commit take.
    fn checkout_bytes(&self, revision: &str) -> Result<u64, GitError> {
        let args = words(&["ls-tree", "-r", "-z", "--format=%(objectsize)", revision]);
        let out = self.git.tell(&args, b"", &self.common_dir)?;
        let sizes =
            zeros(&out).filter_map(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
        Ok(sizes.sum())
    }

    /// Forgets a worktree whose directory is gone.
    pub fn remove_worktree(&self, path: &Path) -> Result<(), GitError> {
        let args = [words(&["worktree", "remove", "--"]), vec![path.into()]].concat();
        self.git.tell(&args, b"", &self.common_dir).map(drop)
    }

    /// All checkouts, the main one first.
    pub fn worktrees(&self) -> Result<Vec<Tree>, GitError> {
        let args = words(&["worktree", "list", "--porcelain", "-z"]);
        let out = self.git.check(&args, b"", &self.common_dir)?;
        let mut trees: Vec<Tree> = Vec::new();
        for field in out.split(|byte| *byte == 0) {
            if let Some(path) = field.strip_prefix(b"worktree ") {
                let path = PathBuf::from(OsString::from_vec(path.to_vec()));
                trees.push(Tree { path, ..Tree::default() });
            } else if let Some(tree) = trees.last_mut() {
                if let Some(head) = field.strip_prefix(b"HEAD ") {
                    tree.head = Oid::parse(head);
                } else if let Some(branch) = field.strip_prefix(b"branch ") {
                    tree.branch = Some(String::from_utf8_lossy(branch).into_owned());
                }
            }
        }
        Ok(trees)
    }

    /// A file's content in a commit, if it is there.
    pub fn blob(&self, commit: &str, path: &str) -> Result<Option<Vec<u8>>, GitError> {
        let name = format!("{commit}:{path}");
        let said = self.git.ask(&words(&["cat-file", "blob", &name]), b"")?;
        Ok(said.status.success().then_some(said.out))
    }

    /// Those of `oids` that are not commits we have.
    pub fn not_commits(&self, oids: &[Oid]) -> Result<Vec<Oid>, GitError> {
        let input: String = oids.iter().map(|oid| format!("{oid}\n")).collect();
        let args = words(&["cat-file", "--batch-check=%(objecttype)"]);
        let out = self.git.check(&args, input.as_bytes(), &self.common_dir)?;
        let kinds: Vec<&[u8]> = lines(&out).collect();
        if kinds.len() != oids.len() {
            return Err(answer("cat-file", b"too few"));
        }
        Ok(oids
            .iter()
            .zip(kinds)
            .filter(|(_, k)| *k != b"commit")
            .map(|(o, _)| o.clone())
            .collect())
    }

    /// Commits that can be reached from `from` and not from `anchors`, at most `max`.
    pub fn only_from(
        &self,
        from: &[Oid],
        anchors: &[Oid],
        max: usize,
    ) -> Result<Vec<Oid>, GitError> {
        let mut input: String = from.iter().map(|oid| format!("{oid}\n")).collect();
        input.extend(anchors.iter().map(|oid| format!("^{oid}\n")));
        let args = words(&["rev-list", &format!("--max-count={max}"), "--stdin"]);
        let out = self.git.check(&args, input.as_bytes(), &self.common_dir)?;
        lines(&out).map(|text| Oid::parse(text).ok_or_else(|| answer("rev-list", text))).collect()
    }

    /// The commits in a ref's log, for repositories whose logs are not files.
    pub fn log_of(&self, name: &str) -> Result<Vec<Oid>, GitError> {
        let args = words(&["rev-list", "--walk-reflogs", "--end-of-options", name, "--"]);
        let out = self.git.check(&args, b"", &self.common_dir)?;
        lines(&out).map(|text| Oid::parse(text).ok_or_else(|| answer("rev-list", text))).collect()
    }

    /// What is stashed, for all checkouts together.
    pub fn stashes(&self) -> Result<Vec<StashEntry>, GitError> {
        let format = "--format=%H %s";
        let args = ["rev-list", "--walk-reflogs", "--no-commit-header", format, "refs/stash", "--"];
        let out = self.git.check(&words(&args), b"", &self.common_dir)?;
        let entry = |line: &[u8]| -> Option<StashEntry> {
            let space = line.iter().position(|byte| *byte == b' ')?;
            let message = String::from_utf8_lossy(&line[space + 1..]).into_owned();
            Some(StashEntry { oid: Oid::parse(&line[..space])?, message })
        };
        lines(&out).map(|line| entry(line).ok_or_else(|| answer("rev-list", line))).collect()
    }
}

fn is_one_part(rest: &str) -> bool {
    rest.strip_prefix('.').is_some_and(|key| !key.contains('.'))
}

pub(super) fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

pub(super) fn lines(out: &[u8]) -> impl Iterator<Item = &[u8]> {
    out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

pub(super) fn zeros(out: &[u8]) -> impl Iterator<Item = &[u8]> {
    out.split(|byte| *byte == 0).filter(|line| !line.is_empty())
}

pub(super) fn answer(verb: &str, said: &[u8]) -> GitError {
    GitError::Answer { verb: verb.into(), answer: text_of(said) }
}

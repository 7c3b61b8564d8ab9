//! A repository at recorded paths: its refs, branches, worktrees and history. What concerns the
//! files of a checkout is in `tree`.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::{GitError, text_of};
use super::hardened::{CHECKOUT_DEADLINE, Hardened, args, find_git};
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
    common_dir: PathBuf,
    /// Sections of the repository's configuration that name drivers or branches.
    names: Vec<String>,
}

impl Repo {
    /// The repository as such, without a checkout.
    pub fn open(common_dir: &Path) -> Result<Repo, GitError> {
        Repo::open_admin(common_dir, common_dir)
    }

    /// One checkout of it. `git_dir` is `<common_dir>/worktrees/<name>`, or `common_dir`.
    pub fn open_tree(common_dir: &Path, git_dir: &Path, top: &Path) -> Result<Repo, GitError> {
        let git = Hardened::new(find_git()?, top).env("GIT_WORK_TREE", top);
        Repo::with(git, common_dir, git_dir)
    }

    /// One checkout whose directory is gone.
    pub fn open_admin(common_dir: &Path, git_dir: &Path) -> Result<Repo, GitError> {
        Repo::with(Hardened::new(find_git()?, common_dir), common_dir, git_dir)
    }

    fn with(git: Hardened, common_dir: &Path, git_dir: &Path) -> Result<Repo, GitError> {
        let git = git.env("GIT_DIR", git_dir).env("GIT_COMMON_DIR", common_dir).of(common_dir);
        let wanted = r"^(filter|hook|diff|merge|branch)\..*\..*";
        // Not decided: nothing of that name.
        let listed = git.decide("config -z --name-only --get-regexp", &args![wanted], b"")?;
        let names: Vec<String> = zeros(&listed.unwrap_or_default())
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

    /// What it starts holds the lock too: a git that outlives us must end before the next one of us
    /// begins.
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
        let said =
            self.git.ask("rev-parse --verify --quiet --end-of-options", &args![&revision], b"")?;
        if !said.status.success() {
            return Ok(None);
        }
        first_oid("rev-parse", &said.out).map(Some)
    }

    /// Every ref seen from here.
    pub fn refs(&self) -> Result<Vec<Ref>, GitError> {
        let format = "--format=%(objectname) %(refname) %(symref)";
        let out = self.git.check("for-each-ref", &args![format], b"")?;
        let line = |line: &[u8]| -> Option<Ref> {
            let text = std::str::from_utf8(line).ok()?;
            let mut parts = text.splitn(3, ' ');
            let oid = Oid::parse(parts.next()?.as_bytes())?;
            let name = parts.next()?.to_owned();
            Some(Ref { oid, name, symbolic: !parts.next()?.is_empty() })
        };
        each("for-each-ref", lines(&out), line)
    }

    /// Whether refs are files whose logs can be read as such.
    pub fn has_plain_refs(&self) -> Result<bool, GitError> {
        let said = self.git.ask("rev-parse --show-ref-format", &[], b"")?;
        // Before 2.44 git knew only files, and not this question.
        Ok(!said.status.success() || said.out.trim_ascii() != b"reftable")
    }

    /// Makes a branch that must not exist.
    pub fn create_branch(&self, branch: &str, at: &Oid, reason: &str) -> Result<(), GitError> {
        let name = format!("refs/heads/{branch}");
        self.git
            .tell(
                "update-ref --create-reflog -m",
                &args![reason, &name, at.as_str(), &at.zero()],
                b"",
            )
            .map(drop)
    }

    /// Removes a branch if it still names `tip`.
    pub fn delete_branch(&self, branch: &str, tip: &Oid) -> Result<(), GitError> {
        let name = format!("refs/heads/{branch}");
        self.git.tell("update-ref --no-deref -d", &args![&name, tip.as_str()], b"")?;
        let section = format!("branch.{branch}");
        if self.names.iter().any(|name| name.strip_prefix(&section).is_some_and(is_one_part)) {
            // What `git push -u` left. Not worth an error: the branch is gone.
            let _ = self.git.ask("config --local --remove-section", &args![&section], b"");
        }
        Ok(())
    }

    /// Checks `branch` out at `path`, which must not exist.
    pub fn add_worktree(&self, path: &Path, branch: &str) -> Result<(), GitError> {
        let git = self.git.clone().within(CHECKOUT_DEADLINE);
        let words = "worktree add --quiet --no-guess-remote --";
        git.tell(words, &args![path, branch], b"").map(drop).map_err(|error| match error {
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
        let out = self.git.tell("ls-tree -r -z --format=%(objectsize)", &args![revision], b"")?;
        let sizes =
            zeros(&out).filter_map(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
        Ok(sizes.sum())
    }

    /// Forgets a worktree whose directory is gone.
    pub fn remove_worktree(&self, path: &Path) -> Result<(), GitError> {
        self.git.tell("worktree remove --", &args![path], b"").map(drop)
    }

    /// All checkouts, the main one first.
    pub fn worktrees(&self) -> Result<Vec<Tree>, GitError> {
        let out = self.git.check("worktree list --porcelain -z", &[], b"")?;
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
        let said = self.git.ask("cat-file blob", &args![&name], b"")?;
        Ok(said.status.success().then_some(said.out))
    }

    /// Those of `oids` that are not commits we have.
    pub fn not_commits(&self, oids: &[Oid]) -> Result<Vec<Oid>, GitError> {
        let input: String = oids.iter().map(|oid| format!("{oid}\n")).collect();
        let out = self.git.check("cat-file --batch-check=%(objecttype)", &[], input.as_bytes())?;
        let kinds: Vec<&[u8]> = lines(&out).collect();
        if kinds.len() != oids.len() {
            return Err(answer("cat-file", b"too few"));
        }
        let others = oids.iter().zip(kinds).filter(|(_, kind)| *kind != b"commit");
        Ok(others.map(|(oid, _)| oid.clone()).collect())
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
        let max = format!("--max-count={max}");
        let out = self.git.check("rev-list", &args![&max, "--stdin"], input.as_bytes())?;
        each("rev-list", lines(&out), Oid::parse)
    }

    /// The commits in a ref's log, for repositories whose logs are not files.
    pub fn log_of(&self, name: &str) -> Result<Vec<Oid>, GitError> {
        let words = "rev-list --walk-reflogs --end-of-options";
        each("rev-list", lines(&self.git.check(words, &args![name, "--"], b"")?), Oid::parse)
    }

    /// What is stashed, for all checkouts together.
    pub fn stashes(&self) -> Result<Vec<StashEntry>, GitError> {
        let out = self.git.check(
            "rev-list --walk-reflogs --no-commit-header",
            &args!["--format=%H %s", "refs/stash", "--"],
            b"",
        )?;
        let entry = |line: &[u8]| -> Option<StashEntry> {
            let space = line.iter().position(|byte| *byte == b' ')?;
            let message = String::from_utf8_lossy(&line[space + 1..]).into_owned();
            Some(StashEntry { oid: Oid::parse(&line[..space])?, message })
        };
        each("rev-list", lines(&out), entry)
    }
}

fn is_one_part(rest: &str) -> bool {
    rest.strip_prefix('.').is_some_and(|key| !key.contains('.'))
}

pub(super) fn lines(out: &[u8]) -> impl Iterator<Item = &[u8]> {
    out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

pub(super) fn zeros(out: &[u8]) -> impl Iterator<Item = &[u8]> {
    out.split(|byte| *byte == 0).filter(|line| !line.is_empty())
}

/// What each part of an answer means; one that means nothing is an error.
pub(super) fn each<'a, T>(
    verb: &str,
    parts: impl Iterator<Item = &'a [u8]>,
    read: impl Fn(&[u8]) -> Option<T>,
) -> Result<Vec<T>, GitError> {
    parts.map(|part| read(part).ok_or_else(|| answer(verb, part))).collect()
}

/// The object that an answer of one line names.
pub(super) fn first_oid(verb: &str, out: &[u8]) -> Result<Oid, GitError> {
    lines(out).next().and_then(Oid::parse).ok_or_else(|| answer(verb, out))
}

pub(super) fn answer(verb: &str, said: &[u8]) -> GitError {
    GitError::Answer { verb: verb.into(), answer: text_of(said) }
}

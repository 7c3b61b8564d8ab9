//! A repository at recorded paths, and the questions we ask it.
//!
//! [`Place::find`] is the only discovery, done where the user asked to start; everything after uses what it found.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::error::{GitError, text_of};
use super::hardened::{Hardened, find_git};

/// The name of an object: 40 or 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Oid(String);

impl Oid {
    pub fn parse(text: &[u8]) -> Option<Oid> {
        let hex = matches!(text.len(), 40 | 64) && text.iter().all(u8::is_ascii_hexdigit);
        let text = std::str::from_utf8(text).ok()?;
        (hex && text.bytes().any(|digit| digit != b'0')).then(|| Oid(text.to_ascii_lowercase()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As people write it.
    pub fn short(&self) -> &str {
        &self.0[..10]
    }

    /// "No object", in as many digits.
    fn zero(&self) -> String {
        "0".repeat(self.0.len())
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a directory belongs, as git sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Of this checkout: the repository's own, or one below its `worktrees`.
    pub git_dir: PathBuf,
    pub common_dir: PathBuf,
    /// The checkout's top; `None` in a bare repository.
    pub top: Option<PathBuf>,
    pub shallow: bool,
}

impl Place {
    /// Discovers. The user's own configuration is read, for `safe.directory`; `rev-parse` runs nothing of it.
    pub fn find(cwd: &Path) -> Result<Place, GitError> {
        let not_there = || GitError::NotARepository { path: cwd.to_owned() };
        let real = cwd.canonicalize().map_err(|_| not_there())?;
        let mut git = Hardened::new(find_git()?, &real)
            .without_env("GIT_CONFIG_GLOBAL")
            .without_env("GIT_CONFIG_NOSYSTEM");
        for name in ["HOME", "XDG_CONFIG_HOME"] {
            if let Some(value) = std::env::var_os(name) {
                git = git.env(name, value);
            }
        }
        let bare = ask_line(&git, "--is-bare-repository", cwd)?;
        let inside = ask_line(&git, "--is-inside-work-tree", cwd)?;
        let path = |what: &str| -> Result<PathBuf, GitError> {
            let path = PathBuf::from(OsString::from_vec(ask_line(&git, what, cwd)?));
            real.join(path).canonicalize().map_err(|_| not_there())
        };
        let top = match (inside.as_slice(), bare.as_slice()) {
            (b"true", _) => Some(path("--show-toplevel")?),
            (_, b"true") => None,
            // Inside `.git` itself.
            _ => return Err(not_there()),
        };
        let shallow = ask_line(&git, "--is-shallow-repository", cwd)? == b"true";
        Ok(Place {
            git_dir: path("--absolute-git-dir")?,
            common_dir: path("--git-common-dir")?,
            top,
            shallow,
        })
    }
}

fn ask_line(git: &Hardened, what: &str, cwd: &Path) -> Result<Vec<u8>, GitError> {
    let said = git.ask(&["rev-parse".into(), what.into()], b"")?;
    if said.status.success() {
        let line = said.out.strip_suffix(b"\n").unwrap_or(&said.out);
        return Ok(line.to_owned());
    }
    let words = text_of(&said.err);
    if words.contains("not a git repository") {
        return Err(GitError::NotARepository { path: cwd.to_owned() });
    }
    Err(GitError::failed("rev-parse", said.status.to_string(), &said.err, cwd))
}

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

/// A path git tracks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    pub path: Vec<u8>,
    pub submodule: bool,
    /// Told git not to look at it.
    pub assumed_unchanged: bool,
    /// Left out of the checkout.
    pub skipped: bool,
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
    git: Hardened,
    common_dir: PathBuf,
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
        self.git.tell(&args, b"", &self.common_dir).map(drop).map_err(|error| match error {
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

    /// Everything tracked in this checkout.
    pub fn index(&self) -> Result<Vec<IndexEntry>, GitError> {
        let out = self.git.check(&words(&["ls-files", "-z", "-s", "-v"]), b"", &self.common_dir)?;
        let entry = |line: &[u8]| -> Option<IndexEntry> {
            let tab = line.iter().position(|byte| *byte == b'\t')?;
            let (head, path) = (&line[..tab], &line[tab + 1..]);
            let (tag, rest) = (head.first()?, head.get(2..)?);
            Some(IndexEntry {
                path: path.to_vec(),
                submodule: rest.starts_with(b"160000"),
                assumed_unchanged: tag.is_ascii_lowercase(),
                skipped: tag.eq_ignore_ascii_case(&b'S'),
            })
        };
        zeros(&out).map(|line| entry(line).ok_or_else(|| answer("ls-files", line))).collect()
    }

    /// Tracked paths that differ from the last commit, each with its two letters. Submodules are not entered.
    pub fn changes(&self) -> Result<Vec<([u8; 2], Vec<u8>)>, GitError> {
        let args = words(&[
            "status",
            "--porcelain=v1",
            "-z",
            "--untracked-files=no",
            "--ignore-submodules=dirty",
            "--no-renames",
        ]);
        let out = self.git.check(&args, b"", &self.common_dir)?;
        let change = |line: &[u8]| -> Option<([u8; 2], Vec<u8>)> {
            Some(([*line.first()?, *line.get(1)?], line.get(3..)?.to_vec()))
        };
        zeros(&out).map(|line| change(line).ok_or_else(|| answer("status", line))).collect()
    }

    /// Paths whose staged content is not the last commit's.
    pub fn staged(&self) -> Result<Vec<Vec<u8>>, GitError> {
        let args = ["diff-index", "--cached", "--no-ext-diff", "--name-only", "-z", "HEAD"];
        let out = self.git.check(&words(&args), b"", &self.common_dir)?;
        Ok(zeros(&out).map(<[u8]>::to_vec).collect())
    }

    /// Which of these paths (relative to the top) are ignored.
    pub fn ignored(&self, paths: &[Vec<u8>]) -> Result<HashSet<Vec<u8>>, GitError> {
        if paths.is_empty() {
            return Ok(HashSet::new());
        }
        // With `./`, or a name that begins with a colon would be a pattern.
        let asked: Vec<u8> = paths
            .iter()
            .flat_map(|path| [b"./", path.as_slice(), b"\0"])
            .flatten()
            .copied()
            .collect();
        let said = self.git.ask(&words(&["check-ignore", "-z", "--stdin"]), &asked)?;
        if !matches!(said.status.code(), Some(0 | 1)) || !said.err.is_empty() {
            let status = said.status.to_string();
            return Err(GitError::failed("check-ignore", status, &said.err, &self.common_dir));
        }
        Ok(zeros(&said.out)
            .filter_map(|path| path.strip_prefix(b"./"))
            .map(<[u8]>::to_vec)
            .collect())
    }

    /// Untracked files that a file of patterns names.
    pub fn untracked_matching(&self, patterns: &Path) -> Result<Vec<Vec<u8>>, GitError> {
        let mut from = OsString::from("--exclude-from=");
        from.push(patterns);
        let args = [words(&["ls-files", "-z", "--others", "--ignored"]), vec![from]].concat();
        let out = self.git.tell(&args, b"", &self.common_dir)?;
        Ok(zeros(&out).map(<[u8]>::to_vec).collect())
    }

    /// The names the contents of files would have as objects; nothing is written.
    pub fn hashes(&self, files: &[PathBuf]) -> Result<Vec<Oid>, GitError> {
        let mut oids = Vec::with_capacity(files.len());
        // By argument and not by input: a line cannot carry every name.
        for some in files.chunks(200) {
            let mut args = words(&["hash-object", "--no-filters", "--"]);
            args.extend(some.iter().map(|file| file.clone().into_os_string()));
            let out = self.git.check(&args, b"", &self.common_dir)?;
            for line in lines(&out) {
                oids.push(Oid::parse(line).ok_or_else(|| answer("hash-object", line))?);
            }
        }
        if oids.len() == files.len() { Ok(oids) } else { Err(answer("hash-object", b"too few")) }
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
        let args = words(&["rev-list", "--walk-reflogs", "--end-of-options", name]);
        let out = self.git.check(&args, b"", &self.common_dir)?;
        lines(&out).map(|text| Oid::parse(text).ok_or_else(|| answer("rev-list", text))).collect()
    }

    /// What is stashed, for all checkouts together.
    pub fn stashes(&self) -> Result<Vec<StashEntry>, GitError> {
        let format = "--format=%H %s";
        let args = ["rev-list", "--walk-reflogs", "--no-commit-header", format, "refs/stash"];
        let out = self.git.check(&words(&args), b"", &self.common_dir)?;
        let entry = |line: &[u8]| -> Option<StashEntry> {
            let space = line.iter().position(|byte| *byte == b' ')?;
            let message = String::from_utf8_lossy(&line[space + 1..]).into_owned();
            Some(StashEntry { oid: Oid::parse(&line[..space])?, message })
        };
        lines(&out).map(|line| entry(line).ok_or_else(|| answer("rev-list", line))).collect()
    }

    /// Fills an index that was never written, from the last commit.
    pub fn fill_index(&self) -> Result<(), GitError> {
        self.git.tell(&words(&["read-tree", "HEAD"]), b"", &self.common_dir).map(drop)
    }

    /// Puts tracked files back that are missing; what is there stays as it is.
    pub fn restore_missing(&self) -> Result<(), GitError> {
        let args = words(&["checkout-index", "--all", "--quiet", "--index"]);
        // It complains about every file that is there.
        self.git.ask(&args, b"").map(drop)
    }
}

fn is_one_part(rest: &str) -> bool {
    rest.strip_prefix('.').is_some_and(|key| !key.contains('.'))
}

fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}

fn lines(out: &[u8]) -> impl Iterator<Item = &[u8]> {
    out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

fn zeros(out: &[u8]) -> impl Iterator<Item = &[u8]> {
    out.split(|byte| *byte == 0).filter(|line| !line.is_empty())
}

fn answer(verb: &str, said: &[u8]) -> GitError {
    GitError::Answer { verb: verb.into(), answer: text_of(said) }
}

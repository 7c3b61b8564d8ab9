//! Questions about one checkout: what it tracks, what differs, what is ignored.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::error::GitError;
use super::hardened::args;
use super::oid::Oid;
use super::repo::{Repo, answer, each, lines, zeros};

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

/// A tracked path that is not as the last commit has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// As `git status` shows it: staged, then not staged.
    pub letters: [u8; 2],
    pub path: Vec<u8>,
}

impl Repo {
    /// Everything tracked in this checkout.
    pub fn index(&self) -> Result<Vec<IndexEntry>, GitError> {
        let out = self.git.check("ls-files -z -s -v", &[], b"")?;
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
        each("ls-files", zeros(&out), entry)
    }

    /// Tracked paths that differ from the last commit, each with its two letters. Submodules are
    /// not entered.
    pub fn changes(&self) -> Result<Vec<Change>, GitError> {
        let words =
            "status --porcelain=v1 -z --untracked-files=no --ignore-submodules=dirty --no-renames";
        let out = self.git.check(words, &[], b"")?;
        let change = |line: &[u8]| -> Option<Change> {
            Some(Change { letters: [*line.first()?, *line.get(1)?], path: line.get(3..)?.to_vec() })
        };
        each("status", zeros(&out), change)
    }

    /// Paths whose staged content is not the last commit's.
    pub fn staged(&self) -> Result<Vec<Vec<u8>>, GitError> {
        let out =
            self.git.check("diff-index --cached --no-ext-diff --name-only -z HEAD --", &[], b"")?;
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
        let said = self.git.ask("check-ignore -z --stdin", &[], &asked)?;
        if !matches!(said.status.code(), Some(0 | 1)) || !said.err.is_empty() {
            return Err(self.git.failed("check-ignore", &said));
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
        let out = self.git.tell("ls-files -z --others --ignored", &args![&from], b"")?;
        Ok(zeros(&out).map(<[u8]>::to_vec).collect())
    }

    /// The names the contents of files would have as objects; nothing is written.
    pub fn hashes(&self, files: &[PathBuf]) -> Result<Vec<Oid>, GitError> {
        self.hash("hash-object --no-filters --", files)
    }

    /// Puts the contents of files into the repository as they are, no filter asked; their names as
    /// objects.
    pub fn store(&self, files: &[PathBuf]) -> Result<Vec<Oid>, GitError> {
        self.hash("hash-object -w --no-filters --", files)
    }

    fn hash(&self, words: &str, files: &[PathBuf]) -> Result<Vec<Oid>, GitError> {
        let mut oids = Vec::with_capacity(files.len());
        // By argument and not by input: a line cannot carry every name.
        for some in files.chunks(200) {
            let args: Vec<&OsStr> = some.iter().map(|file| file.as_os_str()).collect();
            let out = self.git.check(words, &args, b"")?;
            oids.extend(each("hash-object", lines(&out), Oid::parse)?);
        }
        if oids.len() == files.len() { Ok(oids) } else { Err(answer("hash-object", b"too few")) }
    }

    /// Fills an index that was never written, from the last commit.
    pub fn fill_index(&self) -> Result<(), GitError> {
        self.git.tell("read-tree HEAD", &[], b"").map(drop)
    }

    /// Puts tracked files back that are missing; what is there stays as it is.
    pub fn restore_missing(&self) -> Result<(), GitError> {
        // It complains about every file that is there.
        self.git.ask("checkout-index --all --quiet --index", &[], b"").map(drop)
    }
}

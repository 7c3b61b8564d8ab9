//! `greenroom worktree rm`: one worktree by name, and what `--force` may do.
//!
//! Without force it is the check of `clean`. With force what would be lost goes under a ref first,
//! `refs/greenroom/kept/…`: the commits, what was staged, and every file as it is, byte for byte.
//! What no commit can hold (a repository inside, a rebase in the middle, build products that git
//! does not ignore) stays, and the worktree with it. So force removes a directory and never work.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use greenroom_protocol::api::fence::{CleanAction, WorktreeRemoveResult};

use super::check::{Findings, Verdict, check, examine, os};
use super::end::{Outcome, held, lock_if_there};
use super::error::WorktreeError;
use super::find::Found;
use super::list::cleaned;
use super::record::{Phase, Record};
use super::slug::Slug;
use super::{Lock, Worktrees, pointers};
use crate::git::{Entry, Oid, Repo};

/// Where forced removals put what they would have lost.
pub const KEPT: &str = "refs/greenroom/kept/";

/// More commits that only logs lead to are a reason to look oneself.
const MAX_LOOSE: usize = 1000;

/// Every commit, in the numbers git takes.
const ALL: usize = i32::MAX as usize;

impl Worktrees {
    pub fn remove_one(
        &self,
        found: &Found,
        force: bool,
    ) -> Result<WorktreeRemoveResult, WorktreeError> {
        let removed = |worktree, kept_as| WorktreeRemoveResult { worktree, kept_as };
        let unknown = || WorktreeError::Unknown { name: found.record.slug.clone(), nearest: None };
        let record = Record::load(&found.file)?.ok_or_else(unknown)?;
        let plainly = |record| Ok(removed(self.clean_one(&found.file, record, false), None));
        if !force {
            return plainly(record);
        }
        let locked = lock_if_there(&record.common_dir)?;
        let record = Record::load(&found.file)?.ok_or_else(unknown)?;
        if self.is_live(&record) || record.phase != Phase::Ready {
            drop(locked);
            return plainly(record);
        }
        let about = examine(&record, &self.config.now().disposable)?;
        if about.reasons.iter().any(|reason| !reason.can_be_held) {
            let stuck = about.reasons.into_iter().filter(|reason| !reason.can_be_held);
            let why = stuck.map(|reason| reason.text).collect();
            return Ok(removed(cleaned(&record, CleanAction::Kept, why), None));
        }
        let why: Vec<String> = about.reasons.iter().map(|reason| reason.text.clone()).collect();
        let kept_as =
            if why.is_empty() { None } else { self.hold(locked.as_ref(), &record, &about)? };
        let outcome = self.remove_held(locked.as_ref(), &found.file, record.clone(), about)?;
        Ok(match outcome {
            Outcome::Kept { why, .. } => removed(cleaned(&record, CleanAction::Kept, why), kept_as),
            _ => removed(cleaned(&record, CleanAction::Removed, why), kept_as),
        })
    }

    fn is_live(&self, record: &Record) -> bool {
        record.session.is_some_and(|id| self.is_alive(id))
    }

    /// Exactly what was looked at and put under a ref.
    fn remove_held(
        &self,
        locked: Option<&Lock>,
        file: &Path,
        mut record: Record,
        about: Findings,
    ) -> Result<Outcome, WorktreeError> {
        match self.remove(locked, file, &mut record, &about.removal) {
            Err(WorktreeError::Moving { path }) => {
                let text = "appeared or changed while it was being removed";
                let mut why = vec![format!("{} {text}", path.display())];
                if let Verdict::Keep(more) = check(&record, &self.config.now().disposable) {
                    why.extend(more);
                }
                self.keep(locked, file, record, why)
            }
            Err(error) => Err(error),
            Ok(()) => Ok(Outcome::Nothing),
        }
    }

    /// Puts everything that would be lost under a ref. `None` if it was only stashed, which stays
    /// stashed.
    fn hold(
        &self,
        locked: Option<&Lock>,
        record: &Record,
        about: &Findings,
    ) -> Result<Option<String>, WorktreeError> {
        let repo = held(Repo::open(&record.common_dir)?, locked);
        if about.loose.len() > MAX_LOOSE {
            let why = format!("more than {MAX_LOOSE} commits are only in its logs");
            return Err(WorktreeError::Unfit { slug: record.slug.clone(), why });
        }
        let has_files = !about.modified.is_empty() || !about.strangers.is_empty();
        if about.loose.is_empty() && !has_files {
            return Ok(None);
        }
        let admin_dir = pointers::admin_dir(record)?;
        let head = match &admin_dir {
            Some(dir) => Repo::open_admin(&record.common_dir, dir)?.commit("HEAD")?,
            None => about.removal.tip.clone().or_else(|| about.loose.first().cloned()),
        };
        let head = head.ok_or_else(|| WorktreeError::NoCommit { repo: record.path.clone() })?;
        // Most of what logs name lies below it.
        let beside = repo.only_from(&about.loose, std::slice::from_ref(&head), ALL)?;
        let loose: Vec<Oid> = beside.into_iter().filter(|oid| about.loose.contains(oid)).collect();
        let commit = match admin_dir {
            Some(dir) if has_files => self.hold_files(&repo, record, &dir, about, &head, &loose)?,
            _ if loose.is_empty() => head,
            _ => {
                let (tree, parents) = (repo.tree_of(&head)?, [&[head][..], &loose].concat());
                repo.commit_tree(&tree, &parents, &message(record, about), &repo.identity())?
            }
        };
        let refname = free_name(&repo, record)?;
        self.steps.at("before it is kept")?;
        repo.move_ref(&refname, &commit, None, "greenroom worktree rm --force")?;
        Ok(Some(refname))
    }

    /// A commit with every file as it is, on top of all that is loose.
    fn hold_files(
        &self,
        repo: &Repo,
        record: &Record,
        admin_dir: &Path,
        about: &Findings,
        head: &Oid,
        loose: &[Oid],
    ) -> Result<Oid, WorktreeError> {
        let inside = Repo::open_tree(&record.common_dir, admin_dir, &record.path)?;
        let scratch = tempfile::tempdir().map_err(WorktreeError::io("make", &record.path))?;
        let index = scratch.path().join("index");
        let own = admin_dir.join("index");
        fs::copy(&own, &index).map_err(WorktreeError::io("copy", &own))?;
        let inside = inside.with_index(&index);
        let (by, text) = (repo.identity(), message(record, about));
        let mut parents = vec![head.clone()];
        let staged = inside.write_tree()?;
        if staged != repo.tree_of(head)? {
            let text = format!("staged in {}", record.slug);
            parents.push(repo.commit_tree(&staged, std::slice::from_ref(head), &text, &by)?);
        }
        let paths: Vec<&Vec<u8>> = about.modified.iter().chain(&about.strangers).collect();
        let entries = entries(&inside, record, &paths)?;
        inside.put(&entries, head)?;
        let tree = inside.write_tree()?;
        parents.extend(loose.iter().cloned());
        Ok(repo.commit_tree(&tree, &parents, &text, &by)?)
    }
}

/// Each path with its content, byte for byte.
fn entries(repo: &Repo, record: &Record, paths: &[&Vec<u8>]) -> Result<Vec<Entry>, WorktreeError> {
    let (mut entries, mut plain) = (Vec::new(), Vec::new());
    for path in paths {
        let full = record.path.join(os(path));
        let path = (*path).clone();
        match fs::symlink_metadata(&full) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                entries.push(Entry { path, content: None });
            }
            Err(error) => return Err(WorktreeError::io("look at", &full)(error)),
            Ok(meta) if meta.is_symlink() => {
                let target = fs::read_link(&full).map_err(WorktreeError::io("read", &full))?;
                let oid = repo.store_bytes(target.as_os_str().as_encoded_bytes())?;
                entries.push(Entry { path, content: Some(("120000", oid)) });
            }
            Ok(meta) if meta.is_file() => {
                let mode = if meta.permissions().mode() & 0o111 == 0 { "100644" } else { "100755" };
                plain.push((path, mode, full));
            }
            // A tracked file became a directory: what is in it stands in the list by itself.
            Ok(meta) if meta.is_dir() => entries.push(Entry { path, content: None }),
            Ok(_) => {
                let odd = std::io::Error::other("it is neither a file nor a link");
                return Err(WorktreeError::io("keep", &full)(odd));
            }
        }
    }
    let files: Vec<_> = plain.iter().map(|(_, _, full)| full.clone()).collect();
    let oids = repo.store(&files)?;
    let stored = plain.into_iter().zip(oids);
    entries.extend(stored.map(|((path, mode, _), oid)| Entry { path, content: Some((mode, oid)) }));
    // What goes, goes first: a file may stand where a directory was.
    entries.sort_by_key(|entry| entry.content.is_some());
    Ok(entries)
}

fn message(record: &Record, about: &Findings) -> String {
    let why: Vec<String> =
        about.reasons.iter().map(|reason| format!("- {}", reason.text)).collect();
    format!("kept from worktree {}\n\n{}", record.slug, why.join("\n"))
}

fn free_name(repo: &Repo, record: &Record) -> Result<String, WorktreeError> {
    let flat = Slug::parse(&record.slug)?.flat();
    let refs = repo.refs()?;
    let name = format!("{KEPT}{flat}.{}", record.nonce);
    let numbered = (2..).map(|number| format!("{name}.{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    let free = names.find(|name| !refs.iter().any(|one| one.name == *name));
    Ok(free.unwrap_or(name))
}

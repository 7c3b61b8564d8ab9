//! `greenroom worktree merge`: a session's branch into the user's.
//!
//! In: a worktree, and perhaps into which branch. Out: what was done, or a refusal that changed
//! nothing. The outcome is worked out among objects first; then the user's branch moves there in
//! one step. It never stops in the middle, never overwrites a file that is in no commit, and takes
//! nothing from the session's side: worktree and branch stay as they are.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use greenroom_protocol::api::fence::{MergeAction, WorktreeMergeParams, WorktreeMergeResult};

use super::check::{self, examine, os, some, there};
use super::error::WorktreeError;
use super::find::Found;
use super::record::Record;
use super::{Lock, Worktrees, diff, lock, make};
use crate::git::{Oid, Ref, Repo, RepoPaths, Together, Tree};

/// The branch to move, and where it is checked out.
struct Goal {
    refname: String,
    tip: Oid,
    checkout: Option<(PathBuf, Repo)>,
}

impl Goal {
    fn branch(&self) -> &str {
        short(&self.refname)
    }
}

/// Subjects named in the message of a squashed commit, and commits counted.
const NAMED: usize = 100;
const COUNTED: usize = 10_000;

impl Worktrees {
    pub fn merge(
        &self,
        found: &Found,
        ask: &WorktreeMergeParams,
    ) -> Result<WorktreeMergeResult, WorktreeError> {
        let locked = lock(&found.record.common_dir)?;
        let record = Record::load(&found.file)?.unwrap_or_else(|| found.record.clone());
        // Also refuses a worktree whose pointers were changed.
        let (inside, _) = diff::open(&record)?;
        let repo = Repo::open(&record.common_dir)?.holding(&locked);
        let (refs, trees) = (repo.refs()?, repo.worktrees()?);
        let theirs = tip_of(&record, &refs)?;
        refuse_astray(&repo, &record, &inside, &theirs)?;
        let goal = self.goal(&record, ask, &refs, &trees, &locked)?;
        let notes = self.left_out(&record);
        let done = |action, commit: &Oid, commits: usize| WorktreeMergeResult {
            slug: found.slug().to_owned(),
            branch: found.branch().to_owned(),
            into: goal.branch().to_owned(),
            checkout: goal.checkout.as_ref().map(|(top, _)| top.display().to_string()),
            action,
            commit: commit.to_string(),
            commits: commits as u64,
            notes: notes.clone(),
        };
        if repo.is_ancestor(&theirs, &goal.tip)? {
            return Ok(done(MergeAction::Nothing, &goal.tip, 0));
        }
        let commits = repo
            .only_from(std::slice::from_ref(&theirs), std::slice::from_ref(&goal.tip), COUNTED)?
            .len();
        let Some((how, new)) = outcome(&repo, &record, &goal, &theirs, ask)? else {
            return Ok(done(MergeAction::Nothing, &goal.tip, 0));
        };
        refuse_in_the_way(&goal, &new)?;
        self.steps.at("before the branch moves")?;
        let reason = format!("greenroom worktree merge {}", record.slug);
        match &goal.checkout {
            Some((top, checkout)) => {
                checkout.fast_forward(&new, &reason).map_err(|error| {
                    refused(&goal, format!("git would not change {}: {error}", top.display()))
                })?;
            }
            None => repo.move_ref(&goal.refname, &new, Some(&goal.tip), &reason)?,
        }
        match repo.commit(&goal.refname)? {
            Some(now) if now == new => Ok(done(how, &new, commits)),
            _ => Err(refused(&goal, "the branch moved meanwhile".into())),
        }
    }

    fn goal(
        &self,
        record: &Record,
        ask: &WorktreeMergeParams,
        refs: &[Ref],
        trees: &[Tree],
        locked: &Lock,
    ) -> Result<Goal, WorktreeError> {
        let (refname, place) = match &ask.into {
            Some(branch) => {
                let refname = format!("refs/heads/{}", short(branch));
                let tree = trees.iter().find(|tree| tree.branch.as_deref() == Some(&refname));
                let place = tree.map(|tree| RepoPaths::find(&tree.path)).transpose()?;
                (refname, place.filter(|place| place.top.is_some()))
            }
            None => checked_out(record)?,
        };
        if refname == record.refname() {
            return Err(WorktreeError::IntoItself { branch: record.branch.clone() });
        }
        let tip = refs.iter().find(|one| one.name == refname && !one.symbolic);
        let Some(tip) = tip.map(|one| one.oid.clone()) else {
            return Err(WorktreeError::NoBranch {
                branch: short(&refname).to_owned(),
                repo: record.source.clone(),
            });
        };
        let mut goal = Goal { refname, tip, checkout: None };
        let Some(place) = place else { return Ok(goal) };
        let Some(top) = place.top.clone().filter(|_| place.common_dir == record.common_dir) else {
            return Err(refused(&goal, "its checkout belongs to another repository".into()));
        };
        if let Some(session) = self.at_work_in(&top)? {
            return Err(refused(&goal, format!("session {session} works in {}", top.display())));
        }
        let repo = Repo::open_tree(&place.common_dir, &place.git_dir, &top)?.holding(locked);
        if let Some(what) = check::unfinished(&place.git_dir).into_iter().next() {
            return Err(refused(&goal, format!("{what} in {}", top.display())));
        }
        let changes = repo.changes()?;
        if !changes.is_empty() {
            let paths: Vec<Vec<u8>> = changes.into_iter().map(|change| change.path).collect();
            return Err(WorktreeError::Dirty {
                branch: goal.branch().to_owned(),
                top,
                files: paths.iter().map(|path| check::shown(path)).collect(),
            });
        }
        goal.checkout = Some((top, repo));
        Ok(goal)
    }

    /// The session that works in a worktree of ours at this path.
    fn at_work_in(&self, top: &Path) -> Result<Option<String>, WorktreeError> {
        for file in self.records()? {
            if let Ok(Some(record)) = Record::load(&file)
                && record.path == top
                && let Some(id) = record.session.filter(|id| self.is_alive(*id))
            {
                return Ok(Some(greenroom_engine::SessionId(id).to_string()));
            }
        }
        Ok(None)
    }

    /// What the worktree holds that no commit has, for the user to know.
    fn left_out(&self, record: &Record) -> Vec<String> {
        let Ok(found) = examine(record, &self.config.now().disposable) else { return Vec::new() };
        let paths = [found.modified, found.untracked].concat();
        match paths.is_empty() {
            true => Vec::new(),
            false => vec![format!("not merged, because it is not committed: {}", some(&paths))],
        }
    }
}

fn short(refname: &str) -> &str {
    refname.strip_prefix("refs/heads/").unwrap_or(refname)
}

fn refused(goal: &Goal, why: String) -> WorktreeError {
    WorktreeError::NotMerged { into: goal.branch().to_owned(), why }
}

fn tip_of(record: &Record, refs: &[Ref]) -> Result<Oid, WorktreeError> {
    let name = record.refname();
    let found = refs.iter().find(|one| one.name == name && !one.symbolic);
    found.map(|one| one.oid.clone()).ok_or_else(|| WorktreeError::Unfit {
        slug: record.slug.clone(),
        why: format!("its branch {} is gone", record.branch),
    })
}

/// Somebody who checked out another commit there means that one, and we would merge without it.
fn refuse_astray(
    repo: &Repo,
    record: &Record,
    inside: &Repo,
    theirs: &Oid,
) -> Result<(), WorktreeError> {
    match inside.commit("HEAD")? {
        Some(head) if head == *theirs || repo.is_ancestor(&head, theirs)? => Ok(()),
        Some(head) => Err(WorktreeError::Unfit {
            slug: record.slug.clone(),
            why: format!("its HEAD {} is not on {}", head.short(), record.branch),
        }),
        None => Err(WorktreeError::Unfit {
            slug: record.slug.clone(),
            why: "its HEAD has no commit".into(),
        }),
    }
}

/// The branch of the checkout that the worktree was made from.
fn checked_out(record: &Record) -> Result<(String, Option<RepoPaths>), WorktreeError> {
    let place = RepoPaths::find(&record.source).ok().filter(|p| p.common_dir == record.common_dir);
    let Some(place) = place else {
        return Err(WorktreeError::NoCheckout {
            why: format!("{} is gone", record.source.display()),
        });
    };
    match make::source_repo(&place)?.head_branch()? {
        Some(refname) => Ok((refname, Some(place).filter(|place| place.top.is_some()))),
        None => Err(WorktreeError::NoCheckout {
            why: format!("{} has no branch checked out", record.source.display()),
        }),
    }
}

/// The commit that the goal becomes, or `None` if it would not change. Nothing leads to it yet.
fn outcome(
    repo: &Repo,
    record: &Record,
    goal: &Goal,
    theirs: &Oid,
    ask: &WorktreeMergeParams,
) -> Result<Option<(MergeAction, Oid)>, WorktreeError> {
    if !ask.squash && ask.message.is_none() && repo.is_ancestor(&goal.tip, theirs)? {
        return Ok(Some((MergeAction::FastForward, theirs.clone())));
    }
    let tree = match repo.together(&goal.tip, theirs)? {
        Together::Tree(tree) => tree,
        Together::Conflicts(paths) => {
            return Err(WorktreeError::Conflicts {
                branch: record.branch.clone(),
                into: goal.branch().to_owned(),
                files: paths.iter().map(|path| check::shown(path)).collect(),
            });
        }
    };
    let (how, parents, message) = if ask.squash {
        if tree == repo.tree_of(&goal.tip)? {
            return Ok(None);
        }
        let subjects = repo.subjects(&goal.tip, theirs, NAMED)?;
        let list: Vec<String> = subjects.iter().rev().map(|line| format!("- {line}")).collect();
        let message = format!("{}\n\n{}", record.slug, list.join("\n"));
        (MergeAction::Squashed, vec![goal.tip.clone()], message)
    } else {
        let message = format!("Merge branch '{}' into {}", record.branch, goal.branch());
        (MergeAction::Merged, vec![goal.tip.clone(), theirs.clone()], message)
    };
    let message = ask.message.as_deref().unwrap_or(&message);
    let new = repo.commit_tree(&tree, &parents, message, &repo.identity())?;
    Ok(Some((how, new)))
}

/// What git would overwrite unasked, or write wrongly without the programs that we do not run.
fn refuse_in_the_way(goal: &Goal, new: &Oid) -> Result<(), WorktreeError> {
    let Some((top, repo)) = &goal.checkout else { return Ok(()) };
    let changing = repo.differing(&goal.tip, new)?;
    let set: HashSet<&[u8]> = changing.iter().map(Vec::as_slice).collect();
    let hidden: Vec<Vec<u8>> = repo
        .index()?
        .into_iter()
        .filter(|entry| set.contains(entry.path.as_slice()))
        .filter(|entry| {
            entry.assumed_unchanged || (entry.skipped && there(&top.join(os(&entry.path))))
        })
        .map(|entry| entry.path)
        .collect();
    if !hidden.is_empty() {
        let text = format!("git was told not to look at {} (git ls-files -v)", some(&hidden));
        return Err(refused(goal, text));
    }
    let mut filtered = repo.filtered(&changing)?;
    for path in changing.iter().filter(|path| path.ends_with(b".gitattributes")) {
        let name = String::from_utf8_lossy(path).into_owned();
        let text = repo.blob(new.as_str(), &name)?.unwrap_or_default();
        if make::has_filter(&text) {
            filtered.push(path.clone());
        }
    }
    if !filtered.is_empty() {
        let text = format!(
            "{} passes through a filter (git lfs and the like), which is not run here",
            some(&filtered)
        );
        return Err(refused(goal, text));
    }
    Ok(())
}

//! Commits and stashes that only a worktree, its branch or their logs lead to.
//!
//! An anchor is what stays: other branches, remote-tracking branches, tags, and the heads of other
//! checkouts. The recorded base is no anchor: if it was since dropped from its branch, this
//! worktree may be all that holds it.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::check::{Findings, Reason};
use super::error::WorktreeError;
use super::record::Record;
use crate::disk::if_there;
use crate::git::{Oid, Ref, Repo, Tree};

/// A log with a line per commit for years.
const MAX_LOG: u64 = 64 << 20;

/// Commits named in a reason.
const SHOWN: usize = 3;

/// Commits counted; more is "more".
const COUNTED: usize = 100;

/// Refs that each checkout has for itself.
const PER_WORKTREE: &[&str] = &["refs/bisect/", "refs/worktree/", "refs/rewritten/"];

/// Adds reasons to keep it, the commits that would go with it, and the branch's tip if the branch
/// may go too.
pub fn examine(
    repo: &Repo,
    record: &Record,
    admin_dir: Option<&Path>,
    found: &mut Findings,
) -> Result<(), WorktreeError> {
    let refs = repo.refs()?;
    let trees = repo.worktrees()?;
    let name = record.refname();
    let branch = refs.iter().find(|one| one.name == name);
    let others: Vec<&Tree> = trees.iter().filter(|tree| tree.path != record.path).collect();
    let mut trouble = Vec::new();
    if branch.is_some_and(|branch| branch.symbolic) {
        trouble.push(format!("{} was made another name for a branch", record.branch));
    }
    let here = trees.iter().find(|tree| tree.path == record.path);
    if admin_dir.is_some() && here.is_none() {
        trouble.push("git does not list it among its worktrees".into());
    }
    if here.is_some_and(|tree| tree.head.is_none()) {
        trouble.push("its HEAD has no commit".into());
    }
    // A user who checked our branch out elsewhere goes on using it: then it stays, and holds what
    // it names.
    let branch_stays = others.iter().any(|tree| tree.branch.as_deref() == Some(&name));
    let anchors = anchors(&refs, &others, (!branch_stays).then_some(&name));
    let held = held(repo, record, admin_dir, &refs, here)?;
    found.reasons.extend(trouble.into_iter().map(Reason::trouble));
    unanchored(repo, &held, &anchors, found)?;
    if refs.iter().any(|one| one.name == "refs/stash") {
        found.reasons.extend(stashed_here(repo, record, here)?.map(Reason::work));
    }
    found.removal.tip = branch.filter(|_| !branch_stays).map(|branch| branch.oid.clone());
    Ok(())
}

fn anchors(refs: &[Ref], others: &[&Tree], except: Option<&String>) -> Vec<Oid> {
    let lasting = ["refs/heads/", "refs/remotes/", "refs/tags/"];
    let from_refs = refs
        .iter()
        .filter(|one| !one.symbolic && Some(&one.name) != except)
        .filter(|one| lasting.iter().any(|prefix| one.name.starts_with(prefix)))
        .map(|one| one.oid.clone());
    let heads =
        others.iter().filter(|tree| tree.branch.is_none()).filter_map(|tree| tree.head.clone());
    from_refs.chain(heads).collect()
}

/// Everything that goes when the worktree and its branch go.
fn held(
    repo: &Repo,
    record: &Record,
    admin_dir: Option<&Path>,
    refs: &[Ref],
    here: Option<&Tree>,
) -> Result<HashSet<Oid>, WorktreeError> {
    let name = record.refname();
    let mut held: HashSet<Oid> = refs
        .iter()
        .filter(|one| one.name == name || PER_WORKTREE.iter().any(|at| one.name.starts_with(at)))
        .map(|one| one.oid.clone())
        .collect();
    held.extend(here.and_then(|tree| tree.head.clone()));
    let has_branch = refs.iter().any(|one| one.name == name);
    if repo.has_plain_refs()? {
        read_log(&record.common_dir.join("logs").join(&name), &mut held)?;
        if let Some(dir) = admin_dir {
            read_logs(&dir.join("logs"), &mut held, 0)?;
        }
    } else {
        if has_branch {
            held.extend(repo.log_of(&name)?);
        }
        if admin_dir.is_some() {
            held.extend(repo.log_of("HEAD")?);
        }
    }
    if let Some(dir) = admin_dir {
        read_heads(dir, &mut held)?;
    }
    Ok(held)
}

/// Files beside the heads whose names look alike, and that are none: what a person wrote, and git's
/// notes to itself. A line of a message that looks like a commit names nothing.
const NO_HEADS: &[&str] = &[
    "COMMIT_EDITMSG",
    "EDIT_DESCRIPTION",
    "MERGE_MODE",
    "MERGE_MSG",
    "MERGE_RR",
    "NOTES_EDITMSG",
    "SQUASH_MSG",
    "TAG_EDITMSG",
    // A tree that git worked out from two commits, and could again.
    "AUTO_MERGE",
];

/// Heads that git itself names otherwise.
const HEADS: &[&str] =
    &["HEAD", "BISECT_EXPECTED_REV", "MERGE_AUTOSTASH", "NOTES_MERGE_PARTIAL", "NOTES_MERGE_REF"];

/// The commits in a file with the name of a head. Git's own heads may have several lines, such as
/// `FETCH_HEAD`; one that somebody made (`git update-ref KEEP`) is a line that is a commit and
/// nothing else.
fn named_in(name: &str, text: &[u8]) -> Vec<Oid> {
    let line = |line: &[u8]| {
        Oid::parse(line.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default())
    };
    match name {
        _ if NO_HEADS.contains(&name) => Vec::new(),
        _ if name.ends_with("_HEAD") || HEADS.contains(&name) => {
            text.split(|byte| *byte == b'\n').filter_map(line).collect()
        }
        _ => Oid::parse(text.trim_ascii_end()).into_iter().collect(),
    }
}

/// `ORIG_HEAD`, `FETCH_HEAD` and their like, and what is in them.
fn read_heads(admin_dir: &Path, held: &mut HashSet<Oid>) -> Result<(), WorktreeError> {
    let failed = || WorktreeError::io("read", admin_dir);
    for entry in fs::read_dir(admin_dir).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let like_a_head = name.bytes().all(|c| c.is_ascii_uppercase() || b"_-".contains(&c));
        if like_a_head && entry.file_type().map_err(failed())?.is_file() {
            held.extend(named_in(name, &read_capped(&entry.path())?));
        }
    }
    Ok(())
}

fn read_logs(dir: &Path, held: &mut HashSet<Oid>, depth: usize) -> Result<(), WorktreeError> {
    let failed = || WorktreeError::io("read", dir);
    let Some(entries) = if_there(fs::read_dir(dir)).map_err(failed())? else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(failed())?;
        let kind = entry.file_type().map_err(failed())?;
        if kind.is_dir() && depth < 20 {
            read_logs(&entry.path(), held, depth + 1)?;
        } else {
            read_log(&entry.path(), held)?;
        }
    }
    Ok(())
}

/// Both columns of a log: the second of one line is not always the first of the next.
fn read_log(file: &Path, held: &mut HashSet<Oid>) -> Result<(), WorktreeError> {
    if !super::check::there(file) {
        return Ok(());
    }
    let text = read_capped(file)?;
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let mut words = line.splitn(3, |byte| *byte == b' ');
        for _ in 0..2 {
            let word = words.next().unwrap_or_default();
            if !word.iter().all(|digit| *digit == b'0') || word.is_empty() {
                let odd =
                    || WorktreeError::io("understand", file)(std::io::Error::other("an odd line"));
                held.insert(Oid::parse(word).ok_or_else(odd)?);
            }
        }
    }
    Ok(())
}

fn read_capped(file: &Path) -> Result<Vec<u8>, WorktreeError> {
    let failed = || WorktreeError::io("read", file);
    let meta = fs::symlink_metadata(file).map_err(failed())?;
    if !meta.is_file() || meta.len() > MAX_LOG {
        return Err(failed()(std::io::Error::other("it is not a plain file of a sensible size")));
    }
    fs::read(file).map_err(failed())
}

fn unanchored(
    repo: &Repo,
    held: &HashSet<Oid>,
    anchors: &[Oid],
    found: &mut Findings,
) -> Result<(), WorktreeError> {
    let anchored: HashSet<&Oid> = anchors.iter().collect();
    let mut loose: Vec<Oid> = held.iter().filter(|oid| !anchored.contains(oid)).cloned().collect();
    loose.sort();
    if loose.is_empty() {
        return Ok(());
    }
    if let Some(odd) = repo.not_commits(&loose)?.first() {
        let text = format!("it names {}, which is not a commit we can find", odd.short());
        found.reasons.push(Reason::trouble(text));
        return Ok(());
    }
    let only = repo.only_from(&loose, anchors, COUNTED)?;
    if only.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = only.iter().take(SHOWN).map(Oid::short).collect();
    let more = if only.len() > SHOWN { ", …" } else { "" };
    let count = match only.len() {
        1 => "1 commit is".to_owned(),
        COUNTED => format!("{COUNTED} or more commits are"),
        count => format!("{count} commits are"),
    };
    let text = format!("{count} on no other branch or remote: {}{more}", names.join(", "));
    found.reasons.push(Reason::work(text));
    found.loose = loose;
    Ok(())
}

/// Stashes are shared by all checkouts; their messages say where they were made.
fn stashed_here(
    repo: &Repo,
    record: &Record,
    here: Option<&Tree>,
) -> Result<Option<String>, WorktreeError> {
    let current = here.and_then(|tree| tree.branch.as_deref()?.strip_prefix("refs/heads/"));
    let from_here = |message: &str| {
        let place = message.strip_prefix("WIP on ").or_else(|| message.strip_prefix("On "));
        let place = place.and_then(|rest| rest.split_once(": ")).map(|(place, _)| place);
        match place {
            Some(place) => {
                place == record.branch || Some(place) == current || place == "(no branch)"
            }
            // `git stash store` with a message of its own: nobody knows.
            None => true,
        }
    };
    let count = repo
        .stashes()?
        .iter()
        .filter(|stash| !record.stashes.contains(&stash.oid) && from_here(&stash.message))
        .count();
    Ok((count > 0).then(|| format!("{count} stashed from it (git stash list)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_heads_name_commits() {
        let (short, long) = ("a1".repeat(20), "b2".repeat(32));
        let count = |name: &str, text: &str| named_in(name, text.as_bytes()).len();
        for oid in [&short, &long] {
            for name in NO_HEADS {
                assert_eq!(count(name, &format!("{oid}\n")), 0, "{name}");
            }
            assert_eq!(count("ORIG_HEAD", &format!("{oid}\n")), 1);
            // Somebody's own ref, and somebody's own notes.
            assert_eq!(count("KEEP", &format!("{oid}\n")), 1);
            assert_eq!(count("NOTES", &format!("fix\n\n{oid}\n")), 0);
        }
        let fetched = format!("{short}\t\tbranch 'a'\n{short}\tnot-for-merge\tbranch 'b'\n");
        assert_eq!(count("FETCH_HEAD", &fetched), 2);
        assert_eq!(count("HEAD", "ref: refs/heads/x\n"), 0);
    }
}

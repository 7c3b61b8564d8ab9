//! Bringing work home: `worktree diff`, `merge` and `rm`.
//!
//! With several names each is done by itself: one that cannot be is told on stderr and the others
//! go on; the exit code is that of the first that could not. With one name and `--json` the answer
//! is one object, with several a line for each.

use std::io::IsTerminal as _;

use greenroom_client::method;
use greenroom_protocol::api::fence::{
    CleanAction, MergeAction, WorktreeDiffParams, WorktreeMergeParams, WorktreeMergeResult,
    WorktreeRemoveParams, WorktreeRemoveResult,
};

use super::super::Context;
use super::super::ls::at_home;
use crate::error::{ExitResult, Failure};
use crate::output::{Tone, count, one_line};

/// How to merge.
pub struct Merge {
    pub into: Option<String>,
    pub squash: bool,
    pub message: Option<String>,
}

pub async fn diff(
    worktrees: Vec<String>,
    stat: bool,
    base: Option<String>,
    context: &Context,
) -> ExitResult {
    let host = context.host().await?;
    let several = worktrees.len() > 1;
    let mut failures = Failures::default();
    for worktree in worktrees {
        let attempt = format!("compare {worktree}");
        let params = WorktreeDiffParams { worktree, cwd: cwd(), base: base.clone(), stat };
        let diff = match host.call::<method::WorktreeDiff>(&params, &attempt).await {
            Ok(diff) => diff,
            Err(failure) => {
                failures.add(failure, context);
                continue;
            }
        };
        if several && !context.out.json {
            let commits = count(diff.commits, "commit");
            let head = format!("{} ({}, {commits})", one_line(&diff.slug), diff.branch);
            context.out.line(&context.out.paint(Tone::Head, &head))?;
        }
        context.out.answer(&diff, || shown(&diff.diff))?;
        if diff.diff.is_empty() {
            context.out.note(&format!("{}: no difference", one_line(&diff.slug)));
        }
        for note in &diff.notes {
            context.out.note(&format!("note: {}: {}", diff.slug, one_line(note)));
        }
        if diff.truncated {
            let why = format!("cannot show all of {}: the difference is too long", diff.slug);
            let look = format!("git -C {} diff {}", diff.path, diff.base);
            failures.add(Failure::failed(why).hint(format!("--stat, or {look}")), context);
        }
    }
    failures.last()
}

pub async fn merge(worktrees: Vec<String>, how: &Merge, context: &Context) -> ExitResult {
    let host = context.host().await?;
    let mut failures = Failures::default();
    for worktree in worktrees {
        let attempt = format!("merge {worktree}");
        let params = WorktreeMergeParams {
            worktree,
            cwd: cwd(),
            into: how.into.clone(),
            squash: how.squash,
            message: how.message.clone(),
        };
        match host.call::<method::WorktreeMerge>(&params, &attempt).await {
            Ok(merged) => {
                context.out.answer(&merged, || merged_line(&merged))?;
                for note in &merged.notes {
                    context.out.note(&format!("note: {}: {}", merged.slug, one_line(note)));
                }
            }
            Err(failure) => failures.add(failure, context),
        }
    }
    failures.last()
}

fn merged_line(merged: &WorktreeMergeResult) -> String {
    let WorktreeMergeResult { slug, into, .. } = merged;
    let commit = merged.commit.get(..10).unwrap_or(&merged.commit);
    let commits = count(merged.commits, "commit");
    match merged.action {
        MergeAction::Nothing => format!("{slug}: nothing to merge, {into} has it all"),
        MergeAction::FastForward => {
            format!("{slug}: {into} moved forward to {commit} ({commits})")
        }
        MergeAction::Merged => format!("{slug}: merged into {into} as {commit} ({commits})"),
        MergeAction::Squashed => {
            format!("{slug}: squashed into {into} as {commit} ({commits} in one)")
        }
    }
}

pub async fn remove(worktrees: Vec<String>, force: bool, context: &Context) -> ExitResult {
    let host = context.host().await?;
    let mut failures = Failures::default();
    for worktree in worktrees {
        let attempt = format!("remove the worktree {worktree}");
        let params = WorktreeRemoveParams { worktree, cwd: cwd(), force };
        match host.call::<method::WorktreeRemove>(&params, &attempt).await {
            Ok(removed) if removed.worktree.action == CleanAction::Removed => {
                context.out.answer(&removed, || removed_lines(&removed))?;
            }
            Ok(removed) => failures.add(stays(&removed, force), context),
            Err(failure) => failures.add(failure, context),
        }
    }
    failures.last()
}

fn removed_lines(removed: &WorktreeRemoveResult) -> String {
    let entry = &removed.worktree;
    let mut lines =
        vec![format!("removed {} ({}, branch {})", entry.slug, at_home(&entry.path), entry.branch)];
    lines.extend(entry.why.iter().map(|why| format!("  would have been lost: {}", one_line(why))));
    if let Some(kept) = &removed.kept_as {
        lines.push(format!("  kept as {kept}; git branch NAME {kept} brings it back"));
    }
    lines.join("\n")
}

fn stays(removed: &WorktreeRemoveResult, force: bool) -> Failure {
    let entry = &removed.worktree;
    let slug = &entry.slug;
    let why: Vec<String> = entry.why.iter().map(|why| one_line(why)).collect();
    let why = why.join("; ");
    let mut failure = match entry.action {
        CleanAction::InUse => {
            let session = why.split_whitespace().nth(1).unwrap_or_default().to_owned();
            Failure::failed(format!("cannot remove the worktree {slug}: {why}"))
                .hint(format!("end it first with greenroom kill {session}"))
        }
        _ if force => Failure::failed(format!("cannot remove the worktree {slug}: {why}"))
            .hint(format!("no commit could hold that: look at it in {}", entry.path)),
        _ => Failure::failed(format!("cannot remove the worktree {slug}: it holds work: {why}"))
            .hint(format!(
                "greenroom worktree merge {slug}, or rm --force, which keeps it in a ref"
            )),
    };
    if let Ok(serde_json::Value::Object(more)) = serde_json::to_value(entry) {
        failure.data = more;
    }
    failure
}

/// The failures so far. Each is told when the next comes; the last is left for `main` to tell.
#[derive(Default)]
struct Failures {
    last: Option<Failure>,
    /// The exit code of the first failure.
    exit: Option<u8>,
}

impl Failures {
    fn add(&mut self, failure: Failure, context: &Context) {
        self.exit.get_or_insert(failure.exit);
        if let Some(before) = self.last.replace(failure) {
            context.out.failure(&before);
        }
    }

    fn last(self) -> ExitResult {
        match (self.last, self.exit) {
            (Some(failure), Some(exit)) => Err(Failure { exit, ..failure }),
            _ => Ok(0),
        }
    }
}

pub fn cwd() -> Option<String> {
    std::env::current_dir().ok()?.to_str().map(str::to_owned)
}

/// A diff holds text of agents, which must not drive the terminal; a pipe gets it unchanged.
fn shown(text: &str) -> String {
    if !std::io::stdout().is_terminal() {
        return text.to_owned();
    }
    let visible = |c: char| match c {
        '\n' | '\t' => c.to_string(),
        c if c.is_control() => c.escape_unicode().to_string(),
        // Marks that turn the direction of what follows.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => c.escape_unicode().to_string(),
        c => c.to_string(),
    };
    text.chars().map(visible).collect()
}
